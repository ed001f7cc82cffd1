package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"
)

var errWouldDie = &Error{Code: CodeWorkersWouldDie, Message: "a worker would end with x.service"}

// tickOnMachine runs a pass with this answer of CheckMachine, and counts the calls.
func tickOnMachine(t *testing.T, w *world, p Policy, o Options, answer error) (r Report, asked int) {
	t.Helper()
	deps := w.deps(p)
	deps.CheckMachine = func(context.Context) error { asked++; return answer }
	r = Tick(t.Context(), deps, o)
	w.noWrong(t)
	return r, asked
}

// If workers would end with the pass, nothing is started and everything else continues. The
// block ends when they would not.
func TestWorkersWouldDie(t *testing.T) {
	s := newScene().running(issueNo(1), func(_ *Claim, r *Run) { r.Outcome = Failed }).claim(issueNo(2), nil).
		running(issueNo(3), nil).same().candidates(issueNo(4))
	w := worldOf(s.Snapshot)
	r, asked := tickOnMachine(t, w, s.Policy, Options{}, errWouldDie)
	equal(t, "plan", w.story(r), "settle A-1 failed; skip A-4 blocked")
	equal(t, "errors", codes(r), CodeWorkersWouldDie)
	equal(t, "asked", asked, 1)
	equal(t, "block", *w.hostBlock, Block{
		Code:    CodeWorkersWouldDie,
		Message: errWouldDie.Message,
		Since:   noon,
	})
	equal(
		t,
		"skips",
		w.skips[0].Reason+" "+w.skips[0].Message,
		"blocked workers_would_die: "+errWouldDie.Message,
	)
	w.mustBe(t, issueNo(2), "retry backoff #1 in 0s")

	w.now = noon.Add(time.Minute)
	r, _ = tickOnMachine(t, w, s.Policy, Options{}, errWouldDie)
	equal(t, "still", codes(r), CodeWorkersWouldDie)
	equal(t, "since", w.hostBlock.Since, noon)

	r, asked = tickOnMachine(t, w, s.Policy, Options{}, nil)
	equal(t, "plan", w.story(r), "dispatch A-1 backoff; dispatch A-2 backoff; dispatch A-4")
	equal(t, "asked", asked, 1)
	equal(t, "over", w.hostBlock == nil, true)
}

// The block that a delivery found stays, although the tracker then has nothing to start.
func TestBlockOfADelivery(t *testing.T) {
	one := issueNo(1)
	ended := func(_ *Claim, r *Run) { r.Outcome = Failed }
	s := delivers(newScene().claim(one, undelivered(0)).running(issueNo(2), ended).same().candidates())
	w := worldOf(s.Snapshot)
	r, _ := tickOnMachine(t, w, s.Policy, Options{}, errWouldDie)
	equal(t, "errors", codes(r), CodeWorkersWouldDie)
	equal(t, "block", w.hostBlock.Code, CodeWorkersWouldDie)
}

// Removals of workspaces wait, too, because their processes would end with the pass.
func TestRemovalsWouldDie(t *testing.T) {
	done := issueNo(1, inState("Done"))
	s := newScene().workspace(done).answer(done)
	w := worldOf(s.Snapshot)
	w.trash = true
	r, _ := tickOnMachine(t, w, s.Policy, Options{}, errWouldDie)
	equal(t, "plan", w.story(r), "")
	equal(t, "errors", codes(r), CodeWorkersWouldDie)
}

// A pass that has nothing to start does not check the host. It clears the block if dispatch is
// on and covers all issues.
func TestHostIsCheckedBeforeStarts(t *testing.T) {
	for name, row := range map[string]struct {
		edit    func(*Snapshot)
		options Options
		asked   int
		kept    bool
	}{
		"one to start":       {nil, Options{}, 1, false},
		"dry run":            {nil, Options{DryRun: true}, 1, true},
		"no candidate":       {func(s *Snapshot) { s.Tracker = newScene().candidates().Tracker }, Options{}, 0, false},
		"paused":             {func(s *Snapshot) { s.Paused = true }, Options{}, 0, false},
		"dispatch off":       {nil, Options{DispatchOff: true}, 0, true},
		"a pass for another": {nil, Options{Only: []string{"id-2"}}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene().candidates(issueNo(1))
			if row.edit != nil {
				s.edit(row.edit)
			}
			w := worldOf(s.Snapshot)
			w.hostBlock = &Block{Code: CodeWorkersWouldDie}
			_, asked := tickOnMachine(t, w, s.Policy, row.options, nil)
			equal(t, "asked", asked, row.asked)
			equal(t, "block kept", w.hostBlock != nil, row.kept)
		})
	}
}

// The error keeps its code if it has one.
func TestHostError(t *testing.T) {
	s := newScene().candidates(issueNo(1))
	r, _ := tickOnMachine(t, worldOf(s.Snapshot), s.Policy, Options{DryRun: true}, errors.New("no idea"))
	equal(t, "errors", codes(r), CodeWorkersWouldDie)
}
