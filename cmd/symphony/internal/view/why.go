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

// Why says why the issue runs or does not: a code for programs and a sentence for people.
type Why struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Next is what happens next. At is null where it does not depend on time alone.
type Next struct {
	Message   string     `json:"message"`
	At        *time.Time `json:"at"`
	NeedsPass bool       `json:"needs_pass"` // only a pass brings it about
}

// Codes of Why that are neither a skip's reason nor a fault's code.
const (
	whyRunning    = "running"
	whyEnded      = "ended"
	whyWorkerLost = "worker_lost"
	whyStopping   = "stopping"
	whyAsks       = "asks"
	whyHeld       = "held"
	whyEligible   = "eligible"
	whyUnclaimed  = "unclaimed"
)

func (r *issueReader) why(f forecast) Why {
	switch c := r.claim; {
	case c == nil:
		return r.whyUnclaimed(f)
	case c.Status == reconcile.Running:
		return r.whyRunning()
	case c.Status == reconcile.Held:
		return r.whyHeld()
	}
	return r.whyWaiting(f)
}

func (r *issueReader) whyRunning() Why {
	after := ""
	if r.claim.HoldNext {
		after = "; it is held when this run has ended"
	}
	run := r.currentRun()
	switch {
	case run == nil:
		return Why{whyRunning, "its run has just been started" + after}
	case run.Outcome != "":
		return Why{whyEnded, fmt.Sprintf("its run has ended (%s), and no pass has settled it yet", run.Outcome)}
	case project.WorkerDead(r.p, *run):
		return Why{whyWorkerLost, "the worker of its run is gone, and no pass has noticed yet"}
	case run.StopReason != "":
		return Why{whyStopping, "its run is asked to end: " + run.StopReason}
	case len(r.requests) > 0:
		ids := make([]string, 0, len(r.requests))
		for _, request := range r.requests {
			ids = append(ids, request.ID())
		}
		return Why{whyAsks, "its run waits for an answer: " + strings.Join(ids, ", ")}
	}
	phase := strings.ReplaceAll(string(run.Phase), "_", " ")
	return Why{whyRunning, fmt.Sprintf("it runs: %s, turn %d%s", phase, run.Turns, after)}
}

// currentRun is the claim's run, nil where it is not among the latest.
func (r *issueReader) currentRun() *reconcile.Run {
	for i := range r.runs {
		if r.runs[i].ID == r.claim.RunID {
			return &r.runs[i]
		}
	}
	return nil
}

func (r *issueReader) whyHeld() Why {
	c := r.claim
	message := "held by an operator"
	stopped := c.ErrorCode == reconcile.StopOperator || c.ErrorCode == reconcile.StopAll
	if c.HoldReason != reconcile.HoldOperator {
		message = "held: " + c.HoldReason
		if c.HoldMessage != "" {
			message += ", " + c.HoldMessage
		}
	}
	switch last := project.ErrorText(c.ErrorCode, c.ErrorMessage); {
	case last == nil:
	case c.HoldReason == reconcile.HoldMaxFailures: // HoldMessage has the last error
	case c.HoldReason == reconcile.HoldOperator && stopped: // the operator's own stop is no news
	default:
		message += ", last error " + *last
	}
	return Why{whyHeld, message}
}

// whyWaiting explains a waiting claim by its last run until it is due, then by the planner.
func (r *issueReader) whyWaiting(f forecast) Why {
	c := r.claim
	due := !c.DueAt.After(r.now)
	switch {
	case due && r.cfgErr != nil:
		return r.whyInvalid()
	case due && r.recorded.TrackerBlock != nil:
		return Why{r.recorded.TrackerBlock.Code, "no run starts until the tracker answers: " + r.recorded.TrackerBlock.Message}
	case f.reason != "" && (due || f.reason == reconcile.SkipPaused):
		return f.why()
	}
	last := ""
	if e := project.ErrorText(c.ErrorCode, c.ErrorMessage); e != nil {
		last = ": " + *e
	}
	message := map[reconcile.RetryKind]string{
		reconcile.Continuation: "its last run succeeded, and the issue is still active",
		reconcile.Backoff:      "its last run failed" + last,
		reconcile.Interrupted:  "its last run was ended from outside" + last,
		reconcile.Blocked:      "its last run met a fault of the machine, the tracker or the account" + last,
		reconcile.NoSlot:       "no slot was free at the last pass",
		reconcile.Requested:    "an operator asked for another run",
	}[c.Kind]
	return Why{string(c.Kind), cmp.Or(message, "it waits"+last)}
}

func (r *issueReader) whyUnclaimed(f forecast) Why {
	switch {
	case r.cfgErr != nil:
		return r.whyInvalid()
	case f.reason != "":
		return f.why()
	case f.starts:
		return Why{whyEligible, "it can start"}
	case r.skip != nil:
		return Why{r.skip.Reason, skipSentence(r.skip.Reason, r.skip.Message) + " (at the last pass)"}
	}
	return Why{whyUnclaimed, "the last pass had nothing to do for it; only the tracker knows its present state"}
}

func (r *issueReader) whyInvalid() Why {
	fault := exit.From(r.cfgErr)
	return Why{fault.Code, "no run starts until the workflow is valid: " + fault.Message}
}

func (f forecast) why() Why {
	if f.hold != nil {
		return Why{f.reason, f.hold.HoldMessage}
	}
	return Why{f.reason, skipSentence(f.reason, f.message)}
}

