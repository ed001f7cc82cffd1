package state

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Views is what commands read. Lists come the newest first unless they say otherwise.
type Views struct{ *conn }

// StateOf is State as far as a plan for one issue depends on it: its claim, the claims that have a slot, and what
// holds for every issue.
func (v Views) StateOf(ctx context.Context, issueID string) (rec reconcile.State, err error) {
	err = v.view(ctx, "read the state", func(t tx) error {
		rows, err := t.query(`SELECT `+claimColumns+` FROM claims WHERE issue_id = ? OR status = 'running' ORDER BY issue_id`, issueID)
		if rec.Claims, err = collect(rows, err, scanClaim); err != nil {
			return err
		}
		return readRecords(t, v.dir, &rec)
	})
	return rec, err
}

// Claims returns all claims, by issue id.
func (v Views) Claims(ctx context.Context) (claims []reconcile.Claim, err error) {
	err = v.view(ctx, "read the claims", func(t tx) error {
		claims, err = readClaims(t)
		return err
	})
	return claims, err
}

// ClaimByIssue returns the claim of an issue, by the issue's id; false where it is unclaimed.
func (v Views) ClaimByIssue(ctx context.Context, issueID string) (reconcile.Claim, bool, error) {
	c, err := scanClaim(v.row(ctx, `SELECT `+claimColumns+` FROM claims WHERE issue_id = ?`, issueID))
	return found(v.dir, "read the claim", c, err)
}

// CountDue returns how many other issues wait for a slot at that time.
func (v Views) CountDue(ctx context.Context, issueID string, at time.Time) (int, error) {
	n, err := scanOne[int](v.row(ctx, `SELECT count(*) FROM claims WHERE status = 'retry' AND due_at <= ? AND issue_id <> ?`, stamp(at), issueID))
	return n, fault(v.dir, "count what is due", err)
}

// StoredSkip is a candidate that the last pass with candidates left alone, and since when for that reason.
type StoredSkip struct {
	reconcile.Skip
	Since time.Time
}

const skipColumns = `issue_id, identifier, reason, message, since`

func scanSkip(row scanner) (s StoredSkip, err error) {
	err = row.Scan(&s.IssueID, &s.Identifier, &s.Reason, &s.Message, stampOf{&s.Since})
	return s, err
}

func readSkips(t tx) ([]StoredSkip, error) {
	rows, err := t.query(`SELECT ` + skipColumns + ` FROM skips ORDER BY identifier, issue_id`)
	return collect(rows, err, scanSkip)
}

// Skips returns the skips of the last pass that fetched candidates, by identifier.
func (v Views) Skips(ctx context.Context) (skips []StoredSkip, err error) {
	err = v.view(ctx, "read the skips", func(t tx) error {
		skips, err = readSkips(t)
		return err
	})
	return skips, err
}

// SkipOf returns why the last pass that fetched candidates left an issue alone; false where it did not.
func (v Views) SkipOf(ctx context.Context, issueID string) (StoredSkip, bool, error) {
	s, err := scanSkip(v.row(ctx, `SELECT `+skipColumns+` FROM skips WHERE issue_id = ?`, issueID))
	return found(v.dir, "read why the issue was skipped", s, err)
}

