package reconcile

import "fmt"

// maxInterruptions is how many interruptions in a row hold an issue.
const maxInterruptions = 3

// caps holds the waiting claims that have reached a limit. It comes after the refresh, because a claim whose issue is no longer
// active is released, not held.
func (p *planner) caps() {
	for _, c := range p.byAge() {
		if c.Status != Waiting || !p.eligible[c.IssueID] {
			continue
		}
		if reason, message := p.s.reachedCap(*c); reason != "" {
			next := p.s.hold(*c, reason, message)
			p.act(ActHold, next, reason, message+"; "+next.HoldEnds(), p.put(next))
			delete(p.eligible, c.IssueID)
		}
	}
}

// reachedCap returns the limit that a claim has reached, as the reason of a hold; empty for none.
func (s *Snapshot) reachedCap(c Claim) (reason, message string) {
	used := s.Tokens[c.IssueID] - c.TokenBase
	switch pol := s.Policy; {
	case pol.MaxFailures > 0 && c.Failures >= pol.MaxFailures:
		message = fmt.Sprintf("%s in a row failed, the last with %s: %s", runs(c.Failures), c.ErrorCode, c.ErrorMessage)
		return HoldMaxFailures, message
	case c.Interruptions >= maxInterruptions:
		message = fmt.Sprintf("interrupted %d times in a row before a turn completed: find out what ends the workers", c.Interruptions)
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

func runs(n int) string {
	if n == 1 {
		return "1 run"
	}
	return fmt.Sprintf("%d runs", n)
}
