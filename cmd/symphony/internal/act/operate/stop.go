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

// stopping is a stop that waits until runs have ended.
type stopping struct {
	*operation
	tell  StopCalls
	local workers.Local
	began time.Duration
}

// StopCalls are functions that Stop calls.
type StopCalls struct {
	Applied func(Result)      // before the wait
	Ended   func(line string) // for each run that has ended
	Killed  func(line string) // for each worker that was ended without the database
	Warn    func(error)       // for each process that could not be asked to end
}

// StopJSON is the pass as tick --json prints it, with the runs that were stopped.
type StopJSON struct {
	pass.ResultJSON
	Stopped []StoppedRun `json:"stopped"`
}

// StoppedRun is the end of one run.
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

// Stop stores the command to stop an issue, or all issues, runs a pass, and waits until the
// runs have ended. Stopping all issues ends the workers even if the database can't be used.
// The result of a wait that failed comes with the error.
func Stop(ctx context.Context, p *wiring.Project, c Command, tell StopCalls) (Result, error) {
	tell.setDefaults()
	r, err := operate(ctx, p, c, func(op *operation) error {
		local := workers.Local{Machine: wiring.NewMachine(p.StateDir), StateDir: p.StateDir}
		s := &stopping{operation: op, tell: tell, local: local, began: proc.Monotonic()}
		before, _ := s.unsettledRuns(ctx) // the write below reports database errors
		if err := s.run(ctx); err != nil {
			return err
		}
		tell.Applied(s.result)
		if !s.result.Applied || c.NoWait {
			return nil
		}
		return s.wait(ctx, before)
	})
	if c.Verb == reconcile.VerbStopAll && (state.NeedsRepair(err) || state.IsNewer(err)) {
		return r, endWorkers(ctx, p, tell, err)
	}
	return r, err
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

// unsettledRuns returns the command's runs that no pass has settled yet.
func (s *stopping) unsettledRuns(ctx context.Context) ([]reconcile.Run, error) {
	rec, err := s.db.Views.StateOf(ctx, s.cmd.IssueID)
	return slices.DeleteFunc(
		rec.Runs,
		func(r reconcile.Run) bool { return s.cmd.IssueID != "" && r.IssueID != s.cmd.IssueID },
	), err
}

// wait waits until every run has ended and is settled, and prints each. If no other pass kills
// and settles the rest, it runs one. A signal, which cancels the context signalled, ends the
// wait and nothing else.
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
	needsPass := func(run reconcile.Run) bool { // its worker is dead, so only a pass can settle it
		return !wiring.Alive(s.p.StateDir, run.ID) && (run.Outcome != "" || run.Phase != reconcile.Starting)
	}
	nextPass := proc.Monotonic() + settleAfter
	for {
		if runs, err = s.collectEnded(ctx, runs); err != nil {
			return err
		}
		if len(runs) == 0 {
			return s.checkLeft(signalled)
		}
		switch now := proc.Monotonic(); {
		case now-s.began > patience:
			return s.notEnded(ctx, runs)
		case now > nextPass && (now-s.began > grace || slices.ContainsFunc(runs, needsPass)):
			options := pass.Options{
				Trigger:     wiring.TriggerCommand,
				Only:        s.only,
				LockTimeout: settleEvery,
			}
			if _, err := pass.Run(ctx, s.p, options); err != nil {
				return err
			}
			nextPass = proc.Monotonic() + settleEvery
		}
		if !wiring.Sleep(signalled, lookStep) {
			names := text.Map(runs, func(r reconcile.Run) string { return r.Identifier })
			return reconcile.NewError(
				"canceled",
				"ended by a signal; these runs are still ending: "+strings.Join(names, ", "),
				"they end without this command; symphony ps shows them",
			)
		}
	}
}

// stopCleanups asks the cleanup runs among runs to end, if every run is to end. They have no
// claim, so that no command reaches them. A later pass starts the removals again.
func (s *stopping) stopCleanups(ctx context.Context, runs []reconcile.Run) {
	short, cancel := context.WithTimeout(ctx, lookStep)
	defer cancel()
	for _, run := range runs {
		if s.cmd.IssueID == "" && run.Kind == reconcile.CleanupRun && run.Outcome == "" {
			if err := s.local.Stop(short, run); err != nil {
				s.tell.Warn(err)
			}
		}
	}
}

// collectEnded records and prints the runs that have ended and returns the others.
func (s *stopping) collectEnded(ctx context.Context, runs []reconcile.Run) (open []reconcile.Run, err error) {
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
		s.result.Stopped = append(s.result.Stopped, row)
		s.tell.Ended(row.text(run))
	}
	return open, nil
}

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
	switch {
	case !claimed:
	case c.Status == reconcile.Held:
		row.Claim = "held"
		row.Reason = c.HoldReason
	case c.Status == reconcile.Waiting:
		row.Claim = "waiting"
		row.Reason = string(c.Kind)
	default:
		row.Claim = string(c.Status)
	}
	if run.Host != "" && run.WorkspacePath != "" {
		row.WorkspacePath = new(run.WorkspaceWhere())
	} else if info, err := os.Lstat(run.WorkspacePath); err == nil && info.IsDir() {
		row.WorkspacePath = &run.WorkspacePath
	}
	row.Left = append(row.Left, s.local.Probe(ctx, run).Left...)
	return row, err
}

