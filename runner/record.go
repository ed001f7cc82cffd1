package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

const (
	// heartbeat is the time between two heartbeats of a worker, and between two looks for new processes of the run while its
	// agent is heard of. One that sheds all markers and whose worker dies before the next look is not found again.
	heartbeat = 5 * time.Second
	// quietBeats is after how many heartbeats a worker looks for processes even if it has heard nothing of its agent.
	quietBeats = 4
	// clockStep is how far the wall clock must differ from the monotonic one to count as stepped or suspended.
	clockStep = time.Second
)

// record is the worker's copy of its run's row, and the only writer of it. Events change the copy as they come; it is
// written at every heartbeat, and at once where a view should show the change.
type record struct {
	*job
	write sync.Mutex // one write of the row at a time, in order
	mu    sync.Mutex // of row and handedOver
	row   reconcile.Run
	// handedOver is when, on the monotonic clock, the agent last changed its issue.
	handedOver time.Duration
	count      sync.Mutex                  // one count of tokens at a time, so that no older one comes last
	base       map[string]reconcile.Tokens // what resumed threads had used before this run
}

// change alters the copy; the next heartbeat writes it.
func (r *record) change(f func(*reconcile.Run)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.row)
}

// get returns the copy.
func (r *record) get() reconcile.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.row
}

// phase moves the run to its next phase and writes it at once.
func (r *record) phase(ctx context.Context, p reconcile.Phase) {
	r.change(func(run *reconcile.Run) { run.Phase = p })
	r.Log.Info("phase", "phase", p)
	r.flush(ctx)
}

// flush writes the row. A database that refuses it stops no work: the next heartbeat tries again, and the outcome is tried
// for longer.
func (r *record) flush(ctx context.Context) {
	r.write.Lock()
	defer r.write.Unlock()
	now := r.Now()
	r.change(func(run *reconcile.Run) {
		// The handoff keeps its age if the wall clock was stepped, or ran on during a suspend.
		at := now.Add(r.handedOver - r.Mono())
		if !run.HandoffAt.IsZero() && at.Sub(run.HandoffAt).Abs() > clockStep {
			run.HandoffAt = at
		}
	})
	reason, err := r.Journal.UpdateRun(context.WithoutCancel(ctx), now, r.get())
	if errors.Is(err, reconcile.ErrConflict) {
		r.cancel(errNotOurs)
		return
	}
	r.warn("heartbeat not stored", err)
	if reason != "" { // also if it could only be read
		r.cancel(stopped(reason))
	}
}

// handsOver notes that the agent is changing its issue.
func (r *record) handsOver() {
	r.change(func(run *reconcile.Run) {
		run.HandoffAt, run.HandoffState, r.handedOver = r.Now(), "", r.Mono()
	})
}

// startHeartbeat beats until stop is called, even after ctx has ended. The counter in the alive file is raised even while the
// database refuses writes or is slow, because a pass kills a worker whose counter stands still.
func (r *record) startHeartbeat(ctx context.Context) (beats context.Context, stop func()) {
	beats, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var over sync.WaitGroup
	over.Go(func() {
		repeat(beats, heartbeat, func() {
			r.change(func(run *reconcile.Run) { run.Beats++; run.HeartbeatAt = r.Now() })
			r.warn("alive file not written", r.Alive.Beat(r.get().Beats, r.Mono()))
		})
	})
	over.Go(func() {
		var heard time.Time
		quiet := quietBeats
		repeat(beats, heartbeat, func() {
			r.flush(beats) // first: it must not wait for a slow look at the processes
			if last := r.get().LastEventAt; quiet >= quietBeats || !last.Equal(heard) {
				heard, quiet = last, 0
				r.observe()
			}
			quiet++
		})
	})
	return beats, func() { cancel(); over.Wait() }
}

// repeat calls do at once, and then at every interval until ctx ends.
func repeat(ctx context.Context, every time.Duration, do func()) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		do()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// usage stores the token totals of the agent's threads, which go on over resumes, and derives what this run has used.
func (r *record) usage(ctx context.Context, byThread map[string]agent.Usage) {
	r.count.Lock()
	defer r.count.Unlock()
	ctx = context.WithoutCancel(ctx)
	run := r.get()
	var sum reconcile.Tokens
	for id, u := range byThread {
		base, known := r.base[id]
		if !known {
			var err error
			if base, _, err = r.Journal.Thread(ctx, id); err != nil {
				r.Log.Warn("thread not read", "thread_id", id, "error", err)
				return // a total that is saved now could no longer be divided between runs
			}
			r.base[id] = base
		}
		total := reconcile.Tokens{Input: u.Input, Cached: u.CachedInput, Output: u.Output, Reasoning: u.Reasoning, Total: u.Total}
		sum = sum.Plus(total.Since(base))
		if err := r.Journal.SaveThread(ctx, run.ID, run.IssueID, id, run.WorkspaceID, total, r.Now()); err != nil {
			// The run must not count them either, because a resume would count them again.
			r.Log.Warn("thread not stored", "thread_id", id, "error", err)
			return
		}
	}
	r.change(func(run *reconcile.Run) { run.Tokens = sum })
	r.checkBudget(ctx)
}

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
		message := fmt.Sprintf("%d tokens used, agent.max_tokens is %d", used, most)
		time.AfterFunc(overBudgetGrace, func() { j.cancel(runEnd{reconcile.Canceled, reconcile.CodeMaxTokens, message}) })
	}
}
