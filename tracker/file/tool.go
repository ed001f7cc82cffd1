package file

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/agenttool"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// maxComment bounds a comment of an agent, in bytes.
const maxComment = 64 << 10

// tools returns the agent's tools, which change only the issue that the agent works on.
func (t *tracker) tools() []reconcile.AgentTool {
	states := strings.Join(t.states(), ", ")
	update := agenttool.Change{
		Name: "issue_update", Description: "Move the issue that you work on to another state. States: " + states + ".",
		Argument: "state", Meaning: "One of: " + states, ReadOnly: t.ReadOnly,
		Do: func(ctx context.Context, issue reconcile.Issue, state string) (string, *reconcile.Created, error) {
			state, err := t.move(ctx, issue.ID, strings.TrimSpace(state))
			return string(text.JSON(map[string]string{"issue": issue.ID, "state": state})), nil, err
		},
	}
	comment := agenttool.Change{
		Name: "issue_comment", Description: "Comment on the issue that you work on, in Markdown.",
		Argument: "text", Meaning: "The text of the comment", CommentsOnly: true, ReadOnly: t.ReadOnly,
		Do: func(ctx context.Context, issue reconcile.Issue, body string) (string, *reconcile.Created, error) {
			if body = strings.TrimSpace(body); len(body) > maxComment {
				return "", nil, agenttool.Refusal("invalid_input", "the comment is longer than 64 KiB")
			}
			c, err := t.post(ctx, issue.ID, authorAgent, body)
			answer := text.JSON(map[string]string{"issue": issue.ID, "comment": c.ID})
			return string(answer), &reconcile.Created{Kind: "comment", ID: c.ID}, err
		},
	}
	return []reconcile.AgentTool{update.Tool(), comment.Tool()}
}

// states are the states to which an agent may move its issue.
func (t *tracker) states() (list []string) {
	for _, state := range slices.Concat(t.Active, t.Others, t.settings.Statuses, t.Terminal) {
		if !slices.ContainsFunc(list, func(s string) bool { return same(s, state) }) {
			list = append(list, state)
		}
	}
	return list
}

// move changes the state of an issue, and returns it as the workflow spells it.
func (t *tracker) move(ctx context.Context, id, state string) (string, error) {
	states := t.states()
	known := text.First(states, func(s string) bool { return same(s, state) })
	if known == "" {
		return "", agenttool.Refusal("invalid_input", fmt.Sprintf("there is no state %q; states: %s", state, strings.Join(states, ", ")))
	}
	return known, t.change(ctx, id, func(r *record, content []byte) ([]byte, error) {
		if same(r.issue.State, known) {
			return content, nil
		}
		return t.setState(r, content, known)
	})
}
