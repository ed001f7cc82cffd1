package state

import (
	"context"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Views is what commands read. Lists come the newest first unless they say otherwise.
type Views struct{ *conn }

// StateOf is State as far as a plan for one issue depends on it: its claim, the claims that have a slot, and what
// holds for every issue.
func (v Views) StateOf(ctx context.Context, issueID string) (all reconcile.State, err error) {
	err = v.view(ctx, "read the state", func(t tx) error {
		all.Claims, err = rows(t, claimFields, `SELECT `+claimColumns+` FROM claims WHERE issue_id = ? OR status = 'running' ORDER BY issue_id`, issueID)
		if err != nil {
			return err
		}
		return readRecords(t, v.dir, &all)
	})
	return all, err
}

// ClaimByIssue returns the claim of an issue, by the issue's id; false where it is unclaimed.
func (v Views) ClaimByIssue(ctx context.Context, issueID string) (reconcile.Claim, bool, error) {
	return readOne(ctx, v.conn, "read the claim", claimFields, `SELECT `+claimColumns+` FROM claims WHERE issue_id = ?`, issueID)
}

// StoredSkip is a candidate that the last pass with candidates left alone, and since when for that reason.
type StoredSkip struct {
	reconcile.Skip
	Since time.Time `json:"since"`
}

const skipColumns = `issue_id, identifier, reason, message, since`

func skipFields(s *StoredSkip) []any {
	return []any{&s.IssueID, &s.Identifier, &s.Reason, &s.Message, stampOf(&s.Since)}
}

// Skips returns the skips of the last pass that fetched candidates, by identifier.
func (v Views) Skips(ctx context.Context) ([]StoredSkip, error) {
	return readAll(ctx, v.conn, "read the skips", skipFields, `SELECT `+skipColumns+` FROM skips ORDER BY identifier, issue_id`)
}

// SkipOf returns why the last pass that fetched candidates left an issue alone; false where it did not.
func (v Views) SkipOf(ctx context.Context, issueID string) (StoredSkip, bool, error) {
	return readOne(ctx, v.conn, "read why the issue was skipped", skipFields, `SELECT `+skipColumns+` FROM skips WHERE issue_id = ?`, issueID)
}

// FindIssue looks for an issue by its identifier, in either case, or by its id, among the claims, then the runs (the newest
// first), then the skips. SQLite would read whole tables where one condition names two indexed columns.
func (v Views) FindIssue(ctx context.Context, ref string) (id, identifier string, ok bool, err error) {
	names, ok, err := readOne(ctx, v.conn, "look for the issue", func(n *[2]string) []any { return []any{&n[0], &n[1]} }, `
		SELECT issue_id, identifier FROM (
			SELECT issue_id, identifier, 1 AS place, '' AS run FROM claims WHERE identifier = ?1 COLLATE NOCASE
			UNION ALL SELECT issue_id, identifier, 1, '' FROM claims WHERE issue_id = ?1
			UNION ALL SELECT issue_id, identifier, 2, id FROM runs WHERE identifier = ?1 COLLATE NOCASE
			UNION ALL SELECT issue_id, identifier, 2, id FROM runs WHERE issue_id = ?1
			UNION ALL SELECT issue_id, identifier, 3, '' FROM skips WHERE identifier = ?1 COLLATE NOCASE OR issue_id = ?1)
		ORDER BY place, run DESC LIMIT 1`, ref)
	return names[0], names[1], ok, err
}

// Identifiers returns the identifiers of all known issues, in their order.
func (v Views) Identifiers(ctx context.Context) ([]string, error) {
	return readAll(ctx, v.conn, "list the issues", itself[string],
		`SELECT identifier FROM claims UNION SELECT identifier FROM skips UNION SELECT identifier FROM runs ORDER BY 1`)
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
	Errors    []reconcile.Error
	// BootID and Mono, CLOCK_MONOTONIC at the start, tell the age of a pass where the wall clock can't.
	BootID string
	Mono   time.Duration
}

const passColumns = `"trigger", started_at, duration_ms, actions, skipped, errors, boot_id, mono_ns`

func passFields(p *Pass) []any {
	return []any{
		&p.ID, &p.Trigger, stampOf(&p.StartedAt), millisOf(&p.Duration), &p.Actions, &p.Skipped, jsonOf(&p.Errors), &p.BootID,
		&p.Mono,
	}
}

// passes reads passes by the rest of a statement.
func (c *conn) passes(ctx context.Context, where string, args ...any) ([]Pass, error) {
	return readAll(ctx, c, "read the passes", passFields, `SELECT id, `+passColumns+` FROM passes `+where, args...)
}

// LastPass returns the newest pass; false where there was none.
func (v Views) LastPass(ctx context.Context) (Pass, bool, error) {
	return readOne(ctx, v.conn, "read the last pass", passFields, `SELECT id, `+passColumns+` FROM passes ORDER BY id DESC LIMIT 1`)
}

// scheduledKept is how many scheduled passes ScheduleGaps returns: five gaps lie between six.
const scheduledKept = 6

// ScheduleGaps returns the last six passes that a schedule started (cron, timer, loop): the gaps between them tell whether
// the schedule is alive.
func (v Views) ScheduleGaps(ctx context.Context) ([]Pass, error) {
	return v.passes(ctx, `WHERE "trigger" IN ('cron', 'timer', 'loop') ORDER BY id DESC LIMIT ?`, scheduledKept)
}
