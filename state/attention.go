package state

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

// OpenAttention is one that nobody has told a person of, or that somebody began to and has not finished.
type OpenAttention struct {
	reconcile.Attention
	// TakenBy is who began, empty if nobody did.
	TakenBy string
}

// addAttention keeps something to tell a person of, in the transaction of what it tells of. One that is known already
// stays as it is, told or not.
func addAttention(ctx context.Context, tx *sql.Tx, a reconcile.Attention) error {
	if a.Key == "" || a.Kind == "" || a.At.IsZero() {
		return errors.New("add an attention: without a key, a kind or its time")
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO attentions (key, kind, issue_id, identifier, ref, text, at)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING`,
		a.Key, string(a.Kind), a.IssueID, a.Identifier, a.Ref, a.Text, stamp(a.At))
	return err
}

// addDated is addAttention for what may not say since when it is so.
func addDated(ctx context.Context, tx *sql.Tx, now time.Time, a reconcile.Attention) error {
	if a.At.IsZero() {
		a.At = now
	}
	return addAttention(ctx, tx, a)
}

// takeable is the condition for an attention that may be taken: by nobody yet, or once more after somebody had it for longer
// than a hook may take (?1: what is taken since then is not over; ?2: nor is what was taken in the future of a clock
// that was set back). The error of one that is not done says that it has been given up once. A request that can't be
// answered any more is no news: one that was, that is not asked any more, or whose run has ended. A question of an ended
// run still takes an answer, unless that would be a secret.
const takeable = `done_at IS NULL AND (taken_at IS NULL OR error = '' AND (taken_at < ?1 OR taken_at > ?2))
	AND NOT EXISTS (SELECT 1 FROM requests q LEFT JOIN runs r ON r.id = q.run_id WHERE q.issue_id = attentions.issue_id
		AND attentions.ref = q.identifier || '.' || q.number AND (q.decision IS NOT NULL OR q.fate IS NOT NULL
			OR (r.id IS NULL OR r.outcome IS NOT NULL)
				AND (q.kind <> 'question' OR json_extract(q.detail, '$.seal_key') IS NOT NULL)))`

// OpenAttentions returns what may be taken, the oldest first; of one issue only where issueID is not empty. patience is
// how long whoever takes one may take. standing are more of them that stand now and are stored only when they are taken,
// for nothing happened here that they could be stored with; and so is a fault of the tracker's that has lasted.
func (db *DB) OpenAttentions(ctx context.Context, now time.Time, patience time.Duration, issueID string, standing ...reconcile.Attention) ([]OpenAttention, error) {
	var all []OpenAttention
	err := db.view(ctx, "look for what a person is to be told", func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT key, kind, issue_id, identifier, ref, text, at, taken_by FROM attentions
			WHERE `+takeable+` AND ?3 IN ('', issue_id) ORDER BY at, key`, stamp(now.Add(-patience)), stamp(now), issueID)
		all, err = collect(rows, err, func(row scanner) (a OpenAttention, err error) {
			err = row.Scan(&a.Key, &a.Kind, &a.IssueID, &a.Identifier, &a.Ref, &a.Text, stampOf{&a.At}, &a.TakenBy)
			return a, err
		})
		if err != nil || issueID != "" {
			return err
		}
		var rec reconcile.State
		if err := readMeta(ctx, tx, db.dir, &rec); err != nil {
			return err
		}
		if b := rec.TrackerBlock; b != nil {
			if a, long := reconcile.OutageAttention(*b, now); long {
				standing = append(standing, a)
			}
		}
		all, err = addUnknown(ctx, tx, all, standing)
		return err
	})
	return all, err
}

// addUnknown adds those that are not stored, told or not.
func addUnknown(ctx context.Context, tx *sql.Tx, all []OpenAttention, more []reconcile.Attention) ([]OpenAttention, error) {
	for _, a := range more {
		known := false
		for _, key := range append([]string{a.Key}, a.Alike...) {
			var there bool
			err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM attentions WHERE key = ?)`, key).Scan(&there)
			if err != nil {
				return nil, err
			}
			known = known || there
		}
		if !known {
			all = append(all, OpenAttention{Attention: a})
		}
	}
	return all, nil
}

// TakeAttention makes it the taker's to tell a person, who must call DoneAttention. False: somebody else's it is, or was.
func (db *DB) TakeAttention(ctx context.Context, now time.Time, patience time.Duration, a reconcile.Attention, by string) (took bool, err error) {
	crash.At("state.take_attention.before")
	err = db.update(ctx, "take what a person is to be told", full, func(tx *sql.Tx) error {
		if err := addAttention(ctx, tx, a); err != nil { // one that stands may not be stored yet
			return err
		}
		took, err = affected(tx.ExecContext(ctx, `UPDATE attentions SET taken_at = ?2, taken_by = ?3,
			error = iif(taken_at IS NULL, '', 'not finished by ' || taken_by) WHERE key = ?4 AND `+takeable,
			stamp(now.Add(-patience)), stamp(now), by, a.Key))
		return err
	})
	crash.At("state.take_attention.after")
	return took, err
}

// DoneAttention records that a person was told, or with what error not: it is not tried again.
func (db *DB) DoneAttention(ctx context.Context, now time.Time, key, failure string) error {
	crash.At("state.done_attention.before")
	err := db.update(ctx, "record that a person was told", full, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE attentions SET done_at = ?, error = ? WHERE key = ?`, stamp(now), failure, key)
		return err
	})
	crash.At("state.done_attention.after")
	return err
}

