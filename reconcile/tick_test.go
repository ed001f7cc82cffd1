package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
)

// oracle is a tracker that calls a function before it answers.
type oracle struct {
	*world
	before func(ctx context.Context) error
}

func (o oracle) ByIDs(ctx context.Context, ids []string) (map[string]Issue, error) {
	if err := o.before(ctx); err != nil {
		return nil, err
	}
	return o.world.ByIDs(ctx, ids)
}

func codes(r Report) string {
	return strings.Join(test.Map(r.Errors, func(e *Error) string { return e.Code }), " ")
}

// tickOnce runs one pass, and lists only its requests in w.asked.
func tickOnce(t *testing.T, w *world, p Policy, o Options) Report {
	t.Helper()
	w.asked = nil
	report := Tick(t.Context(), w.deps(p), o)
	w.noWrong(t)
	return report
}

// Settling, stopping and holding need only this machine, and come before the requests to the
// tracker.
func TestLocalHalfComesFirst(t *testing.T) {
	s := newScene().running(issueNo(1), func(_ *Claim, r *Run) { r.Outcome = Failed }).
		running(issueNo(2), nil).
		command(VerbStop, issueNo(2)).
		same()
	w := worldOf(s.Snapshot)
	deps := w.deps(s.Policy)
	deps.Tracker.Tracker = oracle{w, func(context.Context) error {
		w.mustBe(t, issueNo(1), "retry backoff #2 in 20s failures=1 runs=1")
		equal(t, "A-2 signalled", w.workers["run-A-2"].stopped, true)
		equal(t, "commands left", len(w.commands), 0)
		return errTracker
	}}
	equal(t, "errors", codes(Tick(t.Context(), deps, Options{})), "linear_api_request")
}

// A tracker that never answers delays a pass by a minute, but not its local half.
func TestTrackerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene().running(issueNo(1), func(_ *Claim, r *Run) { r.Outcome = Succeeded }).
			claim(issueNo(2), nil)
		w := worldOf(s.Snapshot)
		deps := w.deps(s.Policy)
		deps.Tracker.Tracker = oracle{w, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		began := time.Now()
		report := Tick(t.Context(), deps, Options{})
		equal(t, "waited", time.Since(began), time.Minute)
		equal(t, "errors", codes(report), "tracker_error")
		equal(t, "plan", w.story(report), "settle A-1 succeeded")
	})
}

// If the refresh fails, nothing is stopped, released or started; if the candidates fail,
// nothing is started. The block stays until both succeed.
func TestTrackerError(t *testing.T) {
	s := newScene().running(issueNo(1), nil).
		claim(issueNo(2), nil).
		held(issueNo(3), HoldMaxRuns).
		candidates(issueNo(4))
	w := worldOf(s.Snapshot) // the tracker knows A-4 alone
	w.skips = []Skip{{IssueID: "kept"}}
	fails := func(minute int, want string) {
		t.Helper()
		w.now = noon.Add(time.Duration(minute) * time.Minute)
		report := tickOnce(t, w, s.Policy, Options{})
		equal(t, "plan", w.story(report), want)
		equal(t, "errors", codes(report), "linear_api_request")
		equal(t, "block", *w.trackerBlock, Block{
			Code:    "linear_api_request",
			Message: "no route",
			Since:   noon,
			NextTry: w.now,
		})
		equal(t, "skips are unchanged", w.skips[0].IssueID, "kept")
	}
	w.refused = errTracker
	fails(0, "")
	fails(1, "")
	w.refused = nil
	w.hidden = errTracker
	fails(2, "stop A-1 missing; release A-2 missing; release A-3 missing")
	w.hidden = nil
	report := tickOnce(t, w, s.Policy, Options{})
	equal(t, "plan", w.story(report), "dispatch A-4")
	equal(t, "cleared within the pass", w.trackerBlock == nil, true)
	equal(t, "errors", codes(report), "")
}