// skipSentence makes a sentence about the issue of a skip's message.
func skipSentence(reason, message string) string {
	switch reason {
	case reconcile.SkipBlockedBy, reconcile.SkipLabel, reconcile.SkipAssignee:
		return "it " + message
	case reconcile.SkipNoSlot, reconcile.SkipNoSlotInState:
		return "no slot: " + message
	case reconcile.SkipPaused:
		return "the project is paused"
	}
	return message
}

func (r *issueReader) next(why Why, f forecast) Next {
	command := ""
	for _, c := range r.recorded.Commands {
		if c.IssueID == r.id && command == "" {
			command = string(c.Verb)
		}
	}
	switch c := r.claim; {
	case command != "":
		return r.atPass("the next pass carries out the command " + command)
	case c != nil && c.Status == reconcile.Held:
		return Next{Message: c.HoldEnds()}
	case why.Code == whyAsks:
		return Next{Message: HowToAnswer(r.requests[0]), At: timeOrNull(r.requests[0].ExpiresAt)}
	case why.Code == whyEnded, why.Code == whyWorkerLost:
		return r.atPass("the next pass settles the run")
	case c != nil && c.Status == reconcile.Running && c.HoldNext:
		return Next{Message: "when the run has ended, a pass holds the issue"}
	case c != nil && c.Status == reconcile.Running:
		return Next{Message: "when the run has ended, a pass continues, retries, holds or releases the issue"}
	case r.cfgErr != nil:
		return Next{Message: "correct the workflow: " + exit.From(r.cfgErr).Message}
	case r.recorded.TrackerBlock != nil && r.source != SourceTracker:
		b := r.recorded.TrackerBlock
		return Next{Message: "no run starts until the tracker answers: " + b.Code, At: timeOrNull(b.NextTry)}
	case f.starts:
		return r.nextStart()
	case f.hold != nil:
		return r.atPass(r.nextPass() + " holds it: " + f.hold.HoldMessage)
	case f.releases:
		return r.atPass(r.nextPass() + " releases it")
	}
	return r.nextChange(cmp.Or(f.reason, why.Code), f)
}

// nextStart names the pass that starts the issue.
func (r *issueReader) nextStart() Next {
	message := r.nextPass() + " starts it"
	if r.claim != nil && r.claim.Attempt > 0 {
		message += fmt.Sprintf(", as attempt %d", r.claim.Attempt)
	}
	if r.rivals > 0 {
		message += fmt.Sprintf(", if a slot is left: %s due too", text.Plural(r.rivals, "other issue"))
	}
	return r.atPass(message)
}

// nextChange says what has to change before a pass starts the issue.
func (r *issueReader) nextChange(code string, f forecast) Next {
	slug, active := "", ""
	if r.cfg != nil {
		slug, active = r.cfg.Tracker.ProjectSlug, strings.Join(r.cfg.Policy.ActiveStates, " or ")
	}
	switch code {
	case reconcile.SkipBlockedBy:
		return Next{Message: "a pass starts it once those issues are done"}
	case reconcile.SkipNoSlot, reconcile.SkipNoSlotInState:
		if f.accountFull {
			return Next{Message: "a pass starts it once a slot of the account is free and its turn has come"}
		}
		return Next{Message: "a pass starts it once a slot is free and its turn has come; symphony run " + r.identifier + " starts it now"}
	case reconcile.SkipLabel:
		return Next{Message: "a pass starts it once it has the label"}
	case reconcile.SkipAssignee:
		return Next{Message: "a pass starts it once it is assigned so"}
	case reconcile.SkipPaused:
		return Next{Message: "a pass starts it after symphony resume"}
	case reconcile.SkipDiskLow:
		return Next{Message: "a pass starts it once there is space; symphony ps shows other obstacles"}
	case reconcile.SkipBlocked:
		next := Next{Message: "a pass tries again; symphony ps says what is wrong"}
		if r.block != nil {
			next.At = timeOrNull(r.block.NextTry)
		}
		return next
	case reconcile.SkipRateLimited:
		return r.nextAllowance(f.limit)
	case outsideInactive:
		return Next{Message: "a pass starts it once its state is " + active}
	case outsideProject:
		return Next{Message: "a pass starts it once it is in the project " + slug}
	case outsideTerminal, outsideArchived:
		return Next{Message: "nothing: symphony does not run such an issue"}
	}
	return r.atPass("the next pass looks at it")
}

// nextAllowance is when an allowance is there again: codex's, if that is the limit, otherwise the tracker's.
func (r *issueReader) nextAllowance(limit *reconcile.Limit) Next {
	switch {
	case limit != nil:
		return Next{Message: "a pass starts it once codex's limit has ended", At: timeOrNull(latest(limit.Until, r.due()))}
	case r.low.After(r.now):
		return Next{Message: "a pass starts it once the tracker's allowance has filled up", At: timeOrNull(latest(r.low, r.due()))}
	}
	return Next{Message: "a pass starts it once the allowance has filled up"} // it was low at the last pass
}

func (r *issueReader) nextPass() string {
	if r.due().After(r.now) {
		return "the first pass after it is due"
	}
	return "the next pass"
}

// atPass adds when that pass is expected. Without a schedule that is known only for a claim that is not due yet.
func (r *issueReader) atPass(message string) Next {
	at := r.due()
	if r.schedule {
		at = latest(at, r.now)
		if gap, known := project.UsualGap(r.passes); known {
			at = latest(at, r.passes[0].StartedAt.Add(gap))
		}
	} else if !at.After(r.now) {
		at = time.Time{}
	}
	return Next{Message: message, At: timeOrNull(at), NeedsPass: true}
}
