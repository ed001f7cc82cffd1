package command

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/agenttool"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// commentRequest asks for the comments of an issue, or for a change of them: action is list,
// post or edit.
type commentRequest struct {
	Action    string     `json:"action"`
	IssueID   string     `json:"issue_id"`
	Since     *time.Time `json:"since,omitempty"`
	CommentID string     `json:"comment_id,omitempty"`
	Body      string     `json:"body,omitempty"`
}

// maxComments bounds the comments of each read: the newest are kept.
const maxComments = 200

// comments returns the comments that were made after since, the newest first. The program may
// return others, in any order.
func (c *client) comments(ctx context.Context, issueID string, since time.Time) ([]reconcile.Comment, error) {
	request := commentRequest{Action: "list", IssueID: issueID}
	if !since.IsZero() {
		since = since.UTC()
		request.Since = &since
	}
	answer, err := c.ask(ctx, verbComment, request)
	if err != nil {
		return nil, err
	}
	list, err := answer.list("comments")
	if err != nil {
		return nil, c.invalid(verbComment, err)
	}
	found := []reconcile.Comment{}
	for n, raw := range list {
		one, err := comment(fmt.Sprintf("comments[%d]", n), raw)
		if err != nil {
			return nil, c.invalid(verbComment, err)
		}
		if one.CreatedAt.After(since) {
			found = append(found, one)
		}
	}
	byTime := func(a, b reconcile.Comment) int { return a.CreatedAt.Compare(b.CreatedAt) }
	if slices.IsSortedFunc(found, byTime) {
		slices.Reverse(found) // also comments of the same minute, to which the program may round
	}
	slices.SortStableFunc(found, func(a, b reconcile.Comment) int { return byTime(b, a) })
	return found[:min(len(found), maxComments)], nil
}

// comment reads a comment.
func comment(path string, raw json.RawMessage) (reconcile.Comment, error) {
	fields, err := object(path, raw)
	if err != nil {
		return reconcile.Comment{}, err
	}
	r := &reader{record: fields}
	made := reconcile.Comment{
		ID:     r.need("id"),
		Author: r.or("author", ""),
		Body:   text.OrEmpty(r.text("body")),
	}
	at := r.time("created_at")
	if at == nil {
		r.fail(fmt.Errorf("%s is missing", r.at("created_at")))
		return made, r.err
	}
	made.CreatedAt = *at
	if made.Author != "" {
		made.AuthorIDs = []string{made.Author}
	}
	made.Edited = r.boolean("edited")
	made.Own = r.boolean("own") || reconcile.Marked(made.Body)
	return made, r.err
}

// post comments on an issue.
func (c *client) post(ctx context.Context, issueID, body string) (reconcile.Comment, error) {
	answer, err := c.ask(ctx, verbComment, commentRequest{
		Action:  "post",
		IssueID: issueID,
		Body:    body,
	})
	if err != nil {
		return reconcile.Comment{}, err
	}
	made, err := comment("comment", answer.fields["comment"])
	if err != nil {
		return made, c.invalid(verbComment, err)
	}
	made.Own = true
	made.Body = body
	return made, nil
}

// edit replaces the text of a comment.
func (c *client) edit(ctx context.Context, issueID, commentID, body string) (string, error) {
	_, err := c.ask(ctx, verbComment, commentRequest{
		Action:    "edit",
		IssueID:   issueID,
		CommentID: commentID,
		Body:      body,
	})
	return body, err
}

// move changes the state of an issue. The program compares the names of states.
func (c *client) move(ctx context.Context, issueID, state string) error {
	_, err := c.ask(ctx, verbMove, map[string]string{
		"issue_id": issueID,
		"state":    strings.TrimSpace(state),
	})
	return err
}

const updateName = "issue_update"

// updateTool lets the agent move its issue.
func (c *client) updateTool() agenttool.Change {
	return agenttool.Change{
		Name:        updateName,
		Description: `Move the issue that you work on to another state. Example: {"state": "In Progress"}`,
		Argument:    "state",
		Meaning:     "The name of the new state.",
		ReadOnly:    c.ReadOnly,
		Do: func(ctx context.Context, i reconcile.Issue, state string) (string, *reconcile.Created, error) {
			answer, err := c.ask(ctx, verbTool, map[string]any{
				"issue": map[string]string{
					"id":         i.ID,
					"identifier": i.Identifier,
					"title":      i.Title,
					"state":      i.State,
				},
				"tool":      updateName,
				"arguments": map[string]string{"state": state},
			})
			if err != nil {
				return "", nil, err
			}
			r := &reader{record: answer}
			said := r.or("text", i.Identifier+" is now in the state "+state)
			if r.err != nil {
				return "", nil, c.invalid(verbTool, r.err)
			}
			return said, nil, nil
		},
	}
}

// commentTool lets the agent comment on its issue.
func (c *client) commentTool() agenttool.Change {
	return agenttool.Change{
		Name:         "issue_comment",
		Description:  `Comment on the issue that you work on. Example: {"text": "Done; the tests pass."}`,
		Argument:     "text",
		Meaning:      "The comment, as Markdown.",
		CommentsOnly: true,
		ReadOnly:     c.ReadOnly,
		Do: func(ctx context.Context, i reconcile.Issue, text string) (string, *reconcile.Created, error) {
			signed, err := agenttool.Sign(text)
			if err != nil {
				return "", nil, err
			}
			made, err := c.post(ctx, i.ID, signed)
			return "commented on " + i.Identifier, &reconcile.Created{Kind: "comment", ID: made.ID}, err
		},
	}
}
