// Package confined starts an agent as the first process of its sandbox, by the hidden command
// symphony sandbox-init.
package confined

import (
	"fmt"
	"io"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host/sandbox"
)

// Start starts the agent that the arguments name, waits for its end, and returns its exit code
// as an error. It works only as the first process of a sandbox.
func Start(stderr io.Writer, args []string) error {
	o, err := sandbox.ParseInit(args)
	if err != nil {
		return exit.Usage("%s", err)
	}
	code, err := sandbox.Init(o)
	if err != nil {
		fmt.Fprintln(stderr, "symphony: "+text.Visible(err.Error()))
	}
	return exit.Only(code)
}
