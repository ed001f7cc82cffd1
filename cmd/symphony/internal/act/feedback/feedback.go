// Package feedback watches the pull requests of issues that were handed over, in each pass: it brings an issue back when checks fail, a
// reviewer asks for changes or the base conflicts, and moves it on when the pull request is merged.
package feedback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/state"
)

// Desk watches the pull requests of a project.
type Desk struct {
	Forge      func(context.Context) (*reconcile.Forge, error) // is called if there is one to read
	Tracker    *reconcile.TrackerAdapter
	DB         *state.DB
	Feedback   reconcile.Feedback
	Policy     reconcile.Policy
	Repository string // its URL
	Handoff    string // the state of issues that were handed over
	Now        func() time.Time
}

const (
	readKey  = "feedback_read_at" // when pull requests were last read
	readStep = 30 * time.Second   // between two reads
)

// Pass reads the open pull requests with one request, and does what follows from them. What it does about one is stored before, or can be
// repeated: a cause brings an issue back once, whatever dies. It returns the errors, each of one pull request at most.
func (d Desk) Pass(ctx context.Context) (errs []error) {
	watches, err := d.DB.Store.Watches(ctx, d.Repository)
	if err != nil || len(watches) == 0 {
		return []error{err}
	}
	due, err := d.due(ctx)
	if err != nil || !due {
		return []error{err}
	}
	forge, err := d.Forge(ctx)
	if err != nil {
		return []error{err}
	}
	numbers := map[int]*reconcile.Watch{}
	for i := range watches {
		if n := forge.Number(watches[i].Delivered.PullRequest); n != 0 {
			numbers[n] = &watches[i]
		}
	}
	pulls, err := forge.Read(ctx, slices.Sorted(maps.Keys(numbers)))
	if err != nil {
		return []error{err}
	}
	for number, w := range numbers {
		if pull, exists := pulls[number]; exists {
			errs = append(errs, d.watch(ctx, forge, w, pull))
		}
	}
	errs = append(errs, d.show(ctx, watches))
	return append(errs, d.DB.SetMeta(ctx, readKey, d.Now().UTC().Format(time.RFC3339)))
}

// show stores the pull requests for views, which also show those that the tracker describes.
func (d Desk) show(ctx context.Context, watches []reconcile.Watch) error {
	read := text.Filter(watches, func(w reconcile.Watch) bool { return w.Pull.Number != 0 })
	return d.DB.Store.SavePullRequests(ctx, d.Now(), text.Map(read, func(w reconcile.Watch) reconcile.Issue {
		return reconcile.Issue{ID: w.IssueID, Identifier: w.Identifier, PullRequest: w.Pull.Summary()}
	}))
}

// due reports whether the pull requests are to be read again.
func (d Desk) due(ctx context.Context) (bool, error) {
	last, _, err := d.DB.Meta(ctx, readKey)
	at, _ := time.Parse(time.RFC3339, last) // zero before the first time
	return d.Now().Sub(at).Abs() >= readStep, err
}

// watch does what follows from the present state of a pull request.
func (d Desk) watch(ctx context.Context, forge *reconcile.Forge, w *reconcile.Watch, pull reconcile.Pull) error {
	before, err := json.Marshal(w)
	if err != nil {
		return err
	}
	w.Pull = pull
	if w.Claim == "" && w.Held != "" { // an operator has ended the hold
		w.Ended = w.Held == reconcile.HoldPullClosed
		w.Held, w.Rounds = "", 0
	}
	if w.Claim == "" && !w.Ended {
		if err := d.act(ctx, forge, w); err != nil {
			return fmt.Errorf("pull request %s: %w", pull.URL, err)
		}
	}
	after, err := json.Marshal(w)
	if err == nil && string(after) != string(before) {
		err = d.save(ctx, w)
	}
	return err
}

