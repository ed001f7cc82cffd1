package main

import (
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/confined"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/urfave/cli/v2"
)

// sandboxInitCommand is the first process of an agent's sandbox. Only bubblewrap starts it.
func sandboxInitCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:            "sandbox-init",
		Hidden:          true,
		SkipFlagParsing: true, // the flags of the agent are not ours
		Usage:           "start an agent in its sandbox",
		Action:          func(c *cli.Context) error { return confined.Start(w.Stderr, c.Args().Slice()) },
	}
}
