// Package feedback watches the pull requests of issues that were handed over, in each pass: it
// brings an issue back when checks fail, a reviewer asks for changes or the base conflicts,
// and moves it on when the pull request is merged.
package feedback

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/state"
	"github.com/symphony-cron/symphony/team"
)

// Watcher watches the pull requests of a project, and moves their issues.
type Watcher struct {
	// is called if there is a pull request to read
	Forge func(context.Context) (*reconcile.Forge, error)
	// Mirror calls use with the mirror of the repository, in which merges are tried
	Mirror   func(ctx context.Context, use func(host.Merges) error) error
	Tracker  *reconcile.TrackerAdapter
	DB       *state.DB
	Feedback reconcile.Feedback
	Policy   reconcile.Policy
	Handoff  string // the state of issues that were handed over
	Now      func() time.Time
	Most     int // how many pull requests a pass reads; 0 for all
	// Team is this machine as a member of a team; nil without one.
	Team *team.Member
	// Check returns an error if another machine of the team has an issue; nil without a team.
	Check func(context.Context, team.Issue) error

	// during a pass
	all    []reconcile.Watch
	claims claimsLook
	git    *gitTime
}

const (
	readKey  = "feedback_read_at" // when pull requests were last read
	nextKey  = "feedback_next"    // the number from which the next pass reads, with Most
	readStep = 30 * time.Second   // between two reads
)

// Pass reads the open pull requests with few requests, and brings their issues back or
// moves them on. Each step is stored before it is taken, or can be repeated: a cause brings an
// issue back once, whatever dies. It returns at most one error for each pull request.
func (d Watcher) Pass(ctx context.Context) (errs []error) {
	watches, err := d.DB.Store.Watches(ctx)
	if err != nil {
		return []error{err}
	}
	if len(watches) == 0 {
		return []error{d.DB.Store.SaveLookErrors(ctx, nil)}
	}
	last, _, err := d.DB.Meta(ctx, readKey)
	if err != nil {
		return []error{err}
	}
	at, _ := time.Parse(time.RFC3339, last) // zero before the first time
	if d.Now().Sub(at).Abs() < readStep {
		return nil
	}
	if err := d.DB.SetMeta(ctx, readKey, d.Now().UTC().Format(time.RFC3339)); err != nil {
		return []error{err}
	}
	d.git = &gitTime{left: gitTimeout}
	errs = d.read(ctx, watches)
	if ctx.Err() != nil { // the pass was ended: nothing is known of the forge
		return errs
	}
	return append(errs, d.keepErrors(ctx, errs, watches))
}

// keepErrors stores the errors of a look for views. A pass looks every 30 seconds at most, so
// the last pass may have no errors although the last look had some. A failure of git is kept
// until git has succeeded, because not every look asks git again.
func (d Watcher) keepErrors(ctx context.Context, errs []error, watches []reconcile.Watch) error {
	var list []state.LookError
	for _, err := range errs {
		if err == nil {
			continue
		}
		known := exit.From(err)
		e := state.LookError{Code: known.Code, Message: known.Message, Since: d.Now().UTC()}
		of, is := errors.AsType[pullError](err)
		if is {
			e.PullRequest = of.address
		}
		list = append(list, e)
	}
	for i := range watches {
		w := &watches[i]
		failure := w.GitFailure()
		isListed := func(e state.LookError) bool { return e.PullRequest == w.Pull.URL }
		if failure.Code == "" || slices.ContainsFunc(list, isListed) {
			continue
		}
		list = append(list, state.LookError{
			PullRequest: w.Pull.URL,
			Code:        failure.Code,
			Message:     failure.Message,
			Since:       d.Now().UTC(),
		})
	}
	return d.DB.Store.SaveLookErrors(ctx, list)
}

// pullError is an error of a pull request.
type pullError struct {
	address string
	error
}

func (e pullError) Unwrap() error { return e.error }

// about says which pull request an error is about; nil stays nil.
func about(address string, err error) error {
	if err == nil {
		return nil
	}
	return exit.About(reconcile.PullWordsOf(address).Name+" "+address, pullError{address, err})
}

