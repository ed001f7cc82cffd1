package pass

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/state"
	"github.com/symphony-cron/symphony/team"
)

// sendBackAnswered moves issues to an active state whose agents needed help and got an answer
// by a comment. The next pass finds them there, which ends their holds. A move that fails is
// tried again by that pass.
func (c *current) sendBackAnswered(ctx context.Context, t *reconcile.TrackerAdapter) {
	if t == nil || t.Move == nil || len(c.o.Only) > 0 || ctx.Err() != nil {
		return
	}
	state := wiring.Policy(c.r.Config).BackState(c.r.Config.Feedback)
	if state == "" {
		return
	}
	for _, claim := range c.r.Claims {
		if claim.SentBack() {
			err := t.Move(ctx, claim.IssueID, state)
			c.r.addError(exit.About("sending back "+claim.Identifier, err))
		}
	}
}

const (
	// roundedBy is how much older than the order its comment may be: trackers round times, some
	// to minutes.
	roundedBy = 2 * time.Minute
	// movePatience is how long passes try to carry out an order.
	movePatience = 24 * time.Hour
)

// moveOrdered carries out the orders of symphony tell and symphony done to move issues, before the
// pass looks for active issues. What fails is left to the next pass.
func (c *current) moveOrdered(ctx context.Context, t *reconcile.TrackerAdapter) {
	if t == nil || ctx.Err() != nil {
		return
	}
	orders, err := c.db.Store.Moves(ctx)
	if err != nil {
		c.r.addError(err)
		return
	}
	orders = text.Filter(orders, func(m reconcile.MoveOrder) bool {
		return len(c.o.Only) == 0 || slices.Contains(c.o.Only, m.IssueID)
	})
	if len(orders) == 0 {
		return
	}
	ids := text.Map(orders, func(m reconcile.MoveOrder) string { return m.IssueID })
	found, err := t.ByIDs(ctx, text.Unique(ids))
	if err != nil {
		c.r.addError(exit.About("moving "+orders[0].Identifier, err))
		return
	}
	moves := moving{c.db, t, wiring.Policy(c.r.Config), c.p.Env.Now(), c.warn}
	for _, order := range orders {
		issue, visible := found[order.IssueID]
		err := moves.carryOut(ctx, order, issue, visible)
		c.r.addError(exit.About("moving "+order.Identifier, err))
	}
}

// moving is what the orders of a pass are carried out with.
type moving struct {
	db      *state.DB
	tracker *reconcile.TrackerAdapter
	policy  reconcile.Policy
	now     time.Time
	warn    func(string)
}

// carryOut comments on an issue and moves it, as far as an earlier pass has not. The comment
// comes first: the agent must find it. If the status of the issue has changed since the order,
// nothing is done.
func (m moving) carryOut(ctx context.Context, o reconcile.MoveOrder, issue reconcile.Issue, visible bool) error {
	if o.Tried && !o.Commented { // a pass was killed, or the tracker did not answer
		known, err := m.said(ctx, o)
		if err != nil {
			return m.orEnd(ctx, o, issue, err)
		}
		o.Commented = known
	}
	asSeen, err := m.asSeen(ctx, o, issue, visible)
	if err != nil {
		return err
	}
	if !asSeen {
		if o.GoesBack() && !o.Commented {
			const dropped = "the text of %s for %s was not written, because its status has changed: %s"
			m.warn(fmt.Sprintf(dropped, o.By, o.Identifier, text.Short(text.OneLine(o.Text), 200)))
		}
		return m.db.Store.EndMove(ctx, o, issue, m.now)
	}
	if m.now.Sub(o.At) > movePatience && !o.Commented {
		late := reconcile.NewError("status_changed", "the order is older than a day: nothing was written or moved", "")
		return m.orEnd(ctx, o, issue, late)
	}
	if o.GoesBack() {
		err = m.say(ctx, &o)
	}
	if err == nil && reconcile.SameState(issue.State, o.From) && !reconcile.SameState(o.From, o.To) {
		err = m.move(ctx, o)
	}
	if err != nil {
		return m.orEnd(ctx, o, issue, err)
	}
	crash.At("pass.move.moved")
	o.Moved = true
	return m.db.Store.EndMove(ctx, o, issue, m.now)
}

