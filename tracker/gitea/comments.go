package gitea

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/giteaapi"
	"github.com/symphony-cron/symphony/reconcile"
)

type wireComment struct {
	ID        int64             `json:"id"`
	Body      string            `json:"body"`
	CreatedAt time.Time         `json:"created_at"`
	UpdatedAt time.Time         `json:"updated_at"`
	User      *giteaapi.Account `json:"user"`
	// Original is the author at another place, from which the repository was copied. Then User
	// is who copied it.
	Original string `json:"original_author"`
}

// comment returns a comment with the names of its author. A user with write access to a
// repository can edit the comments of others there.
func (c *client) comment(w wireComment) reconcile.Comment {
	body := c.api.Scrub(w.Body)
	comment := reconcile.Comment{
		ID:        strconv.FormatInt(w.ID, 10),
		Author:    "ghost",
		Body:      body,
		CreatedAt: w.CreatedAt.UTC(),
		Own:       reconcile.Marked(body),
		Edited:    w.UpdatedAt.After(w.CreatedAt),
	}
	switch {
	case w.Original != "":
		comment.Author = w.Original
	case w.User != nil && w.User.ID != giteaapi.GhostID:
		comment.Author = w.User.Login
		comment.AuthorIDs = reconcile.UserNames(w.User.Login, w.User.ID)
	}
	return comment
}

// comments reads the comments that were made after since, and returns the newest of them first:
// Gitea lists the oldest first, all in one answer.
func (c *client) comments(ctx context.Context, issueID string, since time.Time) ([]reconcile.Comment, error) {
	at, err := c.IssueOf(issueID)
	if err != nil {
		return nil, err
	}
	path := fmt.Sprintf("/issues/%d/comments", at.Number)
	if since.Unix() > 0 {
		// Gitea compares the time of the last edit
		path += "?since=" + url.QueryEscape(since.UTC().Format(time.RFC3339))
	}
	list, err := do[[]wireComment](ctx, c, giteaapi.ReadIssue, at.Repo, http.MethodGet, path, nil)
	if err != nil {
		return nil, c.ofIssue(ctx, issueID, err)
	}
	if list == nil { // null is no empty list
		return nil, c.api.Fail(unknownPayload, "the answer contains no list of comments")
	}
	comments := []reconcile.Comment{}
	for _, w := range list {
		if w.ID == 0 || w.CreatedAt.IsZero() {
			return nil, c.api.Fail(unknownPayload, "a comment has no id or no time")
		}
		if w.CreatedAt.After(since) {
			comments = append(comments, c.comment(w))
		}
	}
	slices.Reverse(comments)
	return comments, nil
}

// lastComments returns the times of the newest comments of issues, by id. An issue that is gone
// has none.
func (c *client) lastComments(ctx context.Context, ids []string) (map[string]time.Time, error) {
	last := map[string]time.Time{}
	for _, id := range ids {
		comments, err := c.comments(ctx, id, time.Time{})
		if errors.Is(err, reconcile.ErrGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(comments) > 0 {
			last[id] = comments[0].CreatedAt
		}
	}
	return last, nil
}

// ofIssue turns the error of a request about an issue that does not exist into issue_not_found.
// For such an issue Gitea may answer that it has failed.
func (c *client) ofIssue(ctx context.Context, id string, err error) error {
	e, known := errors.AsType[*reconcile.Error](err)
	if !known || e.Status != http.StatusInternalServerError && !errors.Is(err, reconcile.ErrGone) {
		return err
	}
	if _, _, missing := c.existing(ctx, id); errors.Is(missing, reconcile.ErrGone) {
		return missing
	}
	return err
}

// post comments on an issue. body must contain a marker of symphony.
func (c *client) post(ctx context.Context, issueID, body string) (reconcile.Comment, error) {
	at, err := c.IssueOf(issueID)
	if err != nil {
		return reconcile.Comment{}, err
	}
	path := fmt.Sprintf("/issues/%d/comments", at.Number)
	sent := map[string]string{"body": body}
	w, err := do[wireComment](ctx, c, giteaapi.WriteIssue, at.Repo, http.MethodPost, path, sent)
	if err != nil {
		return reconcile.Comment{}, c.ofIssue(ctx, issueID, err)
	}
	if w.ID == 0 {
		return reconcile.Comment{}, c.api.Fail(unknownPayload, "the new comment has no id")
	}
	return c.comment(w), nil
}

// edit replaces the text of a comment.
func (c *client) edit(ctx context.Context, issueID, commentID, body string) (string, error) {
	at, err := c.IssueOf(issueID)
	if err != nil {
		return "", err
	}
	path := "/issues/comments/" + url.PathEscape(commentID)
	sent := map[string]string{"body": body}
	w, err := do[wireComment](ctx, c, giteaapi.WriteIssue, at.Repo, http.MethodPatch, path, sent)
	return c.api.Scrub(w.Body), err
}
