package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// Worker carries out one run that it has taken.
type Worker struct {
	Config   Config
	Prompt   Prompt
	Journal  Journal
	Tracker  *reconcile.TrackerAdapter
	Requests Requests
	Host     host.Host
	Account  Account // nil: nothing is shared with other projects
	// AccountDir is where the locks are that projects on one account share; empty for none.
	AccountDir string
	Alive      *proc.Alive
	// Dir is the run's directory, StateDir the project's.
	Dir, StateDir string
	// Env is what hooks and agent get, before the secrets are taken out.
	Env     []string
	Version string
	Now     func() time.Time
	Log     *slog.Logger
	// Redactor keeps secrets out of everything that the run writes. Log writes through it too, so that secrets found
	// during the run stay out of the log.
	Redactor *agent.Redactor
	// Attend has a person told of the requests that were stored; it returns at once. Nil: a pass has to.
	Attend func(ctx context.Context)
}

// errStopped is the cause of a cancelled run.
type errStopped struct{ reason string }

func (e errStopped) Error() string { return "stopped: " + e.reason }

// errTerminated: somebody outside ended the worker.
var errTerminated = errors.New("the worker was asked to end from outside")

// errNotOurs: the row belongs to somebody else; nothing may be recorded.
var errNotOurs = fmt.Errorf("the run was settled by a pass: %w", reconcile.ErrConflict)

// errMovedOn: the issue is no longer to be worked on.
type errMovedOn struct{ reason string }

func (e errMovedOn) Error() string { return "the issue is no longer ours: " + e.reason }

// errTrackerGone: the tracker did not answer for so long that the run can't know whether to go on.
type errTrackerGone struct{ err error }

func (e errTrackerGone) Error() string { return "no answer from the tracker: " + e.err.Error() }
func (e errTrackerGone) Unwrap() error { return e.err }

// attempt is one run under way.
type attempt struct {
	*Worker
	run        reconcile.Run // as dispatched
	rec        *record
	ending     <-chan struct{} // closed when the run is to end
	events     *agent.EventLog
	space      *host.Workspace // nil until it is taken
	agent      *agentProcess
	thread     threadState
	made       creations
	limits     limitsReporter
	overBudget atomic.Bool // the issue has used up its tokens
	// exact keeps only the tracker's key out of what the agent is told.
	exact *agent.Redactor
	// environ is what the agent has of variables, codexHome where it keeps its threads, both once it has answered.
	environ   codexEnviron
	codexHome string
	// hooksStarted: before_run has been started, so that after_run is due. before is the workspace's fingerprint
	// then, empty where it took too long to find out.
	hooksStarted bool
	before       string
}

// Run carries out the run and returns it as recorded. Terminate, when closed, asks the worker to end as
// soon as it decently can. The error says that the outcome could not be recorded.
func (w *Worker) Run(ctx context.Context, run reconcile.Run, terminate <-chan struct{}) (reconcile.Run, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a := &attempt{
		Worker: w, run: run, ending: ctx.Done(),
		exact: agent.NewExactRedactor(w.Config.SecretValues),
	}
	if w.Redactor == nil {
		w.Redactor = agent.NewRedactor(nil)
	}
	a.Redactor.Add(slices.Concat(w.Config.SecretValues, secretsAmong(w.Env, w.Config.PassEnv)))
	a.limits = limitsReporter{account: w.Account, now: w.Now, log: w.Log}
	a.rec = a.newRecord(cancel)
	err := a.open()
	defer a.close()

	beats, stopBeats := a.beating(ctx)
	go func() {
		select {
		case <-terminate:
			a.rec.flush(beats) // a pass that signals has written its reason first
			cancel(errTerminated)
		case <-beats.Done():
		}
	}()

	if err == nil {
		err = a.work(ctx)
	}
	if err = a.finish(ctx, err); !errors.Is(err, errNotOurs) {
		err = a.conclude(ctx)
	}
	// Not before: a worker that waits for a disk with room must not look like one that stands still.
	stopBeats()
	return a.rec.get(), errors.Join(err, a.leaveWord(err))
}

// leaveWord says in the alive file why the outcome was not stored: a run that is settled without one for the machine's
// fault counts for nothing.
func (a *attempt) leaveWord(err error) error {
	if code := storeCode(err); err != nil && reconcile.MachineFault(code) {
		return a.Alive.Refuse(code)
	}
	return nil
}

// storeCode is the code of a journal's error, empty where it has none.
func storeCode(err error) string {
	var known *reconcile.Error
	if errors.As(err, &known) {
		return known.Code
	}
	return ""
}