// read reads the open pull requests, acts on them, and stores them for views.
func (d Watcher) read(ctx context.Context, watches []reconcile.Watch) (errs []error) {
	forge, err := d.Forge(ctx)
	if err != nil {
		return []error{err}
	}
	d.all = watches
	list := make([]followed, len(watches))
	var numbers []int
	for i := range watches {
		f := followed{Watch: &watches[i]}
		f.number, f.here = forge.Number(f.Delivered.PullRequest)
		list[i] = f
		if f.number != 0 && !slices.Contains(numbers, f.number) {
			numbers = append(numbers, f.number)
		}
	}
	slices.Sort(numbers)
	numbers, err = d.turn(ctx, numbers)
	if err != nil {
		return []error{err}
	}
	pulls, err := forge.Read(ctx, numbers)
	if err != nil {
		return []error{err}
	}
	list = slices.DeleteFunc(list, func(f followed) bool {
		return f.number != 0 && !slices.Contains(numbers, f.number)
	})
	found, errs := d.updateAll(ctx, forge, list, pulls)
	errs = append(errs, d.save(ctx, found.quiet...))
	errs = append(errs, d.actAll(ctx, forge, found.asking)...)
	return append(errs, d.show(ctx, found.read))
}

// turn returns the pull requests that this pass reads. If they are more than Most, the next
// passes go on where this one ends, so that each has its turn.
func (d Watcher) turn(ctx context.Context, numbers []int) ([]int, error) {
	if d.Most == 0 || len(numbers) <= d.Most {
		return numbers, nil
	}
	stored, _, err := d.DB.Meta(ctx, nextKey)
	if err != nil {
		return nil, err
	}
	next, _ := strconv.Atoi(stored) // 0 before the first time
	at, _ := slices.BinarySearch(numbers, next)
	all := slices.Concat(numbers[at:], numbers[:at])
	return all[:d.Most], d.DB.SetMeta(ctx, nextKey, strconv.Itoa(all[d.Most]))
}

// followed is a pull request during a pass.
type followed struct {
	*reconcile.Watch
	number int
	here   bool // its address is in the repository
}

// look is the result of a look at the forge.
type look struct {
	read   []*reconcile.Watch // all pull requests that were read
	asking []*reconcile.Watch // something may have to be done about these
	quiet  []*reconcile.Watch // these need only be stored
}

// updateAll takes over the present states of pull requests.
func (d Watcher) updateAll(
	ctx context.Context, forge *reconcile.Forge, list []followed, pulls map[int]reconcile.Pull,
) (found look, errs []error) {
	for _, f := range list {
		pull, exists := pulls[f.number]
		if !exists && f.here {
			f.Ended = true
			found.quiet = append(found.quiet, f.Watch)
		}
		if !exists || !f.Is(pull) { // or it has the same number in another repository
			continue
		}
		found.read = append(found.read, f.Watch)
		errs = append(errs, about(pull.URL, d.update(ctx, forge, f, pull)))
		isBusy := f.Claim != "" && !f.NeedsHelp()
		if isBusy && f.MayBeArmed() { // an operator holds the issue, or it is worked on again
			errs = append(errs, about(pull.URL, d.disarm(ctx, forge, f.Watch)))
		}
		switch {
		case f.Claim == reconcile.Running: // only for show: the worker may write it now
		case f.Asks(d.Feedback, d.Now()) || !isBusy && f.MergeDue(d.Feedback, d.Now()):
			found.asking = append(found.asking, f.Watch)
		default:
			found.quiet = append(found.quiet, f.Watch)
		}
	}
	return found, errs
}

// actAll acts on the pull requests that ask for something. It reads their issues with a single
// request. Afterwards it stores what acting has changed.
func (d Watcher) actAll(
	ctx context.Context, forge *reconcile.Forge, asking []*reconcile.Watch,
) (errs []error) {
	if len(asking) == 0 {
		return nil
	}
	ids := text.Map(asking, func(w *reconcile.Watch) string { return w.IssueID })
	issues, err := d.Tracker.ByIDs(ctx, ids)
	if err != nil {
		return []error{err}
	}
	slices.SortFunc(asking, func(a, b *reconcile.Watch) int { return a.Pull.Number - b.Pull.Number })
	d.claims = d.takeClaims(ctx, asking, issues)
	for _, w := range asking {
		errs = append(errs,
			about(w.Pull.URL, d.act(ctx, forge, w, issues[w.IssueID])),
			d.save(ctx, w))
	}
	return errs
}

