package agents

import (
	"context"
	"errors"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/reconcile"
)

// The states of a row.
const (
	RowIdle    = "idle"
	RowActive  = "active"  // a call is open
	RowWaiting = "waiting" // for a decision
	RowEnded   = "ended"
	RowKept    = "kept" // ended; its worktree contains work that exists nowhere else
)

// Row is an agent as symphony ps --agents shows it.
type Row struct {
	ID        string           `json:"id"`
	State     string           `json:"state"`
	Cwd       string           `json:"cwd"`
	Branch    string           `json:"branch"`     // of its worktree; empty without a worktree
	Source    string           `json:"repository"` // of its worktree
	Activity  string           `json:"activity"`
	Requests  []RequestRow     `json:"requests"`
	Turns     int              `json:"turns"`
	Tokens    reconcile.Tokens `json:"tokens"`
	StartedAt time.Time        `json:"started_at"`
	EndedAt   *time.Time       `json:"ended_at"`
	Outcome   string           `json:"outcome"`
	Error     string           `json:"error"`
}

// RequestRow is a request of an agent.
type RequestRow struct {
	ID        string                `json:"id"`
	Kind      reconcile.RequestKind `json:"kind"`
	Summary   string                `json:"summary"`
	ExpiresAt time.Time             `json:"expires_at"`
}

// Rows reads the live agents, newest first, with all also the ended agents. It does not create
// their state directory.
func Rows(ctx context.Context, w *environ.Env, all bool) (rows []Row, err error) {
	rows = []Row{}
	if AsProject(w) == nil {
		return rows, nil
	}
	a, err := Open(ctx, w)
	if err != nil {
		return rows, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	list, err := a.List(ctx)
	if err != nil {
		return rows, err
	}
	open, err := a.Requests(ctx) // after List, which ends the requests of agents that died
	if err != nil {
		return rows, err
	}
	for _, one := range list {
		if one.Outcome != "" && !all && !one.HasWorktree() {
			continue
		}
		row := NewRow(one, open)
		calls, err := a.DB.Clients.CallsOf(ctx, one.ID)
		if err != nil {
			return rows, err
		}
		for _, call := range calls {
			if !call.Ended() && row.State == RowIdle {
				row.State = RowActive
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// NewRow makes the row of an agent, without its calls.
func NewRow(a Agent, open []reconcile.Request) Row {
	r := Row{
		ID:        a.Identifier,
		State:     RowIdle,
		Cwd:       a.WorkspacePath,
		Activity:  a.Activity,
		Requests:  []RequestRow{},
		Turns:     a.TurnsDone,
		Tokens:    a.Tokens,
		StartedAt: a.StartedAt.UTC(),
		Outcome:   string(a.Outcome),
		Error:     a.ErrorText,
	}
	for _, q := range open {
		if q.RunID == a.ID {
			r.State = RowWaiting
			r.Requests = append(r.Requests, RequestRow{
				ID:        q.ID(),
				Kind:      q.Kind,
				Summary:   q.Summary,
				ExpiresAt: q.ExpiresAt.UTC(),
			})
		}
	}
	if tree := a.Settings.Worktree; tree != nil {
		r.Branch = tree.Branch
		r.Source = tree.Source
	}
	if a.Outcome != "" {
		ended := a.EndedAt.UTC()
		r.EndedAt = &ended
		r.State = RowEnded
		if a.HasWorktree() {
			r.State = RowKept
		}
	}
	return r
}
