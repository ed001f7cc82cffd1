package tick

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/lock"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/runner/workers"
	"github.com/symphony-cron/symphony/state"
)

const (
	lookStep  = 500 * time.Millisecond // how often a loop looks at its files and its workers
	reapStep  = time.Minute
	stopSlack = 5 * time.Second // how much longer than its own bound the end of a worker may take
	// how much shorter or longer than its interval a wait may be, so that loops do not ask at
	// once
	jitter      = 0.1
	longestPass = 15 * time.Minute
	longestWait = time.Minute // beyond the interval
)

// looper is a running tick --loop.
type looper struct {
	w       *term.Env
	options Options
	log     *slog.Logger
	jobs    []*job
	systemd systemd
}

// job is a project of a loop.
type job struct {
	*looper
	name     string
	w        *term.Env // prints the name of the project before each line if there are several
	log      *slog.Logger
	options  Options
	p        *wiring.Project
	lock     *os.File // nil until start takes it
	database pass.KeptDB
	interval time.Duration
	// woken are the ended runs that started a pass early. Each does so once, even if it can't
	// be settled.
	woken map[string]bool
	// sourceStamp identifies the versions of WORKFLOW.md and of the environment files that the
	// last pass read. A wait ends when it changes.
	sourceStamp string
	// requestStamp identifies the version of wiring.RequestFile before this pass. A wait ends
	// when it changes.
	requestStamp string
	refused      string // the last error for which the job could not start
	// on the monotonic clock: until when the pass or the wait must be over
	deadline atomic.Int64
}

// Loop repeats passes over projects, each at its own interval, until a signal (specification
// 8.1), and reads the workflow before each pass. If there is a single project and its first
// workflow or configuration is invalid, the loop ends at once. It reports later mistakes, and
// the mistakes of a project among several, and goes on.
func Loop(ctx context.Context, w *term.Env, projects []*wiring.Project, o Options) error {
	if o.wantsLog() {
		w.Log = o.logger(w) // the log replaces the lines on stderr
	}
	if o.LockTimeout == 0 {
		// An operator's command holds the lock for a moment, and looks at a single issue only.
		o.LockTimeout = wiring.CommandPatience
	}
	l := &looper{w: w, options: o, systemd: newSystemd(w)}
	l.log = o.logger(w)
	l.addJobs(ctx, projects)
	for _, j := range l.jobs {
		defer j.close()
		err := j.start(ctx)
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil && l.alone() {
			return err
		}
		if err != nil {
			j.refuse(err)
		}
	}
	// Workers that outlive their passes are adopted by the loop where it is the first process
	// of a container.
	go proc.ReapOrphans(ctx, reapStep, func(err error) {
		l.log.Warn("reaping", slog.String("error", err.Error()))
	})
	if o.Beside != nil {
		beside, end := context.WithCancel(ctx)
		var ended sync.WaitGroup
		ended.Go(func() { o.Beside(beside) })
		defer ended.Wait()
		defer end()
	}
	defer context.AfterFunc(ctx, func() { l.systemd.tell("STOPPING=1") })()
	go l.systemd.keepAlive(ctx, l.inTime)
	l.systemd.tell("READY=1")
	var running sync.WaitGroup
	codes := make([]int, len(l.jobs))
	for i, j := range l.jobs {
		running.Go(func() { codes[i] = j.run(ctx) })
	}
	running.Wait()
	w.OutputFailed = slices.ContainsFunc(l.jobs, func(j *job) bool { return j.w.OutputFailed })
	if l.alone() && codes[0] != exit.OK {
		return exit.Only(codes[0])
	}
	return nil
}

// addJobs makes a job of each project.
func (l *looper) addJobs(ctx context.Context, projects []*wiring.Project) {
	out := &sync.Mutex{}
	// by state directory, because for a missing workflow Name takes the owner of the directory
	names := map[string]string{}
	for _, p := range view.Name(ctx, projects) {
		names[p.StateDir] = p.Name
	}
	for _, p := range projects {
		j := &job{
			looper:   l,
			name:     names[p.StateDir],
			w:        l.w,
			log:      l.log,
			options:  l.options,
			interval: 30 * time.Second,
			woken:    map[string]bool{},
		}
		if len(projects) > 1 {
			j.w = l.w.Named(j.name, out)
			j.log = l.log.With(slog.String("project", j.name))
		}
		j.options.printed = new(printed)
		j.options.Kept = &j.database
		j.options.Name = j.name
		j.options.Reported = new(time.Time)
		j.p = wiring.NewProject(j.w.Environment(), p.Path, p.StateDir)
		l.jobs = append(l.jobs, j)
	}
}

