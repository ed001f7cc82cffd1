package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

func newAccount(t testing.TB) *Account {
	t.Helper()
	home := t.TempDir()
	return NewAccount("", home, filepath.Join(home, ".codex"))
}

func read(t testing.TB, a *Account, now time.Time) AccountState {
	t.Helper()
	return test.Must(a.Read(now))
}

func saveLimits(t testing.TB, a *Account, now time.Time, record string, args ...any) {
	t.Helper()
	test.OK(t, a.SaveLimits(ctx, now, fmt.Appendf(nil, record, args...)))
}

// limitOf describes a limit by its window and its duration from the epoch.
func limitOf(s AccountState) string {
	if s.Limit == nil {
		return ""
	}
	return s.Limit.Window + " " + s.Limit.Until.Sub(epoch.Truncate(time.Second)).String()
}

// TestWindows checks that a window is known until it is reset.
func TestWindows(t *testing.T) {
	a := newAccount(t)
	at := epoch.Truncate(time.Second).UTC()
	const record = `{
		"limitId": "codex",
		"primary": {"usedPercent": 42.5, "windowDurationMins": 300, "resetsAt": %d.0},
		"secondary": {"usedPercent": 7}
	}`
	saveLimits(t, a, at, record, at.Add(time.Hour).Unix())
	weekly := Window{Name: "secondary", UsedPercent: 7, At: at}
	want := []Window{{"primary", 42.5, 5 * time.Hour, at.Add(time.Hour), at}, weekly}
	test.Equal(t, "before the reset", test.Must(a.Windows(at)), want)
	test.Equal(t, "after the reset", test.Must(a.Windows(at.Add(time.Hour))), []Window{weekly})
}

// TestAccountDirectory checks that an account has the same directory by every path to its
// codex home, and that reading creates nothing.
func TestAccountDirectory(t *testing.T) {
	home := t.TempDir()
	codex := filepath.Join(home, "codex")
	test.OK(t, os.Mkdir(codex, 0o700))
	test.OK(t, os.Symlink(codex, filepath.Join(home, "link")))
	a := NewAccount("", home, codex)
	test.Equal(t, "by a link", NewAccount("relative", home, filepath.Join(home, "link")).Dir, a.Dir)
	test.Equal(
		t,
		"two homes have two directories",
		NewAccount("", home, filepath.Join(home, "other")).Dir != a.Dir,
		true,
	)
	test.Equal(t, "parent", filepath.Dir(a.Dir), filepath.Join(home, ".local/state/symphony/accounts"))
	test.Equal(t, "elsewhere", filepath.Dir(NewAccount("/x", home, codex).Dir), "/x/symphony/accounts")
	test.Equal(t, "known of nothing", read(t, a, epoch), (AccountState{}))
	count := test.Must(a.CountSlots(ctx, 2, 5))
	if _, err := os.Stat(filepath.Join(home, ".local")); !errors.Is(err, fs.ErrNotExist) ||
		count != (reconcile.Slots{
			Free: 2,
			Max:  2,
		}) {
		t.Errorf("reading created something (%v), or counted %+v", err, count)
	}
	test.OK(t, a.Failed(ctx, epoch, reconcile.CodeAgentAuth, "log in"))
	for path, mode := range map[string]fs.FileMode{
		a.Dir:                            0o700,
		filepath.Join(a.Dir, limitsName): 0o600,
	} {
		test.Equal(t, "mode of "+path, test.Must(os.Stat(path)).Mode().Perm(), mode)
	}
}

