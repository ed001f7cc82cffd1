package main

import (
	"github.com/symphony-cron/symphony/cmd/symphony/internal/admin/demo"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/urfave/cli/v2"
)

func demoCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:        "demo",
		Usage:       "try symphony on a sample project, without an account",
		UsageText:   "symphony demo [flags] [REPOSITORY]",
		Description: helpText("demo", "symphony demo --rm", "symphony demo --agent codex ~/src/web-shop"),
		Flags: []cli.Flag{
			&cli.StringFlag{
				Name:  "agent",
				Value: "scripted",
				Usage: "the `AGENT`: scripted, or codex, which must be installed and logged in",
			},
			&cli.BoolFlag{Name: "rm", Usage: "remove the temporary folder at the end"},
		},
		Action: func(c *cli.Context) error {
			agent := c.String("agent")
			switch {
			case c.NArg() > 1:
				return exit.Usage("demo: unexpected argument %q", c.Args().Get(1))
			case agent != "scripted" && agent != "codex":
				return exit.Usage("demo: --agent must be scripted or codex, not %q", agent)
			case c.NArg() == 1 && agent == "scripted":
				return exit.Usage(
					"demo: the scripted agent can't work on a repository of yours: add --agent codex",
				)
			case c.NArg() == 1 && c.Bool("rm"):
				return exit.Usage("demo: --rm would remove the copy of the repository with the work")
			}
			return demo.Run(c.Context, w, demo.Options{
				RealAgent:  agent == "codex",
				Repository: c.Args().First(),
				Remove:     c.Bool("rm"),
			})
		},
	}
}

// demoAgentCommand is the scripted agent, a separate process that speaks codex's protocol.
func demoAgentCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:            "demo-agent",
		Hidden:          true,
		SkipFlagParsing: true,
		Usage:           "the scripted agent of symphony demo",
		Action: func(c *cli.Context) error {
			if code := demo.Agent(c.Args().Slice(), w); code != 0 {
				return exit.Only(code)
			}
			return nil
		},
	}
}
