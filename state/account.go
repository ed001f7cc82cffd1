package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	accountsName = "accounts"
	limitsName   = "limits.json"
	limitsLock   = "limits.lock"

	// accountPatience bounds the wait for the account's lock. Its holder only writes a small file.
	accountPatience = 2 * time.Second
	accountPoll     = 10 * time.Millisecond
	// longestWindow is a day more than codex's longest window: a wrong clock can't block a project for longer.
	longestWindow = 8 * 24 * time.Hour
	// clockSlack is how far ahead of this process's clock a fresh record may lie.
	clockSlack = time.Minute
	// mainLimitID is the limit that counts for agents, as JSON; others are those of single models.
	mainLimitID = `"codex"`
)

// Account is the directory of what the projects share that use one codex home: the account's rate limits, and a failure of
// login or allowance. It lies beside the projects' own state directories; the first process that has something to write
// makes it. Passes read it without a lock; writers take turns.
type Account struct {
	Home string // the codex home, resolved
	Dir  string
}

// NewAccount names the account of a codex home, an absolute path. xdgStateHome and home count as in DefaultDir.
func NewAccount(xdgStateHome, home, codexHome string) *Account {
	resolved := resolve(codexHome)
	return &Account{Home: resolved, Dir: filepath.Join(stateHome(xdgStateHome, home), accountsName, pathHash(resolved))}
}

// accountRecord is limits.json.
type accountRecord struct {
	CodexHome string `json:"codex_home"`
	// RateLimits is codex's record, its sparse updates merged; At is when it last changed.
	RateLimits map[string]json.RawMessage `json:"rate_limits,omitempty"`
	At         time.Time                  `json:"at"`
	Block      *accountBlock              `json:"block"`
	OverAt     time.Time                  `json:"over_at,omitzero"` // when the last block ended
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
	// Since is the block's time as it was written. Written by a clock that was ahead, it lies in the future.
	Since time.Time
	// Over is when a limit or a block was last over, zero where that is not known.
	Over time.Time
}

// Read returns what is known of the account. With an error the file can't be used, and nothing is known.
func (a *Account) Read(now time.Time) (AccountState, error) {
	rec, err := a.load()
	s := AccountState{Limit: exhausted(rec, now), Over: rec.OverAt}
	if l := exhausted(rec, rec.At); l != nil && s.Limit == nil && l.Until.After(s.Over) {
		s.Over = l.Until
	}
	if s.Over.After(now) {
		s.Over = time.Time{} // written by a clock that was ahead
	}
	if rec.Block != nil {
		b := rec.Block.Unstepped(now)
		s.Block, s.Probe, s.Since = &b, rec.Block.Probe, rec.Block.Since
	}
	return s, err
}

// load reads the file; a missing one holds nothing.
func (a *Account) load() (rec accountRecord, err error) {
	path := filepath.Join(a.Dir, limitsName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return accountRecord{}, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &rec)
	}
	if b := rec.Block; err == nil && b != nil && !reconcile.AccountFault(b.Code) {
		err = fmt.Errorf("a block by %q", b.Code)
	}
	if err != nil {
		return accountRecord{}, problem("account_state", fmt.Sprintf("%s can't be read and is ignored: %v", path, err),
			"the next run writes it again; if its permissions are the reason, correct them", err)
	}
	return rec, nil
}

