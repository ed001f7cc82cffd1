// Package operate carries out an operator's commands: hold, retry, stop, take over or run an
// issue; pause and resume the project. It stores the command and runs a pass that is confined
// to it.
package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/requests"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Command is what an operator asks for.
type Command struct {
	Verb  reconcile.Verb
	Issue string // empty for a command about the project
	Fresh bool   // of a retry: the agent starts a new thread
	// UnverifiedBy is of deliver: the account whose user hands the issue over although verify
	// has not passed; empty for others.
	UnverifiedBy string
	Model        string // of run: instead of the workflow's; empty for that
	// of stop and deliver, in Do and Each: do not wait until the run has ended
	NoWait   bool
	Decision requests.Decision // of approve, deny and answer, whose Issue names a request
	Text     string            // of tell

	pass passRunner // nil for pass.Run
}

// waitsForRun reports whether the command about an issue waits for the end of a run.
func (c Command) waitsForRun() bool {
	return !c.NoWait && (c.Verb == reconcile.VerbStop || c.delivers())
}

// passRunner runs a pass: one of the command's own, or one for several commands.
type passRunner func(context.Context, *wiring.Project, pass.Options) (pass.Result, error)

func (c Command) delivers() bool {
	return c.Verb == reconcile.VerbDeliver || c.Verb == reconcile.VerbVerify
}

// Result is what became of a command.
type Result struct {
	Verb    reconcile.Verb
	Pass    pass.Result // the pass that was run for it
	Applied bool        // if not, the next pass applies the command
	// Effect is what the command has changed, or why there was nothing to change, where no
	// action of the pass shows it.
	Effect []string
	// Unscheduled: the command needs another pass, and no schedule runs one.
	Unscheduled bool
	stored      bool               // for the next pass, unless this one has applied it
	RunID       string             // the run that works on the issue now, of StartIssue and Deliver
	Stopped     []StoppedRun       // of Stop
	Decided     *reconcile.Request // of approve, deny and answer
	Told        *ToldJSON          // of tell
}

// Err is an exit.Only if the next pass still has to apply the command because this one had
// errors.
func (r Result) Err() error {
	if r.Applied {
		return nil
	}
	return r.Pass.ExitCode()
}

// Warnings are the errors of a pass that has applied the command nevertheless.
func (r Result) Warnings() []string {
	if !r.Applied {
		return nil
	}
	return text.Map(r.Pass.Errors, func(e *reconcile.Error) string {
		return strings.TrimSuffix(
			fmt.Sprintf("%s was applied, but its pass reported %s; %s", r.Verb, e, e.Hint),
			"; ",
		)
	})
}

// Next returns what the command still needs to take effect.
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
	list := slices.Concat(r.Pass.Warnings, r.Pass.Sentences(now), r.Effect, r.Warnings())
	if !r.Applied {
		for _, e := range r.Pass.Errors {
			list = append(list, strings.TrimSuffix(e.Error()+"; "+e.Hint, "; "))
		}
	}
	return append(list, r.Next()...)
}

// JSON is the document of the command: the request or the message, or the pass, and of stop
// also the runs that were stopped.
func (r Result) JSON() any {
	if r.Decided != nil {
		return requests.NewJSON(*r.Decided)
	}
	if r.Told != nil {
		return *r.Told
	}
	if r.Verb == reconcile.VerbStop || r.Verb == reconcile.VerbStopAll {
		return StopJSON{r.Pass.JSON(), append([]StoppedRun{}, r.Stopped...)}
	}
	return r.Pass.JSON()
}

// operation is a stored command and the pass that applies it.
type operation struct {
	p      *wiring.Project
	db     *state.DB
	asked  Command
	cmd    reconcile.Command
	only   []string // the pass's Options.Only
	result Result
}

// Apply stores a command and runs a pass for it.
func Apply(ctx context.Context, p *wiring.Project, c Command) (Result, error) {
	return operate(ctx, p, c, func(o *operation) error {
		if c.Fresh {
			if err := o.db.Operator.EndThreads(ctx, o.cmd.IssueID); err != nil {
				return err
			}
		}
		if c.Verb == reconcile.VerbUnblock {
			if err := o.forgetLimits(ctx); err != nil {
				return err
			}
		}
		return o.run(ctx)
	})
}