// unreadable reports a database that only a person can bring back: whoever asks the worker to end is about to.
func unreadable(code string) bool { return code == "state_missing" || code == "state_corrupt" }

// Conclude records the outcome of a run that could not be begun, as patiently as Run does.
func (w *Worker) Conclude(ctx context.Context, run reconcile.Run) error {
	a := &attempt{Worker: w, run: run}
	a.rec = a.newRecord(func(error) {})
	_, stopBeats := a.beating(ctx)
	err := a.conclude(ctx)
	stopBeats()
	return errors.Join(err, a.leaveWord(err))
}

// beating lets the heart beat, whatever becomes of ctx, until stop is called.
func (a *attempt) beating(ctx context.Context) (beats context.Context, stop func()) {
	beats, cancel := context.WithCancel(context.WithoutCancel(ctx))
	over := make(chan struct{})
	go func() { defer close(over); a.rec.beat(beats, heartbeat) }()
	return beats, func() { cancel(); <-over }
}

func (a *attempt) newRecord(cancel context.CancelCauseFunc) *record {
	return &record{
		journal: a.Journal, alive: a.Alive, now: a.Now, log: a.Log, run: a.run,
		procs:   a.checkLocks,
		fresh:   a.noteNewProcesses,
		stopped: func(reason string) { cancel(errStopped{reason}) },
		lost:    func(error) { cancel(errNotOurs) },
		counted: func(ctx context.Context) { a.checkBudget(ctx, cancel) },
		base:    map[string]reconcile.Tokens{},
	}
}

// open opens the files of the run's directory. Where that fails, on a full disk for instance, the run ends as by any
// other fault.
func (a *attempt) open() error {
	events, err := agent.OpenEventLog(filepath.Join(a.Dir, eventsFile), a.Redactor)
	if err != nil {
		return err
	}
	a.events = events
	return nil
}

func (a *attempt) close() {
	var errs []error
	if a.events != nil {
		errs = append(errs, a.events.Close())
	}
	if err := errors.Join(errs...); err != nil {
		a.Log.Warn("run directory", slog.String("error", err.Error()))
	}
}

// work takes the run through its phases (specification 7.2) up to the end of its last turn.
func (a *attempt) work(ctx context.Context) error {
	if a.run.Kind == reconcile.CleanupRun {
		return a.removeWorkspace(ctx)
	}
	a.rec.phase(ctx, reconcile.PreparingWorkspace)
	if err := a.refresh(ctx); err != nil {
		return err
	}
	if err := a.prepare(ctx); err != nil {
		return err
	}
	a.rec.phase(ctx, reconcile.BuildingPrompt)
	prompt, err := a.Prompt.Render(a.rec.get().Issue, a.run.Attempt)
	if err != nil {
		return err
	}
	return a.converse(ctx, prompt)
}

// refresh asks the tracker for the issue and keeps the answer. An issue that is no longer active gives
// errMovedOn.
func (a *attempt) refresh(ctx context.Context) error {
	found, err := a.Tracker.ByIDs(ctx, []string{a.run.IssueID})
	if err != nil {
		return err
	}
	issue, visible := found[a.run.IssueID]
	switch p := a.Config.Policy; {
	case !visible:
		return errMovedOn{reconcile.StopMissing}
	case p.Terminal(issue.State):
		return errMovedOn{reconcile.StopTerminal}
	case issue.Elsewhere:
		return errMovedOn{reconcile.StopMoved}
	case issue.Archived || !p.Active(issue.State):
		return errMovedOn{reconcile.StopInactive}
	case !p.Labelled(issue):
		return errMovedOn{reconcile.StopLabel}
	case !p.Ours(issue):
		return errMovedOn{reconcile.StopAssignee}
	}
	a.rec.change(func(r *reconcile.Run) { r.Issue = issue })
	return nil
}

// The patience of a refresh between two turns, when the agent waits with its work half done.
const (
	refreshPatience = 15 * time.Minute
	refreshPause    = 10 * time.Second
)