// update takes over the state of a pull request, and reads whatever else is needed about it.
func (d Watcher) update(ctx context.Context, forge *reconcile.Forge, f followed, pull reconcile.Pull) error {
	f.Update(pull, d.Feedback, d.Now())
	if f.Claim == reconcile.Running {
		return nil
	}
	if !f.here {
		f.Renamed = pull.URL
	}
	if f.Claim == "" && f.Held != "" { // an operator ended the hold
		isOver := pull.State == reconcile.PullClosed || pull.State == reconcile.PullMerged && f.Differs() != ""
		f.Ended = f.Held == reconcile.HoldPullClosed && isOver
		f.Held = ""
		f.Rounds = 0
	}
	if f.Claim != "" && !f.NeedsHelp() {
		return nil
	}
	if f.UnknownPush() {
		builds, err := forge.BuildsOn(ctx, pull.Number, f.Delivered.Commit)
		if err != nil {
			return err
		}
		f.Pushed = reconcile.Pushed{Commit: pull.Head, On: f.Delivered.Commit, Builds: builds}
	}
	return d.tryMerge(ctx, f.Watch)
}

// show stores the pull requests that were read, for views.
func (d Watcher) show(ctx context.Context, read []*reconcile.Watch) error {
	return d.DB.Store.SavePullRequests(ctx, d.Now(), text.Map(read, func(w *reconcile.Watch) reconcile.Issue {
		return reconcile.Issue{
			ID:          w.IssueID,
			Identifier:  w.Identifier,
			PullRequest: w.Summary(),
		}
	}))
}

// step is what is done about a pull request that asks for something.
type step string

const (
	stepWait     step = "wait"
	stepEnd      step = "end"       // it was merged or closed after a person moved its issue
	stepMoveOn   step = "move on"   // it was merged
	stepHold     step = "hold"      // it was closed without a merge, or merged into another base
	stepContinue step = "continue"  // bringing its issue back was interrupted
	stepTakeBack step = "take back" // so it was, but someone pushed meanwhile
	stepForget   step = "forget"    // a person handed over the issue that came back
	stepLook     step = "look"      // find out whether it brings its issue back
)

// isSeen reports whether people see the step.
func (s step) isSeen() bool {
	return s == stepMoveOn || s == stepHold || s == stepContinue || s == stepTakeBack || s == stepLook
}

// nextStep decides what is done about a pull request.
func (d Watcher) nextStep(w *reconcile.Watch, issue reconcile.Issue) step {
	cameBack := d.cameBack(w, issue)
	inReview := issue.ID != "" && reconcile.SameState(issue.State, d.Handoff)
	over := w.Pull.State == reconcile.PullMerged || w.Pull.State == reconcile.PullClosed
	switch {
	case !inReview && !cameBack && over:
		return stepEnd
	case !inReview && !cameBack: // a person moved its issue
		return stepWait
	case w.Pull.State == reconcile.PullMerged && w.Differs() == "":
		return stepMoveOn
	case w.Pull.State == reconcile.PullMerged:
		return stepHold
	case w.Pull.State == reconcile.PullClosed:
		return stepHold
	case w.Rework == nil:
		return stepLook
	case !w.Rework.Moved && w.Pull.Head == w.Rework.Commit:
		return stepContinue
	case cameBack: // its issue waits for an agent
		return stepWait
	case !w.Rework.Moved:
		return stepTakeBack
	}
	return stepForget
}

// cameBack reports whether an issue is where its pull request brought it back to.
func (d Watcher) cameBack(w *reconcile.Watch, issue reconcile.Issue) bool {
	return issue.ID != "" && w.Rework != nil && reconcile.SameState(issue.State, d.Feedback.State)
}

