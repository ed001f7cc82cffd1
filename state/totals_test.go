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

	"github.com/symphony-cron/symphony/reconcile"
)

// Whatever the order in which runs report, end, are settled (also twice) and the program is started anew, the
// totals are the sum of the settled runs, and every token that any thread used is counted once: by run, issue, day and
// thread. What a dead worker had not heard of is made good by the next report of the thread.
func TestTotalsAreTheSumOfSettledRuns(t *testing.T) {
	// Each step waits for the disk: fewer cases than usual, unless asked for more.
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		check(t, flag.Set("rapid.checks", "12"))
	}
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(root, "")
		if err != nil {
			t.Fatal(err)
		}
		m := &totalsModel{
			dir: filepath.Join(dir, "state"), threads: map[string]int64{}, heard: map[string]int64{}, days: map[string]int64{}, now: epoch,
		}
		m.reopen(t)
		defer func() { _ = m.db.Close() }()
		t.Repeat(map[string]func(*rapid.T){
			"start": m.start, "report": m.report, "unheard": m.unheard, "repeated": m.repeated, "finish": m.finish, "settle": m.settle, "reopen": m.reopen,
			"": m.check,
		})
	})
}

type modelRun struct {
	run     reconcile.Run
	used    int64 // input tokens of this run alone
	ended   bool
	settled bool
	ms      int64
}

type totalsModel struct {
	dir     string
	db      *DB
	now     time.Time
	runs    []*modelRun
	threads map[string]int64 // codex's own cumulative count
	heard   map[string]int64 // what of it was reported
	days    map[string]int64 // when it was
}

// usage is the count of a thread that has used so much.
func usage(n int64) reconcile.Tokens {
	return reconcile.Tokens{Input: 5 * n, Cached: 3 * n, Output: 2 * n, Reasoning: n, Total: 7 * n}
}

// start begins a run of one of three issues, where none is live: the issue's threads are resumed by it.
func (m *totalsModel) start(t *rapid.T) {
	issue := fmt.Sprint("issue-", rapid.IntRange(0, 2).Draw(t, "issue"))
	for _, r := range m.runs {
		if r.run.IssueID == issue && !r.ended {
			t.Skip("it has a live run")
		}
	}
	r := newRun(len(m.runs))
	r.StartedAt, r.IssueID = m.now, issue
	must(t, m.db.Store.Commit(ctx, m.now, reconcile.Change{Insert: &r}))
	taken, err := m.db.Journal.TakeRun(ctx, r.ID, worker, m.now)
	must(t, err)
	m.runs = append(m.runs, &modelRun{run: taken})
}

func (m *totalsModel) pick(t *rapid.T, fits func(*modelRun) bool) *modelRun {
	var some []*modelRun
	for _, r := range m.runs {
		if fits(r) {
			some = append(some, r)
		}
	}
	if len(some) == 0 {
		t.Skip("no such run")
	}
	return rapid.SampledFrom(some).Draw(t, "run")
}

// report has one of the issue's two threads use some more tokens; then the run repeats its own count, or dies
// before it could.
func (m *totalsModel) report(t *rapid.T) {
	r := m.pick(t, func(r *modelRun) bool { return !r.ended })
	thread := m.use(t, r)
	n := m.threads[thread]
	m.now = m.now.Add(time.Duration(rapid.IntRange(0, 40_000_000).Draw(t, "ms")) * time.Millisecond)
	r.used += n - m.heard[thread]
	m.days[m.now.Format(time.DateOnly)] += n - m.heard[thread]
	m.heard[thread] = n
	must(t, m.db.Journal.SaveThread(ctx, r.run.ID, r.run.IssueID, thread, "ws", usage(n), m.now))
	stored, err := m.db.Views.Run(ctx, r.run.ID)
	must(t, err)
	r.run.Tokens = stored.Tokens
	if rapid.Bool().Draw(t, "update") {
		_, err := m.db.Journal.UpdateRun(ctx, m.now, r.run)
		must(t, err)
	}
}

// use has a thread of the run's issue use some more tokens.
func (m *totalsModel) use(t *rapid.T, r *modelRun) (thread string) {
	thread = fmt.Sprint("thread-", rapid.IntRange(0, 1).Draw(t, "thread"), "-", r.run.IssueID)
	m.threads[thread] += int64(rapid.IntRange(0, 1000).Draw(t, "tokens"))
	return thread
}

// unheard is use that the worker dies before it hears of.
func (m *totalsModel) unheard(t *rapid.T) {
	m.use(t, m.pick(t, func(r *modelRun) bool { return !r.ended }))
}

