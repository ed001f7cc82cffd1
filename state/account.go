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

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/lock"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	accountsName = "accounts"
	trackersName = "trackers"
	limitsName   = "limits.json"
	limitsLock   = "limits.lock"

	// accountPatience limits the wait for a lock of the account. Its holder only writes a
	// small file.
	accountPatience = 2 * time.Second
	// startPatience limits the wait for a pass of another project that starts its workers.
	startPatience = 20 * time.Second
	// longestWindow is a day more than the agent's longest window. It limits how long a wrong
	// clock can block a project.
	longestWindow = 8 * 24 * time.Hour
	// clockSlack is how far in the future the time of a record may be.
	clockSlack = time.Minute
	// mainLimitID is the id, as JSON, of the limit that applies to agents. Each other limit
	// applies to a single model.
	mainLimitID = `"codex"`
)

// Account is shared by all projects whose agents have their login in the same directory, such as
// ~/.claude: the account's rate limits, a block after a failure of login or
// allowance, and the slots of SYMPHONY_MAX_AGENTS. It is stored in files of a directory in the
// state home, which the first write creates. Passes read limits.json without a lock; writers
// take turns.
type Account struct {
	Home string // the directory of the login, resolved
	Dir  string
}

// NewAccount returns the account with the login in a directory, which is an absolute path,
// without reading or creating anything. xdgStateHome and home mean the same as in DefaultDir.
func NewAccount(xdgStateHome, home, login string) *Account {
	resolved := resolve(login)
	return &Account{
		Home: resolved,
		Dir:  filepath.Join(stateHome(xdgStateHome, home), accountsName, pathHash(resolved)),
	}
}

// LockTracker keeps all other projects of the account from starting runs for the issues of a
// tracker's project (its endpoint and slug). xdgStateHome and home mean the same as in
// DefaultDir.
func LockTracker(ctx context.Context, xdgStateHome, home, project string) (unlock func(), err error) {
	a := &Account{
		Home: project,
		Dir:  filepath.Join(stateHome(xdgStateHome, home), accountsName, trackersName),
	}
	unlock, err = a.lock(ctx, pathHash(project)+".lock", startPatience)
	if errors.Is(err, context.DeadlineExceeded) {
		err = problem(
			"account_state",
			"a pass of another project with the issues of "+project+" is starting its runs",
			"the next pass starts what is due",
			err,
		)
	}
	return unlock, err
}

// AgentHome is the home of agents that use this account without the operator's rules and
// programs.
func (a *Account) AgentHome() string { return filepath.Join(a.Dir, "codex") }

// LimitsFile is the path of the file with the rate limits and the block.
func (a *Account) LimitsFile() string { return filepath.Join(a.Dir, limitsName) }

// accountRecord is the content of limits.json.
type accountRecord struct {
	CodexHome string `json:"codex_home"`
	// RateLimits is the agent's rate-limit record with its sparse updates merged; At is the time
	// of its last change.
	RateLimits map[string]json.RawMessage `json:"rate_limits,omitempty"`
	At         time.Time                  `json:"at"`
	Block      *accountBlock              `json:"block"`
	OverAt     time.Time                  `json:"over_at,omitzero"` // when the last block ended
}

type accountBlock struct {
	reconcile.Block
	// Probe is the alive file of the run that was started to find out whether the block is
	// over.
	Probe string `json:"probe,omitempty"`
}

// AccountState is the result of Read.
type AccountState struct {
	Limit *reconcile.Limit // the used-up limit, nil for none
	Block *reconcile.Block // nil for none
	Probe string           // the alive file of the run that probes the block, empty for none
	// Since is the start of the block as it was stored. It is in the future if the clock was
	// ahead then.
	Since time.Time
	// Over is when the last limit or block ended, zero if unknown.
	Over time.Time
}

// Read returns the limit and the block that apply at a time. On an error, with the code
// account_state, neither is known.
func (a *Account) Read(now time.Time) (AccountState, error) {
	rec, err := a.load()
	if err != nil {
		return AccountState{}, err
	}
	s := AccountState{Limit: exhausted(rec, now), Over: rec.OverAt}
	was := exhausted(rec, rec.At)
	if s.Limit == nil && was != nil && was.Until.After(s.Over) {
		s.Over = was.Until
	}
	if s.Over.After(now) {
		s.Over = time.Time{} // the clock was ahead
	}
	if rec.Block != nil {
		b := rec.Block.Clamped(now)
		s.Block = &b
		s.Probe = rec.Block.Probe
		s.Since = rec.Block.Since
	}
	return s, nil
}

