// Symphony lets coding agents work through the issues of a tracker. Each pass reconciles the
// tracker with the claims and the detached workers that its database records, and exits.
package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/urfave/cli/v2"
)

func main() {
	os.Exit(mainCode(func(*term.Env) {}))
}

// mainCode is main without os.Exit. Tests change the environment.
func mainCode(change func(*term.Env)) int {
	keepOwnRights()
	w, err := term.NewEnv()
	if err != nil {
		bare := &term.Env{Stdout: os.Stdout, Stderr: os.Stderr, JSON: wantsJSON(os.Args)}
		return bare.Exit(err)
	}
	change(w)
	defer w.KeepTerminal()()
	ctx, stop := signals(commandOf(os.Args))
	defer stop()
	w.Signals = ctx
	return run(ctx, w, os.Args)
}

// keepOwnRights takes the owner's bits out of the umask. With 0777, which a unit may have by
// mistake, this account could not use the directories that symphony makes.
func keepOwnRights() {
	const owner = 0o700
	mask := syscall.Umask(0)
	syscall.Umask(mask &^ owner)
}

// readerGC is GOGC for commands that read the state once and end: they collect garbage from 16 MB
// of heap on, not from 4 MB. A ps of 500 issues then takes a fifth less CPU.
const readerGC = 400

// run runs a command line, prints its error and returns its exit code. Errors are printed here
// and nowhere else.
func run(ctx context.Context, w *term.Env, args []string) int {
	args = inFull(args)
	command := commandOf(args)
	if slices.Contains([]string{"ps", "status", "show", "report"}, command) {
		debug.SetGCPercent(readerGC)
	}
	app := appFor(w, command)
	w.JSON = wantsJSON(args)
	err := runApp(ctx, app, args)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = exit.Canceled(err) // whatever it was doing
	}
	if c := app.Command(command); c != nil {
		err = withProjects(w, c, exit.ForCommand(err, c.Name))
	}
	code := w.Exit(err)
	w.CheckOutput()
	if w.OutputFailed {
		code = cmp.Or(code, exit.Failed)
	}
	return code
}

// runApp parses a command line and runs its command.
func runApp(ctx context.Context, app *cli.App, args []string) error {
	arranged, err := arrange(app, args)
	if err != nil {
		return err
	}
	if err := helpTopic(app, args); err != nil {
		return err
	}
	return app.RunContext(ctx, arranged)
}

// inFull spells out the two short forms of a command line: "symphony --version", and "symphony
// WORKFLOW.md" of specification 17.7 for "symphony tick --loop WORKFLOW.md".
func inFull(args []string) []string {
	at := commandAt(args)
	switch {
	case len(args) > 1 && (args[1] == "--version" || args[1] == "-version"):
		return slices.Concat(args[:1], []string{"version"}, args[2:])
	case at < 0 || slices.ContainsFunc(args[1:at], isOfNoPass) || slices.ContainsFunc(args[at+1:], isCommand):
		return args
	case strings.HasSuffix(args[at], ".md"):
		return slices.Concat(args[:at], []string{"tick", "--loop"}, args[at:])
	}
	return args
}

// isCommand reports whether a word is a command of the help. Behind a workflow, as in symphony
// WORKFLOW.md ps, it must not become a loop that starts agents.
func isCommand(word string) bool {
	return slices.ContainsFunc(commandGroups(), func(group commandGroup) bool {
		return slices.ContainsFunc(group.rows, func(row commandRow) bool { return row.name == word })
	})
}

// isOfNoPass reports whether a word is a flag that tick does not have.
func isOfNoPass(word string) bool {
	return isStrange(word) && flagOf(tickCommand(nil), nameOf(word)) == nil
}

// wantsJSON looks for --json before the command line is parsed, so that a mistake in it is
// printed as JSON, too.
func wantsJSON(args []string) bool {
	end := slices.Index(args, "--")
	if end >= 0 {
		args = args[:end]
	}
	return slices.ContainsFunc(args, func(arg string) bool {
		return arg == "--json" || strings.HasPrefix(arg, "--json=")
	})
}

// helpTopic refuses help about an unknown command.
func helpTopic(app *cli.App, args []string) error {
	if len(args) < 3 || args[1] != "help" && args[1] != "h" {
		return nil
	}
	if app.Command(args[2]) == nil {
		return unknownCommand(app, args[2])
	}
	if len(args) > 3 {
		return exit.Usage("help: unexpected argument %q", args[3])
	}
	return nil
}

// signals returns a context that SIGINT and SIGTERM cancel, for workers and takeovers also
// SIGHUP: at a logout systemd sends it right after SIGTERM, and it must not kill a process
// that is cleaning up. For top SIGINT is a key, which may be meant for a command that uses the
// terminal.
func signals(command string) (context.Context, context.CancelFunc) {
	list := []os.Signal{syscall.SIGTERM}
	if command != "top" {
		list = append(list, syscall.SIGINT)
	}
	if slices.Contains([]string{"worker", "host", "takeover", "top"}, command) {
		list = append(list, syscall.SIGHUP)
	}
	return signal.NotifyContext(context.Background(), list...)
}
