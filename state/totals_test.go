package state

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// TestTotalsAreTheSumOfSettledRuns lets runs report, end and be settled (even twice) and the database be reopened, in any
// order. The totals are always the sum of the settled runs, and each token that a thread used counts once: for its run, issue,
// day and thread. Tokens that a dead worker did not report are in the next report of the thread.
func TestTotalsAreTheSumOfSettledRuns(t *testing.T) {
	// Each step waits for the disk, so there are fewer cases than usual by default.
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		test.OK(t, flag.Set("rapid.checks", map[bool]string{false: "3", true: "12"}[test.All()]))
	}
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir := test.Must(os.MkdirTemp(root, ""))
		m := &totalsModel{
			dir: filepath.Join(dir, "state"), now: epoch,
			threads: map[string]int64{}, heard: map[string]int64{}, days: map[string]int64{},
		}
		m.reopen(t)
		defer func() { _ = m.db.Close() }()
		t.Repeat(map[string]func(*rapid.T){
			"start": m.start, "report": m.report, "finish": m.finish, "settle": m.settle, "reopen": m.reopen, "": m.check,
			"unheard": func(t *rapid.T) { m.use(t, m.live(t)) }, // the worker dies before codex reports it
			"repeated": func(t *rapid.T) { // a report that comes twice, or late
				r := m.live(t)
				thread := fmt.Sprint("thread-0-", r.run.IssueID)
				m.save(t, r, thread, rapid.Int64Range(0, m.heard[thread]).Draw(t, "older"))
			},
		})
	})
}

type modelRun struct {
	run            reconcile.Run
	used           int64 // input tokens of this run alone
	ended, settled bool
	runtime        time.Duration
}

type totalsModel struct {
	dir     string
	db      *DB
	now     time.Time
	runs    []*modelRun
	threads map[string]int64 // codex's cumulative count
	heard   map[string]int64 // the last report of it
	days    map[string]int64 // the reported tokens by day
}

// usage returns the count of a thread that has used n units.
func usage(n int64) reconcile.Tokens {
	return reconcile.Tokens{Input: 5 * n, Cached: 3 * n, Output: 2 * n, Reasoning: n, Total: 7 * n}
}

// start begins a run of one of three issues without a live run. It resumes the issue's threads.
func (m *totalsModel) start(t *rapid.T) {
	issue := fmt.Sprint("issue-", rapid.IntRange(0, 2).Draw(t, "issue"))
	for _, r := range m.runs {
		if r.run.IssueID == issue && !r.ended {
			t.Skip("it has a live run")
		}
	}
	r := newRun(len(m.runs))
	r.StartedAt, r.IssueID = m.now, issue
	test.OK(t, m.db.Store.Commit(ctx, m.now, reconcile.Change{Insert: &r}))
	taken := test.Must(m.db.Journal.TakeRun(ctx, r.ID, worker, m.now))
	m.runs = append(m.runs, &modelRun{run: taken})
}

// live picks a run that has not ended.
func (m *totalsModel) live(t *rapid.T) *modelRun {
	var some []*modelRun
	for _, r := range m.runs {
		if !r.ended {
			some = append(some, r)
		}
	}
	if len(some) == 0 {
		t.Skip("no such run")
	}
	return rapid.SampledFrom(some).Draw(t, "run")
}

// report lets a thread use some more tokens. Then the run writes its own count, too, or dies before it could.
func (m *totalsModel) report(t *rapid.T) {
	r := m.live(t)
	thread := m.use(t, r)
	more := m.threads[thread] - m.heard[thread]
	m.now = m.now.Add(time.Duration(rapid.IntRange(0, 40_000_000).Draw(t, "ms")) * time.Millisecond)
	r.used += more
	m.days[m.now.Format(time.DateOnly)] += more
	m.heard[thread] = m.threads[thread]
	m.save(t, r, thread, m.threads[thread])
	stored := test.Must(m.db.Views.Run(ctx, r.run.ID))
	r.run.Tokens = stored.Tokens
	if rapid.Bool().Draw(t, "update") {
		test.Must(m.db.Journal.UpdateRun(ctx, m.now, r.run))
	}
}

