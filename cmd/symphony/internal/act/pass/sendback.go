package pass

import (
	"context"
	"errors"
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
	// sendBackPatience is how long passes try to carry out an order.
	sendBackPatience = 24 * time.Hour
)

// sendBackOrdered carries out the orders of symphony send-back, before the pass looks for
// active issues. What fails is left to the next pass.
func (c *current) sendBackOrdered(ctx context.Context, t *reconcile.TrackerAdapter) {
	if t == nil || t.Move == nil || ctx.Err() != nil {
		return
	}
	orders, err := c.db.Store.SendBacks(ctx)
	if err != nil {
		c.r.addError(err)
		return
	}
	orders = text.Filter(orders, func(s reconcile.SendBack) bool {
		return len(c.o.Only) == 0 || slices.Contains(c.o.Only, s.IssueID)
	})
	if len(orders) == 0 {
		return
	}
	ids := text.Map(orders, func(s reconcile.SendBack) string { return s.IssueID })
	found, err := t.ByIDs(ctx, text.Unique(ids))
	if err != nil {
		c.r.addError(exit.About("sending back "+orders[0].Identifier, err))
		return
	}
	back := sendingBack{c.db, t, wiring.Policy(c.r.Config), c.p.Env.Now()}
	for _, order := range orders {
		issue, visible := found[order.IssueID]
		err := back.carryOut(ctx, order, issue, visible)
		c.r.addError(exit.About("sending back "+order.Identifier, err))
	}
}

// sendingBack is what the orders of a pass are carried out with.
type sendingBack struct {
	db      *state.DB
	tracker *reconcile.TrackerAdapter
	policy  reconcile.Policy
	now     time.Time
}

// carryOut comments on an issue and moves it, as far as an earlier pass has not. The comment
// comes first: the agent must find it. If a person has moved the issue on, nothing is done.
func (b sendingBack) carryOut(
	ctx context.Context, s reconcile.SendBack, issue reconcile.Issue, visible bool,
) error {
	isThere := reconcile.SameState(issue.State, s.From)
	if !visible || !isThere && !b.policy.Active(issue.State) {
		return b.db.Store.EndSendBack(ctx, s, issue, b.now)
	}
	err := b.say(ctx, &s)
	if err == nil && isThere {
		err = b.tracker.Move(ctx, s.IssueID, s.To)
	}
	isOver := errors.Is(err, reconcile.ErrGone) || team.IsLost(err)
	if err != nil && (isOver || b.now.Sub(s.At) > sendBackPatience) {
		return errors.Join(err, b.db.Store.EndSendBack(ctx, s, issue, b.now))
	}
	if err != nil {
		return err
	}
	crash.At("pass.sendback.moved")
	s.Moved = true
	return b.db.Store.EndSendBack(ctx, s, issue, b.now)
}

// say comments on the issue, once. If the tracker takes no comments, it leaves a message for
// the next agent.
func (b sendingBack) say(ctx context.Context, s *reconcile.SendBack) error {
	if s.Commented {
		return nil
	}
	known := false
	if s.Tried {
		var err error
		known, err = b.said(ctx, *s)
		if err != nil {
			return err
		}
	}
	s.Tried = true
	if err := b.db.Store.SaveSendBack(ctx, *s); err != nil {
		return err
	}
	if !known {
		if err := b.post(ctx, *s); err != nil {
			return err
		}
	}
	crash.At("pass.sendback.commented")
	s.Commented = true
	return b.db.Store.SaveSendBack(ctx, *s)
}

func (b sendingBack) post(ctx context.Context, s reconcile.SendBack) error {
	if !s.NoComment {
		_, err := b.tracker.Post(ctx, s.IssueID, s.Text)
		return err
	}
	return b.db.Operator.AddMessage(ctx, reconcile.Message{
		ID:         messageOf(s),
		IssueID:    s.IssueID,
		Identifier: s.Identifier,
		At:         s.At,
		Words:      s.Words,
	})
}

// messageOf is the id of the message that replaces the comment of an order.
func messageOf(s reconcile.SendBack) string { return "send-back-" + s.ID }

// said reports whether the comment of a pass that was killed is there. A tracker may have
// changed its markup: its letters and digits tell.
func (b sendingBack) said(ctx context.Context, s reconcile.SendBack) (bool, error) {
	if s.NoComment {
		list, err := b.db.Views.Messages(ctx, s.IssueID, reconcile.MaxMessages)
		isOurs := func(m reconcile.Message) bool { return m.ID == messageOf(s) }
		return slices.ContainsFunc(list, isOurs), err
	}
	if b.tracker.Comments == nil {
		return false, nil
	}
	list, err := b.tracker.Comments(ctx, s.IssueID, b.tracker.TimeThere(s.At).Add(-roundedBy))
	isOurs := func(c reconcile.Comment) bool { return plain(c.Body) == plain(s.Text) }
	return slices.ContainsFunc(list, isOurs), err
}

// plain is a text without its markup: its letters and digits.
func plain(said string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsLetter(c) || unicode.IsDigit(c) {
			return c
		}
		return -1
	}, said)
}
