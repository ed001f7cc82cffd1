package wiring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	forge "github.com/symphony-cron/symphony/forge/github"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/state"
	"github.com/symphony-cron/symphony/tracker/github"
)

// OpenAccount opens the codex account that the project's agents use. An account is identified
// by its codex home.
func OpenAccount(p *Project, codexHome string) *state.Account {
	fromEnv, _ := p.Lookup("CODEX_HOME")
	home := cmp.Or(codexHome, fromEnv, filepath.Join(p.Env.Home, ".codex"))
	if !filepath.IsAbs(home) {
		// the same for every process of the project
		home = filepath.Join(filepath.Dir(p.Path), home)
	}
	base, _ := p.Lookup("XDG_STATE_HOME")
	return state.NewAccount(base, p.Env.Home, home)
}

// MaxAgents is the limit of live runs over all projects of the account; 0 for no limit.
func MaxAgents(p *Project) (int, error) {
	value, _ := p.Lookup(reconcile.MaxAgentsVar)
	if value == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		where := "the environment"
		if _, inEnv := p.Env.Lookup(reconcile.MaxAgentsVar); !inEnv {
			where = p.EnvPath()
		}
		return 0, reconcile.NewError(
			"invalid_config",
			fmt.Sprintf("%s: %s is %q", where, reconcile.MaxAgentsVar, value),
			"set it to a whole number of at least 1, or unset it; until then no run starts",
		)
	}
	return n, nil
}

// PassAccount is the account as a pass uses it.
type PassAccount struct {
	*state.Account
	stateDir string
	max      int // 0: the number of runs is not bounded
	warn     func(string)
	warned   sync.Once
	slots    chan *os.File // taken, not yet passed to a worker
}

// Look implements reconcile.Accounts.
func (a *PassAccount) Look(_ context.Context, now time.Time) reconcile.Account {
	s, err := a.Read(now)
	if err != nil {
		a.warned.Do(func() { a.warn(exit.From(err).Message) })
	}
	out := reconcile.Account{Home: a.Home, Limit: s.Limit, Block: s.Block, Over: s.Over}
	if s.Probe != "" {
		// The worker of the probe holds its alive file as long as it lives. If the file can't
		// be read, the probe counts as ended: otherwise no further run would test the block.
		pulse, err := proc.ProbeAlive(s.Probe)
		out.Probing = err == nil && pulse.Held
	}
	return out
}

// TakeSlots implements reconcile.Accounts.
func (a *PassAccount) TakeSlots(ctx context.Context, want, lent int, dryRun bool) (*reconcile.Slots, error) {
	if a.max == 0 {
		return nil, nil
	}
	most := reconcile.WithLent(a.max, lent)
	if dryRun {
		count, err := a.CountSlots(ctx, most, want)
		count.Max = a.max
		return &count, err
	}
	a.Release()
	slots, count, err := a.Account.TakeSlots(ctx, most, want)
	count.Max = a.max
	a.slots = make(chan *os.File, len(slots))
	for _, f := range slots {
		a.slots <- f
	}
	return &count, err
}

// NextSlot hands out a slot that was taken earlier, nil if the number of runs is not bounded.
func (a *PassAccount) NextSlot() (*os.File, error) {
	if a.max == 0 {
		return nil, nil
	}
	select {
	case slot := <-a.slots:
		return slot, nil
	default:
		return nil, reconcile.NewError(
			reconcile.CodeSpawnFailed,
			"no slot of "+reconcile.MaxAgentsVar+" is left",
			"the next pass tries again",
		)
	}
}

// Release implements reconcile.Accounts.
func (a *PassAccount) Release() {
	for {
		select {
		case f := <-a.slots:
			f.Close()
		default:
			return
		}
	}
}

// Probe implements reconcile.Accounts.
func (a *PassAccount) Probe(ctx context.Context, b reconcile.Block, run reconcile.Run) error {
	return a.Account.Probe(ctx, run.StartedAt, b, AliveFile(a.stateDir, run.ID))
}

// OpenPassAccount opens the account for a pass. A wrong limit counts as none here: the pass
// reports it and starts nothing.
func OpenPassAccount(p *Project, codexHome string, warn func(string)) *PassAccount {
	most, _ := MaxAgents(p)
	return &PassAccount{
		Account:  OpenAccount(p, codexHome),
		stateDir: p.StateDir,
		max:      most,
		warn:     warn,
	}
}

// LowKey names, in the database, the time until which the tracker's allowance counts as low.
const LowKey = "tracker_low_until"

// ForgetLimits makes the next pass ask the tracker, whatever its answers so far said about its
// allowance.
func ForgetLimits(ctx context.Context, db *state.DB) error {
	return errors.Join(
		db.SetMeta(ctx, LowKey, ""),
		db.SetMeta(ctx, github.LimitKey, ""),
		db.SetMeta(ctx, forge.LimitKey, ""),
	)
}

// longestLow limits the effect of a wrong clock. The tracker's rate limit windows are an hour
// long.
const longestLow = 2 * time.Hour

// LowUntil returns when the tracker's allowance is full again, if less than a tenth was left
// at the last answer; otherwise a time in the past.
func LowUntil(ctx context.Context, p *Project, db *state.DB) (time.Time, error) {
	stored, _, err := db.Meta(ctx, LowKey)
	if err != nil || stored == "" {
		return time.Time{}, err
	}
	until, err := time.Parse(time.RFC3339, stored)
	if err != nil {
		return time.Time{}, err
	}
	if until.After(p.Env.Now().Add(longestLow)) {
		return time.Time{}, nil
	}
	return until, nil
}

// BlockedRow is a condition that keeps all issues of a project from starting.
type BlockedRow struct {
	Since   time.Time `json:"since"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	NextTry time.Time `json:"next_try"`
	// Until is when the block ends by itself, where that is known.
	Until *time.Time `json:"until"`
	// Status is the status of the HTTP answer that was the fault, such as 503; 0 for other
	// faults.
	Status int `json:"-"`
}

// BlockedBy returns the most important block, nil for none. A block of the tracker comes
// first.
func BlockedBy(rec reconcile.State) *BlockedRow {
	b := cmp.Or(rec.TrackerBlock, rec.MachineBlock, rec.AgentBlock)
	if b == nil {
		return nil
	}
	return &BlockedRow{
		Since:   b.Since.UTC(),
		Reason:  b.Code,
		Message: b.Message,
		NextTry: b.NextTry.UTC(),
		Status:  b.Status,
	}
}

// AccountBlock returns the condition that stops all projects of the account, nil for none. An
// account that can't be read stops nothing, and each pass reports it.
func AccountBlock(a *state.Account, now time.Time) *BlockedRow {
	s, err := a.Read(now)
	if err != nil {
		return nil
	}
	switch {
	case s.Limit != nil:
		until := s.Limit.Until.UTC()
		return &BlockedRow{
			Since:   s.Limit.Since.UTC(),
			Reason:  reconcile.CodeAgentQuota,
			Message: s.Limit.Text(a.Home, now),
			NextTry: until,
			Until:   &until,
		}
	case s.Block != nil:
		return &BlockedRow{
			Since:   s.Block.Since.UTC(),
			Reason:  s.Block.Code,
			Message: s.Block.Message,
			NextTry: s.Block.NextTry.UTC(),
		}
	}
	return nil
}
