package main

import (
	"cmp"
	"embed"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/urfave/cli/v2"
)

// commandRow is a row of the list of commands: the name of a command, and what builds it.
type commandRow struct {
	name  string
	build func(*term.Env) *cli.Command
}

// commandGroup is a part of the list of commands.
type commandGroup struct {
	name string
	rows []commandRow
}

// commandGroups lists the commands in the order of the help: first what a beginner needs, last what
// only scripts and repairs need.
func commandGroups() []commandGroup {
	return []commandGroup{
		{"Begin", []commandRow{
			{"demo", demoCommand},
			{"init", initCommand},
			{"run", runCommand},
			{"ps", psCommand},
			{"show", showCommand},
			{"schedule", scheduleCommand},
		}},
		{"Work with issues", []commandRow{
			{"issues", issuesCommand},
			{"logs", logsCommand},
			{"diff", diffCommand},
			{"tell", tellCommand},
			{"send-back", sendBackCommand},
			{"stop", stopCommand},
			{"retry", retryCommand},
			{"takeover", takeoverCommand},
		}},
		{"Answer what agents ask", []commandRow{
			{"approve", approveCommand},
			{"deny", denyCommand},
			{"answer", answerCommand},
		}},
		{"Look", []commandRow{
			{"top", topCommand},
			{"serve", serveCommand},
			{"report", reportCommand},
			{"machines", machinesCommand},
		}},
		{"Set up and run", []commandRow{
			{"check", checkCommand},
			{"doctor", doctorCommand},
			{"tick", tickCommand},
			{"pause", pauseCommand},
			{"resume", resumeCommand},
			{"projects", projectsCommand},
			{"mcp", mcpCommand},
		}},
		{"For scripts and repairs", []commandRow{
			{"status", statusCommand},
			{"wait", waitCommand},
			{"deliver", deliverCommand},
			{"verify", verifyCommand},
			{"prune", pruneCommand},
			{"restore", restoreCommand},
			{"backup", backupCommand},
			{"restore-state", restoreStateCommand},
			{"support", supportCommand},
			{"completion", completionCommand},
			{"version", versionCommand},
		}},
	}
}

// hiddenCommands lists the commands that symphony itself runs.
func hiddenCommands() []commandRow {
	return []commandRow{
		{"worker", workerCommand},
		{"host", hostCommand},
		{"sandbox-init", sandboxInitCommand},
		{"agent-tools", agentToolsCommand},
		{"demo-agent", demoAgentCommand},
		{"complete", completeCommand},
	}
}

// build builds the commands of rows.
func build(w *term.Env, rows []commandRow) (commands []*cli.Command) {
	for _, row := range rows {
		commands = append(commands, row.build(w))
	}
	return commands
}

// helpGroup is a commandGroup with its commands. The library's template of categories reads its
// exported fields, and itself sorts categories by name.
type helpGroup struct {
	Name            string
	VisibleCommands []*cli.Command
}

func helpGroups(w *term.Env) (groups []helpGroup) {
	for _, group := range commandGroups() {
		groups = append(groups, helpGroup{group.name, build(w, group.rows)})
	}
	return groups
}

const appHelp = `NAME:
   {{template "helpNameTemplate" .}}

USAGE:
   {{.UsageText}}

COMMANDS:{{template "visibleCommandCategoryTemplate" .Metadata}}

WORDS:
   workflow   the file WORKFLOW.md: the settings, and the prompt, a text that each agent gets
   project    a workflow with Symphony's records of it (the state directory) and its workspaces
   workspace  the clone of the repository in which the agents of an issue work
   pass       one execution of symphony tick: it reads the tracker, starts and stops agents, and exits
   run        the work of one agent on one issue, from its start to its end
   state      where an issue stands in the tracker, such as To Do
   status     what Symphony does with an issue, such as running or held

symphony help COMMAND explains a command and its flags.
symphony WORKFLOW.md is short for symphony tick --loop WORKFLOW.md.
`

// newApp returns the command line interface with all commands.
func newApp(w *term.Env) *cli.App {
	commands := build(w, hiddenCommands())
	groups := helpGroups(w)
	for _, group := range groups {
		commands = append(commands, group.VisibleCommands...)
	}
	app := appWith(w, commands)
	app.Metadata = map[string]any{"VisibleCategories": groups}
	return app
}