// orEnd returns an error, after which the next pass tries again. It ends the order if that has no
// sense, or after a day.
func (m moving) orEnd(ctx context.Context, o reconcile.MoveOrder, issue reconcile.Issue, err error) error {
	isOver := errors.Is(err, reconcile.ErrGone) || team.IsLost(err)
	if isOver || m.now.Sub(o.At) > movePatience {
		return errors.Join(err, m.db.Store.EndMove(ctx, o, issue, m.now))
	}
	return err
}

func (m moving) move(ctx context.Context, o reconcile.MoveOrder) error {
	if m.tracker.Move == nil { // since the workflow has changed
		return reconcile.NewError("not_possible", "the tracker does not let symphony move "+o.Identifier,
			"move it to "+o.To+" there")
	}
	return m.tracker.Move(ctx, o.IssueID, o.To)
}

// asSeen reports whether the status of an issue is the one for which the operator gave the order,
// or the result of an earlier pass that was killed while it carried the order out.
func (m moving) asSeen(
	ctx context.Context, o reconcile.MoveOrder, issue reconcile.Issue, visible bool,
) (bool, error) {
	isThere := reconcile.SameState(issue.State, o.From)
	switch {
	case !visible:
		return false, nil
	case o.Commented: // only the move is left, unless somebody has moved it
		return isThere || m.policy.Active(issue.State), nil
	case !isThere:
		return !o.GoesBack() && reconcile.SameState(issue.State, o.To), nil
	}
	hold, since, err := HeldSince(ctx, m.db, o.IssueID)
	return hold == o.Hold && since.Equal(o.Since), err
}

// HeldSince returns the reason of the hold of an issue and when it began. For an issue that waits for
// a review the reason is empty, and since is when its agent handed it over. It is zero for others.
func HeldSince(ctx context.Context, db *state.DB, issueID string) (hold string, since time.Time, err error) {
	c, claimed, err := db.Views.ClaimByIssue(ctx, issueID)
	switch {
	case err != nil:
		return "", time.Time{}, err
	case claimed && c.Status == reconcile.Held:
		return c.HoldReason, c.HeldAt.UTC(), nil
	case claimed:
		return "", time.Time{}, nil
	}
	last, err := db.Views.Releases(ctx, issueID, 1)
	if err != nil || len(last) == 0 || !last[0].InReview {
		return "", time.Time{}, err
	}
	return "", last[0].At.UTC(), nil
}

// say comments on the issue, once. If the tracker takes no comments, it leaves a message for
// the next agent.
func (m moving) say(ctx context.Context, o *reconcile.MoveOrder) error {
	if o.Commented {
		return nil
	}
	o.Tried = true
	if err := m.db.Store.SaveMove(ctx, *o); err != nil {
		return err
	}
	if err := m.post(ctx, *o); err != nil {
		return err
	}
	crash.At("pass.move.commented")
	o.Commented = true
	return m.db.Store.SaveMove(ctx, *o)
}

func (m moving) post(ctx context.Context, o reconcile.MoveOrder) error {
	if !o.NoComment && m.tracker.Post != nil {
		_, err := m.tracker.Post(ctx, o.IssueID, o.Comment())
		return err
	}
	return m.db.Operator.AddMessage(ctx, reconcile.Message{
		ID:         messageOf(o),
		IssueID:    o.IssueID,
		Identifier: o.Identifier,
		At:         o.At,
		Words:      o.Words,
	})
}

// messageOf is the id of the message that replaces the comment of an order.
func messageOf(o reconcile.MoveOrder) string { return "move-" + o.ID }

// said reports whether the comment of a pass that was killed is there. A tracker may have
// changed its markup.
func (m moving) said(ctx context.Context, o reconcile.MoveOrder) (bool, error) {
	if o.NoComment || m.tracker.Post == nil {
		list, err := m.db.Views.Messages(ctx, o.IssueID, reconcile.MaxMessages)
		isOurs := func(m reconcile.Message) bool { return m.ID == messageOf(o) }
		return slices.ContainsFunc(list, isOurs), err
	}
	if m.tracker.Comments == nil {
		return false, nil
	}
	list, err := m.tracker.Comments(ctx, o.IssueID, m.tracker.TimeThere(o.At).Add(-roundedBy))
	isOurs := func(c reconcile.Comment) bool { return plain(c.Body) == plain(o.Comment()) }
	return slices.ContainsFunc(list, isOurs), err
}

// plain is a text without its markup: its letters, digits and pictures.
func plain(said string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsLetter(c) || unicode.IsDigit(c) || unicode.Is(unicode.So, c) {
			return c
		}
		return -1
	}, said)
}