// TestLimitUsedUp checks which limit applies: the used-up window that is reset last, for at
// most eight days, and none from a record of the future.
func TestLimitUsedUp(t *testing.T) {
	at := func(d time.Duration) int64 { return epoch.Add(d).Unix() }
	week := 7 * 24 * time.Hour
	used := func(window string, percent int, after time.Duration) string {
		return fmt.Sprintf(`%q:{"usedPercent":%d,"resetsAt":%d}`, window, percent, at(after))
	}
	anHour := used("primary", 100, time.Hour)
	for _, row := range []struct {
		rule, record string
		now          time.Duration // when it is read
		want         string
	}{
		{"not used up", used("primary", 99, time.Hour), 0, ""},
		{"a moment before its end", anHour, time.Hour - time.Second, "primary 1h0m0s"},
		{"at its end", anHour, time.Hour, ""},
		{"both", used("primary", 101, time.Hour) + "," + used("secondary", 100, week), 0, "secondary 168h0m0s"},
		{"one has ended", anHour + "," + used("secondary", 100, 2*time.Hour), 90 * time.Minute, "secondary 2h0m0s"},
		{"too far ahead", used("primary", 100, 1000*week), 0, "primary 192h0m0.123s"},
		{"too far ahead, later", used("primary", 100, 1000*week), 8*24*time.Hour + time.Second, ""},
		{"from the future", anHour, -time.Hour, ""},
		{"just written by another process", anHour, -time.Second, "primary 1h0m0s"},
		{"without a reset", `"primary":{"usedPercent":100}`, 0, ""},
		{"with credits", anHour + `,"credits":{"hasCredits":true}`, 0, ""},
		{"unexpected types", `"primary":[1],"secondary":"x","credits":7`, 0, ""},
	} {
		a := newAccount(t)
		saveLimits(t, a, epoch, "{%s}", row.record)
		test.Equal(t, row.rule, limitOf(read(t, a, epoch.Add(row.now))), row.want)
	}
}

// TestLimitsAreMerged checks that sparse updates are merged: null clears nothing, and limits
// of single models are ignored once the main one is known.
func TestLimitsAreMerged(t *testing.T) {
	a := newAccount(t)
	reset := epoch.Add(time.Hour).Unix()
	saveLimits(t, a, epoch, `{"limitId":"some-model","primary":{"usedPercent":100,"resetsAt":%d}}`, reset)
	test.Equal(t, "a model's", limitOf(read(t, a, epoch)), "primary 1h0m0s")
	saveLimits(t, a, epoch, `{"limitId":"codex","secondary":{"usedPercent":100,"resetsAt":%d}}`, reset)
	test.Equal(t, "the main one replaces it", limitOf(read(t, a, epoch)), "secondary 1h0m0s")
	saveLimits(t, a, epoch, `{"limitId":"some-model","secondary":{"usedPercent":1,"resetsAt":%d}}`, reset)
	saveLimits(t, a, epoch, `{"limitId":"codex","secondary":null,"planType":"pro"}`)
	test.Equal(t, "neither cleared nor replaced", limitOf(read(t, a, epoch)), "secondary 1h0m0s")
	saveLimits(
		t,
		a,
		epoch.Add(time.Minute),
		`{"limitId":"codex","secondary":{"usedPercent":3,"resetsAt":%d}}`,
		reset,
	)
	test.Equal(t, "over", limitOf(read(t, a, epoch.Add(time.Minute))), "")

	text := test.Must(os.ReadFile(filepath.Join(a.Dir, limitsName)))
	var stored struct {
		CodexHome string                     `json:"codex_home"`
		Limits    map[string]json.RawMessage `json:"rate_limits"`
	}
	test.OK(t, json.Unmarshal(text, &stored))
	test.Equal(t, "home", stored.CodexHome, a.Home)
	test.Equal(t, "plan", string(stored.Limits["planType"]), `"pro"`)
}

