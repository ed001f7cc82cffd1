package main

import (
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/urfave/cli/v2"
)

func statusCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "print one line and an exit code for monitoring",
		UsageText: usageText("status", "[WORKFLOW]"),
		Description: helpText(
			"status",
			"line=$(symphony status --project all) || echo \"$line\" | mail -s attention ann@example.com",
		),
		Flags: workflowFlags(jsonFlags[view.Judgement](
			projectFlag(),
		)...),
		Action: func(c *cli.Context) error {
			all, err := statusOverviews(w, c)
			if err != nil {
				return err
			}
			judged := view.NewJudgement(all)
			if w.JSON {
				w.PrintJSON(judged)
			} else {
				render.Status(w, all, judged.Verdict)
			}
			return statusErrors[judged.Level]
		},
	}
}

// statusErrors end the program with the exit codes of status.
var statusErrors = map[view.Level]error{
	view.LevelNeedsPerson: exit.Only(1),
	view.LevelNotTicking:  exit.Only(2),
}

// statusOverviews reads the overview of the project, or the overviews of all projects.
func statusOverviews(w *term.Env, c *cli.Context) ([]view.Overview, error) {
	_, positional, err := arguments(w, c)
	if err != nil {
		return nil, err
	}
	projects, err := chosenProjects(w, c, positional)
	if err != nil {
		return nil, err
	}
	if namesSeveral(c) {
		return view.ReadEach(c.Context, projects, view.Options{})
	}
	v, err := view.ReadUnstarted(c.Context, projects[0].Project)
	return []view.Overview{v}, err
}
