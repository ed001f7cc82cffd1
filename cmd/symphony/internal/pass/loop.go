package pass

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/runner/workers"
	"github.com/symphony-cron/symphony/state"
)

const (
	wakeStep  = 100 * time.Millisecond // how often a loop checks for ended workers between two passes
	reapStep  = 5 * time.Second
	stopSlack = 5 * time.Second  // what the end of a worker may take beyond its own bound
	trialTime = 10 * time.Second // how long a new program may take to print its version
)

// looper is one tick --loop.
type looper struct {
	w        *term.Env
	options  TickOptions
	log      *slog.Logger
	interval time.Duration
	// woken are the ended runs that started a pass early. Each does so once, even if it can't be settled.
	woken map[string]bool
	// workflow is the stamp of WORKFLOW.md before it was last read, asked that of the workers' requests before the last pass.
	workflow, asked string
	// program is the path of the program. version is the stamp of the file that this process runs or refused to run.
	program, version string
}

// loop repeats passes until a signal (specification 8.1) and loads the workflow before each. If the first pass finds the
// workflow or configuration invalid, the loop ends at once; it reports later mistakes and goes on.
func loop(ctx context.Context, p *project.Project, o TickOptions) error {
	if _, err := readConfig(p); err != nil {
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
		return &reconcile.Error{Code: "locked", Message: "another symphony tick --loop is running on " + p.StateDir, Hint: "a project needs one loop only; end the other one first"}
	}
	defer func() { _ = lock.Unlock() }() // the end of the process unlocks it anyway
	if o.LockTimeout == 0 {
		// An operator's command holds the lock for a moment, and looks at one issue only.
		o.LockTimeout = project.CommandPatience
	}
	o.outlook = new(string)
	l := &looper{w: p.Env, options: o, log: o.logger(p.Env), interval: 30 * time.Second, woken: map[string]bool{}, program: project.ProgramPath()}
	l.version, l.workflow = stamp(l.program), stamp(p.Path)
	// This also reaps the workers that the process started before it executed a new program.
	go proc.ReapOrphans(ctx, reapStep, func(err error) { l.log.Warn("reaping", slog.String("error", err.Error())) })
	for first := true; ; first = false {
		r, code := l.pass(ctx, p)
		if first && code == exit.Workflow {
			l.leave(p, r)
			return exit.Only(code)
		}
		if ctx.Err() != nil || !l.wait(ctx, p, r) {
			l.leave(p, r)
			return nil
		}
		l.workflow = stamp(p.Path)
		p = project.New(l.w, p.Path, p.StateDir)
		l.upgrade(ctx, p)
	}
}

// pass runs one pass and reports it. It returns the exit code that tick would end with.
func (l *looper) pass(ctx context.Context, p *project.Project) (Result, int) {
	l.asked = stamp(project.AskedFile(p.StateDir))
	r, err := Run(ctx, p, l.options.Options)
	if ctx.Err() != nil {
		// The signal that ends the loop also cancels a request to the tracker, which is not an error.
		r.Errors = slices.DeleteFunc(r.Errors, func(e *reconcile.Error) bool { return e.Code == "canceled" })
		if errors.Is(err, context.Canceled) {
			return r, exit.OK
		}
	}
	if err != nil {
		return r, exit.With(l.w, quietError(ctx, p, l.options, err))
	}
	report(ctx, p, l.options, r)
	if r.Config != nil {
		l.interval = r.Config.Polling.Interval
	}
	var code exit.Only
	errors.As(r.ExitCode(), &code)
	return r, int(code)
}

// wait waits for the next pass: for polling.interval_ms, or less if a retry is due, a worker ends or WORKFLOW.md changes before. It
// returns false if a signal came.
func (l *looper) wait(ctx context.Context, p *project.Project, r Result) bool {
	if r.Holder != nil {
		clear(l.woken) // this pass did not look at the runs for which it was started
	}
	end := l.w.Now().Add(l.interval)
	if due := r.NextWake; !due.IsZero() && due.Before(end) {
		end = due
	}
	running, seen := unsettledRuns(ctx, p), l.workflow
	for l.w.Now().Before(end) {
		// Checked before the first sleep: a worker may have ended during the pass.
		for _, run := range running {
			if !l.woken[run.ID] && !project.Alive(p.StateDir, run.ID) {
				l.woken[run.ID] = true
				return true
			}
		}
		if stamp(project.AskedFile(p.StateDir)) != l.asked {
			return true
		}
		before := seen
		if seen = stamp(p.Path); seen != "" && seen != l.workflow && seen == before { // an editor has finished writing it
			return true
		}
		if !project.Sleep(ctx, min(wakeStep, end.Sub(l.w.Now()))) {
			return false
		}
	}
	return ctx.Err() == nil
}

