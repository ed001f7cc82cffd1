package main

import (
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/worker"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/urfave/cli/v2"
)

// agentToolsCommand is the MCP server that agents start to reach symphony's tools. Only an
// agent of a run starts it.
func agentToolsCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      worker.ToolsCommand,
		Hidden:    true,
		ArgsUsage: "SOCKET",
		Usage:     "relay between an agent and its worker (started by an agent)",
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return exit.Usage("symphony agent-tools is started by an agent")
			}
			return worker.RelayTools(c.Context, c.Args().First(), w.Stdin, w.Stdout)
		},
	}
}
