package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// requestColumns are the columns of a request q and its run r. The fate run_ended is not
// stored but derived from the run, so that a crash can't record one without the other. A
// decided request counts as answered even before its worker read the decision, as long as the
// run did not end.
const requestColumns = `q.issue_id,
	q.identifier,
	q.number,
	q.run_id,
	q.thread_id,
	q.kind,
	q.summary,
	q.detail,
	q.outside,
	q.asked_at,
	q.expires_at,
	q.expires_mono,
	q.expires_boot,
	coalesce(q.decision, ''),
	q.answer,
	q.decided_at,
	` + requestFate + `,
	q.ended_at,
	q.told_run`

const (
	requestFate = `coalesce(q.fate, CASE WHEN r.id IS NULL OR r.outcome IS NOT NULL THEN 'run_ended'
		WHEN q.decision IS NOT NULL THEN 'answered' ELSE '' END)`
	requestSource = ` FROM requests q LEFT JOIN runs r ON r.id = q.run_id `
)

func requestFields(r *reconcile.Request) []any {
	return []any{
		&r.IssueID,
		&r.Identifier,
		&r.Number,
		&r.RunID,
		&r.ThreadID,
		&r.Kind,
		&r.Summary,
		jsonOf(&r.Detail),
		&r.Outside,
		stampOf(&r.AskedAt),
		stampOf(&r.ExpiresAt),
		&r.Deadline.Mono,
		&r.Deadline.Boot,
		&r.Decision,
		jsonOf(&r.Answer),
		stampOf(&r.DecidedAt),
		&r.Fate,
		stampOf(&r.EndedAt),
		&r.ToldRun,
	}
}

// AddRequest stores a request of a run's agent, and returns it with its number. It is on disk
// before an operator can see it. If the run ended the error is reconcile.ErrConflict.
func (j Journal) AddRequest(ctx context.Context, r reconcile.Request) (reconcile.Request, error) {
	err := j.update(ctx, "store a request of "+r.Identifier, full, func(t tx) error {
		var err error
		r.Number, err = row(t, itself[int],
			`INSERT INTO requests (issue_id, number, identifier, run_id, thread_id, kind, summary,
				detail, outside, asked_at, expires_at, expires_mono, expires_boot)
			SELECT ?1, 1 + coalesce((SELECT max(number) FROM requests WHERE issue_id = ?1), 0),
				?, id, ?, ?, ?, ?, ?, ?, ?, ?, ?
			FROM runs WHERE id = ? AND outcome IS NULL RETURNING number`,
			r.IssueID, r.Identifier, r.ThreadID, r.Kind, r.Summary,
			jsonOf(r.Detail), r.Outside, stamp(r.AskedAt), stamp(r.ExpiresAt), r.Deadline.Mono, r.Deadline.Boot,
			r.RunID)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("run %s: %w", r.RunID, reconcile.ErrConflict)
		}
		if err != nil {
			return err
		}
		return addAttention(t, r.AskedAt, r.Attention())
	})
	return r, err
}

// request returns the first request that matches, where being the end of the statement;
// ErrNotFound if there is none.
func request(t tx, where string, args ...any) (reconcile.Request, error) {
	r, err := row(t, requestFields, `SELECT `+requestColumns+requestSource+where, args...)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return r, err
}

const byNumber = `WHERE q.issue_id = ? AND q.number = ?`

// RequestByID returns a request by its number and the id of its issue. If there is none the
// error wraps ErrNotFound.
func (c *conn) RequestByID(ctx context.Context, issueID string, number int) (reconcile.Request, error) {
	r, err := request(c.reader(ctx), byNumber, issueID, number)
	return r, fault(c.dir, "read a request", err)
}

// FindRequest returns a request by its number and the identifier of its issue in any case. If
// there is none the error wraps ErrNotFound.
func (v Views) FindRequest(ctx context.Context, identifier string, number int) (reconcile.Request, error) {
	r, err := request(v.reader(ctx),
		`WHERE q.identifier = ? COLLATE NOCASE AND q.number = ? ORDER BY q.asked_at DESC LIMIT 1`, identifier, number)
	return r, fault(v.dir, "read a request", err)
}

// OpenRequests returns the undecided requests of live runs, oldest first. The query starts
// from the few live runs, because requests that ended with their runs look like open ones, and
// there may be thousands of them.
func (v Views) OpenRequests(ctx context.Context) ([]reconcile.Request, error) {
	return readAll(ctx, v.conn, "read the requests", requestFields, `SELECT `+requestColumns+requestSource+`
		WHERE q.run_id IN (SELECT id FROM runs WHERE settled = 0 AND outcome IS NULL)
		AND q.fate IS NULL AND q.decision IS NULL ORDER BY q.asked_at, q.issue_id, q.number`)
}

// RequestsOfIssue returns the newest requests of an issue, at most limit of them.
func (v Views) RequestsOfIssue(ctx context.Context, issueID string, limit int) ([]reconcile.Request, error) {
	return readAll(ctx, v.conn, "read the requests", requestFields, `SELECT `+requestColumns+requestSource+`
		WHERE q.issue_id = ? ORDER BY q.number DESC LIMIT ?`, issueID, limit)
}

