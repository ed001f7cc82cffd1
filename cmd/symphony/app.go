package main

import (
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/text"
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
			{"stop", stopCommand},
			{"retry", retryCommand},
			{"done", doneCommand},
			{"takeover", takeoverCommand},
		}},
		{"Answer what agents ask", []commandRow{
			{"approve", approveCommand},
			{"deny", denyCommand},
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
   workflow   WORKFLOW.md: the settings, and the prompt that each agent gets
   project    a workflow with its records (the state directory) and workspaces
   workspace  the clone in which the agents of an issue work
   pass       one execution of symphony tick
   run        the work of one agent on one issue
   state      where an issue stands in the tracker
   status     what Symphony does with an issue

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

// checkHome refuses a home that can't be this account's: no command could work there. Packages are
// built without one, and ask for the version and for completions.
func checkHome(c *cli.Context, w *term.Env) error {
	// symphony itself runs hidden commands
	if c.Command.Hidden || slices.Contains([]string{"version", "completion"}, c.Command.Name) {
		return nil
	}
	return w.RequireHome()
}

// appWith returns the command line interface with some commands. It returns its errors instead
// of printing them: main maps them to exit codes.
func appWith(w *term.Env, commands []*cli.Command) *cli.App {
	app := &cli.App{
		Name:                  "symphony",
		Usage:                 "have coding agents work through the issues of a tracker",
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
				return unknownCommand(c.App, c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
	}
	for _, c := range commands {
		c.OnUsageError = app.OnUsageError
		c.Before = func(c *cli.Context) error {
			w.JSON = c.Bool("json")
			return checkHome(c, w)
		}
		c.HideHelpCommand = true
		for _, f := range c.Flags {
			switch f := f.(type) {
			case *cli.BoolFlag:
				f.DisableDefaultText = true // no "(default: false)" in every line
			case jsonFlag:
				f.DisableDefaultText = true
			}
		}
	}
	return app
}

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
	switch flagOf(c.Command, name).(type) {
	case *cli.DurationFlag:
		wanted = "a duration such as 10s"
	case *cli.IntFlag, *cli.IntSliceFlag:
		wanted = "a whole number"
	case *cli.BoolFlag, jsonFlag:
		wanted = "true or false"
	}
	return exit.Usage("%s: %s needs %s, not %s", c.Command.Name, dashed(name), wanted, value)
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

// usageText is what the help says about the arguments of a command.
func usageText(name, args string) string { return fmt.Sprintf("symphony %s [flags] %s", name, args) }

// usageLine is how a command is called, in a single line.
func usageLine(c *cli.Command) string {
	ways := strings.Split(c.UsageText, "\n")
	return strings.Join(text.Map(ways, strings.TrimSpace), ", or ")
}
