package pass

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/words"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// narrator describes a pass in sentences for a newcomer: what it did, or in a dry run would
// do.
type narrator struct {
	Result
	now time.Time
}

// Sentences describes what a pass did, one line for each action that an operator has to know
// of.
func (r Result) Sentences(now time.Time) (list []string) {
	n := narrator{r, now}
	for _, a := range r.Applied {
		if line := n.action(a); line != "" && !slices.Contains(list, line) {
			list = append(list, line)
		}
	}
	return list
}

// action is the sentence for an action, empty if that of another action of the pass covers it.
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
		return n.did(a, "remove", "removing", "the workspace of "+subject+", which is "+a.State)
	case reconcile.ActRelease:
		return n.released(a, subject)
	case reconcile.ActHold:
		return n.held(a, subject)
	case reconcile.ActRetry:
		return n.retried(a, subject)
	case reconcile.ActReap:
		settles := func(b reconcile.Applied) bool { return b.Kind == reconcile.ActSettle && b.RunID == a.RunID }
		if a.Err == nil && slices.ContainsFunc(n.Applied, settles) {
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
	switch {
	case n.DryRun:
		return "would " + verb + " " + object
	case a.Err != nil:
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
		return " again after " + text.Plural(a.Change.Claim.Failures, "failed run")
	case reconcile.Interrupted:
		return " again, because its last run was interrupted"
	case reconcile.Blocked:
		return " again after a fault that was not its own"
	case reconcile.NoSlot:
		return ": a slot is free"
	case reconcile.Requested:
		return " again, as requested"
	case "probe":
		return ", to test whether the fault is over"
	default:
		return ""
	}
}

// stopReason is the reason why a run is stopped, or an issue is released.
func stopReason(a reconcile.Action) string {
	if reason := words.Releases[a.Reason]; reason != "" {
		return reason
	}
	if a.Message == reconcile.MessageArchived {
		return a.Message
	}
	return "it is now in " + a.State
}

func (n narrator) released(a reconcile.Applied, subject string) string {
	if a.Reason == reconcile.StopTerminal || a.Reason == reconcile.StopInactive {
		return n.did(a, "finish", "finished", subject+": "+stopReason(a.Action))
	}
	return n.did(a, "release", "released", subject+": "+stopReason(a.Action))
}

func (n narrator) held(a reconcile.Applied, subject string) string {
	ends := "; symphony retry " + a.Identifier + " ends the hold"
	switch {
	case a.Reason != reconcile.HoldOperator:
		return n.did(a, "hold", "held", subject+": "+a.Message) // which names what ends the hold
	case a.Change != nil && a.Change.Claim != nil && a.Change.Claim.Status == reconcile.Running:
		return n.did(a, "hold", "will hold", subject+" when its run has ended"+ends)
	}
	return n.did(a, "hold", "held", subject+": no run of it starts"+ends)
}

// retried is the sentence for a claim that is due now.
func (n narrator) retried(a reconcile.Applied, subject string) string {
	follows := func(b reconcile.Applied) bool {
		return b.IssueID == a.IssueID && (b.Kind == reconcile.ActDispatch || b.Kind == reconcile.ActDeliver)
	}
	switch {
	case a.Reason == string(reconcile.NoSlot), slices.ContainsFunc(n.Applied, follows):
		return "" // said by the reasons for which issues wait, or by the start
	case a.Change != nil && a.Change.Claim != nil && a.Change.Claim.Status == reconcile.Running:
		return n.did(a, "clear", "cleared", "the failures and limits of "+subject+"; its run continues")
	case a.Reason == reconcile.HoldHostLost:
		return n.did(a, "give up", "gave up", "what its host has of "+subject+": "+a.Message)
	case a.Reason == "comment":
		return n.did(a, "end", "ended", "the hold of "+subject+" after a comment")
	}
	return n.did(a, "clear", "cleared", "the hold, failures and limits of "+subject+": it is due now")
}

// settled is the sentence for the end of a run.
func (n narrator) settled(a reconcile.Applied, subject string) string {
	if a.Err != nil {
		return "could not settle the run of " + subject
	}
	next := ""
	if c := a.Change.Claim; c != nil && c.Status == reconcile.Waiting && c.DueAt.After(n.now) &&
		a.Reason != string(reconcile.Succeeded) {
		next = "; next try in " + text.Duration(c.DueAt.Sub(n.now))
	}
	why := ""
	switch {
	case a.Message == "stopped: "+reconcile.StopAll:
		why = " by symphony stop --all"
	case a.Message == "stopped: "+reconcile.StopOperator:
		why = " by an operator"
	case a.Message != "":
		why = ": " + a.Message
	}
	ok := a.Reason == string(reconcile.Succeeded)
	switch {
	case a.RunKind == reconcile.CleanupRun && a.IssueID == "" && ok:
		return "deleted removed workspaces, whose time in the trash was over"
	case a.RunKind == reconcile.CleanupRun && ok && a.Message != "":
		return n.kept(a.IssueID, subject)
	case a.RunKind == reconcile.CleanupRun && ok:
		return "removed the workspace of " + subject
	case a.RunKind == reconcile.CleanupRun:
		return "could not remove the workspace of " + subject + why
	case a.RunKind == reconcile.DeliveryRun && ok:
		return "delivered the commits of " + subject
	case a.RunKind == reconcile.DeliveryRun:
		return "could not deliver the commits of " + subject + why + next
	}
	return "the run of " + subject + " " + words.Endings[reconcile.Outcome(a.Reason)] + why + next
}

