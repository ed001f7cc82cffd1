package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"github.com/symphony-cron/symphony/state"
)

// Stop ends the run of one issue, or all runs, and waits until they have ended.
type Stop struct {
	P      *project.Project
	Cmd    reconcile.Command
	Only   string // the issue's id, empty for all
	NoWait bool
	// ForTakeover is set by takeover itself: another takeover of the issue is then refused by the workspace's lease.
	ForTakeover bool

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
	Claim         string    `json:"claim"`
	Reason        string    `json:"reason"`
	WorkspacePath *string   `json:"workspace_path"` // null if there is none any more
	Left          []process `json:"left"`           // processes that have not ended
}

type process struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
}

const (
	// stopSlack is how much longer than its own bound a run may take: for the passes that kill and settle it.
	stopSlack = 15 * time.Second
	// The run of a dead worker is left to other passes for settleAfter; then this process runs a pass, every settleEvery.
	settleAfter = time.Second
	settleEvery = 5 * time.Second
	lookStep    = 50 * time.Millisecond
)

// Run stores the command, runs a pass, and waits for the end of the runs.
func (s *Stop) Run(ctx context.Context) error {
	return WithDatabase(ctx, s.P, s.Cmd.Verb, func(db *state.DB) error { return s.run(ctx, db) })
}

func (s *Stop) run(ctx context.Context, db *state.DB) error {
	began := proc.Monotonic()
	before, _ := s.unsettledRuns(ctx) // the write below reports errors of the database
	r, applied, err := runCommand(ctx, s.P, db, s.Cmd, s.Only)
	if err != nil || r == nil {
		return err
	}
	if !s.P.Env.JSON {
		if err := printPass(ctx, s.P, db, s.Cmd, *r, applied); err != nil {
			return err
		}
	}
	var waited error
	if applied && !s.NoWait {
		waited = s.wait(context.WithoutCancel(ctx), ctx.Done(), *r, before, began)
	}
	if s.P.Env.JSON {
		s.P.Env.PrintJSON(stopJSON{r.JSON(false), append([]stoppedRun{}, s.stopped...)})
	}
	return cmp.Or(waited, reportRest(ctx, s.P, db, s.Cmd, *r, applied))
}

// unsettledRuns lists the runs that the command is about and that no pass has settled yet.
func (s *Stop) unsettledRuns(ctx context.Context) ([]reconcile.Run, error) {
	db, err := project.OpenForReading(ctx, s.P)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	rec, err := db.Views.StateOf(ctx, s.Only)
	return slices.DeleteFunc(rec.Runs, func(r reconcile.Run) bool { return s.Only != "" && r.IssueID != s.Only }), err
}

// wait waits until every run has ended and is settled, and prints each. interrupted ends the waiting only. If no other pass
// kills and settles what is left, it runs one.
func (s *Stop) wait(ctx context.Context, interrupted <-chan struct{}, r pass.Result, before []reconcile.Run, began time.Duration) error {
	after, err := s.unsettledRuns(ctx)
	if err != nil {
		return err
	}
	s.endCleanups(ctx, after)
	runs := append(before, slices.DeleteFunc(after, func(a reconcile.Run) bool {
		return slices.ContainsFunc(before, func(b reconcile.Run) bool { return a.ID == b.ID })
	})...)
	db, err := project.OpenForReading(ctx, s.P)
	if err != nil {
		return err
	}
	defer db.Close()
	grace := reconcile.ShortestStop
	if r.Config != nil {
		grace = project.Policy(r.Config).StopGrace
	}
	patience := grace + stopSlack
	if slices.ContainsFunc(r.Errors, func(e *reconcile.Error) bool { return e.Code == "disk_full" }) {
		patience = settleEvery // no pass can settle anything
	}
	settledAt := proc.Monotonic() - settleEvery + settleAfter
	for len(runs) > 0 {
		open, err := s.collectEnded(ctx, db, runs, began)
		if err != nil {
			return err
		}
		now := proc.Monotonic()
		switch {
		case len(open) == 0:
			runs = nil
			continue
		case now-began > patience:
			return s.notEnded(ctx, db, open, began)
		case now-settledAt > settleEvery && (now-began > grace || slices.ContainsFunc(open, s.needsPass)):
			options := pass.Options{Trigger: project.TriggerCommand, Only: s.Only, LockTimeout: settleEvery}
			if _, err := pass.Run(ctx, s.P, options); err != nil {
				return err
			}
			settledAt = proc.Monotonic()
		}
		if runs = open; !sleepUnless(interrupted, lookStep) {
			return waitInterrupted(open)
		}
	}
	passes, err := s.waitForPasses(interrupted)
	if err != nil {
		return err
	}
	takeovers, err := s.endTakeovers(ctx, db)
	return cmp.Or(err, s.leftProcesses(passes, takeovers))
}

