package state

import (
	"context"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// OpenAttention is a notification that has not been delivered.
type OpenAttention struct {
	reconcile.Attention
	// TakenBy names the process that began to deliver it, empty if none did.
	TakenBy string
}

const attentionColumns = `key, kind, issue_id, identifier, ref, text, at`

func attentionFields(a *reconcile.Attention) []any {
	return []any{&a.Key, &a.Kind, &a.IssueID, &a.Identifier, &a.Ref, &a.Text, stampOf(&a.At)}
}

// addAttention stores a notification in the transaction of the event that it reports; without a time of its own it gets
// now. One that is stored already stays as it is, delivered or not.
func addAttention(t tx, now time.Time, a reconcile.Attention) error {
	if a.At.IsZero() {
		a.At = now
	}
	return t.run(`INSERT INTO attentions (`+attentionColumns+`) VALUES (`+marks(attentionColumns)+`) ON CONFLICT (key) DO NOTHING`,
		attentionFields(&a)...)
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
		all, err = rows(t, func(a *OpenAttention) []any { return append(attentionFields(&a.Attention), &a.TakenBy) },
			`SELECT `+attentionColumns+`, taken_by FROM attentions
			WHERE `+takeable+` AND ?3 IN ('', issue_id) ORDER BY at, key`, stamp(now.Add(-patience)), stamp(now), issueID)
		if err != nil || issueID != "" {
			return err
		}
		var settings reconcile.State
		if err := readSettings(t, a.dir, &settings); err != nil {
			return err
		}
		if b := settings.TrackerBlock; b != nil {
			if outage, long := reconcile.OutageAttention(*b, now); long {
				standing = append(standing, outage)
			}
		}
		for _, a := range standing {
			known, err := row(t, itself[bool], `SELECT EXISTS (SELECT 1 FROM attentions WHERE key IN (SELECT value FROM json_each(?)))`,
				jsonOf(append([]string{a.Key}, a.Like...)))
			if err != nil {
				return err
			}
			if !known {
				all = append(all, OpenAttention{Attention: a})
			}
		}
		return nil
	})
	return all, err
}

// TakeAttention claims a notification for this process, named by; false if another process has it. The process must call
// DoneAttention.
func (a Attentions) TakeAttention(ctx context.Context, now time.Time, patience time.Duration, attention reconcile.Attention, by string) (took bool, err error) {
	err = a.update(ctx, "take a notification", full, func(t tx) error {
		if err := addAttention(t, now, attention); err != nil { // a standing one may not be stored yet
			return err
		}
		n, err := t.count(`UPDATE attentions SET taken_at = ?2, taken_by = ?3,
			error = iif(taken_at IS NULL, '', 'not finished by ' || taken_by) WHERE key = ?4 AND `+takeable,
			stamp(now.Add(-patience)), stamp(now), by, attention.Key)
		took = n > 0
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
	left, _, err := readOne(ctx, a.conn, "look for unfinished notifications", itself[bool],
		`SELECT EXISTS (SELECT 1 FROM attentions WHERE `+overdue+`)`, stamp(now.Add(-patience)), stamp(now), by)
	return left, err
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
	some, _, err := readOne(ctx, a.conn, "look for notifications", itself[bool], `SELECT EXISTS (SELECT 1 FROM attentions WHERE done_at IS NULL)`)
	if err != nil || !some {
		return err
	}
	return a.update(ctx, "drop notifications", full, func(t tx) error {
		return t.run(`UPDATE attentions SET done_at = ?, error = 'the workflow has no hooks.on_attention' WHERE done_at IS NULL`, stamp(now))
	})
}