// kept is the sentence for a workspace that was not removed because of unsaved work, empty if
// the reasons for which issues wait say so.
func (n narrator) kept(issueID, subject string) string {
	said := func(s reconcile.Skip) bool { return s.IssueID == issueID && s.Reason == reconcile.SkipUnsavedWork }
	if slices.ContainsFunc(n.Skips, said) {
		return ""
	}
	return "kept the workspace of " + subject + ", which has unsaved work; symphony ps --all shows which"
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
		i := slices.IndexFunc(
			list,
			func(g waitingGroup) bool { return g.Reason == s.Reason && g.Message == s.Message },
		)
		if i < 0 {
			i = len(list)
			list = append(list, waitingGroup{Skip: s})
		}
		list[i].names = append(list[i].names, s.Identifier)
	}
	return list
}

// text returns why the issues are not started, and what has to happen before they are.
func (g waitingGroup) text() string {
	several := len(g.names) > 1
	one := func(singular, plural string) string {
		if several {
			return plural
		}
		return singular
	}
	names := namesText(g.names)
	if !several && g.Title != "" {
		names += " " + g.Title
	}
	switch g.Reason {
	case reconcile.SkipNoSlot, reconcile.SkipNoSlotInState:
		return names + one(" waits: ", " wait: ") + g.Message + one("; it starts when one is free", "; they start when one is free")
	case reconcile.SkipBlockedBy:
		return names + one(" waits for ", " wait for ") + g.Subject
	case reconcile.SkipBlocked:
		return names + one(" waits", " wait") + " until the fault is over: " + g.Message
	case reconcile.SkipLabel:
		return "skipped " + names + ": " + one("it lacks the ", "they lack the ") + g.Subject
	case reconcile.SkipAssignee:
		return "skipped " + names + ": " + one(
			"it is not assigned to ",
			"they are not assigned to ",
		) + g.Subject
	case reconcile.SkipUnreadable:
		return names + ": " + g.Message + "; until it is corrected, only its state is obeyed, if that is final"
	case reconcile.SkipMalformed, reconcile.SkipPullRequest:
		return "skipped " + names + ": " + g.Message
	case reconcile.SkipUnsavedWork:
		return "kept the " + one("workspace of ", "workspaces of ") + names + ", which " + one("has", "have") +
			" unsaved work; symphony ps --all shows which"
	}
	return names + one(" waits: ", " wait: ") + g.Message
}

