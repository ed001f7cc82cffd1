package pass

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// loop repeats passes until a signal (specification 8.1). Each pass loads the workflow afresh. The workers
// do not end with the loop. A workflow or configuration that the first pass can't work with ends it at once:
// somebody is still looking; later mistakes are said, and the loop goes on.
func loop(ctx context.Context, w *term.Env, p *project.Project, o TickOptions) error {
	if _, err := readPassConfig(p); err != nil {
		return err
	}
	if err := p.Nested(); err != nil {
		return err
	}
	if err := state.EnsureDir(p.StateDir); err != nil {
		return err
	}
	lock := project.LoopLock(p.StateDir)
	if held, err := project.TryLoopLock(ctx, lock); err != nil {
		return fmt.Errorf("loop lock: %w", err)
	} else if !held {
		return &reconcile.Error{Code: "locked", Message: "another symphony tick --loop runs on " + p.StateDir, Hint: "one loop per project is enough"}
	}
	defer func() { _ = lock.Unlock() }() // it ends with the process
	if o.LockTimeout == 0 {
		// An operator's command holds it for a moment, and looks at one issue only.
		o.LockTimeout = project.CommandPatience
	}
	l := &looper{w: w, options: o, log: o.logger(w), interval: 30 * time.Second, seen: map[string]bool{}, program: thisProgram()}
	reapForeign(ctx, l.log)
	for first := true; ; first = false {
		r, code := l.pass(ctx, p)
		if first && code == exit.Workflow {
			leaveLoop(p, w)
			return exit.Only(code)
		}
		if ctx.Err() != nil || !l.wait(ctx, p, r) {
			leaveLoop(p, w)
			return nil
		}
		p = project.New(w, p.Path, p.StateDir)
		l.upgrade(ctx, p)
	}
}

type looper struct {
	w        *term.Env
	options  TickOptions
	log      *slog.Logger
	interval time.Duration
	// seen are the ended runs that a pass was woken for: one that can't be settled must not wake every pass.
	seen    map[string]bool
	program programFile
}

// pass runs one; whatever goes wrong is said, and the code returned.
func (l *looper) pass(ctx context.Context, p *project.Project) (Result, int) {
	r, err := Run(ctx, p, l.options.Options)
	if ctx.Err() != nil {
		// The signal that ends the loop also cuts short the wait for a tracker: nothing to complain about.
		r.Errors = slices.DeleteFunc(r.Errors, func(e *reconcile.Error) bool { return e.Code == "canceled" })
		if errors.Is(err, context.Canceled) {
			return r, exit.OK
		}
	}
	if err != nil {
		err = quietly(ctx, p, l.options, err)
		return r, exit.With(l.w, err)
	}
	Print(ctx, p, l.w, l.options, r)
	if r.Cfg != nil {
		l.interval = r.Cfg.Polling.Interval
	}
	var code exit.Only
	errors.As(r.Code(), &code)
	return r, int(code)
}

const (
	// wakeStep is how often a loop looks for ended workers between two passes.
	wakeStep = 100 * time.Millisecond
	// lookStep is how often it looks for runs that somebody else has started meanwhile.
	lookStep = 2 * time.Second
)

// wait is for the next pass: the polling interval, cut short by a due retry, by the end of a worker, or by a
// signal, for which it returns false.
func (l *looper) wait(ctx context.Context, p *project.Project, r Result) bool {
	if r.Holder != nil {
		clear(l.seen) // what this pass was woken for has not been looked at
	}
	end := l.w.Now().Add(l.interval)
	if due := r.NextWake; !due.IsZero() && due.Before(end) {
		end = due // and where it came while the pass was still at work, at once
	}
	var running []string
	var looked time.Time
	for l.w.Now().Before(end) {
		if l.w.Now().Sub(looked) >= lookStep {
			running, looked = unsettled(ctx, p), l.w.Now()
		}
		// Before the first sleep: a worker may have ended while the pass was still at work.
		for _, id := range running {
			if !l.seen[id] && !project.Alive(p.StateDir, id) {
				l.seen[id] = true
				return true
			}
		}
		if !project.Sleep(ctx, min(wakeStep, end.Sub(l.w.Now()))) {
			return false
		}
	}
	return ctx.Err() == nil
}

// unsettled names the runs whose end a pass has still to see. Where that can't be read, the next pass says why.
func unsettled(ctx context.Context, p *project.Project) []string {
	db, err := project.OpenForReading(ctx, p)
	if err != nil {
		return nil
	}
	defer db.Close()
	rec, err := db.State(ctx)
	if err != nil {
		return nil
	}
	var ids []string
	for _, r := range rec.Runs {
		ids = append(ids, r.ID)
	}
	return ids
}

// liveRuns names the runs that have a worker.
func LiveRuns(ctx context.Context, p *project.Project) []string {
	return slices.DeleteFunc(unsettled(ctx, p), func(id string) bool { return !project.Alive(p.StateDir, id) })
}

// leaveLoop says what goes on without the loop.
func leaveLoop(p *project.Project, w *term.Env) {
	if n := len(LiveRuns(context.Background(), p)); n > 0 {
		w.Note(slog.LevelInfo, fmt.Sprintf("the loop has ended, %s on without it; to end what runs: symphony stop --all -w %s --state-dir %s",
			map[bool]string{true: "1 worker goes", false: fmt.Sprintf("%d workers go", n)}[n == 1], term.ShellQuote(p.Path), term.ShellQuote(p.StateDir)))
	}
}
