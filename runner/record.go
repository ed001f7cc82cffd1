package runner

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

const (
	// heartbeat is the time between two heartbeats of a worker.
	heartbeat = 5 * time.Second
	// scanInterval is the time between two looks for new processes of the run. One that sheds all markers and whose worker
	// dies before the next look is not found again.
	scanInterval = time.Second
	// clockStep is how far the wall clock must differ from the monotonic one to count as stepped or suspended.
	clockStep = time.Second
)

// record is the worker's copy of its run's row, and the only writer of it. Events change the copy as they come; it is
// written at every heartbeat, and at once where a view should show the change.
type record struct {
	journal Journal
	alive   *proc.Alive
	scan    func() // records the run's processes
	locks   func() // records them too, and ends those that keep a lock of symphony
	now     func() time.Time
	log     *slog.Logger
	// stopped is called when a pass wants the run to end, lost when a pass has settled the run.
	stopped func(reason string)
	lost    func(err error)
	// counted is called after tokens were counted.
	counted func(ctx context.Context)

	write sync.Mutex // one write of the row at a time, in order
	mu    sync.Mutex
	run   reconcile.Run
	// base is what a resumed thread had used before this run.
	base map[string]reconcile.Tokens
	// handedOver is when, on the monotonic clock, the agent last changed its issue.
	handedOver time.Duration
	count      sync.Mutex // one count of tokens at a time, so that no older one comes last
}

// change alters the copy; the next heartbeat writes it.
func (r *record) change(f func(*reconcile.Run)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.run)
}

// get returns the copy.
func (r *record) get() reconcile.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.run
}

// phase moves the run to its next phase and writes it at once.
func (r *record) phase(ctx context.Context, p reconcile.Phase) {
	r.change(func(run *reconcile.Run) { run.Phase = p })
	r.log.LogAttrs(ctx, slog.LevelInfo, "phase", slog.String("phase", string(p)))
	r.flush(ctx)
}

// flush writes the row. A database that refuses it stops no work: the next heartbeat tries again, and the outcome is tried
// for longer.
func (r *record) flush(ctx context.Context) {
	r.write.Lock()
	defer r.write.Unlock()
	now := r.now()
	r.change(func(run *reconcile.Run) { r.keepHandoff(run, now) })
	reason, err := r.journal.UpdateRun(context.WithoutCancel(ctx), now, r.get())
	switch {
	case errors.Is(err, reconcile.ErrConflict):
		r.lost(err)
	case err != nil:
		r.log.LogAttrs(ctx, slog.LevelWarn, "heartbeat not stored", slog.String("error", err.Error()))
	}
	if reason != "" && !errors.Is(err, reconcile.ErrConflict) {
		r.stopped(reason) // also if it could only be read
	}
}

// handsOver notes that the agent is changing its issue.
func (r *record) handsOver() {
	r.change(func(run *reconcile.Run) {
		run.HandoffAt, run.HandoffState, r.handedOver = r.now(), "", proc.Monotonic()
	})
}

// keepHandoff moves the time of the handoff along with a wall clock that was stepped, or that ran on during a suspend, so
// that its age stays the same. mu is held.
func (r *record) keepHandoff(run *reconcile.Run, now time.Time) {
	if run.HandoffAt.IsZero() {
		return
	}
	at := now.Add(r.handedOver - proc.Monotonic())
	if at.Sub(run.HandoffAt).Abs() > clockStep {
		run.HandoffAt = at
	}
}

// beat runs until ctx ends. The counter in the alive file is raised even while the database refuses writes or is slow,
// because a pass kills a worker whose counter stands still.
func (r *record) beat(ctx context.Context, every time.Duration) {
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() {
		repeat(ctx, every, func() {
			r.change(func(run *reconcile.Run) { run.Beats++; run.HeartbeatAt = r.now() })
			if err := r.alive.Beat(r.get().Beats, proc.Monotonic()); err != nil {
				r.log.LogAttrs(ctx, slog.LevelWarn, "alive file not written", slog.String("error", err.Error()))
			}
		})
	})
	others.Go(func() { repeat(ctx, scanInterval, r.scan) })
	repeat(ctx, every, func() {
		r.locks()
		r.flush(ctx)
	})
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
	run := r.get()
	var sum reconcile.Tokens
	for id, u := range byThread {
		t := reconcile.Tokens{Input: u.Input, Cached: u.CachedInput, Output: u.Output, Reasoning: u.Reasoning, Total: u.Total}
		base, known := r.threadBase(ctx, id)
		if !known {
			return // a total that is saved now could no longer be divided between runs
		}
		sum = sum.Plus(t.Since(base))
		if err := r.journal.SaveThread(context.WithoutCancel(ctx), run.ID, run.IssueID, id, run.WorkspaceID, t, r.now()); err != nil {
			// The run must not count them either, because a resume would count them again.
			r.log.LogAttrs(ctx, slog.LevelWarn, "thread not stored", slog.String("thread_id", id), slog.String("error", err.Error()))
			return
		}
	}
	r.change(func(run *reconcile.Run) { run.Tokens = sum })
	r.counted(ctx)
}

// threadBase reads, once, what a thread had used before this run; false if it can't be read.
func (r *record) threadBase(ctx context.Context, id string) (base reconcile.Tokens, known bool) {
	r.mu.Lock()
	base, known = r.base[id]
	r.mu.Unlock()
	if known {
		return base, true
	}
	base, _, err := r.journal.Thread(context.WithoutCancel(ctx), id)
	if err != nil {
		r.log.LogAttrs(ctx, slog.LevelWarn, "thread not read", slog.String("thread_id", id), slog.String("error", err.Error()))
		return base, false
	}
	r.mu.Lock()
	r.base[id] = base
	r.mu.Unlock()
	return base, true
}
