package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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

// toldAccount records its calls, and marks those that came after the outcome.
type toldAccount struct {
	mu      sync.Mutex
	journal *memory
	told    []string
	err     error
}

func (a *toldAccount) tell(what string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.journal != nil {
		a.journal.mu.Lock()
		defer a.journal.mu.Unlock()
		if len(a.journal.finished) > 0 {
			what = "too late: " + what
		}
	}
	a.told = append(a.told, what)
	return a.err
}

func (a *toldAccount) list() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.told)
}

func (a *toldAccount) SaveLimits(_ context.Context, _ time.Time, changed []byte) error {
	return a.tell("limits " + string(changed))
}

func (a *toldAccount) Failed(_ context.Context, _ time.Time, code, message string) error {
	return a.tell("failed " + code + ": " + message)
}

func (a *toldAccount) Worked(context.Context, time.Time, time.Time) error { return a.tell("worked") }

func wantTold(t *testing.T, a *toldAccount, want ...string) {
	t.Helper()
	if got := a.list(); !slices.Equal(got, want) {
		t.Errorf("told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Limits are shared as they change, and only what has changed of them.
func TestLimitsAreShared(t *testing.T) {
	a := &toldAccount{}
	j := (&Worker{Account: a, Now: time.Now, Log: slog.New(slog.DiscardHandler)}).newJob(reconcile.Run{}, nil)
	reporter := limitsReporter{job: j}
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
		if step.stored == "" {
			wantTold(t, a)
		} else {
			wantTold(t, a, "limits "+step.stored)
		}
	}
}

// Faults and limits are shared before the outcome is stored, so that no pass starts another run into the same fault.
func TestAccountIsTold(t *testing.T) {
	full := `ratelimits {"limitId":"codex","primary":{"usedPercent":100,"resetsAt":4000000000}}`
	for _, row := range []struct {
		rule, script string
		outcome      reconcile.Outcome
		code         string
		want         []string
	}{
		{"all is well", "tokens 1 1\nsay done", reconcile.Succeeded, "", []string{"worked"}},
		{"no login", "tokens 1 1\nfail httpConnectionFailed=401 no", reconcile.Failed, "agent_auth", []string{"failed agent_auth: no"}},
		{"used up", "tokens 1 1\nsleep 300ms\n" + full + "\nfail usageLimitExceeded later", reconcile.Failed, "agent_quota", []string{"limits 100", "failed agent_quota: later"}},
		{"a fault of the issue", "tokens 1 1\nfail badRequest no", reconcile.Failed, "turn_failed", nil},
	} {
		t.Run(row.rule, func(t *testing.T) {
			r := newRig(t, row.script)
			r.Config.MaxTurns = 1
			a := &toldAccount{journal: r.journal}
			r.Account = a
			r.ends(row.outcome, row.code)
			var got []string
			for _, what := range a.list() {
				if record, isLimits := strings.CutPrefix(what, "limits "); isLimits {
					var l struct {
						Primary *struct{ UsedPercent float64 }
					}
					must(t, json.Unmarshal([]byte(record), &l))
					if l.Primary == nil {
						continue // every turn of this agent says of limits that nothing is known
					}
					what = fmt.Sprintf("limits %v", l.Primary.UsedPercent)
				}
				got = append(got, what)
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("told %q, want %q", got, row.want)
			}
		})
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