// act does it for an issue without a claim, unless a person has moved it on.
func (d Desk) act(ctx context.Context, forge *reconcile.Forge, w *reconcile.Watch) error {
	rework, reruns, err := d.causes(ctx, forge, w)
	ended := w.Pull.State == reconcile.PullMerged || w.Pull.State == reconcile.PullClosed
	if err != nil || rework == nil && len(reruns) == 0 && !ended && w.Rework == nil {
		return err
	}
	issue, err := d.issue(ctx, w.IssueID)
	if err != nil || issue.ID == "" {
		w.Ended = err == nil && ended
		return err
	}
	waits := reconcile.NormalizeState(issue.State) == reconcile.NormalizeState(d.Handoff)
	switch {
	case !waits:
		w.Ended = ended
	case w.Rework != nil && !w.Rework.Moved: // this was interrupted
		return d.bringBack(ctx, w, issue)
	case w.Rework != nil: // a person has handed it over
		w.Rework = nil
	case w.Pull.State == reconcile.PullMerged:
		if d.Feedback.MergedState != "" {
			err = d.Tracker.Move(ctx, issue.ID, d.Feedback.MergedState)
		}
		w.Ended = err == nil
		return err
	case ended:
		return d.hold(ctx, w, issue, reconcile.HoldPullClosed, "its pull request was closed without a merge")
	case len(reruns) > 0:
		return d.rerun(ctx, forge, w, reruns)
	case rework.Round > rework.Rounds:
		return d.hold(ctx, w, issue, reconcile.HoldFeedbackRounds, fmt.Sprintf("it came back %s (%s), and now: %s",
			text.Plural(w.Rounds, "time"), w.AllCauses(), rework.Causes()))
	default:
		w.Take(rework)
		if err := d.save(ctx, w); err != nil {
			return err
		}
		crash.At("feedback.taken")
		return d.bringBack(ctx, w, issue)
	}
	return nil
}

// causes returns what brings the issue back, or the workflow runs whose failed jobs have to run again before.
func (d Desk) causes(ctx context.Context, forge *reconcile.Forge, w *reconcile.Watch) (r *reconcile.Rework, reruns []int64, err error) {
	failed := w.Failed(d.Feedback)
	if len(failed) > 0 {
		base, err := forge.ReadChecks(ctx, w.Pull.Base)
		if err != nil && !errors.Is(err, reconcile.ErrGone) {
			return nil, nil, err
		}
		failed = reconcile.OwnFailures(failed, base)
	}
	if reruns = w.Reruns(failed); len(reruns) > 0 {
		return nil, reruns, nil
	}
	if w.Settling(d.Now()) {
		failed = nil
	}
	return w.Causes(d.Feedback, failed, d.Now()), nil, nil
}

// rerun runs failed jobs again, once for a commit. Where the token may not, the failure counts at once.
func (d Desk) rerun(ctx context.Context, forge *reconcile.Forge, w *reconcile.Watch, runs []int64) error {
	w.Rerun, w.RerunAt = w.Pull.Head, time.Time{}
	if err := d.save(ctx, w); err != nil {
		return err
	}
	crash.At("feedback.rerun")
	for _, run := range runs {
		if err := forge.Rerun(ctx, run); err != nil {
			return fmt.Errorf("its failed jobs do not run again: %w", err)
		}
	}
	w.RerunAt = d.Now()
	return d.save(ctx, w)
}

// bringBack moves an issue to the state in which agents work on it.
func (d Desk) bringBack(ctx context.Context, w *reconcile.Watch, issue reconcile.Issue) error {
	if err := d.Tracker.Move(ctx, issue.ID, d.Feedback.State); err != nil {
		return err
	}
	crash.At("feedback.moved")
	w.Rework.Moved = true
	return d.save(ctx, w)
}

// hold holds an issue that is handed over.
func (d Desk) hold(ctx context.Context, w *reconcile.Watch, issue reconcile.Issue, reason, message string) error {
	claim := reconcile.HeldClaim(issue, d.Policy.Project, reason, message, d.Now())
	w.Held = reason
	return d.DB.Store.Commit(ctx, d.Now(), reconcile.Change{Claim: &claim, Watch: w})
}

func (d Desk) save(ctx context.Context, w *reconcile.Watch) error {
	return d.DB.Store.Commit(ctx, d.Now(), reconcile.Change{Watch: w})
}

// issue reads an issue; its ID is empty if the tracker no longer returns it.
func (d Desk) issue(ctx context.Context, id string) (reconcile.Issue, error) {
	byID, err := d.Tracker.ByIDs(ctx, []string{id})
	return byID[id], err
}
