package state

import (
	"context"
	"database/sql"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Report is what happened in some time. Releases, outages and days are kept for ever; of runs and passes the oldest are
// deleted, so that Uses, Failures and Gaps may begin later: see RunsSince.
type Report struct {
	Since, Until time.Time
	Releases     []Release
	Uses         []RunUse
	Failures     []Failure
	Outages      []Outage
	Rhythm       Rhythm
	Days         []ModelDay
	// RunsSince is since when every run is there, as far back as the time goes.
	RunsSince time.Time
}

// RunUse is what the runs of one issue that ended in the time came to, by model.
type RunUse struct {
	IssueID, Identifier string
	Runs                int
	Succeeded, Failed   int // the others were ended from outside
	Runtime             time.Duration
	ModelUse
}

// Failure is that runs of an issue failed, and the last of them.
type Failure struct {
	IssueID, Identifier string
	Runs                int
	RunID               string
	Outcome             reconcile.Outcome
	Code, Text          string
	At                  time.Time
}

// ModelDay is what was used of a model on one day (of UTC).
type ModelDay struct {
	Date string // YYYY-MM-DD
	ModelUse
}

// Report reads all of it from a single state of the database. A day that has something of the time in it is there whole.
func (db *DB) Report(ctx context.Context, now, since, until time.Time) (Report, error) {
	r := Report{Since: since, Until: until}
	err := db.view(ctx, "read what happened", func(tx *sql.Tx) (err error) {
		if r.Releases, err = readReleases(ctx, tx, since, until); err != nil {
			return err
		}
		if r.Uses, err = readUses(ctx, tx, since, until); err != nil {
			return err
		}
		if r.Failures, err = readFailures(ctx, tx, since, until); err != nil {
			return err
		}
		if r.Outages, err = readOutages(ctx, tx, since, until); err != nil {
			return err
		}
		if r.Rhythm, err = readRhythm(ctx, tx, since, until); err != nil {
			return err
		}
		if r.Days, err = readModelDays(ctx, tx, since, until); err != nil {
			return err
		}
		r.RunsSince, err = readRunsSince(ctx, tx, now, since)
		return err
	})
	return r, err
}

// These outcomes are failures of a run.
const failedOutcomes = `('failed', 'timed_out', 'stalled', 'lost')`

const usesQuery = `SELECT issue_id, max(identifier), model, count(*), sum(outcome = 'succeeded'),
	sum(outcome IN ` + failedOutcomes + `), sum(runtime_ms), sum(tokens_input), sum(tokens_cached), sum(tokens_output),
	sum(tokens_reasoning), sum(tokens_total)
	FROM runs WHERE kind = 'agent' AND ended_at >= ? AND ended_at < ? GROUP BY issue_id, model ORDER BY min(id)`

func readUses(ctx context.Context, tx *sql.Tx, since, until time.Time) ([]RunUse, error) {
	rows, err := tx.QueryContext(ctx, usesQuery,
		stamp(since), stamp(until))
	return collect(rows, err, func(row scanner) (u RunUse, err error) {
		var ms int64
		t := &u.Tokens
		err = row.Scan(&u.IssueID, &u.Identifier, &u.Model, &u.Runs, &u.Succeeded, &u.Failed, &ms, &t.Input, &t.Cached, &t.Output,
			&t.Reasoning, &t.Total)
		u.Runtime = time.Duration(ms) * time.Millisecond
		return u, err
	})
}

const failuresQuery = `SELECT issue_id, identifier, count(*), max(id), outcome, error_code, error_text, ended_at
	FROM runs WHERE kind = 'agent' AND ended_at >= ? AND ended_at < ? AND outcome IN ` + failedOutcomes + `
	GROUP BY issue_id ORDER BY max(id)`

func readFailures(ctx context.Context, tx *sql.Tx, since, until time.Time) ([]Failure, error) {
	// Beside max SQLite gives the other columns of that same row.
	rows, err := tx.QueryContext(ctx, failuresQuery, stamp(since), stamp(until))
	return collect(rows, err, func(row scanner) (f Failure, err error) {
		err = row.Scan(&f.IssueID, &f.Identifier, &f.Runs, &f.RunID, &f.Outcome, &f.Code, &f.Text, stampOf{&f.At})
		return f, err
	})
}

const modelDaysQuery = `SELECT day, model, input, cached, output, reasoning, total FROM model_totals
	WHERE day BETWEEN ? AND ? ORDER BY day, model`

func readModelDays(ctx context.Context, tx *sql.Tx, since, until time.Time) ([]ModelDay, error) {
	rows, err := tx.QueryContext(ctx, modelDaysQuery, since.UTC().Format(dayLayout),
		until.Add(-time.Nanosecond).UTC().Format(dayLayout))
	return collect(rows, err, func(row scanner) (d ModelDay, err error) {
		t := &d.Tokens
		err = row.Scan(&d.Date, &d.Model, &t.Input, &t.Cached, &t.Output, &t.Reasoning, &t.Total)
		return d, err
	})
}

// countModel adds to the day what a run's model has used.
func countModel(ctx context.Context, tx *sql.Tx, runID string, now time.Time, more reconcile.Tokens) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO model_totals (day, model, input, cached, output, reasoning, total)
		SELECT ?, model, ?, ?, ?, ?, ? FROM runs WHERE id = ? ON CONFLICT (day, model) DO UPDATE SET input = input + excluded.input,
		cached = cached + excluded.cached, output = output + excluded.output,
		reasoning = reasoning + excluded.reasoning, total = total + excluded.total`,
		now.UTC().Format(dayLayout), more.Input, more.Cached, more.Output, more.Reasoning, more.Total, runID)
	return err
}

// readRunsSince tells since when no run is missing. That one was deleted nobody has written down; but none that is younger
// than keepFor ever is, nor one of an issue with few.
func readRunsSince(ctx context.Context, tx *sql.Tx, now, since time.Time) (time.Time, error) {
	kept := now.Add(-keepFor)
	if !kept.After(since) {
		return since, nil
	}
	var many bool
	err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM runs GROUP BY issue_id HAVING count(*) >= ?)`, keepRuns).Scan(&many)
	if err == nil && many {
		return kept, nil
	}
	return since, err
}