// LateAnswers returns the answers that came too late for the run that asked and that no later
// run received, in the order of the questions. An answer that the worker read is late, too, if
// the worker died before its next heartbeat: perhaps the agent did not receive it.
func (j Journal) LateAnswers(ctx context.Context, issueID string) ([]reconcile.Request, error) {
	return readAll(ctx, j.conn, "read the requests", requestFields, `SELECT `+requestColumns+requestSource+`
		WHERE q.issue_id = ? AND q.kind = 'question' AND q.decision = 'answer' AND q.told_run = ''
		AND (`+requestFate+` = 'run_ended'
			OR q.fate = 'answered' AND r.outcome IN ('lost', 'interrupted') AND q.ended_at >= r.heartbeat_at)
		AND json_extract(q.answer, '$.sealed') IS NULL ORDER BY q.number`, issueID)
}

// MarkAnswersSeen records that a run received these late answers, so that no later run does.
func (j Journal) MarkAnswersSeen(ctx context.Context, answered []reconcile.Request, runID string) error {
	if len(answered) == 0 {
		return nil
	}
	return j.update(ctx, "record the answers that run "+runID+" received", full, func(t tx) error {
		for _, r := range answered {
			err := t.run(`UPDATE requests SET told_run = ? WHERE issue_id = ? AND number = ? AND told_run = ''`,
				runID, r.IssueID, r.Number)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// ResolveRequest records the fate of a request, and returns the request. An earlier fate
// stays. A request that an operator decided in the meantime does not expire: it is returned
// with the decision, to be resolved as answered.
func (j Journal) ResolveRequest(
	ctx context.Context, now time.Time, issueID string, number int, fate reconcile.RequestFate,
) (r reconcile.Request, err error) {
	err = j.update(ctx, "resolve a request", full, func(t tx) error {
		err := t.run(`UPDATE requests SET fate = ?1, ended_at = ? WHERE issue_id = ? AND number = ? AND fate IS NULL
			AND (?1 <> 'answered' OR decision IS NOT NULL) AND (?1 <> 'expired' OR decision IS NULL)`,
			fate, stamp(now), issueID, number)
		if err != nil {
			return err
		}
		r, err = request(t, byNumber, issueID, number)
		return err
	})
	return r, err
}

// DecideRequest stores an operator's decision if the request is open, and returns the request.
// dead means that the worker is known to be dead, whatever the row of its run contains.
//
// If the run ended, an answer to a question is stored for the next run, and the request is
// returned with the fate run_ended. Any other late decision is refused with the code
// request_ended.
func (o Operator) DecideRequest(
	ctx context.Context, now time.Time, at reconcile.Instant, r reconcile.Request, dead bool,
) (is reconcile.Request, err error) {
	err = o.update(ctx, "decide "+r.ID(), full, func(t tx) error {
		is, err = request(t, byNumber, r.IssueID, r.Number)
		if err != nil {
			return err
		}
		switch {
		case is.Open() && dead:
			is.Fate = reconcile.RequestRunEnded
		case is.Open() && is.Left(now, at) <= 0:
			is.Fate = reconcile.RequestExpired // its worker is about to record that
		}
		forNextRun := is.Fate == reconcile.RequestRunEnded && is.Decision == "" &&
			is.Kind == reconcile.QuestionRequest &&
			!is.Secret() &&
			r.Decision == reconcile.DecideAnswer
		if !is.Open() && !forNextRun {
			return RequestEnded(is)
		}
		is.Decision = r.Decision
		is.Answer = r.Answer
		is.DecidedAt = now
		if err := noGuidance(t, "reply", r.Answer.Reply, r.IssueID, r.RunID, now); err != nil {
			return err
		}
		return t.run(`UPDATE requests SET decision = ?1, answer = ?2, decided_at = ?3,
				fate = ?4, ended_at = iif(?4 IS NULL, NULL, ?3)
			WHERE issue_id = ?5 AND number = ?6`,
			r.Decision, jsonOf(r.Answer), stamp(now), orNull(&is.Fate), r.IssueID, r.Number)
	})
	return is, err
}

// RequestEnded is the error for a decision about a request that has ended. Its code is request_ended.
func RequestEnded(r reconcile.Request) error {
	what := ", and its agent no longer waits for it"
	if r.Decision != "" {
		what = fmt.Sprintf(": decided by %s at %s", r.Decision, r.DecidedAt.UTC().Format(time.RFC3339))
	}
	return reconcile.NewError("request_ended", fmt.Sprintf("%s has ended, %s%s", r.ID(), r.Fate, what), "").
		WithHint("%s shows the open requests", reconcile.CommandFor("ps", ""))
}

const commandColumns = `id, verb, issue_id, identifier, created_at, unverified`

func commandFields(c *reconcile.Command) []any {
	return []any{&c.ID, &c.Verb, &c.IssueID, &c.Identifier, stampOf(&c.CreatedAt), &c.UnverifiedBy}
}

// AddCommand stores an operator's command until a pass consumes it, and returns its id. The id
// of cmd is ignored.
func (o Operator) AddCommand(ctx context.Context, cmd reconcile.Command) (id int64, err error) {
	err = o.update(ctx, "add the command "+string(cmd.Verb), full, func(t tx) error {
		id, err = addCommand(t, cmd)
		return err
	})
	return id, err
}

func addCommand(t tx, cmd reconcile.Command) (id int64, err error) {
	return row(t, itself[int64],
		`INSERT INTO commands (verb, issue_id, identifier, created_at, unverified) VALUES (?, ?, ?, ?, ?)
		RETURNING id`, commandFields(&cmd)[1:]...)
}

// CommandDone reports whether a pass consumed the command with that id.
func (o Operator) CommandDone(ctx context.Context, id int64) (bool, error) {
	done, _, err := readOne(ctx, o.conn, "look for the command", itself[bool],
		`SELECT NOT EXISTS (SELECT 1 FROM commands WHERE id = ?)`, id)
	return done, err
}