// After a rate limit no request is made before the reset, and every pass until then reports
// it.
func TestRateLimit(t *testing.T) {
	reset := noon.Add(10 * time.Minute)
	for name, set := range map[string]func(*world){
		"of the refresh":    func(w *world) { w.refused = rateLimited(reset) },
		"of the candidates": func(w *world) { w.hidden = rateLimited(reset) },
		"of one of two that fail": func(w *world) {
			w.refused = errTracker
			w.hidden = rateLimited(reset)
		},
		"wrapped": func(w *world) { w.refused = fmt.Errorf("page 2: %w", rateLimited(reset)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene().running(issueNo(1), nil).same().candidates(issueNo(2))
			w := worldOf(s.Snapshot)
			set(w)
			equal(t, "errors", codes(tickOnce(t, w, s.Policy, Options{})), "tracker_rate_limited")
			equal(t, "next try", w.trackerBlock.NextTry, reset)

			w.refused = nil
			w.hidden = nil
			w.ends(issueNo(1), Succeeded, "")
			w.now = reset.Add(-time.Millisecond)
			report := tickOnce(t, w, s.Policy, Options{})
			equal(t, "asked before the reset", len(w.asked), 0)
			equal(t, "errors", codes(report), "tracker_rate_limited")
			equal(t, "the local half continues", w.story(report), "settle A-1 succeeded")

			w.now = reset
			report = tickOnce(t, w, s.Policy, Options{})
			equal(t, "asked at the reset", len(w.asked), 2)
			equal(t, "errors", codes(report), "")
			equal(t, "block", w.trackerBlock == nil, true)
		})
	}
	t.Run("a clock set back since", func(t *testing.T) {
		w := newWorld()
		w.refused = rateLimited(reset)
		w.hidden = rateLimited(reset)
		equal(t, "errors", codes(tickOnce(t, w, testPolicy(), Options{})), "tracker_rate_limited")

		// Only the tracker knows the time until the reset.
		w.now = noon.Add(-12 * time.Hour)
		again := w.now.Add(time.Minute)
		w.refused = rateLimited(again)
		w.hidden = rateLimited(again)
		tickOnce(t, w, testPolicy(), Options{})
		equal(t, "asked", len(w.asked), 1)
		equal(t, "block", *w.trackerBlock, Block{
			Code:    "tracker_rate_limited",
			Message: w.trackerBlock.Message,
			Since:   w.now,
			NextTry: again,
		})
		tickOnce(t, w, testPolicy(), Options{})
		equal(t, "asked before the new reset", len(w.asked), 0)
	})
	t.Run("a clock that was ahead for a while", func(t *testing.T) {
		w := newWorld()
		w.refused = errTracker
		w.hidden = errTracker
		tickOnce(t, w, testPolicy(), Options{}) // the outage begins while the clock is right
		ahead := noon.Add(30 * 24 * time.Hour)
		w.now = ahead
		w.refused = rateLimited(ahead.Add(time.Hour))
		w.hidden = rateLimited(ahead.Add(time.Hour))
		tickOnce(t, w, testPolicy(), Options{})

		w.now = noon.Add(time.Minute)
		w.refused = nil
		w.hidden = nil
		equal(t, "errors", codes(tickOnce(t, w, testPolicy(), Options{})), "")
		equal(t, "asked", len(w.asked), 1)
	})
}

