package detail

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/obstacle"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/words"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Why explains the status: a code for programs and a text that follows the status in a
// sentence. The code is the reason of a skip, the code of a fault, the kind of a waiting
// claim, or running, ended, worker_lost, stopping, needs_answer, needs_help, held, handed_over,
// released, eligible or unclaimed.
type Why struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Next is the next event. At is null if that does not depend on time alone.
type Next struct {
	Message   string     `json:"message"`
	At        *time.Time `json:"at"`
	NeedsPass bool       `json:"needs_pass"` // it takes a pass
}

// explain sets the status, its reason, and the next event.
func (r *issueReader) explain(ctx context.Context, v *Issue, f forecast) {
	c := r.claim
	switch {
	case c != nil && c.Status == reconcile.Running:
		v.Status = reconcile.StatusRunning
		v.Since = nil
		r.explainRun(ctx, v)
	case c != nil && c.Status == reconcile.Held:
		v.Status = c.OwnStatus()
		v.Since = text.OrNull(c.HeldAt)
		v.Why = Why{string(v.Status), heldText(*c)}
		v.Next = Next{Message: c.HoldEnds()}
		if issues := r.inFolder(ctx); issues != nil && issues[r.id].ID == "" {
			v.Why.Message = goneText + "; " + v.Why.Message
			v.Next.Message = wiring.RestoreFile(ctx, r.Project, r.Config, r.identifier, "") +
				"; if nobody needs the issue any more, symphony retry " + r.identifier + " lets a pass forget it"
		}
	case c == nil && r.isReleased(f):
		r.explainRelease(v, f)
		if r.lacksFile(*v) {
			last := text.OrEmpty(r.released().To)
			v.Why.Message += "; " + goneText
			v.Next.Message = wiring.RestoreFile(ctx, r.Project, r.Config, r.identifier, last) +
				"; if nobody needs the issue any more, a pass forgets it, and symphony prune " + r.identifier +
				" removes its workspace"
		}
	default:
		r.explainWait(v, f)
	}
	if r.claim != nil && r.claim.Issue.Unreadable != "" {
		v.Why.Message = view.UnreadableText + r.claim.Issue.Unreadable + "; " + v.Why.Message
	}
	if len(v.Commands) > 0 {
		v.Next = r.atPass("the next pass applies the command " + v.Commands[0])
	}
}

// explainWait explains an issue that is claimed and waits, or that is not claimed.
func (r *issueReader) explainWait(v *Issue, f forecast) {
	v.Why = r.whyNotRunning(f)
	v.Next = r.nextRun(v.Why, f)
	v.Why.Message += r.movedBack()
	stop := r.stop()
	stopped := obstacle.FirstStop(r.obstacles) != nil
	switch {
	case r.claim != nil:
		v.Status = r.claim.IssueStatus(false, stopped)
		if v.Status == reconcile.StatusUndelivered {
			v.Since = text.OrNull(r.claim.Delivery.FailedAt)
		}
	case f.action == reconcile.ActDispatch && stop == nil:
		v.Status = StatusReady
	case v.Why.Code == whyUnclaimed:
		v.Status = StatusUnknown
	default:
		v.Status = reconcile.Skip{Reason: v.Why.Code}.IssueStatus(stopped)
		if f.stuck || f.reason == "" && r.skip.Stuck() {
			v.Status = view.StatusStuck
		}
		if stop != nil {
			v.Status = reconcile.StatusWaiting
		}
		if r.skipped && r.skip.Reason == v.Why.Code {
			v.Since = &r.skip.Since
		}
	}
}

