package state

import (
	"context"
	"slices"
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
	FailedHooks  []Failure // their Text is after_run's, their Outcome stands
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

// Failure is the runs of an issue that failed, or whose after_run did: how many, and the last of them.
type Failure struct {
	IssueID    string            `json:"issue_id"`
	Identifier string            `json:"issue_identifier"`
	Runs       int               `json:"failed_runs"`
	RunID      string            `json:"last_run_id"`
	Outcome    reconcile.Outcome `json:"last_outcome"`
	Code       string            `json:"-"`
	Text       string            `json:"-"`
	At         time.Time         `json:"last_at"`
}

// ModelDay is what was used of a model on one day (of UTC).
type ModelDay struct {
	Date string // YYYY-MM-DD
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
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Missed int       `json:"missed_passes"` // how many passes the schedule would have had in it
	Open   bool      `json:"still_missing"` // no pass has come since; To is the end of the report's period
}

// failedOutcomes are the outcomes that count as failures of a run.
const failedOutcomes = `('failed', 'timed_out', 'stalled', 'lost')`

// Report reads all of it from a single state of the database. Days count as a whole.
func (v Views) Report(ctx context.Context, now, since, until time.Time) (Report, error) {
	r := Report{Since: since, Until: until}
	err := v.view(ctx, "read what happened", func(t tx) (err error) {
		from, to := stamp(since), stamp(until)
		if r.Releases, err = rows(t, releaseFields, `SELECT `+releaseColumns+` FROM releases
			WHERE released_at >= ? AND released_at < ? ORDER BY released_at, id`, from, to); err != nil {
			return err
		}
		if r.Uses, err = rows(t, func(u *RunUse) []any {
			return append([]any{&u.IssueID, &u.Identifier, &u.Model, &u.Runs, &u.Succeeded, &u.Failed, millisOf(&u.Runtime)}, tokenFields(&u.Tokens)...)
		}, usesQuery, from, to); err != nil {
			return err
		}
		failure := func(f *Failure) []any {
			return []any{&f.IssueID, &f.Identifier, &f.Runs, &f.RunID, &f.Outcome, &f.Code, &f.Text, stampOf(&f.At)}
		}
		if r.Failures, err = rows(t, failure, failuresQuery, from, to); err != nil {
			return err
		}
		if r.FailedHooks, err = rows(t, failure, failedHooksQuery, from, to); err != nil {
			return err
		}
		if r.Outages, err = rows(t, func(o *Outage) []any {
			return []any{&o.Code, &o.Message, stampOf(&o.Since), stampOf(&o.Until)}
		}, outagesQuery, to, from); err != nil {
			return err
		}
		if r.Rhythm, err = readRhythm(t, since, until); err != nil {
			return err
		}
		if r.Days, err = rows(t, func(d *ModelDay) []any { return append([]any{&d.Date, &d.Model}, tokenFields(&d.Tokens)...) },
			`SELECT day, model, `+tokenColumns+` FROM model_totals WHERE day BETWEEN ? AND ? ORDER BY day, model`,
			since.UTC().Format(time.DateOnly), until.Add(-time.Nanosecond).UTC().Format(time.DateOnly)); err != nil {
			return err
		}
		// Pruning is not recorded, but it spares runs that are younger than keepFor and issues with few runs.
		r.RunsSince = since
		if kept := now.Add(-keepFor); kept.After(since) {
			many, err := row(t, itself[bool], `SELECT EXISTS (SELECT 1 FROM runs GROUP BY issue_id HAVING count(*) >= ?)`, keepRuns)
			if many {
				r.RunsSince = kept
			}
			return err
		}
		return nil
	})
	return r, err
}

const (
	usesQuery = `SELECT issue_id, max(identifier), model, count(*), sum(outcome = 'succeeded'), sum(outcome IN ` + failedOutcomes + `),
		sum(runtime_ms), sum(tokens_input), sum(tokens_cached), sum(tokens_output), sum(tokens_reasoning), sum(tokens_total)
		FROM runs WHERE kind = 'agent' AND ended_at >= ? AND ended_at < ? GROUP BY issue_id, model ORDER BY min(id)`

	// With max(id) SQLite takes the other columns from that same row.
	failuresQuery = `SELECT issue_id, identifier, count(*), max(id), outcome, error_code, error_text, ended_at
		FROM runs WHERE kind = 'agent' AND ended_at >= ? AND ended_at < ? AND outcome IN ` + failedOutcomes + `
		GROUP BY issue_id ORDER BY max(id)`
	failedHooksQuery = `SELECT issue_id, identifier, count(*), max(id), outcome, '', after_run_error, ended_at
		FROM runs WHERE kind = 'agent' AND ended_at >= ? AND ended_at < ? AND after_run_error <> ''
		GROUP BY issue_id ORDER BY max(id)`

	// The outages that overlap a period. One that was ended by an older program, which keeps no such record, counts as ended
	// where it began.
	outagesQuery = `SELECT code, message, since, over FROM (SELECT *, iif(until IS NULL
			AND NOT EXISTS (SELECT 1 FROM meta WHERE key = source), since, until) AS over FROM outages)
		WHERE since < ? AND (over IS NULL OR over >= ?) ORDER BY since, id`
)

const (
	// longGap is how many usual gaps a gap must last to be reported. Shorter ones come from a busy machine or a long pass.
	longGap = 3
	// shortestGap is the shortest gap that is reported: a loop may run a pass every second.
	shortestGap = 3 * time.Minute
)

// readRhythm finds the long gaps between scheduled passes, and up to the end of the period. It begins with the last pass
// before the period, so that a gap in which the period begins is seen.
func readRhythm(t tx, since, until time.Time) (r Rhythm, err error) {
	starts, err := rows(t, itself[int64], `SELECT started_at FROM passes
		WHERE "trigger" IN ('cron', 'timer', 'loop') AND started_at < ?1 AND started_at >= coalesce((SELECT max(started_at)
		FROM passes WHERE "trigger" IN ('cron', 'timer', 'loop') AND started_at < ?2), ?2) ORDER BY started_at`, stamp(until), stamp(since))
	if err != nil || len(starts) == 0 {
		return r, err
	}
	if r.Passes = len(starts); starts[0] < since.UnixMilli() {
		r.Passes--
	}
	if len(starts) == 1 {
		return r, nil // one pass does not tell when the next is due
	}
	gaps := make([]int64, len(starts)-1)
	for i := range gaps {
		gaps[i] = starts[i+1] - starts[i]
	}
	slices.Sort(gaps)
	r.Usual = time.Duration(gaps[len(gaps)/2]) * time.Millisecond
	due := max(r.Usual, time.Second) // the shortest interval of a loop
	for i, end := range append(starts[1:], until.UnixMilli()) {
		gap := time.Duration(end-starts[i]) * time.Millisecond
		if gap > max(longGap*r.Usual, shortestGap) {
			r.Gaps = append(r.Gaps, Gap{
				From: time.UnixMilli(starts[i]).UTC(), To: time.UnixMilli(end).UTC(), Missed: int((gap+due/2)/due) - 1, Open: i == len(starts)-1,
			})
		}
	}
	return r, nil
}