// act carries out the request of a pull request, unless a person moved its issue on. Its caller
// stores the watch; what must be known if the process dies in between is stored here.
func (d Watcher) act(
	ctx context.Context,
	forge *reconcile.Forge,
	w *reconcile.Watch,
	issue reconcile.Issue,
) error {
	step := d.nextStep(w, issue)
	verdict, _ := w.MayMerge(d.Feedback, d.Now())
	if step.isSeen() {
		if d.claims.err != nil {
			return d.claims.err
		}
		if _, isElsewhere := d.claims.missing.Elsewhere[w.IssueID]; isElsewhere {
			w.Ended = true // another machine watches it from now on
			return nil
		}
		if err := d.claims.missing.Refused[w.IssueID]; err != nil {
			return err
		}
	}
	if w.MayBeArmed() && (step != stepLook || verdict == reconcile.MergeNo) {
		if err := d.disarm(ctx, forge, w); err != nil {
			return err
		}
	}
	switch step {
	case stepEnd:
		w.Ended = true
	case stepWait:
		w.EndTurn()
	case stepMoveOn:
		return d.merged(ctx, w, d.cameBack(w, issue))
	case stepHold:
		return d.closed(ctx, w, issue)
	case stepContinue:
		return d.bringBack(ctx, w, issue)
	case stepTakeBack:
		w.TakeBack()
		return d.look(ctx, forge, w, issue)
	case stepForget:
		w.Rework = nil
	case stepLook:
		if verdict == reconcile.MergeGo {
			return d.merge(ctx, forge, w, issue)
		}
		return d.look(ctx, forge, w, issue)
	}
	return nil
}

// claimsLook are the issues whose claims this machine did not get. After an error that is not known.
type claimsLook struct {
	missing team.NotTaken
	err     error
}

// takeClaims makes sure, at once for all, that this machine has the claims of the issues about which it
// does something that people see. Without a team nobody else has any.
func (d Watcher) takeClaims(
	ctx context.Context,
	asking []*reconcile.Watch,
	issues map[string]reconcile.Issue,
) (found claimsLook) {
	if d.Team == nil {
		return found
	}
	var wanted []team.Issue
	for _, w := range asking {
		if d.nextStep(w, issues[w.IssueID]).isSeen() {
			i := team.Issue{ID: w.IssueID, Identifier: w.Identifier}
			if issue, isKnown := issues[w.IssueID]; isKnown {
				i.Origin = issue.Origin()
			}
			wanted = append(wanted, i)
		}
	}
	found.missing, found.err = d.Team.TakeForReview(ctx, wanted)
	return found
}

// closed holds the issue of a pull request that was closed without a merge, or merged into another base.
func (d Watcher) closed(ctx context.Context, w *reconcile.Watch, issue reconcile.Issue) error {
	if d.cameBack(w, issue) {
		if err := d.Tracker.Move(ctx, issue.ID, d.Handoff); err != nil {
			return err
		}
		crash.At("feedback.returned")
	}
	name := reconcile.PullWordsOf(w.Pull.URL).Name
	if w.Pull.State == reconcile.PullMerged {
		return d.hold(ctx, w, issue, reconcile.HoldPullClosed, "its "+name+" was merged, but "+w.Differs())
	}
	return d.hold(ctx, w, issue, reconcile.HoldPullClosed, "its "+name+" was closed without a merge")
}

// merged ends the hold of the issue of a merged pull request, and moves the issue on.
func (d Watcher) merged(ctx context.Context, w *reconcile.Watch, cameBack bool) error {
	if w.Claim != "" {
		retry := reconcile.Command{
			Verb:       reconcile.VerbRetry,
			IssueID:    w.IssueID,
			Identifier: w.Identifier,
			CreatedAt:  d.Now(),
		}
		if _, err := d.DB.Operator.AddCommand(ctx, retry); err != nil {
			return err
		}
	}
	if err := d.tellMerged(ctx, w); err != nil {
		return err
	}
	to := d.Feedback.MergedState
	if cameBack {
		to = cmp.Or(to, d.Handoff) // there is nothing to work on any more
	}
	if to != "" {
		if err := d.Tracker.Move(ctx, w.IssueID, to); err != nil {
			return err
		}
		crash.At("feedback.acted")
	}
	w.Ended = true
	return nil
}