// operate opens the database that the command and its pass share, resolves the issue, and
// calls do.
func operate(
	ctx context.Context,
	p *wiring.Project,
	c Command,
	do func(*operation) error,
) (r Result, err error) {
	if err := p.Nested(); err != nil {
		return r, err // an agent must not operate symphony
	}
	db, err := state.Open(ctx, p.StateDir)
	// before the first pass
	if errors.Is(err, state.ErrNoState) && (c.Verb == reconcile.VerbPause || c.Verb == reconcile.VerbHold) {
		db, err = createState(ctx, p)
	}
	if err == nil {
		defer func() { err = errors.Join(err, db.Close()) }()
		_, err = wiring.OwnerPath(ctx, p, db)
	}
	if err != nil {
		return r, wiring.NoState(p, err)
	}
	o := &operation{
		p:     p,
		db:    db,
		asked: c,
		cmd:   reconcile.Command{Verb: c.Verb, UnverifiedBy: c.UnverifiedBy},
		only:  []string{pass.NoIssue},
	}
	switch {
	case c.Issue != "":
		if o.cmd.IssueID, o.cmd.Identifier, err = wiring.FindIssue(ctx, p, db, c.Issue); err != nil {
			return r, err
		}
		o.only = []string{o.cmd.IssueID}
	case c.Verb == reconcile.VerbStopAll, c.Verb == reconcile.VerbUnblock:
		o.only = nil
	}
	o.result.Verb = c.Verb
	err = do(o)
	return o.result, err
}

// createState creates the state of a project by a pass that starts nothing, unless the
// workspace root belongs to another state.
func createState(ctx context.Context, p *wiring.Project) (*state.DB, error) {
	cfg, err := p.ConfigWithoutKey()
	if err == nil {
		err = wiring.RootFits(ctx, p, cfg, true)
	}
	if err != nil {
		return nil, err
	}
	first, err := pass.Run(ctx, p, pass.Options{
		Trigger:     wiring.TriggerCommand,
		Only:        []string{pass.NoIssue},
		LockTimeout: wiring.CommandPatience,
	})
	if err == nil && first.Holder != nil {
		err = wiring.LockedError(first.Holder)
	}
	if err != nil {
		return nil, err
	}
	return state.Open(ctx, p.StateDir)
}

// forgetLimits ends what waits after a fault of the account or a limit of the tracker.
func (o *operation) forgetLimits(ctx context.Context) error {
	cfg, err := o.p.ConfigWithoutKey()
	if err != nil {
		return err
	}
	return errors.Join(
		wiring.OpenAccount(o.p, cfg.Codex.Home).Forget(ctx, o.p.Env.Now()),
		wiring.ForgetLimits(ctx, o.db),
	)
}

// run stores the command and runs a pass for it. If another pass has the lock, the command
// stays for the next one.
func (o *operation) run(ctx context.Context) error {
	r := &o.result
	o.cmd.CreatedAt = o.p.Env.Now()
	id, err := o.db.Operator.AddCommand(ctx, o.cmd)
	if err != nil {
		return withHint(err, "the command is not stored: repeat it then")
	}
	r.stored = true
	run := o.asked.pass
	if run == nil {
		run = pass.Run
	}
	r.Pass, err = run(ctx, o.p, pass.Options{
		Trigger:     wiring.TriggerCommand,
		Only:        o.only,
		LockTimeout: wiring.CommandPatience,
		DB:          o.db,
		Delivers:    o.asked.delivers(),
	})
	switch {
	case err != nil:
		r.Pass = pass.Result{}
		return withHint(err, "the command is stored: the next pass applies it")
	case r.Pass.Holder != nil:
		e := wiring.LockedError(r.Pass.Holder)
		e.Hint = "the command is stored; the next pass applies it"
		return e
	}
	if r.Applied, err = o.db.Operator.CommandDone(ctx, id); err != nil || o.asked.delivers() {
		return err
	}
	unchanged := false
	if r.Applied {
		if r.Effect, unchanged, err = o.effect(ctx); err != nil {
			return err
		}
	}
	alive, err := wiring.ScheduleAlive(ctx, o.db, o.p.Env.Now())
	starts := []reconcile.Verb{
		reconcile.VerbRetry,
		reconcile.VerbHostGone,
		reconcile.VerbResume,
		reconcile.VerbUnblock,
	}
	needsPass := !r.Applied || slices.Contains(starts, o.cmd.Verb)
	r.Unscheduled = needsPass && !unchanged && !alive && !wiring.Looping(o.p.StateDir)
	return err
}

// withHint adds to the hint of an error.
func withHint(err error, more string) error {
	e := *exit.From(err)
	e.Hint = strings.TrimPrefix(e.Hint+"; "+more, "; ")
	return &e
}

