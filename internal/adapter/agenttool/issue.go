package agenttool

import (
	"context"
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// IssueTools are the tools by which an agent moves its issue and comments on it.
type IssueTools struct {
	Moves    string // describes moves, after the first sentence
	States   string // describes the states
	ReadOnly bool   // they refuse every call
	// Longest bounds a comment, in bytes.
	Longest int
	// NameOf returns the name of an issue for the answer.
	NameOf func(issue reconcile.Issue) string
	Move   func(ctx context.Context, issueID, state string) error
	Post   func(ctx context.Context, issueID, body string) (reconcile.Comment, error)
	// Unsure extends the error of a change that the tracker may have made.
	Unsure func(err error) error
}

// Tools returns the tools.
func (t IssueTools) Tools() []reconcile.AgentTool {
	update := Change{
		Name:        "issue_update",
		Description: "Move the issue that you work on to another state. " + t.Moves,
		Argument:    "state",
		Meaning:     t.States,
		ReadOnly:    t.ReadOnly,
		Do:          t.update,
	}
	comment := Change{
		Name:         "issue_comment",
		Description:  "Comment on the issue that you work on, in Markdown.",
		Argument:     "text",
		Meaning:      "The text of the comment",
		CommentsOnly: true,
		ReadOnly:     t.ReadOnly,
		Do:           t.comment,
	}
	return []reconcile.AgentTool{update.Tool(), comment.Tool()}
}

func (t IssueTools) update(
	ctx context.Context,
	issue reconcile.Issue,
	state string,
) (string, *reconcile.Created, error) {
	state = strings.TrimSpace(state)
	if err := t.Move(ctx, issue.ID, state); err != nil {
		return "", nil, t.Unsure(err)
	}
	return string(text.JSON(map[string]string{"issue": t.NameOf(issue), "state": state})), nil, nil
}

func (t IssueTools) comment(
	ctx context.Context,
	issue reconcile.Issue,
	body string,
) (string, *reconcile.Created, error) {
	body, err := Sign(body)
	if err != nil {
		return "", nil, err
	}
	if len(body) > t.Longest {
		return "", nil, Refusal("invalid_input", fmt.Sprintf("the comment is longer than %d bytes", t.Longest))
	}
	made, err := t.Post(ctx, issue.ID, body)
	if err != nil {
		return "", nil, t.Unsure(err)
	}
	answer := text.JSON(map[string]string{"issue": t.NameOf(issue), "comment": made.ID})
	return string(answer), &reconcile.Created{Kind: "comment", ID: made.ID}, nil
}