// look finds out whether an open pull request brings its issue back.
func (d Watcher) look(
	ctx context.Context,
	forge *reconcile.Forge,
	w *reconcile.Watch,
	issue reconcile.Issue,
) error {
	there := issue
	there.State = d.Feedback.State
	reason, _ := d.Policy.StopReason(there, true)
	if reason != "" { // no agent would work on it
		return nil
	}
	failed := w.Failed(d.Feedback, d.Now())
	if len(failed) > 0 {
		base, err := forge.ReadChecks(ctx, w.Pull.Base)
		if err != nil && !errors.Is(err, reconcile.ErrGone) {
			return err
		}
		own := reconcile.OwnFailures(failed, base)
		w.IgnoreFailures(text.Filter(failed, func(c reconcile.Check) bool {
			return !slices.Contains(own, c)
		}))
		failed = own
	}
	runs := w.Reruns(failed)
	if len(runs) > 0 {
		return d.rerun(ctx, forge, w, runs)
	}
	if w.Settling(d.Now()) {
		failed = nil
	}
	rework := w.Causes(d.Feedback, failed, d.Now())
	if rework == nil {
		return nil
	}
	if rework.Round > rework.Rounds {
		times := text.Plural(w.Rounds, "time")
		why := fmt.Sprintf("it came back %s (%s), and now: %s", times, w.AllCauses(), rework.Causes())
		return d.hold(ctx, w, issue, reconcile.HoldFeedbackRounds, why)
	}
	w.BeginRound(rework)
	if err := d.save(ctx, w); err != nil {
		return err
	}
	crash.At("feedback.taken")
	return d.bringBack(ctx, w, issue)
}

// rerun runs failed jobs again, once for a commit. Where the token may not, the failure counts
// at once.
func (d Watcher) rerun(ctx context.Context, forge *reconcile.Forge, w *reconcile.Watch, runs []int64) error {
	w.BeginReruns(runs)
	if err := d.save(ctx, w); err != nil {
		return err
	}
	crash.At("feedback.rerun")
	for i, run := range runs {
		err := forge.Rerun(ctx, run)
		if err == nil {
			continue
		}
		known, is := errors.AsType[*reconcile.Error](err)
		if !is || !reconcile.EndsByItself(known.Code, known.Status) {
			return err
		}
		w.ForgetReruns(runs[i:]) // the next look tries these again
		return err
	}
	crash.At("feedback.reran")
	w.RerunAt = d.Now()
	w.ReranAt = w.RerunAt
	return nil
}

// bringBack moves an issue to the state in which agents work on it.
func (d Watcher) bringBack(ctx context.Context, w *reconcile.Watch, issue reconcile.Issue) error {
	if err := d.Tracker.Move(ctx, issue.ID, d.Feedback.State); err != nil {
		return err
	}
	crash.At("feedback.moved")
	w.Rework.Moved = true
	return nil
}

// hold holds an issue that is handed over.
func (d Watcher) hold(
	ctx context.Context,
	w *reconcile.Watch,
	issue reconcile.Issue,
	reason, message string,
) error {
	if w.NeedsHelp() { // it needs a person already, and its pull request changes nothing about that
		w.Ended = w.Pull.State == reconcile.PullClosed
		return nil
	}
	claim := reconcile.HeldClaim(issue, d.Policy.Project, reason, message, d.Now())
	next := *w
	next.Held = reason
	if err := d.DB.Store.Commit(ctx, d.Now(), reconcile.Change{Claim: &claim, Watch: &next}); err != nil {
		return err
	}
	*w = next
	return nil
}

// save stores the known states of pull requests; without checks and reviews once they are not
// read any more.
func (d Watcher) save(ctx context.Context, watches ...*reconcile.Watch) error {
	changes := make([]reconcile.Change, len(watches))
	for i, w := range watches {
		if w.Ended {
			w.Pull.Checks.List = nil
			w.Pull.Reviews = nil
		}
		changes[i].Watch = w
	}
	return d.DB.Store.Commit(ctx, d.Now(), changes...)
}