// text is the line for a run that has ended.
func (row StoppedRun) text(run reconcile.Run) string {
	after := time.Duration(row.AfterMS) * time.Millisecond
	took := text.Duration(after)
	if after < time.Minute {
		took = fmt.Sprintf("%.1fs", after.Seconds())
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
		s.result.Stopped = append(s.result.Stopped, row)
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
		"not_stopped",
		"still running: "+strings.Join(list, "; "),
		"run the command again; if a process remains, see what it is (ps -fp PID) and kill it, as root if necessary",
	)
}

// checkLeft returns an error if processes of ended runs or takeovers are still alive. stop
// --all promises that nothing is left, so it also waits for the passes that ended workers have
// started.
func (s *stopping) checkLeft(signalled context.Context) (err error) {
	var passes []reconcile.Process
	for end := proc.Monotonic() + stopSlack; s.cmd.IssueID == ""; {
		passes, err = proc.OwnPasses(s.p.StateDir)
		if err != nil || len(passes) == 0 || proc.Monotonic() > end || !wiring.Sleep(signalled, lookStep) {
			break
		}
	}
	// where it is unsupported, passes end by themselves within seconds
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	list, err := s.endTakeovers(context.WithoutCancel(signalled))
	if err != nil {
		return err
	}
	list = append(
		list,
		text.Map(
			passes,
			func(p reconcile.Process) string { return fmt.Sprintf("process %d (symphony tick)", p.PID) },
		)...)
	for _, row := range s.result.Stopped {
		list = append(list, row.leftTexts()...)
	}
	return notStopped(list)
}

// endTakeovers ends the processes left by killed takeovers, which no pass knows of. It returns
// those that are still alive, and for stop --all also the takeovers in use, which only their
// operators can end.
func (s *stopping) endTakeovers(ctx context.Context) (list []string, err error) {
	dirs, err := wiring.Rowless(ctx, s.p, s.db)
	for _, d := range dirs {
		run := reconcile.Run{ID: d.Name()}
		live := s.local.Probe(ctx, run)
		if live.Alive && s.cmd.IssueID == "" {
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
	return list, err
}

// endPatience is how long workers have to end. One that runs a hook may need longer and a
// second stop.
const endPatience = 20 * time.Second

// endWorkers is stop --all without a readable database. No worker may be alive while an
// operator restores the database, and only the process list shows which are. It returns cause,
// the error of the database, with the next step as its hint.
func endWorkers(ctx context.Context, p *wiring.Project, tell StopCalls, cause error) error {
	known := *exit.From(cause)
	self := state.Holder{PID: os.Getpid(), Trigger: wiring.TriggerCommand, Since: p.Env.Now()}
	release, holder, err := state.Acquire(ctx, p.StateDir, self, wiring.CommandPatience, false)
	if err == nil && holder != nil {
		return wiring.LockedError(holder)
	}
	var workers map[string]proc.FoundWorker
	if err == nil {
		defer func() { _ = release() }() // the end of the process releases it anyway
		workers, err = proc.Workers(p.StateDir)
	}
	if err != nil {
		known.Message += "; and no worker was stopped: " + err.Error()
		known.Hint = "correct the second error and run the command again, or kill the processes named symphony worker"
		known.Err = errors.Join(cause, err)
		return &known
	}
	maps.DeleteFunc(
		workers,
		func(id string, _ proc.FoundWorker) bool { return !wiring.Alive(p.StateDir, id) },
	)
	// the database, which usually names the workflow of the state directory, can't be read
	for _, w := range workers {
		if wiring.Exists(w.Workflow) && !wiring.SameFile(w.Workflow, p.Path) {
			return reconcile.NewError(
				"state_conflict",
				fmt.Sprintf("the workers of %s belong to %s, not to %s", p.StateDir, w.Workflow, p.Path),
				"name that workflow: -w "+text.ShellQuote(w.Workflow),
			)
		}
	}
	for id, w := range workers {
		if err := proc.Signal(w.Process, unix.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			tell.Warn(fmt.Errorf("run %s: %w", id, err))
		}
	}
	isWorker := func(id string) bool { _, ok := workers[id]; return ok }
	living := wiring.LivingRuns(p)
	for end := p.Env.Now().Add(endPatience); slices.ContainsFunc(living, isWorker) && p.Env.Now().Before(end); living = wiring.LivingRuns(p) {
		if !wiring.Sleep(ctx, wiring.WaitStep) {
			break
		}
	}
	for _, id := range slices.Sorted(maps.Keys(workers)) {
		if slices.Contains(living, id) {
			continue
		}
		// In a backup of the database the run is still running. This note keeps its end from
		// counting against the issue.
		if err := proc.NoteUnstarted(wiring.AliveFile(p.StateDir, id), known.Code); err != nil {
			tell.Warn(fmt.Errorf("run %s: %w", id, err))
		}
		tell.Killed(fmt.Sprintf("ended the worker of run %s (pid %d)", id, workers[id].PID))
	}
	hidden := slices.DeleteFunc(slices.Clone(living), isWorker)
	switch {
	case len(hidden) > 0:
		known.Hint = "no process of run " + strings.Join(hidden, ", ") +
			" is visible from here: before you restore a backup, run the command again as root, or in the container where the worker was started"
	case len(living) > 0:
		known.Hint = "still ending: run " + strings.Join(
			living,
			", ",
		) + "; before you restore a backup, wait or run the command again"
	default:
		known.Hint = "all workers have ended: restore state.db from a backup, without state.db-wal and state.db-shm, or move " +
			p.StateDir + " aside to start over"
	}
	return &known
}
