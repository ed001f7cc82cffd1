package pass

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// report prints a pass: as lines, as one JSON object, or with --quiet only what has changed in its errors.
func report(ctx context.Context, p *project.Project, o TickOptions, r Result) {
	w := p.Env
	if w.Log != nil {
		r.writeLog(ctx, w.Log)
	}
	switch {
	case o.Quiet:
		if r.Holder == nil {
			reportQuiet(ctx, p, r.Errors)
		}
	case o.JSON:
		w.PrintJSON(r.JSON())
		for _, e := range r.Errors {
			w.PrintError(e)
		}
	default:
		ReportText(p, r)
	}
}

// ReportText prints a line for each action, the errors, and a summary.
func ReportText(p *project.Project, r Result) {
	w := p.Env
	if r.Holder != nil {
		fmt.Fprintf(w.Stdout, "another pass is at work (%s); nothing to do\n", r.Holder)
		return
	}
	for _, text := range r.warnings {
		w.Note(slog.LevelWarn, text)
	}
	for _, a := range r.Applied {
		line := a.String()
		if a.Err != nil {
			line += "  (not done)"
		}
		fmt.Fprintln(w.Stdout, term.Visible(line))
	}
	name := fmt.Sprintf("pass %d", r.Pass.ID)
	if r.dryRun {
		name = "dry run"
		for _, s := range r.Skips { // those of a pass are stored, and ps --all shows them
			fmt.Fprintln(w.Stdout, term.Visible(fmt.Sprintf("skip %s reason=%s: %s", s.Identifier, s.Reason, s.Message)))
		}
	}
	for _, e := range r.Errors {
		w.PrintError(e)
	}
	due := ""
	if !r.NextDue.IsZero() {
		due = ", one is due"
		if d := r.NextDue.Sub(w.Now()); d > 0 {
			due = ", next due in " + term.Duration(d)
		}
	}
	fmt.Fprintf(w.Stdout, "%s: %d running, %d waiting, %d held, %d skipped%s\n", name, r.Running, r.Retrying, r.Held, len(r.Skips), due)
}

// writeLog writes the actions of a pass and a summary to its log, and at the level debug also the skipped issues. Errors and
// warnings are logged where they are printed.
func (r Result) writeLog(ctx context.Context, log *slog.Logger) {
	if r.Holder != nil {
		log.LogAttrs(ctx, slog.LevelInfo, "locked", slog.Int("pid", r.Holder.PID), slog.String("trigger", r.Holder.Trigger))
		return
	}
	if r.dryRun {
		log = log.With(slog.Bool("dry_run", true))
	} else {
		log = log.With(slog.Int64("pass_id", r.Pass.ID))
	}
	for _, a := range r.Applied {
		level, message, attrs := slog.LevelInfo, "action", a.LogValue().Group()
		if a.Err != nil {
			level, message, attrs = slog.LevelWarn, "action not done", append(attrs, slog.String("error", a.Err.Error()))
		}
		log.LogAttrs(ctx, level, message, attrs...)
	}
	for _, s := range r.Skips {
		log.LogAttrs(ctx, slog.LevelDebug, "skip", slog.String("issue_id", s.IssueID),
			slog.String("issue_identifier", s.Identifier), slog.String("reason", s.Reason), slog.String("message", s.Message))
	}
	log.LogAttrs(ctx, slog.LevelInfo, "pass", slog.String("trigger", r.Pass.Trigger), slog.Int64("duration_ms", r.Pass.Duration.Milliseconds()),
		slog.Int("running", r.Running), slog.Int("retrying", r.Retrying), slog.Int("held", r.Held),
		slog.Int("skipped", len(r.Skips)), slog.Int("errors", len(r.Errors)))
}

// quietReport is what the last pass with --quiet printed.
type quietReport struct {
	Codes []string  `json:"codes"`
	At    time.Time `json:"at"`
}

const (
	quietReportKey   = "quiet_errors"
	quietRepeatAfter = time.Hour
)

