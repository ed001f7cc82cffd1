package pass

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/obstacle"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/words"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// narrator describes a pass in sentences for a newcomer: the actions that it took, or in a dry
// run would take.
type narrator struct {
	Result
	now time.Time
}

// Sentences describes the pass, a line for each action that an operator has to know of:
// "started WEB-7 Fix the total".
func (r Result) Sentences(now time.Time) (list []string) {
	n := narrator{r, now}
	for _, a := range r.Applied {
		line := n.action(a)
		if line != "" && !slices.Contains(list, line) {
			list = append(list, line)
		}
	}
	return list
}

// action is the sentence for an action, empty if the sentence for another action covers it.
func (n narrator) action(a reconcile.Applied) string {
	subject := strings.TrimSpace(a.Identifier + " " + a.Title)
	switch a.Kind {
	case reconcile.ActDispatch:
		return n.did(a, "start", "started", subject+startReason(a.Action))
	case reconcile.ActDeliver:
		return n.did(a, "deliver", "delivering", "the commits of "+subject)
	case reconcile.ActStop:
		return n.did(a, "stop", "stopping", subject+": "+stopReason(a.Action))
	case reconcile.ActRemoveWorkspace:
		if a.IssueID == "" {
			return n.did(a, "delete", "deleting", "removed workspaces, whose time in the trash is over")
		}
		why := "which is " + a.State
		if a.Reason == reconcile.StopClaim {
			why = "on which another machine works; what exists only here is kept"
		}
		return n.did(a, "remove", "removing", "the workspace of "+subject+", "+why)
	case reconcile.ActRelease:
		return n.released(a, subject)
	case reconcile.ActHold:
		return n.held(a, subject)
	case reconcile.ActRetry:
		return n.retried(a, subject)
	case reconcile.ActReap:
		if a.Err == nil {
			return ""
		}
		return n.did(a, "end", "ended", "the processes that the run of "+subject+" has left")
	case reconcile.ActEnd:
		return n.did(a, "end", "ending", "the run of "+subject+" "+a.Message)
	case reconcile.ActSettle:
		return n.settled(a, subject)
	}
	return a.String()
}

// did makes a sentence of a verb and its object: done, planned in a dry run, or failed.
func (n narrator) did(a reconcile.Applied, verb, done, object string) string {
	if n.DryRun {
		return "would " + verb + " " + object
	}
	if a.Err != nil {
		return "could not " + verb + " " + object
	}
	return done + " " + object
}

// startReason returns why an issue is started, if it is not for the first time.
func startReason(a reconcile.Action) string {
	switch reconcile.RetryKind(a.Reason) {
	case reconcile.Continuation:
		return " again: it is still in " + a.State
	case reconcile.Backoff:
		failures := a.Change.Claim.Failures
		if failures == 0 {
			return " again: its last run could not begin"
		}
		return " again after " + text.Plural(failures, "failed run")
	case reconcile.Interrupted:
		return " again, because its last run was interrupted"
	case reconcile.Blocked:
		return " again after a fault that was not its own"
	case reconcile.NoSlot:
		return ": a slot is free"
	case reconcile.Requested:
		return " again, as requested"
	case reconcile.DispatchProbe:
		return ", to test whether the fault is over"
	default:
		return ""
	}
}

// stopReason is the reason why a run is stopped, or an issue is released.
func stopReason(a reconcile.Action) string {
	if a.Reason == reconcile.SkipUnknownState && a.StateMeant != "" {
		return reconcile.UnknownState(a.State, a.StateMeant)
	}
	if reason := words.Releases[a.Reason]; reason != "" {
		return reason
	}
	if a.Reason == reconcile.StopInactive && a.Archived {
		return reconcile.MessageArchived
	}
	return "it is now in " + a.State
}

// released is the sentence for a claim that was given up: the issue is finished, or no longer
// belongs to the project.
func (n narrator) released(a reconcile.Applied, subject string) string {
	if a.Reason == reconcile.StopTerminal || a.Reason == reconcile.StopInactive {
		return n.did(a, "finish", "finished", subject+": "+stopReason(a.Action))
	}
	return n.did(a, "release", "released", subject+": "+stopReason(a.Action))
}

// held is the sentence for a hold.
func (n narrator) held(a reconcile.Applied, subject string) string {
	if a.Reason == reconcile.HoldNeedsHelp && !n.DryRun && a.Err == nil {
		return subject + " needs help: " + a.Message
	}
	if a.Reason != reconcile.HoldOperator {
		return n.did(a, "hold", "held", subject+": "+a.Message) // the message says how to end the hold
	}
	if n.Released(a.IssueID) { // it is finished, so that the hold is over
		return ""
	}
	ends := "; symphony retry " + a.Identifier + " ends the hold"
	if goesOn(a) {
		return n.did(a, "hold", "will hold", subject+" when its run has ended"+ends)
	}
	return n.did(a, "hold", "held", subject+": no run of it starts"+ends)
}

