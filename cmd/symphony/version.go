package main

import (
	"fmt"
	"runtime"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/urfave/cli/v2"
)

func versionCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "print the version",
		UsageText:   "symphony version [--json]",
		Description: exampleText("symphony version --json"),
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print JSON"}},
		Action: func(c *cli.Context) error {
			w.JSON = c.Bool("json")
			if c.NArg() > 0 {
				return exit.Usage("version: unexpected argument %q", c.Args().First())
			}
			if w.JSON {
				w.PrintJSON(map[string]string{"version": project.Version(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
				return nil
			}
			fmt.Fprintf(w.Stdout, "symphony %s %s %s/%s\n", project.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}
