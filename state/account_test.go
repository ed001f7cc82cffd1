package state

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

func init() {
	helpers["account"] = writeAccount
	helpers["slots"] = holdSlots
}

func newAccount(t testing.TB) *Account {
	t.Helper()
	home := t.TempDir()
	return NewAccount("", home, filepath.Join(home, ".codex"))
}

func read(t testing.TB, a *Account, now time.Time) AccountState {
	t.Helper()
	s, err := a.Read(now)
	check(t, err)
	return s
}

func saveLimits(t testing.TB, a *Account, now time.Time, record string, args ...any) {
	t.Helper()
	check(t, a.SaveLimits(context.Background(), now, fmt.Appendf(nil, record, args...)))
}

// limitOf describes a limit: its window, and how long it lasts from the epoch.
func limitOf(s AccountState) string {
	if s.Limit == nil {
		return ""
	}
	return s.Limit.Window + " " + s.Limit.Until.Sub(epoch.Truncate(time.Second)).String()
}

func wantString(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestAccountDirectory checks that an account has one directory, whatever path leads to its codex home, and that reading
// makes nothing.
func TestAccountDirectory(t *testing.T) {
	home := t.TempDir()
	codex := filepath.Join(home, "codex")
	check(t, os.Mkdir(codex, 0o700))
	check(t, os.Symlink(codex, filepath.Join(home, "link")))
	a := NewAccount("", home, codex)
	wantString(t, "by a link", NewAccount("relative", home, filepath.Join(home, "link")).Dir, a.Dir)
	if other := NewAccount("", home, filepath.Join(home, "other")); other.Dir == a.Dir {
		t.Error("two homes share a directory")
	}
	wantString(t, "parent", filepath.Dir(a.Dir), filepath.Join(home, ".local/state/symphony/accounts"))
	wantString(t, "elsewhere", filepath.Dir(NewAccount("/x", home, codex).Dir), "/x/symphony/accounts")
	if s := read(t, a, epoch); s != (AccountState{}) {
		t.Errorf("known of nothing: %+v", s)
	}
	count, err := a.CountSlots(context.Background(), 2, 5)
	check(t, err)
	if _, err := os.Stat(filepath.Join(home, ".local")); !errors.Is(err, fs.ErrNotExist) || count != (reconcile.Slots{Free: 2, Max: 2}) {
		t.Errorf("a look has made something (%v), or counted %+v", err, count)
	}
	check(t, a.Failed(context.Background(), epoch, reconcile.CodeAgentAuth, "log in"))
	for path, mode := range map[string]fs.FileMode{a.Dir: 0o700, filepath.Join(a.Dir, limitsName): 0o600} {
		info, err := os.Stat(path)
		check(t, err)
		if info.Mode().Perm() != mode {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
	}
}

// TestLimitUsedUp checks which window counts: the used-up one that comes back last, for at most eight days, and none of a
// record from the future.
func TestLimitUsedUp(t *testing.T) {
	at := func(d time.Duration) int64 { return epoch.Add(d).Unix() }
	week := 7 * 24 * time.Hour
	for _, row := range []struct {
		rule, record string
		now          time.Duration // when it is read
		want         string
	}{
		{"not used up", fmt.Sprintf(`{"primary":{"usedPercent":99,"resetsAt":%d}}`, at(time.Hour)), 0, ""},
		{"used up", fmt.Sprintf(`{"primary":{"usedPercent":100,"resetsAt":%d}}`, at(time.Hour)), 0, "primary 1h0m0s"},
		{"a moment before", fmt.Sprintf(`{"primary":{"usedPercent":100,"resetsAt":%d}}`, at(time.Hour)), time.Hour - time.Second, "primary 1h0m0s"},
		{"it has come back", fmt.Sprintf(`{"primary":{"usedPercent":100,"resetsAt":%d}}`, at(time.Hour)), time.Hour, ""},
		{"both", fmt.Sprintf(`{"primary":{"usedPercent":101,"resetsAt":%d},"secondary":{"usedPercent":100,"resetsAt":%d}}`, at(time.Hour), at(week)), 0, "secondary 168h0m0s"},
		{"one has come back", fmt.Sprintf(`{"primary":{"usedPercent":100,"resetsAt":%d},"secondary":{"usedPercent":100,"resetsAt":%d}}`, at(time.Hour), at(2*time.Hour)), 90 * time.Minute, "secondary 2h0m0s"},
		{"too far", fmt.Sprintf(`{"primary":{"usedPercent":100,"resetsAt":%d}}`, at(1000*week)), 0, "primary 192h0m0.123s"},
		{"too far, later", fmt.Sprintf(`{"primary":{"usedPercent":100,"resetsAt":%d}}`, at(1000*week)), 8*24*time.Hour + time.Second, ""},
		{"from the future", fmt.Sprintf(`{"primary":{"usedPercent":100,"resetsAt":%d}}`, at(time.Hour)), -time.Hour, ""},
		{"just written by another", fmt.Sprintf(`{"primary":{"usedPercent":100,"resetsAt":%d}}`, at(time.Hour)), -time.Second, "primary 1h0m0s"},
		{"without a reset", `{"primary":{"usedPercent":100}}`, 0, ""},
		{"with credits", fmt.Sprintf(`{"primary":{"usedPercent":100,"resetsAt":%d},"credits":{"hasCredits":true}}`, at(time.Hour)), 0, ""},
		{"strange shapes", `{"primary":[1],"secondary":"x","credits":7}`, 0, ""},
	} {
		t.Run(row.rule, func(t *testing.T) {
			a := newAccount(t)
			saveLimits(t, a, epoch, "%s", row.record)
			wantString(t, "limit", limitOf(read(t, a, epoch.Add(row.now))), row.want)
		})
	}
}

// TestLimitsAreMerged checks that sparse updates make one record: null clears nothing, and limits of single models do not
// count beside the main one.
func TestLimitsAreMerged(t *testing.T) {
	a := newAccount(t)
	reset := epoch.Add(time.Hour).Unix()
	saveLimits(t, a, epoch, `{"limitId":"some-model","primary":{"usedPercent":100,"resetsAt":%d}}`, reset)
	wantString(t, "a model's", limitOf(read(t, a, epoch)), "primary 1h0m0s")
	saveLimits(t, a, epoch, `{"limitId":"codex","secondary":{"usedPercent":100,"resetsAt":%d}}`, reset)
	wantString(t, "the main one replaces it", limitOf(read(t, a, epoch)), "secondary 1h0m0s")
	saveLimits(t, a, epoch, `{"limitId":"some-model","secondary":{"usedPercent":1,"resetsAt":%d}}`, reset)
	saveLimits(t, a, epoch, `{"limitId":"codex","secondary":null,"planType":"pro"}`)
	wantString(t, "neither cleared nor replaced", limitOf(read(t, a, epoch)), "secondary 1h0m0s")
	saveLimits(t, a, epoch.Add(time.Minute), `{"limitId":"codex","secondary":{"usedPercent":3,"resetsAt":%d}}`, reset)
	wantString(t, "over", limitOf(read(t, a, epoch.Add(time.Minute))), "")

	text, err := os.ReadFile(filepath.Join(a.Dir, limitsName))
	check(t, err)
	var stored struct {
		CodexHome string                     `json:"codex_home"`
		Limits    map[string]json.RawMessage `json:"rate_limits"`
	}
	check(t, json.Unmarshal(text, &stored))
	wantString(t, "home", stored.CodexHome, a.Home)
	wantString(t, "plan", string(stored.Limits["planType"]), `"pro"`)
}

// TestDamagedAccount checks that an unreadable file is an error that blocks nothing, and is replaced by the next write.
func TestDamagedAccount(t *testing.T) {
	for _, text := range []string{"", "{", `[]`, `{"block":{"code":"strange"}}`, `{"rate_limits":[]}`, `{"at":"yesterday"}`} {
		a := newAccount(t)
		check(t, os.MkdirAll(a.Dir, dirMode))
		path := filepath.Join(a.Dir, limitsName)
		check(t, os.WriteFile(path, []byte(text), 0o600))
		s, err := a.Read(epoch)
		if e := wantCode(t, err, "account_state"); s != (AccountState{}) || !strings.Contains(e.Message, path) {
			t.Errorf("%q: %+v, %v", text, s, err)
		}
		check(t, a.Worked(context.Background(), epoch, epoch))
		wantConflict(t, a.Probe(context.Background(), epoch, reconcile.Block{}, "x"))
		check(t, a.Failed(context.Background(), epoch, reconcile.CodeAgentAuth, "log in"))
		if s := read(t, a, epoch); s.Block == nil {
			t.Errorf("%q: not written anew", text)
		}
	}
}

// TestSharedBlock checks that a block holds for all projects, that one at a time probes, and that its success ends the
// block.
func TestSharedBlock(t *testing.T) {
	ctx := context.Background()
	a := newAccount(t)
	check(t, a.Failed(ctx, epoch, reconcile.CodeAgentAuth, "log in"))
	b := *read(t, a, epoch).Block
	if want := (reconcile.Block{Code: "agent_auth", Message: "log in", Since: epoch, NextTry: epoch.Add(10 * time.Second)}); b != want {
		t.Errorf("%+v", b)
	}
	wantConflict(t, a.Probe(ctx, epoch.Add(9*time.Second), b, "early"))
	due := epoch.Add(10 * time.Second)
	check(t, a.Probe(ctx, due, b, "/state/runs/1/alive"))
	wantConflict(t, a.Probe(ctx, due, b, "late"))
	s := read(t, a, due)
	if s.Probe != "/state/runs/1/alive" || s.Block.Tries != 1 || !s.Block.NextTry.Equal(due.Add(20*time.Second)) {
		t.Errorf("%+v %+v", s, s.Block)
	}
	// A caller that read the block before that is too late, however long it waited.
	wantConflict(t, a.Probe(ctx, due.Add(time.Minute), b, "later"))
	// In vain: the backoff goes on from there.
	check(t, a.Failed(ctx, due.Add(time.Second), reconcile.CodeAgentQuota, "used up"))
	s = read(t, a, due)
	if s.Block.Code != "agent_quota" || s.Block.Tries != 1 || !s.Block.Since.Equal(epoch) || !s.Block.NextTry.Equal(due.Add(21*time.Second)) {
		t.Errorf("%+v", s.Block)
	}
	check(t, a.Worked(ctx, due, epoch.Add(-time.Second)))
	if read(t, a, due).Block == nil {
		t.Error("what ran before the block has ended it")
	}
	check(t, a.Worked(ctx, due, due))
	if read(t, a, due).Block != nil {
		t.Error("the probe's success has not ended it")
	}
	wantConflict(t, a.Probe(ctx, due.Add(time.Hour), *s.Block, "over"))
}

// TestQuotaWithReset checks that there is no block where the end of a used-up limit is known.
func TestQuotaWithReset(t *testing.T) {
	ctx := context.Background()
	a := newAccount(t)
	saveLimits(t, a, epoch, `{"primary":{"usedPercent":100,"resetsAt":%d}}`, epoch.Add(time.Hour).Unix())
	check(t, a.Failed(ctx, epoch, reconcile.CodeAgentQuota, "used up"))
	if s := read(t, a, epoch); s.Block != nil || s.Limit == nil {
		t.Errorf("%+v", s)
	}
	check(t, a.Failed(ctx, epoch, reconcile.CodeAgentAuth, "log in"))
	if read(t, a, epoch).Block == nil {
		t.Error("a missing login is no matter of the allowance")
	}
	b := newAccount(t)
	check(t, b.Failed(ctx, epoch, reconcile.CodeAgentQuota, "used up"))
	if read(t, b, epoch).Block == nil {
		t.Error("no block, though the end of the limit is not known")
	}
}

// TestBlockFromTheFuture checks that a block from a clock that was ahead is due now.
func TestBlockFromTheFuture(t *testing.T) {
	ctx := context.Background()
	a := newAccount(t)
	check(t, a.Failed(ctx, epoch.Add(24*time.Hour), reconcile.CodeAgentAuth, "log in"))
	for _, now := range []time.Time{epoch, epoch.Add(time.Minute)} {
		if b := read(t, a, now).Block; !b.NextTry.Equal(now) || !b.Since.Equal(now) {
			t.Errorf("%+v at %v", b, now)
		}
	}
	b := *read(t, a, epoch).Block
	began := epoch.Add(time.Second + time.Microsecond)
	check(t, a.Probe(ctx, began, b, "x"))
	if b := read(t, a, began).Block; b.Tries != 1 || !b.NextTry.Equal(began.Add(20*time.Second)) {
		t.Errorf("%+v", b)
	}
	// The run knows its own start only as it is stored.
	check(t, a.Worked(ctx, began.Add(time.Minute), began.Truncate(time.Millisecond)))
	if read(t, a, began).Block != nil {
		t.Error("the probe's success has not ended it")
	}
}

// TestAccountWritersTakeTurns checks that no change of several processes is lost.
func TestAccountWritersTakeTurns(t *testing.T) {
	a := newAccount(t)
	const each = 10
	var cmds []interface{ Wait() error }
	for n := range 3 {
		cmd := helper(t, "account", a.Dir, fmt.Sprint(n), fmt.Sprint(each))
		check(t, cmd.Start())
		cmds = append(cmds, cmd)
	}
	for _, cmd := range cmds {
		check(t, cmd.Wait())
	}
	rec, err := a.load()
	check(t, err)
	if len(rec.RateLimits) != 3*each {
		t.Errorf("%d of %d members are left", len(rec.RateLimits), 3*each)
	}
}

func writeAccount(args []string) error {
	a := &Account{Dir: args[0]}
	var each int
	if _, err := fmt.Sscan(args[2], &each); err != nil {
		return err
	}
	for i := range each {
		if err := a.SaveLimits(context.Background(), epoch, fmt.Appendf(nil, `{"m%s-%d": 1}`, args[1], i)); err != nil {
			return err
		}
	}
	return nil
}

func takeSlots(t testing.TB, a *Account, limit, want int) ([]*os.File, reconcile.Slots) {
	t.Helper()
	files, count, err := a.TakeSlots(context.Background(), limit, want)
	check(t, err)
	if len(files) != count.Free {
		t.Errorf("%d files for %+v", len(files), count)
	}
	t.Cleanup(func() { closeAll(files) })
	return files, count
}

func wantSlots(t testing.TB, got reconcile.Slots, free, taken, most int) {
	t.Helper()
	if want := (reconcile.Slots{Free: free, Taken: taken, Max: most}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestSlots takes slots up to the limit, and again when their holders have closed them.
func TestSlots(t *testing.T) {
	a := newAccount(t)
	first, count := takeSlots(t, a, 3, 2)
	wantSlots(t, count, 2, 0, 3)
	second, count := takeSlots(t, a, 3, 5)
	wantSlots(t, count, 1, 2, 3)
	_, count = takeSlots(t, a, 3, 1)
	wantSlots(t, count, 0, 3, 3)

	counted, err := a.CountSlots(context.Background(), 3, 1)
	check(t, err)
	wantSlots(t, counted, 0, 3, 3)
	closeAll(second)
	counted, err = a.CountSlots(context.Background(), 3, 1)
	check(t, err)
	wantSlots(t, counted, 1, 2, 3)
	closeAll(first)
	_, count = takeSlots(t, a, 3, 9)
	wantSlots(t, count, 3, 0, 3)
}

// TestSlotsBeyondTheLimit checks that slots taken under a larger limit count for all.
func TestSlotsBeyondTheLimit(t *testing.T) {
	a := newAccount(t)
	many, _ := takeSlots(t, a, 4, 4)
	closeAll(many[:2]) // 1 and 2
	_, count := takeSlots(t, a, 2, 2)
	wantSlots(t, count, 0, 2, 2)
	_, count = takeSlots(t, a, 3, 2)
	wantSlots(t, count, 1, 2, 3)
}

// TestSlotsOfProcesses checks that processes never have more than the limit together, and that a killed one frees its
// slots.
func TestSlotsOfProcesses(t *testing.T) {
	const limit = 3
	a := newAccount(t)
	type holder struct {
		lines *bufio.Scanner
		end   func()
	}
	var all []holder
	for range 5 {
		cmd, lines, _ := startHelper(t, "slots", a.Dir, fmt.Sprint(limit))
		all = append(all, holder{lines, func() { check(t, cmd.Process.Kill()); _ = cmd.Wait() }})
	}
	sum := 0
	for _, h := range all {
		if !h.lines.Scan() {
			t.Fatal("a holder said nothing")
		}
		var n int
		_, err := fmt.Sscan(h.lines.Text(), &n)
		check(t, err)
		sum += n
	}
	if sum != limit {
		t.Errorf("%d slots were given away, %d are there", sum, limit)
	}
	for _, h := range all {
		h.end()
	}
	_, count := takeSlots(t, a, limit, limit)
	wantSlots(t, count, limit, 0, limit)
}

// holdSlots takes two slots, prints how many it got, and holds them until it is ended.
func holdSlots(args []string) error {
	a := &Account{Dir: args[0]}
	var limit int
	if _, err := fmt.Sscan(args[1], &limit); err != nil {
		return err
	}
	files, _, err := a.TakeSlots(context.Background(), limit, 2)
	if err != nil {
		return err
	}
	defer closeAll(files)
	fmt.Println(len(files))
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	return err
}
