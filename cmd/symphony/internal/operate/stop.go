package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/runner/workers"
	"github.com/symphony-cron/symphony/state"
)

// stopping is a stop that waits for the end of runs.
type stopping struct {
	*operation
	local   workers.Local
	began   time.Duration
	stopped []stoppedRun
}

// stopJSON is the pass as tick --json prints it, with what was stopped.
type stopJSON struct {
	pass.ResultJSON
	Stopped []stoppedRun `json:"stopped"`
}

// stoppedRun is the end of one run.
type stoppedRun struct {
	IssueID    string `json:"issue_id"`
	Identifier string `json:"issue_identifier"`
	RunID      string `json:"run_id"`
	Kind       string `json:"kind"`
	// Outcome is null if the run has not ended in time.
	Outcome *string `json:"outcome"`
	AfterMS int64   `json:"after_ms"`
	// Claim is the claim afterwards: held, waiting, running or released; Reason says why.
	Claim         string              `json:"claim"`
	Reason        string              `json:"reason"`
	WorkspacePath *string             `json:"workspace_path"` // null if there is none any more
	Left          []reconcile.Process `json:"left"`           // processes that have not ended
}

const (
	// stopSlack is how much longer than its own bound a run may take: for the passes that kill and settle it.
	stopSlack = 15 * time.Second
	// The run of a dead worker is left to other passes for settleAfter; then this process runs a pass, every settleEvery.
	settleAfter = time.Second
	settleEvery = 5 * time.Second
	lookStep    = 50 * time.Millisecond
)

// Stop stores the command to stop an issue, or to stop all where issue is empty, runs a pass, and waits for the end of the
// runs unless noWait is set. To stop all it ends the workers even if the database can't be used.
func Stop(ctx context.Context, p *project.Project, issue string, noWait bool) error {
	verb := reconcile.VerbStop
	if issue == "" {
		verb = reconcile.VerbStopAll
	}
	err := operate(ctx, p, verb, issue, func(op *operation) error {
		s := &stopping{operation: op, local: workers.Local{Host: project.NewHost(), StateDir: p.StateDir}, began: proc.Monotonic(), stopped: []stoppedRun{}}
		before, _ := s.unsettledRuns(ctx) // the write below reports errors of the database
		if err := s.run(ctx); err != nil {
			return err
		}
		if !p.Env.JSON {
			if err := s.print(ctx); err != nil {
				return err
			}
		}
		var waited error
		if s.applied && !noWait {
			waited = s.wait(ctx, before)
		}
		if p.Env.JSON {
			p.Env.PrintJSON(stopJSON{s.result.JSON(), s.stopped})
		}
		return cmp.Or(waited, s.reportRest(ctx))
	})
	if verb == reconcile.VerbStopAll && state.NeedsRepair(err) {
		return endWorkers(ctx, p, err)
	}
	return err
}

// unsettledRuns lists the runs that the command is about and that no pass has settled yet.
func (s *stopping) unsettledRuns(ctx context.Context) ([]reconcile.Run, error) {
	rec, err := s.db.Views.StateOf(ctx, s.only)
	return slices.DeleteFunc(rec.Runs, func(r reconcile.Run) bool { return s.only != "" && r.IssueID != s.only }), err
}

// wait waits until every run has ended and is settled, and prints each. If no other pass kills and settles what is left, it
// runs one. A signal, which ends the context signalled, ends only the waiting.
func (s *stopping) wait(signalled context.Context, runs []reconcile.Run) error {
	ctx := context.WithoutCancel(signalled)
	after, err := s.unsettledRuns(ctx)
	if err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, lookStep)
	defer cancel()
	for _, a := range after {
		// The removal of a workspace has no claim, so no command reaches it. A later pass continues it.
		if s.only == "" && a.Kind == reconcile.CleanupRun && a.Outcome == "" {
			if err := s.local.Stop(short, a); err != nil {
				s.p.Env.PrintError(exit.From(err))
			}
		}
		if !slices.ContainsFunc(runs, func(b reconcile.Run) bool { return a.ID == b.ID }) {
			runs = append(runs, a)
		}
	}
	grace := s.result.StopGrace()
	patience := grace + stopSlack
	if slices.ContainsFunc(s.result.Errors, func(e *reconcile.Error) bool { return e.Code == "disk_full" }) {
		patience = settleEvery // no pass can settle anything
	}
	needsPass := func(run reconcile.Run) bool { // its worker is dead: only a pass can settle it
		return !project.Alive(s.p.StateDir, run.ID) && (run.Outcome != "" || run.Phase != reconcile.Starting)
	}
	settledAt := proc.Monotonic() - settleEvery + settleAfter
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
		case now-settledAt > settleEvery && (now-s.began > grace || slices.ContainsFunc(runs, needsPass)):
			options := pass.Options{Trigger: project.TriggerCommand, Only: s.only, LockTimeout: settleEvery}
			if _, err := pass.Run(ctx, s.p, options); err != nil {
				return err
			}
			settledAt = proc.Monotonic()
		}
		if !project.Sleep(signalled, lookStep) {
			var names []string
			for _, r := range runs {
				names = append(names, r.Identifier)
			}
			return &reconcile.Error{
				Code: "canceled", Message: "ended by a signal; still ending: " + strings.Join(names, ", "),
				Hint: "they end all the same: symphony ps shows them",
			}
		}
	}
}