// A pass asks for all claimed issues, and for candidates only if an issue could start.
func TestWhatIsAsked(t *testing.T) {
	const candidates = "candidates Todo, In Progress"
	later := func(c *Claim) { c.DueAt = noon.Add(time.Hour) }
	for _, row := range []struct {
		rule string
		s    *scene
		o    Options
		edit func(*world)
		want string
	}{
		{"nothing is claimed", newScene(), Options{}, nil, candidates},
		{
			"claims of every status",
			newScene().running(issueNo(1), nil).claim(issueNo(2), later).held(issueNo(3), HoldOperator),
			Options{},
			nil,
			"ids id-1 id-2 id-3",
		},
		{"no slot free", newScene().running(issueNo(1), nil).claim(issueNo(2), later), Options{}, nil, "ids id-1 id-2"},
		{
			"no slot free, but a retry is due",
			newScene().running(issueNo(1), nil).claim(issueNo(2), nil),
			Options{},
			nil,
			candidates + "; ids id-1 id-2",
		},
		{
			"a slot that this pass frees",
			newScene().running(issueNo(1), func(_ *Claim, r *Run) { r.Outcome = Failed }),
			Options{},
			nil,
			candidates + "; ids id-1",
		},
		{
			"the same in a dry run",
			newScene().running(issueNo(1), func(_ *Claim, r *Run) { r.Outcome = Failed }),
			Options{DryRun: true},
			nil,
			candidates + "; ids id-1",
		},
		{
			"a claim that this pass makes",
			newScene().command(VerbHold, issueNo(1)),
			Options{DryRun: true},
			nil,
			candidates + "; ids id-1",
		},
		{
			"one issue",
			newScene().running(issueNo(1), nil).claim(issueNo(2), later),
			Options{Only: []string{"id-2"}},
			nil,
			"ids id-2",
		},
		{"one issue, at once", newScene().running(issueNo(1), nil), Options{
			Only:   []string{"id-2"},
			AtOnce: true,
		}, nil, candidates},
		{"dispatch off", newScene().claim(issueNo(2), nil), Options{DispatchOff: true}, nil, "ids id-2"},
		{"nothing to ask", newScene(), Options{DispatchOff: true}, nil, ""},
	} {
		t.Run(row.rule, func(t *testing.T) {
			row.s.Policy.MaxConcurrent = 1
			w := worldOf(row.s.Snapshot)
			if row.edit != nil {
				row.edit(w)
			}
			tickOnce(t, w, row.s.Policy, row.o)
			// the two are asked at once
			if len(w.asked) == 2 && strings.HasPrefix(w.asked[0], "ids") {
				w.asked[0], w.asked[1] = w.asked[1], w.asked[0]
			}
			equal(t, "asked", strings.Join(w.asked, "; "), row.want)
		})
	}
}

// There is at most one sweep in ten minutes. A sweep counts only if the tracker has answered.
func TestSweepIsRemembered(t *testing.T) {
	s := newScene().workspace(issueNo(1)).workspace(issueNo(2))
	s.Workspaces[1].Project = otherProject
	w := worldOf(s.Snapshot)
	done := issueNo(1, inState("Done"))
	step := func(what string, at time.Duration, asked bool, last time.Duration, want string) {
		t.Helper()
		w.now = noon.Add(at)
		report := tickOnce(t, w, s.Policy, Options{})
		equal(t, what+": asked", strings.Contains(strings.Join(w.asked, ";"), "ids id-1"), asked)
		equal(t, what+": remembered", w.lastSweep, noon.Add(last))
		equal(t, what+": plan", w.story(report), want)
	}
	w.lastSweep = noon.Add(-time.Hour)
	w.refused = errTracker
	step("no answer", 0, true, -time.Hour, "")
	w.refused = nil
	step("answer", time.Minute, true, time.Minute, "")
	w.issues[done.ID] = done
	step("too early", 11*time.Minute-1, false, time.Minute, "")
	step("ten minutes", 11*time.Minute, true, 11*time.Minute, "remove_workspace A-1 terminal")
	step("being removed", 21*time.Minute, true, 21*time.Minute, "")
	w.obey()
	step("removed", 31*time.Minute, false, 31*time.Minute, "settle A-1 succeeded")
	w.workspaces = s.Workspaces
	step("the clock was set back", 0, true, 0, "remove_workspace A-1 terminal")
}

// The pull requests that the refresh names are stored, of claims and of unclaimed workspaces.
// A dry run stores none.
func TestPullRequestsAreStored(t *testing.T) {
	pulled := func(i Issue) Issue { i.PullRequest = &PullRequest{URL: "https://example.com/pull/" + i.ID}; return i }
	// A-4 has none
	s := newScene().workspace(issueNo(1)).
		claim(issueNo(2), nil).
		claim(issueNo(4), nil).
		answer(issueNo(2), issueNo(4))
	w := worldOf(s.Snapshot)
	w.issues["id-1"] = pulled(issueNo(1, inState("Human Review")))
	w.issues["id-2"] = pulled(issueNo(2))
	w.issues["id-3"] = pulled(issueNo(3))
	tickOnce(t, w, s.Policy, Options{DryRun: true})
	equal(t, "dry run", len(w.pulls), 0)
	tickOnce(t, w, s.Policy, Options{})
	slices.SortFunc(w.pulls, func(a, b Issue) int { return strings.Compare(a.ID, b.ID) })
	equal(t, "stored", len(w.pulls), 2)
	equal(t, "of the workspace", w.pulls[0].PullRequest.URL, "https://example.com/pull/id-1")
	equal(t, "of the claim", w.pulls[1].PullRequest.URL, "https://example.com/pull/id-2")
}

