package main

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/schedule"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/urfave/cli/v2"
)

var scheduleVerbs = []string{"show", "install", "remove", "status"}

func scheduleCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:        "schedule",
		Usage:       "run passes from a systemd timer, launchd or cron",
		UsageText:   usageText("schedule", strings.Join(scheduleVerbs, "|")),
		Description: helpText("schedule", "symphony schedule install -w ~/web-shop/WORKFLOW.md"),
		Flags: workflowFlags(jsonFlagsOf([]jsonDocument{{"status", reflect.TypeFor[schedule.Status]()}},
			&cli.BoolFlag{
				Name:  "system",
				Usage: "install a timer of the whole system, as root",
			},
			&cli.StringFlag{
				Name:        "run-as",
				Usage:       "with --system: the `ACCOUNT` that passes run as",
				DefaultText: "the caller of sudo, or you",
			},
			&cli.BoolFlag{Name: "cron", Usage: "use a line in your crontab"},
		)...),
		Action: onProject(w, []string{strings.Join(scheduleVerbs, "|")}, runScheduleVerb(w)),
	}
}

func runScheduleVerb(w *term.Env) func(*cli.Context, *wiring.Project, []string) error {
	return func(c *cli.Context, p *wiring.Project, args []string) error {
		o := schedule.Options{
			System: c.Bool("system"),
			Cron:   c.Bool("cron"),
			RunAs:  c.String("run-as"),
		}
		err := firstError(checkVerb(w, args[0]), onlyOne(c, "system", "cron"), onlyWith(c, "system", "run-as"))
		if err != nil {
			return err
		}
		return runSchedule(c.Context, w, p, args[0], o)
	}
}

// checkVerb refuses an unknown subcommand, and --json with others than status.
func checkVerb(w *term.Env, verb string) error {
	switch {
	case !slices.Contains(scheduleVerbs, verb):
		return unknownSubcommand("schedule", verb, scheduleVerbs)
	case w.JSON && verb != "status":
		return exit.Usage("schedule: --json works only with status")
	}
	return nil
}

func runSchedule(
	ctx context.Context,
	w *term.Env,
	p *wiring.Project,
	verb string,
	o schedule.Options,
) error {
	switch verb {
	case "show":
		written, changes, err := schedule.Text(ctx, p, o)
		fmt.Fprint(w.Stdout, written)
		return scheduleResult(w, changes, err)
	case "install":
		changes, err := schedule.Install(ctx, p, o)
		return scheduleResult(w, changes, err)
	case "remove":
		changes, err := schedule.Remove(ctx, p, o)
		return scheduleResult(w, changes, err)
	}
	status, err := schedule.ReadStatus(ctx, p)
	if err != nil {
		return err
	}
	hasProblems := render.Schedule(w, status)
	if hasProblems {
		return exit.Only(exit.Failed)
	}
	return nil
}

// scheduleResult prints what was changed, also before an error.
func scheduleResult(w *term.Env, changes schedule.Changes, err error) error {
	render.ScheduleChanges(w, changes)
	return render.ScheduleError(w, err)
}
