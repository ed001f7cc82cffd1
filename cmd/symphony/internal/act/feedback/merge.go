package feedback

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/team"
)

// merge merges an open pull request that may be merged, or lets the forge do that later. The
// attempt is stored before the request. If the process dies in between, the next pass sees
// either that the forge has merged, or makes the request again.
func (d Watcher) merge(
	ctx context.Context,
	forge *reconcile.Forge,
	w *reconcile.Watch,
	issue reconcile.Issue,
) error {
	w.NoteArming(d.Now())
	if w.LeftToForge(d.Now()) || w.MergeRests(d.Now()) {
		return nil
	}
	if w.MergeQueued() {
		if first := d.next(w); first != nil {
			w.QueueMerge(first, d.Now())
			return nil
		}
		w.Merge = nil
	}
	rules, err := forge.ReadMerge(ctx, w.Pull.Number)
	if err != nil {
		return err
	}
	plan := w.PlanMerge(d.Feedback, rules)
	if plan.Refused != "" {
		return d.refuse(ctx, forge, w, plan.Refused)
	}
	switch plan.Do {
	case "":
		return nil
	case reconcile.MergeUpdate:
		return d.bringUpToDate(ctx, forge, w, issue)
	}
	wasAsked := w.MayBeArmed()
	w.BeginMerge(plan.Why, d.Now())
	if err := d.save(ctx, w); err != nil {
		return err
	}
	crash.At("feedback.merging")
	merged, err := ask(ctx, forge, plan.Do, reconcile.Merging{
		Number: w.Pull.Number,
		Head:   w.Pull.Head,
		Method: d.Feedback.Merge.Method,
	})
	if errors.Is(err, reconcile.ErrBehind) { // since the rules were read
		rules.Behind = true
		if plan := w.PlanMerge(d.Feedback, rules); plan.Refused != "" {
			return d.refuse(ctx, forge, w, plan.Refused)
		}
		return d.bringUpToDate(ctx, forge, w, issue)
	}
	if err != nil {
		return d.notMerged(ctx, forge, w, wasAsked, err)
	}
	crash.At("feedback.asked")
	w.EndMerge(merged)
	return nil
}

// refuse notes why a pull request is not merged, and takes back what the forge was asked for.
func (d Watcher) refuse(ctx context.Context, forge *reconcile.Forge, w *reconcile.Watch, reason string) error {
	if w.MayBeArmed() {
		if err := d.disarm(ctx, forge, w); err != nil {
			return err
		}
	}
	w.RefuseMerge(reason, d.Now())
	return nil
}

// ask asks the forge to merge now, or later by itself. merged is false if it has only agreed to
// do so later.
func ask(ctx context.Context, forge *reconcile.Forge, do string, m reconcile.Merging) (merged bool, err error) {
	if do == reconcile.MergeArm {
		return forge.ArmMerge(ctx, m)
	}
	return true, forge.Merge(ctx, m)
}

// notMerged notes why a merge failed. After a fault of the connection or of the forge it stays
// begun, because the forge may have got the request. If the forge itself refuses, the pass goes
// on without an error, and the pull request is shown as waiting for what it demands.
//
// wasAsked: an earlier request, whose answer was lost, may have armed the forge. The answer to
// this one says nothing about that.
func (d Watcher) notMerged(
	ctx context.Context,
	forge *reconcile.Forge,
	w *reconcile.Watch,
	wasAsked bool,
	err error,
) error {
	isArmed := w.MergeArmed() // then symphony only looked whether the forge can still merge
	if errors.Is(err, reconcile.ErrLater) {
		switch {
		case isArmed:
			w.Merge.LookedAt = time.Time{}
		case !wasAsked:
			w.Merge = nil
		}
		return nil
	}
	known, is := errors.AsType[*reconcile.Error](err)
	if !is || reconcile.EndsByItself(known.Code, known.Status) {
		return err
	}
	if !isArmed && wasAsked {
		if err := d.disarm(ctx, forge, w); err != nil {
			return err
		}
	}
	if !isArmed {
		w.RefuseMerge(strings.TrimSuffix(known.Message+"; "+known.Hint, "; "), d.Now())
	}
	if errors.Is(err, reconcile.ErrRejected) {
		return nil
	}
	return err
}

// disarm takes back that the forge merges a pull request by itself. It stores only that it does
// so and that it has, because a worker may write the rest now.
func (d Watcher) disarm(ctx context.Context, forge *reconcile.Forge, w *reconcile.Watch) error {
	if d.Check != nil {
		if err := d.Check(ctx, team.Issue{ID: w.IssueID, Identifier: w.Identifier}); err != nil {
			return err
		}
	}
	w.BeginDisarm()
	if err := d.DB.Journal.BeginDisarm(ctx, w.IssueID); err != nil {
		return err
	}
	crash.At("feedback.disarming")
	if err := forge.DisarmMerge(ctx, w.Pull.Number); err != nil {
		return err
	}
	crash.At("feedback.disarmed")
	w.Merge = nil
	return d.DB.Journal.EndMerge(ctx, w.IssueID)
}

// tellMerged comments on the issue, once, that symphony has merged its pull request.
func (d Watcher) tellMerged(ctx context.Context, w *reconcile.Watch) error {
	if w.MergedBy() == "" || w.Merge.Commented || d.Tracker.Post == nil {
		return nil
	}
	mark := fmt.Sprintf("%smerge %s %.12s -->", reconcile.CommentMarker, w.IssueID, w.Merge.Head)
	const words = "Symphony has merged the %s, %s: %s, commit `%.12s`"
	name := reconcile.PullWordsOf(w.Pull.URL).Name
	body := fmt.Sprintf(words, name, w.Merge.Why, w.Pull.URL, w.Merge.Head)
	_, err := d.Tracker.PostOnce(ctx, w.IssueID, body, mark, w.Merge.At)
	if err != nil && !errors.Is(err, reconcile.ErrGone) {
		return err
	}
	crash.At("feedback.told")
	w.Merge.Commented = true
	return d.save(ctx, w)
}