// load reads limits.json. If it does not exist the record is empty.
func (a *Account) load() (accountRecord, error) {
	path := a.LimitsFile()
	rec, err := readAccount(path)
	if err != nil {
		return accountRecord{}, problem(
			"account_state",
			fmt.Sprintf("%s can't be read and is ignored: %v", path, err),
			"correct its permissions if they are the cause; otherwise the next run replaces it",
			err,
		)
	}
	return rec, nil
}

func readAccount(path string) (rec accountRecord, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return rec, nil
	}
	if err != nil {
		return rec, err
	}
	if err := json.Unmarshal(text, &rec); err != nil {
		return rec, err
	}
	if rec.Block != nil && !reconcile.AccountFault(rec.Block.Code) {
		return rec, fmt.Errorf("unknown block %q", rec.Block.Code)
	}
	return rec, nil
}

// windowNames are the members of the agent's rate-limit record that are windows.
var windowNames = []string{"primary", "secondary"}

// exhausted returns the used-up window that is reset last; nil for none. It ignores a record
// from the future, which was written by a wrong clock. An account with credits can go on after
// its windows are used up.
func exhausted(rec accountRecord, now time.Time) *reconcile.Limit {
	if rec.At.After(now.Add(clockSlack)) || rec.hasCredits() {
		return nil
	}
	var last *reconcile.Limit
	for _, w := range rec.windows() {
		isUsedUp := w.UsedPercent >= 100 && w.ResetsAt.After(now)
		if isUsedUp && (last == nil || w.ResetsAt.After(last.Until)) {
			last = &reconcile.Limit{Window: w.Name, Since: w.At, Until: w.ResetsAt}
		}
	}
	return last
}

func (rec accountRecord) hasCredits() bool {
	var credits struct {
		HasCredits bool `json:"hasCredits"`
		Unlimited  bool `json:"unlimited"`
	}
	if json.Unmarshal(rec.RateLimits["credits"], &credits) != nil {
		return false
	}
	return credits.HasCredits || credits.Unlimited
}

// Window is a window of the account's rate limits, as the agent described it last.
type Window struct {
	Name        string // primary or secondary
	UsedPercent float64
	Length      time.Duration // 0 if it is not known
	ResetsAt    time.Time     // zero if it is not known; at most 8 days after At
	At          time.Time     // when the agent said so
}

// Windows returns the windows of the account's rate limits that have not been reset since.
func (a *Account) Windows(now time.Time) (list []Window, err error) {
	rec, err := a.load()
	if err != nil {
		return nil, err
	}
	hasEnded := func(w Window) bool { return !w.ResetsAt.IsZero() && !w.ResetsAt.After(now) }
	return slices.DeleteFunc(rec.windows(), hasEnded), nil
}

// windows returns the windows in the agent's rate-limit record, also those that were reset since.
func (rec accountRecord) windows() (list []Window) {
	for _, name := range windowNames {
		var stored struct {
			UsedPercent *float64 `json:"usedPercent"`
			Minutes     float64  `json:"windowDurationMins"`
			ResetsAt    float64  `json:"resetsAt"` // seconds since 1970
		}
		if json.Unmarshal(rec.RateLimits[name], &stored) != nil || stored.UsedPercent == nil {
			continue
		}
		w := Window{
			Name:        name,
			UsedPercent: *stored.UsedPercent,
			Length:      time.Duration(stored.Minutes) * time.Minute,
			At:          rec.At,
		}
		if stored.ResetsAt > 0 {
			w.ResetsAt = rec.At.Add(longestWindow)
		}
		if stored.ResetsAt > 0 && stored.ResetsAt < float64(w.ResetsAt.Unix()) {
			w.ResetsAt = time.Unix(int64(stored.ResetsAt), 0).UTC()
		}
		list = append(list, w)
	}
	return list
}