// appFor returns the command line interface with a single command: to build all of them, with
// their help, would take longer than some commands do. It has all commands if none has that
// name, because help and the answer to a mistake are about all.
func appFor(w *term.Env, name string) *cli.App {
	rows := hiddenCommands()
	for _, group := range commandGroups() {
		rows = append(rows, group.rows...)
	}
	for _, row := range rows {
		if row.name == name {
			return appWith(w, []*cli.Command{row.build(w)})
		}
	}
	return newApp(w)
}

// checkPaths refuses a path whose ~ the shell left as it is, as in --state-dir=~/state or
// '~/web/WORKFLOW.md'. Symphony would make a folder called ~. init itself reads the flags with paths
// that it writes into the workflow, as the workflow is read. Nor is there any work without a home;
// packages are built without one, and ask for the version and for completions.
func checkPaths(c *cli.Context, w *term.Env) error {
	if c.Command.Hidden { // symphony itself runs it
		return nil
	}
	if !slices.Contains([]string{"version", "completion"}, c.Command.Name) {
		if err := w.RequireHome(); err != nil {
			return err
		}
	}
	for _, f := range c.Command.Flags {
		name := f.Names()[0]
		isOfWorkflow := c.Command.Name == "init" && slices.Contains([]string{"path", "root"}, name)
		if !isPath(f) || isOfWorkflow {
			continue
		}
		for _, value := range append(c.StringSlice(name), c.String(name)) {
			for path := range strings.SplitSeq(value, betweenPaths) {
				path, isSocket := strings.CutPrefix(path, "unix:")
				meant, isLeft := term.BelowHome(path, w.Home)
				if isLeft && isSocket {
					meant = "unix:" + meant
				}
				if isLeft {
					return tildeLeft(c, "--"+name, "--"+name+" "+text.ShellQuote(meant))
				}
			}
		}
	}
	for _, arg := range pathArguments(c) {
		meant, isLeft := term.BelowHome(arg, w.Home)
		if isLeft {
			return tildeLeft(c, arg, text.ShellQuote(meant))
		}
	}
	return nil
}

func tildeLeft(c *cli.Context, at, meant string) error {
	return exit.Usage("%s: the shell left the ~ of %s as it is: write %s", c.Command.Name, at, meant)
}

// isPath reports whether the help of a flag calls its value the name of a file or a directory.
func isPath(f cli.Flag) bool {
	documented, is := f.(cli.DocGenerationFlag)
	if !is {
		return false
	}
	parts := strings.Split(documented.GetUsage(), "`")
	return len(parts) == 3 && slices.Contains([]string{"FILE", "DIRECTORY", "DIR", "TARGET", "ADDRESS"}, parts[1])
}

// pathArguments returns the arguments that may be paths. A sentence may begin with ~, too.
func pathArguments(c *cli.Context) []string {
	args := c.Args().Slice()
	switch {
	case c.Command.Name == "answer":
		return nil
	case strings.Contains(c.Command.UsageText, " TEXT "), c.Command.Name == "issues" && c.Args().First() == "new":
		return args[min(len(args), 2):]
	}
	return args
}

// appWith returns the command line interface with some commands. It returns its errors instead
// of printing them: main maps them to exit codes.
func appWith(w *term.Env, commands []*cli.Command) *cli.App {
	app := &cli.App{
		Name:                  "symphony",
		Usage:                 "have coding agents work through the issues of a tracker, one pass at a time",
		UsageText:             "symphony COMMAND [flags] [arguments]",
		HideVersion:           true,
		Reader:                w.Stdin,
		Writer:                w.Stdout,
		ErrWriter:             w.Stderr,
		CustomAppHelpTemplate: appHelp,
		Commands:              commands,
		ExitErrHandler:        func(*cli.Context, error) {},
		OnUsageError:          func(c *cli.Context, err error, _ bool) error { return flagError(c, err) },
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return unknownCommand(c.App, c.Args().Slice())
			}
			return cli.ShowAppHelp(c)
		},
	}
	// The list of fields takes time, and is rarely read.
	helpWithFields := strings.TrimSuffix(cli.CommandHelpTemplate, "\n") +
		`{{range .Flags}}{{if eq .Name "json"}}{{.Value.Help}}{{end}}{{end}}`
	for _, c := range commands {
		c.OnUsageError = app.OnUsageError
		c.Before = func(c *cli.Context) error { return checkPaths(c, w) }
		if v := jsonValueOf(c); v != nil {
			c.Before = func(c *cli.Context) error {
				if err := selectJSON(c, w); err != nil {
					return err
				}
				return checkPaths(c, w)
			}
			c.CustomHelpTemplate = helpWithFields
		}
		c.HideHelpCommand = true
		for _, f := range c.Flags {
			if b, ok := f.(*cli.BoolFlag); ok {
				b.DisableDefaultText = true // no "(default: false)" in every line
			}
		}
	}
	return app
}

