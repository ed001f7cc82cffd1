package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/agenttool"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// settlement decides after a turn whether the agent gets another.
type settlement struct {
	*parts
	agent     *issueAgent
	issue     *issueReader
	handovers *handovers
	pushes    *otherPushes
	verifier  *verifier
	news      *turnNews

	// refused is how verify failed last in this run; the zero value if it did not.
	refused reconcile.Verification
	// toldElsewhere: the agent was told in this run of commits that are not on its branch.
	toldElsewhere bool
}

// settle reports whether the agent gets another turn. turnErr is the error of the turn that
// ended.
func (s *settlement) settle(ctx context.Context, turn int, turnErr error) (more bool, err error) {
	if end := s.handovers.hopeless(); end != nil && ctx.Err() == nil {
		return false, end
	}
	if turnErr != nil {
		return false, s.agent.process.explain(ctx, turnErr)
	}
	more, err = s.wantsMore(ctx, turn)
	if more || err != nil {
		return more, err
	}
	return s.returnForDelivery(ctx, turn)
}

// wantsMore reports whether the issue needs another turn. A stop after a completed turn does
// not undo it: the run succeeds.
func (s *settlement) wantsMore(ctx context.Context, turn int) (bool, error) {
	wish := s.rec.get().Delivery.Handover
	if wish.Waits() && ctx.Err() == nil {
		more, err := s.takeHandover(ctx, *wish)
		if !more || err != nil {
			return false, err
		}
	}
	if ctx.Err() != nil || s.rec.overBudget.Load() {
		return false, nil //nolint:nilerr // see above
	}
	err := s.issue.refreshPatiently(ctx)
	if ctx.Err() != nil {
		return false, nil //nolint:nilerr // see above
	}
	var moved runEnd
	if errors.As(err, &moved) && moved.outcome == reconcile.Canceled {
		s.Log.Info("the issue needs no further turn", "reason", moved.code)
		return false, nil // usually it was handed over: the run succeeds
	}
	return turn < s.site.Config.MaxTurns, err
}

// takeHandover decides about the agent's handover. It reports whether the agent must go on. If
// that can't be found out, for instance because the run is stopped, the handover stays: it is
// part of the delivery.
func (s *settlement) takeHandover(ctx context.Context, wish reconcile.Handover) (more bool, err error) {
	if wish.Blocked == "" {
		err = s.handovers.checkWork(ctx, &wish)
	}
	if agenttool.IsRefusal(err) {
		// the agent is told when it hands over again
		s.Log.Info("not handed over", "why", err)
		s.rec.change(func(r *reconcile.Run) { r.Delivery.Handover = nil })
		if s.handovers.countRefusal(ctx, "hand_over", err) {
			return false, s.handovers.hopeless()
		}
		return true, nil
	}
	if err != nil && ctx.Err() != nil {
		return false, nil //nolint:nilerr // a stop after a completed turn does not undo it
	}
	if err != nil {
		return false, fmt.Errorf("look at the work that is handed over: %w", err)
	}
	if s.pushes.returnForMerge(ctx, wish) {
		return true, nil
	}
	if wish.NeedsVerify("") {
		return s.verifyHandover(ctx, wish)
	}
	s.Log.Info("the agent hands the issue over")
	return false, nil
}

// returnForDelivery reports whether the agent must go on after its last turn, because a clone
// of its commits would lack files. The agent learns that in its next turn. With a state for
// handovers hand_over already told it.
func (s *settlement) returnForDelivery(ctx context.Context, turn int) (more bool, err error) {
	if s.site.Config.Handoff.State != "" || s.rec.overBudget.Load() || ctx.Err() != nil {
		return false, nil //nolint:nilerr // a stop after a completed turn does not undo it
	}
	refusal := s.handovers.tryDelivery(ctx, nil)
	if refusal == nil && !s.toldElsewhere {
		refusal = s.handovers.lookElsewhere(ctx)
		s.toldElsewhere = refusal != nil // the agent can't say that it is meant
	}
	if refusal == nil {
		return false, nil
	}
	if s.handovers.countRefusal(ctx, "the delivery", refusal) {
		return false, s.handovers.hopeless()
	}
	if turn >= s.site.Config.MaxTurns || s.closedByOthers(ctx) {
		return false, nil
	}
	s.rec.waitForCorrection(ctx)
	_, s.news.undelivered = codeOf(refusal)
	s.Log.Info("not delivered", "why", s.news.undelivered)
	return true, nil
}

// closedByOthers reports whether the issue is, or may be, in a terminal state that its agent
// did not set: then the agent gets no further turn.
func (s *settlement) closedByOthers(ctx context.Context) bool {
	issue, _, err := s.issue.read(ctx)
	if err != nil {
		warn(s.Log, "issue not read", err)
		return true
	}
	own := s.rec.get().MovedTo
	closed := s.site.Config.Policy.Terminal(issue.State) && !reconcile.SameState(own, issue.State)
	if closed {
		s.Log.Info("not delivered: the issue was closed meanwhile", "state", issue.State)
	}
	return closed
}

// verifyHandover ends the agent and runs verify for the commit that it hands over. It reports
// whether the agent must go on, with the output in its next turn.
func (s *settlement) verifyHandover(ctx context.Context, wish reconcile.Handover) (more bool, err error) {
	before := s.refused
	earlier := s.run.Delivery.Handover // of the previous run
	if before.Round == 0 && earlier.Refused() && earlier.Verification.Round > 0 {
		before = *earlier.Verification
	}
	s.agent.pause(ctx) // with all processes of the turn
	v, err := s.verifier.verify(ctx)
	if err != nil {
		return false, err
	}
	v.Round = before.Round
	if !v.Passed() && !v.Unusable() {
		v.Round++
	}
	wish.Verification = &v
	s.rec.change(func(r *reconcile.Run) { r.Delivery.Handover = &wish })
	s.rec.flush(ctx)
	if !wish.Refused() {
		return false, nil
	}
	s.refused = v
	if v.Round >= s.site.Config.Verify.Rounds {
		return false, verifyFailed("verify failed in "+text.Plural(v.Round, "round"), v)
	}
	if v.Commit != "" && v.Commit == before.Commit {
		return false, verifyFailed("the agent handed the same commit over again", v)
	}
	return true, nil
}

// verifyFailed is the error of a run whose work verify refuses.
func verifyFailed(why string, v reconcile.Verification) error {
	why += "; " + v.String()
	if line := firstFailure(v.Output); line != "" {
		why += ": " + line
	}
	return &reconcile.Error{Code: reconcile.HoldVerifyFailed, Message: why}
}

// looksFailed matches what compilers and tests print about a failure, such as "--- FAIL: TestSum",
// "ValueError: 7", "not ok 3", or "sum.go:7:2: undefined: x". looksFine matches "0 failed".
var (
	looksFailed = text.Pattern(`(?i)fail(?:ed|ures?)?\b|(?:error|exception)s?\b|\bfatal\b|\bpanic\b|\bnot ok\b|` +
		`[✗✘✖]|:\d+: |not found|no such file`)
	looksFine = text.Pattern(`(?i)\b(?:0|no) (?:fail|error)|(?:failed|failures|errors)[:=] *0\b`)
)

// firstFailure returns the first line of an output that looks like a failure, else its last one.
// The last lines often only count.
func firstFailure(output string) (line string) {
	for said := range strings.Lines(output) {
		said = text.Short(text.Visible(text.OneLine(agent.WithoutColours(said))), mostCommand)
		line = cmp.Or(said, line)
		if looksFailed().MatchString(said) && !looksFine().MatchString(said) {
			return said
		}
	}
	return line
}
