package file

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Comments returns the comments made after since, the newest first.
func (t *tracker) Comments(_ context.Context, issueID string, since time.Time) ([]reconcile.Comment, error) {
	_, r, err := t.find(issueID)
	if err != nil {
		return nil, err
	}
	later := text.Filter(r.comments, func(c comment) bool { return c.at.After(since) })
	list := text.Map(later, comment.public)
	slices.Reverse(list)
	return list, nil
}

// Post writes a comment of symphony's at the end of an issue's comments.
func (t *tracker) Post(ctx context.Context, issueID, body string) (reconcile.Comment, error) {
	return t.post(ctx, issueID, authorSymphony, body)
}

func (t *tracker) post(ctx context.Context, issueID, author, body string) (reconcile.Comment, error) {
	var posted reconcile.Comment
	err := t.change(ctx, issueID, func(r *record, content []byte) ([]byte, error) {
		next := addComment(content, r.comments, author, body, t.Now())
		made := t.parse(r.name, next)
		// In a section without an end, the new comment would be part of the last one.
		if made == nil || len(made.comments) != len(r.comments)+1 || made.comments[len(r.comments)].author != author {
			return nil, t.unchanged(
				r.name,
				"a comment could not be read after that",
				"its comments have to stand between lines of "+commentsBegin+" and "+commentsEnd,
			)
		}
		posted = made.comments[len(r.comments)].public()
		return next, nil
	})
	return posted, err
}

// Edit replaces the text of a comment that Post or an agent wrote.
func (t *tracker) Edit(ctx context.Context, issueID, commentID, body string) (string, error) {
	body = plain(body)
	return body, t.change(ctx, issueID, func(r *record, content []byte) ([]byte, error) {
		i := slices.IndexFunc(r.comments, func(c comment) bool { return c.id == commentID && c.own() })
		if i < 0 {
			file := filepath.Join(t.Path, r.name)
			return nil, gone(
				fmt.Sprintf("%s contains no comment %q of symphony", file, commentID),
				"nothing to do: the comment was deleted",
			)
		}
		at := r.comments[i].text
		return slices.Concat(content[:at.start], lines(body+"\n", newline(content)), content[at.end:]), nil
	})
}
