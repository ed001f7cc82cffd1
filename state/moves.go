package state

import (
	"context"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Orders to move an issue are calls with the verb move. The agent of such a call is the issue.

const moveColumns = `id, agent, params, created_at, ended_at`

func moveFields(m *reconcile.MoveOrder) []any {
	return []any{&m.ID, &m.IssueID, jsonOf(m), stampOf(&m.At), stampOf(&m.EndedAt)}
}

// AddMove stores an order for the next pass.
func (o Operator) AddMove(ctx context.Context, m reconcile.MoveOrder) error {
	return o.update(ctx, "store the order", full, statement(
		`INSERT INTO calls (`+moveColumns+`, run_id, verb, status)
		VALUES (`+marks(moveColumns)+`, '', 'move', 'queued')`, moveFields(&m)...))
}

// Moves returns the orders that a pass has to carry out, the oldest first.
func (c *conn) Moves(ctx context.Context) ([]reconcile.MoveOrder, error) {
	return readAll(ctx, c, "read the orders to move issues", moveFields, `SELECT `+moveColumns+` FROM calls
		WHERE verb = 'move' AND ended_at IS NULL ORDER BY created_at, id`)
}

// MoveByID returns an order; false if there is none.
func (c *conn) MoveByID(ctx context.Context, id string) (reconcile.MoveOrder, bool, error) {
	return readOne(ctx, c, "read an order", moveFields,
		`SELECT `+moveColumns+` FROM calls WHERE verb = 'move' AND id = ?`, id)
}

// SaveMove stores how far an order is carried out.
func (s Store) SaveMove(ctx context.Context, m reconcile.MoveOrder) error {
	return s.update(ctx, "store the step of the order", full, saveMove(m))
}

func saveMove(m reconcile.MoveOrder) func(tx) error {
	return statement(
		`UPDATE calls SET params = ?, ended_at = ?, status = iif(?2 IS NULL, 'running', 'completed') WHERE id = ?`,
		jsonOf(&m), stamp(m.EndedAt), m.ID)
}

// EndMove stores that an order about an issue was carried out, or is not to be. An issue that was
// moved waits for no review any more. If it goes back to an agent, its hold ends, and it is among
// the skips until a pass looks for issues.
func (s Store) EndMove(ctx context.Context, m reconcile.MoveOrder, issue reconcile.Issue, now time.Time) error {
	m.EndedAt = now
	return s.update(ctx, "end an order to move an issue", full, func(t tx) error {
		err := saveMove(m)(t)
		if err != nil || !m.Moved {
			return err
		}
		if err := endReview(t, m.IssueID); err != nil {
			return err
		}
		if !m.GoesBack() {
			return nil
		}
		// what was taken before is not what the agent makes now
		err = t.run(`UPDATE watches SET watch = json_remove(watch, '$.taken') WHERE issue_id = ?`, m.IssueID)
		if err != nil {
			return err
		}
		if m.Hold != "" {
			_, err := addCommand(t, reconcile.Command{
				Verb:       reconcile.VerbRetry,
				IssueID:    m.IssueID,
				Identifier: m.Identifier,
				CreatedAt:  now,
			})
			if err != nil {
				return err
			}
		}
		return saveSkip(t, StoredSkip{Since: now, Skip: reconcile.Skip{
			IssueID:    m.IssueID,
			Identifier: m.Identifier,
			Reason:     reconcile.SkipSentBack,
			Message:    "it was sent back to an agent",
			Title:      issue.Title,
			URL:        text.OrEmpty(issue.URL),
			Labels:     issue.Labels,
		}})
	})
}