// reportQuiet prints errors if their codes differ from those of the last pass, every hour while they stay the same, and a line
// when they are over. Cron mails every line that it gets.
func reportQuiet(ctx context.Context, p *project.Project, errs []*reconcile.Error) {
	w := p.Env
	codes, printAll := []string{}, func() {
		for _, e := range errs {
			w.PrintError(e)
		}
	}
	for _, e := range errs {
		codes = append(codes, e.Code)
	}
	slices.Sort(codes)
	codes = slices.Compact(codes)
	db, err := state.Open(ctx, p.StateDir)
	if err != nil {
		printAll()
		return
	}
	defer db.Close()
	var last quietReport
	if text, known, err := db.Meta(ctx, quietReportKey); err == nil && known {
		_ = json.Unmarshal([]byte(text), &last) // an unreadable report counts as none
	}
	same := slices.Equal(codes, last.Codes)
	if len(codes) == 0 && len(last.Codes) == 0 || same && w.Now().Sub(last.At).Abs() < quietRepeatAfter {
		return
	}
	printAll()
	if len(codes) == 0 {
		w.Note(slog.LevelInfo, "over: "+strings.Join(last.Codes, ", "))
	}
	text, err := json.Marshal(quietReport{Codes: codes, At: w.Now()})
	if err == nil {
		err = db.SetMeta(ctx, quietReportKey, string(text))
	}
	if err != nil {
		w.PrintError(exit.From(err))
	}
}

// quietError returns the error that prevented a pass. With --quiet it prints the error if it is new, and returns only the
// exit code.
func quietError(ctx context.Context, p *project.Project, o TickOptions, err error) error {
	if !o.Quiet || !p.HasState() {
		return err
	}
	known := exit.From(err)
	reportQuiet(ctx, p, []*reconcile.Error{known})
	return exit.Only(exit.Code(known))
}

// ResultJSON is the documented shape of tick --json.
type ResultJSON struct {
	Pass *passJSON `json:"pass"`
	// Holder has the lock; it is left out as long as it has not written its name.
	Holder  *state.Holder      `json:"holder,omitempty"`
	Actions []actionJSON       `json:"actions"`
	Skipped any                `json:"skipped"`
	Counts  view.Counts        `json:"counts"`
	Errors  []*reconcile.Error `json:"errors"`
}

type passJSON struct {
	ID         *int64 `json:"id"` // null in a dry run, which is not recorded
	Trigger    string `json:"trigger"`
	StartedAt  string `json:"started_at"`
	DurationMS int64  `json:"duration_ms"`
	DryRun     bool   `json:"dry_run"`
}

type actionJSON struct {
	Action     string  `json:"action"`
	IssueID    string  `json:"issue_id"`
	Identifier string  `json:"issue_identifier"`
	RunID      *string `json:"run_id"`
	Reason     string  `json:"reason"`
}

// JSON returns the pass as tick --json prints it.
func (r Result) JSON() ResultJSON {
	out := ResultJSON{Actions: []actionJSON{}, Errors: []*reconcile.Error{}, Counts: view.Counts{Running: r.Running, Retrying: r.Retrying, Held: r.Held}}
	if r.Holder != nil {
		out.Skipped = "locked"
		if r.Holder.PID != 0 {
			out.Holder = r.Holder
		}
		return out
	}
	out.Pass = &passJSON{&r.Pass.ID, r.Pass.Trigger, term.Rfc3339(r.Pass.StartedAt), r.Pass.Duration.Milliseconds(), r.dryRun}
	if r.dryRun {
		out.Pass.ID = nil
	}
	for _, a := range r.Applied {
		if a.Err == nil {
			out.Actions = append(out.Actions, actionJSON{string(a.Kind), a.IssueID, a.Identifier, term.OrNull(a.RunID), a.Reason})
		}
	}
	out.Skipped = append([]reconcile.Skip{}, r.Skips...)
	out.Errors = append(out.Errors, r.Errors...)
	return out
}
