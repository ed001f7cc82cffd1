package gitea

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

// tools are the agent's tools. They change the run's issue only: requests of an agent's own
// would meet what Gitea answers with success, such as a label that it does not know.
func (c *client) tools() []reconcile.AgentTool {
	states := strings.Join(append([]string{"open", "closed"}, c.o.StateLabels...), ", ")
	update := agenttool.Change{
		Name:        "issue_update",
		Description: "Move the issue that you work on to another state. States: " + states + ".",
		Argument:    "state",
		Meaning:     "One of: " + states,
		ReadOnly:    c.o.ReadOnly,
		Do: func(ctx context.Context, issue reconcile.Issue, state string) (string, *reconcile.Created, error) {
			state = strings.TrimSpace(state)
			if err := c.move(ctx, issue.ID, state); err != nil {
				return "", nil, c.api.Unsure(err)
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
		ReadOnly:     c.o.ReadOnly,
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
			made, err := c.post(ctx, issue.ID, body)
			if err != nil {
				return "", nil, c.api.Unsure(err)
			}
			answer := text.JSON(map[string]string{"issue": issue.ID, "comment": made.ID})
			return string(answer), &reconcile.Created{Kind: "comment", ID: made.ID}, nil
		},
	}
	return []reconcile.AgentTool{update.Tool(), comment.Tool()}
}