// A pass for one issue sweeps nothing, and keeps the stored skips.
func TestOneIssue(t *testing.T) {
	s := newScene().workspace(issueNo(3)).
		running(issueNo(4), nil).
		answer(issueNo(4)).
		candidates(issueNo(1), issueNo(2))
	s.Policy.MaxConcurrent = 1
	w := worldOf(s.Snapshot)
	w.skips = []Skip{{IssueID: "kept"}}
	report := tickOnce(t, w, s.Policy, Options{Only: []string{"id-2"}, AtOnce: true})
	equal(t, "plan", w.story(report), "dispatch A-2")
	equal(t, "skips", w.skips[0].IssueID, "kept")
	equal(t, "swept", w.lastSweep.IsZero(), true)
}

// What was used today is read only if the workflow sets a budget.
func TestDailyBudgetIsRead(t *testing.T) {
	for most, want := range map[int64]string{0: "dispatch A-1", 500: "skip A-1 budget"} {
		s := newScene().answer().candidates(issueNo(1))
		s.Policy.DailyBudget = DailyBudget{Tokens: most}
		w := worldOf(s.Snapshot)
		w.today = []ModelUse{{Tokens: Tokens{Total: 500}}}
		equal(t, "plan", w.story(tickOnce(t, w, s.Policy, Options{})), want)
		equal(t, "read", w.todayRead > 0, most > 0)
	}
}

// Without a tracker a pass does the local half. Without a database it reports the error.
func TestHalfAPass(t *testing.T) {
	s := newScene().running(issueNo(1), func(_ *Claim, r *Run) { r.Outcome = Succeeded }).
		claim(issueNo(2), nil)
	w := worldOf(s.Snapshot)
	deps := w.deps(s.Policy)
	deps.Tracker = nil
	equal(t, "no tracker", w.story(Tick(t.Context(), deps, Options{})), "settle A-1 succeeded")

	w.dead = true
	report := Tick(t.Context(), deps, Options{})
	equal(t, "no database", codes(report), "state_unusable")
	equal(t, "cause", errors.Is(report.Errors[0], errDead), true)
}

// A report has the counts and the next due time after the pass.
func TestReport(t *testing.T) {
	s := newScene().running(issueNo(1), func(_ *Claim, r *Run) {
		r.Outcome = Succeeded
		r.Progress = true
	}).
		claim(issueNo(2), func(c *Claim) { c.DueAt = noon.Add(time.Minute) }).
		held(issueNo(3), HoldOperator).same().candidates(issueNo(4))
	for _, dry := range []bool{true, false} {
		report := tickOnce(t, worldOf(s.Snapshot), s.Policy, Options{DryRun: dry})
		equal(t, "counts", countsOf(report), "1 2 1")
		equal(t, "next due", report.NextDue, noon.Add(time.Second))
	}
}

// A claim that becomes due during a pass is a reason for another pass. A claim that was due
// already is not, and does not hide later ones.
func TestNextWake(t *testing.T) {
	s := newScene().running(issueNo(1), func(_ *Claim, r *Run) {
		r.Outcome = Succeeded
		r.Progress = true
	}).
		claim(issueNo(2), func(c *Claim) { c.DueAt = noon.Add(-time.Minute) })
	w := worldOf(s.Snapshot)
	deps := w.deps(s.Policy)
	deps.Tracker = nil
	calls := 0
	deps.Now = func() time.Time {
		calls++
		if calls == 1 {
			return noon
		}
		return noon.Add(5 * time.Second)
	}
	report := Tick(t.Context(), deps, Options{})
	equal(t, "story", w.story(report), "settle A-1 succeeded")
	equal(t, "next due", report.NextDue, noon.Add(-time.Minute))
	equal(t, "next wake", report.NextWake, noon.Add(time.Second))

	calls = 1 // now both were due before
	report = Tick(t.Context(), deps, Options{})
	equal(t, "next wake", report.NextWake, time.Time{})
}

// ending is a world in which a worker records its outcome and ends after the database was read
// and before a probe.
type ending struct {
	*world
	probes int // the number of that probe
}

