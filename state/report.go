package state

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Report is what happened in a period. Releases, outages and days are never deleted. Old runs
// and passes are pruned, so Uses, Failures and Schedule may be incomplete: see RunsSince.
type Report struct {
	Since, Until time.Time
	Releases     []Release
	Handovers    Handovers
	Uses         []RunUse
	Failures     []FailedRow
	// runs whose after_run failed; Text is its error, Outcome that of the run
	FailedHooks []FailedRow
	Outages     []Outage
	Schedule    ScheduleRow
	Days        []ModelDay
	// as the tracker described them last, by the ids of their issues
	PullRequests map[string]PullRequest
	// RunsSince is the time since which no run has been pruned.
	RunsSince time.Time
}

// RunUse sums up the runs of one issue and model that ended in the period. Title, URL and
// Labels are those of the last of them.
type RunUse struct {
	IssueID, Identifier string
	Title, URL          string
	Labels              []string
	Runs                int
	Succeeded, Failed   int // the other runs were stopped
	Running             int // readers add runs that have not ended
	Runtime             time.Duration
	reconcile.ModelUse
}

// FailedRow is an issue with runs that failed, or whose after_run did, and the last of them.
type FailedRow struct {
	IssueID    string            `json:"issue_id"`
	Identifier string            `json:"issue_identifier"`
	Title      string            `json:"title"`
	Runs       int               `json:"failed_runs"`
	RunID      string            `json:"last_run_id"`
	Outcome    reconcile.Outcome `json:"last_outcome"`
	Code       string            `json:"-"`
	Text       string            `json:"-"`
	At         time.Time         `json:"last_at"`
	Error      *string           `json:"last_error"`
	Now        *string           `json:"now"` // handed_over, released, running, held or waiting
}

// ModelDay is what was used of a model on one day (UTC).
type ModelDay struct {
	Date string // YYYY-MM-DD
	reconcile.ModelUse
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
	// no pass has run since; To is the end of the period of the report
	Open bool `json:"still_missing"`
}

// failedOutcomes are the outcomes that count as failures of a run.
const failedOutcomes = `('failed', 'timed_out', 'stalled', 'lost')`

// Report returns what happened between two times, from one snapshot of the database. Days
// count as a whole.
func (v Views) Report(ctx context.Context, now, since, until time.Time) (Report, error) {
	r := Report{Since: since, Until: until}
	err := v.view(ctx, "read the report", func(t tx) error { return r.read(t, now) })
	return r, err
}

