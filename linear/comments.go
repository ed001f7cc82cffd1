package linear

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	commentPage = 50
	// maxComments bounds each read. If there are more, the agent reads the issue with its
	// tool.
	maxComments = 200
)

type wireComment struct {
	ID        string  `json:"id"`
	Body      string  `json:"body"`
	CreatedAt *string `json:"createdAt"`
	EditedAt  *string `json:"editedAt"`
	User      struct {
		wireUser
		ID   string `json:"id"`
		IsMe bool   `json:"isMe"`
	} `json:"user"`
	Bot *wireUser `json:"botActor"`
}

// Comments reads the comments that were made after since, the newest first, at most 200. The
// code of the error is issue_not_found if the issue is not visible.
func (c *Client) Comments(ctx context.Context, issueID string, since time.Time) ([]reconcile.Comment, error) {
	if since.IsZero() {
		since = time.Unix(0, 0) // some servers reject the year 1
	}
	vars := map[string]any{
		"id":    issueID,
		"since": since.UTC().Format(time.RFC3339Nano),
		"first": commentPage,
	}
	var comments []reconcile.Comment
	err := transport.Pages(c.Client, "comments", vars, func() (page list[wireComment], err error) {
		data, err := ask[struct {
			Issue struct {
				Comments list[wireComment] `json:"comments"`
			} `json:"issue"`
		}](ctx, c, document("comments", "comment_fields"), vars)
		if errors.Is(err, reconcile.ErrGone) {
			return page, c.missing(issueID)
		}
		if err != nil {
			return page, err
		}
		page = data.Issue.Comments
		for _, w := range page.Nodes {
			one, err := c.comment(w)
			if err != nil {
				return page, err
			}
			comments = append(comments, one)
		}
		page.PageInfo.HasNextPage = page.PageInfo.HasNextPage && len(comments) < maxComments
		return page, nil
	})
	if err != nil {
		return nil, err
	}
	return comments[:min(len(comments), maxComments)], nil
}

// comment normalises a record. Agents comment with the same key as symphony, so that a comment
// of the key's user, or of an app, may be an agent's. AuthorIDs are ids that a user can't
// choose: another user may have the same name or display name.
func (c *Client) comment(w wireComment) (reconcile.Comment, error) {
	at := text.Time(text.OrEmpty(w.CreatedAt))
	if w.ID == "" || at == nil {
		return reconcile.Comment{}, c.Fail("linear_unknown_payload", "a comment has no id or no time")
	}
	author := strings.TrimSpace(cmp.Or(w.User.Name, text.OrEmpty(w.Bot).Name))
	return reconcile.Comment{
		ID:        w.ID,
		Author:    c.Scrub(author),
		AuthorIDs: text.Unique([]string{w.User.ID, w.User.Email}),
		Body:      c.Scrub(w.Body),
		CreatedAt: *at,
		Own:       w.User.IsMe || w.Bot != nil,
		Edited:    w.EditedAt != nil,
	}, nil
}

// Post comments on an issue. The error wraps reconcile.ErrGone if the issue does not exist.
func (c *Client) Post(ctx context.Context, issueID, body string) (reconcile.Comment, error) {
	data, err := ask[struct {
		Create struct {
			Comment wireComment `json:"comment"`
		} `json:"commentCreate"`
	}](ctx, c, document("comment_create", "comment_fields"), map[string]any{
		"issueId": issueID,
		"body":    body,
	})
	if err != nil {
		return reconcile.Comment{}, err
	}
	return c.comment(data.Create.Comment)
}

// Edit replaces the text of a comment. The error wraps reconcile.ErrGone if the comment does
// not exist.
func (c *Client) Edit(ctx context.Context, _, commentID, body string) (string, error) {
	data, err := ask[struct {
		Update struct {
			Success bool        `json:"success"`
			Comment wireComment `json:"comment"`
		} `json:"commentUpdate"`
	}](ctx, c, document("comment_update", "comment_fields"), map[string]any{
		"id":   commentID,
		"body": body,
	})
	if err != nil {
		return "", err
	}
	if !data.Update.Success {
		return "", c.Fail("linear_unknown_payload", "Linear did not change the comment")
	}
	return c.Scrub(data.Update.Comment.Body), nil
}
