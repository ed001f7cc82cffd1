package mcpserver

import (
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
)

// The groups of tools.
const (
	GroupAgents = "agents"
	GroupIssues = "issues" // needs a workflow
	GroupLean   = "lean"   // the few tools that a model needs, instead of GroupAgents
)

// Options of the server.
type Options struct {
	Groups []string // of tools; empty for all that are possible
	// CallTimeout limits each call of a tool.
	CallTimeout time.Duration
	// ApprovalTimeout is how long a request of an agent waits for a decision.
	ApprovalTimeout time.Duration
	// IdleTimeout is how long an agent lives without a call; 0 for no limit.
	IdleTimeout time.Duration
	// Ephemeral: the agents that this server spawned end with it.
	Ephemeral bool
	// ByPerson: no tool decides requests, only a person at the host, at the page or in a
	// terminal.
	ByPerson bool
	// FullAccess permits conversations without a sandbox.
	FullAccess bool
	// Events: the host gets the events of agents as notifications even if it did not ask for
	// them.
	Events bool
	// Deliver permits to push the work of agents to the origin of the operator's repository.
	Deliver bool
	// Dirs are directories in which agents may work, beside the server's own and the roots of
	// the host.
	Dirs    []string
	Project *wiring.Project // of the issues; nil without a workflow
	// overHTTP: the hosts get no events as notifications, which the SDK can't send there.
	overHTTP bool
	// outputSchemas: the list of tools includes them, for the documentation.
	outputSchemas bool
}

// Groups returns all groups of tools.
func Groups() []string { return []string{GroupAgents, GroupIssues, GroupLean} }

// ParseGroups reads a list of groups as on the command line.
func ParseGroups(list []string) ([]string, error) {
	for _, g := range list {
		if !slices.Contains(Groups(), g) {
			return nil, exit.Usage("mcp: the groups of tools are agents, issues and lean, not %q", g)
		}
	}
	if slices.Contains(list, GroupLean) && slices.Contains(list, GroupAgents) {
		return nil, exit.Usage("mcp: choose either lean or agents, whose tools have the same names")
	}
	return list, nil
}

// groups returns the groups of tools of a server with these options.
func (o Options) groups() ([]string, error) {
	switch {
	case len(o.Groups) == 0 && o.Project == nil:
		return []string{GroupAgents}, nil
	case len(o.Groups) == 0:
		return []string{GroupAgents, GroupIssues}, nil
	case o.Project == nil && slices.Contains(o.Groups, GroupIssues):
		return nil, exit.Usage("mcp: the tools of the group issues need a workflow: name it with -w FILE, and over HTTP " +
			"start symphony serve for one project")
	}
	return o.Groups, nil
}

// decidingTools names the tools of these groups that decide requests; empty if there are none.
func (o Options) decidingTools(groups []string) string {
	switch {
	case o.ByPerson:
		return ""
	case slices.Contains(groups, GroupLean):
		return "decide_request"
	case slices.Contains(groups, GroupAgents):
		return "approve, deny or answer"
	}
	return ""
}
