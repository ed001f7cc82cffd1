package main

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/urfave/cli/v2"
)

// workflowFlags returns the flags that are common to every command about a project, followed
// by the command's own.
func workflowFlags(more ...cli.Flag) []cli.Flag {
	const usage = "the workflow `FILE` (default: $SYMPHONY_WORKFLOW, else WORKFLOW.md here or above)"
	return append([]cli.Flag{workflowFlag(usage), stateDirFlag()}, more...)
}

// workflowFlag is the flag --workflow, or -w, with other aliases beside it.
func workflowFlag(usage string, aliases ...string) cli.Flag {
	return &cli.StringFlag{
		Name:    "workflow",
		Aliases: append([]string{"w"}, aliases...),
		Usage:   usage,
	}
}

func stateDirFlag() cli.Flag {
	return &cli.StringFlag{
		Name:  "state-dir",
		Usage: "the `DIRECTORY` of the records (default: $SYMPHONY_STATE_DIR, else below ~/.local/state)",
	}
}

// allProjects is the name of the flag of projectFlag. Init has another flag with that name.
const allProjects = "project"

// allProjectsFlag has a type of its own, so that namesSeveral can tell it from the flag of init.
type allProjectsFlag struct{ *cli.StringFlag }

// projectFlag is the flag of the commands that take every project of the account.
func projectFlag() cli.Flag {
	return allProjectsFlag{&cli.StringFlag{
		Name:  allProjects,
		Usage: "`all`: every project of your account; for some of them repeat -w FILE",
	}}
}

// sharedFlags are the flags that may come before a command, as those of a command without a
// name.
func sharedFlags() *cli.Command {
	more := append(serverFlags(""), projectFlag())
	return &cli.Command{Flags: workflowFlags(jsonFlags[struct{}](more...)...)}
}

// betweenPaths separates the paths of several -w, which arrange joins: the library would keep
// only the last. No path contains it.
const betweenPaths = "\x00"

// workflows returns the path of each -w.
func workflows(c *cli.Context) []string {
	if !c.IsSet("workflow") {
		return nil
	}
	return strings.Split(c.String("workflow"), betweenPaths)
}

// workflowIn returns the path in the words of a flag of the command, if the flag is -w.
func workflowIn(command *cli.Command, words []string) (path string, is bool) {
	name, path, given := strings.Cut(strings.TrimLeft(words[0], "-"), "=")
	if name != "w" && name != "workflow" || flagOf(command, "workflow") == nil {
		return "", false
	}
	if !given {
		path = words[1]
	}
	return path, true
}

// arrange moves the flags of a command before its arguments, because urfave/cli treats a flag
// that follows an argument as another argument. A flag may also come before the command. Empty
// arguments and flag values are refused.
func arrange(app *cli.App, args []string) ([]string, error) {
	if len(args) < 2 {
		return args, nil
	}
	at := commandAt(args)
	isHelp := slices.Contains([]string{"help", "h"}, nameOf(args[1]))
	switch {
	case at < 0 && isHelp, at > 0 && slices.Contains([]string{"help", "h"}, args[at]):
		return args, nil
	case at < 0 && flagOf(sharedFlags(), nameOf(args[1])) == nil:
		return nil, exit.Usage("unknown flag %s, and a command is missing: symphony help lists them", typed(args[1]))
	case at < 0:
		return nil, exit.Usage("a command is missing")
	}
	command := app.Command(args[at])
	strange := slices.IndexFunc(args[1:at], isStrange) + 1
	switch {
	case command == nil && strange > 0:
		return nil, exit.Usage("unknown flag %s before the command: its flags come after it", typed(args[strange]))
	case command == nil && strings.HasSuffix(args[at], ".md"):
		return nil, exit.Usage("the command comes first: symphony COMMAND -w %s", text.ShellQuote(args[at]))
	case command == nil:
		return nil, unknownCommand(app, args[at])
	}
	if command.SkipFlagParsing {
		return args, nil
	}
	var flags, plain, paths []string
	for rest := slices.Concat(args[1:at], args[at+1:]); len(rest) > 0; {
		word := rest[0]
		rest = rest[1:]
		switch {
		case word == "--":
			plain = append(plain, rest...)
			rest = nil
		case word == "--help" || word == "-help" || word == "-h":
			// With an argument the library would show help on the argument.
			return []string{args[0], command.Name, "--help"}, nil
		case len(word) > 1 && word[0] == '-':
			if flagOf(command, nameOf(word)) == nil {
				return nil, unknownFlag(command, typed(word))
			}
			flag, taken, err := readFlag(command, word, rest)
			if err != nil {
				return nil, err
			}
			rest = rest[taken:]
			path, isWorkflow := workflowIn(command, flag)
			if isWorkflow {
				paths = append(paths, path)
				continue
			}
			flags = append(flags, flag...)
		default:
			plain = append(plain, word)
		}
	}
	if len(plain) == 1 && plain[0] == "help" {
		return []string{args[0], command.Name, "--help"}, nil
	}
	// stop "$ISSUE" with an unset variable must not become stop --all. Only an answer may be
	// empty.
	if at := slices.Index(plain, ""); at == 0 || at > 0 && command.Name != "tell" {
		return nil, exit.Usage(
			"%s: argument %d is empty; check the variables of your script",
			command.Name,
			at+1,
		)
	}
	if len(paths) > 0 {
		flags = append(flags, "--workflow", strings.Join(paths, betweenPaths))
	}
	return slices.Concat([]string{args[0], command.Name}, flags, []string{"--"}, plain), nil
}

