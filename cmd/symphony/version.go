package main

import (
	"fmt"
	"runtime"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/urfave/cli/v2"
)

// versionJSON is what version --json prints.
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
		Name: "version", Usage: "print the version, the commit and its date",
		UsageText:   "symphony version [flags]",
		Description: exampleText("symphony version --json"),
		Flags:       jsonFlags[versionJSON](),
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return exit.Usage("version: unexpected argument %q", c.Args().First())
			}
			b := project.ReadBuild()
			if w.JSON {
				w.PrintJSON(versionJSON{
					b.Version, text.OrNull(b.Commit), text.OrNull(b.Date), b.Modified, runtime.Version(), runtime.GOOS, runtime.GOARCH,
				})
				return nil
			}
			fmt.Fprintf(w.Stdout, "symphony %s %s %s/%s\n", b, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}