// collectEnded records and prints the runs that have ended, and returns the others.
func (s *stopping) collectEnded(ctx context.Context, runs []reconcile.Run) (open []reconcile.Run, err error) {
	for _, r := range runs {
		run, err := s.db.Views.Run(ctx, r.ID)
		if err != nil {
			return nil, err
		}
		if !run.Settled || project.Alive(s.p.StateDir, run.ID) {
			open = append(open, run)
			continue
		}
		row, err := s.describe(ctx, run)
		if err != nil {
			return nil, err
		}
		s.stopped = append(s.stopped, row)
		if !s.p.Env.JSON {
			fmt.Fprintln(s.p.Env.Stdout, term.Visible(row.text(run)))
		}
	}
	return open, nil
}

func (s *stopping) describe(ctx context.Context, run reconcile.Run) (stoppedRun, error) {
	row := stoppedRun{
		IssueID: run.IssueID, Identifier: run.Identifier, RunID: run.ID, Kind: string(run.Kind), Outcome: term.OrNull(string(run.Outcome)),
		AfterMS: (proc.Monotonic() - s.began).Milliseconds(), Claim: "released", Left: []reconcile.Process{},
	}
	c, claimed, err := s.db.Views.ClaimByIssue(ctx, run.IssueID)
	switch {
	case !claimed:
	case c.Status == reconcile.Held:
		row.Claim, row.Reason = "held", c.HoldReason
	case c.Status == reconcile.Waiting:
		row.Claim, row.Reason = "waiting", string(c.Kind)
	default:
		row.Claim = string(c.Status)
	}
	if info, err := os.Lstat(run.WorkspacePath); err == nil && info.IsDir() {
		row.WorkspacePath = &run.WorkspacePath
	}
	row.Left = append(row.Left, s.local.Probe(ctx, run).Left...)
	return row, err
}

