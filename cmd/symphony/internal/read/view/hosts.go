package view

import (
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// HostRow is a machine in worker.ssh_hosts, as the database describes it.
type HostRow struct {
	Name string `json:"host"`
	// State is ready, full, lost or blocked. Only a ready host gets the next run.
	State string `json:"state"`
	// Runs is the number of its agents, Slots how many it may have; 0 for any number.
	Runs  int `json:"runs"`
	Slots int `json:"slots"`
	// Message is why a lost or a blocked host gets no runs, otherwise empty.
	Message string `json:"message"`
}

// Usable reports whether the host is neither lost nor blocked.
func (h HostRow) Usable() bool { return h.State == HostReady || h.State == HostFull }

// States of hosts.
const (
	HostReady   = "ready"
	HostFull    = "full"
	HostLost    = "lost"
	HostBlocked = "blocked"
)

// Hosts describes the hosts of a project, in the order of the workflow.
func Hosts(p reconcile.Policy, recorded reconcile.State, now time.Time) []HostRow {
	runs := map[string]int{}
	lost := reconcile.LostHosts(recorded.Runs, now)
	for _, run := range recorded.Runs {
		if run.Host != "" && run.Kind == reconcile.AgentRun {
			runs[run.Host]++
		}
	}
	rows := []HostRow{}
	for _, name := range p.Hosts {
		r := HostRow{Name: name, State: HostReady, Runs: runs[name], Slots: p.MaxPerHost}
		b, blocked := recorded.RemoteBlocks[name]
		switch {
		case lost[name] > 0:
			r.State = HostLost
			r.Message = "its runs have not been heard of for " + lost[name].Round(time.Second).String()
		case blocked:
			r.State = HostBlocked
			r.Message = b.Code + ": " + b.Message + "; symphony resume tries again"
		case r.Slots > 0 && r.Runs >= r.Slots:
			r.State = HostFull
		}
		rows = append(rows, r)
	}
	return rows
}
