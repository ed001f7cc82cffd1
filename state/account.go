package state

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

const (
	accountsName = "accounts"
	limitsName   = "limits.json"
	limitsLock   = "limits.lock"

	// accountPatience is how long the account's lock is waited for. Who holds it writes a file of a page.
	accountPatience = 2 * time.Second
	accountPoll     = 10 * time.Millisecond
	// accountLargest bounds what is read: codex's record takes half a kilobyte.
	accountLargest = 64 << 10
	// longestWindow is a day more than the longest window that codex knows: a wrong clock can't keep a project for longer.
	longestWindow = 8 * 24 * time.Hour
	// clockSlack is how far ahead a record may lie that another process has just written.
	clockSlack = time.Minute
)

// Account is the directory of what all projects share that use one codex home: the account's allowance, and a fault of
// login or allowance. It lies beside the projects' own state directories, and is made by whoever first has something
// to write. Passes read it without a lock; writers take turns.
type Account struct {
	Home string // the codex home, resolved
	Dir  string
}

// NewAccount names the account of a codex home, an absolute path. A relative or empty xdgStateHome counts as in
// DefaultDir.
func NewAccount(xdgStateHome, home, codexHome string) *Account {
	base := xdgStateHome
	if !filepath.IsAbs(base) {
		base = filepath.Join(home, ".local", "state")
	}
	resolved := resolve(codexHome)
	sum := sha256.Sum256([]byte(resolved))
	return &Account{Home: resolved, Dir: filepath.Join(base, "symphony", accountsName, hex.EncodeToString(sum[:])[:hashDigits])}
}

// accountRecord is limits.json.
type accountRecord struct {
	CodexHome string `json:"codex_home"`
	// RateLimits is codex's record, its sparse updates merged; At is when it last changed.
	RateLimits map[string]json.RawMessage `json:"rate_limits,omitempty"`
	At         time.Time                  `json:"at"`
	// ExhaustedUntil and Window say what of it is used up: the window that comes back last. Found out when it was
	// written, for people; who reads works it out again.
	ExhaustedUntil *time.Time    `json:"exhausted_until"`
	Window         string        `json:"window,omitempty"`
	Block          *accountBlock `json:"block"`
	// OverAt is when the last block was over.
	OverAt time.Time `json:"over_at,omitzero"`
}

type accountBlock struct {
	reconcile.Block
	// Probe is the alive file of the run that was started to see whether the block is over.
	Probe string `json:"probe,omitempty"`
}

// AccountState is what limits.json says.
type AccountState struct {
	Limit *reconcile.Limit
	Block *reconcile.Block
	Probe string // the alive file of the run that probes, empty for none
	// Since is the block's as it was written: one that a clock was ahead for lies in the future, and stays the same.
	Since time.Time
	// Over is when a limit or a block was last over, zero where that is not known.
	Over time.Time
}

// Read gives what is known of the account now. An error says that the file can't be made use of; the state is then
// that of an account of which nothing is known.
func (a *Account) Read(now time.Time) (AccountState, error) {
	rec, err := a.load()
	if err != nil {
		return AccountState{}, err
	}
	s := AccountState{Limit: exhausted(rec, now), Over: rec.OverAt}
	if l := exhausted(rec, rec.At); l != nil && s.Limit == nil && l.Until.After(s.Over) {
		s.Over = l.Until
	}
	if s.Over.After(now) {
		s.Over = time.Time{} // by a clock that was ahead
	}
	if rec.Block != nil {
		b := rec.Block.Unstepped(now)
		s.Block, s.Probe, s.Since = &b, rec.Block.Probe, rec.Block.Since
	}
	return s, nil
}

// load reads the file; one that is not there holds nothing.
func (a *Account) load() (accountRecord, error) {
	path := filepath.Join(a.Dir, limitsName)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return accountRecord{}, nil
	}
	if err != nil {
		return accountRecord{}, damaged(path, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, accountLargest))
	if err != nil {
		return accountRecord{}, damaged(path, err)
	}
	var rec accountRecord
	if err := json.Unmarshal(text, &rec); err != nil {
		return accountRecord{}, damaged(path, err)
	}
	if b := rec.Block; b != nil && !reconcile.AccountFault(b.Code) {
		return accountRecord{}, damaged(path, fmt.Errorf("a block by %q", b.Code))
	}
	return rec, nil
}

