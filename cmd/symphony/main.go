// Symphony turns a Linear project into finished work: each pass reconciles the tracker with a table of
// claims and detached workers, and exits.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/runner/workspace"
	"github.com/urfave/cli/v2"
)

func main() { os.Exit(mainCode()) }

// mainCode is main for the tests, which register it as a program of its own.
func mainCode() int {
	command := ""
	if at := commandAt(os.Args); at >= 0 {
		command = os.Args[at]
	}
	lean(command)
	w, err := term.NewEnv()
	if err != nil {
		lost := &term.Env{Stdout: os.Stdout, Stderr: os.Stderr, JSON: wantsJSON(os.Args)}
		return exitWith(lost, err)
	}
	ctx, listen, stop := signals(command)
	defer stop()
	w.Listen = listen
	return run(ctx, w, os.Args)
}

// The exit codes, documented in the README.
const (
	exitOK       = 0
	exitFailed   = 1 // the pass or command itself could not do something
	exitUsage    = 2
	exitWorkflow = 3
	exitLock     = 4
)

// run is the one place where an error becomes an exit code and a line on stderr.
func run(ctx context.Context, w *term.Env, args []string) int {
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
	return exitWith(w, err)
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
		return usageError("help: unexpected argument %q", args[3])
	}
	return nil
}

func exitWith(w *term.Env, err error) int {
	if err == nil {
		return exitOK
	}
	var silent codeOnly
	if errors.As(err, &silent) {
		return int(silent)
	}
	known := asError(err)
	w.PrintError(known)
	if w.JSON {
		w.PrintJSON(map[string]any{"error": errorJSON{known.Code, known.Message, known.Hint}})
	}
	return exitCode(known.Code)
}

// codeOnly ends the program with a code after everything has been said.
type codeOnly int

func (c codeOnly) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// asError gives every error a code.
func asError(err error) *reconcile.Error {
	var known *reconcile.Error
	if errors.As(err, &known) {
		return known
	}
	if errors.Is(err, context.Canceled) {
		return &reconcile.Error{Code: "canceled", Message: "ended by a signal", Err: err}
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return &reconcile.Error{Code: "disk_full", Message: err.Error(), Hint: "free space on that volume; nothing is lost meanwhile", Err: err}
	}
	if proc.LimitReached(err) {
		return &reconcile.Error{
			Code: reconcile.CodeResourceLimit, Message: err.Error(), Err: err, Hint: proc.LimitHint,
		}
	}
	return &reconcile.Error{Code: "internal", Message: err.Error(), Err: err}
}

func usageError(format string, args ...any) error {
	return &reconcile.Error{Code: "usage", Message: fmt.Sprintf(format, args...), Hint: "see symphony help"}
}

// exitCode maps an error's code to the exit code of the program.
func exitCode(code string) int {
	switch code {
	case workspace.CodeHookFailed, workspace.CodeHookTimeout: // of hooks.on_attention: a warning
		return exitOK
	case "usage", "not_a_terminal":
		return exitUsage
	case "locked":
		return exitLock
	case "missing_workflow_file", "workflow_parse_error", "workflow_front_matter_not_a_map", "invalid_config",
		"unsupported_key", "unsupported_tracker_kind", "missing_tracker_api_key", "missing_tracker_project_slug",
		"template_parse_error", "template_render_error", "env_file_permissions", "env_file_invalid",
		"tracker_project_not_found", "nested_workflow", "project_conflict", "state_conflict", "workspace_root_unusable",
		"codex_not_found":
		return exitWorkflow
	}
	return exitFailed
}

type errorJSON struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}