// unsettledRuns lists the runs that no pass has settled yet; none if the database can't be read, which the next pass
// reports.
func unsettledRuns(ctx context.Context, p *project.Project) []reconcile.Run {
	db, err := project.OpenForReading(ctx, p)
	if err != nil {
		return nil
	}
	defer db.Close()
	rec, _ := db.Store.State(ctx)
	return rec.Runs
}

// LiveRuns lists the runs that have a worker.
func LiveRuns(ctx context.Context, p *project.Project) []reconcile.Run {
	return slices.DeleteFunc(unsettledRuns(ctx, p), func(run reconcile.Run) bool { return !project.Alive(p.StateDir, run.ID) })
}

// leave ends the workers if --stop-on-exit is set, and reports how many continue without the loop.
func (l *looper) leave(p *project.Project, r Result) {
	live := LiveRuns(context.Background(), p)
	if l.options.StopOnExit && len(live) > 0 {
		live = l.stopWorkers(p, live, r)
	}
	if len(live) == 0 {
		return
	}
	l.w.Note(slog.LevelInfo, fmt.Sprintf("the loop has ended; still running: %s; to end them: symphony stop --all -w %s --state-dir %s",
		text.Plural(len(live), "worker"), term.ShellQuote(p.Path), term.ShellQuote(p.StateDir)))
}

// stopWorkers sends SIGTERM to the workers, which then end their runs as interrupted, and waits for them. It returns the runs
// whose workers are still alive. The next pass starts the interrupted issues again.
func (l *looper) stopWorkers(p *project.Project, runs []reconcile.Run, r Result) (living []reconcile.Run) {
	ctx, cancel := context.WithTimeout(context.Background(), r.StopGrace()+stopSlack)
	defer cancel()
	local := &workers.Local{Host: project.NewHost(), StateDir: p.StateDir}
	var wg sync.WaitGroup
	var names []string
	for _, run := range runs {
		names = append(names, run.Identifier)
		wg.Go(func() {
			if err := local.Stop(ctx, run); err != nil {
				l.log.Warn("stopping a worker", slog.String("run_id", run.ID), slog.String("error", err.Error()))
			}
		})
	}
	wg.Wait()
	living = slices.DeleteFunc(runs, func(run reconcile.Run) bool { return !project.Alive(p.StateDir, run.ID) })
	if ended := len(names) - len(living); ended > 0 && !l.options.Quiet {
		l.w.Note(slog.LevelInfo, fmt.Sprintf("the loop interrupted %s (%s); the next pass starts the issues again", text.Plural(ended, "worker"), strings.Join(names, ", ")))
	}
	return living
}

// stamp identifies a version of a file; empty if there is none.
func stamp(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.Size(), info.ModTime().UnixNano(), info.Mode(), info.Sys().(*syscall.Stat_t).Ino)
}

// upgrade executes the program that has replaced this one between two passes, if there is one: in the same process, with the
// same arguments. With the old program a loop could start nothing once a newer one has migrated the state. upgrade returns if
// the new program can't print its version, or if the workflow is invalid, which the first pass of the new loop would not survive.
func (l *looper) upgrade(ctx context.Context, p *project.Project) {
	next := stamp(l.program)
	if next == "" || next == l.version {
		return
	}
	if _, err := p.Config(); err != nil {
		return
	}
	trial, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	cmd := exec.CommandContext(trial, l.program, "version")
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = io.Discard, io.Discard, time.Second
	err := cmd.Run()
	if ctx.Err() != nil || errors.Is(err, syscall.ETXTBSY) { // it is still being written
		return
	}
	if err == nil {
		if !l.options.Quiet {
			l.w.Note(slog.LevelInfo, l.program+" was replaced; the loop continues with the new one")
		}
		// Executing it unlocks the loop's lock, and the new program takes it again.
		err = syscall.Exec(l.program, os.Args, os.Environ())
	}
	l.version = next
	l.w.Note(slog.LevelWarn, fmt.Sprintf("%s was replaced by one that does not run (%v); the loop continues with the old one", l.program, err))
}
