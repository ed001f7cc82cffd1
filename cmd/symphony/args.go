package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/report"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/urfave/cli/v2"
)

// workflowFlags returns the flags that are common to every command about a project, followed
// by the command's own.
func workflowFlags(more ...cli.Flag) []cli.Flag {
	const usage = "the workflow `FILE` (default: $SYMPHONY_WORKFLOW, or WORKFLOW.md here or above)"
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
		Usage: "the state `DIRECTORY`, with Symphony's records (default: $SYMPHONY_STATE_DIR, else under ~/.local/state)",
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
		Usage: "every project of your account (`all` is the only value); for some of them repeat -w FILE",
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
	switch {
	case at < 0 && flagOf(sharedFlags(), nameOf(args[1])) != nil:
		return nil, commandMissing(app, args[1:])
	case at < 0 && slices.Contains([]string{"help", "h"}, nameOf(args[1])):
		return args, nil
	case at < 0:
		return nil, strangeAlone(args[1:])
	case args[at] == "help" || args[at] == "h":
		return args, nil
	}
	command := app.Command(args[at])
	switch {
	case command == nil && slices.ContainsFunc(args[1:at], isStrange):
		return nil, strangeBefore(app, args[1:])
	case command == nil && strings.HasSuffix(args[at], ".md"):
		return nil, commandFirst(args[at:])
	case command == nil:
		return nil, unknownCommand(app, args[at:])
	}
	if command.SkipFlagParsing {
		return args, nil
	}
	var flags, plain, paths []string
	var unknown *strangeFlag // the first flag that the command does not have
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
			if short := shortFlags(command, word); short != nil {
				rest = append(short, rest...)
				continue
			}
			if flagOf(command, nameOf(word)) == nil {
				if unknown == nil {
					unknown = new(newStrange(firstStrange(command, word), rest, slices.Concat(plain, flags)))
				}
				continue
			}
			flag, taken, err := readFlag(command, word, rest)
			if err != nil {
				return nil, err
			}
			rest = rest[taken:]
			noteSwitch(app, command, word, rest)
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
	if at := slices.Index(plain, ""); at == 0 || at > 0 && command.Name != "answer" {
		return nil, exit.Usage(
			"%s: argument %d is empty; check the variables of your script",
			command.Name,
			at+1,
		)
	}
	// issues close 1 --comment done: the subcommand of gh is the mistake, and not its flag
	isTask := command.Name == "issues" && len(plain) > 0 && plain[0] != "new" && unknownTask(plain) != ""
	if isTask && (unknown == nil || unknown.value != plain[0]) {
		return nil, exit.Usage("issues: unknown subcommand %q%s", plain[0], unknownTask(plain))
	}
	if unknown != nil {
		return nil, unknownFlag(command, *unknown)
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

// isStrange reports whether a word in front of the command is a flag that no command takes there.
func isStrange(word string) bool {
	return strings.HasPrefix(word, "-") && flagOf(sharedFlags(), nameOf(word)) == nil
}

// shortFlags splits short flags that were typed as one word: -n5 is -n 5, and -fn5 is -f -n 5. It is
// nil for any other word.
func shortFlags(command *cli.Command, word string) (words []string) {
	letters := strings.TrimPrefix(word, "-")
	name, _, _ := strings.Cut(letters, "=")
	if len(letters) < 2 || letters[0] == '-' || flagOf(command, name) != nil {
		return nil
	}
	for i := range letters {
		flag := letters[i : i+1]
		value := letters[i+1:]
		f := flagOf(command, flag)
		_, isNumber := f.(*cli.IntFlag)
		switch {
		case f == nil, isNumber && value != "" && !text.IsNumber(value):
			return nil
		case takesValue(command, flag) && value != "":
			return append(words, "-"+flag, value)
		}
		words = append(words, "-"+flag)
	}
	return words
}

// readFlag returns the words of a flag, and how many of the words behind it are its value.
func readFlag(command *cli.Command, flag string, behind []string) (words []string, taken int, err error) {
	if v := jsonValueOf(command); v != nil && flag == "--json" && len(behind) > 0 && v.accepts(behind[0]) {
		return []string{flag + "=" + behind[0]}, 1, nil
	}
	words = []string{flag}
	name, value, given := strings.Cut(flag, "=")
	if name == "--watch" && flagOf(command, "watch") != nil {
		if err := checkInterval(slices.Concat(strings.Fields(value), behind)); err != nil {
			return nil, 0, err
		}
	}
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

// checkInterval refuses the time that the program watch expects behind its name. An issue may have
// only a number, too, and is then named before the flag.
func checkInterval(behind []string) error {
	if len(behind) == 0 {
		return nil
	}
	_, err := time.ParseDuration(behind[0])
	switch {
	case text.IsNumber(behind[0]):
		const message = "ps: --watch prints every second: leave out %s, or write symphony ps %[1]s --watch if it is an issue"
		return exit.Usage(message, behind[0])
	case err == nil:
		return exit.Usage("ps: --watch prints every second: leave out %s", behind[0])
	}
	return nil
}

// isFlag reports whether a word is a flag of the command, and not a value such as -5s.
func isFlag(command *cli.Command, word string) bool {
	return strings.HasPrefix(word, "-") && flagOf(command, nameOf(word)) != nil
}

// valueMissing is the error for a flag without the value that it needs.
func valueMissing(command *cli.Command, flag string) error {
	meant := ""
	if flag == "-w" && flagOf(command, "watch") != nil { // of kubectl
		meant = "; did you mean --watch?"
	}
	return exit.Usage("%s: %s needs a value: %s%s", command.Name, flag, usageOf(command, flag), meant)
}

// usageOf is what the help says about a flag.
func usageOf(command *cli.Command, flag string) string {
	documented, is := flagOf(command, strings.TrimLeft(flag, "-")).(cli.DocGenerationFlag)
	if !is {
		return ""
	}
	return strings.ReplaceAll(documented.GetUsage(), "`", "")
}

// commandMissing is the error for a command line that begins with a shared flag, and has no
// command behind it. The command may have become the value of the flag.
func commandMissing(app *cli.App, words []string) error {
	flag := words[0]
	usage := usageOf(sharedFlags(), flag)
	switch {
	case !takesValue(sharedFlags(), flag): // --json, or --workflow=FILE
	case len(words) == 1:
		return exit.Usage("%s needs a value, and a command is missing: %s", flag, usage)
	case app.Command(words[1]) != nil:
		return exit.Usage("%s needs a value before the command %s: %s", flag, words[1], usage)
	}
	return exit.Usage("a command is missing")
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
	switch f := flagOf(c, name).(type) {
	case nil, *cli.BoolFlag:
		return false
	case *cli.GenericFlag:
		_, isJSON := f.Value.(*jsonValue)
		return !isJSON
	}
	return true
}

func flagOf(c *cli.Command, name string) cli.Flag {
	return text.First(c.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
}

// arguments returns the named arguments, and the workflow if there is a further argument.
func arguments(w *term.Env, c *cli.Context, names ...string) ([]string, string, error) {
	args := c.Args().Slice()
	if len(args) > len(names) {
		if err := notWorkflow(w, c, args[len(names):]); err != nil {
			return nil, "", err
		}
	}
	switch {
	case len(args) < len(names):
		return nil, "", argumentMissing(c, names[len(args)])
	case len(args) > len(names)+1 && isProse(names):
		return nil, "", unquoted(c, names, args[len(names)])
	case len(args) > len(names)+1:
		return nil, "", exit.Usage("%s: unexpected argument %q", c.Command.Name, args[len(names)+1])
	}
	if len(names) > 0 && names[0] == "ISSUE" && isWorkflowFile(args[0]) {
		return nil, "", issueExpected(c, names[0], args[0])
	}
	workflow := strings.Join(args[len(names):], "") // at most one
	isAboutIssue := isIssueName(workflow)
	switch {
	case isProse(names) && isMissingText(w, workflow):
		return nil, "", exit.Usage("%s: there is no file %s: %s", c.Command.Name, workflow, textFrom(c, names, "FILE"))
	case isProse(names) && isText(w, workflow):
		return nil, "", textAmong(c, names, workflow)
	case !isWord(w, workflow):
	case len(names) == 0 && isAboutIssue && aboutIssue[c.Command.Name] != "":
		return nil, "", exit.Usage(
			"%s: unexpected argument %q: the command is about the whole project; symphony %s %[2]s is about the issue",
			c.Command.Name,
			workflow,
			aboutIssue[c.Command.Name],
		)
	case report.IsTime(workflow, w.Now()) && timeMeant(c.Command, workflow) != "":
		return nil, "", timeAmong(c, workflow)
	case isProse(names) && isIssueName(args[len(names)-1]):
		meant := "symphony " + c.Command.Name + " " + args[0] + " " + text.ShellQuote(workflow)
		return nil, "", exit.Usage("%s: it is about one %s, and the TEXT follows: %s", c.Command.Name, names[0], meant)
	case isProse(names):
		return nil, "", unquoted(c, names, workflow)
	case switchBefore(c, workflow) != "":
		return nil, "", exit.Usage("%s: unexpected argument %q: %s takes no value",
			c.Command.Name, workflow, switchBefore(c, workflow))
	case len(names) == 1 && names[0] == "ISSUE" && isAboutIssue:
		line := "symphony " + c.Command.Name + " "
		if !isIssueName(args[0]) { // show pr 7
			return nil, "", exit.Usage("%s: unexpected argument %q, did you mean %q?", c.Command.Name, args[0], line+workflow)
		}
		return nil, "", exit.Usage("%s: it is about one ISSUE: %s, and then %s", c.Command.Name, line+args[0], line+workflow)
	case len(names) == 0 && rowOf(c.Command, c.Command.Name, workflow) != "":
		return nil, "", exit.Usage("%s: unexpected argument %q: %s",
			c.Command.Name, workflow, rowOf(c.Command, c.Command.Name, workflow))
	case fieldMeant(c, workflow) != "":
		return nil, "", exit.Usage("%s: unexpected argument %q: %s", c.Command.Name, workflow, fieldMeant(c, workflow))
	case len(names) == 0:
		return nil, "", exit.Usage(
			"%s: unexpected argument %q: only a workflow file may be given",
			c.Command.Name,
			workflow,
		)
	default:
		return nil, "", exit.Usage(
			"%s: unexpected argument %q: one %s is expected, and after it at most a workflow file",
			c.Command.Name,
			workflow,
			names[len(names)-1],
		)
	}
	return args[:len(names)], workflow, nil
}

// notWorkflow is the error for arguments in the place of the workflow that are meant as a flag, such
// as release ABC-7 for --release ABC-7, or as the path of git diff; nil if they may be a workflow.
func notWorkflow(w *term.Env, c *cli.Context, args []string) error {
	if meant := foreignArgument(c.Command.Name, args[0]); meant != "" && isWord(w, args[0]) {
		return exit.Usage("%s: unexpected argument %q: %s", c.Command.Name, args[0], meant)
	}
	isFlagName := len(args[0]) > 1 && flagOf(c.Command, args[0]) != nil
	if isFlagName && isWord(w, args[0]) {
		meant := "--" + strings.Join(args, " ")
		return exit.Usage("%s: unexpected argument %q, did you mean %s?", c.Command.Name, args[0], meant)
	}
	missing := !wiring.Exists(w.Absolute(args[0]))
	isPath := isText(w, args[0]) || missing && strings.ContainsAny(args[0], "./")
	if c.Command.Name == "diff" && !isPath && missing && !isIssueName(args[0]) {
		return exit.Usage("diff: unexpected argument %q: diff takes no commit or branch, and shows all since the base; "+
			"symphony show ISSUE has the workspace, in which git diff takes one", args[0])
	}
	if c.Command.Name == "diff" && isPath && !isWorkflowFile(args[0]) {
		return exit.Usage(
			"diff: unexpected argument %q: diff takes no path, and shows all files; "+
				"symphony show ISSUE has the workspace, in which git diff takes one",
			args[0],
		)
	}
	return nil
}

// behindSwitch is the key of the words that stand directly behind a flag without a value, each with
// that flag, in the metadata of the app.
const behindSwitch = "behind a switch"

// noteSwitch notes the word behind a flag without a value, which a user may have meant as its value.
func noteSwitch(app *cli.App, command *cli.Command, flag string, behind []string) {
	_, isSwitch := flagOf(command, nameOf(flag)).(*cli.BoolFlag)
	if !isSwitch || len(behind) == 0 || strings.HasPrefix(behind[0], "-") {
		return
	}
	noted, _ := app.Metadata[behindSwitch].(map[string]string)
	if noted == nil {
		noted = map[string]string{}
	}
	noted[behind[0]] = flag
	if app.Metadata == nil {
		app.Metadata = map[string]any{}
	}
	app.Metadata[behindSwitch] = noted
}

// switchBefore returns the flag without a value directly before a word, empty if there is none.
func switchBefore(c *cli.Context, word string) string {
	noted, _ := c.App.Metadata[behindSwitch].(map[string]string)
	return noted[word]
}

// timeAmong is the error for a time among the arguments of a command that has words for it.
func timeAmong(c *cli.Context, word string) error {
	return exit.Usage("%s: unexpected argument %q%s", c.Command.Name, word, timeMeant(c.Command, word))
}

// timeMeant tells what a time is for the command, as the end of an error: the value of a flag, or
// something that takes none. It is empty if there is no such sentence.
func timeMeant(c *cli.Command, value string) string {
	for _, flag := range []string{"since", "timeout", "older-than"} {
		if flagOf(c, flag) != nil {
			return ", did you mean --" + flag + " " + value + "?"
		}
	}
	instead := rowOf(c, c.Name, "TIME")
	if instead == "" {
		return ""
	}
	return ": " + instead
}

// fieldMeant names the fields of --json for an argument that may be meant as a field of it; empty if
// none is meant.
func fieldMeant(c *cli.Context, arg string) string {
	v := jsonValueOf(c.Command)
	if v == nil || !v.set || len(v.fields) > 0 || strings.Trim(arg, lowerLetters+"_") != "" {
		return ""
	}
	return "if it is meant as a field of --json, there are " + strings.Join(v.documents[0].fields(), ", ")
}

// isIssueName reports whether a word looks like an issue: ABC-7, or 7.
func isIssueName(word string) bool { return issueShaped(word) || text.IsNumber(word) }

// aboutIssue maps commands about a project to the command that does the same for an issue.
var aboutIssue = map[string]string{
	"machines": "show",
	"issues":   "show",
	"pause":    "stop --after-run",
	"report":   "show",
	"resume":   "retry",
	"status":   "show",
	"tick":     "run",
	"top":      "show",
}

// isProse reports whether the last of a command's arguments is a sentence.
func isProse(names []string) bool {
	return len(names) > 0 && slices.Contains([]string{"TEXT", "TITLE"}, names[len(names)-1])
}

// unquoted is the error for the second word of a sentence.
func unquoted(c *cli.Context, names []string, word string) error {
	const message = "%s: unexpected argument %q: put the %s in quotes, so that it is one argument"
	return exit.Usage(message, c.Command.Name, word, names[len(names)-1])
}

// textAmong is the error for a file behind a sentence that is no workflow, but has a text.
func textAmong(c *cli.Context, names []string, file string) error {
	const message = "%s: unexpected argument %q, which is no workflow: %s"
	return exit.Usage(message, c.Command.Name, file, textFrom(c, names, file))
}

// textFrom says how a command takes its text from a file.
func textFrom(c *cli.Context, names []string, file string) string {
	if flagOf(c.Command, "body-file") != nil {
		return "--body-file " + text.ShellQuote(file) + " reads the text from it"
	}
	const message = "\"$(cat %s)\" in place of the %s is what it contains"
	return fmt.Sprintf(message, text.ShellQuote(file), names[len(names)-1])
}

// isMissingText reports whether a word is the name of a text that does not exist, and no workflow.
func isMissingText(w *term.Env, word string) bool {
	isMarkdown := strings.EqualFold(filepath.Ext(word), ".md") || filepath.Ext(word) == ".txt"
	return isMarkdown && !isWorkflowFile(word) && !wiring.Exists(w.Absolute(word))
}

// argumentMissing is the error for an argument that is missing. It says where to find one.
func argumentMissing(c *cli.Context, name string) error {
	if name == "TEXT" && strings.Contains(c.Args().First(), " ") {
		const message = "%s: the %s is missing before the TEXT: %s"
		before := strings.Fields(c.Command.UsageText)[3] // symphony tell [flags] ISSUE TEXT
		meant := fmt.Sprintf("symphony %s %s %s", c.Command.Name, before, text.ShellQuote(c.Args().First()))
		return exit.Usage(message, c.Command.Name, before, meant)
	}
	given := c.String("workflow")
	if name == "ISSUE" && isIssueName(given) {
		return exit.Usage("%s: ISSUE is missing: %q became the FILE of -w, which needs a value", c.Command.Name, given)
	}
	where := map[string]string{
		"ISSUE":   "; symphony issues and symphony ps --all list the issues",
		"FILE":    ", such as symphony.tar.gz",
		"REQUEST": "; symphony ps lists the requests",
		"TEXT":    ", in quotes, such as 'Use the other colour.'",
	}[name]
	return exit.Usage("%s: %s is missing%s", c.Command.Name, name, where)
}

// isWorkflowFile reports whether an argument is the name of a workflow, and not of an issue.
func isWorkflowFile(arg string) bool { return filepath.Base(arg) == "WORKFLOW.md" }

// issueExpected is the error for a workflow in the place of an issue or a request.
func issueExpected(c *cli.Context, name, arg string) error {
	if name == "REQUEST" {
		return argumentMissing(c, name)
	}
	const message = "%s: %q is a workflow, and an %s is expected before it; symphony ps --all lists the issues"
	return exit.Usage(message, c.Command.Name, arg, name)
}

// isText reports whether an argument is the name of a file that is no workflow, because it does not begin
// with front matter.
func isText(w *term.Env, arg string) bool {
	if arg == "" || isWorkflowFile(arg) {
		return false
	}
	source, err := workflow.Read(w.Absolute(arg))
	return err == nil && source.FrontMatter == nil
}

// isWord reports whether an argument is no workflow but a word, such as the subcommand of
// another tool.
func isWord(w *term.Env, arg string) bool {
	return arg != "" && filepath.Base(arg) == arg && filepath.Ext(arg) == "" &&
		!wiring.Exists(w.Absolute(arg))
}