// TestDamagedAccount checks that an unreadable file gives an error but no block, and that the
// next write replaces it.
func TestDamagedAccount(t *testing.T) {
	for _, text := range []string{
		"",
		"{",
		`[]`,
		`{"block":{"code":"strange"}}`,
		`{"rate_limits":[]}`,
		`{"at":"yesterday"}`,
	} {
		a := newAccount(t)
		test.OK(t, os.MkdirAll(a.Dir, dirMode))
		path := filepath.Join(a.Dir, limitsName)
		test.OK(t, os.WriteFile(path, []byte(text), 0o600))
		s, err := a.Read(epoch)
		if e := wantCode(t, err, "account_state"); s != (AccountState{}) ||
			!strings.Contains(e.Message, path) {
			t.Errorf("%q: %+v, %v", text, s, err)
		}
		test.OK(t, a.Worked(ctx, epoch, epoch))
		wantConflict(t, a.Probe(ctx, epoch, reconcile.Block{}, "x"))
		test.OK(t, a.Failed(ctx, epoch, reconcile.CodeAgentAuth, "log in"))
		test.Equal(t, text+": replaced", read(t, a, epoch).Block != nil, true)
	}
}

// TestSharedBlock checks that a block applies to all projects, that one project at a time
// probes it, and that a successful probe ends it.
func TestSharedBlock(t *testing.T) {
	a := newAccount(t)
	test.OK(t, a.Failed(ctx, epoch, reconcile.CodeAgentAuth, "log in"))
	b := *read(t, a, epoch).Block
	test.Equal(t, "the block", b, reconcile.Block{
		Code:    "agent_auth",
		Message: "log in",
		Since:   epoch,
		NextTry: epoch.Add(10 * time.Second),
	})
	wantConflict(t, a.Probe(ctx, epoch.Add(9*time.Second), b, "early"))
	due := epoch.Add(10 * time.Second)
	test.OK(t, a.Probe(ctx, due, b, "/state/runs/1/alive"))
	wantConflict(t, a.Probe(ctx, due, b, "late"))
	s := read(t, a, due)
	if s.Probe != "/state/runs/1/alive" || s.Block.Tries != 1 ||
		!s.Block.NextTry.Equal(due.Add(20*time.Second)) {
		t.Errorf("%+v %+v", s, s.Block)
	}
	// A caller that read the block before the probe is too late, even if its own wait is over.
	wantConflict(t, a.Probe(ctx, due.Add(time.Minute), b, "later"))
	// The probe fails: the backoff continues from there.
	test.OK(t, a.Failed(ctx, due.Add(time.Second), reconcile.CodeAgentQuota, "used up"))
	s = read(t, a, due)
	if s.Block.Code != "agent_quota" || s.Block.Tries != 1 || !s.Block.Since.Equal(epoch) ||
		!s.Block.NextTry.Equal(due.Add(21*time.Second)) {
		t.Errorf("%+v", s.Block)
	}
	test.OK(t, a.Worked(ctx, due, epoch.Add(-time.Second)))
	test.Equal(t, "a run from before the block leaves it", read(t, a, due).Block != nil, true)
	test.OK(t, a.Worked(ctx, due, due))
	test.Equal(t, "the successful probe ended it", read(t, a, due).Block == nil, true)
	wantConflict(t, a.Probe(ctx, due.Add(time.Hour), *s.Block, "over"))
}

// TestRepairedAccount checks that an operator's run, and a changed workflow, need not wait for
// the next try, and that an operator can end block and limit.
func TestRepairedAccount(t *testing.T) {
	a := newAccount(t)
	test.OK(t, a.TryNow(ctx, epoch))
	test.OK(t, a.Forget(ctx, epoch))
	test.OK(t, a.Failed(ctx, epoch, reconcile.CodeAgentAuth, "log in"))
	b := *read(t, a, epoch).Block
	wantConflict(t, a.Probe(ctx, epoch, b, "early"))
	b.NextTry = time.Time{}
	test.OK(t, a.Probe(ctx, epoch, b, "an operator's"))
	wantConflict(t, a.Probe(ctx, epoch, b, "read before"))

	b = *read(t, a, epoch).Block
	wantConflict(t, a.Probe(ctx, epoch, b, "early"))
	test.OK(t, a.TryNow(ctx, epoch))
	test.OK(t, a.Probe(ctx, epoch, b, "due"))

	saveLimits(t, a, epoch, `{"primary":{"usedPercent":100,"resetsAt":%d}}`, epoch.Add(time.Hour).Unix())
	test.OK(t, a.Forget(ctx, epoch))
	s := read(t, a, epoch)
	test.Equal(
		t,
		"no block, no limit, and their end",
		[]any{s.Block == nil, s.Limit == nil, s.Over},
		[]any{true, true, epoch},
	)
}

