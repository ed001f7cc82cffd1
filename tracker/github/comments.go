package github

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/githubapi"
	"github.com/symphony-cron/symphony/reconcile"
)

// maxCommentPages bounds each read of comments, with up to 100 comments a page.
const maxCommentPages = 5

// comments reads and writes the comments of issues.
type comments struct {
	*requests
	*names
}

type wireComment struct {
	ID        int64     `json:"id"`
	Body      string    `json:"body"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	User      *struct {
		ID    int64  `json:"id"`
		Login string `json:"login"`
	} `json:"user"` // null if the account was deleted
}

// comment returns a comment with the names of its author. A user with write access to a
// repository can edit the comments of others there.
func (c comments) comment(w wireComment) reconcile.Comment {
	body := c.Scrub(w.Body)
	comment := reconcile.Comment{
		ID:        strconv.FormatInt(w.ID, 10),
		Author:    "ghost",
		Body:      body,
		CreatedAt: w.CreatedAt.UTC(),
		Own:       reconcile.Marked(body),
		Edited:    w.UpdatedAt.After(w.CreatedAt),
	}
	if w.User != nil {
		comment.Author = w.User.Login
		comment.AuthorIDs = reconcile.UserNames(w.User.Login, w.User.ID)
	}
	return comment
}

// read reads the first 500 comments that were made after since, and returns the newest of them
// first: GitHub lists the oldest first. The code of the error is issue_not_found if the issue
// is not visible.
func (c comments) read(ctx context.Context, issueID string, since time.Time) ([]reconcile.Comment, error) {
	path, err := c.issuePath(issueID)
	if err != nil {
		return nil, err
	}
	query := url.Values{"per_page": {"100"}}
	if since.Unix() > 0 {
		// GitHub compares the time of the last edit
		query.Set("since", since.UTC().Format(time.RFC3339))
	}
	comments := []reconcile.Comment{}
	for page := 1; page <= maxCommentPages; page++ {
		query.Set("page", strconv.Itoa(page))
		a, err := c.Do(ctx, http.MethodGet, path+"/comments", query, nil)
		if err != nil {
			return nil, c.OfIssue(issueID, err)
		}
		list, err := githubapi.DecodeList[wireComment](c.api, "list of comments", a.Body)
		if err != nil {
			return nil, err
		}
		for _, w := range list {
			if w.ID == 0 || w.CreatedAt.IsZero() {
				return nil, c.Fail("tracker_unknown_payload", "a comment has no id or no time")
			}
			if w.CreatedAt.After(since) {
				comments = append(comments, c.comment(w))
			}
		}
		if !strings.Contains(a.Header.Get("Link"), `rel="next"`) {
			break
		}
	}
	slices.Reverse(comments)
	return comments, nil
}

// post comments on an issue. body must contain a marker of symphony.
func (c comments) post(ctx context.Context, issueID, body string) (reconcile.Comment, error) {
	path, err := c.issuePath(issueID)
	if err != nil {
		return reconcile.Comment{}, err
	}
	a, err := c.Do(ctx, http.MethodPost, path+"/comments", nil, map[string]string{"body": body})
	if err != nil {
		return reconcile.Comment{}, c.OfIssue(issueID, err)
	}
	w, err := githubapi.Decode[wireComment](c.api, "comment", a.Body)
	if err != nil {
		return reconcile.Comment{}, err
	}
	if w.ID == 0 {
		return reconcile.Comment{}, c.Fail("tracker_unknown_payload", "the new comment has no id")
	}
	return c.comment(w), nil
}

// edit replaces the text of a comment.
func (c comments) edit(ctx context.Context, issueID, commentID, body string) (string, error) {
	at, err := c.IssueOf(issueID)
	if err != nil {
		return "", err
	}
	path := "/repos/" + at.Repo + "/issues/comments/" + url.PathEscape(commentID)
	a, err := c.Do(ctx, http.MethodPatch, path, nil, map[string]string{"body": body})
	if err != nil {
		return "", err
	}
	w, err := githubapi.Decode[wireComment](c.api, "comment", a.Body)
	return c.Scrub(w.Body), err
}

// comment comments for an agent. GitHub would send the comment after an issue that was
// transferred, whatever repository that is in now.
func (c *Client) comment(ctx context.Context, issueID, body string) (reconcile.Comment, error) {
	if _, err := c.existing(ctx, issueID); err != nil {
		return reconcile.Comment{}, err
	}
	return c.comments.post(ctx, issueID, body)
}