// effect returns lines about the changes that no action of the pass shows. unchanged is true
// if there was nothing to change.
func (o *operation) effect(ctx context.Context) (lines []string, unchanged bool, err error) {
	switch o.cmd.Verb {
	case reconcile.VerbPause, reconcile.VerbStopAll:
		going := ""
		if n := o.result.Pass.Running; n > 0 && o.cmd.Verb == reconcile.VerbPause {
			going = "; still running: " + text.Plural(n, "run")
		}
		return []string{"paused: no new run starts until symphony resume" + going}, false, nil
	case reconcile.VerbResume:
		return []string{"resumed: the next pass starts what is due"}, false, nil
	case reconcile.VerbUnblock:
		return []string{"unblocked: every waiting issue is due"}, false, nil
	default: // the others have an issue
	}
	line, unchanged, err := o.effectOnIssue(ctx)
	lines = []string{line}
	if o.cmd.Verb == reconcile.VerbRetry && !unchanged {
		lines = append(
			lines,
			cmp.Or(o.result.Pass.ObstacleText(o.p.Env.Now()), o.result.Pass.WaitText(o.cmd.IssueID)),
		)
	}
	return slices.DeleteFunc(lines, func(line string) bool { return line == "" }), unchanged, err
}

func (o *operation) effectOnIssue(ctx context.Context) (line string, unchanged bool, err error) {
	for _, a := range o.result.Pass.Applied {
		if a.IssueID == o.cmd.IssueID &&
			(a.Kind == reconcile.ActHold || a.Kind == reconcile.ActStop || a.Kind == reconcile.ActRetry) {
			return "", false, nil
		}
	}
	c, claimed, err := o.db.Views.ClaimByIssue(ctx, o.cmd.IssueID)
	switch {
	case err != nil:
		return "", false, err
	case o.cmd.Verb == reconcile.VerbHostGone:
		return o.cmd.Identifier + " does not wait for a host", true, nil
	case !claimed:
		return o.cmd.Identifier + " is neither held nor waiting: there is nothing to retry", true, nil
	case c.Status == reconcile.Held:
		return o.cmd.Identifier + " is held", false, nil
	case c.HoldNext:
		return o.cmd.Identifier + " will be held when its run ends", false, nil
	case c.Status == reconcile.Running:
		return o.cmd.Identifier + " is running; its counters are cleared", false, nil
	}
	return o.cmd.Identifier + " is due", false, nil
}

// StartIssue runs a pass confined to the issue. The result names the run that it has started,
// or that was running already. A run that goes on keeps its model: with another one the error
// is not_started. model replaces that of the workflow unless it is empty. The result of a pass
// with errors comes with the error.
func StartIssue(ctx context.Context, p *wiring.Project, ref, model string) (r Result, err error) {
	issue, err := wiring.FetchIssue(ctx, p, ref)
	if err != nil {
		return r, err
	}
	r = Result{Verb: VerbRun}
	r.Pass, err = pass.Run(ctx, p, pass.Options{
		Trigger:     wiring.TriggerManual,
		Only:        []string{issue.ID},
		AtOnce:      true,
		Model:       model,
		Stays:       true,
		LockTimeout: wiring.CommandPatience,
	})
	switch {
	case err != nil:
		return Result{}, err
	case r.Pass.Holder != nil:
		return r, wiring.LockedError(r.Pass.Holder)
	}
	if err := r.Pass.ExitCode(); err != nil {
		return r, err
	}
	r.Applied = true
	if i := slices.IndexFunc(r.Pass.Applied, startsRun); i >= 0 {
		r.RunID = r.Pass.Applied[i].RunID
		return r, nil
	}
	db, err := wiring.OpenForReading(context.WithoutCancel(ctx), p)
	if err != nil {
		return r, err
	}
	defer db.Close()
	c, claimed, err := db.Views.ClaimByIssue(context.WithoutCancel(ctx), issue.ID)
	switch {
	case err != nil:
		return r, err
	case !claimed || c.Status != reconcile.Running:
		return r, notStarted(issue, r.Pass, c, claimed)
	case model != "":
		return r, reconcile.NewError(
			"not_started",
			issue.Identifier+" is already running, and a run keeps its model",
			"symphony stop "+issue.Identifier+" first",
		)
	}
	r.RunID = c.RunID
	r.Effect = []string{issue.Identifier + " is already running"}
	return r, nil
}

func startsRun(a reconcile.Applied) bool {
	return (a.Kind == reconcile.ActDispatch || a.Kind == reconcile.ActDeliver) && a.Err == nil
}

// Deliver carries out the commands deliver and verify: it starts a run without an agent that
// verifies and pushes the commits of an issue, and hands it over. The result of a pass that
// has started none comes with the error not_started.
func Deliver(ctx context.Context, p *wiring.Project, c Command) (Result, error) {
	return operate(ctx, p, c, func(o *operation) error {
		if err := undeliverable(ctx, o); err != nil {
			return err
		}
		before, err := o.db.Runs.OfIssue(ctx, o.cmd.IssueID, 1)
		if err != nil {
			return err
		}
		if err := o.run(ctx); err != nil {
			return err
		}
		// The command may have been applied by another pass, such as that of a worker that has
		// ended, and a later pass may have begun another run.
		runs, err := o.db.Runs.OfIssue(ctx, o.cmd.IssueID, 5)
		if err != nil {
			return err
		}
		for _, run := range runs {
			if len(before) > 0 && run.ID == before[0].ID {
				break
			}
			if run.Kind == reconcile.DeliveryRun {
				o.result.RunID = run.ID
				return nil
			}
		}
		return reconcile.NewError(
			"not_started",
			"the pass did not deliver "+o.cmd.Identifier,
			"symphony show "+o.cmd.Identifier+" explains it",
		)
	})
}

