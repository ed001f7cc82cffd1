package render

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
)

// Apply applies a command and prints its result: in sentences, with -v as fields, or as JSON.
func Apply(ctx context.Context, w *term.Env, p *wiring.Project, command operate.Command) error {
	done, err := operate.Do(ctx, p, command)
	return Applied(w, done, err)
}

// Applied prints the outcome of a command, unless it failed.
func Applied(w *term.Env, done operate.Done, err error) error {
	if err != nil {
		return err
	}
	if w.JSON {
		w.PrintJSON(done.Document)
	} else {
		printEffect(w, done.Result)
	}
	printNotes(w, done.Result)
	return done.Err()
}

// printEffect prints the effect of a command. The errors of its pass are warnings if it was
// applied nevertheless.
func printEffect(w *term.Env, r operate.Result) {
	shown := r.Pass
	if r.Applied {
		shown.Errors = nil
	}
	Sentences(w, r.Asked)
	Pass(w, shown, shown.Warnings, shown.Errors)
	Sentences(w, r.Effect)
	for _, warning := range r.Warnings() {
		w.Note(slog.LevelWarn, warning)
	}
}

// printNotes prints on stderr the steps that have to follow a command.
func printNotes(w *term.Env, r operate.Result) {
	for _, note := range r.Next() {
		fmt.Fprintln(w.Stderr, "symphony: "+note)
	}
}

// Stop stops runs and prints each as it ends.
func Stop(ctx context.Context, w *term.Env, p *wiring.Project, command operate.Stop) error {
	printLine := func(line string) { fmt.Fprintln(w.Stdout, text.Visible(line)) }
	ran := false
	calls := operate.StopCalls{
		Applied: func(r operate.Result) { printEffect(w, r) },
		Ended:   printLine,
		Killed:  printLine,
		Warn:    func(err error) { w.Note(slog.LevelWarn, err.Error()) },
	}
	if w.JSON {
		calls.Applied = func(operate.Result) { ran = true }
		calls.Ended = nil
		// the only JSON object on stdout is the error
		calls.Killed = func(line string) { fmt.Fprintln(w.Stderr, text.Visible(line)) }
	}
	r, err := operate.StopRuns(ctx, p, command, calls)
	if ran {
		w.PrintJSON(r.JSON())
	}
	if err != nil {
		return err
	}
	printNotes(w, r.Result)
	return r.Err()
}
