package state

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const runColumns = `id,
	kind,
	issue_id,
	identifier,
	attempt,
	phase,
	outcome,
	error_code,
	error_text,
	stop_reason,
	stop_mono,
	stop_boot,
	only_stopped,
	reap_tries,
	settled,
	issue,
	fingerprint,
	worker_boot,
	worker_pid,
	worker_start,
	host,
	workspace_path,
	workspace_root,
	workspace_id,
	thread_id,
	turn_id,
	turns,
	turns_done,
	progress,
	tokens_input,
	tokens_cached,
	tokens_output,
	tokens_reasoning,
	tokens_total,
	tokens_paid,
	rate_limits,
	last_event,
	last_message,
	last_event_at,
	handoff_at,
	handoff_state,
	beats,
	heartbeat_at,
	started_at,
	ended_at,
	model,
	links,
	after_run_error,
	delivery,
	activity,
	remote,
	heard_at,
	agent,
	agent_home`

func runFields(r *reconcile.Run) []any {
	return []any{
		&r.ID,
		&r.Kind,
		&r.IssueID,
		&r.Identifier,
		&r.Attempt,
		&r.Phase,
		orNull(&r.Outcome),
		&r.ErrorCode,
		&r.ErrorText,
		orNull(&r.StopReason),
		orNull(&r.StopAt.Mono),
		orNull(&r.StopAt.Boot),
		&r.OnlyStopped,
		&r.ReapTries,
		&r.Settled,
		jsonOf(&r.Issue),
		&r.Fingerprint,
		&r.Worker.Boot,
		&r.Worker.PID,
		bitsOf(&r.Worker.Start),
		&r.Host,
		&r.WorkspacePath,
		&r.WorkspaceRoot,
		&r.WorkspaceID,
		&r.ThreadID,
		&r.TurnID,
		&r.Turns,
		&r.TurnsDone,
		&r.Progress,
		&r.Tokens.Input,
		&r.Tokens.Cached,
		&r.Tokens.Output,
		&r.Tokens.Reasoning,
		&r.Tokens.Total,
		&r.Tokens.Paid,
		textOf(&r.RateLimits),
		&r.LastEvent,
		&r.LastMessage,
		stampOf(&r.LastEventAt),
		stampOf(&r.MovedAt),
		&r.MovedTo,
		&r.Beats,
		stampOf(&r.HeartbeatAt),
		stampOf(&r.StartedAt),
		stampOf(&r.EndedAt),
		&r.Model,
		jsonOf(&r.Links),
		&r.AfterRunError,
		jsonOf(&r.Delivery),
		&r.Activity,
		&r.Remote,
		stampOf(&r.HeardAt),
		&r.Agent.Kind,
		&r.Agent.Home,
	}
}

// TakeRun makes the process h the owner of a run that is still starting, and returns the run.
// If the run was taken, ended or was never recorded, the error is reconcile.ErrConflict and
// the worker must not touch anything.
func (j Journal) TakeRun(ctx context.Context, id string, h reconcile.Handle, now time.Time) (reconcile.Run, error) {
	return j.take(ctx, id, h, now, reconcile.PreparingWorkspace, `phase = 'starting' AND outcome IS NULL`)
}

// take makes the process h the owner of a run, and moves the run to a phase. If the condition
// does not hold, the error is reconcile.ErrConflict.
func (j Journal) take(
	ctx context.Context,
	id string,
	h reconcile.Handle,
	now time.Time,
	phase reconcile.Phase,
	condition string,
) (run reconcile.Run, err error) {
	err = j.update(ctx, "take run "+id, full, func(t tx) error {
		run, err = row(t, runFields, `UPDATE runs SET phase = ?, worker_boot = ?, worker_pid = ?,
			worker_start = ?, heartbeat_at = ?, activity = iif(phase = ?, activity, '')
			WHERE id = ? AND `+condition+` RETURNING `+runColumns,
			phase, h.Boot, h.PID, bitsOf(&h.Start), stamp(now), phase, id)
		if errors.Is(err, sql.ErrNoRows) {
			err = reconcile.ErrConflict
		}
		return err
	})
	return run, err
}

