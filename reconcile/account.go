package reconcile

import (
	"context"
	"fmt"
	"time"
)

// Account is what all projects that use one codex home share, as a pass has found it (design: whose fault).
type Account struct {
	// Home is the codex home, by which people know the account.
	Home string
	// Limit is a part of the account's allowance that is used up; nil where none is known to be.
	Limit *Limit
	// Block is a fault of login or allowance that some run met, of whatever project; nil for none. Probing: a run that
	// was started to see whether it is over lives.
	Block   *Block
	Probing bool
	// Over is when a limit or a block was last over, zero where that is not known: what a run says of them that began
	// before is of no concern any more.
	Over time.Time
	// Slots bound the live runs; nil where nothing does, or nobody has asked in this pass.
	Slots *Slots
}

// Limit is a window of the account's allowance that is used up.
type Limit struct {
	Window string // codex's word: primary, secondary
	Since  time.Time
	Until  time.Time
}

// Slots are the places that SYMPHONY_MAX_AGENTS gives to the runs of one account.
type Slots struct {
	Free  int // those that the pass may give away
	Taken int // by live runs, and by passes that are about to start some
	Max   int
}

// Accounts is what a pass needs of the account.
type Accounts interface {
	// Look reads what is known. Where that can't be read the account counts as one without faults.
	Look(ctx context.Context, now time.Time) Account
	// TakeSlots keeps free slots for the workers that this pass starts, at most want of them and the earlier ones
	// included, and says what it has; a dry run only counts. Nil: the number of runs is not bounded.
	TakeSlots(ctx context.Context, want int, dryRun bool) (*Slots, error)
	// Release gives back the slots that no worker was started with.
	Release()
	// Probe notes that the run, which is about to be stored, is to show whether the block is over. Where another
	// project was quicker, or it is over, the error wraps ErrConflict, and nothing was written. It is done as of the run's
	// start, so that the run counts as started under the block.
	Probe(ctx context.Context, b Block, run Run) error
}

// MaxAgentsVar bounds the live runs of an account over all projects.
const MaxAgentsVar = "SYMPHONY_MAX_AGENTS"

// Text says what is used up and until when, by now's clock.
func (l Limit) Text(home string, now time.Time) string {
	until, layout := l.Until.In(now.Location()), "15:04"
	if y, m, d := now.Date(); !until.Before(time.Date(y, m, d+1, 0, 0, 0, 0, now.Location())) {
		layout = "2 Jan 15:04"
	}
	return fmt.Sprintf("codex's %s limit of %s is used up until %s", l.Window, home, until.Format(layout))
}

// After is the block as a run leaves it that ended at the given time by such a fault; b is the one that was there, nil
// for none.
func (b *Block) After(code, message string, ended time.Time) Block {
	next := Block{Since: ended}
	if b != nil {
		next = *b
	}
	next.Code, next.Message = code, message
	if at := ended.Add(Delay(next.Tries+1, longestProbe)); at.After(next.NextTry) {
		next.NextTry = at
	}
	return next
}

// Tried is the block when a run is started to see whether it is over.
func (b Block) Tried(now time.Time) Block {
	b.Tries++
	b.NextTry = now.Add(Delay(b.Tries+1, longestProbe))
	return b
}

// Unstepped is the block without what only a stepped clock can have put into it: then the next try is due now.
func (b Block) Unstepped(now time.Time) Block {
	if b.Since.After(now) {
		b.Since = now
	}
	if b.NextTry.After(now.Add(longestProbe)) {
		b.NextTry = now
	}
	return b
}