// goesOn reports whether an action leaves a claim whose run goes on.
func goesOn(a reconcile.Applied) bool {
	return a.Change != nil && a.Change.Claim != nil && a.Change.Claim.Status == reconcile.Running
}

// retried is the sentence for a claim that is due now.
func (n narrator) retried(a reconcile.Applied, subject string) string {
	follows := func(b reconcile.Applied) bool {
		return b.IssueID == a.IssueID && (b.Kind == reconcile.ActDispatch || b.Kind == reconcile.ActDeliver)
	}
	switch {
	case a.Reason == string(reconcile.NoSlot), slices.ContainsFunc(n.Applied, follows):
		return "" // said by the reasons for which issues wait, or by the start
	case goesOn(a):
		return n.did(a, "clear", "cleared", "the failures and limits of "+subject+"; its run continues")
	case a.Reason == reconcile.HoldHostLost:
		return n.did(a, "give up", "gave up", "what its host has of "+subject+": "+a.Message)
	case a.Reason == "answered" && !n.DryRun && a.Err == nil:
		return subject + " goes on, because a person has answered its agent: it is due now"
	}
	if n.Released(a.IssueID) {
		return n.did(a, "clear", "cleared", "the hold, failures and limits of "+subject)
	}
	return n.did(a, "clear", "cleared", "the hold, failures and limits of "+subject+": it is due now")
}

// settled is the sentence for the end of a run; empty for a workspace that was kept because of
// unsaved work, which the reasons for which issues wait say.
func (n narrator) settled(a reconcile.Applied, subject string) string {
	if a.Err != nil {
		return "could not settle the run of " + subject
	}
	what := "the run of " + subject
	outcome := reconcile.Outcome(a.Reason)
	switch {
	case a.RunKind == reconcile.CleanupRun && outcome == reconcile.Succeeded && a.Message != "":
		return ""
	case a.RunKind == reconcile.CleanupRun && a.IssueID == "":
		what = "the deletion of removed workspaces"
	case a.RunKind == reconcile.CleanupRun:
		what = "the removal of the workspace of " + subject
	case a.RunKind == reconcile.DeliveryRun:
		what = "the delivery of the commits of " + subject
	}
	line := what + " " + words.Endings[outcome] + whyEnded(a)
	if outcome.IsRegular() {
		return line
	}
	return line + n.nextTry(a)
}

// whyEnded is why a run ended, as the end of a sentence; empty if there is nothing to say.
func whyEnded(a reconcile.Applied) string {
	switch {
	case a.StoppedBy == reconcile.StopAll:
		return " by symphony stop --all"
	case a.StoppedBy == reconcile.StopOperator:
		return " by an operator"
	case a.Message != "":
		return ": " + a.Message
	}
	return ""
}

// nextTry is when the issue of a run that did not succeed is tried again, as the end of a
// sentence; empty if it is due already, or not tried again.
func (n narrator) nextTry(a reconcile.Applied) string {
	c := a.Change.Claim
	if c == nil || c.Status != reconcile.Waiting || !c.DueAt.After(n.now) {
		return ""
	}
	return "; next try in " + text.Duration(c.DueAt.Sub(n.now))
}

// mostNamed is how many issues a sentence names, and mostGroups how many sentences explain why
// issues wait.
const (
	mostNamed  = 3
	mostGroups = 6
)

// waitingGroup are issues that are not started for the same reason.
type waitingGroup struct {
	reconcile.Skip
	names []string
}

// groups puts together the issues that wait for the same reason.
func (n narrator) groups() (list []waitingGroup) {
	for _, s := range slices.Concat(n.Waits, n.Skips) {
		if s.Reason == reconcile.SkipUnsavedWork {
			s.Message = ""
		}
		isSame := func(g waitingGroup) bool { return g.Reason == s.Reason && g.Message == s.Message }
		i := slices.IndexFunc(list, isSame)
		if i >= 0 {
			list[i].names = append(list[i].names, s.Identifier)
			continue
		}
		list = append(list, waitingGroup{Skip: s, names: []string{s.Identifier}})
	}
	return list
}

