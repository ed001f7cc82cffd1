package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
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
	*job
	last   []byte                     // the record that was reported last
	shared map[string]json.RawMessage // its members as they were stored
}

// report stores the members that have changed, with the name of their limit: an old value of this worker must not replace
// a newer one of another worker. What could not be stored is repeated with the next change.
func (r *limitsReporter) report(ctx context.Context, record []byte) {
	if r.Account == nil || record == nil || bytes.Equal(record, r.last) {
		return
	}
	r.last = bytes.Clone(record)
	var members map[string]json.RawMessage
	err := json.Unmarshal(record, &members)
	changed := maps.Clone(members)
	if bytes.Equal(members["limitId"], r.shared["limitId"]) { // else nothing is known of this limit
		maps.DeleteFunc(changed, func(name string, value json.RawMessage) bool {
			return name != "limitId" && bytes.Equal(value, r.shared[name])
		})
	}
	var data []byte
	if err == nil {
		data, err = json.Marshal(changed)
	}
	if err == nil {
		err = r.Account.SaveLimits(ctx, r.Now(), data)
	}
	if r.warn("rate limits not shared", err); err == nil {
		r.shared = members
	}
}

// shareFault stores a fault of the account by which the run ended. It comes before the outcome, so that no pass settles the
// run and starts another into the same fault.
func (j *job) shareFault(ctx context.Context, code, message string) {
	if j.Account != nil && reconcile.AccountFault(code) {
		j.warn("fault of the account not shared", j.Account.Failed(ctx, j.Now(), code, message))
	}
}

// shareSuccess ends a block of the account that was there when the run began.
func (j *job) shareSuccess(ctx context.Context) {
	if j.Account != nil {
		j.warn("block of the account not ended", j.Account.Worked(context.WithoutCancel(ctx), j.Now(), j.run.StartedAt))
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

// checkBudget ends the run, in the middle of a turn if need be, once its issue has used up its tokens. Tokens of earlier
// runs count, but for those before an operator's retry. The next pass holds the issue.
func (j *job) checkBudget(ctx context.Context) {
	most := j.Config.Policy.MaxTokens
	if most <= 0 {
		return
	}
	used, err := j.Journal.IssueTokens(ctx, j.run.IssueID)
	j.warn("tokens of the issue not read", err) // the next count checks again
	if err == nil && used >= most && j.overBudget.CompareAndSwap(false, true) {
		time.AfterFunc(overBudgetGrace, func() { j.cancel(errOverBudget{used, most}) })
	}
}
