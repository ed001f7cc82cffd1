package state

import (
	"context"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Messages to the agents of issues are calls with the verb tell. The agent of such a call is
// the issue, its run the run whose worker told the agent.

const messageColumns = `id, agent, params, created_at, run_id, ended_at`

func messageFields(m *reconcile.Message) []any {
	return []any{&m.ID, &m.IssueID, jsonOf(&m.Words), stampOf(&m.At), &m.RunID, stampOf(&m.ToldAt)}
}

// AddMessage stores a message until a run tells its agent. If too many wait already, the code
// of the error is not_possible.
func (o Operator) AddMessage(ctx context.Context, m reconcile.Message) error {
	return o.update(ctx, "store a message", full, func(t tx) error {
		n, err := t.count(
			`INSERT INTO calls (`+messageColumns+`, verb, status) SELECT `+marks(messageColumns)+`, 'tell', 'queued'
			WHERE (SELECT count(*) FROM calls WHERE verb = 'tell' AND agent = ? AND ended_at IS NULL) < ?`,
			append(messageFields(&m), m.IssueID, reconcile.MaxMessages)...)
		if err != nil || n > 0 {
			return err
		}
		return reconcile.NewError(
			"not_possible",
			fmt.Sprintf("%d messages wait for the agent of this issue already", reconcile.MaxMessages),
			"",
		).WithHint(
			"%s explains when its next run starts; a comment or the description in the tracker reaches the agent, too",
			reconcile.CommandFor("show", "ISSUE"),
		)
	})
}

// Messages returns the newest messages to the agent of an issue, at most limit of them, the
// newest first.
func (v Views) Messages(ctx context.Context, issueID string, limit int) ([]reconcile.Message, error) {
	return readAll(ctx, v.conn, "read the messages", messageFields, `SELECT `+messageColumns+` FROM calls
		WHERE verb = 'tell' AND agent = ?
		ORDER BY created_at DESC, id DESC LIMIT ?`, issueID, limit)
}

// UntoldMessages returns the newest messages that the agent of an issue did not get yet, at
// most limit of them, the newest first.
func (j Journal) UntoldMessages(ctx context.Context, issueID string, limit int) ([]reconcile.Message, error) {
	return readAll(ctx, j.conn, "read the messages", messageFields, `SELECT `+messageColumns+` FROM calls
		WHERE verb = 'tell' AND agent = ? AND ended_at IS NULL
		ORDER BY created_at DESC, id DESC LIMIT ?`, issueID, limit)
}

// MarkMessages records that a run begins to tell its agent messages, or with a time that the
// agent got them.
func (j Journal) MarkMessages(
	ctx context.Context, list []reconcile.Message, runID string, told time.Time,
) error {
	if len(list) == 0 {
		return nil
	}
	return j.update(ctx, "record what the agent was told", full, func(t tx) error {
		for _, m := range list {
			err := t.run(
				`UPDATE calls SET run_id = ?1, ended_at = ?2, status = iif(?2 IS NULL, 'running', 'completed')
				WHERE id = ?3 AND ended_at IS NULL`, runID, stamp(told), m.ID)
			if err != nil {
				return err
			}
		}
		return nil
	})
}
