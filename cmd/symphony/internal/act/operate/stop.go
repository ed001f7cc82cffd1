package operate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/runner/workers"
	"github.com/symphony-cron/symphony/state"
)

// Stop holds an issue and ends its run, or pauses the project and ends every run.
type Stop struct {
	Issue    string
	All      bool // every run, and not only the run of an issue
	AfterRun bool // let the run of the issue end by itself
	NoWait   bool // do not wait until the runs have ended
}

// Name implements Command.
func (c Stop) Name() reconcile.Verb {
	switch {
	case c.All:
		return reconcile.VerbStopAll
	case c.AfterRun:
		return reconcile.VerbHold
	}
	return reconcile.VerbStop
}

// About implements Command.
func (c Stop) About(name string) Command {
	c.Issue = name
	return c
}

// Stops that wait are carried out all at once, because each run may take its time to end.
func (c Stop) atOnce(targets int) int {
	if c.NoWait || c.AfterRun {
		return mostAtOnce
	}
	return max(targets, 1)
}

func (c Stop) waits() bool { return !c.NoWait && !c.AfterRun }

func (c Stop) do(ctx context.Context, p *wiring.Project, runPass passRunner) (Done, error) {
	if c.AfterRun {
		o := newOperation(p, reconcile.Command{Verb: c.Name()}, runPass)
		err := o.carryOut(ctx, c.Issue, func() error { return o.change(ctx) })
		return Done{o.result, o.result.JSON()}, err
	}
	var ended []string
	calls := StopCalls{Ended: func(line string) { ended = append(ended, line) }}
	r, err := stop(ctx, p, c, calls, runPass)
	r.Effect = append(r.Effect, ended...)
	return Done{r.Result, r.JSON()}, err
}

// StopCalls are functions that StopRuns calls. Each may be nil.
type StopCalls struct {
	Applied func(Result)      // before the wait
	Ended   func(line string) // for each ended run
	Killed  func(line string) // for each worker that was ended without the database
	Warn    func(error)       // for each process that could not be asked to end
}

// StopResult is the outcome of a Stop.
type StopResult struct {
	Result
	Stopped []StoppedRun
}

// JSON returns the document of stop --json.
func (r StopResult) JSON() StopJSON {
	return StopJSON{r.Pass.JSON(), append([]StoppedRun{}, r.Stopped...)}
}

// StopJSON is the pass as tick --json prints it, with the runs that were stopped.
type StopJSON struct {
	pass.ResultJSON
	Stopped []StoppedRun `json:"stopped"`
}

// StoppedRun is the end of a run.
type StoppedRun struct {
	IssueID    string `json:"issue_id"`
	Identifier string `json:"issue_identifier"`
	RunID      string `json:"run_id"`
	Kind       string `json:"kind"`
	// Outcome is null if the run did not end in time.
	Outcome *string `json:"outcome"`
	AfterMS int64   `json:"after_ms"`
	// Claim is the claim afterwards: held, waiting, running or released; Reason is the cause.
	Claim         string              `json:"claim"`
	Reason        string              `json:"reason"`
	WorkspacePath *string             `json:"workspace_path"` // null if the workspace was removed
	Left          []reconcile.Process `json:"left"`           // processes that are still running
}

const (
	// stopSlack is added to the time that a run may take to end, for the passes that kill and
	// settle it.
	stopSlack = 15 * time.Second
	// Other passes get settleAfter to settle the run of a dead worker. After that this process
	// runs a pass every settleEvery.
	settleAfter = time.Second
	settleEvery = 5 * time.Second
	lookStep    = 50 * time.Millisecond
)

// stopping is a stop that waits until runs have ended.
type stopping struct {
	*operation
	all     bool // every run is to end
	calls   StopCalls
	local   workers.Local
	began   time.Duration
	stopped []StoppedRun
}

// StopRuns stores the command to stop an issue, or all issues, runs a pass, and waits until
// the runs have ended. Stopping all issues ends the workers even if the database can't be
// used. The result of a wait that failed comes with the error.
func StopRuns(ctx context.Context, p *wiring.Project, c Stop, calls StopCalls) (StopResult, error) {
	return stop(ctx, p, c, calls, pass.Run)
}