// waitForPasses waits for the passes that ended workers have started, and returns those that do not end. Only stop --all
// does so: it promises that nothing is left.
func (s *Stop) waitForPasses(interrupted <-chan struct{}) (list []reconcile.Process, err error) {
	if s.Only != "" {
		return nil, nil
	}
	for end := proc.Monotonic() + stopSlack; ; {
		list, err = proc.OwnPasses(s.P.StateDir)
		if errors.Is(err, errors.ErrUnsupported) {
			return nil, nil // they end by themselves, within seconds
		}
		if err != nil || len(list) == 0 || proc.Monotonic() > end || !sleepUnless(interrupted, lookStep) {
			return list, err
		}
	}
}

// collectEnded records and prints the runs that have ended, and returns the others.
func (s *Stop) collectEnded(ctx context.Context, db *state.DB, runs []reconcile.Run, began time.Duration) (open []reconcile.Run, err error) {
	for _, r := range runs {
		run, err := db.Views.Run(ctx, r.ID)
		if err != nil {
			return nil, err
		}
		if !run.Settled || project.Alive(s.P.StateDir, run.ID) {
			open = append(open, run)
			continue
		}
		row, err := s.describe(ctx, db, run, began)
		if err != nil {
			return nil, err
		}
		s.stopped = append(s.stopped, row)
		if !s.P.Env.JSON {
			fmt.Fprintln(s.P.Env.Stdout, term.Visible(row.text(run)))
		}
	}
	return open, nil
}

// needsPass reports whether only a pass can settle the run: its worker is dead.
func (s *Stop) needsPass(run reconcile.Run) bool {
	return !project.Alive(s.P.StateDir, run.ID) && (run.Outcome != "" || run.Phase != reconcile.Starting)
}