// SaveLimits merges an update of the agent's rate-limit record, as JSON, into the stored record,
// member by member. A null member changes nothing. The record of the main limit replaces the
// record of any other limit, and is never replaced by another.
func (a *Account) SaveLimits(ctx context.Context, now time.Time, changed []byte) error {
	var update map[string]json.RawMessage
	if err := json.Unmarshal(changed, &update); err != nil {
		return fmt.Errorf("rate limits of %s: %w", a.Home, err)
	}
	maps.DeleteFunc(update, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
	return a.change(ctx, func(rec *accountRecord) bool {
		id := update["limitId"]
		known := rec.RateLimits["limitId"]
		isOther := id != nil && known != nil && !slices.Equal(id, known)
		if isOther && string(known) == mainLimitID {
			return false
		}
		if isOther {
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

// Failed records that a run ended by a failure of login or allowance, and blocks the account.
// If the end of a used-up limit is known, there is nothing to find out by a probe, and so no
// block.
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

// Worked records that a run that began at a time finished a turn. This ends a block that is
// older than the run.
func (a *Account) Worked(ctx context.Context, now, began time.Time) error {
	over := func(rec accountRecord) bool { return rec.Block != nil && !began.Before(rec.Block.Since) }
	rec, err := a.load()
	if err != nil || !over(rec) {
		return nil //nolint:nilerr // an unreadable file blocks nothing
	}
	return a.change(ctx, func(rec *accountRecord) bool {
		if !over(*rec) {
			return false
		}
		rec.Block = nil
		rec.OverAt = now.UTC()
		return true
	})
}

// Probe records the alive file of the run that is to show whether the block is over. Only a
// single project probes at a time: the error is reconcile.ErrConflict if the block changed
// since the caller read it, or if its next try is not due. A zero NextTry means that an
// operator asks for the run, whenever the next try is due.
func (a *Account) Probe(ctx context.Context, now time.Time, read reconcile.Block, alive string) error {
	tried := false
	err := a.change(ctx, func(rec *accountRecord) bool {
		if rec.Block == nil || rec.Block.Tries != read.Tries {
			return false
		}
		b := rec.Block.Clamped(now)
		if b.NextTry.After(now) && !read.NextTry.IsZero() {
			return false
		}
		b.Since = b.Since.Truncate(time.Millisecond) // as the run's start is stored
		rec.Block = &accountBlock{Block: b.Tried(now.UTC()), Probe: alive}
		tried = true
		return true
	})
	if err != nil {
		return err
	}
	if !tried {
		return fmt.Errorf("the block of %s: %w", a.Home, reconcile.ErrConflict)
	}
	return nil
}

// TryNow makes the next try of a block due.
func (a *Account) TryNow(ctx context.Context, now time.Time) error {
	rec, err := a.load()
	if err != nil || rec.Block == nil {
		return nil //nolint:nilerr // an unreadable file blocks nothing
	}
	return a.change(ctx, func(rec *accountRecord) bool {
		if rec.Block == nil || !rec.Block.NextTry.After(now) {
			return false
		}
		rec.Block.NextTry = now.UTC()
		return true
	})
}

// Forget ends the block and the limit. If the account is still refused, the next run finds
// out.
func (a *Account) Forget(ctx context.Context, now time.Time) error {
	rec, err := a.load()
	if err != nil || rec.Block == nil && exhausted(rec, now) == nil {
		return nil //nolint:nilerr // an unreadable file blocks nothing
	}
	return a.change(ctx, func(rec *accountRecord) bool {
		rec.Block = nil
		rec.RateLimits = nil
		rec.OverAt = now.UTC()
		return true
	})
}

// change calls f under the lock to modify the record, and writes the record if f returns true.
func (a *Account) change(ctx context.Context, f func(rec *accountRecord) bool) error {
	unlock, err := a.lock(ctx, limitsLock, accountPatience)
	if err != nil {
		return err
	}
	defer unlock()
	rec, _ := a.load() // an unreadable record is replaced by an empty record
	if !f(&rec) {
		return nil
	}
	rec.CodexHome = a.Home
	err = durable.WriteFile(a.LimitsFile(), append(text.JSON(rec), '\n'), fileMode)
	return a.fault("write "+limitsName, err)
}

// lock takes a lock of the account, and creates the directory if necessary.
func (a *Account) lock(ctx context.Context, name string, patience time.Duration) (unlock func(), err error) {
	if err := checkFilesystem(a.Dir); err != nil {
		return nil, a.fault("use it", err)
	}
	if err := os.MkdirAll(a.Dir, dirMode); err != nil {
		return nil, a.fault("create it", err)
	}
	path := filepath.Join(a.Dir, name)
	file, err := lock.Take(ctx, path, lock.Exclusive, patience)
	switch {
	case errors.Is(err, context.Canceled):
		return nil, err
	case errors.Is(err, lock.ErrHeld), errors.Is(err, context.DeadlineExceeded):
		return nil, problem(
			"account_state",
			fmt.Sprintf("shared state of the projects of %s: another process keeps %s locked", a.Home, path),
			"find that process: fuser -v "+path+"; nothing is lost, symphony continues when it releases the file",
			err,
		)
	case err != nil:
		return nil, a.fault("lock "+name, err)
	}
	return func() { _ = lock.Release(file) }, nil
}

func (a *Account) fault(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case paths.IsFull(err):
		return diskFull(a.Dir, "write the state of the account", err)
	}
	return problem(
		"account_state",
		fmt.Sprintf("shared state of the projects of %s, in %s: %s: %v", a.Home, a.Dir, doing, err),
		"check the permissions of that directory, or choose another place with XDG_STATE_HOME",
		err,
	)
}

const (
	slotsName = "slots"
	slotsLock = "slots.lock"
)

// TakeSlots locks free slots of the account, at most want of them. limit is
// SYMPHONY_MAX_AGENTS. A slot is a file with a lock that belongs to every process that
// inherited the open file: the caller passes the files on to the workers that it starts and
// closes the others. So a slot is free as soon as its last holder ended in any way.
//
// A locked slot above limit counts as taken, too, because another project may have a higher
// limit.
func (a *Account) TakeSlots(ctx context.Context, limit, want int) ([]*os.File, reconcile.Slots, error) {
	unlock, err := a.lock(ctx, slotsLock, accountPatience)
	if err != nil {
		return nil, reconcile.Slots{}, err
	}
	defer unlock()
	if err := os.MkdirAll(filepath.Join(a.Dir, slotsName), dirMode); err != nil {
		return nil, reconcile.Slots{}, a.fault("create "+slotsName, err)
	}
	free, taken, err := a.lockFreeSlots()
	count := reconcile.Slots{
		Taken: len(taken),
		Max:   limit,
		Free:  min(want, max(limit-len(taken), 0)),
	}
	if err == nil {
		free, err = a.addSlots(free, taken, count.Free)
	}
	if err != nil {
		closeAll(free)
		return nil, reconcile.Slots{}, a.fault("lock a slot", err)
	}
	closeAll(free[count.Free:])
	return free[:count.Free:count.Free], count, nil
}

// addSlots creates and locks slots with new names until there are as many free ones as wanted.
// It returns all that are locked, also with an error.
func (a *Account) addSlots(free []*os.File, taken []string, want int) ([]*os.File, error) {
	for n := 1; len(free) < want; n++ {
		name := strconv.Itoa(n)
		isFree := slices.ContainsFunc(free, func(f *os.File) bool { return filepath.Base(f.Name()) == name })
		if isFree || slices.Contains(taken, name) {
			continue
		}
		f, err := a.lockSlot(name)
		if err != nil {
			return free, err
		}
		if f != nil {
			free = append(free, f)
		}
	}
	return free, nil
}

// CountSlots returns how many slots TakeSlots could take, and changes nothing.
func (a *Account) CountSlots(ctx context.Context, limit, want int) (reconcile.Slots, error) {
	count := reconcile.Slots{Max: limit, Free: min(want, limit)}
	if _, err := os.Stat(filepath.Join(a.Dir, slotsName)); errors.Is(err, fs.ErrNotExist) {
		return count, nil // no slot was ever taken
	}
	// Counting locks each slot for a moment. Without this lock another pass would mistake that
	// for a worker.
	unlock, err := a.lock(ctx, slotsLock, accountPatience)
	if err != nil {
		return count, err
	}
	defer unlock()
	free, taken, err := a.lockFreeSlots()
	closeAll(free)
	count.Taken = len(taken)
	count.Free = min(want, max(limit-len(taken), 0))
	return count, a.fault("count the slots", err)
}

// lockFreeSlots locks every existing slot that is free, and returns the names of the others.
func (a *Account) lockFreeSlots() (free []*os.File, taken []string, err error) {
	entries, err := os.ReadDir(filepath.Join(a.Dir, slotsName))
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		f, err := a.lockSlot(e.Name())
		if err != nil {
			return free, taken, err
		}
		if f == nil {
			taken = append(taken, e.Name())
		} else {
			free = append(free, f)
		}
	}
	return free, taken, nil
}

// lockSlot opens and locks a slot, and creates it if necessary; nil if another process holds
// it.
func (a *Account) lockSlot(name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(a.Dir, slotsName, name), os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, err
	}
	err = lock.Try(f, lock.Exclusive, 0)
	if errors.Is(err, lock.ErrHeld) {
		f.Close()
		return nil, nil
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
