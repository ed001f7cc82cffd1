package jira

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/adf"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// commentPage is how many comments a request for a list wants.
const commentPage = 100

// propertyKey names the property of a comment that has the markers of symphony and of agents.
// Jira shows it to nobody, and the agent's tool does not reach it.
const propertyKey = "symphony"

type wireComment struct {
	ID         string          `json:"id"`
	Author     *account        `json:"author"`
	Body       json.RawMessage `json:"body"`
	Created    string          `json:"created"`
	Updated    string          `json:"updated"`
	Properties []property      `json:"properties,omitempty"`
	// Visibility names the role or the group to which the comment is shown; null for everybody.
	Visibility json.RawMessage `json:"visibility"`
	// Public is false for an internal comment of a service project, which customers do not see.
	Public *bool `json:"jsdPublic"`
}

// isRestricted reports whether some people who see the issue do not see the comment. Symphony passes
// it to no agent: what an agent has read may end up in a pull request, or in a comment for everybody.
func (w wireComment) isRestricted() bool {
	return w.audience() != nil || w.Public != nil && !*w.Public
}

// audience is the role or the group that sees the comment, as Jira wrote it; nil for everybody.
func (w wireComment) audience() json.RawMessage {
	if string(w.Visibility) == "null" {
		return nil
	}
	return w.Visibility
}

// property is a value that programs attach to a comment.
type property struct {
	Key   string  `json:"key"`
	Value markers `json:"value"`
}

// markers are the lines of a comment that begin with reconcile.CommentMarker.
type markers struct {
	Marks []string `json:"marks"`
}

// UnmarshalJSON leaves the properties of other programs unread, whatever they are.
func (p *property) UnmarshalJSON(raw []byte) error {
	var written struct {
		Key   string          `json:"key"`
		Value json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal(raw, &written); err != nil {
		return err
	}
	p.Key = written.Key
	if p.Key == propertyKey {
		_ = json.Unmarshal(written.Value, &p.Value) // of any other form it has no markers
	}
	return nil
}

// sentComment is a comment to make or to change.
type sentComment struct {
	Body       adf.Node        `json:"body"`
	Properties []property      `json:"properties,omitempty"`
	Visibility json.RawMessage `json:"visibility,omitempty"`
}

// composed splits a text into what people read and its markers.
func composed(body string) (sentComment, []string) {
	var lines, marks []string
	for line := range strings.SplitSeq(body, "\n") {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, reconcile.CommentMarker) && strings.HasSuffix(trimmed, "-->") {
			marks = append(marks, trimmed)
			continue
		}
		lines = append(lines, line)
	}
	sent := sentComment{Body: adf.Document(strings.Join(lines, "\n"))}
	if marks != nil {
		sent.Properties = []property{{Key: propertyKey, Value: markers{Marks: marks}}}
	}
	return sent, marks
}

// comment returns a comment with the names of its author: the id of the account, and the email,
// if Jira shows it. marks are its markers, which end its text.
func (c *client) comment(w wireComment, marks []string, me account) reconcile.Comment {
	body := unmarked(adf.Markdown(w.Body))
	if len(marks) > 0 {
		body += "\n\n" + strings.Join(marks, "\n")
	}
	body = c.api.Scrub(body)
	comment := reconcile.Comment{
		ID:        w.ID,
		Author:    "somebody",
		Body:      body,
		CreatedAt: timeOf(w.Created),
		Own:       len(marks) > 0,
		Edited:    w.Updated != "" && timeOf(w.Updated).After(timeOf(w.Created)),
	}
	if w.Author == nil { // the account was deleted
		return comment
	}
	comment.Author = w.Author.Name
	comment.AuthorIDs = []string{w.Author.ID}
	if email := c.emailOf(*w.Author, me); email != "" {
		comment.AuthorIDs = append(comment.AuthorIDs, email)
	}
	return comment
}

// names implements reconcile.TrackerAdapter.
func (c *client) names(ctx context.Context) ([]string, error) {
	me, err := c.knownMe(ctx)
	return []string{me.ID}, err
}

// unmarked is the text of a comment in which nothing looks like a marker: whoever wrote it, its
// markers are in its property and nowhere else.
func unmarked(s string) string {
	return strings.ReplaceAll(s, reconcile.CommentMarker, strings.ReplaceAll(reconcile.CommentMarker, " ", ""))
}

// commentPath is the list of an issue's comments, or a comment.
func commentPath(issueID string, comment ...string) string {
	return issuePath(issueID, append([]string{"comment"}, comment...)...)
}

// comments reads the comments that were made after since, the newest first: those that everybody
// sees, and symphony's own.
func (c *client) comments(ctx context.Context, issueID string, since time.Time) ([]reconcile.Comment, error) {
	me, err := c.knownMe(ctx)
	if err != nil {
		return nil, err
	}
	list, err := c.newest(ctx, issueID, func(w wireComment) bool { return timeOf(w.Created).After(since) })
	if err != nil {
		return nil, err
	}
	marks, err := c.marksOf(ctx, list)
	if err != nil {
		return nil, err
	}
	var found []reconcile.Comment
	for _, w := range list {
		if !w.isRestricted() || len(marks[w.ID]) > 0 {
			found = append(found, c.comment(w, marks[w.ID], me))
		}
	}
	return found, nil
}

// newest reads comments of an issue, the newest first, until one is not wanted.
func (c *client) newest(ctx context.Context, issueID string, wanted func(wireComment) bool) ([]wireComment, error) {
	var list []wireComment
	start := 0
	for range maxPages {
		found, total, err := c.commentsFrom(ctx, issueID, start, commentPage)
		if err != nil {
			return nil, err
		}
		for _, w := range found {
			if !wanted(w) {
				return list, nil
			}
			list = append(list, w)
		}
		start += len(found)
		if len(found) == 0 || start >= total {
			return list, nil
		}
	}
	return nil, c.endless("comments")
}