// movedBack says that an issue was handed over, and is in a state again in which agents work; empty if
// it is in another state, or its state is not known. A person may want another run; but git takes back
// the file of an issue without a word, by a checkout or a stash.
func (r *issueReader) movedBack() string {
	release := r.released()
	isBack := r.Config != nil && r.claim == nil && r.source == SourceTracker && release != nil &&
		release.HandedOver() && release.To != nil && r.Config.Policy.Active(r.issue.State)
	if !isBack {
		return ""
	}
	back := fmt.Sprintf("; it was handed over %s ago in the state %s", text.Age(r.Now, release.At), *release.To)
	if r.Config.Tracker.Folder != "" {
		back += ": if nobody wants another run, git has taken its file back: write status: " + *release.To + " into it"
	}
	return back
}

// explainRun explains the status of a claim with a run.
func (r *issueReader) explainRun(ctx context.Context, v *Issue) {
	held := ""
	v.Next.Message = "nothing to do: when the run has ended, a pass decides what happens next"
	if r.claim.HoldNext {
		held = "; it is held when this run has ended"
		v.Next.Message = "when the run has ended, a pass holds the issue"
	}
	i := slices.IndexFunc(r.runs, func(run reconcile.Run) bool { return run.ID == r.claim.RunID })
	if i < 0 {
		v.Why = Why{"running", "its run has just been started" + held}
		return
	}
	run, dead := wiring.ConfirmDead(ctx, r.Project, r.DB.Runs, r.runs[i])
	v.Runs[i] = r.RunRow(run) // it may have ended meanwhile
	v.Since = &run.StartedAt
	settles := func() {
		v.Since = text.OrNull(run.EndedAt)
		v.Next = r.atPass("the next pass decides what happens next")
	}
	switch {
	case run.Outcome != "":
		v.Why = Why{"ended", fmt.Sprintf("its run has ended (%s), and no pass has run since", run.Outcome)}
		settles()
	case dead:
		v.Why = Why{"worker_lost", "the worker of its run has died, and no pass has run since"}
		settles()
	case run.Remote == reconcile.RemoteBegun && run.Phase == reconcile.EndingThere:
		v.Why = Why{"worker_lost", "its worker has ended, and another one ends the run on " + run.Host}
		if run.Activity != "" {
			v.Why.Message += ", which has failed so far: " + run.Activity
		}
		v.Next = Next{Message: "once " + run.Host + " has confirmed the end, a pass decides what happens next; " +
			"if the host is gone for good: symphony retry --host-is-gone " + r.identifier}
	case run.Lost(r.Now) > 0:
		v.Why = Why{"link_lost", "nothing was heard of " + run.Host + " for " + text.Duration(run.Lost(r.Now)) +
			"; its agent may go on there"}
		v.Next = Next{Message: "the run goes on once " + run.Host + " answers; if it stays silent, the issue is held"}
	case run.StopReason != "":
		v.Why = Why{"stopping", "its run is stopping (" + run.StopReason + ")"}
	case run.Kind == reconcile.DeliveryRun:
		v.Why = Why{string(reconcile.Delivering), "its commits are being delivered"}
	case len(v.Requests) > 0:
		ids := text.Map(v.Requests, func(r view.RequestRow) string { return r.ID })
		first := v.Requests[0]
		v.Status = reconcile.StatusNeedsAnswer
		v.Since = &first.AskedAt
		v.Why = Why{"needs_answer", "the agent waits for an answer to " + strings.Join(ids, ", ")}
		v.Next = Next{Message: first.HowToAnswer(), At: &first.ExpiresAt}
	default:
		v.Why = Why{"running", activityOf(run) + held}
	}
}

// activityOf is a run's present activity, such as "turn 2, the agent works".
func activityOf(run reconcile.Run) string {
	doing := cmp.Or(run.Activity, words.Phase(run.Phase))
	if run.Turns > 0 {
		return fmt.Sprintf("turn %d, %s", run.Turns, doing)
	}
	return doing
}

// The codes of a Why about a released issue, and about an unknown issue.
const (
	whyHandedOver = "handed_over"
	whyReleased   = "released"
	whyUnclaimed  = "unclaimed"
)

