package runner

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// IssueTokens implements Journal.
func (m *memory) IssueTokens(context.Context, string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	used := m.before
	for _, t := range m.threads {
		used += t.Total
	}
	return used, nil
}

// toldAccount records what it is told, and what of it came after the outcome.
type toldAccount struct {
	mu      sync.Mutex
	journal *memory
	told    []string
	err     error
}

func (a *toldAccount) tell(what string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.journal.mu.Lock()
	defer a.journal.mu.Unlock()
	if len(a.journal.finished) > 0 {
		what = "too late: " + what
	}
	a.told = append(a.told, what)
	return a.err
}

func (a *toldAccount) SaveLimits(_ context.Context, _ time.Time, changed []byte) error {
	return a.tell(string(changed))
}

func (a *toldAccount) Failed(_ context.Context, _ time.Time, code, message string) error {
	return a.tell("failed " + code + ": " + message)
}

func (a *toldAccount) Worked(context.Context, time.Time, time.Time) error { return a.tell("worked") }

// Limits are shared as they change, and only what has changed of them.
func TestLimitsAreShared(t *testing.T) {
	a := &toldAccount{journal: newMemory()}
	w, _ := bare(a.journal)
	w.Account = a
	reporter := limitsReporter{job: w.newJob(reconcile.Run{}, nil)}
	for _, step := range []struct {
		record, stored string
		err            error
	}{
		{`{"limitId":"codex","primary":{"usedPercent":1},"secondary":{"usedPercent":9}}`, `{"limitId":"codex","primary":{"usedPercent":1},"secondary":{"usedPercent":9}}`, nil},
		{`{"limitId":"codex","primary":{"usedPercent":1},"secondary":{"usedPercent":9}}`, "", nil},
		{`{"limitId":"codex","primary":{"usedPercent":2},"secondary":{"usedPercent":9}}`, `{"limitId":"codex","primary":{"usedPercent":2}}`, nil},
		// What could not be stored comes with the next.
		{`{"limitId":"codex","primary":{"usedPercent":2},"secondary":{"usedPercent":10}}`, `{"limitId":"codex","secondary":{"usedPercent":10}}`, errors.New("no space")},
		{`{"limitId":"codex","primary":{"usedPercent":5},"secondary":{"usedPercent":10}}`, `{"limitId":"codex","primary":{"usedPercent":5},"secondary":{"usedPercent":10}}`, nil},
		// What is the same by chance belongs to another limit.
		{`{"limitId":"other","primary":{"usedPercent":5}}`, `{"limitId":"other","primary":{"usedPercent":5}}`, nil},
	} {
		a.told, a.err = nil, step.err
		reporter.report(t.Context(), []byte(step.record))
		if got := strings.Join(a.told, "; "); got != step.stored {
			t.Errorf("told\n%s\nwant\n%s", got, step.stored)
		}
	}
}

// Faults and limits are shared before the outcome is stored, so that no pass starts another run into the same fault.
func TestAccountIsTold(t *testing.T) {
	full := `ratelimits {"limitId":"codex","primary":{"usedPercent":100,"resetsAt":4000000000}}`
	r := newRig(t, "tokens 1 1\nsleep 300ms\n"+full+"\nfail usageLimitExceeded later")
	a := &toldAccount{journal: r.journal}
	r.Account = a
	r.ends(reconcile.Failed, "agent_quota")
	told := strings.Join(a.told, "\n")
	if !strings.Contains(told, `"usedPercent":100`) || !strings.HasSuffix(told, "\nfailed agent_quota: later") || strings.Contains(told, "too late") {
		t.Errorf("told\n%s", told)
	}
}

// forgetful fails to read a thread at first.
type forgetful struct {
	*memory
	times int
}

func (f *forgetful) Thread(ctx context.Context, id string) (reconcile.Tokens, bool, error) {
	if f.times > 0 {
		f.times--
		return reconcile.Tokens{}, false, errors.New("disk I/O error")
	}
	return f.memory.Thread(ctx, id)
}

// Tokens of a resumed thread count as the run's only once it is known what earlier runs used.
func TestResumedThreadThatCantBeRead(t *testing.T) {
	m := newMemory()
	m.threads["T"] = reconcile.Tokens{Input: 900, Total: 900}
	w, _ := bare(&forgetful{m, 1})
	r := w.newJob(reconcile.Run{}, nil).rec
	for _, row := range []struct{ total, used int64 }{{950, 0}, {1000, 100}} {
		r.usage(t.Context(), map[string]agent.Usage{"T": {Input: row.total, Total: row.total}})
		if got := r.get().Tokens; got != (reconcile.Tokens{Input: row.used, Total: row.used}) {
			t.Errorf("at %d: %+v, want %d", row.total, got, row.used)
		}
	}
}