// alone reports whether the loop has a single project.
func (l *looper) alone() bool { return len(l.jobs) == 1 }

// inTime reports whether no pass and no wait takes too long.
func (l *looper) inTime() bool {
	now := proc.Monotonic()
	return !slices.ContainsFunc(l.jobs, func(j *job) bool { return time.Duration(j.deadline.Load()) < now })
}

// setDeadline gives the pass or the wait that begins this much time.
func (j *job) setDeadline(d time.Duration) { j.deadline.Store(int64(proc.Monotonic() + d)) }

// start checks the workflow and takes the lock of the project's loop.
func (j *job) start(ctx context.Context) error {
	j.setDeadline(longestPass)
	j.sourceStamp = j.stampOfSources()
	if _, err := pass.ReadConfig(j.p); err != nil {
		return err
	}
	if err := j.p.Nested(); err != nil {
		return err
	}
	if err := state.EnsureDir(j.p.StateDir); err != nil {
		return err
	}
	file, err := wiring.TakeLoopLock(ctx, j.p.StateDir)
	if errors.Is(err, lock.ErrHeld) {
		return reconcile.NewError(
			"locked",
			"another symphony tick --loop is running on "+j.p.StateDir,
			"a project needs one loop only; end the other one first",
		)
	}
	if err != nil {
		return fmt.Errorf("loop lock: %w", err)
	}
	j.lock = file
	return nil
}

// refuse prints why a job can't start, unless that was the last thing it printed.
func (j *job) refuse(err error) {
	if j.refused == err.Error() {
		return
	}
	j.refused = err.Error()
	j.w.Exit(err)
}

// run repeats passes until a signal. It returns the exit code of a loop with this job alone.
func (j *job) run(ctx context.Context) int {
	var r pass.Result
	for first := true; ; first = false {
		if j.lock == nil { // a project among several that could not start
			err := j.start(ctx)
			if err != nil && ctx.Err() == nil {
				j.refuse(err)
			}
		}
		if j.lock != nil {
			var code int
			r, code = j.pass(ctx)
			if first && code == exit.Workflow && j.alone() {
				j.leave(r)
				return code
			}
		}
		if ctx.Err() != nil || !j.wait(ctx, r) {
			j.leave(r)
			return exit.OK
		}
		j.sourceStamp = j.stampOfSources()
		j.p = wiring.NewProject(j.w.Environment(), j.p.Path, j.p.StateDir)
	}
}

// pass runs a pass and reports it. It returns the exit code that tick would end with.
func (j *job) pass(ctx context.Context) (pass.Result, int) {
	j.setDeadline(longestPass) // again: the lock may have taken long
	j.requestStamp = wiring.Stamp(wiring.RequestFile(j.p.StateDir))
	r, err := pass.Run(ctx, j.p, j.options.Options)
	if ctx.Err() != nil {
		// The signal that ends the loop also cancels a request to the tracker, which is not an
		// error.
		r.Errors = slices.DeleteFunc(r.Errors, func(e *reconcile.Error) bool { return e.Code == "canceled" })
		if errors.Is(err, context.Canceled) {
			return r, exit.OK
		}
	}
	if err != nil {
		return r, j.w.Exit(quietError(ctx, j.w, j.p, j.options, err))
	}
	report(ctx, j.w, j.p, j.options, r)
	if r.Config != nil {
		j.interval = r.Config.Polling.Interval
	}
	code, _ := errors.AsType[exit.Only](r.ExitCode())
	return r, int(code)
}

// endedWorker returns the id of a run whose worker ended, unless a pass was started for that.
func (j *job) endedWorker(running []reconcile.Run) (id string, found bool) {
	at := slices.IndexFunc(running, func(run reconcile.Run) bool {
		return !j.woken[run.ID] && !wiring.Alive(j.p.StateDir, run.ID)
	})
	if at < 0 {
		return "", false
	}
	return running[at].ID, true
}