// isReleased reports whether an unclaimed issue is still as it was when a pass released it: no
// pass will start it, nor did a pass skip it since.
func (r *issueReader) isReleased(f forecast) bool {
	release := r.released()
	if release == nil || f.action != "" || f.reason == reconcile.SkipUnknownState {
		return false
	}
	if f.reason == "" {
		return !r.skipped || r.skip.Since.Before(release.At)
	}
	outside := []string{reconcile.SkipLabel, reconcile.SkipAssignee, reconcile.SkipBlockedBy}
	return f.next != "" || slices.Contains(outside, f.reason)
}

// goneText says that an issue's file is no longer in its folder.
const goneText = "its file is gone from the folder"

// inFolder returns the issue as its folder has it now, by its id. It is nil for other trackers, and
// for a folder that can't be read.
func (r *issueReader) inFolder(ctx context.Context) map[string]reconcile.Issue {
	if r.Config == nil || r.Config.Tracker.Folder == "" {
		return nil
	}
	tracker, err := wiring.NewTracker(r.Project, r.Config, wiring.TrackerOptions{})
	if err != nil {
		return nil
	}
	found, err := tracker.ByIDs(ctx, []string{r.id})
	if err != nil {
		return nil
	}
	return found
}

// lacksFile reports whether the file of an issue was deleted from the folder of the issues.
func (r *issueReader) lacksFile(v Issue) bool {
	return r.Config != nil && v.TrackerErr != nil && wiring.IsDeleted(r.Config, v.TrackerErr)
}

// codeIssueNotFound is the code of an issue that the tracker does not have.
const codeIssueNotFound = "issue_not_found"

func (r *issueReader) explainRelease(v *Issue, f forecast) {
	release := r.released()
	v.Status = reconcile.StatusHandedOver
	v.Since = &release.At
	last := release.From
	if release.To != nil {
		last = *release.To
	}
	moved := release.From
	if last != release.From {
		moved += " → " + last
	}
	state := text.OrEmpty(v.Issue.State)
	v.Why = Why{whyHandedOver, moved}
	if !release.HandedOver() {
		v.Status = StatusReleased
		v.Why = Why{whyReleased, releaseWords(*release)}
	}
	if r.source == SourceTracker && state != "" && state != last {
		v.Why.Message += "; its state is now " + state
	}
	v.Next.Message = "nothing to do"
	if release.InReview && f.reason != "terminal" {
		v.Next.Message = "it waits for your review: take the result, or send it back"
	}
	if v.WaitsFor != nil {
		v.Next.Message = "passes watch its " + v.pullWords().Name +
			", and bring the issue back if that needs work"
	}
	isGone := v.TrackerErr != nil && v.TrackerErr.Code == codeIssueNotFound
	switch {
	case isGone && v.TrackerErr.Hint != "":
		v.Next.Message = v.TrackerErr.Hint
	case f.reason == "not_active" && r.Config != nil:
		active := strings.Join(r.Config.Policy.ActiveStates, " or ")
		v.Next.Message += "; if it is moved to " + active + ", a pass starts it again"
	case f.reason == reconcile.SkipLabel && r.Config != nil && r.issue != nil:
		missing := strings.Join(r.Config.Policy.MissingLabels(*r.issue), " and the label ")
		v.Next.Message = "set the label " + missing + " again, and a pass starts it"
	}
}

func heldText(c reconcile.Claim) string {
	message := cmp.Or(c.HoldMessage, c.HoldReason)
	stops := []string{reconcile.StopOperator, reconcile.StopAll}
	isSaid := slices.Contains(stops, c.ErrorCode) || strings.Contains(message, c.ErrorMessage) // such as how verify ended
	if c.ErrorCode != "" && c.ErrorMessage != "" && !isSaid {
		message += ", last error " + *view.ErrorText(c.ErrorCode, c.ErrorMessage)
	}
	if d := c.Delivery; d.Due {
		message += "; its work is not delivered"
		if last := view.ErrorText(d.Code, d.Message); last != nil {
			message += ": " + *last
		}
	}
	return message
}