// TestQuotaWithReset checks that there is no block if the end of a used-up limit is known.
func TestQuotaWithReset(t *testing.T) {
	a := newAccount(t)
	saveLimits(t, a, epoch, `{"primary":{"usedPercent":100,"resetsAt":%d}}`, epoch.Add(time.Hour).Unix())
	test.OK(t, a.Failed(ctx, epoch, reconcile.CodeAgentQuota, "used up"))
	s := read(t, a, epoch)
	test.Equal(t, "no block, but a limit", []bool{s.Block == nil, s.Limit != nil}, []bool{true, true})
	test.OK(t, a.Failed(ctx, epoch, reconcile.CodeAgentAuth, "log in"))
	test.Equal(t, "a missing login blocks while a limit is used up", read(t, a, epoch).Block != nil, true)
	b := newAccount(t)
	test.OK(t, b.Failed(ctx, epoch, reconcile.CodeAgentQuota, "used up"))
	test.Equal(t, "a used-up limit with an unknown end blocks", read(t, b, epoch).Block != nil, true)
}

// TestAccountWritersTakeTurns checks that no concurrent change is lost.
func TestAccountWritersTakeTurns(t *testing.T) {
	a := newAccount(t)
	const writers, each = 3, 10
	var all sync.WaitGroup
	for n := range writers {
		all.Go(func() {
			for i := range each {
				if err := a.SaveLimits(ctx, epoch, fmt.Appendf(nil, `{"m%d-%d": 1}`, n, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	test.Equal(t, "members", len(test.Must(a.load()).RateLimits), writers*each)
}

// TestAccountCancelled checks that a wait for a lock ends with its caller, and that this is no
// fault of the account.
func TestAccountCancelled(t *testing.T) {
	a := newAccount(t)
	unlock, err := a.lock(ctx, limitsLock, accountPatience)
	test.OK(t, err)
	defer unlock()
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	err = a.SaveLimits(cancelled, epoch, []byte(`{"m": 1}`))
	test.Equal(t, "cancelled, a fault", []bool{errors.Is(err, context.Canceled), hasCode(err, "account_state")},
		[]bool{true, false})
}

func takeSlots(t testing.TB, a *Account, limit, want int) ([]*os.File, reconcile.Slots) {
	t.Helper()
	files, count, err := a.TakeSlots(ctx, limit, want)
	test.OK(t, err)
	test.Equal(t, "files", len(files), count.Free)
	t.Cleanup(func() { closeAll(files) })
	return files, count
}

func wantSlots(t testing.TB, got reconcile.Slots, free, taken, most int) {
	t.Helper()
	test.Equal(t, "slots", got, reconcile.Slots{Free: free, Taken: taken, Max: most})
}

// TestSlots takes slots up to the limit, and again after their holders have closed them.
func TestSlots(t *testing.T) {
	a := newAccount(t)
	first, count := takeSlots(t, a, 3, 2)
	wantSlots(t, count, 2, 0, 3)
	second, count := takeSlots(t, a, 3, 5)
	wantSlots(t, count, 1, 2, 3)
	_, count = takeSlots(t, a, 3, 1)
	wantSlots(t, count, 0, 3, 3)

	counted := test.Must(a.CountSlots(ctx, 3, 1))
	wantSlots(t, counted, 0, 3, 3)
	closeAll(second)
	counted = test.Must(a.CountSlots(ctx, 3, 1))
	wantSlots(t, counted, 1, 2, 3)
	closeAll(first)
	many, count := takeSlots(t, a, 4, 9)
	wantSlots(t, count, 4, 0, 4)
	closeAll(many[:2]) // slots taken under a higher limit count under a lower one, too
	_, count = takeSlots(t, a, 2, 2)
	wantSlots(t, count, 0, 2, 2)
}
