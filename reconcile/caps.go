package reconcile

import (
	"fmt"
	"time"
)

// The reasons of a hold.
const (
	HoldOperator    = "operator"
	HoldMaxFailures = "max_failures"
	HoldMaxIdleRuns = "max_idle_runs"
	HoldMaxRuns     = "max_runs"
	HoldMaxTokens   = CodeMaxTokens
	HoldInterrupted = "interrupted"
	HoldLeftover    = codeLeftover
)

// maxInterruptions in a row hold an issue.
const maxInterruptions = 3

// caps holds waiting claims that have reached a limit. It comes after the refresh, because a claim whose
// issue has moved on is released, not held.
func (p *planner) caps() {
	for _, c := range p.byAge() {
		if c.Status != Waiting || !p.eligible[c.IssueID] {
			continue
		}
		if reason, message := p.cap(*c); reason != "" {
			next := p.hold(*c, reason, message)
			p.act(ActHold, next, reason, message+"; "+next.HoldEnds(), p.put(next))
			delete(p.eligible, c.IssueID)
		}
	}
}

// cap says which limit a claim has reached; empty for none.
func (p *planner) cap(c Claim) (reason, message string) {
	used := p.s.Tokens[c.IssueID] - c.TokenBase
	switch pol := p.s.Policy; {
	case pol.MaxFailures > 0 && c.Failures >= pol.MaxFailures:
		message = fmt.Sprintf("%s in a row failed, the last with %s: %s", runs(c.Failures), c.ErrorCode, c.ErrorMessage)
		return HoldMaxFailures, message
	case c.Interruptions >= maxInterruptions:
		message = fmt.Sprintf("interrupted %d times in a row before a turn was done: see what ends the workers", c.Interruptions)
		return HoldInterrupted, message
	case pol.MaxIdleRuns > 0 && c.IdleRuns >= pol.MaxIdleRuns:
		return HoldMaxIdleRuns, runs(c.IdleRuns) + " in a row changed nothing"
	case pol.MaxRuns > 0 && c.Runs >= pol.MaxRuns:
		return HoldMaxRuns, runs(c.Runs) + " since the issue last changed"
	case pol.MaxTokens > 0 && used >= pol.MaxTokens:
		return HoldMaxTokens, fmt.Sprintf("%d tokens used", used)
	}
	return "", ""
}

// HoldEnds says what ends the hold of a claim.
func (c Claim) HoldEnds() string {
	retry := "symphony retry " + c.Identifier
	switch c.HoldReason {
	case HoldOperator:
		return retry + " ends the hold"
	case HoldLeftover:
		return "end the process, then " + retry
	}
	return retry + ", a comment, or moving it away and back ends the hold"
}

// HoldText says why a claim is held and what ends the hold.
func (c Claim) HoldText() string {
	if c.HoldMessage == "" {
		return c.HoldEnds()
	}
	return c.HoldMessage + "; " + c.HoldEnds()
}

func runs(n int) string {
	if n == 1 {
		return "1 run"
	}
	return fmt.Sprintf("%d runs", n)
}

// hold makes a claim that waits for an operator or a change of the issue.
func (p *planner) hold(c Claim, reason, message string) Claim {
	c.Status, c.HoldReason, c.HoldMessage, c.HeldAt = Held, reason, message, p.s.Now
	c.HoldNext = false
	c.HoldCommentAt = time.Time{}
	if at := c.Issue.LastCommentAt; at != nil {
		c.HoldCommentAt = *at
	}
	return c
}

// freshStart clears all that held a claim back.
func (p *planner) freshStart(c Claim, kind RetryKind) Claim {
	c.Status, c.Kind, c.DueAt = Waiting, kind, p.s.Now
	c.Attempt = min(c.Attempt, 1)
	c.Failures, c.IdleRuns, c.Runs, c.Interruptions = 0, 0, 0, 0
	c.TokenBase = p.s.Tokens[c.IssueID]
	c.HoldReason, c.HoldMessage, c.HoldNext = "", "", false
	c.HeldAt, c.HoldCommentAt = time.Time{}, time.Time{}
	c.ErrorCode, c.ErrorMessage = "", ""
	return c
}
