package main

import (
	"github.com/symphony-cron/symphony/cmd/symphony/internal/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
	"github.com/urfave/cli/v2"
)

func holdCommand(w *term.Env) *cli.Command {
	return issueCommand(w, "hold", "start no further run for an issue; the present one may end", reconcile.VerbHold)
}

func retryCommand(w *term.Env) *cli.Command {
	return issueCommand(w, "retry", "clear an issue's hold, counters and backoff; it is due now", reconcile.VerbRetry)
}

func pauseCommand(w *term.Env) *cli.Command {
	return projectCommand(w, "pause", "start nothing new; what runs may end", reconcile.VerbPause)
}

func resumeCommand(w *term.Env) *cli.Command {
	return projectCommand(w, "resume", "start new runs again", reconcile.VerbResume)
}

func issueCommand(w *term.Env, name, usage string, verb reconcile.Verb) *cli.Command {
	return &cli.Command{
		Name: name, Usage: usage, UsageText: usageText(name, "ISSUE [WORKFLOW]"),
		Description: exampleText("symphony " + name + " ABC-7"),
		Flags:       workflowFlags(&cli.BoolFlag{Name: "json", Usage: "print the pass as JSON"}),
		Action: func(c *cli.Context) error {
			w.JSON = c.Bool("json")
			args, positional, err := arguments(c, "ISSUE")
			if err != nil {
				return err
			}
			p, err := openProject(w, c, positional)
			if err != nil {
				return err
			}
			return operate.WithDatabase(c.Context, p, verb, func(db *state.DB) error {
				id, identifier, err := project.FindIssueIn(c.Context, p, db, args[0])
				if err != nil {
					return err
				}
				return operate.ApplyIn(c.Context, p, db, reconcile.Command{Verb: verb, IssueID: id, Identifier: identifier}, id)
			})
		},
	}
}

func projectCommand(w *term.Env, name, usage string, verb reconcile.Verb) *cli.Command {
	return &cli.Command{
		Name: name, Usage: usage, UsageText: usageText(name, "[WORKFLOW]"),
		Description: exampleText("symphony " + name),
		Flags:       workflowFlags(&cli.BoolFlag{Name: "json", Usage: "print the pass as JSON"}),
		Action:      func(c *cli.Context) error { return projectVerb(c, w, verb) },
	}
}

func projectVerb(c *cli.Context, w *term.Env, verb reconcile.Verb) error {
	w.JSON = c.Bool("json")
	_, positional, err := arguments(c)
	if err != nil {
		return err
	}
	p, err := openProject(w, c, positional)
	if err != nil {
		return err
	}
	return operate.Apply(c.Context, p, reconcile.Command{Verb: verb}, pass.NoIssue)
}
