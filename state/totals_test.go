package state

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/symphony-cron/symphony/reconcile"
)

// Whatever the order in which runs report, end, are settled (also twice) and the program is started anew, the
// totals are the sum of the settled runs, and every token that any thread used is counted once.
func TestTotalsAreTheSumOfSettledRuns(t *testing.T) {
	// Each step waits for the disk: fewer cases than usual, unless asked for more.
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		check(t, flag.Set("rapid.checks", "30"))
	}
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(root, "")
		if err != nil {
			t.Fatal(err)
		}
		m := &totalsModel{dir: filepath.Join(dir, "state"), threads: map[string]int64{}, now: epoch}
		m.reopen(t)
		defer func() { _ = m.db.Close() }()
		t.Repeat(map[string]func(*rapid.T){
			"start": m.start, "report": m.report, "finish": m.finish, "settle": m.settle, "reopen": m.reopen,
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
	must(t, m.db.Commit(context.Background(), m.now, reconcile.Change{Insert: &r}))
	taken, err := m.db.TakeRun(context.Background(), r.ID, worker, m.now)
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
	thread := fmt.Sprint("thread-", rapid.IntRange(0, 1).Draw(t, "thread"), "-", r.run.IssueID)
	used := int64(rapid.IntRange(0, 1000).Draw(t, "tokens"))
	r.used += used
	m.threads[thread] += used
	n := m.threads[thread]
	m.now = m.now.Add(time.Duration(rapid.IntRange(0, 10_000).Draw(t, "ms")) * time.Millisecond)
	must(t, m.db.SaveThread(context.Background(), r.run.ID, r.run.IssueID, thread, "ws",
		reconcile.Tokens{Input: n, Output: 2 * n, Total: 3 * n}, m.now))
	stored, err := m.db.Run(context.Background(), r.run.ID)
	must(t, err)
	r.run.Tokens = stored.Tokens
	if rapid.Bool().Draw(t, "update") {
		_, err := m.db.UpdateRun(context.Background(), m.now, r.run)
		must(t, err)
	}
}

func (m *totalsModel) finish(t *rapid.T) {
	r := m.pick(t, func(r *modelRun) bool { return !r.ended })
	r.run.Outcome = rapid.SampledFrom([]reconcile.Outcome{reconcile.Succeeded, reconcile.Failed}).Draw(t, "outcome")
	must(t, m.db.Finish(context.Background(), m.now, r.run))
	r.ended, r.ms = true, m.now.Sub(r.run.StartedAt).Milliseconds()
}

func (m *totalsModel) settle(t *rapid.T) {
	r := m.pick(t, func(r *modelRun) bool { return true })
	err := m.db.Commit(context.Background(), m.now, reconcile.Change{Settle: r.run.ID})
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
	db, err := Create(context.Background(), m.dir, epoch)
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
			Tokens:  reconcile.Tokens{Input: r.used, Output: 2 * r.used, Total: 3 * r.used},
			Runtime: time.Duration(r.ms) * time.Millisecond,
		}
		want = plus(want, own)
		perIssue[r.run.IssueID] = plus(perIssue[r.run.IssueID], own)
	}
	got, err := m.db.Totals(context.Background())
	must(t, err)
	if got != want {
		t.Fatalf("totals are %+v, want %+v", got, want)
	}
	for issue, want := range perIssue {
		got, err := m.db.IssueTotals(context.Background(), issue)
		must(t, err)
		if got != want {
			t.Fatalf("totals of %s are %+v, want %+v", issue, got, want)
		}
	}
}

func plus(a, b Totals) Totals {
	return Totals{Runtime: a.Runtime + b.Runtime, Tokens: reconcile.Tokens{
		Input:  a.Tokens.Input + b.Tokens.Input,
		Output: a.Tokens.Output + b.Tokens.Output, Total: a.Tokens.Total + b.Tokens.Total,
	}}
}

func must(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
