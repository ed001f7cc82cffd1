package main

import (
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/admin/demo"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/admin/setup"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/urfave/cli/v2"
)

// scripted is the agent of a demo that needs no account.
const scripted = "scripted"

func demoCommand(w *term.Env) *cli.Command {
	kinds := setup.AgentNames()
	return &cli.Command{
		Name:        "demo",
		Usage:       "try symphony on a sample project, without an account",
		UsageText:   "symphony demo [flags]",
		Description: helpText("demo", "symphony demo --agent claude"),
		Flags: []cli.Flag{
			&cli.StringFlag{
				Name:  "agent",
				Value: scripted,
				Usage: "the `AGENT`: scripted, or one that is installed and logged in: " + strings.Join(kinds, ", "),
			},
			&cli.StringFlag{
				Name:        "model",
				Usage:       "the `MODEL` of that agent",
				DefaultText: "the agent's own; opencode needs one",
			},
			&cli.BoolFlag{Name: "rm", Usage: "remove the temporary folder at the end"},
		},
		Action: func(c *cli.Context) error {
			agent := c.String("agent")
			model := c.String("model")
			switch {
			case c.NArg() > 0:
				return unexpected(c, c.Args().First())
			case agent != scripted && !slices.Contains(kinds, agent):
				return exit.Usage(
					"demo: --agent must be %s or %s, not %q",
					scripted,
					strings.Join(kinds, ", "),
					agent,
				)
			case model != "" && agent == scripted:
				return exit.Usage("demo: --model needs an --agent that is not scripted")
			case model == "" && workflow.NeedsModel(agent):
				return exit.Usage("demo: --agent %s needs --model, such as anthropic/claude-opus-5", agent)
			}
			if agent == scripted {
				agent = ""
			}
			return demo.Run(c.Context, w, demo.Options{
				Agent:  agent,
				Model:  model,
				Remove: c.Bool("rm"),
			})
		},
	}
}

// demoAgentCommand is the scripted agent, a separate process that speaks the protocol of an agent.
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
