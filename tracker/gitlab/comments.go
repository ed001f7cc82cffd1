package gitlab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/gitlabapi"
	"github.com/symphony-cron/symphony/reconcile"
)

// edits is how much later than it was made a comment was changed at least, if someone edited it.
const edits = time.Second

// comment returns a comment with the names of its author. A maintainer of a project can edit the
// comments of others there.
func (c *client) comment(n gitlabapi.Note) reconcile.Comment {
	body := c.api.Scrub(n.Body)
	comment := reconcile.Comment{
		ID:        strconv.FormatInt(n.ID, 10),
		Author:    "ghost",
		Body:      body,
		CreatedAt: n.CreatedAt.UTC(),
		Own:       reconcile.Marked(body),
		Edited:    n.UpdatedAt.Sub(n.CreatedAt) >= edits,
	}
	if n.Author != nil {
		comment.Author = n.Author.Login
		comment.AuthorIDs = n.Author.Names()
	}
	return comment
}

// comments reads the comments that were made after since, the newest first.
func (c *client) comments(ctx context.Context, issueID string, since time.Time) ([]reconcile.Comment, error) {
	at, err := c.IssueOf(issueID)
	if err != nil {
		return nil, err
	}
	comments := []reconcile.Comment{}
	strange := false
	err = c.within(ctx, at.Repo, func(base string) error {
		comments = comments[:0]
		path := fmt.Sprintf("%s/issues/%d/notes", base, at.Number)
		return gitlabapi.List(ctx, c.api, path, newestNotes(), nil, func(notes []gitlabapi.Note) bool {
			for _, n := range notes {
				if n.ID == 0 || n.CreatedAt.IsZero() {
					strange = true
					return false
				}
				if !n.CreatedAt.After(since) {
					return false
				}
				if !n.System {
					comments = append(comments, c.comment(n))
				}
			}
			return true
		})
	})
	if errors.Is(err, reconcile.ErrGone) {
		return nil, c.gone(ctx, issueID)
	}
	if strange {
		return nil, c.api.Fail(unknownPayload, "a comment has no id or no time")
	}
	return comments, err
}

// newestNotes is the query for comments, the newest first, without GitLab's own about changes.
func newestNotes() url.Values {
	return url.Values{
		"order_by":        {"created_at"},
		"sort":            {"desc"},
		"activity_filter": {"only_comments"},
	}
}

// lastComments returns the times of the newest comments of issues, by id. An issue that is gone
// has none.
func (c *client) lastComments(ctx context.Context, ids []string) (map[string]time.Time, error) {
	last := map[string]time.Time{}
	for _, id := range ids {
		at, err := c.IssueOf(id)
		if err != nil {
			continue
		}
		query := newestNotes()
		query.Set("per_page", "1")
		path := fmt.Sprintf("/issues/%d/notes?%s", at.Number, query.Encode())
		notes, err := do[[]gitlabapi.Note](ctx, c, at.Repo, http.MethodGet, path, nil)
		if errors.Is(err, reconcile.ErrGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(notes) > 0 {
			last[id] = notes[0].CreatedAt.UTC()
		}
	}
	return last, nil
}

// post comments on an issue. body must contain a marker of symphony.
func (c *client) post(ctx context.Context, issueID, body string) (reconcile.Comment, error) {
	at, err := c.IssueOf(issueID)
	if err != nil {
		return reconcile.Comment{}, err
	}
	var made gitlabapi.Note
	err = c.within(ctx, at.Repo, func(base string) error {
		var err error
		made, err = c.api.PostNote(ctx, fmt.Sprintf("%s/issues/%d", base, at.Number), body)
		return err
	})
	if errors.Is(err, reconcile.ErrGone) {
		return reconcile.Comment{}, c.gone(ctx, issueID)
	}
	if err != nil {
		return reconcile.Comment{}, err
	}
	return c.comment(made), nil
}

// edit replaces the text of a comment.
func (c *client) edit(ctx context.Context, issueID, commentID, body string) (string, error) {
	at, err := c.IssueOf(issueID)
	if err != nil {
		return "", err
	}
	path := fmt.Sprintf("/issues/%d/notes/%s", at.Number, url.PathEscape(commentID))
	sent := map[string]string{"body": body}
	n, err := do[gitlabapi.Note](ctx, c, at.Repo, http.MethodPut, path, sent)
	return c.api.Scrub(n.Body), err
}
