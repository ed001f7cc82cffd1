package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
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
	near := ""
	if len(nameOf(flag)) > 1 {
		near = suggest.Nearest(nameOf(flag), longFlags(c))
	}
	if near != "" {
		return exit.Usage("%s: unknown flag %s, did you mean %s?", c.Name, flag, dashed(near))
	}
	return exit.Usage("%s: unknown flag %s; %s", c.Name, flag, flagsOf(c))
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

// flagsOf lists the flags of a command, those that most commands have at the end.
func flagsOf(c *cli.Command) string {
	list := text.Filter(longFlags(c), func(flag string) bool { return !slices.Contains(usualFlags, flag) })
	list = text.Map(list, dashed)
	if flagOf(c, "json") != nil {
		list = append(list, "--json")
	}
	if flagOf(c, allProjects) != nil && c.Name != "init" {
		list = append(list, "--project all")
	}
	if flagOf(c, "workflow") != nil {
		list = append(list, "-w FILE")
	}
	switch len(list) {
	case 0:
		return "it takes none"
	case 1:
		return "there is only " + list[0]
	}
	return "there are " + strings.Join(list, ", ")
}

// usualFlags are flags of most commands, which stand at the end of a list, or not at all.
var usualFlags = []string{"workflow", "state-dir", "json", "help", allProjects}
