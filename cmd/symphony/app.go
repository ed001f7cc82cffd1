package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/urfave/cli/v2"
)

// builder makes one command.
type builder struct {
	name  string
	build func(*term.Env) *cli.Command
}

// builders lists the commands in the order of the help.
func builders() []builder {
	return []builder{
		{"tick", tickCommand},
		{"run", runCommand},
		{"ps", psCommand},
		{"logs", logsCommand},
		{"show", showCommand},
		{"report", reportCommand},
		{"stop", stopCommand},
		{"hold", holdCommand},
		{"retry", retryCommand},
		{"pause", pauseCommand},
		{"resume", resumeCommand},
		{"takeover", takeoverCommand},
		{"prune", pruneCommand},
		{"projects", projectsCommand},
		{"approve", approveCommand},
		{"deny", denyCommand},
		{"answer", answerCommand},
		{"prompt", promptCommand},
		{"check", checkCommand},
		{"doctor", doctorCommand},
		{"init", initCommand},
		{"schedule", scheduleCommand},
		{"demo", demoCommand},
		{"completion", completionCommand},
		{"version", versionCommand},
		{"worker", workerCommand},
		{"demo-agent", demoAgentCommand},
		{"complete", completeCommand},
	}
}

// newApp has all commands.
func newApp(w *term.Env) *cli.App { return appOf(w, builders()) }

// appFor has the command that is named alone, where there is one of that name: to make them all takes 0.1 ms of a pass that
// lasts 5.
func appFor(w *term.Env, name string) *cli.App {
	all := builders()
	if at := slices.IndexFunc(all, func(b builder) bool { return b.name == name }); at >= 0 {
		all = all[at : at+1]
	}
	return appOf(w, all)
}