// Standing is a claim as a report shows it, and the run that is at work for it: RunID is empty where that has ended.
type Standing struct {
	reconcile.Claim
	StartedAt time.Time
	ModelUse
}

// Standings returns all claims without what a report does not show of them: the issues, which are most of it.
func (db *DB) Standings(ctx context.Context) ([]Standing, error) {
	rows, err := db.sql.QueryContext(ctx, `SELECT c.issue_id, c.identifier, c.status, c.attempt, c.kind, c.due_at, c.error_code, c.error_message,
		c.hold_reason, c.hold_message, c.held_at, coalesce(r.id, ''), r.started_at, coalesce(r.model, ''), coalesce(r.tokens_input, 0),
		coalesce(r.tokens_cached, 0), coalesce(r.tokens_output, 0), coalesce(r.tokens_reasoning, 0), coalesce(r.tokens_total, 0)
		FROM claims c LEFT JOIN runs r ON r.id = c.run_id AND c.status = 'running' AND r.outcome IS NULL ORDER BY c.claimed_at, c.issue_id`)
	all, err := collect(rows, err, func(row scanner) (s Standing, err error) {
		t := &s.Tokens
		err = row.Scan(&s.IssueID, &s.Identifier, &s.Status, &s.Attempt, &s.Kind, stampOf{&s.DueAt}, &s.ErrorCode, &s.ErrorMessage,
			&s.HoldReason, &s.HoldMessage, stampOf{&s.HeldAt}, &s.RunID, stampOf{&s.StartedAt}, &s.Model, &t.Input, &t.Cached, &t.Output,
			&t.Reasoning, &t.Total)
		return s, err
	})
	return all, fault(db.dir, "read the claims", err)
}
