package jira

import (
	"context"
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/agenttool"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// maxComment bounds a comment of an agent, in bytes. Jira accepts 32,767 characters.
const maxComment = 30_000

// tools are the agent's tools.
func (c *client) tools() []reconcile.AgentTool {
	update := agenttool.Change{
		Name: "issue_update",
		Description: "Move the issue that you work on to another state. " +
			"If there is no way to that state, the answer names the states to which there is one.",
		Argument: "state",
		Meaning:  "The name of a status of the project",
		ReadOnly: c.o.ReadOnly,
		Do: func(ctx context.Context, issue reconcile.Issue, state string) (string, *reconcile.Created, error) {
			state = strings.TrimSpace(state)
			if err := c.move(ctx, issue.ID, state); err != nil {
				return "", nil, c.api.Unsure(err)
			}
			return string(text.JSON(map[string]string{"issue": issue.Identifier, "state": state})), nil, nil
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
					fmt.Sprintf("the comment is longer than %d bytes", maxComment),
				)
			}
			made, err := c.post(ctx, issue.ID, body)
			if err != nil {
				return "", nil, c.api.Unsure(err)
			}
			answer := text.JSON(map[string]string{"issue": issue.Identifier, "comment": made.ID})
			return string(answer), &reconcile.Created{Kind: "comment", ID: made.ID}, nil
		},
	}
	return []reconcile.AgentTool{update.Tool(), comment.Tool(), c.restTool()}
}