// FindIssue looks for an issue by its identifier, in either case, or by its id, among the claims, then the runs (the newest
// first), then the skips.
func (v Views) FindIssue(ctx context.Context, ref string) (id, identifier string, ok bool, err error) {
	err = v.row(ctx, `
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
	return id, identifier, err == nil, fault(v.dir, "look for the issue", err)
}

// Identifiers returns the identifiers of all known issues, in their order.
func (v Views) Identifiers(ctx context.Context) ([]string, error) {
	rows, err := v.query(ctx, `SELECT identifier FROM claims UNION SELECT identifier FROM skips
		UNION SELECT identifier FROM runs ORDER BY 1`)
	names, err := collect(rows, err, scanOne[string])
	return names, fault(v.dir, "list the issues", err)
}

// Run returns one run; an error that wraps ErrNotFound where there is none of that id.
func (v Views) Run(ctx context.Context, id string) (reconcile.Run, error) {
	r, err := scanRun(v.row(ctx, `SELECT `+runColumns+` FROM runs WHERE id = ?`, id))
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return reconcile.Run{}, fault(v.dir, "read run "+id, err)
	}
	return r, nil
}

// runs reads runs by the rest of a statement.
func (v Views) runs(ctx context.Context, where string, args ...any) ([]reconcile.Run, error) {
	rows, err := v.query(ctx, `SELECT `+runColumns+` FROM runs `+where, args...)
	runs, err := collect(rows, err, scanRun)
	return runs, fault(v.dir, "read the runs", err)
}

// RunsOfIssue returns the newest runs of an issue, of either kind, at most limit of them.
func (v Views) RunsOfIssue(ctx context.Context, issueID string, limit int) ([]reconcile.Run, error) {
	return v.runs(ctx, `WHERE issue_id = ? ORDER BY id DESC LIMIT ?`, issueID, limit)
}

// AgentRuns returns the agent's newest runs of an issue, at most limit of them.
func (v Views) AgentRuns(ctx context.Context, issueID string, limit int) ([]reconcile.Run, error) {
	return v.runs(ctx, `WHERE issue_id = ? AND kind = 'agent' ORDER BY id DESC LIMIT ?`, issueID, limit)
}

// RecentRuns returns the newest runs of all issues, at most limit of them.
func (v Views) RecentRuns(ctx context.Context, limit int) ([]reconcile.Run, error) {
	return v.runs(ctx, `ORDER BY id DESC LIMIT ?`, limit)
}

// RunsSince returns the agent's runs of an issue that were at work at that time or later, the oldest first; all of them for
// the zero time.
func (v Views) RunsSince(ctx context.Context, issueID string, since time.Time) ([]reconcile.Run, error) {
	var from int64
	if !since.IsZero() {
		from = since.UnixMilli()
	}
	return v.runs(ctx, `WHERE issue_id = ? AND kind = 'agent' AND (ended_at IS NULL OR ended_at >= ?) ORDER BY id`, issueID, from)
}

// RunsByPrefix returns the runs of an issue, of either kind, whose ids begin with prefix, at most limit of them.
func (v Views) RunsByPrefix(ctx context.Context, issueID, prefix string, limit int) ([]reconcile.Run, error) {
	return v.runs(ctx, `WHERE issue_id = ?1 AND id >= ?2 AND substr(id, 1, length(?2)) = ?2 ORDER BY id DESC LIMIT ?3`, issueID, prefix, limit)
}

// NextRun returns the agent's first run of an issue after the run of that id, false where there is none. After the empty id
// it is the oldest that is kept.
func (v Views) NextRun(ctx context.Context, issueID, after string) (reconcile.Run, bool, error) {
	return v.firstRun(ctx, `WHERE issue_id = ? AND id > ? AND kind = 'agent' ORDER BY id LIMIT 1`, issueID, after)
}

// LastRun returns the agent's newest run of an issue, false where there is none.
func (v Views) LastRun(ctx context.Context, issueID string) (reconcile.Run, bool, error) {
	return v.firstRun(ctx, `WHERE issue_id = ? AND kind = 'agent' ORDER BY id DESC LIMIT 1`, issueID)
}

func (v Views) firstRun(ctx context.Context, where string, args ...any) (reconcile.Run, bool, error) {
	runs, err := v.runs(ctx, where, args...)
	if err != nil || len(runs) == 0 {
		return reconcile.Run{}, false, err
	}
	return runs[0], true, nil
}

// CountRuns returns how many runs of an issue are kept, of either kind.
func (v Views) CountRuns(ctx context.Context, issueID string) (int, error) {
	n, err := scanOne[int](v.row(ctx, `SELECT count(*) FROM runs WHERE issue_id = ?`, issueID))
	return n, fault(v.dir, "count the runs of the issue", err)
}

// RunIDs returns the ids of all runs.
func (v Views) RunIDs(ctx context.Context) (map[string]bool, error) {
	rows, err := v.query(ctx, `SELECT id FROM runs`)
	list, err := collect(rows, err, scanOne[string])
	ids := make(map[string]bool, len(list))
	for _, id := range list {
		ids[id] = true
	}
	return ids, fault(v.dir, "list runs", err)
}

// EndedRuns returns the newest settled runs, at most limit of them: of all issues, or of those named by id. Of the issue,
// which is most of a row, it reads the address alone, and nothing that only live runs have.
func (v Views) EndedRuns(ctx context.Context, issueIDs []string, limit int) ([]reconcile.Run, error) {
	where, args := "", []any{}
	if len(issueIDs) > 0 {
		where = ` AND issue_id IN (?` + strings.Repeat(`, ?`, len(issueIDs)-1) + `)`
		for _, id := range issueIDs {
			args = append(args, id)
		}
	}
	rows, err := v.query(ctx, `SELECT id, kind, issue_id, identifier, issue ->> '$.url', outcome, error_code, error_text,
		after_run_error, turns, started_at, ended_at,
		tokens_input, tokens_cached, tokens_output, tokens_reasoning, tokens_total
		FROM runs WHERE settled = 1`+where+` ORDER BY id DESC LIMIT ?`, append(args, limit)...)
	runs, err := collect(rows, err, func(row scanner) (reconcile.Run, error) {
		r := reconcile.Run{Settled: true}
		err := row.Scan(append([]any{
			&r.ID, &r.Kind, &r.IssueID, &r.Identifier, &r.Issue.URL, &r.Outcome, &r.ErrorCode, &r.ErrorText, &r.AfterRunError, &r.Turns, stampOf{&r.StartedAt}, stampOf{&r.EndedAt},
		}, tokenColumns(&r.Tokens)...)...)
		return r, err
	})
	return runs, fault(v.dir, "read the last runs", err)
}

// Pass is the record of one reconciliation.
type Pass struct {
	ID int64
	// Trigger is what started it: cron, timer, loop, manual, command or worker.
	Trigger   string
	StartedAt time.Time
	Duration  time.Duration // stored to the millisecond
	Actions   int           // how many were done
	Skipped   int           // how many candidates got none
	Errors    []PassError
	// BootID and Mono, CLOCK_MONOTONIC at the start, tell the age of a pass where the wall clock can't.
	BootID string
	Mono   time.Duration
}

// PassError is an error that a pass reported.
type PassError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func scanPass(row scanner) (p Pass, err error) {
	var mono int64
	err = row.Scan(&p.ID, &p.Trigger, stampOf{&p.StartedAt}, millisOf{&p.Duration}, &p.Actions, &p.Skipped, jsonOf{&p.Errors},
		&p.BootID, &mono)
	p.Mono = time.Duration(mono)
	return p, err
}

// passes reads passes by the rest of a statement.
func (c *conn) passes(ctx context.Context, where string, args ...any) ([]Pass, error) {
	rows, err := c.query(ctx, `SELECT id, "trigger", started_at, duration_ms, actions, skipped, errors, boot_id, mono_ns FROM passes `+where, args...)
	passes, err := collect(rows, err, scanPass)
	return passes, fault(c.dir, "read the passes", err)
}

// LastPass returns the newest pass; false where there was none.
func (v Views) LastPass(ctx context.Context) (Pass, bool, error) {
	passes, err := v.passes(ctx, `ORDER BY id DESC LIMIT 1`)
	if err != nil || len(passes) == 0 {
		return Pass{}, false, err
	}
	return passes[0], true, nil
}

// scheduledKept is how many scheduled passes ScheduleGaps returns: five gaps lie between six.
const scheduledKept = 6

// ScheduleGaps returns the last six passes that a schedule started (cron, timer, loop): the gaps between them tell whether
// the schedule is alive.
func (v Views) ScheduleGaps(ctx context.Context) ([]Pass, error) {
	return v.passes(ctx, `WHERE "trigger" IN ('cron', 'timer', 'loop') ORDER BY id DESC LIMIT ?`, scheduledKept)
}
