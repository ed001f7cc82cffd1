package repoissue

import (
	"context"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/agenttool"
	"github.com/symphony-cron/symphony/reconcile"
)

// maxComment bounds a comment of an agent, in bytes.
const maxComment = 64 << 10

// Tools are the agent's tools that move the run's issue and comment on it, by the functions of a
// tracker. With readOnly they refuse every call.
func (n *Names) Tools(
	readOnly bool,
	move func(ctx context.Context, issueID, state string) error,
	post func(ctx context.Context, issueID, body string) (reconcile.Comment, error),
) []reconcile.AgentTool {
	states := strings.Join(append([]string{n.o.Open, "closed"}, n.o.StateLabels...), ", ")
	if n.o.Board {
		states += ", and the columns of the board"
	}
	return agenttool.IssueTools{
		Moves:    "States: " + states + ".",
		States:   "One of: " + states,
		ReadOnly: readOnly,
		Longest:  maxComment,
		NameOf:   func(issue reconcile.Issue) string { return issue.ID },
		Move:     move,
		Post:     post,
		Unsure:   n.api.Unsure,
	}.Tools()
}
