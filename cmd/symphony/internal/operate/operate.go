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

// atDesk opens the database once for all that a command of an operator's does, its pass included: opening it is a good
// part of what such a command takes, and closing it in between would merge the WAL each time. The process ends after it.
func AtDesk(ctx context.Context, p *project.Project, verb reconcile.Verb, do func(*state.DB) error) (err error) {
	if err := p.Nested(); err != nil {
		return err // before the command is kept: an agent must not steer
	}
	db, err := openOwn(ctx, p)
	if err != nil && verb == reconcile.VerbStopAll && unusable(err) {
		return endWorkers(ctx, p, err)
	}
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, db.Close()) }()
	return do(db)
}

// openOwn opens the database for writing where it is this workflow's.
func openOwn(ctx context.Context, p *project.Project) (*state.DB, error) {
	db, err := state.Open(ctx, p.StateDir)
	if err != nil {
		return nil, project.NoState(p, err)
	}
	if _, err := project.OwnerPath(ctx, p, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// command writes down what the operator wants, runs a pass confined to it, and says what came of it.
func Apply(ctx context.Context, p *project.Project, cmd reconcile.Command, only string) error {
	return AtDesk(ctx, p, cmd.Verb, func(db *state.DB) error { return SendCommand(ctx, p, db, cmd, only) })
}

func SendCommand(ctx context.Context, p *project.Project, db *state.DB, cmd reconcile.Command, only string) error {
	r, done, err := applyCommand(ctx, p, db, cmd, only)
	if err != nil || r == nil {
		return err
	}
	if p.Env.JSON {
		p.Env.PrintJSON(r.Json(false))
	} else if err := sayPass(ctx, p, db, cmd, *r, done); err != nil {
		return err
	}
	return noteUndone(ctx, p, db, cmd, *r, done)
}

// steer writes down what the operator wants, then runs a pass confined to it. If the pass can't have the lock, the
// command is kept for the next one. done: a pass has taken it up. Without a result and an error there was no database
// to write it to, and all workers have been ended without.
func applyCommand(ctx context.Context, p *project.Project, db *state.DB, cmd reconcile.Command, only string) (result *pass.Result, done bool, err error) {
	cmd.CreatedAt = p.Env.Now()
	id, err := db.AddCommand(ctx, cmd)
	if err != nil && cmd.Verb == reconcile.VerbStopAll && unusable(err) {
		return nil, false, endWorkers(ctx, p, err)
	}
	if err != nil {
		return nil, false, err
	}
	r, err := pass.Run(ctx, p, pass.Options{Trigger: project.TriggerCommand, Only: only, LockTimeout: project.CommandPatience, Db: db})
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("%s is noted for the next pass: %w", cmd.Verb, err)
	case r.Holder != nil:
		e := project.LockedError(r.Holder)
		e.Hint = "the command is kept: the next pass takes it up"
		return nil, false, e
	}
	done, err = db.CommandDone(ctx, id)
	return &r, done, err
}

// sayPass prints the pass of a command and what the command has led to.
func sayPass(ctx context.Context, p *project.Project, db *state.DB, cmd reconcile.Command, r pass.Result, done bool) error {
	pass.ReportText(p, p.Env, r)
	if !done {
		return nil
	}
	text, err := outcomeOf(ctx, db, cmd, r)
	if text != "" {
		fmt.Fprintln(p.Env.Stdout, term.Visible(text))
	}
	return err
}

// noteUndone says on stderr what is left to be done: by the next pass, or by somebody who runs one.
func noteUndone(ctx context.Context, p *project.Project, db *state.DB, cmd reconcile.Command, r pass.Result, done bool) error {
	alive, err := project.ScheduleAlive(ctx, db, p.Env.Now())
	if err != nil {
		return err
	}
	if !done {
		fmt.Fprintf(p.Env.Stderr, "symphony: %s is noted for the next pass\n", cmd.Verb)
	}
	if !alive && !project.Looping(p.StateDir) {
		fmt.Fprintln(p.Env.Stderr, "symphony: no schedule is active: run symphony tick")
	}
	if done {
		return nil // what else is wrong has been said, and what was asked for is done
	}
	return r.Code()
}

// outcomeOf says what a command has led to, where no action of the pass says it: it may have been taken up by
// another pass, or there was nothing to change.
func outcomeOf(ctx context.Context, db *state.DB, cmd reconcile.Command, r pass.Result) (string, error) {
	switch cmd.Verb {
	case reconcile.VerbPause, reconcile.VerbStopAll:
		return "paused: nothing new is started until symphony resume", nil
	case reconcile.VerbResume:
		return "resumed", nil
	default: // about an issue
	}
	for _, a := range r.Applied {
		if a.IssueID == cmd.IssueID && (a.Kind == reconcile.ActHold || a.Kind == reconcile.ActStop || a.Kind == reconcile.ActRetry) {
			return "", nil
		}
	}
	c, claimed, err := db.ClaimByIssue(ctx, cmd.IssueID)
	switch {
	case err != nil:
		return "", err
	case !claimed:
		return cmd.Identifier + " is not claimed: there is nothing to clear", nil
	case c.Status == reconcile.Held:
		return cmd.Identifier + " is held", nil
	case c.HoldNext:
		return cmd.Identifier + " is held when its run has ended", nil
	case c.Status == reconcile.Running:
		return cmd.Identifier + " runs, its counters are cleared", nil
	}
	return cmd.Identifier + " is due", nil
}
