package main

import (
	"fmt"
	"runtime"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/urfave/cli/v2"
)

// versionJSON is the output of version --json.
type versionJSON struct {
	Version  string  `json:"version"`
	Commit   *string `json:"commit"`   // null if the program was not built in a git repository
	Date     *string `json:"date"`     // of the commit
	Modified bool    `json:"modified"` // the source had changes that were not committed
	Go       string  `json:"go"`       // the version of Go that built the program
	OS       string  `json:"os"`
	Arch     string  `json:"arch"`
}

func versionCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:        "version",
		Usage:       "print the version, the commit and its date",
		UsageText:   "symphony version [flags]",
		Description: exampleText("symphony version --json"),
		Flags:       jsonFlags[versionJSON](),
		Action:      func(c *cli.Context) error { return versionAction(c, w) },
	}
}

func versionAction(c *cli.Context, w *term.Env) error {
	if c.NArg() > 0 {
		return unexpected(c, c.Args().First())
	}
	b := wiring.ReadBuild()
	if w.JSON {
		w.PrintJSON(versionJSON{
			Version:  b.Version,
			Commit:   text.OrNull(b.Commit),
			Date:     text.OrNull(b.Date),
			Modified: b.Modified,
			Go:       runtime.Version(),
			OS:       runtime.GOOS,
			Arch:     runtime.GOARCH,
		})
		return nil
	}
	fmt.Fprintf(
		w.Stdout,
		"symphony %s %s %s/%s\n",
		b,
		runtime.Version(),
		runtime.GOOS,
		runtime.GOARCH,
	)
	return nil
}