// stop is the obstacle that keeps the issue from starting, nil for none. The planner knows the
// others, such as a pause.
func (r *issueReader) stop() *obstacle.Obstacle {
	stops := func(o obstacle.Obstacle) bool {
		if o.Code == obstacle.Blocked {
			return r.Conflict != nil || r.claim != nil && r.trackerFault() != nil
		}
		return o.Code == obstacle.Workflow || o.Code == obstacle.PassFailed && o.Stops
	}
	return obstacle.FirstStop(text.Filter(r.obstacles, stops))
}

// whyNotRunning explains a waiting claim by its last run until it is due; then, as an issue
// without a claim, by the planner.
func (r *issueReader) whyNotRunning(f forecast) Why {
	c := r.claim
	now := !r.due().After(r.Now)
	if wait := r.deliveryWait(); wait.Reason != "" {
		return Why{wait.Reason, wait.Message}
	}
	stop := r.stop()
	switch {
	case now && stop != nil:
		return Why{stop.Args.Fault, stop.Words(r.Now).Text}
	case f.reason != "" && (now || f.reason == reconcile.SkipPaused):
		return Why{f.reason, f.message}
	case c == nil && f.action == reconcile.ActDispatch:
		message := "it can start"
		if !r.Schedule {
			message += ", but no schedule is active, so that nothing starts it"
		}
		return Why{"eligible", message}
	case c == nil && r.skipped:
		return Why{r.skip.Reason, r.skip.Message + " (at the last pass)"}
	case c == nil:
		return Why{
			whyUnclaimed,
			"the last pass had nothing to do for it; only the tracker knows its current state",
		}
	}
	// The delivery also waits for the agent if it has to correct incomplete commits, or if the
	// next run failed before the agent could do anything.
	othersPushed := c.Delivery.WaitsForAgent && c.Delivery.Code == "" && c.Kind == reconcile.Continuation
	if othersPushed {
		const message = "others have pushed to its branch during its last run: " +
			"its agent merges that before anything is delivered"
		return Why{reconcile.CodeOthersPushed, message}
	}
	if c.Delivery.WaitsForAgent && c.Delivery.OfContent() && c.Kind == reconcile.Continuation {
		return Why{c.Delivery.Code, c.Delivery.Message + ": its agent corrects them in its next run"}
	}
	last := ""
	if e := view.ErrorText(c.Fault()); e != nil {
		last = ": " + *e
	}
	wait, known := words.Waits[c.Kind]
	message := cmp.Or(wait.Why, "it waits")
	if wait.Fails || !known {
		message += last
	}
	if c.Kind == reconcile.Continuation && r.Config != nil && r.Config.Handoff.State != "" {
		message += ": its agent has not called hand_over"
	}
	if c.Kind == reconcile.Continuation && c.ErrorMessage != "" {
		message += "; " + c.ErrorMessage
	}
	return Why{string(c.Kind), message}
}

// undelivered reports whether the issue waits for a delivery, not for an agent.
func (r *issueReader) undelivered() bool {
	if r.claim == nil || !r.claim.Delivery.Due || r.claim.Delivery.WaitsForAgent {
		return false
	}
	return r.claim.Delivery.Handover != nil || r.Config != nil && r.Config.Repository.Delivers()
}

// deliveryWait is the wait of the issue's delivery for a host; the zero value if it does not
// wait for a host.
func (r *issueReader) deliveryWait() reconcile.DeliveryWait {
	if !r.undelivered() {
		return reconcile.DeliveryWait{}
	}
	return r.Recorded.DeliveryWait(*r.claim, r.Now)
}

// trackerFault returns the fault of the tracker that keeps the issue waiting, nil for none. A
// delivery does not need the tracker.
func (r *issueReader) trackerFault() *reconcile.Block {
	if r.undelivered() {
		return nil
	}
	return r.Recorded.TrackerBlock
}

