// Package operate carries out what an operator orders: to hold, retry, stop, take over or run an issue, to pause and resume the
// project. A command is stored, and a pass that looks at nothing else applies it.
package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/logs"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/worker"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/state"
)

// operation is one command and the pass that applies it.
type operation struct {
	p       *project.Project
	db      *state.DB
	cmd     reconcile.Command
	only    string // confines the pass to this issue; empty for all, pass.NoIssue for none
	result  pass.Result
	applied bool // otherwise the command stays for the next pass
}

// Apply stores a command about an issue, or about the project where issue is empty, runs a pass for it, and prints the result.
func Apply(ctx context.Context, p *project.Project, verb reconcile.Verb, issue string) error {
	return operate(ctx, p, verb, issue, func(o *operation) error {
		if err := o.run(ctx); err != nil {
			return err
		}
		if p.Env.JSON {
			p.Env.PrintJSON(o.result.JSON())
		} else if err := o.print(ctx); err != nil {
			return err
		}
		return o.reportRest(ctx)
	})
}

// operate opens the database for all that a command does, including its pass.
func operate(ctx context.Context, p *project.Project, verb reconcile.Verb, issue string, do func(*operation) error) (err error) {
	if err := p.Nested(); err != nil {
		return err // an agent must not give commands
	}
	db, err := state.Open(ctx, p.StateDir)
	if err == nil {
		defer func() { err = cmp.Or(err, db.Close()) }()
		_, err = project.OwnerPath(ctx, p, db)
	}
	if err != nil {
		return project.NoState(p, err)
	}
	o := &operation{p: p, db: db, cmd: reconcile.Command{Verb: verb}, only: pass.NoIssue}
	switch {
	case issue != "":
		if o.cmd.IssueID, o.cmd.Identifier, err = project.FindIssue(ctx, p, db, issue); err != nil {
			return err
		}
		o.only = o.cmd.IssueID
	case verb == reconcile.VerbStopAll:
		o.only = ""
	}
	return do(o)
}

// run stores the command and runs a pass for it. If another pass has the lock, the command stays for the next one.
func (o *operation) run(ctx context.Context) error {
	o.cmd.CreatedAt = o.p.Env.Now()
	id, err := o.db.Operator.AddCommand(ctx, o.cmd)
	if err != nil {
		return err
	}
	o.result, err = pass.Run(ctx, o.p, pass.Options{Trigger: project.TriggerCommand, Only: o.only, LockTimeout: project.CommandPatience, DB: o.db})
	switch {
	case err != nil:
		return fmt.Errorf("%s is noted for the next pass: %w", o.cmd.Verb, err)
	case o.result.Holder != nil:
		e := project.LockedError(o.result.Holder)
		e.Hint = "the command is kept: the next pass takes it up"
		return e
	}
	o.applied, err = o.db.Operator.CommandDone(ctx, id)
	return err
}

// print prints the pass of the command, and the command's effect unless an action of the pass says it.
func (o *operation) print(ctx context.Context) error {
	pass.ReportText(o.p, o.result)
	if !o.applied {
		return nil
	}
	effect, err := o.effect(ctx)
	if effect != "" {
		fmt.Fprintln(o.p.Env.Stdout, term.Visible(effect))
	}
	return err
}

func (o *operation) effect(ctx context.Context) (string, error) {
	switch o.cmd.Verb {
	case reconcile.VerbPause, reconcile.VerbStopAll:
		return "paused: nothing new is started until symphony resume", nil
	case reconcile.VerbResume:
		return "resumed", nil
	default: // about an issue
	}
	for _, a := range o.result.Applied {
		if a.IssueID == o.cmd.IssueID && (a.Kind == reconcile.ActHold || a.Kind == reconcile.ActStop || a.Kind == reconcile.ActRetry) {
			return "", nil
		}
	}
	c, claimed, err := o.db.Views.ClaimByIssue(ctx, o.cmd.IssueID)
	switch {
	case err != nil:
		return "", err
	case !claimed:
		return o.cmd.Identifier + " is not claimed: there is nothing to clear", nil
	case c.Status == reconcile.Held:
		return o.cmd.Identifier + " is held", nil
	case c.HoldNext:
		return o.cmd.Identifier + " is held when its run has ended", nil
	case c.Status == reconcile.Running:
		return o.cmd.Identifier + " runs, its counters are cleared", nil
	}
	return o.cmd.Identifier + " is due", nil
}

