package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

// requestColumns are those of a request q and its run r. What became of a request whose run has ended is written
// nowhere: so no crash can keep it from ending with its run. One that was decided and not yet taken up is as good as
// answered while its run goes on.
const requestColumns = `q.issue_id, q.identifier, q.number, q.run_id, q.thread_id, q.kind, q.summary, q.detail, q.outside, q.asked_at,
	q.expires_at, q.expires_mono, q.expires_boot, coalesce(q.decision, ''), q.answer, q.decided_at, ` + requestFate + `, q.ended_at, q.told_run`

const (
	requestFate = `coalesce(q.fate, CASE WHEN r.id IS NULL OR r.outcome IS NOT NULL THEN 'run_ended'
		WHEN q.decision IS NOT NULL THEN 'answered' ELSE '' END)`
	requestSource = ` FROM requests q LEFT JOIN runs r ON r.id = q.run_id `
)

func scanRequest(row scanner) (reconcile.Request, error) {
	var r reconcile.Request
	err := row.Scan(&r.IssueID, &r.Identifier, &r.Number, &r.RunID, &r.ThreadID, &r.Kind, &r.Summary, jsonOf{&r.Detail}, &r.Outside,
		stampOf{&r.AskedAt}, stampOf{&r.ExpiresAt}, &r.Deadline.Mono, &r.Deadline.Boot, &r.Decision, jsonOf{&r.Answer}, stampOf{&r.DecidedAt}, &r.Fate, stampOf{&r.EndedAt}, &r.ToldRun)
	return r, err
}

// AddRequest stores what the agent of a run asks, and returns it with its number. It is on the disk before anybody can
// see it. A run that has ended, or is not the worker's any more, gives reconcile.ErrConflict.
func (db *DB) AddRequest(ctx context.Context, r reconcile.Request) (reconcile.Request, error) {
	detail, err := toJSON(r.Detail)
	if err != nil {
		return r, err
	}
	crash.At("state.add_request.before")
	err = db.update(ctx, "store a request of "+r.Identifier, full, func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, `INSERT INTO requests (issue_id, number, identifier, run_id, thread_id, kind, summary,
				detail, outside, asked_at, expires_at, expires_mono, expires_boot)
			SELECT ?1, 1 + coalesce((SELECT max(number) FROM requests WHERE issue_id = ?1), 0), ?, id, ?, ?, ?, ?, ?, ?, ?, ?, ?
			FROM runs WHERE id = ? AND outcome IS NULL RETURNING number`,
			r.IssueID, r.Identifier, r.ThreadID, string(r.Kind), r.Summary, detail, r.Outside, stamp(r.AskedAt), stamp(r.ExpiresAt),
			int64(r.Deadline.Mono), r.Deadline.Boot, r.RunID).Scan(&r.Number)
		if errors.Is(err, sql.ErrNoRows) {
			return runConflict(r.RunID, false, nil)
		}
		if err != nil {
			return err
		}
		return addAttention(ctx, tx, r.Attention())
	})
	crash.At("state.add_request.after")
	return r, err
}

// RequestByID finds a request by its issue's id; an error that wraps ErrNotFound where there is none.
func (db *DB) RequestByID(ctx context.Context, issueID string, number int) (reconcile.Request, error) {
	return db.request(ctx, `WHERE q.issue_id = ? AND q.number = ?`, issueID, number)
}

// FindRequest finds a request by its issue's identifier, in either case; an error that wraps ErrNotFound where there is
// none.
func (db *DB) FindRequest(ctx context.Context, identifier string, number int) (reconcile.Request, error) {
	return db.request(ctx, `WHERE q.identifier = ? COLLATE NOCASE AND q.number = ? ORDER BY q.asked_at DESC LIMIT 1`, identifier, number)
}

func (db *DB) request(ctx context.Context, where string, args ...any) (reconcile.Request, error) {
	r, err := scanRequest(db.sql.QueryRowContext(ctx, `SELECT `+requestColumns+requestSource+where, args...))
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return r, fault(db.dir, "read a request", err)
}

// OpenRequests returns the requests that nobody has decided and whose runs go on, the oldest first. It comes from the few
// runs that do: requests that ended with their runs look like open ones, and there may be thousands.
func (db *DB) OpenRequests(ctx context.Context) ([]reconcile.Request, error) {
	return db.requests(ctx, `WHERE q.run_id IN (SELECT id FROM runs WHERE settled = 0 AND outcome IS NULL)
		AND q.fate IS NULL AND q.decision IS NULL ORDER BY q.asked_at, q.issue_id, q.number`)
}

// LateAnswers returns what a person answered when the run that had asked could not take it any more, and no later run
// has been told, the oldest first. One that was taken up counts as well where the worker gave no sign of life after
// that: nobody knows whether the agent has heard it.
func (db *DB) LateAnswers(ctx context.Context, issueID string) ([]reconcile.Request, error) {
	return db.requests(ctx, `WHERE q.issue_id = ? AND q.kind = 'question' AND q.decision = 'answer' AND q.told_run = ''
		AND (`+requestFate+` = 'run_ended' OR q.fate = 'answered' AND r.outcome IN ('lost', 'interrupted') AND q.ended_at >= r.heartbeat_at)
		AND json_extract(q.answer, '$.sealed') IS NULL ORDER BY q.number`, issueID)
}

func (db *DB) requests(ctx context.Context, where string, args ...any) ([]reconcile.Request, error) {
	rows, err := db.sql.QueryContext(ctx, `SELECT `+requestColumns+requestSource+where, args...)
	list, err := collect(rows, err, scanRequest)
	return list, fault(db.dir, "read the requests", err)
}

