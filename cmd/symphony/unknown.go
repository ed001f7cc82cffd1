package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// firstWords are words that many people type first, each with the command that does it.
var firstWords = map[string]string{
	"abort":     "stop",
	"add":       "issues new",
	"allow":     "approve",
	"cancel":    "stop",
	"clean":     "prune",
	"comment":   "tell",
	"config":    "check",
	"continue":  "resume",
	"cost":      "report",
	"create":    "issues new",
	"cron":      "schedule",
	"daemon":    "schedule",
	"dashboard": "serve",
	"describe":  "show",
	"get":       "show",
	"health":    "status",
	"info":      "show",
	"inspect":   "show",
	"install":   "schedule",
	"kill":      "stop",
	"lint":      "check",
	"list":      "ps",
	"log":       "logs",
	"ls":        "ps",
	"message":   "tell",
	"new":       "issues new",
	"reject":    "deny",
	"rerun":     "retry",
	"restart":   "retry",
	"setup":     "init",
	"start":     "run",
	"stats":     "report",
	"suspend":   "pause",
	"tail":      "logs",
	"tasks":     "issues",
	"up":        "tick",
	"usage":     "report",
	"validate":  "check",
	"view":      "show",
	"web":       "serve",
}

// unknownCommand is the error for a word that is no command of ours.
func unknownCommand(app *cli.App, word string) error {
	var names []string
	for _, c := range app.Commands {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	meant := firstWords[strings.ToLower(word)]
	if meant == "" {
		meant = suggest.Nearest(word, names)
	}
	if meant != "" {
		return exit.Usage("unknown command %q, did you mean %q?", word, meant)
	}
	return reconcile.NewError("usage", fmt.Sprintf("unknown command %q", word), "symphony help lists the commands").
		WithNext(reconcile.StepReadHelp)
}

// unknownSubcommand is the error for a word that is none of the subcommands of a command.
func unknownSubcommand(command, word string, known []string) error {
	return exit.Usage("%s: unknown subcommand %q, %s", command, word, suggest.Instead(word, known))
}

// unknownFlag is the error for a flag, as it was typed, that the command does not have.
func unknownFlag(c *cli.Command, flag string) error {
	if strings.Contains(flag, " ") {
		return exit.Usage("%s: %q begins with a dash: put it last, and -- before it", c.Name, flag)
	}
	near := suggest.Nearest(nameOf(flag), longFlags(c))
	if near != "" {
		return exit.Usage("%s: unknown flag %s, did you mean %s?", c.Name, flag, dashed(near))
	}
	known := strings.Join(text.Map(longFlags(c), dashed), ", ")
	return exit.Usage("%s: unknown flag %s; known are %s", c.Name, flag, known)
}

// dashed is a flag as it is typed.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// longFlags returns the first name of each flag of a command.
func longFlags(c *cli.Command) []string {
	return text.Map(c.Flags, func(f cli.Flag) string { return f.Names()[0] })
}

// withProjects adds to the error about an issue that is not here how to find the account's other
// projects.
func withProjects(w *term.Env, c *cli.Command, err error) error {
	missing, isKnown := errors.AsType[*reconcile.Error](err)
	if !isKnown || missing.Code != "issue_not_found" || flagOf(c, "workflow") == nil {
		return err
	}
	all, listErr := wiring.StateDirs(w.Environment())
	if listErr != nil || len(all) < 2 {
		return err
	}
	placed := *missing
	placed.Hint += "; symphony projects lists the other projects, of which -w FILE names one"
	return &placed
}