// The columns that only a worker writes, and only until its run ends with an outcome. Later
// decisions depend on the decisive columns; a heartbeat sets the others. Token counts never
// decrease: SaveThread may have raised them already.
const (
	decisiveColumns = `phase, workspace_path, workspace_root, workspace_id,
		thread_id, turn_id, turns, turns_done, progress, handoff_at, handoff_state, model, links, remote, delivery,
		agent, agent_home`
	decisiveValues = `:phase, :workspace_path, :workspace_root, :workspace_id,
		:thread_id, :turn_id, :turns, :turns_done, :progress, :handoff_at, :handoff_state, :model, :links,
		:remote, :delivery, :agent, :agent_home`
	setHeartbeat = `heartbeat_at = :now, beats = :beats, last_event = :last_event, last_message = :last_message,
		last_event_at = :last_event_at, heard_at = :heard_at, activity = :activity, rate_limits = :rate_limits,
		rate_limits_at = iif(rate_limits IS :rate_limits, rate_limits_at, :now),
		tokens_input = max(tokens_input, :input), tokens_cached = max(tokens_cached, :cached),
		tokens_output = max(tokens_output, :output), tokens_reasoning = max(tokens_reasoning, :reasoning),
		tokens_total = max(tokens_total, :total), tokens_paid = max(tokens_paid, :paid)`
	ofWorker = ` WHERE id = :id AND outcome IS NULL AND phase <> 'starting'`
)

// workerValues are the parameters of the statements that write these columns.
func workerValues(now time.Time, r reconcile.Run) []any {
	return []any{
		sql.Named("id", r.ID),
		sql.Named("now", stamp(now)),
		sql.Named("phase", r.Phase),
		sql.Named("agent", r.Agent.Kind),
		sql.Named("agent_home", r.Agent.Home),
		sql.Named("workspace_path", r.WorkspacePath),
		sql.Named("workspace_root", r.WorkspaceRoot),
		sql.Named("workspace_id", r.WorkspaceID),
		sql.Named("thread_id", r.ThreadID),
		sql.Named("turn_id", r.TurnID),
		sql.Named("turns", r.Turns),
		sql.Named("turns_done", r.TurnsDone),
		sql.Named("progress", r.Progress),
		sql.Named("handoff_at", stamp(r.MovedAt)),
		sql.Named("handoff_state", r.MovedTo),
		sql.Named("model", r.Model),
		sql.Named("links", jsonOf(&r.Links)),
		sql.Named("delivery", jsonOf(&r.Delivery)),
		sql.Named("remote", r.Remote),
		sql.Named("heard_at", stamp(r.HeardAt)),
		sql.Named("beats", r.Beats),
		sql.Named("last_event", r.LastEvent),
		sql.Named("last_message", r.LastMessage),
		sql.Named("activity", r.Activity),
		sql.Named("last_event_at", stamp(r.LastEventAt)),
		sql.Named("rate_limits", textOf(&r.RateLimits)),
		sql.Named("input", r.Tokens.Input),
		sql.Named("cached", r.Tokens.Cached),
		sql.Named("output", r.Tokens.Output),
		sql.Named("reasoning", r.Tokens.Reasoning),
		sql.Named("total", r.Tokens.Total),
		sql.Named("paid", r.Tokens.Paid),
	}
}

// UpdateRun writes the worker's knowledge of its run: phase, workspace, thread, turns,
// progress, tokens, rate limits, last event and heartbeat. It returns the orders for the
// worker; together with an error, of a full disk for example, if it could at least read them.
// If the run already ended with an outcome or was never taken, UpdateRun writes nothing and
// returns reconcile.ErrConflict: the worker lost the run and ends. A run does not begin on a
// host while another run of its issue may be at work on a host: the error is host_unverified.
//
// A heartbeat alone survives the death of any process, but perhaps not a power failure. Every
// other change is on disk when UpdateRun returns.
func (j Journal) UpdateRun(ctx context.Context, now time.Time, run reconcile.Run) (orders reconcile.Orders, err error) {
	doing := "update run " + run.ID
	write := func(statement string) func(tx) error {
		return func(t tx) error {
			orders, err = row(t, ordersFields, statement+` RETURNING `+ordersColumns, workerValues(now, run)...)
			if errors.Is(err, sql.ErrNoRows) {
				return reconcile.ErrConflict
			}
			return err
		}
	}
	// in a single place, because a crash point is named after it
	for _, try := range []struct {
		level     durability
		statement string
	}{
		// finds its row only if nothing decisive changed
		{normal, `UPDATE runs SET ` + setHeartbeat + ofWorker +
			` AND (` + decisiveColumns + `) IS (` + decisiveValues + `)`},
		{full, `UPDATE runs SET (` + decisiveColumns + `) = (` + decisiveValues + `), ` + setHeartbeat + ofWorker},
	} {
		err = j.update(ctx, doing, try.level, write(try.statement))
		if !errors.Is(err, reconcile.ErrConflict) {
			break
		}
	}
	if err == nil {
		return orders, nil
	}
	if isDuplicate(err) {
		message := "an earlier run of " + run.Identifier + " may still be at work on a host"
		err = reconcile.NewError("host_unverified", message, "the next pass tries again")
	}
	orders, _, _ = readOne(ctx, j.conn, doing, ordersFields,
		`SELECT `+ordersColumns+` FROM runs WHERE id = ?`, run.ID)
	return orders, err
}

