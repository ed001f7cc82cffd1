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
	"github.com/symphony-cron/symphony/state"
)

const (
	// stopSlack is what a run may take beyond its own bound: the passes that end it by force and settle it.
	stopSlack = 15 * time.Second
	// nudgeAfter is how long a dead worker's run may wait for somebody else's pass, nudgeEvery how often one is run here.
	nudgeAfter = time.Second
	nudgeEvery = 5 * time.Second
	stopLook   = 50 * time.Millisecond
)

// stoppedRow is what became of one run.
type stoppedRow struct {
	IssueID    string `json:"issue_id"`
	Identifier string `json:"issue_identifier"`
	RunID      string `json:"run_id"`
	Kind       string `json:"kind"`
	// Outcome is null where the run has not ended in time.
	Outcome *string `json:"outcome"`
	AfterMS int64   `json:"after_ms"`
	// Claim is what the claim is now: held, waiting, running or released; Reason says why.
	Claim         string    `json:"claim"`
	Reason        string    `json:"reason"`
	WorkspacePath *string   `json:"workspace_path"` // null where there is none any more
	Left          []leftRow `json:"left"`
}

// leftRow is a process that has not ended.
type leftRow struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
}

// unsettled are the runs that the command is about and that no pass has settled yet.
func (s *Stop) unsettled(ctx context.Context) ([]reconcile.Run, error) {
	db, err := project.OpenForReading(ctx, s.P)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	rec, err := db.StateOf(ctx, s.Only)
	return slices.DeleteFunc(rec.Runs, func(r reconcile.Run) bool { return s.Only != "" && r.IssueID != s.Only }), err
}

// await waits until every run has ended and is settled, and says what became of each. over ends the waiting, and with it
// nothing else. Where no other pass does it in time, it runs one that ends and settles what is left.
func (s *Stop) await(ctx context.Context, over <-chan struct{}, r pass.Result, before []reconcile.Run, began time.Duration) error {
	after, err := s.unsettled(ctx)
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
	if r.Cfg != nil {
		grace = project.Policy(r.Cfg).StopGrace
	}
	patience := grace + stopSlack
	if slices.ContainsFunc(r.Errors, func(e *reconcile.Error) bool { return e.Code == "disk_full" }) {
		patience = nudgeEvery // no pass will settle anything until somebody has freed space
	}
	nudged := proc.Monotonic() - nudgeEvery + nudgeAfter
	for len(runs) > 0 {
		open, err := s.look(ctx, db, runs, began)
		if err != nil {
			return err
		}
		now := proc.Monotonic()
		switch {
		case len(open) == 0:
			runs = nil
			continue
		case now-began > patience:
			return s.unended(ctx, db, open, began)
		case now-nudged > nudgeEvery && (now-began > grace || slices.ContainsFunc(open, s.dead)):
			if err := s.nudge(ctx); err != nil {
				return err
			}
			nudged = proc.Monotonic()
		}
		if runs = open; !pauseUnless(over, stopLook) {
			return s.broken(open)
		}
	}
	passes, err := s.awaitPasses(over)
	if err != nil {
		return err
	}
	takeovers, err := s.takeovers(ctx, db)
	return cmp.Or(err, s.leftovers(passes, takeovers))
}

// awaitPasses waits for the passes that the workers have started when they ended, and returns those that do not end.
// Nothing shall be left of all; an issue's run is over without them.
func (s *Stop) awaitPasses(over <-chan struct{}) (list []reconcile.Process, err error) {
	if s.Only != "" {
		return nil, nil
	}
	for end := proc.Monotonic() + stopSlack; ; {
		list, err = proc.OwnPasses(s.P.StateDir)
		if errors.Is(err, errors.ErrUnsupported) {
			return nil, nil // they end by themselves, within seconds
		}
		if err != nil || len(list) == 0 || proc.Monotonic() > end || !pauseUnless(over, stopLook) {
			return list, err
		}
	}
}

// look reports the runs that are over and returns those that are not.
func (s *Stop) look(ctx context.Context, db *state.DB, runs []reconcile.Run, began time.Duration) (open []reconcile.Run, err error) {
	for _, r := range runs {
		run, err := db.Run(ctx, r.ID)
		if err != nil {
			return nil, err
		}
		if !run.Settled || project.Alive(s.P.StateDir, run.ID) {
			open = append(open, run)
			continue
		}
		if err := s.ended(ctx, db, run, began); err != nil {
			return nil, err
		}
	}
	return open, nil
}

// dead: nobody will record its outcome, or somebody has, and no pass has settled it.
func (s *Stop) dead(run reconcile.Run) bool {
	return !project.Alive(s.P.StateDir, run.ID) && (run.Outcome != "" || run.Phase != reconcile.Starting)
}

// nudge runs a pass that settles what has ended and ends by force what does not.
func (s *Stop) nudge(ctx context.Context) error {
	_, err := pass.Run(ctx, s.P, pass.Options{Trigger: project.TriggerCommand, Only: s.Only, LockTimeout: nudgeEvery})
	return err
}

