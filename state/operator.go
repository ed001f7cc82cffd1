package state

import (
	"context"

	"github.com/symphony-cron/symphony/reconcile"
)

// Operator is what commands write on behalf of an operator, while a pass may run.
type Operator struct{ *conn }

const commandColumns = `id, verb, issue_id, identifier, created_at`

func commandFields(c *reconcile.Command) []any {
	return []any{&c.ID, &c.Verb, &c.IssueID, &c.Identifier, stampOf(&c.CreatedAt)}
}

// AddCommand stores an operator's command until a pass has consumed it, and returns its id. The id of cmd is ignored.
func (o Operator) AddCommand(ctx context.Context, cmd reconcile.Command) (id int64, err error) {
	err = o.update(ctx, "add the command "+string(cmd.Verb), full, func(t tx) error {
		id, err = row(t, itself[int64], `INSERT INTO commands (verb, issue_id, identifier, created_at) VALUES (?, ?, ?, ?) RETURNING id`,
			commandFields(&cmd)[1:]...)
		return err
	})
	return id, err
}

// CommandDone reports whether a pass has consumed the command of that id.
func (o Operator) CommandDone(ctx context.Context, id int64) (bool, error) {
	done, _, err := readOne(ctx, o.conn, "look for the command", itself[bool], `SELECT NOT EXISTS (SELECT 1 FROM commands WHERE id = ?)`, id)
	return done, err
}
