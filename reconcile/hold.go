package reconcile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The reasons of a hold.
const (
	HoldOperator    = "operator"
	HoldMaxFailures = "max_failures"
	HoldMaxIdleRuns = "max_idle_runs"
	HoldMaxRuns     = "max_runs"
	HoldMaxTokens   = "max_tokens"
	HoldInterrupted = "interrupted"
	HoldLeftover    = "leftover_process"
	HoldHostLost    = "host_lost"
	// the engine of its host names a reason that waiting does not end
	HoldNeverStarts = "never_starts"
	// HoldVerifyFailed: verify failed in as many rounds as the workflow allows, or twice for
	// the same commit.
	HoldVerifyFailed = "verify_failed"
	// HoldRefused: hand_over, or the delivery of a run, was refused several times in a row for
	// the same reason, and nothing changed meanwhile.
	HoldRefused = "hand_over_refused"
	// HoldPolicy: the provider of the model refuses the work by its rules, as it would again.
	HoldPolicy = "agent_policy"
	// HoldNeedsHelp: the agent handed its issue over because it needs a person. The message is
	// the agent's words.
	HoldNeedsHelp = "needs_help"
	// These are of an issue that was handed over with a pull request.
	HoldPullClosed     = "pull_request_closed"
	HoldFeedbackRounds = "feedback_rounds"
)

// holdRule describes a hold. A reason without a row is ended by an operator, a comment or a
// move of its issue away and back. A limit of the workflow also needs a case in reachedCap, a
// field in Policy and a key.
type holdRule struct {
	// afterRun is the next step of operators if a run ends with the reason as its error code,
	// which then begins the hold. Empty: no run begins it. The tables of errors have the step
	// from here, with ISSUE for the identifier of the issue.
	afterRun      string
	uncounted     bool   // the run does not count against the issue
	ends          string // how it ends
	staysInactive bool   // it goes on while its issue is not active
	// staysThere: it goes on only as long as its issue stays in the state in which it is not
	// active. A person who moves it on needs no agent.
	staysThere      bool
	moveEnds        bool // an active issue ends it: a person moved it
	ignoresComments bool // comments do not end it
}

var holdRules = map[string]holdRule{
	HoldOperator: {
		ends:            "symphony retry ISSUE ends the hold",
		staysInactive:   true,
		ignoresComments: true,
	},
	CodeDeliveryRefused: {
		ends: "symphony tell ISSUE TEXT, or symphony retry ISSUE, lets its agent correct it",
	},
	CodeBaseReplaced: {
		ends: "symphony tell ISSUE TEXT, or symphony retry ISSUE, lets its agent put its commits on the new base; " +
			"symphony retry --unverified ISSUE delivers them as they are",
	},
	HoldLeftover: {ends: "end the process, then symphony retry ISSUE"},
	HoldHostLost: {
		ends: "the answer of its host ends the hold; if the host is gone for good: symphony retry --host-is-gone ISSUE",
	},
	HoldNeverStarts: {
		afterRun: "correct what the engine names in `worker.engine`, or let the administrator of the " +
			"cluster do so; then " +
			"`symphony retry ISSUE`",
		uncounted: true,
	},
	HoldVerifyFailed: {
		afterRun: "read the output in `symphony show ISSUE`; correct the cause and `symphony retry " +
			"ISSUE`, which runs it again, tell an agent what to do with `symphony tell ISSUE TEXT`, or hand the issue " +
			"over as it is: `symphony retry --unverified ISSUE`",
	},
	HoldRefused: {
		afterRun: "correct what the message names, for example settings, hooks or ignore rules of git that let no " +
			"commit succeed; then " +
			"`symphony retry ISSUE`, which lets an agent go on",
	},
	CodeWorkspaceForeign: {
		afterRun: "give each project its own `workspace.root`: the directory belongs to another issue or " +
			"project; then `symphony retry ISSUE`",
		uncounted: true,
	},
	HoldPolicy: {
		afterRun: "the provider of the model refuses this work by its rules: change the issue or the " +
			"prompt and start a new conversation " +
			"with `symphony retry --fresh ISSUE`, or do the work yourself",
	},
	HoldNeedsHelp: {
		ends: "symphony tell ISSUE TEXT answers its agent; so does a comment on it, " +
			"or moving it to an active state",
		staysInactive: true,
		staysThere:    true,
		moveEnds:      true,
	},
	HoldPullClosed:     pullHold,
	HoldFeedbackRounds: pullHold,
}

