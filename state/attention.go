package state

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Attentions are the notifications that hooks.on_attention delivers, each once. A process takes a notification before it
// runs the hook and marks it done afterwards. patience is the longest time that a hook may take.
type Attentions struct{ *conn }

// OpenAttention is a notification that has not been delivered.
type OpenAttention struct {
	reconcile.Attention
	// TakenBy names the process that began to deliver it, empty if none did.
	TakenBy string
}

// addAttention stores a notification in the transaction of the event that it reports; without a time of its own it gets
// now. One that is stored already stays as it is, delivered or not.
func addAttention(t tx, now time.Time, a reconcile.Attention) error {
	if a.At.IsZero() {
		a.At = now
	}
	if a.Key == "" || a.Kind == "" || a.At.IsZero() {
		return errors.New("add an attention: without a key, a kind or its time")
	}
	return t.run(`INSERT INTO attentions (key, kind, issue_id, identifier, ref, text, at)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING`,
		a.Key, string(a.Kind), a.IssueID, a.Identifier, a.Ref, a.Text, stamp(a.At))
}

// takeable is the condition for a notification that may be taken: one that no process has taken, or, once more, one that
// a process has had for longer than a hook may take (taken before ?1, or after ?2 by a clock that was set back). A
// notification with an error has been given up once. A request that can't be answered any more is no news: it was
// answered or withdrawn, or its run has ended. A question of an ended run still takes an answer, unless that would be a
// secret.
const takeable = `done_at IS NULL AND (taken_at IS NULL OR error = '' AND (taken_at < ?1 OR taken_at > ?2))
	AND NOT EXISTS (SELECT 1 FROM requests q LEFT JOIN runs r ON r.id = q.run_id WHERE q.issue_id = attentions.issue_id
		AND attentions.ref = q.identifier || '.' || q.number AND (q.decision IS NOT NULL OR q.fate IS NOT NULL
			OR (r.id IS NULL OR r.outcome IS NOT NULL)
				AND (q.kind <> 'question' OR json_extract(q.detail, '$.seal_key') IS NOT NULL)))`

// OpenAttentions returns the notifications that may be taken, the oldest first; of one issue only where issueID is not
// empty. standing are conditions that hold now and are stored only when they are taken, because no stored event began
// them. A tracker's outage that has lasted is another one.
func (a Attentions) OpenAttentions(ctx context.Context, now time.Time, patience time.Duration, issueID string, standing ...reconcile.Attention) (all []OpenAttention, err error) {
	err = a.view(ctx, "look for notifications", func(t tx) error {
		rows, err := t.query(`SELECT key, kind, issue_id, identifier, ref, text, at, taken_by FROM attentions
			WHERE `+takeable+` AND ?3 IN ('', issue_id) ORDER BY at, key`, stamp(now.Add(-patience)), stamp(now), issueID)
		all, err = collect(rows, err, func(row scanner) (a OpenAttention, err error) {
			err = row.Scan(&a.Key, &a.Kind, &a.IssueID, &a.Identifier, &a.Ref, &a.Text, stampOf{&a.At}, &a.TakenBy)
			return a, err
		})
		if err != nil || issueID != "" {
			return err
		}
		var rec reconcile.State
		if err := readStateMeta(t, a.dir, &rec); err != nil {
			return err
		}
		if b := rec.TrackerBlock; b != nil {
			if outage, long := reconcile.OutageAttention(*b, now); long {
				standing = append(standing, outage)
			}
		}
		all, err = addUnknown(t, all, standing)
		return err
	})
	return all, err
}

// addUnknown adds those that are not stored, delivered or not.
func addUnknown(t tx, all []OpenAttention, more []reconcile.Attention) ([]OpenAttention, error) {
	for _, a := range more {
		keys, err := toJSON(append([]string{a.Key}, a.Alike...))
		if err != nil {
			return nil, err
		}
		known, err := scanOne[bool](t.row(`SELECT EXISTS (SELECT 1 FROM attentions WHERE key IN (SELECT value FROM json_each(?)))`, keys))
		if err != nil {
			return nil, err
		}
		if !known {
			all = append(all, OpenAttention{Attention: a})
		}
	}
	return all, nil
}

