// Package hosts describes the machines on which the agents of a project work.
package hosts

import (
	"context"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Row is a host. Its state may also be unreachable.
type Row struct {
	view.HostRow
	// Codex and Git are the versions that a login shell of the account finds there; empty for
	// none.
	Codex     string `json:"codex"`
	Git       string `json:"git"`
	LatencyMS int64  `json:"latency_ms"` // of a connection and an answer
}

// askBound is how long a host may take to answer.
const askBound = 30 * time.Second

// Rows asks all hosts of the project at once, and returns them in the order of the workflow.
func Rows(ctx context.Context, p *wiring.Project) ([]Row, error) {
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
		recorded, err = db.Store.State(ctx)
		if err != nil {
			return nil, err
		}
	}
	rows := make([]Row, len(cfg.Policy.Hosts))
	var asked sync.WaitGroup
	for i, host := range view.Hosts(cfg.Policy, recorded, p.Env.Now()) {
		rows[i].HostRow = host
		asked.Go(func() { rows[i].ask(ctx, p) })
	}
	asked.Wait()
	return rows, nil
}

// Unreachable is the state of a host that did not answer.
const Unreachable = "unreachable"

// ask adds the host's answer.
func (r *Row) ask(ctx context.Context, p *wiring.Project) {
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	a, err := wiring.AskHost(ctx, p, r.Name)
	r.Codex = a.Agent
	r.Git = a.Git
	r.LatencyMS = a.Latency.Milliseconds()
	if err != nil {
		known := exit.From(err)
		r.State = Unreachable
		r.Message = known.Error()
	}
}