func stop(
	ctx context.Context,
	p *wiring.Project,
	c Stop,
	calls StopCalls,
	runPass passRunner,
) (StopResult, error) {
	calls.setDefaults()
	s := &stopping{
		operation: newOperation(p, reconcile.Command{Verb: c.Name()}, runPass),
		all:       c.All,
		calls:     calls,
		local:     workers.Local{Machine: wiring.NewMachine(p.StateDir), StateDir: p.StateDir},
	}
	err := s.carryOut(ctx, c.Issue, func() error {
		s.began = proc.Monotonic()
		before, _ := s.unsettledRuns(ctx) // the write below reports database errors
		if err := s.change(ctx); err != nil {
			return err
		}
		calls.Applied(s.result)
		if !s.result.Applied || c.NoWait {
			return nil
		}
		return s.wait(ctx, before)
	})
	if c.All && (state.NeedsRepair(err) || state.IsNewer(err)) {
		err = endWorkers(ctx, p, calls, err)
	}
	return StopResult{s.result, s.stopped}, err
}

// setDefaults replaces missing functions by some that do nothing.
func (s *StopCalls) setDefaults() {
	s.Applied = orNothing(s.Applied)
	s.Ended = orNothing(s.Ended)
	s.Killed = orNothing(s.Killed)
	s.Warn = orNothing(s.Warn)
}

func orNothing[T any](f func(T)) func(T) {
	if f == nil {
		return func(T) {}
	}
	return f
}

// unsettledRuns returns the command's runs that no pass settled yet.
func (s *stopping) unsettledRuns(ctx context.Context) ([]reconcile.Run, error) {
	rec, err := s.db.Views.StateOf(ctx, s.command.IssueID)
	if err != nil {
		return nil, err
	}
	of := func(r reconcile.Run) bool { return s.all || r.IssueID == s.command.IssueID }
	return text.Filter(rec.Runs, of), nil
}

// wait waits until every run ended and is settled, and prints each. If no other pass kills and
// settles the rest, it runs a pass itself. A signal, which cancels the context signalled, ends
// the wait and nothing else.
func (s *stopping) wait(signalled context.Context, runs []reconcile.Run) error {
	ctx := context.WithoutCancel(signalled)
	after, err := s.unsettledRuns(ctx)
	if err != nil {
		return err
	}
	s.stopCleanups(ctx, after)
	for _, a := range after {
		if !slices.ContainsFunc(runs, func(b reconcile.Run) bool { return a.ID == b.ID }) {
			runs = append(runs, a)
		}
	}
	grace := s.result.Pass.StopGrace()
	patience := grace + stopSlack
	isFull := func(e *reconcile.Error) bool { return e.Code == "disk_full" }
	if slices.ContainsFunc(s.result.Pass.Errors, isFull) {
		patience = settleEvery // no pass can settle anything
	}
	nextPass := proc.Monotonic() + settleAfter
	for {
		runs, err = s.collectEnded(ctx, runs)
		if err != nil {
			return err
		}
		if len(runs) == 0 {
			return s.checkLeft(signalled)
		}
		now := proc.Monotonic()
		if now-s.began > patience {
			return s.notEnded(ctx, runs)
		}
		if now > nextPass && (now-s.began > grace || slices.ContainsFunc(runs, s.needsPass)) {
			_, err := pass.Run(ctx, s.p, pass.Options{
				Trigger:     wiring.TriggerCommand,
				Only:        s.only,
				LockTimeout: settleEvery,
			})
			if err != nil {
				return err
			}
			nextPass = proc.Monotonic() + settleEvery
		}
		if !wiring.Sleep(signalled, lookStep) {
			names := text.Map(runs, func(r reconcile.Run) string { return r.Identifier })
			return reconcile.NewError(
				"canceled",
				"ended by a signal; these runs are still ending: "+strings.Join(names, ", "),
				"",
			).WithHint("they end without this command; %s shows them", reconcile.CommandFor("ps", ""))
		}
	}
}

