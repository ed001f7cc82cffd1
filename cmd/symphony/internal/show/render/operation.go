package render

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/text"
)

// Operation prints what became of a command: in sentences, with -v as fields, or as JSON.
func Operation(w *term.Env, r operate.Result) {
	if w.JSON {
		w.PrintJSON(r.JSON())
	} else {
		OperationEffect(w, r)
	}
	OperationNotes(w, r)
}

// OperationEffect prints what a command has done. The errors of its pass are warnings if it was applied nevertheless.
func OperationEffect(w *term.Env, r operate.Result) {
	shown := r.Pass
	if r.Applied {
		shown.Errors = nil
	}
	Pass(w, shown, shown.Warnings, shown.Errors)
	Sentences(w, r.Effect)
	for _, warning := range r.Warnings() {
		w.Note(slog.LevelWarn, warning)
	}
}

// OperationNotes prints on stderr what has to follow a command.
func OperationNotes(w *term.Env, r operate.Result) {
	for _, note := range r.Next() {
		fmt.Fprintln(w.Stderr, "symphony: "+note)
	}
}

// Stop stops runs and prints each that has ended.
func Stop(ctx context.Context, w *term.Env, p *project.Project, o operate.StopOptions) error {
	o.Warn = func(err error) { w.Note(slog.LevelWarn, err.Error()) }
	o.Killed = func(line string) { fmt.Fprintln(w.Stderr, text.Visible(line)) } // the one JSON object on stdout is the error
	ran := false
	o.Applied = func(operate.Result) { ran = true }
	if !w.JSON {
		o.Applied = func(r operate.Result) { OperationEffect(w, r) }
		o.Ended = func(line string) { fmt.Fprintln(w.Stdout, text.Visible(line)) }
		o.Killed = o.Ended
	}
	r, err := operate.Stop(ctx, p, o)
	if ran {
		w.PrintJSON(r.JSON())
	}
	if err == nil {
		OperationNotes(w, r)
	}
	return cmp.Or(err, r.Err())
}
