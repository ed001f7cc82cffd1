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
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// report prints a pass: a line per action and a summary, or one JSON object, or for schedules nothing but
// a change in what is wrong.
func Print(ctx context.Context, p *project.Project, w *term.Env, o TickOptions, r Result) {
	if w.Log != nil {
		r.logPass(ctx, w.Log)
	}
	switch {
	case o.Quiet:
		if r.Holder == nil {
			reportQuiet(ctx, p, r.Errors)
		}
	case o.Json:
		w.PrintJSON(r.Json(o.DryRun))
		for _, e := range r.Errors {
			w.PrintError(e)
		}
	default:
		ReportText(p, w, r)
	}
}

func ReportText(p *project.Project, w *term.Env, r Result) {
	if r.Holder != nil {
		fmt.Fprintf(w.Stdout, "another pass is at work (%s); nothing to do\n", project.HolderText(r.Holder))
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
		for _, s := range r.Skips { // of a pass they are stored, and ps --all shows them
			fmt.Fprintln(w.Stdout, term.Visible(fmt.Sprintf("skip %s reason=%s: %s", s.Identifier, s.Reason, s.Message)))
		}
	}
	for _, e := range r.Errors {
		w.PrintError(e)
	}
	fmt.Fprintf(w.Stdout, "%s: %d running, %d waiting, %d held, %d skipped%s\n", name, r.Running, r.Retrying, r.Held, len(r.Skips), nextDue(r, w.Now()))
}

func nextDue(r Result, now time.Time) string {
	if r.NextDue.IsZero() {
		return ""
	}
	if d := r.NextDue.Sub(now); d > 0 {
		return ", next due in " + term.Duration(d)
	}
	return ", one is due"
}

// said is what a quiet pass has last printed.
type said struct {
	Codes []string  `json:"codes"`
	At    time.Time `json:"at"`
}

const (
	saidKey    = "quiet_errors"
	sayAgainIn = time.Hour
)

// reportQuiet prints errors when their set differs from the last pass's, once an hour while it stays, and
// once when it is over: cron mails each line that it sees.
func reportQuiet(ctx context.Context, p *project.Project, errs []*reconcile.Error) {
	w := p.Env
	codes := []string{}
	for _, e := range errs {
		codes = append(codes, e.Code)
	}
	slices.Sort(codes)
	codes = slices.Compact(codes)
	db, err := state.Open(ctx, p.StateDir)
	if err != nil {
		for _, e := range errs {
			w.PrintError(e)
		}
		return
	}
	defer db.Close()
	var last said
	if text, known, err := db.Meta(ctx, saidKey); err == nil && known {
		// What can't be read counts as never said.
		_ = json.Unmarshal([]byte(text), &last)
	}
	same := slices.Equal(codes, last.Codes)
	if len(codes) == 0 && len(last.Codes) == 0 || same && w.Now().Sub(last.At).Abs() < sayAgainIn {
		return
	}
	for _, e := range errs {
		w.PrintError(e)
	}
	if len(codes) == 0 {
		w.Note(slog.LevelInfo, "over: "+strings.Join(last.Codes, ", "))
	}
	text, err := json.Marshal(said{Codes: codes, At: w.Now()})
	if err == nil {
		err = db.SetMeta(ctx, saidKey, string(text))
	}
	if err != nil {
		w.PrintError(exit.From(err))
	}
}

// quietly returns the error that kept a pass from running, unless a schedule has been told of it already.
func quietly(ctx context.Context, p *project.Project, o TickOptions, err error) error {
	if !o.Quiet || !p.HasState() {
		return err
	}
	known := exit.From(err)
	reportQuiet(ctx, p, []*reconcile.Error{known})
	return exit.Only(exit.Code(known))
}

type TickJSON struct {
	Pass    *passJSON        `json:"pass"`
	Holder  *holderJSON      `json:"holder,omitempty"`
	Actions []actionJSON     `json:"actions"`
	Skipped any              `json:"skipped"`
	Counts  countsJSON       `json:"counts"`
	Errors  []term.ErrorJSON `json:"errors"`
}

type passJSON struct {
	ID         *int64 `json:"id"` // null in a dry run, which is recorded nowhere
	Trigger    string `json:"trigger"`
	StartedAt  string `json:"started_at"`
	DurationMS int64  `json:"duration_ms"`
	DryRun     bool   `json:"dry_run"`
}

type holderJSON struct { // null where it has not yet said who it is
	PID     *int    `json:"pid"`
	Trigger *string `json:"trigger"`
	Since   *string `json:"since"`
}

type actionJSON struct {
	Action     string  `json:"action"`
	IssueID    string  `json:"issue_id"`
	Identifier string  `json:"issue_identifier"`
	RunID      *string `json:"run_id"`
	Reason     string  `json:"reason"`
}

type skipJSON struct {
	IssueID    string `json:"issue_id"`
	Identifier string `json:"issue_identifier"`
	Reason     string `json:"reason"`
	Message    string `json:"message"`
}

type countsJSON struct {
	Running  int `json:"running"`
	Retrying int `json:"retrying"`
	Held     int `json:"held"`
}

// json is the documented shape of tick --json.
func (r Result) Json(dryRun bool) TickJSON {
	out := TickJSON{Actions: []actionJSON{}, Errors: []term.ErrorJSON{}, Counts: countsJSON{r.Running, r.Retrying, r.Held}}
	if r.Holder != nil {
		out.Skipped = "locked"
		out.Holder = &holderJSON{}
		if h := r.Holder; h.PID != 0 {
			out.Holder = &holderJSON{&h.PID, &h.Trigger, new(term.Rfc3339(h.Since))}
		}
		return out
	}
	var id *int64
	if !dryRun {
		id = &r.Pass.ID
	}
	out.Pass = &passJSON{id, r.Pass.Trigger, term.Rfc3339(r.Pass.StartedAt), r.Pass.Duration.Milliseconds(), dryRun}
	for _, a := range r.Applied {
		if a.Err == nil {
			out.Actions = append(out.Actions, actionJSON{string(a.Kind), a.IssueID, a.Identifier, term.OrNull(a.RunID), a.Reason})
		}
	}
	skips := []skipJSON{}
	for _, s := range r.Skips {
		skips = append(skips, skipJSON(s))
	}
	out.Skipped = skips
	for _, e := range r.Errors {
		out.Errors = append(out.Errors, term.ErrorOf(e))
	}
	return out
}