// reportRest says on stderr what the next pass has still to do, and whether a schedule will run one.
func (o *operation) reportRest(ctx context.Context) error {
	alive, err := project.ScheduleAlive(ctx, o.db, o.p.Env.Now())
	if err != nil {
		return err
	}
	if !o.applied {
		fmt.Fprintf(o.p.Env.Stderr, "symphony: %s is noted for the next pass\n", o.cmd.Verb)
	}
	if !alive && !project.Looping(o.p.StateDir) {
		fmt.Fprintln(o.p.Env.Stderr, "symphony: no schedule is active: run symphony tick")
	}
	if o.applied {
		return nil // other errors of the pass have been printed
	}
	return o.result.ExitCode()
}

// RunIssue runs a pass confined to the issue, then follows the run until it ends. The end of this command does not end the
// run.
func RunIssue(ctx context.Context, p *project.Project, ref string) error {
	issue, err := project.FetchIssue(ctx, p, ref)
	if err != nil {
		return err
	}
	r, err := pass.Run(ctx, p, pass.Options{Trigger: project.TriggerManual, Only: issue.ID, AnySlot: true, Stays: true, LockTimeout: project.CommandPatience})
	switch {
	case err != nil:
		return err
	case r.Holder != nil:
		return project.LockedError(r.Holder)
	}
	pass.ReportText(p, r)
	if err := r.ExitCode(); err != nil {
		return err
	}
	db, err := project.OpenForReading(context.WithoutCancel(ctx), p) // after a signal the message names the run that goes on
	if err != nil {
		return err
	}
	defer db.Close()
	c, claimed, err := db.Views.ClaimByIssue(context.WithoutCancel(ctx), issue.ID)
	if err != nil {
		return err
	}
	runID := c.RunID
	if i := slices.IndexFunc(r.Applied, func(a reconcile.Applied) bool { return a.Kind == reconcile.ActDispatch && a.Err == nil }); i >= 0 {
		runID = r.Applied[i].RunID
	} else if claimed && c.Status == reconcile.Running {
		fmt.Fprintf(p.Env.Stderr, "symphony: %s runs already\n", issue.Identifier)
	} else {
		return notStarted(issue, r, c, claimed)
	}
	if err := logs.FollowRun(ctx, p, runID); err != nil {
		return err
	}
	run, err := pass.WaitForRun(ctx, p, db, runID)
	if err != nil {
		return err
	}
	fmt.Fprintln(p.Env.Stdout, render.EndLine(run))
	if hint := render.Hint(run.ErrorCode); hint != "" {
		fmt.Fprintln(p.Env.Stderr, "  "+hint)
	}
	if run.Outcome != reconcile.Succeeded {
		return exit.Only(exit.Failed)
	}
	return nil
}

// notStarted is the error that says why the pass has started no run of the issue.
func notStarted(issue *reconcile.Issue, r pass.Result, c reconcile.Claim, claimed bool) error {
	e := &reconcile.Error{Code: "not_started", Message: fmt.Sprintf("%s is in state %q, which is not active, or not in this project", issue.Identifier, issue.State)}
	skips := slices.Clone(r.Skips)
	switch {
	case !claimed:
	case c.Status == reconcile.Held:
		e.Message, e.Hint = fmt.Sprintf("%s is held (%s): %s", issue.Identifier, c.HoldReason, c.HoldMessage), "symphony retry "+issue.Identifier
	case c.Kind == reconcile.Blocked:
		e.Message, e.Hint = fmt.Sprintf("%s waits for the end of %s: %s", issue.Identifier, c.ErrorCode, c.ErrorMessage), "symphony ps says when it is tried again"
	default:
		skips = append(skips, r.Waits...)
		e.Message = fmt.Sprintf("%s waits until %s (%s)", issue.Identifier, c.DueAt.UTC().Format(time.RFC3339), c.Kind)
		e.Hint = "symphony retry " + issue.Identifier
	}
	for _, s := range skips {
		if s.IssueID == issue.ID {
			return &reconcile.Error{Code: e.Code, Message: fmt.Sprintf("%s: %s (%s)", s.Identifier, s.Message, s.Reason), Hint: "symphony show " + s.Identifier + " says when it starts"}
		}
	}
	return e
}