// repeated is a report that comes twice, or late: an older count of a thread that the run has reported.
func (m *totalsModel) repeated(t *rapid.T) {
	r := m.pick(t, func(r *modelRun) bool { return !r.ended })
	thread := fmt.Sprint("thread-0-", r.run.IssueID)
	older := rapid.Int64Range(0, m.heard[thread]).Draw(t, "older")
	must(t, m.db.Journal.SaveThread(ctx, r.run.ID, r.run.IssueID, thread, "ws", usage(older), m.now))
}

func (m *totalsModel) finish(t *rapid.T) {
	r := m.pick(t, func(r *modelRun) bool { return !r.ended })
	r.run.Outcome = rapid.SampledFrom([]reconcile.Outcome{reconcile.Succeeded, reconcile.Failed}).Draw(t, "outcome")
	must(t, m.db.Journal.Finish(ctx, m.now, r.run))
	r.ended, r.ms = true, m.now.Sub(r.run.StartedAt).Milliseconds()
}

func (m *totalsModel) settle(t *rapid.T) {
	r := m.pick(t, func(r *modelRun) bool { return true })
	err := m.db.Store.Commit(ctx, m.now, reconcile.Change{Settle: r.run.ID})
	if r.ended && !r.settled {
		must(t, err)
		r.settled = true
	} else if !errors.Is(err, reconcile.ErrConflict) {
		t.Fatalf("settled again or too early: %v", err)
	}
}

func (m *totalsModel) reopen(t *rapid.T) {
	if m.db != nil {
		must(t, m.db.Close())
	}
	db, err := Create(ctx, m.dir, epoch)
	must(t, err)
	m.db = db
}

func (m *totalsModel) check(t *rapid.T) {
	var want Totals
	perIssue := map[string]Totals{}
	for _, r := range m.runs {
		if !r.settled {
			continue
		}
		own := Totals{
			Tokens:  usage(r.used),
			Runtime: time.Duration(r.ms) * time.Millisecond,
		}
		want = plus(want, own)
		perIssue[r.run.IssueID] = plus(perIssue[r.run.IssueID], own)
	}
	got, err := m.db.Views.Totals(ctx)
	must(t, err)
	if got != want {
		t.Fatalf("totals are %+v, want %+v", got, want)
	}
	for issue, want := range perIssue {
		got, err := m.db.Views.IssueTotals(ctx, issue)
		must(t, err)
		if got != want {
			t.Fatalf("totals of %s are %+v, want %+v", issue, got, want)
		}
	}
	m.checkParts(t)
}

// checkParts compares runs, days and threads, and what an issue has used in all.
func (m *totalsModel) checkParts(t *rapid.T) {
	issues := map[string]int64{}
	for _, r := range m.runs {
		issues[r.run.IssueID] += usage(r.used).Total
		if got, err := m.db.Views.Run(ctx, r.run.ID); err != nil || got.Tokens != usage(r.used) {
			t.Fatalf("run %s has %+v, used %d, %v", r.run.ID, got.Tokens, r.used, err)
		}
	}
	for issue, want := range issues {
		if got, err := m.db.Journal.IssueTokens(ctx, issue); err != nil || got != want {
			t.Fatalf("%s has used %d, want %d, %v", issue, got, want, err)
		}
	}
	for thread, n := range m.heard {
		if got, _, err := m.db.Journal.Thread(ctx, thread); err != nil || got != usage(n) {
			t.Fatalf("%s has %+v, used %d, %v", thread, got, n, err)
		}
	}
	days, err := rows(m.db.reader(ctx), func(d *ModelDay) []any { return append([]any{&d.Date}, tokenFields(&d.Tokens)...) },
		`SELECT day, sum(input), sum(cached), sum(output), sum(reasoning), sum(total) FROM model_totals GROUP BY day`)
	must(t, err)
	left := maps.Clone(m.days)
	maps.DeleteFunc(left, func(_ string, n int64) bool { return n == 0 })
	for _, d := range days {
		if want := usage(left[d.Date]); d.Tokens != want {
			t.Fatalf("%s has %+v, want %+v", d.Date, d.Tokens, want)
		}
		delete(left, d.Date)
	}
	if len(left) > 0 {
		t.Fatalf("days are missing: %v", left)
	}
}

func plus(a, b Totals) Totals {
	return Totals{Runtime: a.Runtime + b.Runtime, Tokens: a.Tokens.Plus(b.Tokens)}
}

func must(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