// refreshPatiently repeats a refresh that fails: the work of the turn before is not thrown away for a
// tracker that is down for a moment.
func (a *attempt) refreshPatiently(ctx context.Context) error {
	end := time.NewTimer(refreshPatience)
	defer end.Stop()
	for {
		err := a.refresh(ctx)
		var known *reconcile.Error
		if err == nil || !errors.As(err, &known) || !reconcile.TrackerFault(known.Code) {
			return err
		}
		a.Log.LogAttrs(ctx, slog.LevelWarn, "refresh failed, trying again", slog.String("error", err.Error()))
		pause := refreshPause
		var limit reconcile.Limited
		if errors.As(err, &limit) {
			pause = max(pause, limit.ResetAt().Sub(a.Now())) // a question before that is refused and costs the others
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-end.C:
			return errTrackerGone{err}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// judge turns the error that ended the work into the run's outcome (specification 10.6).
func (a *attempt) judge(ctx context.Context, err error) (outcome reconcile.Outcome, code, message string) {
	var stopped errStopped
	var moved errMovedOn
	var gone errTrackerGone
	var overBudget errOverBudget
	cause := context.Cause(ctx)
	switch {
	case err == nil:
		return reconcile.Succeeded, "", ""
	case errors.As(cause, &stopped):
		return reconcile.Canceled, stopped.reason, stopped.Error()
	case errors.Is(cause, errTerminated):
		return reconcile.InterruptedRun, reconcile.CodeTerminated, errTerminated.Error()
	case errors.As(cause, &overBudget):
		return reconcile.Canceled, reconcile.CodeMaxTokens, overBudget.Error()
	case errors.As(err, &moved):
		return reconcile.Canceled, moved.reason, moved.Error()
	case errors.As(err, &gone):
		return reconcile.InterruptedRun, "tracker_unavailable", gone.Error()
	}
	code, message = a.codeOf(err)
	if full := a.fullDisk(); full != "" && !reconcile.MachineFault(code) {
		return reconcile.Failed, codeDiskFull, "no space left on the volume of " + full + ": " + code + ": " + message
	}
	var agents *codex.Error
	if errors.As(err, &agents) {
		switch agents.Code {
		case codex.CodeTurnTimeout:
			return reconcile.TimedOut, code, message
		case codex.CodeStalled:
			return reconcile.Stalled, code, message
		default: // a failure like any other
		}
	}
	return reconcile.Failed, code, message
}

const codeDiskFull = "disk_full"

// fullDiskBytes is less than what a hook or an agent can do anything with.
const fullDiskBytes = 64 << 10

// fullDisk names a directory of the run's on a volume that is full, empty if none is: what fails then fails for that,
// whatever a hook or an agent has made of it.
func (a *attempt) fullDisk() string {
	for _, dir := range []string{a.run.WorkspaceRoot, a.StateDir} {
		if dir == "" {
			continue
		}
		if facts, err := a.Host.Facts(context.Background(), host.FactsRequest{Path: dir, Free: true}); err == nil && facts.FreeBytes < fullDiskBytes {
			return dir
		}
	}
	return ""
}

// codeOf finds the stable code of an error and its text without that code.
func (a *attempt) codeOf(err error) (code, message string) {
	var ours *reconcile.Error
	var agents *codex.Error
	switch {
	case proc.LimitReached(err):
		return reconcile.CodeResourceLimit, err.Error()
	case errors.As(err, &ours):
		return ours.Code, ours.Message
	case errors.As(err, &agents) && agents.Code == codex.CodeStalled && agents.Cause != "":
		return string(agents.Cause), agents.Message // it waited for something outside, and said for what
	case errors.As(err, &agents):
		return string(agents.Code), agents.Message
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return codeDiskFull, err.Error()
	}
	return "run_failed", err.Error()
}

// The patience of the outcome: a full disk or a busy database must not lose what a run has done.
const (
	concludePatience = 10 * time.Minute
	concludePause    = 2 * time.Second
)

// conclude records the outcome. Until it is recorded the worker lives on and holds its run.
func (a *attempt) conclude(run context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(run), concludePatience)
	defer cancel()
	var before error
	for {
		err := a.Journal.Finish(ctx, a.Now(), a.rec.get())
		if err == nil || errors.Is(err, reconcile.ErrConflict) {
			return err
		}
		if ctx.Err() != nil && before != nil {
			return fmt.Errorf("outcome of %s: %w", a.run.ID, before) // and not that the time was over in the middle of a try
		}
		before = err
		if code := storeCode(err); code == "state_replaced" || errors.Is(context.Cause(run), errTerminated) && unreadable(code) {
			return fmt.Errorf("outcome of %s: %w", a.run.ID, err)
		}
		a.Log.LogAttrs(ctx, slog.LevelError, "outcome not stored, trying again", slog.String("error", err.Error()))
		pause := time.NewTimer(concludePause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return fmt.Errorf("outcome of %s: %w", a.run.ID, err)
		}
	}
}

func isCode(err error, code string) bool {
	var known *reconcile.Error
	return errors.As(err, &known) && known.Code == code
}
