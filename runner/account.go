package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Account is the worker's side of what all projects of one codex home share.
type Account interface {
	// SaveLimits stores the changed members of codex's rate-limit record.
	SaveLimits(ctx context.Context, now time.Time, changed []byte) error
	// Failed stores the fault of login or quota by which a run ended.
	Failed(ctx context.Context, now time.Time, code, message string) error
	// Worked stores that a run which began at the given time completed a turn.
	Worked(ctx context.Context, now, began time.Time) error
}

// limitsReporter passes codex's rate limits on to the account, from the goroutine of the agent's events.
type limitsReporter struct {
	account Account // nil: limits are not shared
	now     func() time.Time
	log     *slog.Logger

	last   []byte                     // the record that was reported last
	shared map[string]json.RawMessage // its members as they were stored
}

// report stores the members that have changed. What could not be stored is repeated with the next change.
func (r *limitsReporter) report(ctx context.Context, record []byte) {
	if r.account == nil || record == nil || bytes.Equal(record, r.last) {
		return
	}
	r.last = bytes.Clone(record)
	changed, members, err := changedMembers(record, r.shared)
	if err == nil && changed != nil {
		err = r.account.SaveLimits(ctx, r.now(), changed)
	}
	if err != nil {
		r.log.Warn("rate limits not shared", slog.String("error", err.Error()))
		return
	}
	r.shared = members
}

// changedMembers returns the members of a record that differ from before, with the name of their limit; nil if none
// does. Only those are stored, because an old value of this worker must not replace a newer one of another worker.
func changedMembers(record []byte, before map[string]json.RawMessage) (changed []byte, members map[string]json.RawMessage, err error) {
	if err := json.Unmarshal(record, &members); err != nil {
		return nil, nil, fmt.Errorf("rate limits: %w", err)
	}
	if !bytes.Equal(members["limitId"], before["limitId"]) {
		before = nil // it belongs to another limit
	}
	differing := map[string]json.RawMessage{}
	for name, value := range members {
		if !bytes.Equal(value, before[name]) {
			differing[name] = value
		}
	}
	if len(differing) == 0 {
		return nil, members, nil
	}
	if id, known := members["limitId"]; known {
		differing["limitId"] = id
	}
	changed, err = json.Marshal(differing)
	return changed, members, err
}

// shareFault stores a fault of the account by which the run ended. It comes before the outcome, so that no pass settles the
// run and starts another into the same fault.
func (j *job) shareFault(ctx context.Context, code, message string) {
	if j.Account == nil || !reconcile.AccountFault(code) {
		return
	}
	if err := j.Account.Failed(ctx, j.Now(), code, message); err != nil {
		j.Log.LogAttrs(ctx, slog.LevelWarn, "fault of the account not shared", slog.String("error", err.Error()))
	}
}

// shareSuccess ends a block of the account that was there when the run began.
func (j *job) shareSuccess(ctx context.Context) {
	if j.Account == nil {
		return
	}
	if err := j.Account.Worked(context.WithoutCancel(ctx), j.Now(), j.run.StartedAt); err != nil {
		j.Log.LogAttrs(ctx, slog.LevelWarn, "block of the account not ended", slog.String("error", err.Error()))
	}
}

// overBudgetGrace is how long a turn goes on that has crossed agent.max_tokens: codex counts a model call just before it
// ends the turn by it, and a turn that ends by itself is done.
const overBudgetGrace = 500 * time.Millisecond

// errOverBudget: the issue has used up agent.max_tokens. It is the cause of a cancelled run.
type errOverBudget struct{ used, most int64 }

func (e errOverBudget) Error() string {
	return fmt.Sprintf("%d tokens used, agent.max_tokens is %d", e.used, e.most)
}

// budget ends the run of an issue that has used up its tokens.
type budget struct {
	*job
	cancel context.CancelCauseFunc
	spent  atomic.Bool
}

// check ends the run, in the middle of a turn if need be, once its issue has used up its tokens. Tokens of earlier runs
// count, but for those before an operator's retry. The next pass holds the issue.
func (b *budget) check(ctx context.Context) {
	most := b.Config.Policy.MaxTokens
	if most <= 0 {
		return
	}
	used, err := b.Journal.IssueTokens(context.WithoutCancel(ctx), b.run.IssueID)
	if err != nil {
		b.Log.LogAttrs(ctx, slog.LevelWarn, "tokens of the issue not read", slog.String("error", err.Error()))
		return // the next count checks again
	}
	if used >= most && b.spent.CompareAndSwap(false, true) {
		time.AfterFunc(overBudgetGrace, func() { b.cancel(errOverBudget{used, most}) })
	}
}

// SlotSource hands out the slots of the account that a pass has taken (reconcile.Accounts). If the number of runs is not
// bounded, bounded is false. If the slots are used up Next returns an error.
type SlotSource interface {
	Next() (slot *os.File, bounded bool, err error)
}

// slotFor takes a slot for an agent's run; cleanup runs need none.
func (l *Local) slotFor(run reconcile.Run) (*os.File, error) {
	if l.Slots == nil || run.Kind != reconcile.AgentRun {
		return nil, nil
	}
	slot, bounded, err := l.Slots.Next()
	if !bounded {
		return nil, nil
	}
	return slot, err
}