// needsPass reports whether the worker of a run is dead, so that only a pass can settle it.
func (s *stopping) needsPass(run reconcile.Run) bool {
	return !wiring.Alive(s.p.StateDir, run.ID) && (run.Outcome != "" || run.Phase != reconcile.Starting)
}

// stopCleanups asks the cleanup runs among runs to end, if every run is to end. They have no
// claim, so that no command reaches them. A later pass starts the removals again.
func (s *stopping) stopCleanups(ctx context.Context, runs []reconcile.Run) {
	short, cancel := context.WithTimeout(ctx, lookStep)
	defer cancel()
	for _, run := range runs {
		if s.all && run.Kind == reconcile.CleanupRun && run.Outcome == "" {
			if err := s.local.Stop(short, run); err != nil {
				s.calls.Warn(err)
			}
		}
	}
}

// collectEnded records and prints the runs that have ended and returns the others.
func (s *stopping) collectEnded(
	ctx context.Context,
	runs []reconcile.Run,
) (open []reconcile.Run, err error) {
	for _, r := range runs {
		run, err := s.db.Runs.Find(ctx, r.ID)
		if err != nil {
			return nil, err
		}
		if !run.Settled || wiring.Alive(s.p.StateDir, run.ID) {
			open = append(open, run)
			continue
		}
		row, err := s.describe(ctx, run)
		if err != nil {
			return nil, err
		}
		s.stopped = append(s.stopped, row)
		s.calls.Ended(row.text(run))
	}
	return open, nil
}

// describe describes how a run ended, and the outcome for its issue and workspace.
func (s *stopping) describe(ctx context.Context, run reconcile.Run) (StoppedRun, error) {
	row := StoppedRun{
		IssueID:    run.IssueID,
		Identifier: run.Identifier,
		RunID:      run.ID,
		Kind:       string(run.Kind),
		Outcome:    text.OrNull(string(run.Outcome)),
		AfterMS:    (proc.Monotonic() - s.began).Milliseconds(),
		Claim:      "released",
		Left:       []reconcile.Process{},
	}
	c, claimed, err := s.db.Views.ClaimByIssue(ctx, run.IssueID)
	if err != nil {
		return row, err
	}
	if claimed {
		switch c.Status {
		case reconcile.Held:
			row.Claim = "held"
			row.Reason = c.HoldReason
		case reconcile.Waiting:
			row.Claim = "waiting"
			row.Reason = string(c.Kind)
		case reconcile.Running:
			row.Claim = "running"
		}
	}
	if run.Host != "" && run.WorkspacePath != "" {
		row.WorkspacePath = new(run.WorkspaceWhere())
	} else if info, err := os.Lstat(run.WorkspacePath); err == nil && info.IsDir() {
		row.WorkspacePath = &run.WorkspacePath
	}
	row.Left = append(row.Left, s.local.Probe(ctx, run).Left...)
	return row, nil
}

// text is the line for an ended run.
func (row StoppedRun) text(run reconcile.Run) string {
	after := time.Duration(row.AfterMS) * time.Millisecond
	took := text.Duration(after)
	if after < time.Minute {
		took = fmt.Sprintf("%.1fs", after.Truncate(100*time.Millisecond).Seconds())
	}
	if run.Kind == reconcile.CleanupRun {
		return fmt.Sprintf(
			"stopped the workspace removal of %s after %s: %s",
			row.Identifier,
			took,
			run.Outcome,
		)
	}
	line := fmt.Sprintf("stopped %s after %s: ", row.Identifier, took)
	if run.Outcome != reconcile.Canceled && run.Outcome != reconcile.InterruptedRun {
		line += "its run " + string(run.Outcome) + ", "
	}
	line += row.Claim
	if row.Reason != "" {
		line += " (" + row.Reason + ")"
	}
	if row.WorkspacePath == nil {
		return line + ", no workspace"
	}
	return line + ", workspace kept at " + *row.WorkspacePath
}

