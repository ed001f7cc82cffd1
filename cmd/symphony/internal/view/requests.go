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

// RequestRow is a request of an agent that an operator has not answered yet.
type RequestRow struct {
	ID         string  `json:"id"`
	Identifier string  `json:"issue_identifier"`
	IssueURL   *string `json:"issue_url"`
	RunID      string  `json:"run_id"`
	Kind       string  `json:"kind"`
	Summary    string  `json:"summary"`
	// Options are the labels of the first question, which --choice counts; Questions are all of them.
	Options   []string   `json:"options"`
	Questions []Question `json:"questions"`
	Outside   bool       `json:"outside_sandbox"`
	AskedAt   time.Time  `json:"asked_at"`
	ExpiresAt time.Time  `json:"expires_at"`

	Request reconcile.Request `json:"-"`
}

// Question is one question of a request. Other is set where a text beside the options is accepted.
type Question struct {
	Question string   `json:"question"`
	Options  []string `json:"options"`
	Other    bool     `json:"other"`
	Secret   bool     `json:"secret"`
}

// newRequestRow takes the time that is left from the monotonic clock, so that a stepped wall clock changes nothing.
func newRequestRow(r reconcile.Request, now time.Time, at reconcile.Instant) RequestRow {
	expires := now.Add(r.Left(now, at))
	if expires.Sub(r.ExpiresAt).Abs() < time.Second {
		expires = r.ExpiresAt
	}
	row := RequestRow{
		ID: r.ID(), Identifier: r.Identifier, RunID: r.RunID, Kind: string(r.Kind), Summary: r.Summary, Options: []string{},
		Questions: []Question{}, Outside: r.Outside, AskedAt: r.AskedAt.UTC(), ExpiresAt: expires.UTC().Truncate(time.Millisecond),
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
		row.Questions = append(row.Questions, Question{Question: q.Text, Options: labels, Other: q.Other || len(labels) == 0, Secret: q.Secret})
	}
	return row
}

// Instant is the present moment on the monotonic clock, with the boot that it belongs to.
func Instant() (reconcile.Instant, error) {
	boot, err := proc.BootID()
	return reconcile.Instant{Boot: boot, Mono: proc.Monotonic()}, err
}

// addRequests adds the open requests, and their ids to the rows of their runs.
func (v *Overview) addRequests(ctx context.Context, p *project.Project, db *state.DB, only issueSet) error {
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
		row := newRequestRow(r, v.GeneratedAt, at)
		for i := range v.Running {
			if run := &v.Running[i]; run.RunID == r.RunID {
				run.WaitsFor = append(run.WaitsFor, r.ID())
				row.IssueURL = run.IssueURL
			}
		}
		v.Requests = append(v.Requests, row)
	}
	return nil
}

// OpenRequests are the unanswered requests of living workers. A request ends with its worker.
func OpenRequests(ctx context.Context, p *project.Project, db *state.DB) ([]reconcile.Request, error) {
	all, err := db.Views.OpenRequests(ctx)
	open := all[:0]
	for _, r := range all {
		if project.Alive(p.StateDir, r.RunID) {
			open = append(open, r)
		}
	}
	return open, err
}

// HowToAnswer is the command that answers a request.
func HowToAnswer(r reconcile.Request) string {
	if r.Kind != reconcile.QuestionRequest {
		return "symphony approve " + r.ID() + " | symphony deny " + r.ID()
	}
	command := "symphony answer " + r.ID()
	for _, q := range r.Detail.Questions {
		if len(q.Options) == 0 {
			return command + strings.Repeat(` "TEXT"`, len(r.Detail.Questions))
		}
	}
	return command + strings.Repeat(" --choice N", len(r.Detail.Questions))
}
