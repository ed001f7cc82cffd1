package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// why says why the issue runs or does not.
func (f *issueFacts) why(plan forecast) reasonRow {
	switch c := f.claim; {
	case c == nil:
		return f.whyUnclaimed(plan)
	case c.Status == reconcile.Running:
		return f.whyRunning()
	case c.Status == reconcile.Held:
		return f.whyHeld()
	}
	return f.whyWaiting(plan)
}

func (f *issueFacts) whyRunning() reasonRow {
	run := f.run()
	text := "its run has just been started"
	if run != nil {
		text = fmt.Sprintf("it runs: %s, turn %d", strings.ReplaceAll(string(run.Phase), "_", " "), run.Turns)
	}
	if f.claim.HoldNext {
		text += "; it is held when this run has ended"
	}
	switch {
	case run == nil:
	case run.Outcome != "":
		return reasonRow{"ended", fmt.Sprintf("its run has ended (%s), and no pass has taken that up yet", run.Outcome)}
	case f.workerGone:
		return reasonRow{"worker_lost", "the worker of its run is gone, and no pass has taken that up yet"}
	case run.StopReason != "":
		return reasonRow{"stopping", "its run is asked to end: " + run.StopReason}
	case len(f.requests) > 0:
		ids := make([]string, 0, len(f.requests))
		for _, r := range f.requests {
			ids = append(ids, r.ID())
		}
		return reasonRow{"asks", "its run waits for an answer: " + strings.Join(ids, ", ")}
	}
	return reasonRow{"running", text}
}

// run is the claim's run, nil where it is not among the latest.
func (f *issueFacts) run() *reconcile.Run {
	for i := range f.runs {
		if f.claim != nil && f.runs[i].ID == f.claim.RunID {
			return &f.runs[i]
		}
	}
	return nil
}

// whyHeld leaves out what ends the hold: that is what comes next.
func (f *issueFacts) whyHeld() reasonRow {
	c := f.claim
	message := c.HoldMessage
	text := "held: " + c.HoldReason
	switch {
	case c.HoldReason == reconcile.HoldOperator:
		text = "held by an operator"
		if c.ErrorCode == reconcile.StopOperator || c.ErrorCode == reconcile.StopAll {
			return reasonRow{"held", text} // who held it has stopped its run, too
		}
	case message != "":
		text += ", " + message
	}
	if last := project.ErrorText(c.ErrorCode, c.ErrorMessage); last != nil && !strings.Contains(message, *last) {
		text += ", last " + *last
	}
	return reasonRow{"held", text}
}

// whyWaiting: until it is due it is the last run that says why; then what the planner says.
func (f *issueFacts) whyWaiting(plan forecast) reasonRow {
	c := f.claim
	due := !c.DueAt.After(f.now)
	switch {
	case due && f.cfgErr != nil:
		return f.whyBroken()
	case due && f.rec.TrackerBlock != nil:
		return reasonRow{f.rec.TrackerBlock.Code, "nothing is started before the tracker answers: " + f.rec.TrackerBlock.Message}
	case plan.reason != "" && (due || plan.reason == reconcile.SkipPaused):
		return reasonRow{plan.reason, inWords(plan.reason, plan.message)}
	}
	last := ""
	if e := project.ErrorText(c.ErrorCode, c.ErrorMessage); e != nil {
		last = ": " + *e
	}
	text := map[reconcile.RetryKind]string{
		reconcile.Continuation: "its last run succeeded, and the issue is still active",
		reconcile.Backoff:      "its last run failed" + last,
		reconcile.Interrupted:  "its last run was ended from outside" + last,
		reconcile.Blocked:      "it waits for the end of a fault that is not its own" + last,
		reconcile.NoSlot:       "no slot: all were taken at the last pass",
		reconcile.Requested:    "an operator asked for another run",
	}[c.Kind]
	if text == "" {
		text = "it waits" + last
	}
	return reasonRow{string(c.Kind), text}
}

func (f *issueFacts) whyUnclaimed(plan forecast) reasonRow {
	switch {
	case f.cfgErr != nil:
		return f.whyBroken()
	case plan.reason != "":
		return reasonRow{plan.reason, inWords(plan.reason, plan.message)}
	case plan.starts:
		return reasonRow{"eligible", "nothing keeps it from running"}
	case f.skip != nil:
		return reasonRow{f.skip.Reason, inWords(f.skip.Reason, f.skip.Message) + " (at the last pass)"}
	}
	return reasonRow{"unclaimed", "the last pass found nothing to do for it; how it stands now only the tracker knows"}
}

// whyBroken says that the workflow keeps every issue.
func (f *issueFacts) whyBroken() reasonRow {
	return reasonRow{exit.From(f.cfgErr).Code, "nothing is started before the workflow is right: " + exit.From(f.cfgErr).Message}
}

// inWords is a skip as a sentence about one issue.
func inWords(reason, message string) string {
	switch reason {
	case reconcile.SkipNoSlot, reconcile.SkipNoSlotInState:
		return "no slot: " + message
	case reconcile.SkipLabel, reconcile.SkipAssignee:
		return "it " + message
	case reconcile.SkipPaused:
		return "the project is paused"
	}
	return message
}

