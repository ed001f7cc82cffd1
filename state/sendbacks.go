package state

import (
	"context"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Orders to send an issue back are calls with the verb send-back. The agent of such a call is
// the issue.

const sendBackColumns = `id, agent, params, created_at, ended_at`

func sendBackFields(s *reconcile.SendBack) []any {
	return []any{&s.ID, &s.IssueID, jsonOf(s), stampOf(&s.At), stampOf(&s.EndedAt)}
}

// AddSendBack stores an order for the next pass.
func (o Operator) AddSendBack(ctx context.Context, s reconcile.SendBack) error {
	return o.update(ctx, "store the order", full, statement(
		`INSERT INTO calls (`+sendBackColumns+`, run_id, verb, status)
		VALUES (`+marks(sendBackColumns)+`, '', 'send-back', 'queued')`, sendBackFields(&s)...))
}

// SendBacks returns the orders that a pass has to carry out, the oldest first.
func (c *conn) SendBacks(ctx context.Context) ([]reconcile.SendBack, error) {
	return readAll(ctx, c, "read the issues to send back", sendBackFields, `SELECT `+sendBackColumns+` FROM calls
		WHERE verb = 'send-back' AND ended_at IS NULL ORDER BY created_at, id`)
}

// SendBackByID returns an order; false if there is none.
func (c *conn) SendBackByID(ctx context.Context, id string) (reconcile.SendBack, bool, error) {
	return readOne(ctx, c, "read an order", sendBackFields,
		`SELECT `+sendBackColumns+` FROM calls WHERE verb = 'send-back' AND id = ?`, id)
}

// SaveSendBack stores how far an order is carried out.
func (s Store) SaveSendBack(ctx context.Context, b reconcile.SendBack) error {
	return s.update(ctx, "store the step of the order", full, saveSendBack(b))
}

func saveSendBack(b reconcile.SendBack) func(tx) error {
	return statement(
		`UPDATE calls SET params = ?, ended_at = ?, status = iif(?2 IS NULL, 'running', 'completed') WHERE id = ?`,
		jsonOf(&b), stamp(b.EndedAt), b.ID)
}

// EndSendBack stores that an order about an issue was carried out, or is not to be. An issue that
// was moved waits for no review any more, but for an agent: it is among the skips until a pass
// looks for issues.
func (s Store) EndSendBack(ctx context.Context, b reconcile.SendBack, issue reconcile.Issue, now time.Time) error {
	b.EndedAt = now
	return s.update(ctx, "end an order to send back", full, func(t tx) error {
		err := saveSendBack(b)(t)
		if err != nil || !b.Moved {
			return err
		}
		if err := endReview(t, b.IssueID); err != nil {
			return err
		}
		return saveSkip(t, StoredSkip{Since: now, Skip: reconcile.Skip{
			IssueID:    b.IssueID,
			Identifier: b.Identifier,
			Reason:     reconcile.SkipSentBack,
			Message:    "it was sent back to an agent",
			Title:      issue.Title,
			URL:        text.OrEmpty(issue.URL),
			Labels:     issue.Labels,
		}})
	})
}
