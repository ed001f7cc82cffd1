// Package hosts describes the machines on which the agents of a project work.
package hosts

import (
	"context"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Row is one host.
type Row struct {
	Name string `json:"host"`
	// State is ready, full, lost, blocked or unreachable. Only a ready host gets the next run.
	State string `json:"state"`
	// Runs is the number of agents that it has, Slots how many it may have; 0 for any number.
	Runs  int `json:"runs"`
	Slots int `json:"slots"`
	// Codex and Git are the versions that a login shell of the account finds there; empty for none.
	Codex     string `json:"codex"`
	Git       string `json:"git"`
	LatencyMS int64  `json:"latency_ms"` // of a connection and an answer
	// Message is why the host gets no runs; empty for a ready one.
	Message string `json:"message"`
}

// askBound is how long a host may take to answer.
const askBound = 30 * time.Second

// Rows asks all hosts of the project at once, and returns them in the order of the workflow.
func Rows(ctx context.Context, p *project.Project) ([]Row, error) {
	cfg, err := p.ConfigWithoutKey()
	if err != nil {
		return nil, err
	}
	recorded := reconcile.State{}
	if p.HasState() {
		db, err := state.OpenReadOnly(ctx, p.StateDir)
		if err != nil {
			return nil, err
		}
		defer db.Close()
		if recorded, err = db.Store.State(ctx); err != nil {
			return nil, err
		}
	}
	rows := make([]Row, len(cfg.Policy.Hosts))
	var asked sync.WaitGroup
	for i, name := range cfg.Policy.Hosts {
		rows[i] = Row{Name: name, State: "ready", Slots: cfg.Policy.MaxPerHost}
		rows[i].count(recorded, p.Env.Now())
		asked.Go(func() { rows[i].ask(ctx, p) })
	}
	asked.Wait()
	return rows, nil
}

// count adds what the database knows.
func (r *Row) count(recorded reconcile.State, now time.Time) {
	lost := time.Duration(0)
	for _, run := range recorded.Runs {
		if run.Host == r.Name && run.Kind == reconcile.AgentRun {
			r.Runs++
			lost = max(lost, run.Lost(now))
		}
	}
	b, blocked := recorded.RemoteBlocks[r.Name]
	switch {
	case lost > 0:
		r.State, r.Message = "lost", "its runs have not been heard of for "+lost.Round(time.Second).String()
	case blocked:
		r.State, r.Message = "blocked", b.Code+": "+b.Message+"; symphony unblock tries again"
	case r.Slots > 0 && r.Runs >= r.Slots:
		r.State = "full"
	}
}

// ask adds what the host says.
func (r *Row) ask(ctx context.Context, p *project.Project) {
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	a, err := project.AskHost(ctx, p, r.Name)
	r.Codex, r.Git, r.LatencyMS = a.Codex, a.Git, a.Latency.Milliseconds()
	if err != nil {
		known := exit.From(err)
		r.State, r.Message = "unreachable", known.Error()
	}
}