func namesText(names []string) string {
	switch more := len(names) - mostNamed; {
	case len(names) == 1:
		return names[0]
	case more > 1:
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

// Outlook lists the reasons why issues are not started, one line each, and the sum of the
// issues.
func (r Result) Outlook(now time.Time) (list []string) {
	n := narrator{r, now}
	groups := slices.DeleteFunc(
		n.groups(),
		func(g waitingGroup) bool { return n.Obstacle != nil && g.Reason == n.Obstacle.Reason },
	)
	list = append(list, n.ObstacleText(n.now))
	list = append(list, text.Map(groups[:min(len(groups), mostGroups)], waitingGroup.text)...)
	if len(groups) > mostGroups {
		list = append(list, "other issues wait for other reasons: see symphony ps --all")
	}
	list = append(list, n.counts())
	if n.Unscheduled && n.Running+n.Retrying > 0 {
		list = append(
			list,
			"no schedule is active: symphony tick starts the next runs; symphony schedule install sets up a schedule that does",
		)
	}
	return slices.DeleteFunc(list, func(s string) bool { return s == "" })
}

// ObstacleText explains why nothing starts, and until when; empty if nothing is in the way of
// every issue.
func (r Result) ObstacleText(now time.Time) string {
	o := r.Obstacle
	switch {
	case o == nil:
		return ""
	case o.Reason == reconcile.SkipPaused:
		return "the project is paused: nothing new starts until symphony resume"
	}
	line := "nothing new starts: " + o.Message
	if slices.ContainsFunc(r.Errors, func(e *reconcile.Error) bool { return e.Code == o.Reason }) {
		line = "nothing new starts until this error is gone: " + o.Reason
	}
	return line + obstacleEnd(o, now, ", in ")
}

// obstacleEnd is when an obstacle ends, as the end of a sentence; empty if that is not known.
// before precedes the time that is left.
func obstacleEnd(o *reconcile.Obstacle, now time.Time, before string) string {
	switch left := o.Until.Sub(now); {
	case o.Tester != "":
		return "; the run of " + o.Tester + " tests whether it is over"
	case o.Until.IsZero() || left <= 0:
		return ""
	case o.Reason == reconcile.SkipBlocked:
		return "; next try in " + text.Duration(left) + ", or now with symphony unblock"
	default:
		return before + text.Duration(left)
	}
}

// counts returns how many issues run, wait and are held after the pass.
func (n narrator) counts() string {
	line := n.Text()
	switch {
	case line == "" && n.Skips != nil && n.Config != nil:
		line = "nothing to do: no issue is in " + strings.Join(n.Config.Policy.ActiveStates, " or ")
		if labels := n.Config.Policy.RequiredLabels; len(labels) > 0 {
			line += " with the label " + strings.Join(labels, " and ")
		}
		return line
	case line == "":
		return "nothing is running"
	case n.Running == 0:
		line = "nothing is running; " + line
	}
	if left := n.NextDue.Sub(n.now); !n.NextDue.IsZero() && left > 0 {
		line += "; the next retry is in " + text.Duration(left)
	}
	if n.DryRun {
		return "then: " + line
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
	switch d := r.NextDue.Sub(now); {
	case r.NextDue.IsZero():
	case d > 0:
		sum += ", next due in " + text.Duration(d)
	default:
		sum += ", one is due"
	}
	return sum + text.Visible(r.whyNothing(now))
}

// whyNothing is the end of the summary: why the pass started nothing, and until when; empty if
// nothing was in the way.
func (r Result) whyNothing(now time.Time) string {
	o := r.Obstacle
	if o == nil {
		return ""
	}
	// the error is printed above
	said := func(e *reconcile.Error) bool { return e.Code == o.Reason }
	line := "; nothing starts: " + o.Reason
	if !slices.ContainsFunc(r.Errors, said) {
		line += ": " + o.Message
	}
	return line + obstacleEnd(o, now, "; for another ")
}

// ResultJSON is the documented shape of tick --json.
type ResultJSON struct {
	// Project is the name of the folder of WORKFLOW.md. In a loop with several projects of
	// that name, the later ones have a number behind it.
	Project string    `json:"project"`
	Pass    *passJSON `json:"pass"`
	// Holder has the lock; it is left out until it has written its name.
	Holder  *state.Holder `json:"holder,omitempty"`
	Actions []actionJSON  `json:"actions"`
	// the candidates that get no run, or "locked" if another pass has the lock
	Skipped any              `json:"skipped"`
	Counts  reconcile.Counts `json:"counts"`
	// Obstacle is why the pass started nothing, null if it started runs or nothing was in the
	// way.
	Obstacle *obstacleJSON      `json:"obstacle"`
	Errors   []*reconcile.Error `json:"errors"`
}

// obstacleJSON has the reason of a skip, or the code of an error for which no pass starts
// anything.
type obstacleJSON struct {
	Reason   string  `json:"reason"`
	Message  string  `json:"message"`
	Until    *string `json:"until"`     // when it ends or is tested again
	TestedBy *string `json:"tested_by"` // the issue whose run tests whether it is over
}

type passJSON struct {
	ID         *int64 `json:"id"` // null in a dry run, and if the pass could not be recorded
	Trigger    string `json:"trigger"`
	StartedAt  string `json:"started_at"`
	DurationMS int64  `json:"duration_ms"`
	DryRun     bool   `json:"dry_run"`
}

type actionJSON struct {
	Action     string  `json:"action"`
	IssueID    string  `json:"issue_id"`
	Identifier string  `json:"issue_identifier"`
	RunID      *string `json:"run_id"`
	Reason     string  `json:"reason"`
}

// JSON returns the pass as tick --json prints it.
func (r Result) JSON() ResultJSON {
	out := ResultJSON{
		Project: r.Project, Actions: []actionJSON{}, Errors: []*reconcile.Error{},
		Counts: r.Counts,
	}
	if r.Holder != nil {
		out.Skipped = "locked"
		if r.Holder.PID != 0 {
			out.Holder = r.Holder
		}
		return out
	}
	out.Pass = &passJSON{
		&r.Pass.ID,
		r.Pass.Trigger,
		text.Rfc3339(r.Pass.StartedAt),
		r.Pass.Duration.Milliseconds(),
		r.DryRun,
	}
	if r.Pass.ID == 0 {
		out.Pass.ID = nil
	}
	for _, a := range r.Applied {
		if a.Err == nil {
			out.Actions = append(
				out.Actions,
				actionJSON{string(a.Kind), a.IssueID, a.Identifier, text.OrNull(a.RunID), a.Reason},
			)
		}
	}
	if o := r.Obstacle; o != nil {
		out.Obstacle = &obstacleJSON{
			Reason:   o.Reason,
			Message:  o.Message,
			TestedBy: text.OrNull(o.Tester),
		}
		if !o.Until.IsZero() {
			out.Obstacle.Until = new(text.Rfc3339(o.Until))
		}
	}
	out.Skipped = append([]reconcile.Skip{}, r.Skips...)
	out.Errors = append(out.Errors, r.Errors...)
	return out
}
