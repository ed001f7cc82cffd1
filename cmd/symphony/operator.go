package main

import (
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/urfave/cli/v2"
)

func holdCommand(w *term.Env) *cli.Command {
	return verbCommand(w, reconcile.VerbHold, "start no further run for an issue; the present one may end", "ISSUE")
}

func retryCommand(w *term.Env) *cli.Command {
	return verbCommand(w, reconcile.VerbRetry, "clear an issue's hold, counters and backoff; it is due now", "ISSUE")
}

func pauseCommand(w *term.Env) *cli.Command {
	return verbCommand(w, reconcile.VerbPause, "start nothing new; what runs may end")
}

func resumeCommand(w *term.Env) *cli.Command {
	return verbCommand(w, reconcile.VerbResume, "start new runs again")
}

// verbCommand stores a command for the next pass, and runs that pass. Its arguments are an issue, or nothing.
func verbCommand(w *term.Env, verb reconcile.Verb, usage string, names ...string) *cli.Command {
	name, arguments, example := string(verb), "[WORKFLOW]", "symphony "+string(verb)
	if len(names) > 0 {
		arguments, example = "ISSUE "+arguments, example+" ABC-7"
	}
	return &cli.Command{
		Name: name, Usage: usage, UsageText: usageText(name, arguments), Description: exampleText(example),
		Flags: workflowFlags(&cli.BoolFlag{Name: "json", Usage: "print the pass as JSON"}),
		Action: onProject(w, names, func(c *cli.Context, p *project.Project, args []string) error {
			return operate.Apply(c.Context, p, verb, strings.Join(args, ""))
		}),
	}
}
