// Package operate carries out what an operator orders: to hold, retry, stop, take over or run an issue, to pause and resume the
// project. A command is stored, and a pass that looks at nothing else applies it.
package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
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

// operate opens the database for all that a command does, including its pass. stop --all ends the workers even if the
// database can't be opened.
func operate(ctx context.Context, p *project.Project, verb reconcile.Verb, issue string, do func(*operation) error) (err error) {
	if err := p.Nested(); err != nil {
		return err // an agent must not give commands
	}
	db, err := state.Open(ctx, p.StateDir)
	if err == nil {
		defer func() { err = cmp.Or(err, db.Close()) }()
		_, err = project.OwnerPath(ctx, p, db)
	}
	if err != nil && verb == reconcile.VerbStopAll && state.NeedsRepair(err) {
		return endWorkers(ctx, p, err)
	}
	if err != nil {
		return project.NoState(p, err)
	}
	o := &operation{p: p, db: db, cmd: reconcile.Command{Verb: verb}, only: pass.NoIssue}
	switch {
	case issue != "":
		if o.cmd.IssueID, o.cmd.Identifier, err = project.FindIssueIn(ctx, p, db, issue); err != nil {
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
	if err != nil && o.cmd.Verb == reconcile.VerbStopAll && state.NeedsRepair(err) {
		return endWorkers(ctx, o.p, err)
	}
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

// readClaim returns the claim of an issue as it stands now.
func readClaim(ctx context.Context, p *project.Project, issueID string) (c reconcile.Claim, claimed bool, err error) {
	db, err := project.OpenForReading(ctx, p)
	if err != nil {
		return c, false, err
	}
	c, claimed, err = db.Views.ClaimByIssue(ctx, issueID)
	return c, claimed, errors.Join(err, db.Close())
}
