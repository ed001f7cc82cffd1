package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Account is the worker's side of what all projects of one codex home share.
type Account interface {
	// SaveLimits keeps what has changed in codex's rate-limit record, an object of its members.
	SaveLimits(ctx context.Context, now time.Time, changed []byte) error
	// Failed notes the fault of login or allowance by which a run ended.
	Failed(ctx context.Context, now time.Time, code, message string) error
	// Worked notes that a run which began at the given time got a turn done.
	Worked(ctx context.Context, now, began time.Time) error
}

// limitsEvery is how often a worker tells what is left of the account's allowance.
const limitsEvery = time.Second

// limitsTeller tells other projects what codex says of the account's allowance: what has changed, at most once in
// limitsEvery, and the last in any case.
type limitsTeller struct {
	account Account
	now     func() time.Time
	log     *slog.Logger

	mu     sync.Mutex
	latest []byte                     // codex's record
	told   map[string]json.RawMessage // its members as they were told
	at     time.Time                  // when that was
	later  *time.Timer                // set while something waits to be told
}

// note takes codex's record as it is now.
func (t *limitsTeller) note(record []byte) {
	if t.account == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if record == nil || bytes.Equal(record, t.latest) {
		return
	}
	t.latest = bytes.Clone(record)
	wait := limitsEvery - time.Since(t.at)
	switch {
	case t.later != nil:
	case wait <= 0:
		t.tell()
	default:
		t.later = time.AfterFunc(wait, t.flush)
	}
}

// flush tells what has not been told yet.
func (t *limitsTeller) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.later != nil {
		t.later.Stop()
		t.later = nil
	}
	if t.latest != nil {
		t.tell()
	}
}

// tell writes the members that have changed. What could not be written is told with the next. mu is held.
func (t *limitsTeller) tell() {
	changed, members, err := changedMembers(t.latest, t.told)
	if err == nil && changed != nil {
		err = t.account.SaveLimits(context.Background(), t.now(), changed)
	}
	t.at = time.Now()
	if err != nil {
		t.log.Warn("rate limits not shared", slog.String("error", err.Error()))
		return
	}
	t.told = members
}

// changedMembers gives the members of a record that are not as they were, and which limit they belong to: what this
// worker has heard long ago must not replace what another has heard since. It gives nil where all is as it was.
func changedMembers(record []byte, before map[string]json.RawMessage) (changed []byte, members map[string]json.RawMessage, err error) {
	if err := json.Unmarshal(record, &members); err != nil {
		return nil, nil, fmt.Errorf("rate limits: %w", err)
	}
	if !bytes.Equal(members["limitId"], before["limitId"]) {
		before = nil // what was told is of another limit
	}
	news := map[string]json.RawMessage{}
	for name, value := range members {
		if !bytes.Equal(value, before[name]) {
			news[name] = value
		}
	}
	if len(news) == 0 {
		return nil, members, nil
	}
	if id, known := members["limitId"]; known {
		news["limitId"] = id
	}
	changed, err = json.Marshal(news)
	return changed, members, err
}

// tellAccount shares how the run ended, as far as that is the account's business. It comes before the outcome is
// recorded, so that no pass settles the run and starts another into the same fault.
func (a *attempt) tellAccount(ctx context.Context, code, message string) {
	if a.Account == nil {
		return
	}
	a.limits.flush()
	if !reconcile.AccountFault(code) {
		return
	}
	if err := a.Account.Failed(ctx, a.Now(), code, message); err != nil {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "fault of the account not shared", slog.String("error", err.Error()))
	}
}

// worked ends a block of the account that was there when the run began.
func (a *attempt) worked(ctx context.Context) {
	if a.Account == nil {
		return
	}
	if err := a.Account.Worked(context.WithoutCancel(ctx), a.Now(), a.run.StartedAt); err != nil {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "the account's block not ended", slog.String("error", err.Error()))
	}
}
