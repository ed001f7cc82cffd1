package jira

import (
	"github.com/symphony-cron/symphony/internal/adapter/agenttool"
	"github.com/symphony-cron/symphony/reconcile"
)

// maxComment bounds a comment of an agent, in bytes. Jira accepts 32,767 characters.
const maxComment = 30_000

// tools are the agent's tools.
func (c *client) tools() []reconcile.AgentTool {
	return agenttool.IssueTools{
		Moves:    "If there is no way to that state, the answer names the states to which there is one.",
		States:   "The name of a status of the project",
		ReadOnly: c.o.ReadOnly,
		Longest:  maxComment,
		NameOf:   func(issue reconcile.Issue) string { return issue.Identifier },
		Move:     c.move,
		Post:     c.post,
		Unsure:   c.api.Unsure,
	}.Tools()
}