// next says what happens next, and when, where that is a matter of time.
func (f *issueFacts) next(why reasonRow, plan forecast) nextRow {
	switch c := f.claim; {
	case f.pending() != "":
		return f.atPass("the next pass takes up " + f.pending())
	case c != nil && c.Status == reconcile.Held:
		return nextRow{Message: f.endsHold()}
	case why.Code == "asks":
		return nextRow{Message: HowToAnswer(f.requests[0]), At: timeOrNull(f.requests[0].ExpiresAt)}
	case why.Code == "ended" || why.Code == "worker_lost":
		return f.atPass("the next pass settles the run")
	case c != nil && c.Status == reconcile.Running && c.HoldNext:
		return nextRow{Message: "when the run has ended, a pass holds the issue"}
	case c != nil && c.Status == reconcile.Running:
		return nextRow{Message: "when the run has ended, a pass continues, retries, holds or releases the issue"}
	case f.cfgErr != nil:
		return nextRow{Message: "correct the workflow: " + exit.From(f.cfgErr).Message}
	case f.rec.TrackerBlock != nil && f.source != "tracker":
		return nextRow{Message: "nothing is started before the tracker answers: " + f.rec.TrackerBlock.Code, At: timeOrNull(f.rec.TrackerBlock.NextTry)}
	case plan.starts:
		return f.starts()
	}
	return f.unblocks(cmp.Or(plan.reason, why.Code), plan)
}

// pending names what an operator wants and no pass has taken up.
func (f *issueFacts) pending() string {
	for _, c := range f.rec.Commands {
		if c.IssueID == f.id {
			return "the command " + string(c.Verb)
		}
	}
	return ""
}

// endsHold is what ends the hold.
func (f *issueFacts) endsHold() string { return "nothing by itself: " + f.claim.HoldEnds() }

// starts says which pass starts the issue.
func (f *issueFacts) starts() nextRow {
	line := f.thePass() + " starts it"
	if f.claim != nil && f.claim.Attempt > 0 {
		line += fmt.Sprintf(", as attempt %d", f.claim.Attempt)
	}
	if f.rivals > 0 {
		line += fmt.Sprintf(", if a slot is left: %s due too", text.Plural(f.rivals, "other issue"))
	}
	return f.atPass(line)
}

// unblocks says what has to change first.
func (f *issueFacts) unblocks(code string, plan forecast) nextRow {
	slug, active := "", []string(nil)
	if f.cfg != nil {
		slug, active = f.cfg.Tracker.ProjectSlug, f.cfg.Tracker.ActiveStates
	}
	switch code {
	case reconcile.SkipBlockedBy:
		return nextRow{Message: "a pass starts it once what blocks it is done"}
	case reconcile.SkipNoSlot, reconcile.SkipNoSlotInState:
		if plan.full {
			return nextRow{Message: "a pass starts it once a slot of the account is free and its turn has come"}
		}
		return nextRow{Message: "a pass starts it once a slot is free and its turn has come; symphony run " + f.identifier + " starts it now"}
	case reconcile.SkipLabel:
		return nextRow{Message: "a pass starts it once it has the label"}
	case reconcile.SkipAssignee:
		return nextRow{Message: "a pass starts it once it is assigned so"}
	case reconcile.SkipPaused:
		return nextRow{Message: "nothing before symphony resume"}
	case reconcile.SkipBlocked:
		return f.whenUnblocked()
	case reconcile.SkipRateLimited:
		return f.whenFilledUp(plan.limit)
	case reconcile.SkipDiskLow:
		return nextRow{Message: "a pass starts it once there is space; symphony ps has what else is wrong"}
	case "not_active":
		return nextRow{Message: "a pass starts it once its state is " + strings.Join(active, " or ")}
	case "other_project":
		return nextRow{Message: "a pass starts it once it is in the project " + slug}
	case "terminal", "archived":
		return nextRow{Message: "nothing: it is done with"}
	}
	done, _, _ := strings.Cut(code, "_")
	switch pass := f.thePass(); done {
	case string(reconcile.ActHold):
		return f.atPass(pass + " holds it: " + plan.message)
	case string(reconcile.ActRelease):
		return f.atPass(pass + " lets it go")
	}
	return f.atPass("the next pass looks at it")
}

// thePass is the one that comes when the issue is due.
func (f *issueFacts) thePass() string {
	if f.due().After(f.now) {
		return "the first pass after it is due"
	}
	return "the next pass"
}

// whenFilledUp is when an allowance is there again: codex's, where a limit is given, else the tracker's.
func (f *issueFacts) whenFilledUp(limit *reconcile.Limit) nextRow {
	if limit != nil {
		return nextRow{Message: "a pass starts it once codex's limit has ended", At: timeOrNull(latest(limit.Until, f.due()))}
	}
	if !f.low.After(f.now) { // what the last pass knew is all there is
		return nextRow{Message: "a pass starts it once the allowance has filled up"}
	}
	return nextRow{Message: "a pass starts it once the tracker's allowance has filled up", At: timeOrNull(latest(f.low, f.due()))}
}

// whenUnblocked is when the machine or the agent is tried again.
func (f *issueFacts) whenUnblocked() nextRow {
	row := nextRow{Message: "a pass tries again; symphony ps says what is wrong"}
	if f.block != nil {
		row.At = timeOrNull(f.block.NextTry)
	}
	return row
}

// due is when a claim that waits may go on, the zero time for all others.
func (f *issueFacts) due() time.Time {
	if f.claim == nil || f.claim.Status != reconcile.Waiting {
		return time.Time{}
	}
	return f.claim.DueAt
}

// atPass says when that pass comes; without a schedule not before somebody runs it.
func (f *issueFacts) atPass(text string) nextRow {
	row := nextRow{Message: text, NeedsPass: true}
	if !f.schedule {
		if due := f.due(); due.After(f.now) {
			row.At = timeOrNull(due)
		}
		return row
	}
	at := f.now
	if gap, known := project.UsualGap(f.passes); known {
		at = f.passes[0].StartedAt.Add(gap)
	}
	row.At = timeOrNull(latest(latest(at, f.due()), f.now))
	return row
}
