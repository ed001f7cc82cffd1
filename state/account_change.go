package state

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// mainLimitID is the limit that counts for agents; others are those of single models.
const mainLimitID = `"codex"`

// SaveLimits puts what has changed in codex's rate-limit record over what is known: an object, member by member; a
// member that is null clears nothing. The record of another limit replaces one that is not the main limit's, and is
// left out beside that.
func (a *Account) SaveLimits(ctx context.Context, now time.Time, changed []byte) error {
	var update map[string]json.RawMessage
	if err := json.Unmarshal(changed, &update); err != nil {
		return fmt.Errorf("rate limits of %s: %w", a.Home, err)
	}
	maps.DeleteFunc(update, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
	return a.change(ctx, now, func(rec *accountRecord) bool {
		id, known := update["limitId"], rec.RateLimits["limitId"]
		switch {
		case id == nil || known == nil || bytes.Equal(id, known):
		case string(known) == mainLimitID:
			return false
		default:
			rec.RateLimits = nil
		}
		next := maps.Clone(rec.RateLimits)
		if next == nil {
			next = map[string]json.RawMessage{}
		}
		maps.Copy(next, update)
		same := maps.EqualFunc(next, rec.RateLimits, func(x, y json.RawMessage) bool { return bytes.Equal(x, y) })
		if same && !rec.At.After(now.Add(clockSlack)) {
			return false
		}
		rec.RateLimits, rec.At = next, now.UTC()
		return true
	})
}

// Failed notes the fault of login or allowance by which a run ended. Where it is known until when a limit is used up
// there is nothing to find out by trying, and so no block.
func (a *Account) Failed(ctx context.Context, now time.Time, code, message string) error {
	return a.change(ctx, now, func(rec *accountRecord) bool {
		if code == reconcile.CodeAgentQuota && exhausted(*rec, now) != nil {
			return false
		}
		var old *reconcile.Block
		probe := ""
		if rec.Block != nil {
			old, probe = &rec.Block.Block, rec.Block.Probe
		}
		next := accountBlock{Block: old.After(code, message, now.UTC()), Probe: probe}
		rec.Block = &next
		return true
	})
}

// Worked notes that a run which began at the given time got a turn done: a block that was there before it is over.
func (a *Account) Worked(ctx context.Context, now, began time.Time) error {
	over := func(rec accountRecord) bool { return rec.Block != nil && !began.Before(rec.Block.Since) }
	if rec, err := a.load(); err != nil || !over(rec) {
		return nil //nolint:nilerr // what can't be read blocks nobody
	}
	return a.change(ctx, now, func(rec *accountRecord) bool {
		was := over(*rec)
		if was {
			rec.Block, rec.OverAt = nil, now.UTC()
		}
		return was
	})
}

// Probe notes the run that is to show whether the block is over, by its alive file. One who has read an older block
// than there is, or comes too early, gets reconcile.ErrConflict: of all projects one tries at a time.
func (a *Account) Probe(ctx context.Context, now time.Time, read reconcile.Block, alive string) error {
	tried := false
	err := a.change(ctx, now, func(rec *accountRecord) bool {
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
