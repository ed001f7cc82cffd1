package reconcile

import (
	"context"
	"fmt"
	"time"
)

// Account is the state that all projects with the same codex home share, as a pass read it.
type Account struct {
	// Home is the codex home. Messages name the account by it.
	Home string
	// Limit is a part of the account's allowance that is used up; nil where none is known.
	Limit *Limit
	// Block is a fault of login or allowance that a run of any project met; nil for none. Probing: a run that tests whether
	// the fault is over is alive.
	Block   *Block
	Probing bool
	// Over is when a limit or a block last ended, zero where that is not known. Faults of runs that began before are
	// outdated.
	Over time.Time
	// Slots bound the live runs; nil where there is no bound, or where this pass has not asked for it.
	Slots *Slots
}

// Limit is a window of the account's allowance that is used up.
type Limit struct {
	Window       string // codex's word: primary, secondary
	Since, Until time.Time
}

// Slots are the runs that SYMPHONY_MAX_AGENTS allows an account.
type Slots struct {
	Free  int // for this pass to use
	Taken int // by live runs, and by passes that are about to start runs
	Max   int
}

// Accounts is the interface of a pass to the account.
type Accounts interface {
	// Look reads the state. An account whose state can't be read counts as one without faults.
	Look(ctx context.Context, now time.Time) Account
	// TakeSlots reserves free slots for the workers that this pass starts, at most want in all, and returns what the pass
	// has; a dry run only counts. Nil: the number of runs is not bounded.
	TakeSlots(ctx context.Context, want int, dryRun bool) (*Slots, error)
	// Release gives back the slots that were not used.
	Release()
	// Probe records that the run, which is stored next, tests whether the block is over. If another project was first, or
	// the block is over, the error wraps ErrConflict and nothing was written. The record has the time of the run's start,
	// so that the run counts as started under the block.
	Probe(ctx context.Context, b Block, run Run) error
}

// MaxAgentsVar bounds the live runs of an account over all projects.
const MaxAgentsVar = "SYMPHONY_MAX_AGENTS"

// Text says what is used up and until when, in the time zone of now.
func (l Limit) Text(home string, now time.Time) string {
	until, layout := l.Until.In(now.Location()), "15:04"
	if y, m, d := now.Date(); !until.Before(time.Date(y, m, d+1, 0, 0, 0, 0, now.Location())) {
		layout = "2 Jan 15:04"
	}
	return fmt.Sprintf("codex's %s limit of %s is used up until %s", l.Window, home, until.Format(layout))
}

// shared reports whether the account has the fault that a run ended with, or has it behind it. The project then needs no
// block of its own.
func (a Account) shared(r Run) bool {
	return AccountFault(r.ErrorCode) && (a.Block != nil || a.Over.After(r.StartedAt)) || r.ErrorCode == CodeAgentQuota && a.Limit != nil
}
