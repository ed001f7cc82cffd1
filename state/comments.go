package state

import (
	"context"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Comment is a comment of symphony in the tracker: on a request of an agent, or why an issue is
// held.
type Comment struct {
	Key     string
	IssueID string
	Number  int    // of the request; 0 for other comments
	ID      string // in the tracker; empty until it was made for certain
	// when it was made by the tracker's clock; until then, when that was first tried
	At      time.Time
	Text    string   // a hash of symphony's text
	Shown   string   // a hash of the text as the tracker shows it; empty if unknown
	Problem string   // its text about a reply that was not an answer
	Seen    []string // the ids of the replies that were looked at
	Done    bool     // it shows how the request or the hold ended
}

const commentColumns = `key, issue_id, number, id, at, text, shown, problem, seen, done`

func commentFields(c *Comment) []any {
	return []any{
		&c.Key, &c.IssueID, &c.Number, &c.ID, stampOf(&c.At),
		&c.Text, &c.Shown, &c.Problem, jsonOf(&c.Seen), &c.Done,
	}
}

// Comments returns the comments that are not done, and the comments with the keys, by their
// keys.
func (s Store) Comments(ctx context.Context, keys []string) (map[string]Comment, error) {
	list, err := readAll(ctx, s.conn, "read symphony's comments", commentFields,
		`SELECT `+commentColumns+` FROM comments WHERE done = 0 OR key IN (SELECT value FROM json_each(?))`,
		jsonOf(append([]string{}, keys...)))
	byKey := make(map[string]Comment, len(list))
	for _, c := range list {
		byKey[c.Key] = c
	}
	return byKey, err
}

// AskedSince returns the numbers of the requests of an issue that comments have shown since a
// time, or perhaps: a pass that was killed may have made the comment.
func (s Store) AskedSince(ctx context.Context, issueID string, since time.Time) ([]int, error) {
	return readAll(ctx, s.conn, "read the requests that comments show", itself[int],
		`SELECT number FROM comments WHERE issue_id = ? AND number > 0 AND at >= ? ORDER BY number`,
		issueID, stamp(since))
}

// SaveComment stores a comment. A comment with an id is from then on known to be symphony's
// (Journal.Created).
func (s Store) SaveComment(ctx context.Context, c Comment) error {
	return s.update(ctx, "store a comment of symphony", full, func(t tx) error {
		err := t.run(`INSERT OR REPLACE INTO comments (`+commentColumns+`) VALUES (`+marks(commentColumns)+`)`,
			commentFields(&c)...)
		if err != nil {
			return err
		}
		return noGuidance(t, "symphony", c.ID, c.IssueID, "", c.At)
	})
}

// noGuidance records that a comment is neither guidance for agents nor the end of a hold. An
// empty id is none.
func noGuidance(t tx, kind, id, issueID, runID string, at time.Time) error {
	if id == "" {
		return nil
	}
	return t.run(`INSERT INTO created (id, kind, issue_id, run_id, at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (id) DO NOTHING`, id, kind, issueID, runID, stamp(at))
}

// Stuck returns the claims that are held, or whose delivery has failed.
func (s Store) Stuck(ctx context.Context) ([]reconcile.Claim, error) {
	return readAll(ctx, s.conn, "read what is held or not delivered", claimFields,
		`SELECT `+claimColumns+` FROM claims
		WHERE status = ? OR nullif(delivery, '') ->> '$.tries' > 0 ORDER BY issue_id`, reconcile.Held)
}

// Hold is a hold that a comment ends, if it is newer than CommentAt.
type Hold struct {
	IssueID, Reason string
	CommentAt       time.Time // zero if no comment was known when the hold began
	Since           time.Time // when the hold began
	// Handover is with which an agent that needs help handed the issue over; nil for none.
	Handover *reconcile.Handover
}

func holdFields(h *Hold) []any {
	return []any{&h.IssueID, &h.Reason, stampOf(&h.CommentAt), stampOf(&h.Since), jsonOf(&h.Handover)}
}

// Holds returns the holds that a comment may end, also those of agents that need help and have
// handed over since the last pass: this pass holds their issues.
func (s Store) Holds(ctx context.Context) ([]Hold, error) {
	all, err := readAll(ctx, s.conn, "read the holds", holdFields, `SELECT issue_id,
			iif(status = ?1, hold_reason, ?2), hold_comment_at, held_at,
			coalesce(nullif(delivery, '') -> '$.handover', 'null')
		FROM claims WHERE status = ?1 OR status = ?3 AND nullif(delivery, '') ->> '$.handover.blocked' <> ''
			AND delivery ->> '$.handover.comment_at' <> ''`,
		reconcile.Held, reconcile.HoldNeedsHelp, reconcile.Waiting)
	for i, h := range all {
		if h.CommentAt.IsZero() && h.Reason == reconcile.HoldNeedsHelp {
			all[i].CommentAt = h.Handover.AnsweredAfter()
		}
	}
	return text.Filter(all, func(h Hold) bool { return reconcile.CommentEnds(h.Reason) }), err
}

// KeepHold records that no comment up to h.CommentAt ends the hold.
func (s Store) KeepHold(ctx context.Context, h Hold) error {
	return s.update(ctx, "keep the hold", full, statement(
		`UPDATE claims SET hold_comment_at = ? WHERE issue_id = ? AND status = ?`,
		stamp(h.CommentAt), h.IssueID, reconcile.Held))
}

// PullRequest is the newest pull request of an issue's branch, as the tracker described it at
// SeenAt.
type PullRequest struct {
	IssueID    string `json:"issue_id"`
	Identifier string `json:"issue_identifier"`
	reconcile.PullRequest
	SeenAt time.Time `json:"seen_at"`
}

const pullRequestColumns = `issue_id, identifier, request, seen_at`

func pullRequestFields(p *PullRequest) []any {
	return []any{&p.IssueID, &p.Identifier, jsonOf(&p.PullRequest), stampOf(&p.SeenAt)}
}

// SavePullRequests implements reconcile.Store. A power failure may lose them: the next refresh
// reads them again.
func (s Store) SavePullRequests(ctx context.Context, now time.Time, issues []reconcile.Issue) error {
	return s.update(ctx, "store the pull requests", normal, func(t tx) error {
		for _, i := range issues {
			p := PullRequest{i.ID, i.Identifier, *i.PullRequest, now}
			err := t.run(
				`INSERT OR REPLACE INTO pull_requests (`+pullRequestColumns+`) VALUES (`+marks(pullRequestColumns)+`)`,
				pullRequestFields(&p)...)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// PullRequests returns the pull requests of all issues, by the ids of the issues.
func (v Views) PullRequests(ctx context.Context) (byID map[string]PullRequest, err error) {
	list, err := readAll(ctx, v.conn, "read the pull requests", pullRequestFields,
		`SELECT `+pullRequestColumns+` FROM pull_requests`)
	byID = make(map[string]PullRequest, len(list))
	for _, p := range list {
		byID[p.IssueID] = p
	}
	return byID, err
}