// ordersColumns are the orders for the worker of a run, in the order of ordersFields.
const ordersColumns = `coalesce(stop_reason, ''),
	EXISTS (SELECT 1 FROM calls WHERE verb = 'tell' AND agent = runs.issue_id AND ended_at IS NULL)`

func ordersFields(o *reconcile.Orders) []any { return []any{&o.Stop, &o.Messages} }

// Finish records how a run ended: its last counters, its outcome and its errors. If the run
// already ended with an outcome or was never taken, Finish writes nothing and returns
// reconcile.ErrConflict.
func (j Journal) Finish(ctx context.Context, now time.Time, run reconcile.Run) error {
	values := append(
		workerValues(now, run),
		sql.Named("outcome", run.Outcome),
		sql.Named("error_code", run.ErrorCode),
		sql.Named("error_text", run.ErrorText),
		sql.Named("only_stopped", run.OnlyStopped),
		sql.Named("after_run_error", run.AfterRunError),
	)
	return j.update(ctx, "finish run "+run.ID, full, change("run "+run.ID,
		`UPDATE runs SET (`+decisiveColumns+`) = (`+decisiveValues+`), `+setHeartbeat+`,
			outcome = :outcome, error_code = :error_code, error_text = :error_text, only_stopped = :only_stopped,
			after_run_error = :after_run_error,
			ended_at = :now, runtime_ms = max(0, :now - started_at)`+ofWorker,
		values...))
}

