package state

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Report is what happened in a period. Releases, outages and days are kept for ever. Old runs and passes are pruned, so
// Uses, Failures and Rhythm may begin later: see RunsSince.
type Report struct {
	Since, Until time.Time
	Releases     []Release
	Uses         []RunUse
	Failures     []Failure
	FailedHooks  []FailedHook
	Outages      []Outage
	Rhythm       Rhythm
	Days         []ModelDay
	// RunsSince is the time from which on no run is missing.
	RunsSince time.Time
}

// RunUse is what the runs of one issue that ended in the period came to, by model.
type RunUse struct {
	IssueID, Identifier string
	Runs                int
	Succeeded, Failed   int // the other runs were ended from outside
	Runtime             time.Duration
	ModelUse
}

// Failure is the failed runs of an issue: how many, and the last of them.
type Failure struct {
	IssueID, Identifier string
	Runs                int
	RunID               string
	Outcome             reconcile.Outcome
	Code, Text          string
	At                  time.Time
}

// FailedHook is the runs of an issue whose after_run failed: how many, and the last of them.
type FailedHook struct {
	IssueID, Identifier string
	Runs                int
	RunID               string
	Text                string
	At                  time.Time
}

// ModelDay is what was used of a model on one day (of UTC).
type ModelDay struct {
	Date string // YYYY-MM-DD
	ModelUse
}

// Standing is a claim as a report shows it, with its live run; RunID is empty where that has ended.
type Standing struct {
	reconcile.Claim
	StartedAt time.Time
	ModelUse
}

// Rhythm is how regularly the scheduled passes came (triggers cron, timer and loop).
type Rhythm struct {
	Passes int
	// Usual is the median of the gaps between them, 0 where there are fewer than two passes.
	Usual time.Duration
	Gaps  []Gap // those much longer than usual, the oldest first
}

// Gap is a period without a scheduled pass.
type Gap struct {
	From, To time.Time
	Missed   int  // how many passes the schedule would have had in it
	Open     bool // no pass has come since; To is the end of the report's period
}

// Report reads all of it from a single state of the database. Days count as a whole.
func (v Views) Report(ctx context.Context, now, since, until time.Time) (Report, error) {
	r := Report{Since: since, Until: until}
	err := v.view(ctx, "read what happened", func(t tx) (err error) {
		if r.Releases, err = readReleases(t, since, until); err != nil {
			return err
		}
		if r.Uses, err = readUses(t, since, until); err != nil {
			return err
		}
		if r.Failures, err = readFailures(t, since, until); err != nil {
			return err
		}
		if r.FailedHooks, err = readFailedHooks(t, since, until); err != nil {
			return err
		}
		if r.Outages, err = readOutages(t, since, until); err != nil {
			return err
		}
		if r.Rhythm, err = readRhythm(t, since, until); err != nil {
			return err
		}
		if r.Days, err = readModelDays(t, since, until); err != nil {
			return err
		}
		r.RunsSince, err = readRunsSince(t, now, since)
		return err
	})
	return r, err
}

// failedOutcomes are the outcomes that count as failures of a run.
const failedOutcomes = `('failed', 'timed_out', 'stalled', 'lost')`

const usesQuery = `SELECT issue_id, max(identifier), model, count(*), sum(outcome = 'succeeded'),
	sum(outcome IN ` + failedOutcomes + `), sum(runtime_ms), sum(tokens_input), sum(tokens_cached), sum(tokens_output),
	sum(tokens_reasoning), sum(tokens_total)
	FROM runs WHERE kind = 'agent' AND ended_at >= ? AND ended_at < ? GROUP BY issue_id, model ORDER BY min(id)`

func readUses(t tx, since, until time.Time) ([]RunUse, error) {
	rows, err := t.query(usesQuery, stamp(since), stamp(until))
	return collect(rows, err, func(row scanner) (u RunUse, err error) {
		err = row.Scan(append([]any{
			&u.IssueID, &u.Identifier, &u.Model, &u.Runs, &u.Succeeded, &u.Failed, millisOf{&u.Runtime},
		}, tokenColumns(&u.Tokens)...)...)
		return u, err
	})
}

const failuresQuery = `SELECT issue_id, identifier, count(*), max(id), outcome, error_code, error_text, ended_at
	FROM runs WHERE kind = 'agent' AND ended_at >= ? AND ended_at < ? AND outcome IN ` + failedOutcomes + `
	GROUP BY issue_id ORDER BY max(id)`

func readFailures(t tx, since, until time.Time) ([]Failure, error) {
	// With max(id) SQLite takes the other columns from that same row.
	rows, err := t.query(failuresQuery, stamp(since), stamp(until))
	return collect(rows, err, func(row scanner) (f Failure, err error) {
		err = row.Scan(&f.IssueID, &f.Identifier, &f.Runs, &f.RunID, &f.Outcome, &f.Code, &f.Text, stampOf{&f.At})
		return f, err
	})
}

const failedHooksQuery = `SELECT issue_id, identifier, count(*), max(id), after_run_error, ended_at
	FROM runs WHERE kind = 'agent' AND ended_at >= ? AND ended_at < ? AND after_run_error <> ''
	GROUP BY issue_id ORDER BY max(id)`

func readFailedHooks(t tx, since, until time.Time) ([]FailedHook, error) {
	rows, err := t.query(failedHooksQuery, stamp(since), stamp(until))
	return collect(rows, err, func(row scanner) (f FailedHook, err error) {
		err = row.Scan(&f.IssueID, &f.Identifier, &f.Runs, &f.RunID, &f.Text, stampOf{&f.At})
		return f, err
	})
}