func (e *ending) Probe(ctx context.Context, run Run) Liveness {
	e.probes--
	if e.probes == 0 {
		r := e.runs[run.ID]
		r.Outcome = Succeeded
		r.Phase = Finishing
		r.EndedAt = e.now
		e.runs[run.ID] = r
		e.workers[run.ID].alive = false
	}
	return e.world.Probe(ctx, run)
}

// A run that ends while a pass loads its snapshot does not count as lost, and its slot is
// free.
func TestRunEndsDuringAProbe(t *testing.T) {
	for probe := 1; probe <= 3; probe++ {
		s := newScene().running(issueNo(1), nil).same().candidates(issueNo(2))
		w := worldOf(s.Snapshot)
		deps := w.deps(s.Policy)
		deps.Runners = &ending{w, probe}
		report := Tick(t.Context(), deps, Options{})
		w.noWrong(t)
		equal(t, "errors", codes(report), "")
		for _, done := range report.Applied {
			equal(t, "error of "+string(done.Kind), done.Err, nil)
			test.Equal(t, fmt.Sprintf("the run is left at probe %d", probe), done.Kind != ActReap, true)
		}
		w.mustBe(t, issueNo(2), "running #0 runs=1")
		if r := w.runs["run-A-1"]; probe < 3 && (r.Outcome != Succeeded || !r.Settled) {
			t.Errorf("probe %d: the run is %+v", probe, r)
		}
	}
}

// A run that hands its issue over while the pass asks the tracker is not followed by another
// run: the answer is older than its end. If the tracker does not answer again, nothing starts.
func TestRunEndsDuringTheRequests(t *testing.T) {
	reset := noon.Add(time.Minute)
	empty := NewError(CodeTrackerEmpty, "it has no issue", "")
	for _, c := range []struct {
		name                      string
		first, again              error // of the requests
		plan, left, errors, until string
	}{
		{"it answers", nil, nil, "settle A-1 succeeded; release A-1 inactive; dispatch A-2", "unclaimed", "", ""},
		{"it fails", nil, errTracker, "settle A-1 succeeded", "retry continuation #1 in 0s", "linear_api_request", ""},
		{
			"it limits requests",
			nil,
			rateLimited(reset),
			"settle A-1 succeeded",
			"retry continuation #1 in 0s",
			"tracker_rate_limited",
			reset.String(),
		},
		{"a signal comes", nil, context.Canceled, "", "running #1", "canceled", ""},
		{
			"it has been empty for long",
			empty,
			empty,
			"settle A-1 succeeded; release A-1 missing; dispatch A-2",
			"unclaimed",
			"",
			"",
		},
		{"it was empty", empty, nil, "settle A-1 succeeded; release A-1 inactive; dispatch A-2", "unclaimed", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene().claim(issueNo(1), func(c *Claim) {
				c.Delivery.Due = true
				c.Kind = Delivering
			}).same().candidates(issueNo(2))
			s.Policy.Deliver = true
			w := worldOf(s.Snapshot)
			w.refused = c.first
			if c.first != nil {
				w.trackerBlock = &Block{Code: CodeTrackerEmpty, Since: noon.Add(-emptyFor)}
			}
			ctx, cancel := context.WithCancel(t.Context())
			deps := w.deps(s.Policy)
			deps.Tracker.Tracker = &late{world: w, after: func() {
				i := issueNo(1, inState("Human Review"))
				w.ends(i, Succeeded, "")
				w.issues[i.ID] = i
				w.refused = c.again
			}, before: func() {
				if errors.Is(c.again, context.Canceled) {
					cancel()
				}
			}}
			report := Tick(ctx, deps, Options{})
			w.noWrong(t)
			story, _ := strings.CutPrefix(w.story(report)+"; ", "deliver A-1 delivering; ")
			equal(t, "plan", strings.TrimSuffix(story, "; "), c.plan)
			equal(t, "errors", codes(report), c.errors)
			w.mustBe(t, issueNo(1), c.left)
			if c.until != "" {
				equal(t, "the next request", w.trackerBlock.NextTry.String(), c.until)
			}
		})
	}
}

// late is a tracker that calls a function when it has read the issues for its first answer,
// and before its second one.
type late struct {
	*world
	calls         int
	after, before func()
}