// nameOf is the name of the flag that a word gives, without dashes and without its value.
func nameOf(word string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	return name
}

// typed is a flag as it was typed, without its value.
func typed(word string) string {
	flag, _, _ := strings.Cut(word, "=")
	return flag
}

// isStrange reports whether a word in front of the command is a flag that no command takes there.
func isStrange(word string) bool {
	return strings.HasPrefix(word, "-") && flagOf(sharedFlags(), nameOf(word)) == nil
}

// readFlag returns the words of a flag, and how many of the words behind it are its value.
func readFlag(command *cli.Command, flag string, behind []string) (words []string, taken int, err error) {
	words = []string{flag}
	name, value, given := strings.Cut(flag, "=")
	if takesValue(command, flag) {
		if len(behind) == 0 || isFlag(command, behind[0]) {
			return nil, 0, valueMissing(command, flag)
		}
		value = behind[0]
		given = true
		words = append(words, value)
		taken = 1
	}
	if given && value == "" && !command.Hidden {
		return nil, 0, exit.Usage("%s: %s is empty; check the variables of your script", command.Name, name)
	}
	return words, taken, nil
}

// isFlag reports whether a word is a flag of the command, and not a value such as -5s.
func isFlag(command *cli.Command, word string) bool {
	return strings.HasPrefix(word, "-") && flagOf(command, nameOf(word)) != nil
}

// valueMissing is the error for a flag without the value that it needs.
func valueMissing(command *cli.Command, flag string) error {
	return exit.Usage("%s: %s needs a value: %s", command.Name, flag, usageOf(command, flag))
}

// usageOf is what the help says about a flag.
func usageOf(command *cli.Command, flag string) string {
	documented, is := flagOf(command, strings.TrimLeft(flag, "-")).(cli.DocGenerationFlag)
	if !is {
		return ""
	}
	return strings.ReplaceAll(documented.GetUsage(), "`", "")
}

// commandOf returns the first word that is neither a flag nor the value of a shared flag,
// empty if there is none.
func commandOf(args []string) string {
	if at := commandAt(args); at >= 0 {
		return args[at]
	}
	return ""
}

// commandAt returns the index of that word, -1 if there is none.
func commandAt(args []string) int {
	shared := sharedFlags()
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

// takesValue reports whether the next word is the value of a flag.
func takesValue(c *cli.Command, arg string) bool {
	name := strings.TrimLeft(arg, "-")
	if strings.Contains(name, "=") {
		return false
	}
	switch flagOf(c, name).(type) {
	case nil, *cli.BoolFlag, jsonFlag:
		return false
	}
	return true
}

func flagOf(c *cli.Command, name string) cli.Flag {
	return text.First(c.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
}

// arguments returns the named arguments. Only a command without any may have the workflow as an
// argument.
func arguments(w *term.Env, c *cli.Context, names ...string) (args []string, workflow string, err error) {
	args = c.Args().Slice()
	most := max(len(names), 1)
	switch {
	case len(args) < len(names):
		return nil, "", argumentMissing(c, names[len(args)])
	case len(args) > most:
		return nil, "", unexpected(c, args[most])
	case len(names) > 0:
		return args, "", nil
	}
	workflow = c.Args().First()
	if isWord(w, workflow) {
		return nil, "", unexpected(c, workflow)
	}
	return nil, workflow, nil
}

// argumentMissing is the error for an argument that is missing.
func argumentMissing(c *cli.Context, name string) error {
	return exit.Usage("%s: %s is missing: %s", c.Command.Name, name, usageLine(c.Command))
}

// unexpected is the error for an argument that the command does not take.
func unexpected(c *cli.Context, word string) error {
	return exit.Usage("%s: unexpected argument %q: %s", c.Command.Name, word, usageLine(c.Command))
}

// isWord reports whether an argument is no workflow but a word, such as the subcommand of
// another tool.
func isWord(w *term.Env, arg string) bool {
	return arg != "" && filepath.Base(arg) == arg && filepath.Ext(arg) == "" &&
		!wiring.Exists(w.Absolute(arg))
}

// onlyOne refuses two of these flags together.
func onlyOne(c *cli.Context, names ...string) error {
	set := text.Filter(names, func(name string) bool { return c.IsSet(name) })
	if len(set) < 2 {
		return nil
	}
	return exit.Usage("%s: %s and %s cannot be combined", c.Command.Name, dashed(set[0]), dashed(set[1]))
}

// alone refuses any of the other flags beside a flag.
func alone(c *cli.Context, name string, others ...string) error {
	for _, other := range others {
		if err := onlyOne(c, name, other); err != nil {
			return err
		}
	}
	return nil
}

// onlyWith refuses flags that have no effect without another one.
func onlyWith(c *cli.Context, name string, flags ...string) error {
	for _, flag := range flags {
		if c.IsSet(flag) && !c.IsSet(name) {
			return exit.Usage("%s: %s works only with %s", c.Command.Name, dashed(flag), dashed(name))
		}
	}
	return nil
}

// positive refuses numbers below 1.
func positive(c *cli.Context, flags ...string) error {
	for _, flag := range flags {
		if c.IsSet(flag) && c.Int(flag) < 1 {
			return exit.Usage("%s: %s must be at least 1, not %d", c.Command.Name, dashed(flag), c.Int(flag))
		}
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
