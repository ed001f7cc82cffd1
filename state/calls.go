package state

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

const callColumns = `id,
	run_id,
	agent,
	conversation,
	verb,
	params,
	status,
	thread_id,
	result,
	error_code,
	error_text,
	created_at,
	started_at,
	ended_at,
	ended_no`

func callFields(c *reconcile.Call) []any {
	return []any{
		&c.ID,
		&c.RunID,
		&c.Agent,
		&c.Conversation,
		&c.Verb,
		textOf((*[]byte)(&c.Params)),
		&c.Status,
		&c.ThreadID,
		textOf((*[]byte)(&c.Result)),
		&c.ErrorCode,
		&c.ErrorText,
		stampOf(&c.CreatedAt),
		stampOf(&c.StartedAt),
		stampOf(&c.EndedAt),
		&c.EndedNo,
	}
}

// FreeAgents returns the newest run of each agent without an issue, newest first.
func (c Clients) FreeAgents(ctx context.Context) ([]reconcile.Run, error) {
	return Runs(c).list(ctx,
		`WHERE id IN (SELECT max(id) FROM runs WHERE kind = 'free' GROUP BY issue_id) ORDER BY id DESC`)
}

// FreeAgent returns the run of an agent without an issue; false if there is none.
func (c Clients) FreeAgent(ctx context.Context, agent string) (reconcile.Run, bool, error) {
	return Runs(c).first(ctx, `WHERE issue_id = ? AND kind = 'free' ORDER BY id DESC LIMIT 1`, agent)
}

// AddAgent stores the run of a new agent without an issue. exists is the run of an agent with
// the same id, whatever its state, even if only letters differ in case, because commands find
// both by either id; then nothing is stored.
func (c Clients) AddAgent(ctx context.Context, run reconcile.Run) (exists *reconcile.Run, err error) {
	err = c.update(ctx, "add agent "+run.Identifier, full, func(t tx) error {
		known, err := row(t, runFields, `SELECT `+runColumns+` FROM runs
			WHERE kind = 'free' AND issue_id = ? COLLATE NOCASE ORDER BY id DESC LIMIT 1`, run.IssueID)
		if errors.Is(err, sql.ErrNoRows) {
			return insertRun(t, run)
		}
		exists = &known
		return err
	})
	return exists, err
}

// AddCall stores a call, unless a call with its ID is stored already, and returns the stored
// call. If the run ended the error is reconcile.ErrConflict.
func (c Clients) AddCall(ctx context.Context, call reconcile.Call) (stored reconcile.Call, err error) {
	call.Status = reconcile.CallQueued
	if len(call.Params) == 0 {
		call.Params = []byte("{}")
	}
	err = c.update(ctx, "add a call of agent "+call.Agent, full, func(t tx) error {
		n, err := t.count(`INSERT INTO calls (`+callColumns+`) SELECT `+marks(callColumns)+`
			WHERE EXISTS (SELECT 1 FROM runs WHERE id = ? AND outcome IS NULL) ON CONFLICT (id) DO NOTHING`,
			append(callFields(&call), call.RunID)...)
		if err != nil {
			return err
		}
		stored, err = row(t, callFields, `SELECT `+callColumns+` FROM calls WHERE id = ?`, call.ID)
		if n == 0 && errors.Is(err, sql.ErrNoRows) {
			err = fmt.Errorf("agent %s: %w", call.Agent, reconcile.ErrConflict)
		}
		return err
	})
	return stored, err
}

// Call returns a call by its ID; false if there is none.
func (c Clients) Call(ctx context.Context, id string) (reconcile.Call, bool, error) {
	return readOne(ctx, c.conn, "read a call", callFields, `SELECT `+callColumns+` FROM calls WHERE id = ?`, id)
}