// nextRun says when and under which condition a pass starts the issue.
func (r *issueReader) nextRun(why Why, f forecast) Next {
	pass := "the next pass"
	if r.due().After(r.Now) {
		pass = "a pass"
	}
	wait := r.deliveryWait()
	stop := text.OrEmpty(r.stop())
	switch {
	case r.ConfigErr == nil && wait.Reason != "":
		return Next{Message: wait.Ends, At: text.OrNull(wait.Until.UTC())}
	case stop.Code == obstacle.Workflow:
		return Next{Message: "correct the workflow: " + stop.Args.Message}
	case r.Conflict != nil:
		return Next{Message: r.Conflict.Hint}
	case stop.Code == obstacle.Blocked && r.source != SourceTracker:
		return r.startOnce(reconcile.SkipBlocked)
	case stop.Code == obstacle.PassFailed && !r.due().After(r.Now):
		hint := cmp.Or(stop.Args.Hint, "symphony doctor looks for the cause")
		return r.atPass(hint + "; the next pass tries again")
	case f.action == reconcile.ActDispatch && r.claim != nil && r.claim.Issue.Unreadable != "":
		return r.startOnce(reconcile.SkipMalformed)
	case f.action == reconcile.ActDispatch:
		return r.atPass(pass + " starts it")
	case f.action == reconcile.ActDeliver:
		return r.atPass(pass + " delivers it, without an agent; symphony retry " + r.identifier + " tries now")
	case r.Recorded.Paused && r.undelivered():
		return r.startOnce(reconcile.SkipPaused)
	case f.action == reconcile.ActHold:
		return r.atPass(pass + " holds it: " + f.message)
	case f.action == reconcile.ActRelease:
		return r.atPass(pass + " releases it")
	case f.next != "":
		return Next{Message: f.next}
	}
	return r.startOnce(cmp.Or(f.reason, why.Code))
}

// startOnce says when a pass starts an issue that is skipped for a reason.
func (r *issueReader) startOnce(reason string) Next {
	if condition, known := words.Once[reason]; known {
		return Next{Message: "a pass starts it " + condition}
	}
	run := "symphony run " + r.identifier + " starts it now"
	switch reason {
	case reconcile.SkipNoSlot, reconcile.SkipNoSlotInState:
		return Next{Message: "a pass starts it once a slot is free and its turn has come"}
	case reconcile.SkipSentBack:
		return Next{Message: run}
	case reconcile.SkipMalformed:
		what := "it in the tracker"
		if r.Config != nil && r.Config.Tracker.Folder != "" {
			what = "the file"
		}
		return Next{Message: "correct " + what + ": the next pass reads it again", NeedsPass: true}
	case reconcile.SkipPullRequest:
		return Next{Message: "a pass starts it once that pull request is closed; " + run}
	case reconcile.SkipBlocked:
		next := Next{Message: "a pass tries again; symphony resume tries now"}
		if r.Block != nil {
			next.At = &r.Block.NextTry
		}
		return next
	case reconcile.SkipBudget:
		next := Next{Message: run + ", a pass when the next day (UTC) begins"}
		if r.Budget != nil {
			next.At = new(latest(r.Budget.Until, r.due()))
		}
		return next
	case reconcile.SkipRateLimited:
		next := Next{Message: "a pass starts it once the limit has ended"}
		if r.Block != nil && r.Block.Until != nil {
			next.At = new(latest(*r.Block.Until, r.due()))
		}
		return next
	}
	return r.atPass("the next pass looks at it")
}

// atPass adds when that pass is expected. Without a schedule that is known only for a claim
// that is not due yet.
func (r *issueReader) atPass(message string) Next {
	at := r.due()
	switch {
	case !r.Schedule && !at.After(r.Now):
		return Next{Message: message, NeedsPass: true}
	case r.NextPass != nil:
		at = latest(at, r.NextPass.At)
	}
	return Next{Message: message, At: new(latest(at, r.Now)), NeedsPass: true}
}