// endCleanups asks workers that remove workspaces to end: none of them holds a claim, so that no command reaches them.
// What they have begun a later pass goes on with. Of one issue's stop they are none.
func (s *Stop) endCleanups(ctx context.Context, runs []reconcile.Run) {
	if s.Only != "" {
		return
	}
	local := &runner.Local{StateDir: s.P.StateDir}
	at, cancel := context.WithTimeout(ctx, stopLook) // their end is waited for with the others'
	defer cancel()
	for _, r := range runs {
		if r.Kind != reconcile.CleanupRun || r.Outcome != "" {
			continue
		}
		if err := local.Stop(at, r); err != nil {
			s.P.Env.PrintError(exit.From(err))
		}
	}
}

// ended notes what became of a run, and says it.
func (s *Stop) ended(ctx context.Context, db *state.DB, run reconcile.Run, began time.Duration) error {
	row, err := s.row(ctx, db, run, began)
	if err != nil {
		return err
	}
	s.stopped = append(s.stopped, row)
	if s.P.Env.JSON {
		return nil
	}
	took := stopTook(time.Duration(row.AfterMS) * time.Millisecond)
	what := fmt.Sprintf("stopped %s after %s: ", row.Identifier, took)
	switch {
	case run.Kind == reconcile.CleanupRun:
		fmt.Fprintln(s.P.Env.Stdout, term.Visible(fmt.Sprintf("stopped the removal of %s after %s: %s", row.Identifier, took, run.Outcome)))
		return nil
	case run.Outcome != reconcile.Canceled && run.Outcome != reconcile.InterruptedRun:
		what += "its run " + string(run.Outcome) + ", "
	}
	what += row.Claim
	if row.Reason != "" {
		what += " (" + row.Reason + ")"
	}
	if row.WorkspacePath != nil {
		what += ", workspace kept at " + *row.WorkspacePath
	} else {
		what += ", no workspace"
	}
	fmt.Fprintln(s.P.Env.Stdout, term.Visible(what))
	return nil
}

func (s *Stop) row(ctx context.Context, db *state.DB, run reconcile.Run, began time.Duration) (stoppedRow, error) {
	row := stoppedRow{
		IssueID: run.IssueID, Identifier: run.Identifier, RunID: run.ID, Kind: string(run.Kind), Outcome: term.OrNull(string(run.Outcome)),
		AfterMS: (proc.Monotonic() - began).Milliseconds(), Claim: "released", Left: []leftRow{},
	}
	c, claimed, err := db.ClaimByIssue(ctx, run.IssueID)
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
		row.Left = append(row.Left, leftRow{left.PID, left.Name})
	}
	return row, nil
}

// leftovers is an error where processes of runs that have ended live on.
func (s *Stop) leftovers(passes []reconcile.Process, takeovers []string) error {
	list := takeovers
	for _, p := range passes {
		list = append(list, fmt.Sprintf("process %d (symphony tick)", p.PID))
	}
	for _, row := range s.stopped {
		for _, left := range row.Left {
			list = append(list, fmt.Sprintf("process %d (%s) of run %s of %s", left.PID, left.Name, row.RunID, row.Identifier))
		}
	}
	return leftError(list)
}

// unended is the error for runs that have not ended in time; their workers and processes are named.
func (s *Stop) unended(ctx context.Context, db *state.DB, open []reconcile.Run, began time.Duration) error {
	var list []string
	for _, run := range open {
		row, err := s.row(ctx, db, run, began)
		if err != nil {
			return err
		}
		if project.Alive(s.P.StateDir, run.ID) {
			row.Left = append([]leftRow{{run.Worker.PID, "symphony worker"}}, row.Left...)
		}
		s.stopped = append(s.stopped, row)
		for _, left := range row.Left {
			list = append(list, fmt.Sprintf("process %d (%s) of run %s of %s", left.PID, left.Name, run.ID, run.Identifier))
		}
		if len(row.Left) == 0 {
			list = append(list, fmt.Sprintf("run %s of %s, which no pass has settled", run.ID, run.Identifier))
		}
	}
	return leftError(list)
}

func leftError(list []string) error {
	if len(list) == 0 {
		return nil
	}
	return &reconcile.Error{
		Code: "not_stopped", Message: "still there: " + strings.Join(list, "; "),
		Hint: "repeat the command; what lives on then only a person can end, maybe as root: ps -fp PID",
	}
}

// broken: somebody has ended the waiting.
func (s *Stop) broken(open []reconcile.Run) error {
	var names []string
	for _, r := range open {
		names = append(names, r.Identifier)
	}
	return &reconcile.Error{
		Code: "canceled", Message: "ended by a signal; still ending: " + strings.Join(names, ", "),
		Hint: "they end all the same: symphony ps shows them",
	}
}

// pauseUnless waits for d; false where over comes first.
func pauseUnless(over <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-over:
		return false
	}
}

// stopTook is a short time with a tenth: 1.2s.
func stopTook(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return term.Duration(d)
}
