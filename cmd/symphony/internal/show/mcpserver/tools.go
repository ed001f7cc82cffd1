package mcpserver

import (
	"slices"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
)

// The groups of tools.
const (
	GroupAgents = "agents"
	GroupIssues = "issues" // needs a workflow
	GroupLean   = "lean"   // the few tools that a model needs, instead of GroupAgents
)

// Groups are all groups of tools.
func Groups() []string { return []string{GroupAgents, GroupIssues, GroupLean} }

// addTools registers the tools of each group. A tool is in the file of its subject.
func addTools(t *tools, c caller, s starter, e *elicitor) {
	o := s.options
	for _, group := range o.Groups {
		switch group {
		case GroupAgents:
			addAgentTools(t, s, e)
			conversations{c}.addTools(t)
			addWaitTools(t, e)
			addEventTools(t, c)
			addRequestTools(t, c)
			addMachineTools(t, c)
			worktrees{c.agents, o}.addTools(t)
		case GroupLean:
			lean{conversations{c}, s, e}.addTools(t)
			addListTools(t, s)
			addWaitTools(t, e)
			addEventTools(t, c)
			worktrees{c.agents, o}.addTools(t)
		case GroupIssues:
			addIssueTools(t, issues{env: s.env, project: o.Project})
		}
	}
}

// ParseGroups reads a list of groups as on the command line.
func ParseGroups(list []string) ([]string, error) {
	for _, g := range list {
		if !slices.Contains(Groups(), g) {
			return nil, exit.Usage("mcp: --tools takes agents, issues and lean, not %q", g)
		}
	}
	if slices.Contains(list, GroupLean) && slices.Contains(list, GroupAgents) {
		return nil, exit.Usage("mcp: --tools takes either lean or agents, whose tools have the same names")
	}
	return list, nil
}
