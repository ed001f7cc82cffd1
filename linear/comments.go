package linear

import (
	"cmp"
	"context"
	_ "embed" // the query
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

//go:embed query/comments.graphql
var commentsQuery string

const (
	commentPage = 50
	// maxComments bounds one read. An agent that missed more reads the issue itself.
	maxComments = 200
)

type wireComment struct {
	ID        string      `json:"id"`
	Body      string      `json:"body"`
	CreatedAt *string     `json:"createdAt"`
	User      *wireAuthor `json:"user"`
	Bot       *wireAuthor `json:"botActor"`
}

type wireAuthor struct {
	Name string `json:"name"`
}

// Comments reads the comments that were made after since, the newest first, at most 200. The error has the code
// issue_not_found where Linear no longer shows the issue.
func (c *Client) Comments(ctx context.Context, issueID string, since time.Time) ([]reconcile.Comment, error) {
	if since.IsZero() {
		since = time.Unix(0, 0) // the year 1 is no valid time for every server
	}
	vars := map[string]any{"id": issueID, "since": since.UTC().Format(time.RFC3339Nano), "first": commentPage}
	var comments []reconcile.Comment
	err := c.pages("comments", func(after string) (*pageInfo, error) {
		data, err := ask[struct {
			Issue *struct {
				Comments struct {
					Nodes    *[]wireComment `json:"nodes"`
					PageInfo *pageInfo      `json:"pageInfo"`
				} `json:"comments"`
			} `json:"issue"`
		}](ctx, c, commentsQuery, page(vars, after))
		if err != nil {
			return nil, c.notFound(err, issueID)
		}
		if data.Issue == nil || data.Issue.Comments.Nodes == nil {
			return nil, c.fail("linear_unknown_payload", "the answer holds no list of comments", "")
		}
		for _, w := range *data.Issue.Comments.Nodes {
			at := timestamp(w.CreatedAt)
			if w.ID == "" || at == nil {
				return nil, c.fail("linear_unknown_payload", "a comment has no id or no time", "")
			}
			comments = append(comments, reconcile.Comment{ID: w.ID, Author: c.scrub(w.author()), Body: c.scrub(w.Body), CreatedAt: *at})
		}
		if len(comments) >= maxComments {
			return nil, nil //nolint:nilnil // no further page is wanted
		}
		return data.Issue.Comments.PageInfo, nil
	})
	if err != nil {
		return nil, err
	}
	return comments[:min(len(comments), maxComments)], nil
}

// author is the name of the user, or else of the integration.
func (w wireComment) author() string {
	user, bot := cmp.Or(w.User, &wireAuthor{}), cmp.Or(w.Bot, &wireAuthor{})
	return strings.TrimSpace(cmp.Or(user.Name, bot.Name))
}