// undeliverable returns an error if there is nothing that a delivery could push now.
func undeliverable(ctx context.Context, o *operation) error {
	identifier := o.cmd.Identifier
	e := &reconcile.Error{
		Code: "nothing_to_deliver",
		Hint: "symphony show " + identifier + " shows its state",
	}
	cfg, err := o.p.ConfigWithoutKey()
	if err != nil {
		return err
	}
	c, claimed, err := o.db.Views.ClaimByIssue(ctx, o.cmd.IssueID)
	switch {
	case err != nil:
		return err
	case o.cmd.Verb == reconcile.VerbVerify && cfg.Verify.Command == "":
		e.Message = "WORKFLOW.md has no verify.command"
		e.Hint = "set it to the command that must succeed, such as make test"
	case o.cmd.UnverifiedBy != "" && !c.Delivery.Handover.Asked():
		e.Message = "no agent has handed " + identifier + " over"
	case o.cmd.Verb == reconcile.VerbDeliver && !cfg.Repository.Delivers() && c.Delivery.Handover == nil:
		e.Message = "this workflow delivers nothing"
		e.Hint = "set repository.url in WORKFLOW.md, without deliver: none"
	case !claimed || c.WorkspaceRoot == "":
		e.Message = "no commits of " + identifier + " wait for delivery"
	case c.Status == reconcile.Running && !o.ended(ctx, c.RunID):
		e.Message = identifier + " is running; its commits are delivered when its run has ended"
	default:
		return nil
	}
	return e
}

// ended reports whether a run has ended, though no pass has settled it yet.
func (o *operation) ended(ctx context.Context, runID string) bool {
	run, err := o.db.Runs.Find(ctx, runID)
	return err == nil && (run.Outcome != "" || wiring.WorkerDead(o.p, run))
}

// notStarted returns the error that explains why the pass started no run of the issue.
func notStarted(issue *reconcile.Issue, r pass.Result, c reconcile.Claim, claimed bool) error {
	e := reconcile.NewError(
		"not_started",
		issue.Identifier+" is not in this project",
		"symphony show "+issue.Identifier+" explains it",
	)
	if r.Config != nil && !wiring.Policy(r.Config).Active(issue.State) {
		e.Message = fmt.Sprintf("%s is in the state %q; runs start only in %s", issue.Identifier, issue.State,
			strings.Join(r.Config.Policy.ActiveStates, " or "))
	}
	skips := slices.Clone(r.Skips)
	switch {
	case !claimed:
	case c.Status == reconcile.Held:
		e.Message = fmt.Sprintf("%s is held (%s): %s", issue.Identifier, c.HoldReason, c.HoldMessage)
		e.Hint = "symphony retry " + issue.Identifier
	case c.Delivery.Due && !c.Delivery.Behind:
		e.Message = "the commits of " + issue.Identifier + ", if there are any, are delivered first"
		e.Hint = "symphony deliver " + issue.Identifier + " delivers them now"
		if c.Delivery.Code != "" {
			e.Message = issue.Identifier + " has commits that were not delivered: " + c.Delivery.Code + ": " + c.Delivery.Message
		}
	case c.Kind == reconcile.Blocked:
		skips = append(skips, r.Waits...)
		e.Message = fmt.Sprintf("%s is blocked by %s: %s", issue.Identifier, c.ErrorCode, c.ErrorMessage)
		e.Hint = "symphony ps shows when it is tried again"
	default:
		skips = append(skips, r.Waits...)
		e.Message = fmt.Sprintf(
			"%s waits until %s (%s)",
			issue.Identifier,
			c.DueAt.UTC().Format(time.RFC3339),
			c.Kind,
		)
		e.Hint = "symphony retry " + issue.Identifier
	}
	for _, s := range skips {
		if s.IssueID == issue.ID {
			e.Message = fmt.Sprintf("%s: %s (%s)", s.Identifier, s.Message, s.Reason)
			e.Hint = "symphony show " + s.Identifier + " shows when it starts"
			if s.Reason == reconcile.SkipLabel || s.Reason == reconcile.SkipAssignee ||
				s.Reason == reconcile.SkipBlockedBy {
				e.Message = s.Identifier + ": " + s.Message
			}
			return e
		}
	}
	return e
}
