package runner

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// issueComments reads the comments of people on the issue.
type issueComments struct {
	*parts
	created *creations

	refused bool // the tracker does not know the request for comments
}

// clockMargin is how far a comment's time may lie before the moment at which it was made, by this
// machine's clock: some trackers cut off parts of a second, and TimeThere may be wrong by two seconds.
const clockMargin = 3 * time.Second

// knownUntil returns the time up to which a new thread is told no comments, because it works
// from the prompt; zero if that is not known. A comment of the last seconds before it is told
// all the same: better twice than never.
func (c *issueComments) knownUntil(issue reconcile.Issue) (t time.Time) {
	if issue.LastCommentAt != nil {
		return *issue.LastCommentAt
	}
	if c.Tracker.LastComments != nil {
		return c.Tracker.TimeThere(c.Now()).Add(-clockMargin)
	}
	return t
}

// commentsBound is how long a turn waits for the comments of its issue.
const commentsBound = 30 * time.Second

// since returns the comments of people since the time last, the newest first, and the time of
// the newest comment of all. Comments of agents and of symphony, and replies that decided a
// request, are recognised by their ids, because agents may share the tracker's user with a
// person.
func (c *issueComments) since(
	ctx context.Context,
	issue reconcile.Issue,
	last time.Time,
) (fromPeople []reconcile.Comment, newest time.Time, err error) {
	if c.Tracker.Comments == nil || c.refused {
		return nil, last, nil
	}
	known := c.Tracker.LastComments == nil // with the issue
	if known && (issue.LastCommentAt == nil || !issue.LastCommentAt.After(last)) {
		return nil, last, nil
	}
	ctx, cancel := context.WithTimeout(ctx, commentsBound)
	defer cancel()
	all, err := c.Tracker.Comments(ctx, issue.ID, last)
	c.refused = errors.Is(err, reconcile.ErrRejected)
	if err != nil {
		return nil, last, err
	}
	if err := c.created.save(ctx, nil); err != nil {
		return nil, last, err
	}
	byAgents, err := c.Journal.Created(ctx, text.Map(all, idOfComment))
	if err != nil {
		return nil, last, err
	}
	newest = last
	for _, one := range all {
		if one.CreatedAt.After(newest) {
			newest = one.CreatedAt
		}
		if !byAgents[one.ID] && !reconcile.Marked(one.Body) {
			fromPeople = append(fromPeople, one)
		}
	}
	return fromPeople, newest, nil
}

func idOfComment(c reconcile.Comment) string { return c.ID }

// creations are the entities that the agent creates in the tracker, such as comments.
type creations struct {
	*parts

	mu      sync.Mutex
	unsaved []reconcile.Created
}

// save stores entities that the agent created in the tracker, together with earlier entities
// that could not be stored.
func (c *creations) save(ctx context.Context, more []reconcile.Created) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unsaved = append(c.unsaved, more...)
	if len(c.unsaved) == 0 {
		return nil
	}
	err := c.Journal.SaveCreated(context.WithoutCancel(ctx), c.run.ID, c.run.IssueID, c.unsaved, c.Now())
	if err != nil {
		return err
	}
	c.unsaved = nil
	return nil
}