// unknownCommand is the error for words that begin with no command of ours. In "get issues" the
// second word is one, and the first what other tools put before it.
func unknownCommand(app *cli.App, words []string) error {
	name := words[0]
	meant := cmp.Or(otherWords[strings.ToLower(name)], meantBy(foreignCommands, name))
	first, _, _ := strings.Cut(meant, " ")
	if meant != "" && (app.Command(first) == nil || isSentence(meant)) {
		return reconcile.NewError("usage", fmt.Sprintf("unknown command %q", name), ofIssue(meant, words[1:]))
	}
	if issueShaped(name) {
		return exit.Usage("unknown command %q, did you mean %q?", name, "show "+name)
	}
	if name == "." || strings.Contains(name, "/") { // a folder: the name of a workflow ends with .md
		file := text.ShellQuote(filepath.Join(name, "WORKFLOW.md"))
		return reconcile.NewError("usage", fmt.Sprintf("unknown command %q", name),
			"symphony ps -w "+file+" shows the project in a folder, symphony tick -w "+file+" runs a pass of it")
	}
	if strings.EqualFold(name, "issue") {
		meant := unknownTask(words[1:])
		if meant != "" {
			return exit.Usage("unknown command %q%s", name, meant)
		}
	}
	var names []string
	for _, c := range app.Commands {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	if len(words) > 1 && slices.Contains(names, words[1]) {
		return exit.Usage("unknown command %q, did you mean %q?", name, words[1])
	}
	if meant != "" {
		return exit.Usage("unknown command %q, did you mean %q?", name, aboutSameIssue(app, meant, words[1:]))
	}
	if near := text.Misspelt(name, names); near != "" && len(name) > 2 {
		return exit.Usage("unknown command %q, did you mean %q?", name, near)
	}
	return reconcile.NewError("usage", fmt.Sprintf("unknown command %q", name), "symphony help lists the commands").
		WithNext(reconcile.StepReadHelp)
}

// isSentence reports whether a text is a sentence with a command in it, and not the command alone.
func isSentence(meant string) bool { return strings.Contains(meant, "symphony ") }

// ofIssue puts the issue of a mistyped command into the commands of a sentence, which have ISSUE there.
func ofIssue(sentence string, arguments []string) string {
	if len(arguments) == 0 || !isIssueName(arguments[0]) {
		return sentence
	}
	return strings.ReplaceAll(sentence, "ISSUE", arguments[0])
}

// aboutSameIssue adds the issue of a mistyped command to the command that was meant, if that one
// takes an issue.
func aboutSameIssue(app *cli.App, meant string, arguments []string) string {
	command, _, _ := strings.Cut(meant, " ")
	takesIssue := strings.Contains(app.Command(command).UsageText, "ISSUE")
	if len(arguments) == 0 || !isIssueName(arguments[0]) {
		return meant
	}
	switch {
	case takesIssue && len(arguments) == 1:
		return meant + " " + arguments[0]
	case aboutIssue[command] != "":
		return aboutIssue[command] + " " + arguments[0]
	}
	return meant
}

// didYouMean suggests our word for a word of another tool, otherwise a similar known word. A
// synonym may have several words, of which the first is known.
func didYouMean(word string, synonyms map[string]string, known []string, format string) string {
	meant := synonyms[strings.ToLower(word)]
	first, _, _ := strings.Cut(meant, " ")
	if slices.Contains(known, first) {
		known = []string{meant}
		word = meant
	}
	return text.DidYouMean(word, known, format)
}

// otherWords has what users of other tools, such as gh, kubectl, docker, git and systemctl, type
// as a command. A value that begins with a command of ours is what they mean; any other value
// tells how symphony does it, because no single command does.
var otherWords = map[string]string{
	// look
	"cat": "symphony show ISSUE has the issue, symphony show --prompt ISSUE what its agent is told, " +
		"symphony logs ISSUE what it did",
	"dashboard": "serve",
	"describe":  "show",
	"events":    "logs",
	"explain":   "show",
	"failed":    "symphony report shows what failed, and why; symphony ps what is held or waits for its next try",
	"get":       "show",
	"history":   "symphony report shows what was done, symphony show ISSUE the runs of one issue",
	"info": "symphony show ISSUE is about one issue, symphony ps about the project, " +
		"symphony doctor about this machine",
	"inspect":     "show",
	"is-active":   "status",
	"journal":     "logs",
	"journalctl":  "logs",
	"list":        "ps",
	"list-timers": "schedule status",
	"log":         "logs",
	"ls":          "ps",
	"monitor":     "top",
	"queue":       "issues",
	"follow":      "logs -f",
	"search":      "symphony ps --all --filter text=WORD lists the issues with a word in their names",
	"stats":       "report",
	"tail":        "logs -f",
	"tasks":       "issues",
	"undelivered": "symphony ps --filter status=undelivered lists them, symphony deliver ISSUE tries again",
	"usage":       "report",
	"cost":        "report",
	"view":        "show",
	"watch":       "ps --watch",
	"web":         "serve",

	// what needs a person
	"blocked": needyTask,
	"inbox":   needyTask,
	"pr":      reviewTask,
	"review":  reviewTask,
	"reviews": reviewTask,
	"results": reviewTask,
	"todo":    needyTask,
	"allow":   "approve",
	"reply":   "answer",

	"alert":  notifyTask,
	"notify": notifyTask,

	// start and end the work
	"abort":     "stop",
	"apply":     "symphony check checks WORKFLOW.md; the next pass, which symphony tick runs, applies it",
	"cancel":    "stop",
	"continue":  "resume",
	"cordon":    "pause",
	"cron":      "schedule",
	"disable":   "schedule remove",
	"down":      downTask,
	"drain":     "pause",
	"enable":    "schedule install",
	"fetch":     "tick",
	"kill":      "stop",
	"poll":      "tick",
	"reload":    "symphony reads WORKFLOW.md anew in each pass, and symphony tick runs one",
	"requeue":   "retry",
	"rerun":     "retry",
	"reset":     "retry",
	"restart":   restartTask,
	"start":     "run",
	"suspend":   "pause",
	"sync":      "tick",
	"terminate": "stop",
	"unpause":   "resume",
	"up":        upTask,

	// the agent and its work
	"accept": takeTask + "; symphony approve allows what an agent asks for",
	"attach": "symphony logs -f ISSUE follows an agent, symphony tell ISSUE TEXT tells it something; " +
		"symphony takeover ISSUE ends its run and opens it in this terminal",
	"branch":   takeTask,
	"checkout": takeTask,
	"comment":  "symphony tell ISSUE TEXT is for an agent at work, symphony send-back ISSUE TEXT for its result",
	"commit":   "agents commit by themselves: symphony deliver ISSUE pushes what is not delivered yet",
	"done":     takeTask,
	"exec": "symphony takeover ISSUE opens the agent in its conversation and its workspace; " +
		"symphony diff ISSUE shows what it has changed",
	"land":  takeTask,
	"merge": takeTask,
	"pull":  takeTask,
	"push":  "deliver",
	"reject": "symphony send-back ISSUE TEXT sends a result back; symphony deny refuses what an agent " +
		"asks for",
	"reopen": "send-back",
	"say":    "tell",
	"shell":  "takeover",
	"take":   takeTask,
	"test":   "verify",

	// the issues of the tracker
	"add": "issues new",
	"close": "close the issue in its tracker, or write its final state into its file, which symphony show ISSUE names: " +
		"a pass then ends its run, and moves its workspace to the trash; symphony stop ISSUE ends the run now",
	"create": "issues new",
	"new":    "issues new",

	// files
	"clean":     "prune",
	"delete":    removeTask,
	"gc":        "prune",
	"remove":    removeTask,
	"rm":        removeTask,
	"undelete":  "restore",
	"uninstall": "symphony schedule remove ends the passes, symphony projects remove deletes what they left",

	// the program and its settings
	"auth":        loginTask,
	"lint":        "check",
	"login":       loginTask,
	"logout":      "symphony has no account of its own: codex logout ends the login of the agents",
	"self-update": wiring.UpgradeHint,
	"setup":       "init",
	"update":      wiring.UpgradeHint,
	"upgrade":     wiring.UpgradeHint,
	"validate":    "check",
}

// The tasks that several words stand for.
const (
	takeTask   = "symphony show ISSUE has the commands that take a result; with merge.when symphony merges pull requests"
	reviewTask = "symphony ps --filter status=handed_over lists the results that wait for your review, the oldest " +
		"first; symphony show ISSUE has the commands that show one, take it, and send it back"
	needyTask  = "symphony ps lists what needs you first, with --project all of every project"
	notifyTask = "hooks.on_attention in WORKFLOW.md is a script that runs when you are needed; symphony status is for " +
		"monitoring"
	removeTask = "symphony prune removes the workspaces of finished issues, and symphony projects remove a project; " +
		"to end the work on an issue, close it in its tracker"
	upTask = "symphony schedule install lets passes run by themselves, symphony tick --loop runs them in " +
		"this terminal; symphony run ISSUE starts one issue"
	downTask = "symphony stop --all pauses the project and ends every run, symphony pause only starts no new ones; " +
		"symphony schedule remove ends the passes"
	restartTask = "for an agent at work these are two commands, symphony stop ISSUE and symphony retry ISSUE; for an " +
		"issue that is held or waits, symphony retry ISSUE alone"
	loginTask = "codex login logs the agents in; the key of the tracker is in the environment file, " +
		"which symphony doctor names"
)

// flagError rewords an error of the library's flag parser, which writes flags with one dash
// and does not say which values a flag accepts. It has no unknown flags to report: arrange has.
func flagError(c *cli.Context, err error) error {
	message := err.Error()
	rest, ok := strings.CutPrefix(message, "invalid boolean value ")
	if !ok {
		rest, ok = strings.CutPrefix(message, "invalid value ")
	}
	value, quoteErr := strconv.QuotedPrefix(rest)
	_, name, named := strings.Cut(strings.TrimPrefix(rest, value), "-")
	if !ok || quoteErr != nil || !named {
		return exit.Usage("%s: %s", c.Command.Name, message)
	}
	name, _, _ = strings.Cut(name, ":")
	wanted := "another value"
	meant := ""
	switch flagOf(c.Command, name).(type) {
	case *cli.DurationFlag:
		wanted = "a duration such as 10s"
		meant = meantDuration(strings.Trim(value, `"`))
	case *cli.IntFlag, *cli.IntSliceFlag:
		wanted = "a whole number"
	case *cli.BoolFlag:
		wanted = "true or false"
		if name == "cron" { // of schedule
			return exit.Usage("schedule: --cron=%s: %s", strings.Trim(value, `"`), noTimes)
		}
	}
	return exit.Usage("%s: %s needs %s, not %s%s", c.Command.Name, dashed(name), wanted, value, meant)
}

// meantDuration is `, did you mean 168h?` for a duration that is written as other programs read
// it: 7d, 5m30, or a number alone; empty for anything else.
func meantDuration(value string) string {
	days, isDays := strings.CutSuffix(value, "d")
	n, err := strconv.Atoi(days)
	meant := value + "s"
	if isDays && err == nil {
		meant = strconv.Itoa(24*n) + "h"
	}
	if _, err := time.ParseDuration(meant); err != nil {
		return ""
	}
	if text.IsNumber(value) {
		meant = value + "s, " + value + "m or " + value + "h"
	}
	return ", did you mean " + meant + "?"
}

//go:embed help
var helpFiles embed.FS

// helpPart is a part of the help of commands, as help/NAME.txt contains it.
func helpPart(name string) string {
	text, err := helpFiles.ReadFile("help/" + name + ".txt")
	if err != nil {
		panic(err) // the tests build all commands, so that none lacks its file
	}
	return strings.TrimSuffix(string(text), "\n")
}

// helpText is the description of a command, with its examples.
func helpText(name string, examples ...string) string {
	return helpPart(name) + "\n\n" + exampleText(examples...)
}

// severalHelpText is helpText for a command that takes several issues.
func severalHelpText(name string, examples ...string) string {
	return helpPart(name) + "\n\n" + helpPart("several") + "\n\n" + exampleText(examples...)
}

// exampleText is the last part of a command's description.
func exampleText(lines ...string) string {
	return "Example:\n\n    " + strings.Join(lines, "\n    ")
}

// usageText is the usage line of a command.
func usageText(name, args string) string { return fmt.Sprintf("symphony %s [flags] %s", name, args) }
