package render

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Pass prints the actions of a pass, and these of its warnings and errors: in sentences, or
// with -v a line of fields for each action and a summary.
func Pass(w *term.Env, r pass.Result, warnings []string, errs []*reconcile.Error) {
	if r.Holder != nil {
		if r.Holder.Name != "" {
			fmt.Fprintln(w.Stdout, "the lock of the project is held by "+r.Holder.Name+"; nothing was done")
			return
		}
		fmt.Fprintf(w.Stdout, "another pass is running (%s); nothing to do\n", r.Holder)
		return
	}
	for _, warning := range warnings {
		w.Note(slog.LevelWarn, warning)
	}
	if w.Verbose {
		printFields(w, r, errs)
		return
	}
	Sentences(w, r.Sentences(w.Now()))
	for _, e := range errs {
		w.PrintError(e)
	}
}

// printFields prints a line of fields for each action, errors, and a summary.
func printFields(w *term.Env, r pass.Result, errs []*reconcile.Error) {
	for _, a := range r.Applied {
		line := a.String()
		if a.Err != nil {
			line += "  (not done)"
		}
		fmt.Fprintln(w.Stdout, text.Visible(line))
	}
	name := fmt.Sprintf("pass %d", r.Pass.ID)
	if r.Pass.ID == 0 {
		name = "pass not recorded"
	}
	if r.DryRun {
		name = "dry run"
		for _, s := range r.Skips {
			line := fmt.Sprintf("skip %s reason=%s: %s", s.Identifier, s.Reason, s.Message)
			fmt.Fprintln(w.Stdout, text.Visible(line))
		}
	}
	for _, e := range errs {
		w.PrintError(e)
	}
	fmt.Fprintf(w.Stdout, "%s: %s\n", name, r.Summary(w.Now()))
}

// Sentences prints each sentence in a line of its own. On a terminal they are wrapped, and all
// lines of a sentence but the first are indented.
func Sentences(w *term.Env, sentences []string) {
	const hanging = "  "
	for _, s := range sentences {
		s = text.Visible(s)
		if !w.Piped() {
			s = strings.Join(term.Wrap(s, w.Width-len(hanging)), "\n"+hanging)
		}
		fmt.Fprintln(w.Stdout, s)
	}
}

// PassLog logs the actions of a pass and a summary, and at level debug the skipped issues.
// Errors and warnings are logged where they are printed.
func PassLog(ctx context.Context, log *slog.Logger, r pass.Result) {
	if r.Holder != nil {
		log.LogAttrs(ctx, slog.LevelInfo, "locked",
			slog.Int("pid", r.Holder.PID),
			slog.String("trigger", r.Holder.Trigger))
		return
	}
	if r.DryRun {
		log = log.With(slog.Bool("dry_run", true))
	} else {
		log = log.With(slog.Int64("pass_id", r.Pass.ID))
	}
	for _, a := range r.Applied {
		level := slog.LevelInfo
		message := "action"
		attrs := a.LogValue().Group()
		if a.Err != nil {
			level = slog.LevelWarn
			message = "action not done"
			attrs = append(attrs, slog.String("error", a.Err.Error()))
		}
		log.LogAttrs(ctx, level, message, attrs...)
	}
	for _, s := range r.Skips {
		log.LogAttrs(ctx, slog.LevelDebug, "skip",
			slog.String("issue_id", s.IssueID),
			slog.String("issue_identifier", s.Identifier),
			slog.String("reason", s.Reason),
			slog.String("message", s.Message))
	}
	attrs := []slog.Attr{
		slog.String("trigger", r.Pass.Trigger),
		slog.Int64("duration_ms", r.Pass.Duration.Milliseconds()),
		slog.Int("running", r.Running),
		slog.Int("retrying", r.Retrying),
		slog.Int("held", r.Held),
		slog.Int("skipped", len(r.Skips)),
	}
	if o := r.Obstacle; o != nil {
		attrs = append(attrs, slog.String("obstacle", o.Reason), slog.String("obstacle_message", o.Message))
	}
	log.LogAttrs(ctx, slog.LevelInfo, "pass", append(attrs, slog.Int("errors", len(r.Errors)))...)
}
