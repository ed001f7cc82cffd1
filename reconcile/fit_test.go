package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"
)

var errDrifted = &Error{Code: CodeIncompatible, Message: "codex 9 does not know x"}

// fitted runs a pass that looks at its agent, and says how often it has.
func fitted(t *testing.T, w *world, p Policy, o Options, answer Fit) (r Report, asked int) {
	t.Helper()
	deps := w.deps(p)
	deps.Agent = func(context.Context) Fit { asked++; return answer }
	r = Tick(t.Context(), deps, o)
	w.noWrong(t)
	return r, asked
}

// An agent that does not fit is not started. All else goes on, removals too, and it is over by itself.
func TestUnfitAgent(t *testing.T) {
	done := issueNo(5, inState("Done"))
	s := newScene().running(issueNo(1), func(_ *Claim, r *Run) { r.Outcome = Failed }).claim(issueNo(2), nil).
		running(issueNo(3), nil).workspace(done).same().answer(done).candidates(issueNo(4))
	w := worldOf(s.Snapshot)
	r, asked := fitted(t, w, s.Policy, Options{}, Fit{Err: errDrifted})
	equal(t, "plan", w.story(r), "settle A-1 failed; remove_workspace A-5 terminal; skip A-4 blocked")
	equal(t, "errors", codes(r), CodeIncompatible)
	equal(t, "asked", asked, 1)
	equal(t, "block", *w.hostBlock, Block{Code: CodeIncompatible, Message: errDrifted.Message, Since: noon, OfAgent: true})
	equal(t, "skips", w.skips[0].Reason+" "+w.skips[0].Message, "blocked codex_incompatible: "+errDrifted.Message)
	w.mustBe(t, issueNo(2), "retry backoff #1 in 0s")

	w.now = noon.Add(time.Minute)
	r, _ = fitted(t, w, s.Policy, Options{}, Fit{Err: errDrifted})
	equal(t, "still", codes(r), CodeIncompatible)
	equal(t, "since", w.hostBlock.Since, noon)
	r, _ = fitted(t, w, s.Policy, Options{}, Fit{Err: &Error{Code: "invalid_config", Message: "y"}})
	equal(t, "another", w.hostBlock.Code+" "+w.hostBlock.Since.String(), "invalid_config "+w.now.String())
	equal(t, "its errors", codes(r), "invalid_config")

	r, asked = fitted(t, w, s.Policy, Options{}, Fit{Changed: true})
	equal(t, "plan", w.story(r), "dispatch A-1 backoff; dispatch A-2 backoff; dispatch A-4")
	equal(t, "asked", asked, 1)
	equal(t, "over", w.hostBlock == nil, true)
}

// A pass that starts no agent does not look at it; one that has seen that there is nothing to start forgets the block.
func TestAgentIsLookedAtForWhatStarts(t *testing.T) {
	done := issueNo(5, inState("Done"))
	for name, row := range map[string]struct {
		edit    func(*Snapshot)
		options Options
		asked   int
		kept    bool
	}{
		"one to start":       {nil, Options{}, 1, false},
		"dry run":            {nil, Options{DryRun: true}, 1, true},
		"no candidate":       {func(s *Snapshot) { s.Tracker = newScene().candidates().Tracker }, Options{}, 0, false},
		"dispatch off":       {nil, Options{DispatchOff: true}, 0, true},
		"a pass for another": {nil, Options{Only: "id-2"}, 0, true},
		"only a removal": {func(s *Snapshot) {
			x := newScene().workspace(done).answer(done)
			s.Workspaces, s.Tracker, s.SweepDue = x.Workspaces, x.Tracker, x.SweepDue
			s.Tracker.Fetched = false
		}, Options{}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene().candidates(issueNo(1))
			if row.edit != nil {
				row.edit(&s.Snapshot)
			}
			w := worldOf(s.Snapshot)
			w.hostBlock = &Block{Code: CodeIncompatible, OfAgent: true}
			_, asked := fitted(t, w, s.Policy, row.options, Fit{})
			equal(t, "asked", asked, row.asked)
			equal(t, "block kept", w.hostBlock != nil, row.kept)
		})
	}
}

// Where workers would end with the pass nobody looks at the agent, and the word about the one block is not taken back by
// the question about the other.
func TestShelterComesFirst(t *testing.T) {
	s := newScene().candidates(issueNo(1))
	w := worldOf(s.Snapshot)
	w.hostBlock = &Block{Code: CodeIncompatible, Since: noon}
	deps := w.deps(s.Policy)
	deps.Shelter = func(context.Context) error { return errMortal }
	deps.Agent = func(context.Context) Fit { t.Error("the agent is looked at"); return Fit{} }
	r := Tick(t.Context(), deps, Options{})
	equal(t, "errors", codes(r), CodeWorkersWouldDie)
	equal(t, "block", w.hostBlock.Code, CodeWorkersWouldDie)
}

// The block of a run that met an agent it could not work with ends with that agent, without a probe.
func TestAnotherAgentEndsTheBlock(t *testing.T) {
	block := Block{Code: CodeIncompatible, Message: "x", Since: noon.Add(-time.Minute), NextTry: noon.Add(time.Hour), Tries: 3}
	for name, row := range map[string]struct {
		fit     Fit
		code    string
		options Options
		over    bool
		asked   int
	}{
		"another":            {Fit{Changed: true}, CodeIncompatible, Options{}, true, 1},
		"the same":           {Fit{}, CodeIncompatible, Options{}, false, 1},
		"another, as bad":    {Fit{Changed: true, Err: errDrifted}, CodeIncompatible, Options{}, false, 1},
		"another block":      {Fit{Changed: true}, "network", Options{}, false, 0},
		"a dry run":          {Fit{Changed: true}, CodeIncompatible, Options{DryRun: true}, false, 0},
		"nothing is started": {Fit{Changed: true}, CodeIncompatible, Options{DispatchOff: true}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene().candidates(issueNo(1))
			w := worldOf(s.Snapshot)
			b := block
			b.Code = row.code
			w.agentBlock = &b
			r, asked := fitted(t, w, s.Policy, row.options, row.fit)
			equal(t, "asked", asked, row.asked)
			equal(t, "over", w.agentBlock == nil, row.over)
			started := w.story(r) == "dispatch A-1"
			equal(t, "started", started, row.over)
		})
	}
}

// An error without a code has one.
func TestUnfitError(t *testing.T) {
	s := newScene().candidates(issueNo(1))
	r, _ := fitted(t, worldOf(s.Snapshot), s.Policy, Options{DryRun: true}, Fit{Err: errors.New("no idea")})
	equal(t, "errors", codes(r), CodeUnchecked)
}
