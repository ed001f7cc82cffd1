package main

import (
	"github.com/symphony-cron/symphony/cmd/symphony/internal/demo"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/urfave/cli/v2"
)

func demoCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "demo", Usage: "watch passes take five issues of a made-up project to their handoff; needs no account",
		UsageText: "symphony demo [flags]",
		Description: "Runs real passes with real detached workers on a small Linear server on loopback, a git repository and a\n" +
			"WORKFLOW.md in a temporary folder. The agent is a script unless --agent codex asks for the real one.\n\n" +
			exampleText("symphony demo --rm"),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "agent", Value: "scripted", Usage: "scripted, or codex for the real one (needs it installed and logged in)"},
			&cli.BoolFlag{Name: "rm", Usage: "remove the temporary folder at the end"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return exit.Usage("demo: unexpected argument %q", c.Args().First())
			}
			agent := c.String("agent")
			if agent != "scripted" && agent != "codex" {
				return exit.Usage("demo: --agent must be scripted or codex, not %q", agent)
			}
			return demo.Run(c.Context, w, agent == "codex", c.Bool("rm"))
		},
	}
}

// demoAgentCommand is the scripted agent, a separate process that speaks codex's protocol.
func demoAgentCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "demo-agent", Hidden: true, SkipFlagParsing: true, Usage: "the scripted agent of symphony demo",
		Action: func(c *cli.Context) error {
			if code := demo.Agent(c.Args().Slice(), w); code != 0 {
				return exit.Only(code)
			}
			return nil
		},
	}
}
