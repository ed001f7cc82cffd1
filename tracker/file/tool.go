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
	if len(t.Handoff) > 0 {
		states = strings.Join(t.Active, ", ")
	}
	update := agenttool.Change{
		Name: "issue_update", Description: "Move the issue that you work on to another state. States: " + states + ".",
		Argument: "state", Meaning: "One of: " + states, ReadOnly: t.ReadOnly,
		Do: func(ctx context.Context, issue reconcile.Issue, state string) (string, *reconcile.Created, error) {
			known := t.known(state)
			if known == "" {
				return "", nil, agenttool.Refusal("invalid_input", fmt.Sprintf("there is no state %q; states: %s", strings.TrimSpace(state), states))
			}
			return string(text.JSON(map[string]string{"issue": issue.ID, "state": known})), nil, t.Move(ctx, issue.ID, known)
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

// states are the states to which issues can be moved.
func (t *tracker) states() (list []string) {
	for _, state := range slices.Concat(t.Active, t.Others, t.Handoff, t.settings.Statuses, t.Terminal) {
		if !slices.ContainsFunc(list, func(s string) bool { return reconcile.SameState(s, state) }) {
			list = append(list, state)
		}
	}
	return list
}

// known returns a state as the workflow spells it; empty if there is none of that name.
func (t *tracker) known(state string) string {
	return text.First(t.states(), func(s string) bool { return reconcile.SameState(s, state) })
}

// Move changes the state of an issue to one of states. The error wraps reconcile.ErrGone if no file in the folder has the id.
func (t *tracker) Move(ctx context.Context, id, state string) error {
	known := t.known(state)
	if known == "" {
		return reconcile.NoState(t.Path, state, t.states())
	}
	return t.change(ctx, id, func(r *record, content []byte) ([]byte, error) {
		if reconcile.SameState(r.issue.State, known) {
			return content, nil
		}
		return t.setState(r, content, known)
	})
}