// Conversation returns the newest call that opened a conversation with this ID or on this
// thread; false if there is none.
func (c Clients) Conversation(ctx context.Context, id string) (reconcile.Call, bool, error) {
	return readOne(ctx, c.conn, "read a conversation", callFields, `SELECT `+callColumns+` FROM calls
		WHERE verb = 'conversation' AND (id = ?1 OR thread_id = ?1) ORDER BY created_at DESC, id DESC LIMIT 1`, id)
}

// CallsOf returns the calls of a run, oldest first.
func (c Clients) CallsOf(ctx context.Context, runID string) ([]reconcile.Call, error) {
	return readAll(ctx, c.conn, "read the calls", callFields,
		`SELECT `+callColumns+` FROM calls WHERE run_id = ? ORDER BY created_at, id`, runID)
}

// ConversationsOf returns the conversations of a run, oldest first, with the turns that are
// open or ended after the number since.
func (c Clients) ConversationsOf(ctx context.Context, runID string, since int64) ([]reconcile.Call, error) {
	return readAll(ctx, c.conn, "read the calls", callFields, `SELECT `+callColumns+` FROM calls
		WHERE run_id = ? AND (verb = 'conversation' OR verb = 'turn' AND (ended_no = 0 OR ended_no > ?))
		ORDER BY created_at, id`, runID, since)
}

// Version changes when another process changed the database.
func (c Clients) Version(ctx context.Context) (int64, error) {
	n, _, err := readOne(ctx, c.conn, "look for changes", itself[int64], `PRAGMA data_version`)
	return n, err
}

// endCall is the part of an UPDATE that numbers the ends of calls.
const endCall = `ended_at = ?,
	ended_no = 1 + (SELECT max(ended_no) FROM calls AS other WHERE other.run_id = calls.run_id)`

// QueuedCalls returns the calls of a run that wait, oldest first.
func (j Journal) QueuedCalls(ctx context.Context, runID string) ([]reconcile.Call, error) {
	return readAll(ctx, j.conn, "read the calls", callFields, `SELECT `+callColumns+` FROM calls
		WHERE run_id = ? AND status = 'queued' ORDER BY created_at, id`, runID)
}

// BeginCall marks a waiting call as running. If it no longer waits the error is
// reconcile.ErrConflict.
func (j Journal) BeginCall(ctx context.Context, id string, now time.Time) error {
	return j.update(ctx, "begin a call", full, change("call "+id,
		`UPDATE calls SET status = 'running', started_at = ? WHERE id = ? AND status = 'queued'`, stamp(now), id))
}

// EndCall stores how a call ended, once. The parameters of a turn, which may contain images,
// are not kept.
func (j Journal) EndCall(ctx context.Context, call reconcile.Call) error {
	return j.update(ctx, "end a call", full, change("call "+call.ID,
		`UPDATE calls SET status = ?, thread_id = ?, result = ?, error_code = ?, error_text = ?, `+endCall+`,
			params = iif(verb IN ('turn', 'steer'), '{}', params) WHERE id = ? AND status IN ('queued', 'running')`,
		call.Status, call.ThreadID, textOf((*[]byte)(&call.Result)), call.ErrorCode, call.ErrorText,
		stamp(call.EndedAt), call.ID))
}

// EndCalls ends the calls of an ended run that are still open: no worker will carry them out.
func (c Clients) EndCalls(ctx context.Context, run reconcile.Run, now time.Time) error {
	why := "agent " + run.Identifier + " has ended: " + cmp.Or(run.ErrorText, string(run.Outcome))
	return c.update(ctx, "end the calls of agent "+run.Identifier, full, statement(
		`UPDATE calls SET status = 'failed', error_code = 'agent_ended', error_text = ?, `+endCall+`,
			params = iif(verb IN ('turn', 'steer'), '{}', params) WHERE run_id = ? AND status IN ('queued', 'running')`,
		why, stamp(now), run.ID))
}

// SettleAgent marks the ended run of an agent as settled.
func (c Clients) SettleAgent(ctx context.Context, run reconcile.Run) error {
	return c.update(ctx, "settle agent "+run.Identifier, full, func(t tx) error { return settle(t, run.ID) })
}
