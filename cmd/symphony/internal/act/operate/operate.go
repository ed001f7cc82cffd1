// Package operate carries out an operator's commands: tell the agent of an issue something, let the
// issue go on, stop it, take its result; decide a request; pause and resume the project. Most are
// stored in the database, and a pass that is confined to them applies them.
package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Command is a command of an operator: a Change, a Tell, a Retry, a Start, a Stop, a Finish or a
// Decision.
type Command interface {
	// Name is the verb, such as reconcile.VerbHold.
	Name() reconcile.Verb
	// About returns the same command about another issue, or request, such as ABC-7.
	About(name string) Command
	// atOnce returns how many of these commands, each about one of so many targets, run at the
	// same time. They share a pass then.
	atOnce(targets int) int
	// waits reports whether the command ends only after a run ends.
	waits() bool
	// do carries out the command. runPass runs its pass.
	do(ctx context.Context, p *wiring.Project, runPass passRunner) (Done, error)
}

// Verbs that are no commands to the planner.
const (
	VerbRun     reconcile.Verb = "run"
	VerbApprove reconcile.Verb = "approve"
	VerbDeny    reconcile.Verb = "deny"
	VerbTell    reconcile.Verb = "tell"
	VerbDone    reconcile.Verb = "done"
)

// single is part of the commands that share no pass and wait for no run.
type single struct{}

func (single) atOnce(int) int { return 1 }
func (single) waits() bool    { return false }

// passRunner runs a pass for a command, or for several commands together.
type passRunner func(context.Context, *wiring.Project, pass.Options) (pass.Result, error)

// Done is the outcome of a command of any kind.
type Done struct {
	Result
	// Document is printed by the command with --json, for instance a StopJSON.
	Document any
}

// Do carries out a command about an issue, a request or the project. Stop and Retry wait for
// their runs unless NoWait is set. An error may come with a result, for instance if the
// command is stored for the next pass.
func Do(ctx context.Context, p *wiring.Project, c Command) (Done, error) {
	return c.do(ctx, p, pass.Run)
}

// Result is the outcome of a command that a pass applies.
type Result struct {
	Verb    reconcile.Verb
	Pass    pass.Result // the pass that was run for it
	Applied bool        // if not, the next pass applies the command
	// Asked is what the operator asked for and the pass did first: "commented on ABC-7 and moved it
	// from Human Review to Todo".
	Asked []string
	// Effect describes the change by the command, or why there was nothing to change, where no
	// action of the pass shows it: "paused: no new run starts until symphony resume".
	Effect []string
	// Unscheduled: the command needs another pass, and no schedule will run it.
	Unscheduled bool
	// RunID is the run that works on the issue now. It is empty unless the command is a Start
	// or a Delivery.
	RunID  string
	stored bool // for the next pass, unless this pass applied it
}

// Err is an exit.Only if this pass had errors and left the command to the next pass.
func (r Result) Err() error {
	if r.Applied {
		return nil
	}
	return r.Pass.ExitCode()
}

// Warnings are the errors of a pass that applied the command nevertheless.
func (r Result) Warnings() []string {
	if !r.Applied {
		return nil
	}
	return text.Map(r.Pass.Errors, func(e *reconcile.Error) string {
		warning := fmt.Sprintf("%s was applied, but its pass reported %s", r.Verb, e)
		return withNext(warning, e)
	})
}

// Next lists the things that the command still needs to take effect.
func (r Result) Next() (list []string) {
	if r.stored && !r.Applied {
		list = append(list, "the next pass applies "+string(r.Verb))
	}
	if r.Unscheduled {
		list = append(list, "no schedule is active: run symphony tick")
	}
	return list
}

// Lines tell everything about the command, for readers without a terminal.
func (r Result) Lines(now time.Time) []string {
	list := slices.Concat(r.Pass.Warnings, r.Asked, r.Pass.Sentences(now), r.Effect, r.Warnings())
	if !r.Applied {
		for _, e := range r.Pass.Errors {
			list = append(list, withNext(e.Error(), e))
		}
	}
	return append(list, r.Next()...)
}

// withNext adds the next step, if any, after an error.
func withNext(line string, e *reconcile.Error) string {
	return strings.TrimSuffix(line+"; "+e.Hint, "; ")
}

// JSON is the pass as tick --json prints it.
func (r Result) JSON() pass.ResultJSON { return r.Pass.JSON() }

// operation is a command that is being carried out.
type operation struct {
	p       *wiring.Project
	db      *state.DB         // which the command and its pass share
	command reconcile.Command // as it is stored
	only    []string          // the pass's Options.Only
	// starts: the operator asks for a run, which the pass starts even without a schedule
	starts bool
	fresh  bool   // the next run begins a new conversation
	model  string // of the run that starts now; empty for the workflow's
	// takenBy is the account that takes the result of the issue; empty if none does.
	takenBy  string
	isPaused bool           // the project is paused
	skip     reconcile.Skip // why the last pass started no run of the issue; empty if it was not asked
	// wasPaused: the project was paused before the command
	wasPaused bool
	// wasBlocked: something waited that resume makes due
	wasBlocked bool
	// hasWaiting: an issue waited for a pass
	hasWaiting bool
	runPass    passRunner
	result     Result
}

func newOperation(p *wiring.Project, command reconcile.Command, runPass passRunner) *operation {
	return &operation{
		p:       p,
		command: command,
		runPass: runPass,
		result:  Result{Verb: command.Verb},
	}
}