// text returns why the issues are not started, and the conditions for starting them.
func (g waitingGroup) text() string {
	names := namesText(g.names)
	waits := names + " wait"
	if len(g.names) == 1 {
		names = strings.TrimSpace(names + " " + g.Title)
		waits = names + " waits"
	}
	switch g.Reason {
	case reconcile.SkipBlockedBy:
		if g.Mend != "" && len(g.names) == 1 {
			return waits + " for " + g.Subject + ": " + g.Mend
		}
		return waits + " for " + g.Subject
	case reconcile.SkipLabel:
		return "skipped " + names + ": without the " + g.Subject
	case reconcile.SkipAssignee:
		return "skipped " + names + ": not assigned to " + g.Subject
	case reconcile.SkipMalformed, reconcile.SkipPullRequest, reconcile.SkipUnknownState:
		return "skipped " + names + ": " + g.Message
	case reconcile.SkipUnreadable:
		return names + ": " + g.Message
	case reconcile.SkipUnsavedWork:
		return "kept, because of unsaved work: " + names + "; symphony ps --all shows which"
	}
	return waits + ": " + g.Message
}

// namesText lists names: "WEB-1, WEB-2 and WEB-3", or "WEB-1, WEB-2, WEB-3 and 5 more".
func namesText(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	more := len(names) - mostNamed
	if more > 1 {
		return strings.Join(names[:mostNamed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// WaitText returns why the pass did not start an issue, empty if it did not look at it.
func (r Result) WaitText(issueID string) string {
	for _, s := range slices.Concat(r.Waits, r.Skips) {
		if s.IssueID == issueID {
			return waitingGroup{Skip: s, names: []string{s.Identifier}}.text()
		}
	}
	return ""
}

// Outlook lists the reasons why issues are not started, each on a line, and the sum of the
// issues.
func (r Result) Outlook(now time.Time) (list []string) {
	n := narrator{r, now}
	if why := n.ObstacleText(now); why != "" {
		list = append(list, why)
	}
	groups := text.Filter(n.groups(), func(g waitingGroup) bool {
		return n.Obstacle == nil || g.Reason != n.Obstacle.Reason
	})
	for _, g := range groups[:min(len(groups), mostGroups)] {
		list = append(list, g.text())
	}
	if len(groups) > mostGroups {
		list = append(list, "other issues wait for other reasons: see symphony ps --all")
	}
	list = append(list, n.counts())
	paused := n.Obstacle != nil && n.Obstacle.Reason == reconcile.SkipPaused
	if n.Unscheduled && !paused && n.Running+n.Retrying > 0 {
		list = append(list, "no schedule is active: symphony tick starts the next runs; "+
			"symphony schedule install sets up a schedule that does")
	}
	return list
}

// ObstacleText explains why nothing starts, and until when; empty if nothing is in the way of
// every issue.
func (r Result) ObstacleText(now time.Time) string {
	if r.Obstacle == nil {
		return ""
	}
	return obstacle.OfPass(*r.Obstacle, r.hasError(r.Obstacle.Reason)).Words(now).Full()
}

// hasError reports whether the pass had an error with a code, which is printed by itself.
func (r Result) hasError(code string) bool {
	return slices.ContainsFunc(r.Errors, func(e *reconcile.Error) bool { return e.Code == code })
}

// counts returns how many issues run, wait and are held after the pass.
func (n narrator) counts() string {
	line := n.Text()
	if line == "" {
		return n.nothing()
	}
	if n.Running == 0 {
		line = "nothing is running; " + line
	}
	left := n.NextDue.Sub(n.now)
	if !n.NextDue.IsZero() && left > 0 {
		line += "; the next retry is in " + text.Duration(left)
	}
	if n.DryRun {
		return "then: " + line
	}
	return line
}

// nothing is the line for a project without running, waiting or held issues.
func (n narrator) nothing() string {
	// The pass did not read the candidates, or could not start one of them.
	if n.Skips == nil || n.Config == nil || len(n.Errors) > 0 {
		return "nothing is running"
	}
	line := "nothing to do: no issue is in " + strings.Join(n.Config.Policy.ActiveStates, " or ")
	labels := n.Config.Policy.RequiredLabels
	if len(labels) > 0 {
		line += " with the label " + strings.Join(labels, " and ")
	}
	return line
}

// Sum counts the issues, the running ones first, even if there are none.
func (r Result) Sum() string {
	if r.Running == 0 {
		return strings.TrimSuffix("0 running, "+r.Text(), ", ")
	}
	return r.Text()
}

// Summary is the sum of the issues, and the reason if the pass started nothing.
func (r Result) Summary(now time.Time) string {
	sum := r.Sum()
	if !r.NextDue.IsZero() {
		left := r.NextDue.Sub(now)
		if left > 0 {
			sum += ", next due in " + text.Duration(left)
		} else {
			sum += ", one is due"
		}
	}
	if why := r.ObstacleText(now); why != "" {
		sum += "; " + text.Visible(why)
	}
	return sum
}
