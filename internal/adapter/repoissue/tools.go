package repoissue

import (
	"context"
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/agenttool"
	"github.com/symphony-cron/symphony/internal/text"
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
	update := agenttool.Change{
		Name:        "issue_update",
		Description: "Move the issue that you work on to another state. States: " + states + ".",
		Argument:    "state",
		Meaning:     "One of: " + states,
		ReadOnly:    readOnly,
		Do: func(ctx context.Context, issue reconcile.Issue, state string) (string, *reconcile.Created, error) {
			state = strings.TrimSpace(state)
			if err := move(ctx, issue.ID, state); err != nil {
				return "", nil, n.api.Unsure(err)
			}
			return string(text.JSON(map[string]string{"issue": issue.ID, "state": state})), nil, nil
		},
	}
	comment := agenttool.Change{
		Name:         "issue_comment",
		Description:  "Comment on the issue that you work on, in Markdown.",
		Argument:     "text",
		Meaning:      "The text of the comment",
		CommentsOnly: true,
		ReadOnly:     readOnly,
		Do: func(ctx context.Context, issue reconcile.Issue, body string) (string, *reconcile.Created, error) {
			body, err := agenttool.Sign(body)
			if err != nil {
				return "", nil, err
			}
			if len(body) > maxComment {
				return "", nil, agenttool.Refusal(
					"invalid_input",
					fmt.Sprintf("the comment is longer than %d KiB", maxComment>>10),
				)
			}
			made, err := post(ctx, issue.ID, body)
			if err != nil {
				return "", nil, n.api.Unsure(err)
			}
			answer := text.JSON(map[string]string{"issue": issue.ID, "comment": made.ID})
			return string(answer), &reconcile.Created{Kind: "comment", ID: made.ID}, nil
		},
	}
	return []reconcile.AgentTool{update.Tool(), comment.Tool()}
}