// notEnded returns the error that names the workers and processes of runs that did not end in
// time.
func (s *stopping) notEnded(ctx context.Context, open []reconcile.Run) error {
	var list []string
	for _, run := range open {
		row, err := s.describe(ctx, run)
		if err != nil {
			return err
		}
		if wiring.Alive(s.p.StateDir, run.ID) {
			row.Left = append(row.Left, reconcile.Process{
				PID:  run.Worker.PID,
				Name: "symphony worker",
			})
		}
		s.stopped = append(s.stopped, row)
		list = append(list, row.leftTexts()...)
		if len(row.Left) == 0 {
			list = append(list, fmt.Sprintf("run %s of %s, not settled by any pass", run.ID, run.Identifier))
		}
	}
	return notStopped(list)
}

func (row StoppedRun) leftTexts() []string {
	return text.Map(row.Left, func(left reconcile.Process) string {
		return fmt.Sprintf("process %d (%s) of run %s of %s", left.PID, left.Name, row.RunID, row.Identifier)
	})
}

func notStopped(list []string) error {
	if len(list) == 0 {
		return nil
	}
	return reconcile.NewError(
		"failed",
		"still running: "+strings.Join(list, "; "),
		"run the command again; if a process remains, see what it is (ps -fp PID) and kill it, as root if necessary",
	)
}

// checkLeft returns an error if processes of ended runs or takeovers are still alive. stop
// --all promises that nothing is left, so it also waits for the passes that ended workers have
// started.
func (s *stopping) checkLeft(signalled context.Context) error {
	var list []string
	if s.all {
		passes, err := s.awaitPasses(signalled)
		if err != nil {
			return err
		}
		list = text.Map(passes, func(p reconcile.Process) string {
			return fmt.Sprintf("process %d (symphony tick)", p.PID)
		})
	}
	takeovers, err := s.endTakeovers(context.WithoutCancel(signalled))
	if err != nil {
		return err
	}
	list = append(takeovers, list...)
	for _, row := range s.stopped {
		list = append(list, row.leftTexts()...)
	}
	return notStopped(list)
}

// awaitPasses waits a little for the passes of this state directory, and returns the ones that
// still run. Where they can't be found, passes end by themselves within seconds.
func (s *stopping) awaitPasses(ctx context.Context) ([]reconcile.Process, error) {
	for end := proc.Monotonic() + stopSlack; ; {
		passes, err := proc.OwnPasses(s.p.StateDir)
		if errors.Is(err, errors.ErrUnsupported) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if len(passes) == 0 || proc.Monotonic() > end || !wiring.Sleep(ctx, lookStep) {
			return passes, nil
		}
	}
}

// endTakeovers ends the processes left by killed takeovers, which no pass knows of. It returns
// the processes that are still alive, and for stop --all also the takeovers in use, which only
// their operators can end.
func (s *stopping) endTakeovers(ctx context.Context) (list []string, err error) {
	dirs, err := wiring.Rowless(ctx, s.p, s.db)
	if err != nil {
		return nil, err
	}
	for _, d := range dirs {
		run := reconcile.Run{ID: d.Name()}
		live := s.local.Probe(ctx, run)
		if live.Alive && s.all {
			list = append(list, fmt.Sprintf("takeover %s (end it in its terminal)", run.ID))
		}
		if live.Alive || len(live.Left) == 0 {
			continue
		}
		left, err := s.local.Reap(ctx, run, func([]reconcile.Process) error { return nil })
		if err != nil && !errors.Is(err, reconcile.ErrConflict) {
			return nil, err
		}
		for _, p := range left {
			list = append(
				list,
				fmt.Sprintf("process %d (%s) of the killed takeover %s", p.PID, p.Name, run.ID),
			)
		}
	}
	return list, nil
}

// endPatience is how long workers have to end. A worker that runs a hook may need longer and a
// second stop.
const endPatience = 20 * time.Second