// read fills the report of the period from Since to Until.
func (r *Report) read(t tx, now time.Time) error {
	from := stamp(r.Since)
	to := stamp(r.Until)
	var err error
	r.Releases, err = rows(t, releaseFields, `SELECT `+releaseColumns+` FROM releases
		WHERE released_at >= ? AND released_at < ? ORDER BY released_at, id`, from, to)
	if err != nil {
		return fmt.Errorf("released issues: %w", err)
	}
	r.Uses, err = rows(t, runUseFields, usesQuery, from, to)
	if err != nil {
		return fmt.Errorf("runs by issue and model: %w", err)
	}
	r.Failures, err = readFailures(t, `error_code, error_text`, `outcome IN `+failedOutcomes, from, to)
	if err != nil {
		return fmt.Errorf("failed runs: %w", err)
	}
	r.FailedHooks, err = readFailures(t, `'', after_run_error`, `after_run_error <> ''`, from, to)
	if err != nil {
		return fmt.Errorf("failed hooks: %w", err)
	}
	r.Outages, err = rows(t, outageFields, outagesQuery, to, from)
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

func runUseFields(u *RunUse) []any {
	fields := []any{
		&u.IssueID, &u.Identifier, &u.Title, &u.URL, jsonOf(&u.Labels),
		&u.Model, &u.Runs, &u.Succeeded, &u.Failed, millisOf(&u.Runtime),
	}
	return append(fields, tokenFields(&u.Tokens)...)
}

func outageFields(o *Outage) []any {
	return []any{&o.Code, &o.Message, stampOf(&o.Since), stampOf(&o.Until)}
}

// recordedSince returns from when on all runs of a period are recorded. Pruning is not
// recorded, but it never deletes runs younger than keepFor, nor runs of issues with fewer than
// keepRuns.
func recordedSince(t tx, since, now time.Time) (time.Time, error) {
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

// undelivered is true for a run whose commits could not be pushed, and were not pushed later
// either.
const undelivered = `(coalesce(json_extract(nullif(delivery, ''), '$.code'), '') <> '' AND NOT EXISTS (SELECT 1 FROM runs AS later
	WHERE later.issue_id = runs.issue_id AND later.id > runs.id AND json_extract(nullif(later.delivery, ''), '$.done')))`

const (
	usesQuery = `WITH used AS (SELECT issue_id, model, count(*) AS runs, min(id) AS first, max(id) AS last,
		sum(outcome = 'succeeded' AND NOT ` + undelivered + `) AS well,
		sum(outcome IN ` + failedOutcomes + ` OR outcome = 'succeeded' AND ` + undelivered + `) AS failed, sum(runtime_ms) AS runtime,
		sum(tokens_input) AS input, sum(tokens_cached) AS cached, sum(tokens_output) AS output, sum(tokens_reasoning) AS reasoning,
		sum(tokens_total) AS total FROM runs WHERE kind = 'agent' AND ended_at >= ? AND ended_at < ? GROUP BY issue_id, model)
		SELECT used.issue_id, identifier, coalesce(issue ->> '$.title', ''), coalesce(issue ->> '$.url', ''),
		coalesce(issue ->> '$.labels', '[]'), used.model, runs, well, failed, runtime, input, cached, output, reasoning, total
		FROM used JOIN runs ON runs.id = last ORDER BY first`

	// The outages that overlap a period.
	outagesQuery = `SELECT code, message, since, until FROM outages
		WHERE since < ? AND (until IS NULL OR until >= ?) ORDER BY since, id`
)

// readFailures sums up the runs of a period that meet a condition, by issue, the last of them
// first. texts are the columns of their error.
func readFailures(t tx, texts, condition string, from, to any) ([]FailedRow, error) {
	return rows(
		t,
		func(f *FailedRow) []any {
			return []any{
				&f.IssueID,
				&f.Identifier,
				&f.Title,
				&f.Runs,
				&f.RunID,
				&f.Outcome,
				&f.Code,
				&f.Text,
				stampOf(&f.At),
			}
		}, // SQLite takes the columns beside max(id) from the row with that id.
		`SELECT issue_id, identifier, coalesce(issue ->> '$.title', ''), count(*), max(id), outcome, `+texts+`, ended_at
		FROM runs WHERE kind = 'agent' AND ended_at >= ? AND ended_at < ? AND `+condition+` GROUP BY issue_id ORDER BY max(id) DESC`,
		from,
		to,
	)
}

const (
	// A gap is reported if it is longer than longGap usual gaps: shorter ones come from a busy
	// machine or a long pass. It must also be longer than shortestGap, because a loop may run
	// a pass every second.
	longGap     = 3
	shortestGap = 3 * time.Minute
)

// readRhythm finds the median gap between passes of a schedule, and the gaps much longer than
// that, oldest first; the last one may reach to the end of the period. It starts with the last
// pass before the period, to find a gap in which the period begins.
func readRhythm(t tx, since, until time.Time) (r ScheduleRow, err error) {
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
		return r, nil // with one pass the interval is unknown
	}
	gaps := make([]int64, len(starts)-1)
	for i := range gaps {
		gaps[i] = starts[i+1] - starts[i]
	}
	slices.Sort(gaps)
	usual := time.Duration(gaps[len(gaps)/2]) * time.Millisecond
	r.Usual = new(usual.Seconds())
	due := max(usual, time.Second) // a second is the shortest interval of a loop
	for i, end := range append(starts[1:], until.UnixMilli()) {
		gap := time.Duration(end-starts[i]) * time.Millisecond
		if gap > max(longGap*usual, shortestGap) {
			r.Missed = append(r.Missed, Gap{
				From:   time.UnixMilli(starts[i]).UTC(),
				To:     time.UnixMilli(end).UTC(),
				Missed: int((gap+due/2)/due) - 1,
				Open:   i == len(starts)-1,
			})
		}
	}
	return r, nil
}

// Results are the handovers and the ends of runs since a time, and the tokens since the day of
// that time.
type Results struct {
	Handovers []Handover
	Outcomes  []DayOutcome
	Days      []ModelDay
}

// Handover is an issue that was released because its state was no longer active.
type Handover struct{ ClaimedAt, At time.Time }

// DayOutcome sums up the agent's runs that ended on one day (UTC) with one outcome.
type DayOutcome struct {
	Date    string // YYYY-MM-DD
	Outcome reconcile.Outcome
	Runs    int
	Runtime time.Duration
}

// Results returns what was achieved since a time, from one snapshot of the database.
func (v Views) Results(ctx context.Context, since time.Time) (Results, error) {
	var r Results
	err := v.view(ctx, "read the results", func(t tx) error {
		var err error
		r.Handovers, err = rows(t, handoverFields, `SELECT claimed_at, released_at FROM releases
			WHERE released_at >= ? AND `+handedOver, stamp(since))
		if err != nil {
			return fmt.Errorf("handovers: %w", err)
		}
		r.Outcomes, err = rows(
			t,
			dayOutcomeFields,
			`SELECT date(ended_at / 86400000 * 86400, 'unixepoch'), outcome,
			count(*), sum(runtime_ms) FROM runs
			WHERE kind = 'agent' AND ended_at >= ? GROUP BY ended_at / 86400000, outcome`,
			stamp(since),
		)
		if err != nil {
			return fmt.Errorf("outcomes by day: %w", err)
		}
		r.Days, err = readDays(t, since, time.Time{})
		if err != nil {
			return fmt.Errorf("tokens by day: %w", err)
		}
		return nil
	})
	return r, err
}

func handoverFields(h *Handover) []any {
	return []any{stampOf(&h.ClaimedAt), stampOf(&h.At)}
}

func dayOutcomeFields(o *DayOutcome) []any {
	return []any{&o.Date, &o.Outcome, &o.Runs, millisOf(&o.Runtime)}
}

// readDays returns what was used on the days from since to until, which is not part of it; to
// the last one if it is zero.
func readDays(t tx, since, until time.Time) ([]ModelDay, error) {
	last := "9999"
	if !until.IsZero() {
		last = until.Add(-time.Nanosecond).UTC().Format(time.DateOnly)
	}
	return rows(
		t,
		func(d *ModelDay) []any { return append([]any{&d.Date, &d.Model}, tokenFields(&d.Tokens)...) },
		`SELECT day, model, `+tokenColumns+` FROM model_totals WHERE day BETWEEN ? AND ? ORDER BY day, model`,
		since.UTC().Format(time.DateOnly),
		last,
	)
}

// Release is an issue that was released after at least one run, with a summary of the runs
// since it was claimed.
type Release struct {
	IssueID    string  `json:"issue_id"`
	Identifier string  `json:"issue_identifier"`
	Title      string  `json:"title"`
	URL        *string `json:"url"`
	Branch     *string `json:"branch_name"`
	Reason     string  `json:"reason"` // a reason to stop or to skip
	From       string  `json:"from_state"`
	// null if the tracker no longer returned the issue
	To        *string              `json:"to_state"`
	ClaimedAt time.Time            `json:"claimed_at"`
	At        time.Time            `json:"at"`
	Runs      int                  `json:"runs"`
	Runtime   time.Duration        `json:"-"`
	Models    []reconcile.ModelUse `json:"-"`
	Links     []reconcile.Link     `json:"links"`
	// how many objects the agents created in the tracker, by kind
	Created map[string]int `json:"created"`
	Labels  []string       `json:"labels"`
	// the result that the last agent has reported, or the first line of its last message
	Words   string `json:"last_words"`
	Commits int    `json:"commits"` // that its run has delivered
}

const releaseColumns = `issue_id, identifier, title, url, branch, reason, from_state, to_state, claimed_at, released_at,
	runs, runtime_ms, usage, links, created, labels, words, commits`

func releaseFields(r *Release) []any {
	return []any{
		&r.IssueID, &r.Identifier, &r.Title, nilOf(&r.URL), nilOf(&r.Branch), &r.Reason, &r.From, nilOf(&r.To), stampOf(&r.ClaimedAt),
		stampOf(
			&r.At,
		), &r.Runs, millisOf(&r.Runtime), jsonOf(&r.Models), jsonOf(&r.Links), jsonOf(&r.Created),
		jsonOf(&r.Labels), &r.Words, &r.Commits,
	}
}

// Releases returns the newest releases of an issue, at most limit of them.
func (v Views) Releases(ctx context.Context, issueID string, limit int) ([]Release, error) {
	return readAll(ctx, v.conn, "read the releases", releaseFields,
		`SELECT `+releaseColumns+` FROM releases WHERE issue_id = ? ORDER BY id DESC LIMIT ?`, issueID, limit)
}

// recordRelease records the release of a claim, unless the claim had no run.
func recordRelease(t tx, now time.Time, c reconcile.Claim, release reconcile.Release) error {
	r, err := releaseOf(t, now, c, release)
	if err != nil || r.Runs == 0 {
		return err
	}
	return t.run(
		`INSERT INTO releases (`+releaseColumns+`) VALUES (`+marks(releaseColumns)+`)`,
		releaseFields(&r)...)
}

// releaseOf sums up the runs of a claim.
func releaseOf(t tx, now time.Time, c reconcile.Claim, release reconcile.Release) (Release, error) {
	type part struct {
		reconcile.ModelUse
		runtime  time.Duration
		links    []reconcile.Link
		state    string
		words    string
		delivery reconcile.DeliveryResult
	}
	r := Release{
		IssueID:    c.IssueID,
		Identifier: c.Identifier,
		Title:      c.Issue.Title,
		URL:        c.Issue.URL,
		Branch:     c.Issue.BranchName,
		Reason:     release.Reason,
		From:       c.Issue.State,
		To:         &release.State,
		ClaimedAt:  c.ClaimedAt,
		At:         now,
		Links:      []reconcile.Link{},
		Created:    map[string]int{},
		Labels:     append([]string{}, c.Issue.Labels...),
	}
	runs, err := rows(t, func(p *part) []any {
		return append(
			[]any{&p.Model, millisOf(&p.runtime), jsonOf(&p.links), &p.state, &p.words, jsonOf(&p.delivery)},
			tokenFields(&p.Tokens)...)
	}, `SELECT model, runtime_ms, links, issue ->> '$.state', words, delivery,
		tokens_input, tokens_cached, tokens_output, tokens_reasoning, tokens_total
		FROM runs WHERE issue_id = ? AND kind = 'agent' AND started_at >= ? ORDER BY id`, c.IssueID, stamp(c.ClaimedAt))
	if err != nil || len(runs) == 0 {
		return r, err
	}
	last := runs[len(runs)-1]
	r.From = runs[0].state
	r.Runs = len(runs)
	r.Words = last.words
	r.Commits = last.delivery.Commits
	for _, run := range runs {
		r.Runtime += run.runtime
		r.Links = reconcile.MergeLinks(r.Links, run.links)
		if i := slices.IndexFunc(r.Models, func(use reconcile.ModelUse) bool { return use.Model == run.Model }); i >= 0 {
			r.Models[i].Tokens = r.Models[i].Tokens.Plus(run.Tokens)
		} else {
			r.Models = append(r.Models, run.ModelUse)
		}
	}
	kinds, err := rows(t, itself[string], `SELECT c.kind FROM runs JOIN created c ON c.run_id = runs.id
		WHERE runs.issue_id = ? AND runs.kind = 'agent' AND runs.started_at >= ?`, c.IssueID, stamp(c.ClaimedAt))
	for _, kind := range kinds {
		r.Created[kind]++
	}
	return r, err
}

// Outage is a period in which a fault of the machine, the agent or the tracker blocked all
// issues.
type Outage struct {
	Code, Message string
	Since         time.Time
	Until         time.Time // zero if it has not ended
}

// recordOutage ends an open outage of the same source with another code, and records that this
// one begins unless it is open already. source is the key of the block in meta. A block is
// deleted when it ends; the record of its outage stays.
func recordOutage(t tx, now time.Time, source string, b reconcile.Block) error {
	if err := t.run(`UPDATE outages SET until = max(?, since) WHERE source = ? AND until IS NULL AND code <> ?`,
		stamp(now), source, b.Code); err != nil ||
		b.Code == "" {
		return err
	}
	return t.run(`INSERT INTO outages (source, code, message, since) VALUES (?, ?, ?, ?)
		ON CONFLICT (source) WHERE until IS NULL DO UPDATE SET message = excluded.message`,
		source, b.Code, b.Message, stamp(now))
}

// Handovers counts the issues that were handed over in a period, each once, and what is known
// of their pull requests now.
type Handovers struct {
	Issues int `json:"issues"`
	// First are those that one run of an agent has handed over, the issue's first one, without
	// a failure of verify.
	First    int `json:"first_attempt"`
	Verified int `json:"verified"` // verify had passed at the handover
	// PullRequests are those that symphony watches with feedback.state, as it has read them
	// last.
	PullRequests int `json:"pull_requests"`
	Merged       int `json:"merged"`
	Closed       int `json:"closed"`             // without a merge
	Checked      int `json:"first_push_checked"` // the checks of the first commit have ended
	Green        int `json:"first_push_green"`   // and none of them has failed
	// how often pull requests have brought their issues back
	Rounds int `json:"rounds"`
}

// handedOver is true for the release of an issue that was handed over.
const handedOver = `reason IN ('` + reconcile.StopTerminal + `', '` + reconcile.StopInactive + `')`

// handoversQuery finds the handovers of a period: whether they succeeded at the first attempt,
// what their last run with a delivery has delivered, and the pull requests. A pruned run
// counts as a good one, so that no handover changes later.
const handoversQuery = `SELECT issue_id, runs = 1 AND NOT EXISTS (SELECT 1 FROM runs AS a
		WHERE a.issue_id = r.issue_id AND kind = 'agent' AND started_at < released_at AND (started_at < claimed_at OR outcome <> 'succeeded'
		OR nullif(delivery, '') ->> '$.handover.verification.round' > 0 OR nullif(delivery, '') ->> '$.handover.blocked' <> '')),
	(SELECT delivery FROM runs AS a WHERE a.issue_id = r.issue_id AND started_at BETWEEN claimed_at AND released_at AND delivery <> ''
		ORDER BY id DESC LIMIT 1), coalesce(watch, '')
	FROM releases AS r LEFT JOIN watches USING (issue_id) WHERE ` + handedOver + ` AND released_at >= ? AND released_at < ? ORDER BY r.id`

type handoverRow struct {
	issueID string
	first   bool
	last    reconcile.DeliveryResult
	watch   reconcile.Watch
}

// Handovers counts the handovers from since to until, which is not part of it.
func (v Views) Handovers(ctx context.Context, since, until time.Time) (h Handovers, err error) {
	err = v.view(ctx, "count the handovers", func(t tx) error {
		h, err = countHandovers(t, since, until)
		return err
	})
	return h, err
}

func countHandovers(t tx, since, until time.Time) (h Handovers, err error) {
	list, err := rows(t, func(r *handoverRow) []any {
		return []any{&r.issueID, &r.first, jsonOf(&r.last), jsonOf(&r.watch)}
	}, handoversQuery, stamp(since), stamp(until))
	latest := map[string]handoverRow{}
	for _, r := range list {
		r.first = r.first || latest[r.issueID].first
		latest[r.issueID] = r
	}
	h.Issues = len(latest)
	count := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	for _, r := range latest {
		checks := r.watch.FirstChecks()
		count(&h.First, r.first)
		count(&h.Verified, r.last.Verification().Passed())
		count(&h.PullRequests, r.watch.Pull.State != "")
		count(&h.Merged, r.watch.Pull.State == reconcile.PullMerged)
		count(&h.Closed, r.watch.Pull.State == reconcile.PullClosed)
		count(&h.Checked, checks != "")
		count(&h.Green, checks == reconcile.CheckSuccess)
		h.Rounds += len(r.watch.History)
	}
	return h, err
}
