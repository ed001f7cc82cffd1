package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// newApp lists the commands. urfave/cli stays in this folder, and main alone turns errors into exit codes.
func newApp(w *world) *cli.App {
	app := &cli.App{
		Name:            "symphony",
		Usage:           "turn a Linear project into finished work, one pass at a time",
		HideVersion:     true,
		HideHelpCommand: false,
		Reader:          w.stdin,
		Writer:          w.stdout,
		ErrWriter:       w.stderr,
		ExitErrHandler:  func(*cli.Context, error) {},
		OnUsageError:    func(_ *cli.Context, err error, _ bool) error { return usageError("%s", err) },
		Commands: []*cli.Command{
			tickCommand(w), runCommand(w), psCommand(w), logsCommand(w),
			stopCommand(w), holdCommand(w), retryCommand(w), pauseCommand(w), resumeCommand(w),
			promptCommand(w), checkCommand(w), demoCommand(w), versionCommand(w),
			workerCommand(w), demoAgentCommand(w),
		},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return unknownCommand(c.App, c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
	}
	for _, c := range app.Commands {
		c.OnUsageError = app.OnUsageError
		c.HideHelpCommand = true
	}
	return app
}

// later lists commands of the design that are not built yet: refused by name, so that nobody takes a
// silence for an answer.
var later = []string{"show", "approve", "deny", "answer", "doctor", "init", "schedule", "report", "projects", "prune", "takeover", "serve", "completion"}

func unknownCommand(app *cli.App, name string) error {
	if slices.Contains(later, name) {
		return usageError("%s is not built yet", name)
	}
	best, distance := "", 3
	for _, c := range app.Commands {
		if d := editDistance(name, c.Name); !c.Hidden && d < distance {
			best, distance = c.Name, d
		}
	}
	if best != "" {
		return usageError("unknown command %q, did you mean %q?", name, best)
	}
	return usageError("unknown command %q", name)
}

// editDistance is Levenshtein's, over bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		previous := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := previous
			if a[i-1] != b[j-1] {
				cost = 1 + min(previous, row[j], row[j-1])
			}
			previous, row[j] = row[j], cost
		}
	}
	return row[len(b)]
}

// workflowFlags are understood by every command about a project.
func workflowFlags(more ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "workflow", Aliases: []string{"w"}, Usage: "the workflow `FILE` (default: $SYMPHONY_WORKFLOW, ./WORKFLOW.md)"},
		&cli.StringFlag{Name: "state-dir", Usage: "the state `DIRECTORY` (default: $SYMPHONY_STATE_DIR, else under ~/.local/state)"},
	}, more...)
}

// arrange puts a command's flags before its arguments, because urfave/cli takes what follows an argument
// for another argument, silently. A flag may also stand before the command.
func arrange(app *cli.App, args []string) ([]string, error) {
	if len(args) < 2 {
		return args, nil
	}
	at := commandAt(app, args)
	if at < 0 {
		return args, nil
	}
	command := app.Command(args[at])
	if command.SkipFlagParsing {
		return args, nil
	}
	var flags, plain []string
	rest := slices.Concat(args[1:at], args[at+1:])
	for i := 0; i < len(rest); i++ {
		arg := rest[i]
		switch {
		case arg == "--":
			plain = append(plain, rest[i+1:]...)
			i = len(rest)
		case len(arg) > 1 && arg[0] == '-':
			flags = append(flags, arg)
			if takesValue(command, arg) {
				if i+1 == len(rest) {
					return nil, usageError("%s: flag %s needs a value", command.Name, arg)
				}
				i++
				flags = append(flags, rest[i])
			}
		default:
			plain = append(plain, arg)
		}
	}
	out := append([]string{args[0], command.Name}, flags...)
	return append(append(out, "--"), plain...), nil
}

// commandAt finds the first word that is neither a flag nor the value of a shared one.
func commandAt(app *cli.App, args []string) int {
	shared := &cli.Command{Flags: workflowFlags()}
	for i := 1; i < len(args); i++ {
		if len(args[i]) > 1 && args[i][0] == '-' {
			if takesValue(shared, args[i]) {
				i++
			}
			continue
		}
		if app.Command(args[i]) == nil || args[i] == "help" {
			return -1
		}
		return i
	}
	return -1
}

// takesValue reports whether the flag's value is the next word.
func takesValue(c *cli.Command, arg string) bool {
	name := strings.TrimLeft(arg, "-")
	if strings.Contains(name, "=") {
		return false
	}
	for _, f := range c.Flags {
		if slices.Contains(f.Names(), name) {
			_, isBool := f.(*cli.BoolFlag)
			return !isBool
		}
	}
	return false
}

// arguments checks the number of arguments and takes the workflow off their end.
func arguments(c *cli.Context, names ...string) ([]string, string, error) {
	args := c.Args().Slice()
	switch {
	case len(args) < len(names):
		return nil, "", usageError("%s: %s is missing", c.Command.Name, names[len(args)])
	case len(args) > len(names)+1:
		return nil, "", usageError("%s: unexpected argument %q", c.Command.Name, args[len(names)+1])
	case len(args) == len(names)+1:
		return args[:len(names)], args[len(names)], nil
	}
	return args, "", nil
}

// usageText is a command's line in its help.
func usageText(name, args string) string { return fmt.Sprintf("symphony %s [flags] %s", name, args) }