// SaveCreated stores the objects that a run's agent created in the tracker. It does so even if
// the worker lost the run, because a later run must not mistake these objects for a person's.
func (j Journal) SaveCreated(
	ctx context.Context,
	runID, issueID string,
	created []reconcile.Created,
	now time.Time,
) error {
	if len(created) == 0 {
		return nil
	}
	return j.update(ctx, "store what the agent created in the tracker", full, func(t tx) error {
		for _, c := range created {
			if err := noGuidance(t, c.Kind, c.ID, issueID, runID, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// Created returns which of some tracker objects, given by their ids, were created by agents of
// this project or by symphony, or are replies that have decided a request.
func (j Journal) Created(ctx context.Context, ids []string) (map[string]bool, error) {
	ours, err := readAll(ctx, j.conn, "read what agents created", itself[string],
		`SELECT id FROM created WHERE id IN (SELECT value FROM json_each(?))`, jsonOf(append([]string{}, ids...)))
	return setOf(ours), err
}

// IssueTokens returns the tokens that an issue used since its counters were last cleared,
// including unsettled runs. agent.max_tokens limits this number.
func (j Journal) IssueTokens(ctx context.Context, issueID string) (int64, error) {
	used, _, err := readOne(ctx, j.conn, "read the tokens of the issue", itself[int64], `SELECT
		coalesce((SELECT total FROM issue_totals WHERE issue_id = ?1), 0)
		+ coalesce((SELECT sum(tokens_total) FROM runs WHERE issue_id = ?1 AND settled = 0), 0)
		- coalesce((SELECT token_base FROM claims WHERE issue_id = ?1), 0)`, issueID)
	return used, err
}

// SaveThread stores the token totals of an agent's thread. They never decrease and are cumulative
// over all runs of the thread. In the same transaction SaveThread raises the run's own tokens
// by the thread's use since the run's first report: a crash between two transactions would
// lose these tokens or count them twice. Call SaveThread before UpdateRun reports the same
// tokens.
//
// If the run already ended with an outcome the error is reconcile.ErrConflict. The tokens then
// count for the next run of the thread. RecordLastSeen stores where the agent keeps the thread.
func (j Journal) SaveThread(
	ctx context.Context,
	runID, issueID string,
	thread reconcile.Thread,
	used reconcile.Tokens,
	now time.Time,
) error {
	return j.update(ctx, "save the thread of run "+runID, normal, func(t tx) error {
		return saveThread(t, runID, issueID, thread, used, now)
	})
}

const threadTokens = `SELECT ` + tokenColumns + ` FROM threads WHERE thread_id = ?`

func saveThread(
	t tx,
	runID, issueID string,
	thread reconcile.Thread,
	used reconcile.Tokens,
	now time.Time,
) error {
	known, err := row(t, tokenFields, threadTokens, thread.ID)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	err = t.must("run "+runID, `INSERT INTO threads AS old
			(thread_id, issue_id, run_id, workspace_id, input, cached, output, reasoning, total, paid, updated_at)
		SELECT ?, ?, id, ?, ?, ?, ?, ?, ?, ?, ? FROM runs WHERE id = ? AND outcome IS NULL
		ON CONFLICT (thread_id) DO UPDATE SET
			base_input = iif(run_id = excluded.run_id, base_input, input),
			base_cached = iif(run_id = excluded.run_id, base_cached, cached),
			base_output = iif(run_id = excluded.run_id, base_output, output),
			base_reasoning = iif(run_id = excluded.run_id, base_reasoning, reasoning),
			base_total = iif(run_id = excluded.run_id, base_total, total),
			base_paid = iif(run_id = excluded.run_id, base_paid, paid),
			run_id = excluded.run_id, issue_id = excluded.issue_id, workspace_id = excluded.workspace_id,
			input = max(input, excluded.input), cached = max(cached, excluded.cached),
			output = max(output, excluded.output), reasoning = max(reasoning, excluded.reasoning),
			total = max(total, excluded.total), paid = max(paid, excluded.paid), updated_at = excluded.updated_at`,
		thread.ID, issueID, thread.WorkspaceID,
		used.Input, used.Cached, used.Output, used.Reasoning, used.Total, used.Paid, stamp(now), runID)
	if err != nil {
		return err
	}
	err = t.run(`UPDATE runs SET
			tokens_input = max(tokens_input, own.input), tokens_output = max(tokens_output, own.output),
			tokens_total = max(tokens_total, own.total), tokens_cached = max(tokens_cached, own.cached),
			tokens_reasoning = max(tokens_reasoning, own.reasoning), tokens_paid = max(tokens_paid, own.paid)
		FROM (SELECT sum(input - base_input) AS input, sum(cached - base_cached) AS cached,
			sum(output - base_output) AS output, sum(reasoning - base_reasoning) AS reasoning,
			sum(total - base_total) AS total, sum(paid - base_paid) AS paid FROM threads WHERE run_id = ?1) AS own
		WHERE id = ?1`, runID)
	if err != nil {
		return err
	}
	more := used.Since(known)
	if more == (reconcile.Tokens{}) {
		return nil
	}
	// The use of the run's model counts for the day (UTC) on which it is reported.
	return t.run(`INSERT INTO model_totals (day, model, input, cached, output, reasoning, total, paid)
		SELECT ?, model, ?, ?, ?, ?, ?, ? FROM runs WHERE id = ?
		ON CONFLICT (day, model) DO UPDATE SET
			input = input + excluded.input, cached = cached + excluded.cached, output = output + excluded.output,
			reasoning = reasoning + excluded.reasoning, total = total + excluded.total, paid = paid + excluded.paid`,
		reconcile.DayOf(now), more.Input, more.Cached, more.Output, more.Reasoning, more.Total, more.Paid, runID)
}

// Thread returns the token totals of a thread, false if it is unknown. A resumed thread counts
// on from them.
func (j Journal) Thread(ctx context.Context, threadID string) (reconcile.Tokens, bool, error) {
	return readOne(ctx, j.conn, "read the thread", tokenFields, threadTokens, threadID)
}

func threadFields(th *reconcile.Thread) []any {
	return []any{&th.ID, &th.WorkspaceID, &th.Home, &th.Ended}
}

// LastThread returns the issue's newest thread, and the newest thread that an agent can find in
// its home: it is stored there or its home is unknown. Usually they are the same. Either is
// empty if there is none. With an empty home every thread counts as stored there.
//
// Failed of the second counts its latest runs that ended without success, back to the last run
// that succeeded or was stopped (interrupted, canceled). Runs without a thread and runs that
// failed by a fault of the machine don't count.
func (j Journal) LastThread(ctx context.Context, issueID, home string) (newest, here reconcile.Thread, err error) {
	err = j.view(ctx, "read the last thread", func(t tx) error {
		threads, err := rows(t, threadFields, `SELECT r.thread_id, r.workspace_id, coalesce(t.codex_home, ''),
			coalesce(t.ended, 0) OR r.error_code = '`+reconcile.CodeContextFull+`' FROM runs AS r LEFT JOIN threads AS t USING (thread_id)
			WHERE r.issue_id = ? AND r.thread_id <> '' ORDER BY r.id DESC`, issueID)
		if err != nil || len(threads) == 0 {
			return err
		}
		newest = threads[0]
		here = text.First(threads, func(th reconcile.Thread) bool {
			return home == "" || th.Home == "" || th.Home == home
		})
		if here.ID == "" {
			return nil
		}
		here.Failed, err = countFailures(t, issueID, here.ID)
		return err
	})
	return newest, here, err
}

// countFailures counts the latest runs of a thread that ended without success, for
// Thread.Failed.
func countFailures(t tx, issueID, threadID string) (int, error) {
	codes, err := rows(t, itself[string], `SELECT error_code FROM runs
		WHERE issue_id = ?1 AND thread_id = ?2 AND outcome IS NOT NULL AND id > coalesce((
			SELECT max(id) FROM runs WHERE issue_id = ?1 AND thread_id <> '' AND outcome IS NOT NULL
			AND (thread_id <> ?2 OR outcome IN ('succeeded', 'ended', 'interrupted', 'canceled'))), '')`, issueID, threadID)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, code := range codes {
		// Among the faults of the machine, a new thread might help only against an agent that
		// refuses something: it might accept the new one.
		if !reconcile.MachineFault(code) || code == "codex_incompatible" || code == "agent_incompatible" {
			n++
		}
	}
	return n, nil
}

// EndThreads makes the next run of an issue start a new thread.
func (o Operator) EndThreads(ctx context.Context, issueID string) error {
	return o.update(ctx, "end the threads of the issue", full,
		statement(`UPDATE threads SET ended = 1 WHERE issue_id = ?`, issueID))
}

func lastSeenFields(s *reconcile.LastSeen) []any {
	return []any{stampOf(&s.CommentAt), &s.Description, &s.Prompt, &s.Base}
}

// LastSeen returns the agent's knowledge of its issue in a thread; false if that was never
// stored.
func (j Journal) LastSeen(ctx context.Context, threadID string) (reconcile.LastSeen, bool, error) {
	return readOne(ctx, j.conn, "read what the agent knows of its issue", lastSeenFields,
		`SELECT told_comment_at, told_description, told_prompt, told_base FROM threads
		WHERE thread_id = ? AND told_description <> ''`, threadID)
}

// RecordLastSeen stores the agent's knowledge of its issue in a thread of the run. A thread
// that is not stored yet used no tokens. If the run already ended with an outcome the error is
// reconcile.ErrConflict.
func (j Journal) RecordLastSeen(
	ctx context.Context,
	runID, issueID string,
	thread reconcile.Thread,
	seen reconcile.LastSeen,
	now time.Time,
) error {
	return j.update(ctx, "store what the agent of run "+runID+" knows of its issue", full, func(t tx) error {
		if err := saveThread(t, runID, issueID, thread, reconcile.Tokens{}, now); err != nil {
			return err
		}
		return t.run(`UPDATE threads SET told_description = ?, told_prompt = ?, told_base = ?,
			told_comment_at = max(coalesce(told_comment_at, 0), ?), codex_home = coalesce(nullif(?, ''), codex_home)
			WHERE thread_id = ?`,
			seen.Description, seen.Prompt, seen.Base, seen.CommentAt.UnixMilli(), thread.Home, thread.ID)
	})
}

// LastRunOf returns the newest ended run of an issue in a thread, preferring runs that had a
// turn in it; false if there is none, or if it was pruned.
func (j Journal) LastRunOf(ctx context.Context, issueID, threadID string) (reconcile.Run, bool, error) {
	return readOne(ctx, j.conn, "read the thread's last run", runFields, `SELECT `+runColumns+` FROM runs
		WHERE issue_id = ? AND thread_id = ? AND outcome IS NOT NULL
		ORDER BY turns > 0 DESC, id DESC LIMIT 1`, issueID, threadID)
}

const deliveredColumns = `url, branch, "commit", base, at, pull_request, workflow, origin, proof`

func deliveredFields(d *reconcile.Delivered) []any {
	return []any{
		&d.URL, &d.Branch, &d.Commit, &d.Base, stampOf(&d.At), &d.PullRequest, &d.Workflow, &d.Origin, &d.Proof,
	}
}

// Delivered returns the last push for an issue; false if there was none.
func (c *conn) Delivered(ctx context.Context, issueID string) (reconcile.Delivered, bool, error) {
	return readOne(ctx, c, "read what was delivered", deliveredFields,
		`SELECT `+deliveredColumns+` FROM deliveries WHERE issue_id = ?`, issueID)
}

// RecordDelivered stores a run's push for its issue. It does so even if the worker lost the
// run, because a later delivery must know the commits on the branch.
func (j Journal) RecordDelivered(ctx context.Context, issueID string, d reconcile.Delivered) error {
	return j.update(ctx, "record what was delivered", full, func(t tx) error {
		values := append([]any{issueID}, deliveredFields(&d)...)
		err := t.run(`INSERT INTO deliveries (issue_id, `+deliveredColumns+`)
			VALUES (?, `+marks(deliveredColumns)+`)
			ON CONFLICT (issue_id) DO UPDATE SET
				url = excluded.url, branch = excluded.branch, "commit" = excluded."commit",
				base = excluded.base, at = excluded.at, pull_request = excluded.pull_request,
				workflow = excluded.workflow, origin = excluded.origin, proof = excluded.proof`, values...)
		if err != nil || d.PullID == "" {
			return err
		}
		// The watch of the pull request stays if only its address changed.
		return t.run(`UPDATE watches SET pull_request = ? WHERE issue_id = ? AND watch ->> '$.pull.id' = ?`,
			d.PullRequest, issueID, d.PullID)
	})
}

// metaRemoteBlock begins the keys of the blocks of hosts. Their names follow.
const metaRemoteBlock = "blocked_on:"

// TakeRemote makes the process h the owner of a run whose worker is dead, to end the run on
// its host. The outcome of the run stays. If the run is settled, or its host confirmed its
// end, the error is reconcile.ErrConflict.
func (j Journal) TakeRemote(ctx context.Context, id string, h reconcile.Handle, now time.Time) (reconcile.Run, error) {
	return j.take(ctx, id, h, now, reconcile.EndingThere,
		`remote = 'begun' AND settled = 0 AND outcome IS NOT NULL`)
}

// SaveRemote stores the state of a run on its host, as the process that took it by TakeRemote
// knows it: whether it ended there, the time of the last link, the commit of its handover, and in
// Activity why it has not ended there yet.
func (j Journal) SaveRemote(ctx context.Context, r reconcile.Run, now time.Time) error {
	return j.update(ctx, "update run "+r.ID, full, change("run "+r.ID,
		`UPDATE runs SET remote = ?, heard_at = ?, delivery = ?, activity = ?, heartbeat_at = ?
		WHERE id = ? AND remote = ? AND phase = ?`,
		r.Remote, stamp(r.HeardAt), jsonOf(&r.Delivery), r.Activity, stamp(now),
		r.ID, reconcile.RemoteBegun, reconcile.EndingThere))
}

// SaveRemoteWorkspace stores the workspace of a run's issue on the run's host; nil if there is
// none.
func (j Journal) SaveRemoteWorkspace(ctx context.Context, run reconcile.Run, w *reconcile.Workspace) error {
	return j.update(ctx, "store the workspace on "+run.Host, full, func(t tx) error {
		if w == nil {
			return t.run(`DELETE FROM remote_workspaces WHERE issue_id = ? AND host = ? AND root = ?`,
				run.IssueID, run.Host, run.WorkspaceRoot)
		}
		return t.run(`INSERT OR REPLACE INTO remote_workspaces (issue_id, host, root, run_id, workspace)
			VALUES (?, ?, ?, ?, ?)`, run.IssueID, run.Host, run.WorkspaceRoot, run.ID, jsonOf(w))
	})
}