// MarkTold remembers that a run has been told these late answers, so that no later one is.
func (db *DB) MarkTold(ctx context.Context, told []reconcile.Request, runID string) error {
	if len(told) == 0 {
		return nil
	}
	crash.At("state.mark_told.before")
	err := db.update(ctx, "remember what run "+runID+" was told", full, func(tx *sql.Tx) error {
		for _, r := range told {
			if _, err := tx.ExecContext(ctx, `UPDATE requests SET told_run = ? WHERE issue_id = ? AND number = ? AND told_run = ''`,
				runID, r.IssueID, r.Number); err != nil {
				return err
			}
		}
		return nil
	})
	crash.At("state.mark_told.after")
	return err
}

// ResolveRequest writes down what became of a request, for its worker, and returns it as it stands then. The first
// fate stays. One that was decided meanwhile does not expire: it comes back with its decision, and is to be resolved
// as answered.
func (db *DB) ResolveRequest(ctx context.Context, now time.Time, issueID string, number int, fate reconcile.RequestFate) (reconcile.Request, error) {
	var r reconcile.Request
	crash.At("state.resolve_request.before")
	err := db.update(ctx, "resolve a request", full, func(tx *sql.Tx) (err error) {
		_, err = tx.ExecContext(ctx, `UPDATE requests SET fate = ?1, ended_at = ? WHERE issue_id = ? AND number = ? AND fate IS NULL
			AND (?1 <> 'answered' OR decision IS NOT NULL) AND (?1 <> 'expired' OR decision IS NULL)`,
			string(fate), stamp(now), issueID, number)
		if err == nil {
			r, err = scanRequest(tx.QueryRowContext(ctx, `SELECT `+requestColumns+requestSource+`WHERE q.issue_id = ? AND q.number = ?`, issueID, number))
		}
		if errors.Is(err, sql.ErrNoRows) {
			return ErrNotFound
		}
		return err
	})
	crash.At("state.resolve_request.after")
	return r, err
}

// DecideRequest stores what a person decided, once, while the request is open, and returns it as it stands then. dead
// says that its worker is known to be dead, whatever the row of its run says.
//
// An answer to a question whose run has ended is kept for the next run: the request comes back with the fate run_ended.
// Everything else that comes too late is refused with the code request_ended.
func (db *DB) DecideRequest(ctx context.Context, now time.Time, at reconcile.Instant, r reconcile.Request, dead bool) (reconcile.Request, error) {
	answer, err := toJSON(r.Answer)
	if err != nil {
		return r, err
	}
	var is reconcile.Request
	crash.At("state.decide_request.before")
	err = db.update(ctx, "decide "+r.ID(), full, func(tx *sql.Tx) (err error) {
		is, err = scanRequest(tx.QueryRowContext(ctx, `SELECT `+requestColumns+requestSource+`WHERE q.issue_id = ? AND q.number = ?`, r.IssueID, r.Number))
		if errors.Is(err, sql.ErrNoRows) {
			return ErrNotFound
		}
		if err != nil {
			return err
		}
		if is.Open() && dead {
			is.Fate = reconcile.RequestRunEnded
		}
		fate, err := decidable(is, r, is.Left(now, at))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE requests SET decision = ?, answer = ?, decided_at = ?, fate = ?, ended_at = ?
			WHERE issue_id = ? AND number = ?`, string(r.Decision), answer, stamp(now), nullText(fate), endOf(fate, now), r.IssueID, r.Number)
		is.Decision, is.Answer, is.DecidedAt, is.Fate = r.Decision, r.Answer, now, fate
		return err
	})
	crash.At("state.decide_request.after")
	return is, err
}

func endOf(fate reconcile.RequestFate, now time.Time) any {
	if fate == "" {
		return nil
	}
	return stamp(now)
}

// decidable gives the fate with which a decision is stored, none where its worker takes it up.
func decidable(is, wanted reconcile.Request, left time.Duration) (reconcile.RequestFate, error) {
	if is.Open() && left <= 0 {
		is.Fate = reconcile.RequestExpired // its worker is about to write that
	}
	switch {
	case is.Open():
		return "", nil
	case is.Fate == reconcile.RequestRunEnded && is.Decision == "" && is.Kind == reconcile.QuestionRequest && !is.Secret() &&
		wanted.Decision == reconcile.DecideAnswer:
		return reconcile.RequestRunEnded, nil
	}
	return "", requestEnded(is)
}

func requestEnded(r reconcile.Request) error {
	what, hint := "", "symphony ps shows what is open"
	switch {
	case r.Decision != "":
		what = fmt.Sprintf("%s: decided by %s at %s", r.Fate, r.Decision, r.DecidedAt.UTC().Format(time.RFC3339))
	case r.Fate == reconcile.RequestExpired:
		what = "expired: nobody decided until " + r.ExpiresAt.UTC().Format(time.RFC3339)
		hint = "the agent was told no; agent.answer_timeout_ms says how long a request waits"
	case r.Fate == reconcile.RequestRunEnded:
		what = "run_ended: run " + r.RunID + " that asked is over"
		hint = "its agent no longer waits; the next run asks anew where it has to"
	default:
		what = string(r.Fate) + ": the agent no longer asks"
	}
	return &reconcile.Error{Code: "request_ended", Message: r.ID() + " has ended, " + what, Hint: hint}
}

// pruneRequests deletes the requests of runs that are deleted.
func pruneRequests(ctx context.Context, tx *sql.Tx, runIDs []string) error {
	for _, id := range runIDs {
		if _, err := tx.ExecContext(ctx, `DELETE FROM requests WHERE run_id = ?`, id); err != nil {
			return err
		}
	}
	return nil
}