// carryOut opens the database, finds the issue, and calls do. The issue is empty for a command
// about the project.
func (o *operation) carryOut(ctx context.Context, issue string, do func() error) (err error) {
	if err := o.p.Nested(); err != nil {
		return err // an agent must not operate symphony
	}
	o.db, err = o.open(ctx)
	if err != nil {
		step, command := o.firstStep(issue)
		return wiring.NoState(o.p, err, step, command)
	}
	defer func() { err = errors.Join(err, o.db.Close()) }()
	if _, err := wiring.OwnerPath(ctx, o.p, o.db); err != nil {
		return err
	}
	if err := o.refuseConflict(ctx); err != nil {
		return err
	}
	switch {
	case issue != "":
		o.command.IssueID, o.command.Identifier, err = wiring.FindIssue(ctx, o.p, o.db, issue)
		if err != nil {
			return err
		}
		o.only = []string{o.command.IssueID}
	case o.command.Verb == reconcile.VerbStopAll, o.command.Verb == reconcile.VerbResume:
		o.only = nil // all issues
	default:
		o.only = []string{pass.NoIssue}
	}
	if err := o.refuseElsewhere(ctx); err != nil {
		return err
	}
	return do()
}

// refuseConflict returns why passes refuse the project, if its state has never had a run. There
// projects move would lose what the operator asks for, and a stop would miss the runs of another
// account.
func (o *operation) refuseConflict(ctx context.Context) error {
	runs, err := o.db.Runs.Recent(ctx, 1)
	if err != nil || len(runs) > 0 {
		return err
	}
	cfg, invalid := o.p.ConfigWithoutKey()
	if invalid == nil { // otherwise a pass tells it
		if conflict := wiring.Conflict(o.p, cfg); conflict != nil {
			return conflict
		}
	}
	return nil
}

// open opens the database. Pause and hold work before the first pass, too.
func (o *operation) open(ctx context.Context) (*state.DB, error) {
	db, err := state.Open(ctx, o.p.StateDir)
	verb := o.command.Verb
	if errors.Is(err, state.ErrNoState) && (verb == reconcile.VerbPause || verb == reconcile.VerbHold) {
		return createState(ctx, o.p)
	}
	return db, err
}

// firstStep is the next step before the first pass, with %s for a command. A pass starts every
// agent that may work, also the one that the operator wants to stop.
func (o *operation) firstStep(issue string) (step string, command reconcile.CommandLine) {
	name := text.ShellQuote(text.Visible(issue))
	switch o.command.Verb {
	case reconcile.VerbStop:
		return "nothing runs yet: %s keeps it from starting", reconcile.CommandFor("stop --after-run", name)
	case reconcile.VerbStopAll:
		return "nothing runs yet: %s keeps every issue from starting", reconcile.CommandFor("pause", "")
	case reconcile.VerbResume:
		return "nothing is paused or blocked: %s starts what is ready", reconcile.CommandFor("tick", "")
	case VerbTell:
		return "no agent works yet: write it into the issue, if there is one; %s starts an agent",
			reconcile.CommandFor("run", name)
	default: // they go on with the work of an agent
		return "no agent has worked yet; if the tracker has that issue, %s starts one", reconcile.CommandFor("run", name)
	}
}

// createState creates the state of a project by a pass that starts nothing, unless the
// workspace root belongs to another state.
func createState(ctx context.Context, p *wiring.Project) (*state.DB, error) {
	cfg, err := p.ConfigWithoutKey()
	if err != nil {
		return nil, err
	}
	if err := wiring.CheckRoot(ctx, p, cfg); err != nil {
		return nil, err
	}
	first, err := pass.Run(ctx, p, pass.Options{
		Trigger:     wiring.TriggerCommand,
		Only:        []string{pass.NoIssue},
		LockTimeout: wiring.CommandPatience,
	})
	if err != nil {
		return nil, fmt.Errorf("run a pass that creates the state: %w", err)
	}
	if first.Holder != nil {
		return nil, wiring.LockedError(first.Holder)
	}
	db, err := state.Open(ctx, p.StateDir)
	if err != nil {
		return nil, fmt.Errorf("open the new state: %w", err)
	}
	return db, nil
}

// apply stores the command and runs a pass for it. If another pass holds the lock, the command
// stays for the next pass.
func (o *operation) apply(ctx context.Context) error {
	o.command.CreatedAt = o.p.Env.Now()
	id, err := o.db.Operator.AddCommand(ctx, o.command)
	if err != nil {
		return withHint(err, "the command is not stored: repeat it then")
	}
	o.result.stored = true
	if err := o.runPassFor(ctx); err != nil {
		return err
	}
	o.result.Applied, err = o.db.Operator.CommandDone(ctx, id)
	return err
}

// runPassFor runs a pass for a command.
func (o *operation) runPassFor(ctx context.Context) error {
	did, err := o.runPass(ctx, o.p, pass.Options{
		Trigger:     wiring.TriggerCommand,
		Only:        o.only,
		LockTimeout: wiring.CommandPatience,
		DB:          o.db,
		Starts:      o.starts,
		Model:       o.model,
		Taken:       pass.Taken{IssueID: o.command.IssueID, By: o.takenBy},
	})
	if err != nil && o.result.stored {
		return withHint(err, "the command is stored: the next pass applies it")
	}
	o.result.Pass = did
	if err != nil || did.Holder == nil {
		return err
	}
	locked := wiring.LockedError(did.Holder)
	if o.result.stored {
		locked.Hint = "the command is stored; the next pass applies it"
	}
	return locked
}

// withHint adds to the hint of an error.
func withHint(err error, more string) error {
	e := *exit.From(err)
	e.Hint = strings.TrimPrefix(e.Hint+"; "+more, "; ")
	return &e
}