func (l *late) ByIDs(ctx context.Context, ids []string) (map[string]Issue, error) {
	l.calls++
	if l.calls == 2 {
		l.before()
	}
	found, err := l.world.ByIDs(ctx, ids)
	if l.calls == 1 {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.after()
	}
	return found, err
}

// A dry run changes nothing, and reports what a pass would do.
func TestDryRun(t *testing.T) {
	full := func() *scene {
		s := newScene().running(issueNo(1), func(_ *Claim, r *Run) { r.Outcome = Failed }).
			same().
			candidates(issueNo(2), issueNo(3))
		s.Policy.MaxConcurrent = 1
		return s
	}
	for name, s := range map[string]*scene{
		"everything":                  busy(),
		"tracker error":               newScene().claim(issueNo(1), nil).workspace(issueNo(2)),
		"slots are freed by the pass": full(),
		"stop --all":                  busy().command(VerbStopAll, Issue{}),
		"held issue unclaimed, done":  newScene().command(VerbHold, issueNo(1)).answer(issueNo(1, inState("Done"))).workspace(issueNo(1)),
		"a probe": full().edit(func(s *Snapshot) {
			s.AgentBlock = &Block{
				Code:    "network",
				Since:   noon.Add(-1),
				NextTry: noon,
			}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(s.Snapshot)
			if name == "tracker error" {
				w.refused = errTracker
			}
			before := w.dump()
			dry := tickOnce(t, w, s.Policy, Options{DryRun: true})
			equal(t, "world", w.dump(), before)
			equal(t, "effects", w.steps, 0)
			asked := fmt.Sprint(len(w.asked))

			did := tickOnce(t, w, s.Policy, Options{})
			equal(t, "plan", w.story(dry), w.story(did))
			equal(t, "requests", asked, fmt.Sprint(len(w.asked)))
			equal(t, "counts", fmt.Sprint(countsOf(dry), dry.NextDue), fmt.Sprint(countsOf(did), did.NextDue))
		})
	}
}

// During a block one probe at a time is started. The issues take turns, so that an issue whose
// own work causes the fault, for example by filling the disk, is not probed every time, even
// if it has the highest priority.
func TestProbesTakeTurns(t *testing.T) {
	s := newScene()
	for n := 1; n <= 3; n++ {
		s.claim(issueNo(n, priority(n)), nil)
	}
	w := worldOf(s.same().Snapshot)
	tried := map[int]int{}
	for range 20 {
		tickOnce(t, w, s.Policy, Options{})
		for n := 1; n <= 3; n++ {
			if i := issueNo(n); w.workers[w.runOf(i).ID] != nil && w.workers[w.runOf(i).ID].alive {
				tried[n]++
				w.ends(i, Failed, "disk_full")
			}
		}
		w.now = w.now.Add(longestProbe)
	}
	if tried[1] == 0 || tried[2] < tried[1]-1 || tried[3] < tried[1]-1 {
		t.Errorf("tried: %v", tried)
	}
}

// watched lists the runs that a pass probes.
type watched struct {
	*world
	probed []string
}

func (w *watched) Probe(ctx context.Context, run Run) Liveness {
	if !slices.Contains(w.probed, run.ID) {
		w.probed = append(w.probed, run.ID)
	}
	return w.world.Probe(ctx, run)
}

// A pass confined to one issue probes only that issue's worker, and leaves dead workers of
// others to other passes.
func TestConfinedPassProbesItsOwnWorker(t *testing.T) {
	for only, want := range map[string]string{
		"id-2":      "run-A-2",
		"nothing":   "",
		"id-1 id-2": "run-A-1 run-A-2",
		"":          "run-A-1 run-A-2",
	} {
		s := newScene().running(issueNo(1), nil).running(issueNo(2), nil).same()
		w := &watched{world: worldOf(s.Snapshot)}
		w.workers["run-A-1"].alive = false
		deps := w.deps(s.Policy)
		deps.Runners = w
		report := Tick(t.Context(), deps, Options{Only: strings.Fields(only)})
		equal(t, only+": probed", strings.Join(w.probed, " "), want)
		equal(t, only+": reaped", len(report.Applied) > 0, strings.Contains(want, "A-1"))
	}
}

// silent is a world whose workers last beat at beatAt.
type silent struct {
	*world
	beats  int64
	beatAt []time.Duration // at each probe
}

