package state

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

// AddCommand keeps an operator's command until a pass has taken it up, and returns its id. The id of cmd is
// ignored.
func (db *DB) AddCommand(ctx context.Context, cmd reconcile.Command) (int64, error) {
	if cmd.Verb == "" || cmd.CreatedAt.IsZero() {
		return 0, errors.New("add a command: without a verb or its time")
	}
	var id int64
	crash.At("state.add_command.before")
	err := db.update(ctx, "add the command "+string(cmd.Verb), full, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `INSERT INTO commands (verb, issue_id, identifier, created_at)
			VALUES (?, ?, ?, ?)`, string(cmd.Verb), cmd.IssueID, cmd.Identifier, stamp(cmd.CreatedAt))
		if err != nil {
			return err
		}
		id, err = res.LastInsertId()
		return err
	})
	crash.At("state.add_command.after")
	return id, err
}

// CommandDone reports whether a pass has taken up the command of that id.
func (db *DB) CommandDone(ctx context.Context, id int64) (bool, error) {
	var waiting bool
	err := db.sql.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM commands WHERE id = ?)`, id).Scan(&waiting)
	if err != nil {
		return false, fault(db.dir, "look for the command", err)
	}
	return !waiting, nil
}

func readCommands(ctx context.Context, tx *sql.Tx) ([]reconcile.Command, error) {
	rows, err := tx.QueryContext(ctx, `SELECT id, verb, issue_id, identifier, created_at FROM commands ORDER BY id`)
	return collect(rows, err, func(row scanner) (c reconcile.Command, err error) {
		err = row.Scan(&c.ID, &c.Verb, &c.IssueID, &c.Identifier, stampOf{&c.CreatedAt})
		return c, err
	})
}

// consume removes commands that a change has taken up. One that is gone was taken up by an earlier change of the
// same pass; the claim's version keeps it from counting twice.
func consume(ctx context.Context, tx *sql.Tx, ids []int64) error {
	for _, id := range ids {
		if _, err := tx.ExecContext(ctx, `DELETE FROM commands WHERE id = ?`, id); err != nil {
			return err
		}
	}
	return nil
}

// FindIssue looks for an issue by its identifier, in either case, or by its id, among the claims, then the
// runs (the newest first), then the skips.
func (db *DB) FindIssue(ctx context.Context, ref string) (id, identifier string, ok bool, err error) {
	err = db.sql.QueryRowContext(ctx, `
		SELECT issue_id, identifier FROM (
			SELECT issue_id, identifier, 1 AS place, '' AS run FROM claims
				WHERE identifier = ?1 COLLATE NOCASE OR issue_id = ?1
			UNION ALL
			SELECT issue_id, identifier, 2, id FROM runs WHERE identifier = ?1 COLLATE NOCASE OR issue_id = ?1
			UNION ALL
			SELECT issue_id, identifier, 3, '' FROM skips WHERE identifier = ?1 COLLATE NOCASE OR issue_id = ?1)
		ORDER BY place, run DESC LIMIT 1`, ref).Scan(&id, &identifier)
	if errors.Is(err, sql.ErrNoRows) {
		return "", "", false, nil
	}
	return id, identifier, err == nil, fault(db.dir, "look for the issue", err)
}

// StoredSkip is a candidate that the last pass with candidates left alone, and since when for that reason.
type StoredSkip struct {
	reconcile.Skip
	Since time.Time
}

// Skips returns the skips of the last pass that fetched candidates, by identifier.
func (db *DB) Skips(ctx context.Context) ([]StoredSkip, error) {
	var skips []StoredSkip
	err := db.view(ctx, "read the skips", func(tx *sql.Tx) (err error) {
		skips, err = readSkips(ctx, tx)
		return err
	})
	return skips, err
}

func readSkips(ctx context.Context, tx *sql.Tx) ([]StoredSkip, error) {
	rows, err := tx.QueryContext(ctx,
		`SELECT issue_id, identifier, reason, message, since FROM skips ORDER BY identifier, issue_id`)
	return collect(rows, err, func(row scanner) (s StoredSkip, err error) {
		err = row.Scan(&s.IssueID, &s.Identifier, &s.Reason, &s.Message, stampOf{&s.Since})
		return s, err
	})
}

// SaveSkips implements reconcile.Store. Of an issue that is skipped twice the first reason counts. Skips that are
// stored already cost no write, and a reason that stays keeps its time.
func (db *DB) SaveSkips(ctx context.Context, now time.Time, skips []reconcile.Skip) error {
	if len(skips) == 0 && db.kept.noSkips() {
		return nil
	}
	stored, err := db.Skips(ctx)
	if err != nil {
		return err
	}
	old := make(map[string]StoredSkip, len(stored))
	for _, s := range stored {
		old[s.IssueID] = s
	}
	next, changed := mergeSkips(old, skips, now)
	if !changed {
		return nil
	}
	db.kept.skips(true)
	crash.At("state.save_skips.before")
	err = db.update(ctx, "save the skips", full, func(tx *sql.Tx) error { return replaceSkips(ctx, tx, next) })
	crash.At("state.save_skips.after")
	return err
}

func mergeSkips(old map[string]StoredSkip, skips []reconcile.Skip, now time.Time) ([]StoredSkip, bool) {
	next := make([]StoredSkip, 0, len(skips))
	seen := make(map[string]bool, len(skips))
	changed := false
	for _, s := range skips {
		if seen[s.IssueID] {
			continue
		}
		seen[s.IssueID] = true
		merged := StoredSkip{Skip: s, Since: now}
		was, known := old[s.IssueID]
		if known && was.Reason == s.Reason {
			merged.Since = was.Since
		}
		changed = changed || !known || was.Skip != s
		next = append(next, merged)
	}
	return next, changed || len(next) != len(old)
}

func replaceSkips(ctx context.Context, tx *sql.Tx, skips []StoredSkip) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM skips`); err != nil {
		return err
	}
	insert, err := tx.PrepareContext(ctx,
		`INSERT INTO skips (issue_id, identifier, reason, message, since) VALUES (?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	defer insert.Close()
	for _, s := range skips {
		if _, err := insert.ExecContext(ctx, s.IssueID, s.Identifier, s.Reason, s.Message, stamp(s.Since)); err != nil {
			return err
		}
	}
	return nil
}
