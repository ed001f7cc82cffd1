package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/symphony-cron/symphony/reconcile"
)

// loopLock is held by the one --loop of a project for its whole life.
func loopLock(stateDir string) *flock.Flock {
	return flock.New(filepath.Join(stateDir, "loop.lock"), flock.SetPermissions(0o600))
}

// looping reports whether a --loop watches over the project. It creates nothing.
func looping(stateDir string) bool {
	path := filepath.Join(stateDir, "loop.lock")
	if _, err := os.Stat(path); err != nil {
		return false
	}
	lock := flock.New(path)
	free, err := lock.TryRLock()
	if err != nil {
		return false
	}
	if free {
		_ = lock.Unlock() // a lock that was only tried; the process is about to end
	}
	return !free
}

// loop repeats passes until a signal (specification 8.1). Each pass loads the workflow afresh. The workers
// do not end with the loop.
func loop(ctx context.Context, w *world, p *project, o tickOptions) error {
	if _, err := p.config(); err != nil {
		return err
	}
	if err := os.MkdirAll(p.stateDir, 0o700); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	lock := loopLock(p.stateDir)
	if held, err := lock.TryLock(); err != nil {
		return fmt.Errorf("loop lock: %w", err)
	} else if !held {
		return &reconcile.Error{Code: "locked", Message: "another symphony tick --loop runs on " + p.stateDir, Hint: "one loop per project is enough"}
	}
	defer func() { _ = lock.Unlock() }() // it ends with the process
	log := o.logger(w)
	interval := 30 * time.Second
	for {
		r := p.loopPass(ctx, w, o, log)
		if ctx.Err() != nil {
			return p.leaveLoop(w, r)
		}
		if r.cfg != nil {
			interval = r.cfg.Polling.Interval
		}
		if !p.untilNext(ctx, w, r, interval) {
			return p.leaveLoop(w, r)
		}
		again, err := w.project(p.path, p.stateDir)
		if err != nil {
			w.printError(asError(err))
			continue
		}
		p = again
	}
}

// loopPass runs one pass; whatever goes wrong is said, and the loop goes on.
func (p *project) loopPass(ctx context.Context, w *world, o tickOptions, log *slog.Logger) passResult {
	r, err := p.pass(ctx, o.passOptions, log)
	if err != nil {
		if said := p.quietly(ctx, o, err); said != nil {
			w.finish(said)
		}
		return r
	}
	p.report(ctx, w, o, r)
	return r
}

// wakeStep is how often a loop looks for ended workers between two passes.
const wakeStep = 100 * time.Millisecond

// untilNext waits for the next pass: the polling interval, cut short by a due retry, by the end of a
// worker, or by a signal, for which it returns false.
func (p *project) untilNext(ctx context.Context, w *world, r passResult, interval time.Duration) bool {
	end := w.now().Add(interval)
	if due := r.NextDue; !due.IsZero() && due.Before(end) && due.After(w.now()) {
		end = due
	}
	running := p.liveRuns(ctx)
	for w.now().Before(end) {
		if !sleep(ctx, min(wakeStep, end.Sub(w.now()))) {
			return false
		}
		for _, id := range running {
			if !alive(p.stateDir, id) {
				return true
			}
		}
	}
	return ctx.Err() == nil
}

// liveRuns names the runs whose end the loop waits for.
func (p *project) liveRuns(ctx context.Context) []string {
	db, err := openForReading(ctx, p)
	if err != nil {
		return nil
	}
	defer db.Close()
	rec, err := db.Recorded(ctx)
	if err != nil {
		return nil
	}
	var ids []string
	for _, r := range rec.Runs {
		if alive(p.stateDir, r.ID) {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// leaveLoop says what goes on without the loop.
func (p *project) leaveLoop(w *world, r passResult) error {
	if n := len(p.liveRuns(context.Background())); n > 0 {
		fmt.Fprintf(w.stderr, "symphony: the loop has ended; %d workers go on without it. To end them too: symphony stop --all -w %s --state-dir %s\n", n, p.path, p.stateDir)
	}
	return nil
}