func (s *silent) Probe(ctx context.Context, run Run) Liveness {
	l := s.world.Probe(ctx, run)
	l.Beats = s.beats
	l.BeatAt = s.beatAt[0]
	s.beatAt = s.beatAt[1:]
	return l
}

// A worker without a heartbeat for the time of four is probed again after two seconds, and
// then killed.
func TestFrozen(t *testing.T) {
	for name, test := range map[string]struct {
		age    time.Duration
		beats  int64
		second time.Duration // the age of the last heartbeat at the second probe, if it differs
		alive  bool
		slept  time.Duration
	}{
		"for long":       {age: 20 * time.Second, beats: 7, slept: secondProbe},
		"since a moment": {age: 19 * time.Second, beats: 7, alive: true},
		"only just resumed": {
			age:    time.Hour,
			beats:  7,
			second: time.Second,
			alive:  true,
			slept:  secondProbe,
		},
		"while it starts":  {age: time.Minute, alive: true},
		"before its first": {age: 2 * time.Minute, slept: secondProbe},
		"an unknown time":  {beats: 7, alive: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene().running(issueNo(1), nil).same()
			w := worldOf(s.Snapshot)
			deps := w.deps(s.Policy)
			var slept time.Duration
			deps.Sleep = func(d time.Duration) { slept += d }
			at := func(age time.Duration) time.Duration {
				if age == 0 {
					return 0
				}
				return deps.Mono() - age
			}
			last := at(cmp.Or(test.second, test.age))
			deps.Runners = &silent{
				world:  w,
				beats:  test.beats,
				beatAt: []time.Duration{at(test.age), last, last, last},
			}
			Tick(t.Context(), deps, Options{})
			equal(t, "alive", w.workers["run-A-1"].alive, test.alive)
			if !test.alive {
				equal(t, "outcome", w.runs["run-A-1"].Outcome, Lost)
			}
			equal(t, "slept", slept, test.slept)
		})
	}
}

// countsOf are the numbers of running, waiting and held claims.
func countsOf(r Report) string {
	n := Count(r.Claims, nil, nil, false)
	return fmt.Sprint(n.Running, n.Retrying, n.Held)
}

// listing is a tracker whose list of candidates lacks pull requests.
type listing struct{ *world }

func (l listing) Candidates(ctx context.Context, states []string) ([]Issue, error) {
	list, err := l.world.Candidates(ctx, states)
	for n := range list {
		list[n].OtherPull = nil
		list[n].PullsUnread = true
	}
	return list, err
}

// Pull requests that the list of candidates lacks are read of the issues that the pass may
// begin, until each free slot has one without.
func TestPullRequestsOfCandidates(t *testing.T) {
	s := newScene()
	for n := range pullsAtOnce + 1 {
		s.candidates(issueNo(n+1, pulled))
	}
	s.candidates(issueNo(60), issueNo(61))
	s.Policy.MaxConcurrent = 1
	w := worldOf(s.Snapshot)
	pass := func(o Options) (requests []int, begun string) {
		w.asked = nil
		deps := w.deps(s.Policy)
		deps.Tracker.Tracker = listing{w}
		report := Tick(t.Context(), deps, o)
		for _, a := range report.Applied {
			begun += a.String() + " "
		}
		w.noWrong(t)
		return test.Map(
			w.asked,
			func(line string) int { return strings.Count(line, "id-") },
		), begun + codes(report)
	}
	check := func(what string, o Options, want []int, begins string) {
		requests, begun := pass(o)
		equal(t, what+": ids in each request", fmt.Sprint(requests), fmt.Sprint(want))
		equal(t, what, begun, begins)
	}
	w.refused = errTracker
	check("no answer", Options{}, []int{0, 50}, "linear_api_request")
	w.refused = nil
	check("all", Options{DryRun: true}, []int{0, 50, 3}, "dispatch A-60 ")
	check("an operator asks", Options{
		Only:   []string{"id-1"},
		AtOnce: true,
		DryRun: true,
	}, []int{0}, "dispatch A-1 ")
	check("a slot is free", Options{}, []int{0, 50, 3}, "dispatch A-60 run=new-001 ")
	check("no slot is free", Options{}, []int{1}, "")
}