var pullHold = holdRule{
	ends:            "symphony retry ISSUE ends the hold; so does moving the issue to an active state",
	staysInactive:   true,
	moveEnds:        true,
	ignoresComments: true,
}

// HoldStep returns the next step of operators if a run that ends with a code puts its issue on
// hold, otherwise "".
func HoldStep(code string) string { return holdRules[code].afterRun }

// HoldCodes returns the codes for which HoldStep returns a step, sorted.
func HoldCodes() []string {
	return slices.DeleteFunc(
		slices.Sorted(maps.Keys(holdRules)),
		func(code string) bool { return HoldStep(code) == "" },
	)
}

// CommentEnds reports whether a new comment ends a hold.
func CommentEnds(reason string) bool { return !holdRules[reason].ignoresComments }

// HoldEnds returns how the hold of a claim ends.
func (c Claim) HoldEnds() string {
	ends := cmp.Or(holdRules[c.HoldReason].ends,
		"symphony retry ISSUE ends the hold; so does a new comment, or moving the issue away and back")
	return strings.ReplaceAll(ends, "ISSUE", c.Identifier)
}

// stays reports whether a hold goes on, with which no agent may work on its issue as the
// tracker describes it now.
func (c Claim) stays(issue Issue, reason string) bool {
	rule := holdRules[c.HoldReason]
	if c.Status == Held && reason == StopStates { // the hold is about the issue, which did not move
		return true
	}
	if c.Status != Held || !rule.staysInactive || reason == StopTerminal {
		return false
	}
	there := reason == StopInactive && !issue.Archived && SameState(issue.State, c.Issue.State)
	return !rule.staysThere || there
}

// releaseReason is the reason for the release of a claim with whose issue no agent may go on
// for a reason. A person who moves on an issue whose agent needed help ended the work on it.
func (c Claim) releaseReason(stop string) string {
	finished := stop == StopTerminal || stop == StopInactive
	if finished && c.Status == Held && c.HoldReason == HoldNeedsHelp {
		return ReleasedByPerson
	}
	return stop
}

// SentBack reports whether someone answered the agent by a comment, while the issue is where
// its agent has handed it over. It is to be moved to an active state, which ends the hold.
func (c Claim) SentBack() bool {
	return c.Status == Held && c.HoldReason == HoldNeedsHelp && c.Issue.CommentedAfter(c.HoldCommentAt)
}

// BackState is the state to which issues are moved that go back to an agent: feedback.state
// or, without it, the first active state; empty if there is none.
func (p Policy) BackState(f Feedback) string {
	if f.State != "" {
		return f.State
	}
	if len(p.ActiveStates) == 0 {
		return ""
	}
	return p.ActiveStates[0]
}

// DoneState is the state to which issues are moved whose result was taken: feedback.merged_state;
// without it Done, if that is a terminal state, or else the first of these. It is empty if there is
// none.
func (p Policy) DoneState(f Feedback) string {
	if f.MergedState != "" {
		return f.MergedState
	}
	for _, state := range p.TerminalStates {
		if SameState(state, "Done") {
			return state
		}
	}
	if len(p.TerminalStates) == 0 {
		return ""
	}
	return p.TerminalStates[0]
}

// HoldText returns why a claim is held and how the hold ends.
func (c Claim) HoldText() string {
	line := c.HoldEnds()
	if c.HoldMessage != "" {
		line = c.HoldMessage + "; " + line
	}
	if c.Delivery.Due {
		line += "; its work is not delivered"
	}
	return line
}

