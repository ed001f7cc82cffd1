package view

import (
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// AgentRow names the agent of a run.
type AgentRow struct {
	Kind string `json:"kind"` // such as claude
	Home string `json:"home"` // the directory of its login, which stands for the account
}

// agentOf returns the agent of a run, nil for a run without one.
func agentOf(r reconcile.Run) *AgentRow {
	if r.Agent.Kind == "" {
		return nil
	}
	return &AgentRow{Kind: r.Agent.Kind, Home: r.Agent.Home}
}

// AccountRow is the account of an agent that may work on issues.
type AccountRow struct {
	AgentRow
	// Blocked is why it can't be used; null if it can.
	Blocked *wiring.BlockedRow `json:"blocked"`
	// Instead names the agent that takes over while it can't be used; null if none does.
	Instead *string `json:"instead"`

	Name string `json:"-"` // how messages name the agent
}

// accounts returns the accounts of all agents that may work on issues.
func (f *Facts) accounts() []AccountRow {
	rows := []AccountRow{}
	if f.Config == nil {
		return rows
	}
	for _, a := range wiring.Accounts(f.Project, f.agents) {
		row := AccountRow{
			AgentRow: AgentRow(a.Agent),
			Name:     f.agents.AgentName(a.Agent),
			Blocked:  wiring.AccountBlock(a.Account, f.Now),
		}
		if row.Blocked != nil {
			row.Instead = text.OrNull(wiring.Instead(f.Project, f.agents, a.Agent, f.Now))
		}
		rows = append(rows, row)
	}
	return rows
}

// agentName is how the agent of a run is named; empty if the project has no other.
func (f *Facts) agentName(r reconcile.Run) string {
	all := f.agents.AllAgents()
	if r.Agent.Kind == "" || len(f.agents.Agents) == 0 || len(all) == 1 && all[0] == r.Agent {
		return ""
	}
	return f.agents.AgentName(r.Agent)
}

// LastAgent names the agent that worked on an issue last; empty if the project has no other. runs are
// the issue's, the newest first.
func (f *Facts) LastAgent(runs []reconcile.Run) string {
	return f.agentName(text.First(runs, func(r reconcile.Run) bool { return r.Agent.Kind != "" }))
}
