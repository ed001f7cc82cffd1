package view

import (
	"context"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/state"
)

// pendingRow is what an agent asks of a person.
type PendingRow struct {
	ID         string `json:"id"`
	Identifier string `json:"issue_identifier"`
	RunID      string `json:"run_id"`
	Kind       string `json:"kind"`
	Summary    string `json:"summary"`
	// Options are the labels that --choice counts, of the first question; Questions are all of them.
	Options   []string      `json:"options"`
	Questions []questionRow `json:"questions"`
	Outside   bool          `json:"outside_sandbox"`
	AskedAt   time.Time     `json:"asked_at"`
	ExpiresAt time.Time     `json:"expires_at"`

	Request reconcile.Request
}

type questionRow struct {
	Question string   `json:"question"`
	Options  []string `json:"options"`
	// Other: text beside the options is welcome.
	Other  bool `json:"other"`
	Secret bool `json:"secret"`
}

// newPendingRow gives the time that is left by the clock that counts.
func newPendingRow(r reconcile.Request, now time.Time, at reconcile.Instant) PendingRow {
	expires := now.Add(r.Left(now, at))
	if expires.Sub(r.ExpiresAt).Abs() < time.Second {
		expires = r.ExpiresAt // no clock was stepped
	}
	row := PendingRow{
		ID: r.ID(), Identifier: r.Identifier, RunID: r.RunID, Kind: string(r.Kind), Summary: r.Summary, Options: []string{},
		Questions: []questionRow{}, Outside: r.Outside, AskedAt: r.AskedAt.UTC(), ExpiresAt: expires.UTC().Truncate(time.Millisecond),
		Request: r,
	}
	for i, q := range r.Detail.Questions {
		labels := []string{}
		for _, o := range q.Options {
			labels = append(labels, o.Label)
		}
		if i == 0 {
			row.Options = labels
		}
		row.Questions = append(row.Questions, questionRow{Question: q.Text, Options: labels, Other: q.Other || len(labels) == 0, Secret: q.Secret})
	}
	return row
}

// instant is now on the clock that neither a suspend nor a stepped wall clock moves.
func Instant() (reconcile.Instant, error) {
	boot, err := proc.BootID()
	return reconcile.Instant{Boot: boot, Mono: proc.Monotonic()}, err
}

// requests adds what is asked, and of the runs that they wait for it. What a dead worker asked has ended with it.
func (v *View) requests(ctx context.Context, p *project.Project, db *state.DB, only chosenIssues) error {
	open, err := OpenRequests(ctx, p, db)
	if err != nil || len(open) == 0 {
		return err
	}
	at, err := Instant()
	if err != nil {
		return err
	}
	for _, r := range open {
		if !only.has(r.IssueID) {
			continue
		}
		v.Requests = append(v.Requests, newPendingRow(r, v.GeneratedAt, at))
		for i := range v.Running {
			if v.Running[i].RunID == r.RunID {
				v.Running[i].WaitsFor = append(v.Running[i].WaitsFor, r.ID())
			}
		}
	}
	return nil
}

// openRequests are those that somebody still waits for.
func OpenRequests(ctx context.Context, p *project.Project, db *state.DB) ([]reconcile.Request, error) {
	all, err := db.OpenRequests(ctx)
	open := all[:0]
	for _, r := range all {
		if project.Alive(p.StateDir, r.RunID) {
			open = append(open, r)
		}
	}
	return open, err
}

// howToAnswer is the command that answers a request.
func HowToAnswer(r reconcile.Request) string {
	if r.Kind != reconcile.QuestionRequest {
		return "symphony approve " + r.ID() + " | symphony deny " + r.ID()
	}
	text := "symphony answer " + r.ID()
	for _, q := range r.Detail.Questions {
		if len(q.Options) == 0 {
			return text + strings.Repeat(` "TEXT"`, len(r.Detail.Questions))
		}
	}
	return text + strings.Repeat(" --choice N", len(r.Detail.Questions))
}