// left is the condition for an attention that somebody (?3) began to tell and has not ended in the time that it takes.
const left = `done_at IS NULL AND taken_by = ?3 AND (taken_at < ?1 OR taken_at > ?2)`

// LeftAttentions reports whether somebody died while he told of something: what he has started may live on. While a
// pass has the database open nobody but the pass itself begins in a pass's name.
func (db *DB) LeftAttentions(ctx context.Context, now time.Time, patience time.Duration, by string) (some bool, err error) {
	if db.kept.noAttentions() {
		return false, nil
	}
	err = db.sql.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM attentions WHERE `+left+`)`,
		stamp(now.Add(-patience)), stamp(now), by).Scan(&some)
	return some, fault(db.dir, "look for what a person was not told", err)
}

// GiveUpAttentions records of those that nothing is left of them. Those that may be told once more stay as they are.
func (db *DB) GiveUpAttentions(ctx context.Context, now time.Time, patience time.Duration, by string) error {
	crash.At("state.give_up_attentions.before")
	err := db.update(ctx, "give up what a person was not told", full, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE attentions SET done_at = ?2,
			error = iif(error = '', 'not finished by ' || taken_by, error) WHERE `+left+` AND NOT (`+takeable+`)`,
			stamp(now.Add(-patience)), stamp(now), by)
		return err
	})
	crash.At("state.give_up_attentions.after")
	return err
}

// DropAttentions records that nobody is to be told of what has happened so far, for the workflow names no way to. What
// runs have added since the pass read the database is left to the next.
func (db *DB) DropAttentions(ctx context.Context, now time.Time) error {
	if db.kept.noAttentions() {
		return nil
	}
	var some bool
	err := db.sql.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM attentions WHERE done_at IS NULL)`).Scan(&some)
	if err != nil || !some {
		return fault(db.dir, "look for what a person was to be told", err)
	}
	crash.At("state.drop_attentions.before")
	err = db.update(ctx, "drop what nobody is to be told", full, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE attentions SET done_at = ?, error = 'the workflow has no hooks.on_attention'
			WHERE done_at IS NULL`, stamp(now))
		return err
	})
	crash.At("state.drop_attentions.after")
	return err
}

// noteHold keeps the attention of a claim that becomes held. One that was held before is no news.
func noteHold(ctx context.Context, tx *sql.Tx, now time.Time, c reconcile.Change) error {
	if c.Delete || c.Claim.Status != reconcile.Held {
		return nil
	}
	var status reconcile.ClaimStatus
	err := tx.QueryRowContext(ctx, `SELECT status FROM claims WHERE issue_id = ?`, c.Claim.IssueID).Scan(&status)
	if err != nil && !errors.Is(err, sql.ErrNoRows) || status == reconcile.Held {
		return err
	}
	return addDated(ctx, tx, now, reconcile.HoldAttention(*c.Claim))
}

// noteBlocks keeps the attentions of blocks that are set. The tracker's come later, if they last: see OpenAttentions.
func noteBlocks(ctx context.Context, tx *sql.Tx, now time.Time, blocks ...*reconcile.Block) error {
	for _, b := range blocks {
		if b == nil || b.Code == "" {
			continue
		}
		if err := addDated(ctx, tx, now, reconcile.BlockAttention(*b)); err != nil {
			return err
		}
	}
	return nil
}

// pruneAttentions deletes old ones, but none of a block that stands: it would count as new.
func pruneAttentions(ctx context.Context, tx *sql.Tx, dir string, now time.Time, limit int) (int64, error) {
	var rec reconcile.State
	if err := readMeta(ctx, tx, dir, &rec); err != nil {
		return 0, err
	}
	stand := []any{"", "", ""}
	if b := rec.AgentBlock; b != nil {
		stand[0] = reconcile.BlockAttention(*b).Key
	}
	if b := rec.HostBlock; b != nil {
		stand[1] = reconcile.BlockAttention(*b).Key
	}
	if b := rec.TrackerBlock; b != nil {
		a, _ := reconcile.OutageAttention(*b, now)
		stand[2] = a.Key
	}
	res, err := tx.ExecContext(ctx, `DELETE FROM attentions WHERE key IN (
		SELECT key FROM attentions WHERE at < ? AND key NOT IN (?, ?, ?) LIMIT ?)`,
		append(append([]any{stamp(now.Add(-keepFor))}, stand...), limit)...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
