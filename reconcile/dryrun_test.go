package reconcile

import (
	"fmt"
	"testing"
)

// A dry run changes nothing, and says what the pass then does.
func TestDryRun(t *testing.T) {
	full := func() *scene {
		s := newScene().running(issueNo(1), func(_ *Claim, r *Run) { r.Outcome = Failed }).same().candidates(issueNo(2), issueNo(3))
		s.Policy.MaxConcurrent = 1
		return s
	}
	for name, s := range map[string]*scene{
		"everything":                  busy(),
		"nothing":                     newScene(),
		"slots are freed by the pass": full(),
		"paused":                      full().edit(func(s *Snapshot) { s.Paused = true }),
		"stop --all":                  busy().command(VerbStopAll, Issue{}),
		"held issue unclaimed, done":  newScene().command(VerbHold, issueNo(1)).answer(issueNo(1, inState("Done"))).workspace(issueNo(1)),
		"a probe":                     full().edit(func(s *Snapshot) { s.AgentBlock = &Block{Code: "network", Since: noon.Add(-1), NextTry: noon} }),
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(s.Snapshot)
			before := w.dump()
			dry := tickOnce(t, w, s.Policy, Options{DryRun: true})
			equal(t, "world", w.dump(), before)
			equal(t, "effects", w.steps, 0)
			asked := fmt.Sprint(len(w.asked))

			did := tickOnce(t, w, s.Policy, Options{})
			equal(t, "plan", w.story(dry), w.story(did))
			equal(t, "requests", asked, fmt.Sprint(len(w.asked)))
			equal(t, "counts", fmt.Sprint(dry.Running, dry.Retrying, dry.Held, dry.NextDue), fmt.Sprint(did.Running, did.Retrying, did.Held, did.NextDue))
		})
	}
}

// A dry run keeps no tracker error, no rate limit and no sweep.
func TestDryRunRemembersNothing(t *testing.T) {
	for _, err := range []error{nil, errTracker, rateLimited(noon.Add(1))} {
		s := newScene().claim(issueNo(1), nil).workspace(issueNo(2))
		w := worldOf(s.Snapshot)
		w.refused, w.trackerBlock = err, &Block{Code: "linear_api_status"}
		before := w.dump()
		tickOnce(t, w, s.Policy, Options{DryRun: true})
		equal(t, "world", w.dump(), before)
		equal(t, "effects", w.steps, 0)
	}
}