// wait waits for the next pass: for polling.interval_ms, or less if a retry is due, a worker
// ends, an agent asks for something or a file of the configuration changes before. It returns false
// if a signal ends the loop.
func (j *job) wait(ctx context.Context, r pass.Result) bool {
	if r.Holder != nil {
		clear(j.woken) // this pass did not look at the runs for which it was started
	}
	random := rand.Float64() //nolint:gosec // nothing depends on its secrecy
	pause := pauseFor(j.interval, random, j.w.Now(), j.due(r))
	end := j.w.Now().Add(pause)
	j.setDeadline(pause + longestWait)
	running := pass.Unsettled(ctx, j.p, &j.database)
	seen := j.sourceStamp
	maps.DeleteFunc(j.woken, func(id string, _ bool) bool {
		return !slices.ContainsFunc(running, func(run reconcile.Run) bool { return run.ID == id })
	})
	for j.w.Now().Before(end) {
		// Checked before the first sleep: a worker may have ended during the pass.
		if ended, found := j.endedWorker(running); found {
			j.woken[ended] = true
			return true
		}
		if wiring.Stamp(wiring.RequestFile(j.p.StateDir)) != j.requestStamp {
			return true
		}
		now := j.stampOfSources()
		if now != j.sourceStamp && now == seen { // an editor finished writing it
			return true
		}
		seen = now
		if !wiring.Sleep(ctx, min(lookStep, end.Sub(j.w.Now()))) {
			return false
		}
	}
	return ctx.Err() == nil
}

// due is when the last pass wants the next one; zero for no time. While the job can't start, a
// retry that was due would only make it try again and again without a pause.
func (j *job) due(last pass.Result) time.Time {
	if j.lock == nil {
		return time.Time{}
	}
	return last.NextWake
}

// pauseFor is how long to wait for the next pass: about the interval, or less if a retry is
// due before. random is from 0 to 1. It is no time of the wall clock, which may be set during
// the wait.
func pauseFor(interval time.Duration, random float64, now, due time.Time) time.Duration {
	pause := time.Duration(float64(interval) * (1 + jitter*(2*random-1)))
	if !due.IsZero() {
		pause = min(pause, max(0, due.Sub(now)))
	}
	return pause
}

// stampOfSources identifies the versions of the files that a pass reads. While there is no
// WORKFLOW.md it is the last stamp, because some editors remove the file for a moment.
func (j *job) stampOfSources() string {
	if wiring.Stamp(j.p.Path) == "" {
		return j.sourceStamp
	}
	return j.p.Stamp()
}

// leave ends the workers if --stop-on-exit is set, and reports how many continue without the
// loop.
func (j *job) leave(r pass.Result) {
	live := pass.LiveRuns(context.Background(), j.p)
	if j.options.StopOnExit && len(live) > 0 {
		live = j.stopWorkers(live, r)
	}
	if len(live) == 0 {
		return
	}
	j.w.Note(slog.LevelInfo, fmt.Sprintf(
		"the loop has ended; still running: %s; to end them: symphony stop --all -w %s --state-dir %s",
		text.Plural(len(live), "worker"),
		text.ShellQuote(j.p.Path),
		text.ShellQuote(j.p.StateDir),
	))
}

// close gives back the lock and the database of the job. The end of the process would do so, too.
func (j *job) close() {
	j.database.Close()
	if j.lock != nil {
		_ = lock.Release(j.lock)
	}
}

// stopWorkers sends SIGTERM to the workers, which then end their runs as interrupted, and
// waits for them. It returns the runs whose workers are still alive. The next pass starts the
// interrupted issues again.
func (j *job) stopWorkers(runs []reconcile.Run, r pass.Result) []reconcile.Run {
	ctx, cancel := context.WithTimeout(context.Background(), r.StopGrace()+stopSlack)
	defer cancel()
	local := &workers.Local{Machine: wiring.NewMachine(j.p.StateDir), StateDir: j.p.StateDir}
	var wg sync.WaitGroup
	for _, run := range runs {
		wg.Go(func() {
			if err := local.Stop(ctx, run); err != nil {
				j.log.Warn(
					"stopping a worker",
					slog.String("run_id", run.ID),
					slog.String("error", err.Error()),
				)
			}
		})
	}
	wg.Wait()
	isAlive := func(run reconcile.Run) bool { return wiring.Alive(j.p.StateDir, run.ID) }
	living := text.Filter(runs, isAlive)
	note := interrupted(runs, living)
	if note != "" && !j.options.Quiet {
		j.w.Note(slog.LevelInfo, note)
	}
	return living
}

// interrupted says which runs the loop ended, unless all are among the living.
func interrupted(runs, living []reconcile.Run) string {
	lives := func(run reconcile.Run) bool {
		return slices.ContainsFunc(living, func(other reconcile.Run) bool { return other.ID == run.ID })
	}
	ended := text.Filter(runs, func(run reconcile.Run) bool { return !lives(run) })
	if len(ended) == 0 {
		return ""
	}
	names := text.Map(ended, func(run reconcile.Run) string { return run.Identifier })
	return fmt.Sprintf(
		"the loop interrupted %s (%s); the next pass starts the issues again",
		text.Plural(len(ended), "worker"),
		strings.Join(names, ", "),
	)
}