// hold returns the claim held, until an operator, a comment or a change of the issue ends the
// hold.
func (s *Snapshot) hold(c Claim, reason, message string) Claim {
	c.Status = Held
	c.HoldReason = reason
	c.HoldMessage = message
	c.HeldAt = s.Now
	c.HoldNext = false
	c.Wanted = false
	c.HoldCommentAt = time.Time{}
	if at := c.Issue.LastCommentAt; at != nil {
		c.HoldCommentAt = *at
	}
	return c
}

// holdForHelp returns the claim held until a person answers its agent.
func (s *Snapshot) holdForHelp(c Claim) Claim {
	next := s.hold(c, HoldNeedsHelp, c.Delivery.Handover.Blocked)
	// a person may have answered before this pass
	if since := c.Delivery.Handover.AnsweredAfter(); !since.IsZero() {
		next.HoldCommentAt = since
	}
	return next
}

// holdByOperator returns the claim held for an operator.
func (s *Snapshot) holdByOperator(c Claim) Claim {
	return s.hold(c, HoldOperator, "held by an operator")
}

// HeldClaim returns a new claim that holds an issue which was handed over.
func HeldClaim(issue Issue, project, reason, message string, now time.Time) Claim {
	c := Claim{
		IssueID:    issue.ID,
		Identifier: issue.Identifier,
		Issue:      issue,
		Project:    project,
		ClaimedAt:  now,
		UpdatedAt:  now,
	}
	return (&Snapshot{Now: now}).hold(c, reason, message)
}

// maxInterruptions is how many interruptions in a row hold an issue.
const maxInterruptions = 3

// caps puts waiting claims on hold if they have reached a limit. The refresh comes first: it
// releases claims whose issue is no longer active, and they must not be held.
func (p *planner) caps() {
	for _, c := range p.byAge() {
		if c.Status != Waiting || !p.eligible[c.IssueID] {
			continue
		}
		if reason, message := p.s.reachedCap(*c); reason != "" {
			if v := c.Delivery.Refusal; v != nil { // why the runs before it did not end
				message += "; " + strings.ReplaceAll(v.String(), "`", "")
			}
			next := p.s.hold(*c, reason, message)
			p.act(ActHold, next, reason, message+"; "+next.HoldEnds(), p.put(next))
			delete(p.eligible, c.IssueID)
		}
	}
}

// reachedCap returns the limit that a claim reached, as the reason of a hold; empty for none.
func (s *Snapshot) reachedCap(c Claim) (reason, message string) {
	used := s.Tokens[c.IssueID] - c.TokenBase
	pol := s.Policy
	switch {
	case pol.MaxFailures > 0 && c.Failures >= pol.MaxFailures:
		message = fmt.Sprintf(
			"%s in a row failed, the last with %s: %s",
			runs(c.Failures),
			c.ErrorCode,
			c.ErrorMessage,
		)
		return HoldMaxFailures, message
	case c.Interruptions >= maxInterruptions:
		message = fmt.Sprintf(
			"interrupted %d times in a row before a turn completed: find out what ends the workers",
			c.Interruptions,
		)
		return HoldInterrupted, message
	case pol.MaxIdleRuns > 0 && c.IdleRuns >= pol.MaxIdleRuns:
		idle := runs(c.IdleRuns) + " in a row"
		if c.ErrorMessage != "" {
			return HoldMaxIdleRuns, c.ErrorMessage + " (" + idle + ")"
		}
		return HoldMaxIdleRuns, idle + " changed nothing"
	case pol.MaxRuns > 0 && c.Runs >= pol.MaxRuns:
		return HoldMaxRuns, runs(c.Runs) + " since the issue last changed"
	case pol.MaxTokens > 0 && used >= pol.MaxTokens:
		message = fmt.Sprintf("%d tokens used, agent.max_tokens is %d", used, pol.MaxTokens)
		return HoldMaxTokens, message
	}
	return "", ""
}

func runs(n int) string {
	if n == 1 {
		return "1 run"
	}
	return fmt.Sprintf("%d runs", n)
}
