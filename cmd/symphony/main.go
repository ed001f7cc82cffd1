// Symphony turns a Linear project into finished work: each pass reconciles the tracker with a table of
// claims and detached workers, and exits.
package main

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/urfave/cli/v2"
)

func main() { os.Exit(mainCode()) }

// mainCode is main for the tests, which register it as a program of its own.
func mainCode() int {
	command := ""
	if at := commandAt(os.Args); at >= 0 {
		command = os.Args[at]
	}
	w, err := term.NewEnv()
	if err != nil {
		lost := &term.Env{Stdout: os.Stdout, Stderr: os.Stderr, JSON: wantsJSON(os.Args)}
		return exit.With(lost, err)
	}
	ctx, stop := signals(command)
	defer stop()
	return run(ctx, w, os.Args)
}

// run is the one place where an error becomes an exit code and a line on stderr.
func run(ctx context.Context, w *term.Env, args []string) int {
	args = tickLoopArguments(args)
	command := ""
	if at := commandAt(args); at >= 0 {
		command = args[at]
	}
	app := appFor(w, command)
	w.JSON = wantsJSON(args)
	arranged, err := arrange(app, args)
	if err == nil {
		err = helpTopic(app, args)
	}
	if err == nil {
		err = app.RunContext(ctx, arranged)
	}
	var usage *reconcile.Error
	if app.Command(command) != nil && errors.As(err, &usage) && usage.Code == "usage" {
		usage.Hint += " " + command
	}
	return exit.With(w, err)
}

// wantsJSON looks for --json before anything else is understood, so that a mistake in the rest of the line
// comes as JSON too.
func wantsJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.Contains(args, "--json")
}

// helpTopic refuses help about a command that there is not.
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