// endCleanups ends workers that remove workspaces. They have no claim, so no command reaches them. A later pass continues
// the removal.
func (s *Stop) endCleanups(ctx context.Context, runs []reconcile.Run) {
	if s.Only != "" {
		return
	}
	local := &runner.Local{StateDir: s.P.StateDir}
	short, cancel := context.WithTimeout(ctx, lookStep) // wait waits for their end
	defer cancel()
	for _, r := range runs {
		if r.Kind != reconcile.CleanupRun || r.Outcome != "" {
			continue
		}
		if err := local.Stop(short, r); err != nil {
			s.P.Env.PrintError(exit.From(err))
		}
	}
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

func (s *Stop) describe(ctx context.Context, db *state.DB, run reconcile.Run, began time.Duration) (stoppedRun, error) {
	row := stoppedRun{
		IssueID: run.IssueID, Identifier: run.Identifier, RunID: run.ID, Kind: string(run.Kind), Outcome: term.OrNull(string(run.Outcome)),
		AfterMS: (proc.Monotonic() - began).Milliseconds(), Claim: "released", Left: []process{},
	}
	c, claimed, err := db.Views.ClaimByIssue(ctx, run.IssueID)
	switch {
	case err != nil:
		return row, err
	case claimed && c.Status == reconcile.Held:
		row.Claim, row.Reason = "held", c.HoldReason
	case claimed && c.Status == reconcile.Waiting:
		row.Claim, row.Reason = "waiting", string(c.Kind)
	case claimed:
		row.Claim = string(c.Status)
	}
	if info, err := os.Lstat(run.WorkspacePath); err == nil && info.IsDir() {
		row.WorkspacePath = &run.WorkspacePath
	}
	for _, left := range (&runner.Local{StateDir: s.P.StateDir}).Probe(ctx, run).Left {
		row.Left = append(row.Left, process{left.PID, left.Name})
	}
	return row, nil
}

// leftProcesses is an error if processes of ended runs live on.
func (s *Stop) leftProcesses(passes []reconcile.Process, takeovers []string) error {
	list := takeovers
	for _, p := range passes {
		list = append(list, fmt.Sprintf("process %d (symphony tick)", p.PID))
	}
	for _, row := range s.stopped {
		list = append(list, row.leftTexts()...)
	}
	return notStopped(list)
}

func (row stoppedRun) leftTexts() (list []string) {
	for _, left := range row.Left {
		list = append(list, fmt.Sprintf("process %d (%s) of run %s of %s", left.PID, left.Name, row.RunID, row.Identifier))
	}
	return list
}

// notEnded is the error about runs that have not ended in time. It names their workers and processes.
func (s *Stop) notEnded(ctx context.Context, db *state.DB, open []reconcile.Run, began time.Duration) error {
	var list []string
	for _, run := range open {
		row, err := s.describe(ctx, db, run, began)
		if err != nil {
			return err
		}
		if project.Alive(s.P.StateDir, run.ID) {
			row.Left = append([]process{{run.Worker.PID, "symphony worker"}}, row.Left...)
		}
		s.stopped = append(s.stopped, row)
		list = append(list, row.leftTexts()...)
		if len(row.Left) == 0 {
			list = append(list, fmt.Sprintf("run %s of %s, which no pass has settled", run.ID, run.Identifier))
		}
	}
	return notStopped(list)
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

// waitInterrupted is the error after a signal that ended the waiting.
func waitInterrupted(open []reconcile.Run) error {
	var names []string
	for _, r := range open {
		names = append(names, r.Identifier)
	}
	return &reconcile.Error{
		Code: "canceled", Message: "ended by a signal; still ending: " + strings.Join(names, ", "),
		Hint: "they end all the same: symphony ps shows them",
	}
}

// sleepUnless sleeps for d. It returns false if interrupted comes first.
func sleepUnless(interrupted <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-interrupted:
		return false
	}
}

// endTakeovers ends the processes that killed takeovers have left. No pass knows of takeovers. It returns what has not ended,
// and the takeovers that are still in use, which their operators end.
func (s *Stop) endTakeovers(ctx context.Context, db *state.DB) (list []string, err error) {
	dirs, err := project.Rowless(ctx, s.P, db)
	if err != nil || len(dirs) == 0 {
		return nil, err
	}
	records, err := workspacesByRun(ctx, db)
	if err != nil {
		return nil, err
	}
	local := &runner.Local{StateDir: s.P.StateDir}
	for _, d := range dirs {
		rec := records[d.Name()]
		if s.Only != "" && s.Only != rec.IssueID {
			continue
		}
		run := reconcile.Run{ID: d.Name(), IssueID: rec.IssueID, Identifier: rec.Identifier}
		live := local.Probe(ctx, run)
		switch {
		case live.Alive && rec.IssueID != "" && !s.ForTakeover:
			list = append(list, fmt.Sprintf("the takeover of %s (run %s), which ends in its own terminal", run.Identifier, run.ID))
		case live.Alive || len(live.Left) == 0:
			continue // or a run that is just being created
		}
		left, err := local.Reap(ctx, run, func([]reconcile.Process) error { return nil })
		if errors.Is(err, reconcile.ErrConflict) {
			continue
		}
		if err != nil {
			return list, err
		}
		for _, p := range left {
			list = append(list, fmt.Sprintf("process %d (%s) of a takeover that was killed (run %s)", p.PID, p.Name, run.ID))
		}
	}
	return list, nil
}

// workspacesByRun returns the records of the project's workspaces by the run that used each last.
func workspacesByRun(ctx context.Context, db *state.DB) (map[string]workspace.Record, error) {
	roots, err := project.RootsOf(ctx, db)
	if err != nil {
		return nil, err
	}
	byRun := map[string]workspace.Record{}
	for _, path := range roots {
		root, found, err := workspace.FindRoot(path)
		if err != nil || !found {
			continue // passes report it
		}
		records, _ := root.List() // passes report unreadable records, too
		for _, r := range records {
			byRun[r.RunID] = r
		}
	}
	return byRun, nil
}