// urfave/cli stays in this folder, and main alone turns errors into exit codes.
func appOf(w *term.Env, builders []builder) *cli.App {
	app := &cli.App{
		Name:            "symphony",
		Usage:           "turn a Linear project into finished work, one pass at a time",
		UsageText:       "symphony COMMAND [flags] [arguments]",
		HideVersion:     true,
		HideHelpCommand: false,
		Reader:          w.Stdin,
		Writer:          w.Stdout,
		ErrWriter:       w.Stderr,
		ExitErrHandler:  func(*cli.Context, error) {},
		OnUsageError:    func(c *cli.Context, err error, _ bool) error { return flagError(c, err) },
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return unknownCommand(c.App, c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
	}
	for _, b := range builders {
		c := b.build(w)
		app.Commands = append(app.Commands, c)
		c.OnUsageError = app.OnUsageError
		c.HideHelpCommand = true
		for _, f := range c.Flags {
			if b, ok := f.(*cli.BoolFlag); ok {
				b.DisableDefaultText = true // "(default: false)" in every line
			}
		}
	}
	return app
}

// later lists commands of the design that are not built yet: refused by name, so that nobody takes a
// silence for an answer.
var later = []string{"serve"}

func unknownCommand(app *cli.App, name string) error {
	if slices.Contains(later, name) {
		return exit.Usage("%s is not built yet", name)
	}
	var names []string
	for _, c := range app.Commands {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	return exit.Usage("unknown command %q%s", name, text.DidYouMean(name, names, "%q"))
}

// flagError puts what the flag library says into our words: flags are written with two dashes here, and "parse
// error" tells nobody what to write instead.
func flagError(c *cli.Context, err error) error {
	text := err.Error()
	if name, unknown := strings.CutPrefix(text, "flag provided but not defined: -"); unknown {
		return unknownFlag(c.Command, name)
	}
	rest, ok := strings.CutPrefix(text, "invalid boolean value ")
	if !ok {
		rest, ok = strings.CutPrefix(text, "invalid value ")
	}
	value, quoteErr := strconv.QuotedPrefix(rest)
	_, name, named := strings.Cut(strings.TrimPrefix(rest, value), "-")
	if !ok || quoteErr != nil || !named {
		return exit.Usage("%s: %s", c.Command.Name, text)
	}
	name, _, _ = strings.Cut(name, ":")
	return exit.Usage("%s: --%s wants %s, not %s", c.Command.Name, name, wanted(c.Command, name), value)
}

// wanted says what values a flag takes.
func wanted(c *cli.Command, name string) string {
	switch flagOf(c, name).(type) {
	case *cli.DurationFlag:
		return "a duration such as 10s"
	case *cli.IntFlag, *cli.IntSliceFlag:
		return "a whole number"
	case *cli.BoolFlag:
		return "true or false"
	}
	return "another value"
}

func unknownFlag(c *cli.Command, name string) error {
	var known []string
	for _, f := range c.Flags {
		known = append(known, f.Names()[0])
	}
	dashes := "--"
	if len(name) == 1 {
		dashes = "-"
	}
	return exit.Usage("%s: unknown flag %s%s%s", c.Name, dashes, name, text.DidYouMean(name, known, "--%s"))
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
	at := commandAt(args)
	if at < 0 && flagOf(&cli.Command{Flags: workflowFlags()}, strings.TrimLeft(args[1], "-")) != nil {
		return nil, exit.Usage("no command is named")
	}
	if at < 0 || args[at] == "help" || args[at] == "h" {
		return args, nil
	}
	command := app.Command(args[at])
	if command == nil {
		return nil, unknownCommand(app, args[at])
	}
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
		case arg == "--help" || arg == "-help" || arg == "-h":
			// With an argument beside it the library would look for help about that.
			return []string{args[0], command.Name, "--help"}, nil
		case len(arg) > 1 && arg[0] == '-':
			flags = append(flags, arg)
			if takesValue(command, arg) {
				if i+1 == len(rest) {
					return nil, exit.Usage("%s: %s wants a value", command.Name, arg)
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
func commandAt(args []string) int {
	shared := &cli.Command{Flags: workflowFlags(portFlag())}
	for i := 1; i < len(args); i++ {
		if len(args[i]) < 2 || args[i][0] != '-' {
			return i
		}
		if takesValue(shared, args[i]) {
			i++
		}
	}
	return -1
}

// takesValue reports whether the flag's value is the next word.
func takesValue(c *cli.Command, arg string) bool {
	name := strings.TrimLeft(arg, "-")
	if strings.Contains(name, "=") {
		return false
	}
	f := flagOf(c, name)
	_, isBool := f.(*cli.BoolFlag)
	return f != nil && !isBool
}

func flagOf(c *cli.Command, name string) cli.Flag {
	for _, f := range c.Flags {
		if slices.Contains(namesOf(f), name) {
			return f
		}
	}
	return nil
}

// namesOf spares most flags the library's way to their names, which is by a regular expression.
func namesOf(f cli.Flag) []string {
	switch f := f.(type) {
	case *cli.StringFlag:
		return append([]string{f.Name}, f.Aliases...)
	case *cli.BoolFlag:
		return append([]string{f.Name}, f.Aliases...)
	}
	return f.Names()
}

// arguments checks the number of arguments and takes the workflow off their end.
func arguments(c *cli.Context, names ...string) ([]string, string, error) {
	args := c.Args().Slice()
	switch {
	case len(args) < len(names):
		return nil, "", exit.Usage("%s: %s is missing", c.Command.Name, names[len(args)])
	case len(args) > len(names)+1:
		return nil, "", exit.Usage("%s: unexpected argument %q", c.Command.Name, args[len(names)+1])
	case len(args) == len(names)+1:
		return args[:len(names)], args[len(names)], nil
	}
	return args, "", nil
}

// exampleText ends a command's description.
func exampleText(lines ...string) string {
	return "Example:\n\n    " + strings.Join(lines, "\n    ")
}

// usageText is a command's line in its help.
func usageText(name, args string) string { return fmt.Sprintf("symphony %s [flags] %s", name, args) }

// openProject finds the workflow (specification 5.1) and the state directory that belongs to it, and reads
// the environment file. A workflow that can't be read is no error yet: much works without it.
func openProject(w *term.Env, c *cli.Context, positional string) (*project.Project, error) {
	if c.IsSet("workflow") && positional != "" {
		return nil, exit.Usage("%s: the workflow is named twice, by -w and as %q", c.Command.Name, positional)
	}
	path := cmp.Or(c.String("workflow"), positional, w.Getenv("SYMPHONY_WORKFLOW"), "WORKFLOW.md")
	if info, err := os.Stat(w.Absolute(path)); err == nil && info.IsDir() {
		return nil, exit.Usage("%s is a directory; name the workflow file in it", path)
	}
	return project.New(w, path, cmp.Or(c.String("state-dir"), w.Getenv("SYMPHONY_STATE_DIR"))), nil
}
