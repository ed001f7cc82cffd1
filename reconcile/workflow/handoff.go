package workflow

import (
	"slices"
	"strconv"
)

// handoff checks the states to which symphony moves issues.
func (r *reader) handoff() {
	c := r.cfg
	if c.Handoff.State == "" {
		r.warnKey("handoff.blocked_state", "no effect without handoff.state")
		if c.Feedback.On() {
			r.invalid(r.field("feedback.state"), "agents hand nothing over that could come back", "set handoff.state")
		}
		if c.Verify.Command != "" {
			r.invalid(r.field("verify.command"), "verifies what agents hand over, and they hand nothing over", "set handoff.state")
		}
		return
	}
	if c.Verify.Command == "" {
		r.warnKey("verify.rounds", "no effect without verify.command")
		r.warnKey("verify.timeout_ms", "no effect without verify.command")
	}
	r.feedback()
	c.Handoff.mergedState = c.Feedback.MergedState
	f := r.field("handoff.state")
	c.Tracker.NamedStates = append(c.Tracker.NamedStates, c.Handoff.States()...)
	for _, state := range c.Handoff.States() {
		if c.Policy.Active(state) {
			if state == c.Feedback.MergedState {
				f = r.field("feedback.merged_state")
			}
			r.invalid(f, strconv.Quote(state)+" is one of tracker.active_states: the issue would be worked on again", "write another state")
		}
	}
	lacks := func(verb string) bool { return !slices.Contains(c.Tracker.Verbs, verb) }
	switch {
	case c.Tracker.Kind == "command" && (lacks("move") || lacks("comment")):
		r.invalid(f, "the tracker's program can't move issues and comment on them",
			"add move and comment to tracker.provider.verbs, once the program has them")
	case c.Hooks.AfterRun != "" && !c.Repository.Delivers():
		r.invalid(f, "hooks.after_run could push the work only after the handover", "set repository.url, so that symphony pushes the work")
	}
}

// feedback checks what brings issues back that were handed over.
func (r *reader) feedback() {
	c := r.cfg
	f := r.field("feedback.state")
	switch {
	case !c.Feedback.On():
		for _, name := range []string{"checks", "reviews", "conflicts", "rounds", "reviewers", "merged_state"} {
			r.warnKey("feedback."+name, "no effect without feedback.state")
		}
	case !c.Repository.OpensPullRequests():
		r.invalid(f, "needs pull requests that symphony opens", "set repository.deliver: pull-request")
	case !c.Policy.Active(c.Feedback.State):
		r.invalid(f, strconv.Quote(c.Feedback.State)+" is none of tracker.active_states: no agent would work on the issue", "write one of them")
	}
}
