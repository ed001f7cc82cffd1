// Package operate carries out the commands of an operator: hold, retry, pause, resume and stop. A command is stored, and a
// pass that looks at nothing else applies it.
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

// WithDatabase opens the database for all that a command does, including its pass. stop --all ends the workers even if the
// database can't be opened.
func WithDatabase(ctx context.Context, p *project.Project, verb reconcile.Verb, do func(*state.DB) error) (err error) {
	if err := p.Nested(); err != nil {
		return err // an agent must not give commands
	}
	db, err := openOwned(ctx, p)
	if err != nil && verb == reconcile.VerbStopAll && state.NeedsRepair(err) {
		return endWorkers(ctx, p, err)
	}
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, db.Close()) }()
	return do(db)
}

// openOwned opens the database for writing, unless it belongs to another workflow.
func openOwned(ctx context.Context, p *project.Project) (*state.DB, error) {
	db, err := state.Open(ctx, p.StateDir)
	if err != nil {
		return nil, project.NoState(p, err)
	}
	if _, err := project.OwnerPath(ctx, p, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// Apply stores a command, runs a pass confined to the issue only, and prints the result.
func Apply(ctx context.Context, p *project.Project, cmd reconcile.Command, only string) error {
	return WithDatabase(ctx, p, cmd.Verb, func(db *state.DB) error { return ApplyIn(ctx, p, db, cmd, only) })
}

// ApplyIn is Apply with an open database.
func ApplyIn(ctx context.Context, p *project.Project, db *state.DB, cmd reconcile.Command, only string) error {
	r, applied, err := runCommand(ctx, p, db, cmd, only)
	if err != nil || r == nil {
		return err
	}
	if p.Env.JSON {
		p.Env.PrintJSON(r.JSON(false))
	} else if err := printPass(ctx, p, db, cmd, *r, applied); err != nil {
		return err
	}
	return reportRest(ctx, p, db, cmd, *r, applied)
}

// runCommand stores a command and runs a pass for it. If another pass has the lock, the command stays for the next one.
// applied reports whether a pass has applied it. The result is nil without an error if the database could not be written
// and all workers were ended without it.
func runCommand(ctx context.Context, p *project.Project, db *state.DB, cmd reconcile.Command, only string) (result *pass.Result, applied bool, err error) {
	cmd.CreatedAt = p.Env.Now()
	id, err := db.Operator.AddCommand(ctx, cmd)
	if err != nil && cmd.Verb == reconcile.VerbStopAll && state.NeedsRepair(err) {
		return nil, false, endWorkers(ctx, p, err)
	}
	if err != nil {
		return nil, false, err
	}
	r, err := pass.Run(ctx, p, pass.Options{Trigger: project.TriggerCommand, Only: only, LockTimeout: project.CommandPatience, DB: db})
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("%s is noted for the next pass: %w", cmd.Verb, err)
	case r.Holder != nil:
		e := project.LockedError(r.Holder)
		e.Hint = "the command is kept: the next pass takes it up"
		return nil, false, e
	}
	applied, err = db.Operator.CommandDone(ctx, id)
	return &r, applied, err
}

// printPass prints the pass of a command and the effect of the command.
func printPass(ctx context.Context, p *project.Project, db *state.DB, cmd reconcile.Command, r pass.Result, applied bool) error {
	pass.ReportText(p, p.Env, r)
	if !applied {
		return nil
	}
	text, err := effectOf(ctx, db, cmd, r)
	if text != "" {
		fmt.Fprintln(p.Env.Stdout, term.Visible(text))
	}
	return err
}

// reportRest says on stderr what the next pass has still to do, and whether a schedule will run one.
func reportRest(ctx context.Context, p *project.Project, db *state.DB, cmd reconcile.Command, r pass.Result, applied bool) error {
	alive, err := project.ScheduleAlive(ctx, db, p.Env.Now())
	if err != nil {
		return err
	}
	if !applied {
		fmt.Fprintf(p.Env.Stderr, "symphony: %s is noted for the next pass\n", cmd.Verb)
	}
	if !alive && !project.Looping(p.StateDir) {
		fmt.Fprintln(p.Env.Stderr, "symphony: no schedule is active: run symphony tick")
	}
	if applied {
		return nil // other errors of the pass have been printed
	}
	return r.ExitCode()
}

// effectOf describes the effect of a command. It is empty if an action of the pass says it already.
func effectOf(ctx context.Context, db *state.DB, cmd reconcile.Command, r pass.Result) (string, error) {
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
	c, claimed, err := db.Views.ClaimByIssue(ctx, cmd.IssueID)
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
