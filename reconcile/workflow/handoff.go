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
		if c.Verify.Command != "" {
			r.invalid(r.field("verify.command"), "verifies what agents hand over, and they hand nothing over", "set handoff.state")
		}
		return
	}
	if c.Verify.Command == "" {
		r.warnKey("verify.rounds", "no effect without verify.command")
		r.warnKey("verify.timeout_ms", "no effect without verify.command")
	}
	f := r.field("handoff.state")
	c.Tracker.NamedStates = append(c.Tracker.NamedStates, c.Handoff.States()...)
	for _, state := range c.Handoff.States() {
		if c.Policy.Active(state) {
			r.invalid(f, strconv.Quote(state)+" is one of tracker.active_states: the issue would be worked on again", "write another state")
		}
	}
	lacks := func(verb string) bool { return !slices.Contains(c.Tracker.Verbs, verb) }
	switch {
	case c.Tracker.Kind == "command" && (lacks("move") || lacks("comment")):
		r.invalid(f, "the tracker's program can't move issues and comment on them",
			"add move and comment to tracker.provider.verbs, once the program has them")
	case c.Hooks.AfterRun != "" && !c.Repository.Delivers():
		r.invalid(f, "does not wait for hooks.after_run, which may push the work", "let symphony push it: repository.url")
	}
}
