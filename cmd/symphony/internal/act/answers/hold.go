package answers

import (
	"context"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// KeepHolds wraps a tracker so that comments of symphony and of agents, and the replies of
// operators, end no hold. It reads the comments on a held issue only if there are new ones. If
// that fails, the hold is kept for now, and warn gets a message. keep stores up to which comment a
// hold stays; nil in a dry run, after which the next pass reads the same comments again.
func KeepHolds(
	t *reconcile.TrackerAdapter,
	db *state.DB,
	keep func(context.Context, state.Hold) error,
	now func() time.Time,
	warn func(string),
) *reconcile.TrackerAdapter {
	kept := *t
	kept.Tracker = holding{Tracker: t.Tracker, adapter: t, db: db, keep: keep, now: now, warn: warn}
	return &kept
}

// holding is a tracker that shows of the comments on held issues only those that may end a hold.
type holding struct {
	reconcile.Tracker
	adapter *reconcile.TrackerAdapter
	db      *state.DB
	keep    func(context.Context, state.Hold) error
	now     func() time.Time
	warn    func(string)
}

// ByIDs implements reconcile.Tracker.
func (h holding) ByIDs(ctx context.Context, ids []string) (map[string]reconcile.Issue, error) {
	found, err := h.Tracker.ByIDs(ctx, ids)
	if err != nil {
		return nil, err
	}
	all, err := h.db.Store.Holds(ctx)
	if err != nil {
		return nil, err
	}
	holds := slices.DeleteFunc(all, func(hold state.Hold) bool {
		_, read := found[hold.IssueID]
		return !read
	})
	h.addLastComments(ctx, holds, found)
	for _, hold := range holds {
		issue := found[hold.IssueID]
		if !issue.CommentedAfter(hold.CommentAt) {
			continue
		}
		before := hold.CommentAt
		byPerson, err := h.byPerson(ctx, hold)
		switch {
		case err != nil:
			h.warn(issue.Identifier + " is held until its comments can be read: " + err.Error())
		case byPerson:
			continue
		case h.keep != nil && h.isPast(*issue.LastCommentAt):
			hold.CommentAt = *issue.LastCommentAt
			if err := h.keep(ctx, hold); err != nil {
				return nil, err
			}
		}
		issue.LastCommentAt = nil
		if !before.IsZero() {
			issue.LastCommentAt = &before
		}
		found[hold.IssueID] = issue
	}
	return found, nil
}

// isPast reports whether no further comment can get this time of the tracker, which may be
// rounded: a person may write in the second of the agent's comment.
func (h holding) isPast(at time.Time) bool {
	return at.Before(h.adapter.TimeThere(h.now()).Add(-slack))
}

// addLastComments adds the times of the newest comments to held issues, if the tracker does
// not read them with each issue. If that fails, the holds are kept for now.
func (h holding) addLastComments(ctx context.Context, holds []state.Hold, found map[string]reconcile.Issue) {
	if h.adapter.LastComments == nil || len(holds) == 0 {
		return
	}
	ids := text.Map(holds, func(hold state.Hold) string { return hold.IssueID })
	last, err := h.adapter.LastComments(ctx, ids)
	if err != nil {
		h.warn("held issues wait until their comments can be read: " + err.Error())
		return
	}
	for _, id := range ids {
		if at, has := last[id]; has {
			issue := found[id]
			issue.LastCommentAt = &at
			found[id] = issue
		}
	}
}

// byPerson reports whether a person wrote a comment since the hold that decided no request. If
// the agent needs help, that is since its own comment: the person had read it.
func (h holding) byPerson(ctx context.Context, hold state.Hold) (bool, error) {
	list, err := h.adapter.Comments(ctx, hold.IssueID, h.begin(hold))
	if err != nil {
		return false, err
	}
	if hold.Reason == reconcile.HoldNeedsHelp && hold.Handover != nil {
		list = sinceComment(list, hold.Handover.CommentID)
	}
	others, err := h.db.Journal.Created(ctx, idsOf(list))
	if err != nil {
		return false, err
	}
	isByPerson := func(c reconcile.Comment) bool { return !others[c.ID] && !reconcile.Marked(c.Body) }
	return slices.ContainsFunc(list, isByPerson), nil
}

// sinceComment returns the comments that are newer than the one with this id, in a list with
// the newest first; all if it is not there. Times may be equal, the order is not.
func sinceComment(list []reconcile.Comment, id string) []reconcile.Comment {
	at := slices.IndexFunc(list, func(c reconcile.Comment) bool { return c.ID == id })
	if at < 0 {
		return list
	}
	return list[:at]
}

// begin returns the time after which a comment ends a hold. If the tracker does not read the
// times of comments with each issue, that is when the hold began, by the tracker's clock,
// until there is a comment that does not end it.
func (h holding) begin(hold state.Hold) time.Time {
	if h.adapter.LastComments == nil || !hold.CommentAt.IsZero() {
		return hold.CommentAt
	}
	return h.adapter.TimeThere(hold.Since)
}
