package state

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Report describes the events of a period. Releases, outages and days are never deleted. Old
// runs and passes are pruned, so Runs and Schedule may be incomplete: see RunsSince.
type Report struct {
	Since, Until time.Time
	Releases     []Release
	Handovers    Handovers
	Runs         []EndedRun // of the agent that ended in the period, in the order of their starts
	Outages      []Outage
	Schedule     ScheduleRow
	Days         []ModelDay
	// as the tracker described them last, by the ids of their issues
	PullRequests map[string]PullRequest
	// RunsSince is the time since which no run was pruned.
	RunsSince time.Time
}

// ScheduleRow is how regularly the schedule's passes came.
type ScheduleRow struct {
	Passes int      `json:"passes"`
	Usual  *float64 `json:"usual_gap_seconds"`
	Missed []Gap    `json:"missed"`
}

// Gap is a period without a scheduled pass.
type Gap struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// how many passes the schedule should have started in it
	Missed int `json:"missed_passes"`
	// no pass ran since; To is the end of the period of the report
	Open bool `json:"still_missing"`
}

// Report returns the events between two times, from a single snapshot of the database. Days
// count as a whole.
func (v Views) Report(ctx context.Context, now, since, until time.Time) (Report, error) {
	r := Report{Since: since, Until: until}
	err := v.view(ctx, "read the report", func(t tx) error { return r.read(t, now) })
	return r, err
}

// read fills the report of the period from Since to Until.
func (r *Report) read(t tx, now time.Time) error {
	var err error
	r.Releases, err = readReleases(t, `WHERE released_at >= ? AND released_at < ? ORDER BY released_at, id`,
		stamp(r.Since), stamp(r.Until))
	if err != nil {
		return fmt.Errorf("released issues: %w", err)
	}
	r.Runs, err = readEnded(t, r.Since, r.Until)
	if err != nil {
		return fmt.Errorf("ended runs: %w", err)
	}
	r.Outages, err = readOutages(t, r.Since, r.Until)
	if err != nil {
		return fmt.Errorf("outages: %w", err)
	}
	r.Schedule, err = readRhythm(t, r.Since, r.Until)
	if err != nil {
		return fmt.Errorf("scheduled passes: %w", err)
	}
	r.PullRequests, err = readPullRequests(t)
	if err != nil {
		return fmt.Errorf("pull requests: %w", err)
	}
	r.Days, err = readDays(t, r.Since, r.Until)
	if err != nil {
		return fmt.Errorf("tokens by day: %w", err)
	}
	r.Handovers, err = countHandovers(t, r.Since, r.Until)
	if err != nil {
		return fmt.Errorf("handovers: %w", err)
	}
	r.RunsSince, err = recordedSince(t, r.Since, now)
	if err != nil {
		return fmt.Errorf("the oldest runs: %w", err)
	}
	return nil
}

// recordedSince returns from when on all runs of a period are recorded. ForgetIssue records the
// end of the runs that it deletes. What else is deleted with time is not recorded, but is older
// than keepFor, and of an issue with at least keepRuns runs.
func recordedSince(t tx, since, now time.Time) (time.Time, error) {
	forgotten, err := forgottenUntil(t)
	if err != nil {
		return since, err
	}
	if forgotten.After(since) {
		since = forgotten
	}
	kept := now.Add(-keepFor)
	if !kept.After(since) {
		return since, nil
	}
	pruned, err := row(t, itself[bool],
		`SELECT EXISTS (SELECT 1 FROM runs GROUP BY issue_id HAVING count(*) >= ?)`, keepRuns)
	if err != nil || !pruned {
		return since, err
	}
	return kept, nil
}

const (
	// A gap is reported if it is longer than longGap usual gaps: shorter ones come from a busy
	// machine or a long pass. It must also be longer than shortestGap, because a loop may run
	// a pass every second.
	longGap     = 3
	shortestGap = 3 * time.Minute
)

// readRhythm finds the median gap between passes of a schedule, and the gaps much longer than
// that, oldest first; the last gap may reach to the end of the period. It starts with the last
// pass before the period, to find a gap in which the period begins.
func readRhythm(t tx, since, until time.Time) (ScheduleRow, error) {
	starts, err := rows(t, itself[int64], `SELECT started_at FROM passes
		WHERE `+bySchedule+` AND started_at < ?1
		AND started_at >= coalesce((SELECT max(started_at) FROM passes
			WHERE `+bySchedule+` AND started_at < ?2), ?2)
		ORDER BY started_at`, stamp(until), stamp(since))
	if err != nil || len(starts) == 0 {
		return ScheduleRow{}, err
	}
	r := ScheduleRow{Passes: len(starts)}
	if starts[0] < since.UnixMilli() {
		r.Passes--
	}
	if len(starts) == 1 {
		return r, nil // after a single pass the interval is unknown
	}
	usual := medianGap(starts)
	r.Usual = new(usual.Seconds())
	due := max(usual, time.Second) // a second is the shortest interval of a loop
	for i, end := range append(starts[1:], until.UnixMilli()) {
		gap := time.Duration(end-starts[i]) * time.Millisecond
		if gap <= max(longGap*usual, shortestGap) {
			continue
		}
		r.Missed = append(r.Missed, Gap{
			From:   time.UnixMilli(starts[i]).UTC(),
			To:     time.UnixMilli(end).UTC(),
			Missed: int((gap+due/2)/due) - 1,
			Open:   i == len(starts)-1,
		})
	}
	return r, nil
}

// medianGap is the median time between at least two starts, in milliseconds since 1970.
func medianGap(starts []int64) time.Duration {
	gaps := make([]int64, len(starts)-1)
	for i := range gaps {
		gaps[i] = starts[i+1] - starts[i]
	}
	slices.Sort(gaps)
	return time.Duration(gaps[len(gaps)/2]) * time.Millisecond
}