// text is the line about a run that has ended.
func (row stoppedRun) text(run reconcile.Run) string {
	after := time.Duration(row.AfterMS) * time.Millisecond
	took := term.Duration(after)
	if after < time.Minute {
		took = fmt.Sprintf("%.1fs", after.Seconds())
	}
	if run.Kind == reconcile.CleanupRun {
		return fmt.Sprintf("stopped the removal of %s after %s: %s", row.Identifier, took, run.Outcome)
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

// notEnded is the error about runs that have not ended in time. It names their workers and processes.
func (s *stopping) notEnded(ctx context.Context, open []reconcile.Run) error {
	var list []string
	for _, run := range open {
		row, err := s.describe(ctx, run)
		if err != nil {
			return err
		}
		if project.Alive(s.p.StateDir, run.ID) {
			row.Left = append(row.Left, reconcile.Process{PID: run.Worker.PID, Name: "symphony worker"})
		}
		s.stopped = append(s.stopped, row)
		list = append(list, row.leftTexts()...)
		if len(row.Left) == 0 {
			list = append(list, fmt.Sprintf("run %s of %s, which no pass has settled", run.ID, run.Identifier))
		}
	}
	return notStopped(list)
}

func (row stoppedRun) leftTexts() (list []string) {
	for _, left := range row.Left {
		list = append(list, fmt.Sprintf("process %d (%s) of run %s of %s", left.PID, left.Name, row.RunID, row.Identifier))
	}
	return list
}

func notStopped(list []string) error {
	if len(list) == 0 {
		return nil
	}
	return &reconcile.Error{
		Code: "not_stopped", Message: "still there: " + strings.Join(list, "; "),
		Hint: "repeat the command; end what is left then by hand, as root if necessary: ps -fp PID",
	}
}

// checkLeft is an error if processes of ended runs or takeovers live on. stop --all promises that nothing is left, so it also
// waits for the passes that ended workers have started.
func (s *stopping) checkLeft(signalled context.Context) (err error) {
	var passes []reconcile.Process
	for end := proc.Monotonic() + stopSlack; s.only == ""; {
		passes, err = proc.OwnPasses(s.p.StateDir)
		if err != nil || len(passes) == 0 || proc.Monotonic() > end || !project.Sleep(signalled, lookStep) {
			break
		}
	}
	if err != nil && !errors.Is(err, errors.ErrUnsupported) { // there they end by themselves, within seconds
		return err
	}
	list, err := s.endTakeovers(context.WithoutCancel(signalled))
	if err != nil {
		return err
	}
	for _, p := range passes {
		list = append(list, fmt.Sprintf("process %d (symphony tick)", p.PID))
	}
	for _, row := range s.stopped {
		list = append(list, row.leftTexts()...)
	}
	return notStopped(list)
}

// endTakeovers ends the processes that killed takeovers have left. No pass knows of takeovers. It returns what has not ended;
// for stop --all, also the takeovers that are in use, which their operators end.
func (s *stopping) endTakeovers(ctx context.Context) (list []string, err error) {
	dirs, err := project.Rowless(ctx, s.p, s.db)
	for _, d := range dirs {
		run := reconcile.Run{ID: d.Name()}
		live := s.local.Probe(ctx, run)
		if live.Alive && s.only == "" {
			list = append(list, fmt.Sprintf("the takeover %s, which ends in its own terminal", run.ID))
		}
		if live.Alive || len(live.Left) == 0 {
			continue
		}
		left, err := s.local.Reap(ctx, run, func([]reconcile.Process) error { return nil })
		if err != nil && !errors.Is(err, reconcile.ErrConflict) {
			return nil, err
		}
		for _, p := range left {
			list = append(list, fmt.Sprintf("process %d (%s) of a takeover that was killed (%s)", p.PID, p.Name, run.ID))
		}
	}
	return list, err
}

// endPatience is how long workers have to end. One that runs a hook may need longer, and a second stop.
const endPatience = 20 * time.Second

// endWorkers is stop --all without a readable database. No worker may live while an operator restores the database, and only
// the list of processes shows which do. cause is the error of the database; it is returned with the next step as its hint.
func endWorkers(ctx context.Context, p *project.Project, cause error) error {
	known := *exit.From(cause)
	release, holder, err := state.Acquire(ctx, p.StateDir, state.Holder{PID: os.Getpid(), Trigger: project.TriggerCommand, Since: p.Env.Now()}, project.CommandPatience, false)
	if err == nil && holder != nil {
		return project.LockedError(holder)
	}
	var workers map[string]proc.FoundWorker
	if err == nil {
		defer func() { _ = release() }() // the end of the process releases it anyway
		workers, err = proc.Workers(p.StateDir)
	}
	if err != nil {
		known.Message += "; and no worker was asked to end: " + err.Error()
		known.Hint = "correct the second error and repeat the command, or end the processes named symphony worker by hand"
		known.Err = errors.Join(cause, err)
		return &known
	}
	maps.DeleteFunc(workers, func(id string, _ proc.FoundWorker) bool { return !project.Alive(p.StateDir, id) })
	for _, w := range workers { // usually the database tells which workflow the state directory belongs to
		if project.Exists(w.Workflow) && !project.SameFile(w.Workflow, p.Path) {
			return &reconcile.Error{
				Code: "state_conflict", Message: fmt.Sprintf("the workers of %s belong to %s, not to %s", p.StateDir, w.Workflow, p.Path),
				Hint: "give that workflow: -w " + term.ShellQuote(w.Workflow),
			}
		}
	}
	for id, w := range workers {
		if err := proc.Signal(w.Process, unix.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			fmt.Fprintf(p.Env.Stderr, "symphony: warning: run %s: %v\n", id, err)
		}
	}
	isWorker := func(id string) bool { _, ok := workers[id]; return ok }
	living := project.LivingRuns(p)
	for end := p.Env.Now().Add(endPatience); slices.ContainsFunc(living, isWorker) && p.Env.Now().Before(end); living = project.LivingRuns(p) {
		if !project.Sleep(ctx, project.WaitStep) {
			break
		}
	}
	out := p.Env.Stdout
	if p.Env.JSON { // the one JSON object on stdout is the error
		out = p.Env.Stderr
	}
	for _, id := range slices.Sorted(maps.Keys(workers)) {
		if slices.Contains(living, id) {
			continue
		}
		// A backup of the database still has the run as running. This note keeps its end from counting against the issue.
		if err := proc.NoteUnstarted(filepath.Join(runner.RunDir(p.StateDir, id), "alive"), known.Code); err != nil {
			fmt.Fprintf(p.Env.Stderr, "symphony: warning: run %s: %v\n", id, err)
		}
		fmt.Fprintf(out, "ended the worker of run %s (pid %d)\n", id, workers[id].PID)
	}
	hidden := slices.DeleteFunc(slices.Clone(living), isWorker)
	switch {
	case len(hidden) > 0:
		known.Hint = "no process of run " + strings.Join(hidden, ", ") +
			" is to be seen from here: repeat the command as root, or where its worker was started (another container), before you put a backup in place"
	case len(living) > 0:
		known.Hint = "still ending: run " + strings.Join(living, ", ") + "; wait, or repeat the command, before you put a backup in place"
	default:
		known.Hint = "no worker lives any more: put a backup of state.db in its place, without state.db-wal and state.db-shm, or move " +
			p.StateDir + " aside to begin anew"
	}
	return &known
}