// use lets one of the two threads of the run's issue use some more tokens.
func (m *totalsModel) use(t *rapid.T, r *modelRun) (thread string) {
	thread = fmt.Sprint("thread-", rapid.IntRange(0, 1).Draw(t, "thread"), "-", r.run.IssueID)
	m.threads[thread] += int64(rapid.IntRange(0, 1000).Draw(t, "tokens"))
	return thread
}

func (m *totalsModel) save(t *rapid.T, r *modelRun, thread string, n int64) {
	test.OK(t, m.db.Journal.SaveThread(ctx, r.run.ID, r.run.IssueID, thread, "ws", usage(n), m.now))
}

func (m *totalsModel) finish(t *rapid.T) {
	r := m.live(t)
	r.run.Outcome = rapid.SampledFrom([]reconcile.Outcome{reconcile.Succeeded, reconcile.Failed}).Draw(t, "outcome")
	test.OK(t, m.db.Journal.Finish(ctx, m.now, r.run))
	r.ended, r.runtime = true, m.now.Sub(r.run.StartedAt).Truncate(time.Millisecond)
}

func (m *totalsModel) settle(t *rapid.T) {
	if len(m.runs) == 0 {
		t.Skip("no run")
	}
	r := rapid.SampledFrom(m.runs).Draw(t, "run")
	err := m.db.Store.Commit(ctx, m.now, reconcile.Change{Settle: r.run.ID})
	if r.ended && !r.settled {
		test.OK(t, err)
		r.settled = true
	} else if !errors.Is(err, reconcile.ErrConflict) {
		t.Fatalf("settled again or too early: %v", err)
	}
}

func (m *totalsModel) reopen(t *rapid.T) {
	if m.db != nil {
		test.OK(t, m.db.Close())
	}
	m.db = test.Must(Create(ctx, m.dir, epoch))
}

// check compares runs, issues, threads and days with the database.
func (m *totalsModel) check(t *rapid.T) {
	var all Totals
	settled, used := map[string]Totals{}, map[string]int64{}
	for _, r := range m.runs {
		issue, own := r.run.IssueID, usage(r.used)
		used[issue] += own.Total
		if r.settled {
			all = Totals{all.Tokens.Plus(own), all.Runtime + r.runtime}
			settled[issue] = Totals{settled[issue].Tokens.Plus(own), settled[issue].Runtime + r.runtime}
		}
		got, err := m.db.Views.Run(ctx, r.run.ID)
		same(t, "run "+r.run.ID, got.Tokens, own, err)
	}
	got, err := m.db.Views.Totals(ctx)
	same(t, "totals", got, all, err)
	for issue, n := range used {
		got, err := m.db.Views.IssueTotals(ctx, issue)
		same(t, "totals of "+issue, got, settled[issue], err)
		tokens, err := m.db.Journal.IssueTokens(ctx, issue)
		same(t, "tokens of "+issue, tokens, n, err)
	}
	for thread, n := range m.heard {
		got, _, err := m.db.Journal.Thread(ctx, thread)
		same(t, thread, got, usage(n), err)
	}
	days, err := rows(m.db.reader(ctx), func(d *ModelDay) []any { return append([]any{&d.Date}, tokenFields(&d.Tokens)...) },
		`SELECT day, sum(input), sum(cached), sum(output), sum(reasoning), sum(total) FROM model_totals GROUP BY day`)
	test.OK(t, err)
	left := maps.Clone(m.days)
	maps.DeleteFunc(left, func(_ string, n int64) bool { return n == 0 })
	for _, d := range days {
		same(t, d.Date, d.Tokens, usage(left[d.Date]), nil)
		delete(left, d.Date)
	}
	same(t, "days that are missing", len(left), 0, nil)
}

func same[T comparable](t *rapid.T, what string, got, want T, err error) {
	t.Helper()
	if got != want || err != nil {
		t.Fatalf("%s: %+v, want %+v, %v", what, got, want, err)
	}
}