// Takeover holds an issue, ends its run, and opens codex's own terminal in the issue's workspace. It returns when the session
// has ended. With yes it does not ask before it stops a run; then is retry, hold, or empty: ask at the end.
func Takeover(ctx context.Context, p *project.Project, ref string, yes bool, then string) error {
	w := p.Env
	if !w.OnTerminal() {
		return &reconcile.Error{Code: "not_a_terminal", Message: "takeover opens codex's own interface and needs a terminal", Hint: "run it in a terminal, not in a pipe or a script"}
	}
	if err := p.Nested(); err != nil {
		return err
	}
	claim, thread, err := holdIssue(ctx, p, ref, yes)
	if err != nil || claim.Status != reconcile.Held {
		return err
	}
	identifier := claim.Identifier
	code, err := openSession(ctx, p, claim, thread)
	if err != nil {
		return err
	}
	hint := "symphony retry " + identifier + " lets it go"
	interrupted := &reconcile.Error{Code: "canceled", Message: "ended by a signal; " + identifier + " stays held", Hint: hint}
	if ctx.Err() != nil {
		return interrupted
	}
	if code != 0 {
		return &reconcile.Error{Code: "takeover_failed", Message: fmt.Sprintf("codex ended with %d; %s stays held", code, identifier), Hint: hint}
	}
	if then == "" {
		line, err := term.AskLine(ctx, w, "Let "+term.Visible(identifier)+" go? [r]etry, [H]old: ", false)
		if ctx.Err() != nil {
			return interrupted
		}
		if err != nil {
			return err
		}
		then = strings.ToLower(strings.TrimSpace(line))
	}
	if then != "r" && then != "retry" {
		fmt.Fprintln(w.Stdout, term.Visible(identifier+" stays held: "+hint))
		return nil
	}
	return Apply(ctx, p, reconcile.VerbRetry, identifier)
}

// holdIssue holds an issue and ends its run. It returns the claim and the issue's newest thread; the claim is not held if the
// operator does not want the run to be stopped.
func holdIssue(ctx context.Context, p *project.Project, ref string, yes bool) (c reconcile.Claim, thread reconcile.Thread, err error) {
	db, err := project.OpenForReading(ctx, p)
	if err != nil {
		return c, thread, err
	}
	defer db.Close()
	id, identifier, err := project.FindIssue(ctx, p, db, ref)
	if err != nil {
		return c, thread, err
	}
	c, claimed, err := db.Views.ClaimByIssue(ctx, id)
	if err != nil {
		return c, thread, err
	}
	if claimed && c.Status == reconcile.Running && !yes {
		fmt.Fprintln(p.Env.Stdout, term.Visible(fmt.Sprintf("%s runs (run %s): it is stopped first", identifier, c.RunID)))
		if confirmed, err := term.Confirm(ctx, p.Env, "Stop it? [y]es, [N]o: "); err != nil || !confirmed {
			return c, thread, err
		}
	}
	if err := Stop(ctx, p, identifier, false); err != nil {
		return c, thread, err
	}
	c, _, err = db.Views.ClaimByIssue(ctx, id)
	if err == nil && c.Status != reconcile.Held {
		err = &reconcile.Error{Code: "not_held", Message: identifier + " could not be held", Hint: "symphony show " + identifier + " says how it stands"}
	}
	if err == nil {
		thread, _, err = db.Journal.LastThread(ctx, id, "")
	}
	return c, thread, err
}

// openSession takes the workspace of a held issue and opens codex's terminal in it, on the issue's newest thread if that worked
// in this very workspace. The exit code is codex's.
func openSession(ctx context.Context, p *project.Project, c reconcile.Claim, thread reconcile.Thread) (code int, err error) {
	w := p.Env
	cfg, err := p.Config()
	if err != nil {
		return 0, err
	}
	// An issue that was held before its first run has neither a root nor a record.
	if c.WorkspaceRoot == "" {
		c.WorkspaceRoot = project.Policy(cfg).WorkspaceRoot
	}
	if c.Issue.State == "" {
		issue, err := project.FetchIssue(ctx, p, c.Identifier)
		if err != nil {
			return 0, err
		}
		c.Issue = *issue
	}
	log := w.NewLog(slog.LevelWarn, term.TextLog)
	stopReaping := worker.Supervise(ctx, log)
	defer stopReaping()
	takeover := project.NewTakeover(p, cfg, c.Issue, c.WorkspaceRoot, log)
	defer func() { err = errors.Join(err, takeover.Close(ctx)) }()
	space, err := takeover.Take(ctx)
	if err != nil {
		return 0, err
	}
	if thread.WorkspaceID != space.ID {
		thread = reconcile.Thread{}
	}
	what := "a new session: no thread of codex's has worked there"
	if thread.ID != "" {
		what = "thread " + thread.ID
	}
	fmt.Fprintln(w.Stdout, term.Visible(fmt.Sprintf("%s is yours in %s, %s", c.Identifier, space.Path, what)))
	if names := takeover.WithheldPassEnv(); len(names) > 0 {
		fmt.Fprintln(w.Stderr, term.Visible("symphony: commands do not get "+strings.Join(names, ", ")+" here (agent.pass_env)"))
	}
	in, ok := w.Stdin.(*os.File)
	if !ok {
		return 0, errors.New("stdin is no terminal")
	}
	return takeover.Session(ctx, thread.ID, thread.CodexHome, host.Stdio{In: in, Out: w.Stdout, Err: w.Stderr})
}
