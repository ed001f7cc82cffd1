package state

import (
	"context"
	"database/sql"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// OpenAttention is a notification that was not delivered yet.
type OpenAttention struct {
	reconcile.Attention
	// TakenBy names the process that began to deliver it; empty if none did.
	TakenBy string
}

const attentionColumns = `key, kind, issue_id, identifier, ref, text, at`

func attentionFields(a *reconcile.Attention) []any {
	return []any{&a.Key, &a.Kind, &a.IssueID, &a.Identifier, &a.Ref, &a.Text, stampOf(&a.At)}
}

// HoldsOfIssue returns the notifications of holds of an issue, the newest first, at most limit
// of them.
func (v Views) HoldsOfIssue(ctx context.Context, issueID string, limit int) ([]reconcile.Attention, error) {
	return readAll(ctx, v.conn, "read the holds", attentionFields, `SELECT `+attentionColumns+` FROM attentions
		WHERE issue_id = ? AND kind IN (?, ?) ORDER BY at DESC LIMIT ?`,
		issueID, reconcile.AttentionHold, reconcile.AttentionHelp, limit)
}

// addAttention stores a notification in the transaction of the event that it reports. Its time
// defaults to now. A notification with the same key, delivered or not, stays as it is.
func addAttention(t tx, now time.Time, a reconcile.Attention) error {
	if a.At.IsZero() {
		a.At = now
	}
	return t.run(`INSERT INTO attentions (`+attentionColumns+`) VALUES (`+marks(attentionColumns)+`)
		ON CONFLICT (key) DO NOTHING`, attentionFields(&a)...)
}

// takeable is the condition for a notification that a process may take. Either no process took
// it, or a process took it once and did not finish in the time that a hook may take: it was
// taken before :overdue, or after :now if the clock was set back. A notification that was
// taken twice carries an error.
//
// A request must still be open: a notification is pointless if it was answered or withdrawn,
// or if its run ended. A question of an ended run can still be answered, unless the answer is
// a secret.
const takeable = `done_at IS NULL
	AND (taken_at IS NULL OR error = '' AND (taken_at < :overdue OR taken_at > :now))
	AND NOT EXISTS (SELECT 1 FROM requests q LEFT JOIN runs r ON r.id = q.run_id
		WHERE q.issue_id = attentions.issue_id AND attentions.ref = q.identifier || '.' || q.number
		AND (q.decision IS NOT NULL OR q.fate IS NOT NULL
			OR (r.id IS NULL OR r.outcome IS NOT NULL)
				AND (q.kind <> 'question' OR json_extract(q.detail, '$.seal_key') IS NOT NULL)))`

// overdue is the condition for a notification that the process :by took and did not finish in
// that time.
const overdue = `done_at IS NULL AND taken_by = :by AND (taken_at < :overdue OR taken_at > :now)`

// attentionTimes are the parameters of takeable and overdue, and more.
func attentionTimes(now time.Time, patience time.Duration, more ...any) []any {
	times := []any{sql.Named("overdue", stamp(now.Add(-patience))), sql.Named("now", stamp(now))}
	return append(times, more...)
}

func openAttentionFields(a *OpenAttention) []any {
	return append(attentionFields(&a.Attention), &a.TakenBy)
}

// OpenAttentions returns the notifications that may be taken, oldest first, of a single issue
// if issueID is not empty. standing are notifications of conditions that began with no stored
// event; they are stored when they are taken. Without issueID, OpenAttentions adds a tracker
// outage that lasts long enough.
func (a Attentions) OpenAttentions(
	ctx context.Context,
	now time.Time,
	patience time.Duration,
	issueID string,
	standing ...reconcile.Attention,
) (all []OpenAttention, err error) {
	err = a.view(ctx, "read the notifications", func(t tx) error {
		all, err = rows(t, openAttentionFields, `SELECT `+attentionColumns+`, taken_by FROM attentions
			WHERE `+takeable+` AND :issue IN ('', issue_id) ORDER BY at, key`,
			attentionTimes(now, patience, sql.Named("issue", issueID))...)
		if err != nil || issueID != "" {
			return err
		}
		var settings reconcile.State
		if err := readSettings(t, a.dir, &settings); err != nil {
			return err
		}
		if settings.TrackerBlock != nil {
			outage, long := reconcile.OutageAttention(*settings.TrackerBlock, now)
			if long {
				standing = append(standing, outage)
			}
		}
		for _, one := range standing {
			known, err := isNotified(t, one)
			if err != nil {
				return err
			}
			if !known {
				all = append(all, OpenAttention{Attention: one})
			}
		}
		return nil
	})
	return all, err
}

// isNotified reports whether a notification is stored, or an equivalent one.
func isNotified(t tx, a reconcile.Attention) (bool, error) {
	return row(t, itself[bool],
		`SELECT EXISTS (SELECT 1 FROM attentions WHERE key IN (SELECT value FROM json_each(?)))`,
		jsonOf(append([]string{a.Key}, a.Like...)))
}

// TakeAttention claims a notification for the process that by names; false if another process
// claimed it. The process must call DoneAttention afterwards.
func (a Attentions) TakeAttention(
	ctx context.Context, now time.Time, patience time.Duration, attention reconcile.Attention, by string,
) (took bool, err error) {
	err = a.update(ctx, "take a notification", full, func(t tx) error {
		// a standing notification may not be stored yet
		if err := addAttention(t, now, attention); err != nil {
			return err
		}
		n, err := t.count(`UPDATE attentions SET taken_at = :now, taken_by = :by,
			error = iif(taken_at IS NULL, '', 'not finished by ' || taken_by) WHERE key = :key AND `+takeable,
			attentionTimes(now, patience, sql.Named("by", by), sql.Named("key", attention.Key))...)
		took = n > 0
		return err
	})
	return took, err
}

// DoneAttention records that a notification was delivered, or why that failed. It is not tried
// again.
func (a Attentions) DoneAttention(ctx context.Context, now time.Time, key, failure string) error {
	return a.update(ctx, "record the notification", full,
		statement(`UPDATE attentions SET done_at = ?, error = ? WHERE key = ?`, stamp(now), failure, key))
}

// LeftAttentions reports whether the process that by names died while it delivered a
// notification. Its hook may still run.
func (a Attentions) LeftAttentions(
	ctx context.Context, now time.Time, patience time.Duration, by string,
) (bool, error) {
	some, err := a.anyOpen(ctx)
	if err != nil || !some {
		return false, err
	}
	left, _, err := readOne(ctx, a.conn, "look for unfinished notifications", itself[bool],
		`SELECT EXISTS (SELECT 1 FROM attentions WHERE `+overdue+`)`,
		attentionTimes(now, patience, sql.Named("by", by))...)
	return left, err
}

// GiveUpAttentions closes the unfinished notifications of the process that by names, whose
// hook ended, unless they may be taken again.
func (a Attentions) GiveUpAttentions(
	ctx context.Context, now time.Time, patience time.Duration, by string,
) error {
	return a.update(ctx, "give up notifications", full, statement(`UPDATE attentions SET done_at = :now,
		error = iif(error = '', 'not finished by ' || taken_by, error) WHERE `+overdue+` AND NOT (`+takeable+`)`,
		attentionTimes(now, patience, sql.Named("by", by))...))
}

// DropAttentions closes all open notifications undelivered, because the workflow defines no
// hook for them.
func (a Attentions) DropAttentions(ctx context.Context, now time.Time) error {
	some, err := a.anyOpen(ctx)
	if err != nil || !some {
		return err
	}
	return a.update(ctx, "drop notifications", full, statement(`UPDATE attentions
		SET done_at = ?, error = 'the workflow has no hooks.on_attention' WHERE done_at IS NULL`, stamp(now)))
}

// anyOpen reports whether there are notifications that were neither delivered nor given up.
func (a Attentions) anyOpen(ctx context.Context) (bool, error) {
	some, _, err := readOne(ctx, a.conn, "look for notifications", itself[bool],
		`SELECT EXISTS (SELECT 1 FROM attentions WHERE done_at IS NULL)`)
	return some, err
}