const modelDaysQuery = `SELECT day, model, input, cached, output, reasoning, total FROM model_totals
	WHERE day BETWEEN ? AND ? ORDER BY day, model`

func readModelDays(t tx, since, until time.Time) ([]ModelDay, error) {
	rows, err := t.query(modelDaysQuery, since.UTC().Format(dayLayout),
		until.Add(-time.Nanosecond).UTC().Format(dayLayout))
	return collect(rows, err, func(row scanner) (d ModelDay, err error) {
		err = row.Scan(append([]any{&d.Date, &d.Model}, tokenColumns(&d.Tokens)...)...)
		return d, err
	})
}

// readRunsSince tells from which time on no run is missing. Pruning is not recorded, but it spares runs that are younger
// than keepFor and issues with few runs.
func readRunsSince(t tx, now, since time.Time) (time.Time, error) {
	kept := now.Add(-keepFor)
	if !kept.After(since) {
		return since, nil
	}
	many, err := scanOne[bool](t.row(`SELECT EXISTS (SELECT 1 FROM runs GROUP BY issue_id HAVING count(*) >= ?)`, keepRuns))
	if err == nil && many {
		return kept, nil
	}
	return since, err
}

// Standings returns all claims. Of their issues, which are most of a claim's data, it reads the address alone.
func (v Views) Standings(ctx context.Context) ([]Standing, error) {
	rows, err := v.query(ctx, `SELECT c.issue_id, c.identifier, c.status, c.attempt, c.kind, c.due_at, c.error_code, c.error_message,
		c.hold_reason, c.hold_message, c.held_at, c.issue ->> '$.url', coalesce(r.id, ''), r.started_at, coalesce(r.model, ''), coalesce(r.tokens_input, 0),
		coalesce(r.tokens_cached, 0), coalesce(r.tokens_output, 0), coalesce(r.tokens_reasoning, 0), coalesce(r.tokens_total, 0)
		FROM claims c LEFT JOIN runs r ON r.id = c.run_id AND c.status = 'running' AND r.outcome IS NULL ORDER BY c.claimed_at, c.issue_id`)
	all, err := collect(rows, err, func(row scanner) (s Standing, err error) {
		err = row.Scan(append([]any{
			&s.IssueID, &s.Identifier, &s.Status, &s.Attempt, &s.Kind,
			stampOf{&s.DueAt},
			&s.ErrorCode, &s.ErrorMessage,
			&s.HoldReason, &s.HoldMessage,
			stampOf{&s.HeldAt},
			&s.Issue.URL, &s.RunID,
			stampOf{&s.StartedAt},
			&s.Model,
		}, tokenColumns(&s.Tokens)...)...)
		return s, err
	})
	return all, fault(v.dir, "read the claims", err)
}

const (
	// longGap is how many usual gaps a gap must last to be reported. Shorter ones come from a busy machine or a long pass.
	longGap = 3
	// shortestGap is the shortest gap that is reported: a loop may run a pass every second.
	shortestGap = 3 * time.Minute
)

const rhythmQuery = `SELECT coalesce(group_concat(started_at), '') FROM passes
	WHERE "trigger" IN ('cron', 'timer', 'loop') AND started_at < ?1 AND started_at >= coalesce((SELECT max(started_at)
	FROM passes WHERE "trigger" IN ('cron', 'timer', 'loop') AND started_at < ?2), ?2)`

// readRhythm reads from the last pass before the period on, so that a gap in which the period begins is seen. All times
// come in one text, because a month has tens of thousands of passes.
func readRhythm(t tx, since, until time.Time) (Rhythm, error) {
	list, err := scanOne[string](t.row(rhythmQuery, stamp(until), stamp(since)))
	if err != nil || list == "" {
		return Rhythm{}, err
	}
	var starts []int64
	for text := range strings.SplitSeq(list, ",") {
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return Rhythm{}, fmt.Errorf("%w: the time of a pass", errStored)
		}
		starts = append(starts, ms)
	}
	slices.Sort(starts)
	return rhythmOf(starts, since, until), nil
}

// rhythmOf finds the long gaps between passes that began at these milliseconds, and up to the end of the period.
func rhythmOf(starts []int64, since, until time.Time) Rhythm {
	r := Rhythm{}
	for _, ms := range starts {
		if ms >= since.UnixMilli() {
			r.Passes++
		}
	}
	if len(starts) < 2 {
		return r // one pass does not tell when the next is due
	}
	gaps := make([]int64, len(starts)-1)
	for i := range gaps {
		gaps[i] = starts[i+1] - starts[i]
	}
	slices.Sort(gaps)
	r.Usual = time.Duration(gaps[len(gaps)/2]) * time.Millisecond
	for i, from := range starts {
		to, open := until.UnixMilli(), true
		if i+1 < len(starts) {
			to, open = starts[i+1], false
		}
		gap := time.Duration(to-from) * time.Millisecond
		if gap > max(longGap*r.Usual, shortestGap) {
			r.Gaps = append(r.Gaps, Gap{
				From: time.UnixMilli(from).UTC(), To: time.UnixMilli(to).UTC(), Missed: missed(gap, r.Usual), Open: open,
			})
		}
	}
	return r
}

// missed is how many passes of the usual gap would fit between two.
func missed(gap, usual time.Duration) int {
	if usual < time.Second {
		usual = time.Second // the shortest interval of a loop
	}
	return int((gap+usual/2)/usual) - 1
}