// TakeAttention claims a notification for this process, named by; false if another process has it. The process must call
// DoneAttention.
func (a Attentions) TakeAttention(ctx context.Context, now time.Time, patience time.Duration, attention reconcile.Attention, by string) (took bool, err error) {
	err = a.update(ctx, "take a notification", full, func(t tx) error {
		if err := addAttention(t, now, attention); err != nil { // a standing one may not be stored yet
			return err
		}
		took, err = t.changed(`UPDATE attentions SET taken_at = ?2, taken_by = ?3,
			error = iif(taken_at IS NULL, '', 'not finished by ' || taken_by) WHERE key = ?4 AND `+takeable,
			stamp(now.Add(-patience)), stamp(now), by, attention.Key)
		return err
	})
	return took, err
}

// DoneAttention records that a notification was delivered, or why it failed. It is not tried again.
func (a Attentions) DoneAttention(ctx context.Context, now time.Time, key, failure string) error {
	return a.update(ctx, "record the notification", full, func(t tx) error {
		return t.run(`UPDATE attentions SET done_at = ?, error = ? WHERE key = ?`, stamp(now), failure, key)
	})
}

// overdue is the condition for a notification that a process (?3) took and has not finished in its time.
const overdue = `done_at IS NULL AND taken_by = ?3 AND (taken_at < ?1 OR taken_at > ?2)`

// LeftAttentions reports whether a process died while it delivered a notification: its hook may still run.
func (a Attentions) LeftAttentions(ctx context.Context, now time.Time, patience time.Duration, by string) (bool, error) {
	some, err := scanOne[bool](a.row(ctx, `SELECT EXISTS (SELECT 1 FROM attentions WHERE `+overdue+`)`,
		stamp(now.Add(-patience)), stamp(now), by))
	return some, fault(a.dir, "look for unfinished notifications", err)
}

// GiveUpAttentions closes the unfinished notifications of a process whose hook is gone, except those that may be delivered
// once more.
func (a Attentions) GiveUpAttentions(ctx context.Context, now time.Time, patience time.Duration, by string) error {
	return a.update(ctx, "give up notifications", full, func(t tx) error {
		return t.run(`UPDATE attentions SET done_at = ?2,
			error = iif(error = '', 'not finished by ' || taken_by, error) WHERE `+overdue+` AND NOT (`+takeable+`)`,
			stamp(now.Add(-patience)), stamp(now), by)
	})
}

// DropAttentions closes all notifications without delivery, because the workflow has no hook for them.
func (a Attentions) DropAttentions(ctx context.Context, now time.Time) error {
	some, err := scanOne[bool](a.row(ctx, `SELECT EXISTS (SELECT 1 FROM attentions WHERE done_at IS NULL)`))
	if err != nil || !some {
		return fault(a.dir, "look for notifications", err)
	}
	return a.update(ctx, "drop notifications", full, func(t tx) error {
		return t.run(`UPDATE attentions SET done_at = ?, error = 'the workflow has no hooks.on_attention' WHERE done_at IS NULL`, stamp(now))
	})
}

// noteHold stores the notification of a claim that becomes held. A claim that was held before is no news.
func noteHold(t tx, now time.Time, c reconcile.Claim) error {
	if c.Status != reconcile.Held {
		return nil
	}
	status, err := scanOne[reconcile.ClaimStatus](t.row(`SELECT status FROM claims WHERE issue_id = ?`, c.IssueID))
	if err != nil && !errors.Is(err, sql.ErrNoRows) || status == reconcile.Held {
		return err
	}
	return addAttention(t, now, reconcile.HoldAttention(c))
}

// pruneAttentions deletes old notifications, except those of blocks that stand: they would count as new.
func pruneAttentions(t tx, dir string, now time.Time, limit int) (int64, error) {
	var rec reconcile.State
	if err := readStateMeta(t, dir, &rec); err != nil {
		return 0, err
	}
	standing := []string{}
	for _, b := range []*reconcile.Block{rec.AgentBlock, rec.HostBlock} {
		if b != nil {
			standing = append(standing, reconcile.BlockAttention(*b).Key)
		}
	}
	if b := rec.TrackerBlock; b != nil {
		a, _ := reconcile.OutageAttention(*b, now)
		standing = append(standing, a.Key)
	}
	keys, err := toJSON(standing)
	if err != nil {
		return 0, err
	}
	return t.count(`DELETE FROM attentions WHERE key IN (
		SELECT key FROM attentions WHERE at < ? AND key NOT IN (SELECT value FROM json_each(?)) LIMIT ?)`,
		stamp(now.Add(-keepFor)), keys, limit)
}