// endWorkers is stop --all without a readable database. No worker may be alive while an
// operator restores the database, and only the process list shows which are. It returns cause,
// the error of the database, with the next step as its hint.
func endWorkers(ctx context.Context, p *wiring.Project, calls StopCalls, cause error) error {
	self := state.Holder{PID: os.Getpid(), Trigger: wiring.TriggerCommand, Since: p.Env.Now()}
	release, holder, err := state.Acquire(ctx, p.StateDir, self, wiring.CommandPatience, false)
	if err != nil {
		return noneEnded(cause, err)
	}
	if holder != nil {
		return wiring.LockedError(holder)
	}
	defer func() { _ = release() }() // the end of the process releases it anyway
	found, err := proc.Workers(p.StateDir)
	if err != nil {
		return noneEnded(cause, err)
	}
	maps.DeleteFunc(found, func(id string, _ proc.FoundWorker) bool {
		return !wiring.Alive(p.StateDir, id)
	})
	// the database, which usually names the workflow of the state directory, can't be read
	for _, id := range slices.Sorted(maps.Keys(found)) {
		w := found[id]
		if wiring.Exists(w.Workflow) && !wiring.SameFile(w.Workflow, p.Path) {
			return reconcile.NewError(
				"state_conflict",
				fmt.Sprintf("the workers of %s belong to %s, not to %s", p.StateDir, w.Workflow, p.Path),
				"name that workflow: -w "+text.ShellQuote(w.Workflow),
			)
		}
	}
	for id, w := range found {
		err := proc.Signal(w.Process, unix.SIGTERM)
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			calls.Warn(fmt.Errorf("run %s: %w", id, err))
		}
	}
	living := awaitEnds(ctx, p, found)
	code := exit.From(cause).Code
	for _, id := range slices.Sorted(maps.Keys(found)) {
		if slices.Contains(living, id) {
			continue
		}
		// In a backup of the database the run is still running. This note keeps its end from
		// counting against the issue.
		if err := proc.NoteUnstarted(wiring.AliveFile(p.StateDir, id), code); err != nil {
			calls.Warn(fmt.Errorf("run %s: %w", id, err))
		}
		calls.Killed(fmt.Sprintf("ended the worker of run %s (pid %d)", id, found[id].PID))
	}
	next := *exit.From(cause)
	next.Hint = restoreHint(p.StateDir, living, found)
	return &next
}

// noneEnded is the error of a stop that could not end any worker: the cause, for which the
// workers have to be found without the database, and why they were not found.
func noneEnded(cause, err error) error {
	both := *exit.From(cause)
	both.Message += "; and no worker was stopped: " + err.Error()
	both.Hint = "correct the second error and run the command again, or kill the processes named symphony worker"
	both.Err = errors.Join(cause, err)
	return &both
}

// awaitEnds waits until every found worker is dead, for endPatience at most. It returns the
// runs whose workers live, including workers that were not found.
func awaitEnds(ctx context.Context, p *wiring.Project, found map[string]proc.FoundWorker) []string {
	for end := p.Env.Now().Add(endPatience); ; {
		living := wiring.LivingRuns(p)
		waits := slices.ContainsFunc(living, func(id string) bool {
			_, is := found[id]
			return is
		})
		if !waits || p.Env.Now().After(end) || !wiring.Sleep(ctx, wiring.WaitStep) {
			return living
		}
	}
}

// restoreHint is the next step after the workers were asked to end.
func restoreHint(stateDir string, living []string, found map[string]proc.FoundWorker) string {
	hidden := slices.DeleteFunc(slices.Clone(living), func(id string) bool {
		_, is := found[id]
		return is
	})
	if len(hidden) > 0 {
		return "no process of run " + strings.Join(hidden, ", ") + " is visible from here: " +
			"before you restore a backup, run the command again as root, " +
			"or in the container where the worker was started"
	}
	if len(living) > 0 {
		return "still ending: run " + strings.Join(living, ", ") +
			"; before you restore a backup, wait or run the command again"
	}
	return "all workers have ended: restore state.db from a backup, without state.db-wal and state.db-shm, " +
		"or start over: " + state.Aside(stateDir)
}
