package state

import (
	"context"
	"errors"

	"github.com/symphony-cron/symphony/reconcile"
)

// Operator is what commands write on behalf of an operator, while a pass may run.
type Operator struct{ *conn }

// AddCommand stores an operator's command until a pass has consumed it, and returns its id. The id of cmd is ignored.
func (o Operator) AddCommand(ctx context.Context, cmd reconcile.Command) (id int64, err error) {
	if cmd.Verb == "" || cmd.CreatedAt.IsZero() {
		return 0, errors.New("add a command: without a verb or its time")
	}
	err = o.update(ctx, "add the command "+string(cmd.Verb), full, func(t tx) error {
		return t.row(`INSERT INTO commands (verb, issue_id, identifier, created_at) VALUES (?, ?, ?, ?) RETURNING id`,
			string(cmd.Verb), cmd.IssueID, cmd.Identifier, stamp(cmd.CreatedAt)).Scan(&id)
	})
	return id, err
}

// CommandDone reports whether a pass has consumed the command of that id.
func (o Operator) CommandDone(ctx context.Context, id int64) (bool, error) {
	done, err := scanOne[bool](o.row(ctx, `SELECT NOT EXISTS (SELECT 1 FROM commands WHERE id = ?)`, id))
	return done, fault(o.dir, "look for the command", err)
}

func readCommands(t tx) ([]reconcile.Command, error) {
	rows, err := t.query(`SELECT id, verb, issue_id, identifier, created_at FROM commands ORDER BY id`)
	return collect(rows, err, func(row scanner) (c reconcile.Command, err error) {
		err = row.Scan(&c.ID, &c.Verb, &c.IssueID, &c.Identifier, stampOf{&c.CreatedAt})
		return c, err
	})
}