// commentsFrom reads a part of the comments of an issue, the newest first, and how many there are.
func (c *client) commentsFrom(ctx context.Context, issueID string, start, size int) ([]wireComment, int, error) {
	found, err := get[struct {
		Comments []wireComment `json:"comments"`
		Total    int           `json:"total"`
	}](ctx, c, commentPath(issueID), url.Values{
		"orderBy":    {"-created"},
		"maxResults": {strconv.Itoa(size)},
		"startAt":    {strconv.Itoa(start)},
	})
	if err != nil {
		return nil, 0, c.ofIssue(ctx, issueID, err)
	}
	if found.Comments == nil {
		return nil, 0, c.api.Fail(unknownPayload, "the answer contains no list of comments")
	}
	for _, w := range found.Comments {
		if !text.IsNumber(w.ID) || timeOf(w.Created).IsZero() {
			return nil, 0, c.api.Fail(unknownPayload, "a comment has no id or no time")
		}
	}
	return found.Comments, found.Total, nil
}

// marksOf returns the markers of comments by the ids of the comments. Lists of comments lack the
// properties.
func (c *client) marksOf(ctx context.Context, list []wireComment) (map[string][]string, error) {
	marks := map[string][]string{}
	const most = 1000 // that a request may name
	for start := 0; start < len(list); start += most {
		var ids []json.Number
		for _, w := range list[start:min(start+most, len(list))] {
			ids = append(ids, json.Number(w.ID))
		}
		found, err := do[struct {
			Values []wireComment `json:"values"`
		}](
			ctx, c, http.MethodPost, "/comment/list",
			url.Values{"expand": {"properties"}},
			map[string]any{"ids": ids},
		)
		if err != nil {
			return nil, err
		}
		if found.Values == nil {
			return nil, c.api.Fail(unknownPayload, "the answer contains no list of comments")
		}
		for _, w := range found.Values {
			marks[w.ID] = w.marks()
		}
	}
	return marks, nil
}

// marks are the markers of a comment that was read with its properties.
func (w wireComment) marks() []string {
	own := text.First(w.Properties, func(p property) bool { return p.Key == propertyKey })
	return own.Value.Marks
}

// lastComments returns the times of the newest comments of issues that everybody sees, by id. An
// issue that is gone has none.
func (c *client) lastComments(ctx context.Context, ids []string) (map[string]time.Time, error) {
	last := map[string]time.Time{}
	for _, id := range ids {
		at, err := c.lastComment(ctx, id)
		if errors.Is(err, reconcile.ErrGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !at.IsZero() {
			last[id] = at
		}
	}
	return last, nil
}

// lastComment returns the time of the newest comment that everybody sees; zero if there is none.
// Mostly that is the newest of all, so that only this one is read first.
func (c *client) lastComment(ctx context.Context, id string) (time.Time, error) {
	list, _, err := c.commentsFrom(ctx, id, 0, 1)
	if err != nil || len(list) == 0 {
		return time.Time{}, err
	}
	if !list[0].isRestricted() {
		return timeOf(list[0].Created), nil
	}
	var at time.Time
	_, err = c.newest(ctx, id, func(w wireComment) bool {
		if !w.isRestricted() {
			at = timeOf(w.Created)
		}
		return w.isRestricted()
	})
	return at, err
}

// post comments on an issue.
func (c *client) post(ctx context.Context, issueID, body string) (reconcile.Comment, error) {
	me, err := c.knownMe(ctx)
	if err != nil {
		return reconcile.Comment{}, err
	}
	w, marks, err := c.send(ctx, http.MethodPost, commentPath(issueID), nil, body, nil)
	if err != nil {
		return reconcile.Comment{}, c.ofIssue(ctx, issueID, err)
	}
	if w.ID == "" || timeOf(w.Created).IsZero() {
		return reconcile.Comment{}, c.api.Fail(unknownPayload, "the new comment has no id or no time")
	}
	return c.comment(w, marks, me), nil
}

// edit replaces the text of a comment. If people have restricted who sees it, that stays so.
func (c *client) edit(ctx context.Context, issueID, commentID, body string) (string, error) {
	path := commentPath(issueID, commentID)
	present, err := get[wireComment](ctx, c, path, nil)
	if err != nil {
		return "", err
	}
	query := url.Values{"notifyUsers": {"false"}}
	w, marks, err := c.send(ctx, http.MethodPut, path, query, body, present.audience())
	if err != nil {
		return "", err
	}
	return c.comment(w, marks, account{}).Body, nil
}

// send sends the text of a comment. A document that Jira refuses is sent once more as one block of
// code: Jira refuses the whole for a part that it does not like.
func (c *client) send(
	ctx context.Context,
	method, path string,
	query url.Values,
	body string,
	visibility json.RawMessage,
) (wireComment, []string, error) {
	sent, marks := composed(body)
	sent.Visibility = visibility
	w, err := do[wireComment](ctx, c, method, path, query, sent)
	e, known := errors.AsType[*reconcile.Error](err)
	if !known || e.Status != http.StatusBadRequest {
		return w, marks, err
	}
	for _, mark := range marks {
		body = strings.ReplaceAll(body, mark, "")
	}
	sent.Body = adf.Code(strings.TrimSpace(body))
	w, again := do[wireComment](ctx, c, method, path, query, sent)
	if again != nil {
		return w, nil, err
	}
	return w, marks, nil
}
