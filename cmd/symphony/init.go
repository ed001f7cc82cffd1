package main

import (
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/admin/setup"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/urfave/cli/v2"
)

func initFlags() []cli.Flag {
	const proposed = "proposed from what the tracker has"
	trackers := setup.TrackerNames()
	examples := strings.Join(setup.ExampleNames, ", ")
	const usage = "write the workflow `FILE` (default: $SYMPHONY_WORKFLOW, or WORKFLOW.md here)"
	shared := []cli.Flag{workflowFlag(usage, "output", "o"), stateDirFlag()}
	return append(shared, jsonFlags[setup.JSON](
		&cli.StringFlag{
			Name:        "tracker",
			Usage:       "the `KIND` of tracker: " + strings.Join(trackers, ", "),
			DefaultText: "asked for on a terminal, otherwise " + trackers[0],
		},
		&cli.StringFlag{
			Name:        "example",
			Usage:       "`NAME` of the example to start from: " + examples,
			DefaultText: setup.ExampleNames[0] + ", or pull-request on a known host",
		},
		&cli.StringFlag{
			Name:        "agent",
			Usage:       "the `KIND` of agent: " + strings.Join(setup.AgentNames(), ", "),
			DefaultText: setup.AgentNames()[0],
		},
		&cli.StringFlag{
			Name:        "model",
			Usage:       "the `MODEL` of agents",
			DefaultText: "the agent's own; opencode needs one",
		},
		&cli.StringFlag{
			Name:  "path",
			Usage: "with --tracker file the `DIRECTORY` of the issues",
			DefaultText: setup.DefaultPath +
				", or the folder of Backlog.md",
		},
		&cli.StringFlag{
			Name:  "key-file",
			Usage: "the `FILE` with the key or token of the tracker; - is stdin",
		},
		&cli.StringFlag{
			Name: "project",
			Usage: "the `PROJECT` of the tracker: an address or id in Linear, OWNER/NAME on GitHub and Gitea, " +
				"GROUP/PROJECT on GitLab, a key in Jira",
		},
		&cli.StringFlag{
			Name:  "team",
			Usage: "the `KEY` of a Linear team, in place of --project",
		},
		&cli.StringFlag{
			Name:  "repository",
			Usage: "the `URL` or directory of the git repository; not OWNER/NAME",
		},
		&cli.StringFlag{
			Name:        "active-states",
			Usage:       "the `STATES` in which agents work, separated by commas",
			DefaultText: proposed,
		},
		&cli.StringFlag{
			Name:        "review-state",
			Usage:       "the `STATE` to which agents hand over",
			DefaultText: proposed,
		},
		&cli.StringFlag{
			Name:        "label",
			Usage:       "the `LABEL` of issues for agents",
			DefaultText: setup.DefaultLabel + "; with --tracker file none",
		},
		&cli.StringFlag{
			Name:        "root",
			Usage:       "the `DIRECTORY` for workspaces",
			DefaultText: "~/symphony/PROJECT",
		},
		&cli.StringFlag{
			Name:        "endpoint",
			Usage:       "the `URL` of the tracker's API; of Jira the site",
			DefaultText: "the tracker's own",
		},
		&cli.StringFlag{
			Name:  "email",
			Usage: "the `EMAIL` of the Jira account",
		},
	)...)
}

func initCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:        "init",
		Usage:       "write WORKFLOW.md, and store the tracker's key",
		UsageText:   usageText("init", "[WORKFLOW]"),
		Description: helpPart("init"),
		Flags:       initFlags(),
		Action: onProject(w, nil, func(c *cli.Context, p *wiring.Project, _ []string) error {
			return setup.Run(c.Context, w, p, setup.Options{
				Tracker:      c.String("tracker"),
				Path:         c.String("path"),
				Example:      c.String("example"),
				Agent:        c.String("agent"),
				Model:        c.String("model"),
				KeyFile:      c.String("key-file"),
				Project:      c.String("project"),
				Team:         c.String("team"),
				Repository:   c.String("repository"),
				ActiveStates: c.String("active-states"),
				ReviewState:  c.String("review-state"),
				Label:        c.String("label"),
				Root:         c.String("root"),
				Endpoint:     c.String("endpoint"),
				Email:        c.String("email"),
				StateDirSet:  c.String("state-dir") != "",
			})
		}),
	}
}