// exhausted finds the window that is used up and comes back last. A record from the future was written by a wrong clock and
// is ignored. An account with credits continues when its windows are used up.
func exhausted(rec accountRecord, now time.Time) *reconcile.Limit {
	if rec.At.After(now.Add(clockSlack)) {
		return nil
	}
	type member struct { // credits, or a window
		HasCredits  bool    `json:"hasCredits"`
		Unlimited   bool    `json:"unlimited"`
		UsedPercent float64 `json:"usedPercent"`
		ResetsAt    float64 `json:"resetsAt"`
	}
	var credits member
	if json.Unmarshal(rec.RateLimits["credits"], &credits) == nil && (credits.HasCredits || credits.Unlimited) {
		return nil
	}
	var last *reconcile.Limit
	for _, name := range []string{"primary", "secondary"} {
		var w member
		if json.Unmarshal(rec.RateLimits[name], &w) != nil || w.UsedPercent < 100 || w.ResetsAt <= 0 {
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

// SaveLimits merges a change of codex's rate-limit record into the stored one, member by member; a member that is null
// changes nothing. The record of the main limit replaces that of another limit; that of another limit is ignored beside
// the main one.
func (a *Account) SaveLimits(ctx context.Context, now time.Time, changed []byte) error {
	var update map[string]json.RawMessage
	if err := json.Unmarshal(changed, &update); err != nil {
		return fmt.Errorf("rate limits of %s: %w", a.Home, err)
	}
	maps.DeleteFunc(update, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
	return a.change(ctx, func(rec *accountRecord) bool {
		id, known := update["limitId"], rec.RateLimits["limitId"]
		switch {
		case id == nil || known == nil || slices.Equal(id, known):
		case string(known) == mainLimitID:
			return false
		default:
			rec.RateLimits = nil
		}
		was := rec.RateLimits
		rec.RateLimits = map[string]json.RawMessage{}
		maps.Copy(rec.RateLimits, was)
		maps.Copy(rec.RateLimits, update)
		if maps.EqualFunc(was, rec.RateLimits, slices.Equal) && !rec.At.After(now.Add(clockSlack)) {
			return false
		}
		rec.At = now.UTC()
		return true
	})
}

// Failed records the failure of login or allowance by which a run ended. Where the end of a used-up limit is known there is
// nothing to find out by trying, and so no block.
func (a *Account) Failed(ctx context.Context, now time.Time, code, message string) error {
	return a.change(ctx, func(rec *accountRecord) bool {
		if code == reconcile.CodeAgentQuota && exhausted(*rec, now) != nil {
			return false
		}
		next := accountBlock{Block: reconcile.Block{Since: now.UTC()}}
		if rec.Block != nil {
			next = *rec.Block
		}
		next.Block = next.After(code, message, now.UTC())
		rec.Block = &next
		return true
	})
}

// Worked records that a run which began at the given time finished a turn: a block that existed before it is over.
func (a *Account) Worked(ctx context.Context, now, began time.Time) error {
	over := func(rec accountRecord) bool { return rec.Block != nil && !began.Before(rec.Block.Since) }
	if rec, err := a.load(); err != nil || !over(rec) {
		return nil //nolint:nilerr // an unreadable file blocks nothing
	}
	return a.change(ctx, func(rec *accountRecord) bool {
		if !over(*rec) {
			return false
		}
		rec.Block, rec.OverAt = nil, now.UTC()
		return true
	})
}

// Probe records the run that is to show whether the block is over, by its alive file. Of all projects one probes at a time:
// a caller that has read an older block, or comes too early, gets reconcile.ErrConflict.
func (a *Account) Probe(ctx context.Context, now time.Time, read reconcile.Block, alive string) error {
	tried := false
	err := a.change(ctx, func(rec *accountRecord) bool {
		if rec.Block == nil || rec.Block.Tries != read.Tries {
			return false
		}
		b := rec.Block.Unstepped(now)
		b.Since = b.Since.Truncate(time.Millisecond) // as the run's start is stored
		if tried = !b.NextTry.After(now); tried {
			rec.Block = &accountBlock{Block: b.Tried(now.UTC()), Probe: alive}
		}
		return tried
	})
	if err == nil && !tried {
		return fmt.Errorf("the block of %s: %w", a.Home, reconcile.ErrConflict)
	}
	return err
}

// change lets f modify the record under the lock, and writes it if f returns true. An unreadable record is replaced.
func (a *Account) change(ctx context.Context, f func(rec *accountRecord) bool) error {
	unlock, err := a.lock(ctx, limitsLock)
	if err != nil {
		return err
	}
	defer unlock()
	rec, _ := a.load() // see above
	if !f(&rec) {
		return nil
	}
	rec.CodexHome = a.Home
	text, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	return a.fault("write "+limitsName, durable.WriteFile(filepath.Join(a.Dir, limitsName), append(text, '\n'), fileMode))
}

// lock takes one of the account's locks; it makes the directory if need be.
func (a *Account) lock(ctx context.Context, name string) (unlock func(), err error) {
	if err := checkFilesystem(a.Dir); err != nil {
		return nil, a.fault("use it", err)
	}
	if err := os.MkdirAll(a.Dir, dirMode); err != nil {
		return nil, a.fault("make it", err)
	}
	path := filepath.Join(a.Dir, name)
	l := flock.New(path, flock.SetPermissions(fileMode))
	ctx, cancel := context.WithTimeout(ctx, accountPatience)
	defer cancel()
	switch got, err := l.TryLockContext(ctx, accountPoll); {
	case err != nil && !errors.Is(err, context.DeadlineExceeded):
		return nil, a.fault("lock "+name, err)
	case !got:
		return nil, problem("account_state", fmt.Sprintf("state shared by the projects of %s: another process holds %s", a.Home, path),
			"see who has it open: fuser -v "+path+"; nothing is lost; symphony continues when that process releases it", err)
	}
	return func() { _ = l.Unlock() }, nil // closing the file releases it in any case
}

func (a *Account) fault(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return diskFull(a.Dir, "write what is known of the account", err)
	}
	return problem("account_state", fmt.Sprintf("state shared by the projects of %s, in %s: %s: %v", a.Home, a.Dir, doing, err),
		"check the permissions of that directory; XDG_STATE_HOME names another place", err)
}

const (
	slotsName = "slots"
	slotsLock = "slots.lock"
)

// TakeSlots locks free slots of the account, at most want of them, where SYMPHONY_MAX_AGENTS is limit. A slot is a file
// whose lock belongs to every process that has it open: the caller passes the files on to the workers that it starts, and
// closes the others. So a slot is free when its last holder is gone, however that ended.
//
// A locked slot beyond limit counts as taken, too: another project may have been given a larger number.
func (a *Account) TakeSlots(ctx context.Context, limit, want int) ([]*os.File, reconcile.Slots, error) {
	unlock, err := a.lock(ctx, slotsLock)
	if err != nil {
		return nil, reconcile.Slots{}, err
	}
	defer unlock()
	if err := os.MkdirAll(filepath.Join(a.Dir, slotsName), dirMode); err != nil {
		return nil, reconcile.Slots{}, a.fault("make "+slotsName, err)
	}
	free, taken, err := a.lockFreeSlots()
	count := reconcile.Slots{Taken: len(taken), Max: limit, Free: min(want, max(limit-len(taken), 0))}
	for n := 1; len(free) < count.Free && err == nil; n++ {
		name := strconv.Itoa(n)
		if slices.Contains(taken, name) || slices.ContainsFunc(free, func(f *os.File) bool { return filepath.Base(f.Name()) == name }) {
			continue
		}
		var f *os.File
		if f, err = a.lockSlot(name); f != nil {
			free = append(free, f)
		}
	}
	if err != nil {
		closeAll(free)
		return nil, reconcile.Slots{}, a.fault("lock a slot", err)
	}
	closeAll(free[count.Free:])
	return free[:count.Free:count.Free], count, nil
}

// CountSlots tells how many slots could be taken, and changes nothing.
func (a *Account) CountSlots(ctx context.Context, limit, want int) (reconcile.Slots, error) {
	count := reconcile.Slots{Max: limit, Free: min(want, limit)}
	if _, err := os.Stat(filepath.Join(a.Dir, slotsName)); errors.Is(err, fs.ErrNotExist) {
		return count, nil // no slot was ever taken
	}
	// Counting locks a slot for a moment; the lock keeps other passes from taking that for a worker.
	unlock, err := a.lock(ctx, slotsLock)
	if err != nil {
		return count, err
	}
	defer unlock()
	free, taken, err := a.lockFreeSlots()
	closeAll(free)
	count.Taken, count.Free = len(taken), min(want, max(limit-len(taken), 0))
	return count, a.fault("look at the slots", err)
}

// lockFreeSlots locks every existing slot that is free, and names the others.
func (a *Account) lockFreeSlots() (free []*os.File, taken []string, err error) {
	entries, err := os.ReadDir(filepath.Join(a.Dir, slotsName))
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		f, err := a.lockSlot(e.Name())
		switch {
		case err != nil:
			return free, taken, err
		case f == nil:
			taken = append(taken, e.Name())
		default:
			free = append(free, f)
		}
	}
	return free, taken, nil
}

// lockSlot opens and locks a slot, and makes it if need be; nil where another process holds it.
func (a *Account) lockSlot(name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(a.Dir, slotsName, name), os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, err
	}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