func damaged(path string, err error) error {
	return &reconcile.Error{
		Code: "account_state", Message: fmt.Sprintf("%s can't be read and counts for nothing: %v", path, err),
		Hint: "the next run writes it anew; where its permissions are the reason, correct them", Err: err,
	}
}

// exhausted finds the window that is used up and comes back last. A record from the future is the mark of a clock that
// was set back, and says nothing; an account with credits goes on when its windows are used up.
func exhausted(rec accountRecord, now time.Time) *reconcile.Limit {
	if rec.At.After(now.Add(clockSlack)) {
		return nil
	}
	var credits struct {
		HasCredits bool `json:"hasCredits"`
		Unlimited  bool `json:"unlimited"`
	}
	if raw := rec.RateLimits["credits"]; raw != nil && json.Unmarshal(raw, &credits) == nil && (credits.HasCredits || credits.Unlimited) {
		return nil
	}
	var last *reconcile.Limit
	for _, name := range []string{"primary", "secondary"} {
		var w struct {
			UsedPercent float64 `json:"usedPercent"`
			ResetsAt    float64 `json:"resetsAt"`
		}
		if raw := rec.RateLimits[name]; raw == nil || json.Unmarshal(raw, &w) != nil || w.UsedPercent < 100 || w.ResetsAt <= 0 {
			continue
		}
		until := rec.At.Add(longestWindow)
		if w.ResetsAt < float64(until.Unix()) {
			until = time.Unix(int64(w.ResetsAt), 0).UTC()
		}
		if until.After(now) && (last == nil || until.After(last.Until)) {
			last = &reconcile.Limit{Window: name, Since: rec.At, Until: until}
		}
	}
	return last
}

// change lets f work on the record under the lock, and writes it where f says that it has changed. What was damaged is
// written anew.
func (a *Account) change(ctx context.Context, now time.Time, f func(rec *accountRecord) bool) error {
	unlock, err := a.lock(ctx, limitsLock)
	if err != nil {
		return err
	}
	defer unlock()
	crash.At("state.account.locked")
	rec, _ := a.load() // see above
	if !f(&rec) {
		return nil
	}
	rec.CodexHome, rec.ExhaustedUntil, rec.Window = a.Home, nil, ""
	if l := exhausted(rec, now); l != nil {
		rec.ExhaustedUntil, rec.Window = &l.Until, l.Window
	}
	return a.fault("write "+limitsName, a.save(rec))
}

func (a *Account) save(rec accountRecord) error {
	text, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(a.Dir, limitsName), append(text, '\n'), fileMode)
}

// lock takes a lock of the account's, whose directory it makes if need be.
func (a *Account) lock(ctx context.Context, name string) (unlock func(), err error) {
	if err := a.ensure(); err != nil {
		return nil, err
	}
	path := filepath.Join(a.Dir, name)
	l := flock.New(path, flock.SetPermissions(fileMode))
	ctx, cancel := context.WithTimeout(ctx, accountPatience)
	defer cancel()
	switch got, err := l.TryLockContext(ctx, accountPoll); {
	case err != nil && !errors.Is(err, context.DeadlineExceeded):
		return nil, a.fault("lock "+name, err)
	case !got:
		return nil, &reconcile.Error{
			Code: "account_state", Message: fmt.Sprintf("what projects share of %s: another process keeps %s", a.Home, path),
			Hint: "see who has it open: fuser -v " + path + "; nothing is lost, and all goes on when that process lets go", Err: err,
		}
	}
	return func() { _ = l.Unlock() }, nil // closing the file releases it, whatever else
}

func (a *Account) ensure() error {
	if _, err := os.Stat(a.Dir); err == nil {
		return nil
	}
	if err := checkFilesystem(a.Dir); err != nil {
		return a.fault("use it", err)
	}
	if err := os.MkdirAll(a.Dir, dirMode); err != nil {
		return a.fault("make it", err)
	}
	crash.At("state.account.made")
	return a.fault("make it", durable.SyncDir(filepath.Dir(a.Dir)))
}

func (a *Account) fault(doing string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return diskFull(a.Dir, "what is known of the account", err)
	}
	return &reconcile.Error{
		Code: "account_state", Message: fmt.Sprintf("what projects share of %s, in %s: %s: %v", a.Home, a.Dir, doing, err),
		Hint: "look at the permissions of that directory; another place is named by XDG_STATE_HOME", Err: err,
	}
}
