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
		UsageText:   usageText("schedule", strings.Join(scheduleVerbs, "|")+" [WORKFLOW]"),
		Description: helpText("schedule", "symphony schedule install -w ~/web-shop/WORKFLOW.md"),
		Flags: workflowFlags(jsonFlagsOf([]jsonDocument{{"status", reflect.TypeFor[schedule.Status]()}},
			&cli.BoolFlag{
				Name:  "system",
				Usage: "install a timer of the whole system, not one of your account; only root can do that",
			},
			&cli.StringFlag{
				Name:        "run-as",
				Usage:       "with --system: the `ACCOUNT` that passes run as",
				DefaultText: "the caller of sudo, or you",
			},
			&cli.BoolFlag{Name: "cron", Usage: "use a line in your crontab, which runs a pass every minute"},
		)...),
		Action: func(c *cli.Context) error {
			for _, arg := range c.Args().Slice() {
				if isCalendar(arg) {
					return exit.Usage("schedule: unexpected argument %q: %s", arg, noTimes)
				}
			}
			return onProject(w, []string{strings.Join(scheduleVerbs, "|")}, runScheduleVerb(w))(c)
		},
	}
}

// noTimes says what becomes of the times that cron and systemd take.
const noTimes = "it takes no times: polling.interval_ms in WORKFLOW.md is the time between passes of a timer, and " +
	"--cron runs one every minute; for others write a line with symphony tick --trigger cron yourself (docs/scheduling.md)"

// isCalendar reports whether a word is a time of cron or systemd, such as */5 * * * * and hourly.
func isCalendar(word string) bool {
	isCron := len(strings.Fields(word)) >= 5 && strings.Trim(word, "0123456789*/,- ") == ""
	names := []string{"minutely", "hourly", "daily", "nightly", "weekly", "monthly", "weekdays"}
	return isCron || strings.HasPrefix(word, "*") || slices.Contains(names, strings.TrimPrefix(word, "@"))
}

func runScheduleVerb(w *term.Env) func(*cli.Context, *wiring.Project, []string) error {
	return func(c *cli.Context, p *wiring.Project, args []string) error {
		o := schedule.Options{
			System: c.Bool("system"),
			Cron:   c.Bool("cron"),
			RunAs:  c.String("run-as"),
		}
		if err := checkSchedule(w, args[0], o); err != nil {
			return err
		}
		return runSchedule(c.Context, w, p, args[0], o)
	}
}

// checkSchedule refuses an unknown subcommand, and flags that have no effect with it.
func checkSchedule(w *term.Env, verb string, o schedule.Options) error {
	switch {
	case !slices.Contains(scheduleVerbs, verb):
		if meant := meantBy(scheduleTasks, verb); meant != "" {
			return exit.Usage("schedule: unknown subcommand %q: %s", verb, meant)
		}
		return exit.Usage(
			"schedule: unknown subcommand %q%s; there are %s",
			verb,
			didYouMean(verb, scheduleSynonyms, scheduleVerbs, "%s"),
			strings.Join(scheduleVerbs, ", "),
		)
	case o.System && o.Cron:
		return exit.Usage("schedule: --system and --cron cannot be combined")
	case o.RunAs != "" && (!o.System || verb != "show" && verb != "install"):
		return exit.Usage("schedule: --run-as works only with --system and the subcommands show and install")
	case verb == "status" && (o.System || o.Cron):
		return exit.Usage("schedule: status covers every kind of schedule; leave out --system and --cron")
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

// scheduleTasks are what users of cron and systemctl expect of schedule.
var scheduleTasks = []foreignWord{
	{"list ls", "symphony projects lists the schedule of each project, symphony schedule status is about this one"},
	{"run trigger now once tick", "symphony tick runs a pass now"},
	{"logs log journal", "journalctl --user -u NAME shows them, and symphony schedule show has the NAME of the unit"},
	{"restart reload update reinstall", "symphony schedule install writes it again"},
	{
		"edit set change",
		"change polling.interval_ms in WORKFLOW.md, the time between passes, and symphony schedule install then " +
			"writes it again",
	},
	{"pause suspend", "symphony pause lets nothing new start, symphony schedule remove ends the passes"},
	{"resume unpause continue", "symphony resume lets runs start again, symphony schedule install installs passes"},
}

// scheduleSynonyms map other tools' names of the subcommands of schedule to ours.
var scheduleSynonyms = map[string]string{
	"add":       "install",
	"create":    "install",
	"delete":    "remove",
	"disable":   "remove",
	"enable":    "install",
	"off":       "remove",
	"on":        "install",
	"cat":       "show",
	"preview":   "show",
	"print":     "show",
	"rm":        "remove",
	"start":     "install",
	"stop":      "remove",
	"uninstall": "remove",
}
