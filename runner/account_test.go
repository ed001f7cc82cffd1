package runner

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// IssueTokens implements Journal.
func (m *memory) UsedOn(context.Context, time.Time) ([]reconcile.ModelUse, error) { return nil, nil }

func (m *memory) IssueTokens(context.Context, string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	used := m.before
	for _, t := range m.threads {
		used += t.Total
	}
	return used, nil
}

// accountLog is an Account that records its calls, and marks those that come after the outcome
// was stored.
type accountLog struct {
	mu      sync.Mutex
	journal *memory
	calls   []string
	err     error // of each call
}

func (a *accountLog) record(call string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.journal.mu.Lock()
	defer a.journal.mu.Unlock()
	if len(a.journal.finished) > 0 {
		call = "too late: " + call
	}
	a.calls = append(a.calls, call)
	return a.err
}

func (a *accountLog) SaveLimits(_ context.Context, _ time.Time, changed []byte) error {
	return a.record(string(changed))
}

func (a *accountLog) Failed(_ context.Context, _ time.Time, code, message string) error {
	return a.record("failed " + code + ": " + message)
}

func (a *accountLog) Worked(context.Context, time.Time, time.Time) error { return a.record("worked") }

// Only limits that have changed are shared.
func TestLimitsAreShared(t *testing.T) {
	a := &accountLog{journal: newMemory()}
	w, _ := bare(a.journal)
	w.Account = a
	reporter := w.newJob(reconcile.Run{}, nil).newListener()
	for _, step := range []struct {
		record, stored string
		err            error
	}{
		{
			`{"limitId":"codex","primary":{"usedPercent":1},"secondary":{"usedPercent":9}}`,
			`{"limitId":"codex","primary":{"usedPercent":1},"secondary":{"usedPercent":9}}`,
			nil,
		},
		{`{"limitId":"codex","primary":{"usedPercent":1},"secondary":{"usedPercent":9}}`, "", nil},
		{
			`{"limitId":"codex","primary":{"usedPercent":2},"secondary":{"usedPercent":9}}`,
			`{"limitId":"codex","primary":{"usedPercent":2},"secondary":{"usedPercent":9}}`,
			errors.New("no space"),
		},
		{
			`{"limitId":"codex","primary":{"usedPercent":5},"secondary":{"usedPercent":10}}`,
			`{"limitId":"codex","primary":{"usedPercent":5},"secondary":{"usedPercent":10}}`,
			nil,
		},
	} {
		a.calls = nil
		a.err = step.err
		reporter.shareLimits(t.Context(), []byte(step.record))
		test.Equal(t, "stored", strings.Join(a.calls, "; "), step.stored)
	}
}

// Faults and limits are shared before the outcome is stored, so that no pass starts another
// run into the same fault.
func TestAccountFaultIsShared(t *testing.T) {
	full := `ratelimits {"limitId":"codex","primary":{"usedPercent":100,"resetsAt":4000000000}}`
	r := newRig(t, "tokens 1 1\nsleep 300ms\n"+full+"\nfail usageLimitExceeded later")
	a := &accountLog{journal: r.journal}
	r.Account = a
	r.ends(reconcile.Failed, "agent_quota")
	calls := strings.Join(a.calls, "\n")
	if !strings.Contains(calls, `"usedPercent":100`) ||
		!strings.HasSuffix(calls, "\nfailed agent_quota: later") ||
		strings.Contains(calls, "too late") {
		t.Errorf("calls\n%s", calls)
	}
}

// usageSession is a session that has used tokens on a thread, T by default.
type usageSession struct {
	agent.Session
	thread string
	used   func() int64
}

func (s *usageSession) UsageByThread() map[string]agent.Usage {
	n := s.used()
	return map[string]agent.Usage{cmp.Or(s.thread, "T"): {Input: n, Total: n}}
}

// slowJournal stores threads only once it is released.
type slowJournal struct {
	*memory
	entered, release chan struct{}
}

func (j slowJournal) SaveThread(
	ctx context.Context,
	run, issue string,
	thread reconcile.Thread,
	t reconcile.Tokens,
	now time.Time,
) error {
	j.entered <- struct{}{}
	<-j.release
	return j.memory.SaveThread(ctx, run, issue, thread, t, now)
}

// Of two goroutines that count tokens at once, the later one stores the newer total.
func TestUsageInOrder(t *testing.T) {
	j := slowJournal{newMemory(), make(chan struct{}, 2), make(chan struct{})}
	w, _ := bare(j)
	r := w.newJob(reconcile.Run{}, nil).rec
	var total atomic.Int64
	total.Store(1)
	var both sync.WaitGroup
	count := func() { r.storeTokens(t.Context(), &usageSession{used: total.Load}) }
	both.Go(count)
	<-j.entered
	both.Go(count)
	// in which a second count that did not wait would read the old total
	time.Sleep(10 * time.Millisecond)
	total.Store(2)
	close(j.release)
	both.Wait()
	test.Equal(t, "tokens", r.get().Tokens.Total, 2)
}

// Tokens that could not be stored are stored with the outcome, which waits for them.
func TestUsageStoredLater(t *testing.T) { synctest.Test(t, usageStoredLater) }

func usageStoredLater(t *testing.T) {
	m := newMemory()
	w, _ := bare(m)
	j := w.newJob(reconcile.Run{}, nil)
	m.fails["Thread"] = 1 // those of another conversation can be stored in between
	j.rec.storeTokens(t.Context(), &usageSession{used: func() int64 { return 50 }})
	j.rec.storeTokens(t.Context(), &usageSession{thread: "U", used: func() int64 { return 7 }})
	if err := j.rec.conclude(t.Context()); err != nil || len(m.finished) != 1 ||
		m.finished[0].Tokens.Total != 57 ||
		m.threads["T"].Total != 50 || m.threads["U"].Total != 7 {
		t.Errorf("%+v %+v %v", m.finished, m.threads, err)
	}
}

// Tokens of a resumed thread count for the run only once it is known what earlier runs used.
func TestResumedThreadThatCantBeRead(t *testing.T) {
	m := newMemory()
	m.threads["T"] = reconcile.Tokens{Input: 900, Total: 900}
	m.fails["Thread"] = 1
	w, _ := bare(m)
	r := w.newJob(reconcile.Run{}, nil).rec
	for _, row := range []struct{ total, used int64 }{{950, 0}, {1000, 100}} {
		r.storeTokens(t.Context(), &usageSession{used: func() int64 { return row.total }})
		test.Equal(t, "tokens", r.get().Tokens, reconcile.Tokens{Input: row.used, Total: row.used})
	}
}
