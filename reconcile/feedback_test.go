package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestCauses checks what brings an issue back, and that each cause does so once.
func TestCauses(t *testing.T) {
	all := Feedback{Checks: true, Reviews: true, Conflicts: true, State: "In Progress", Rounds: 3}
	check := func(name, state string) Check { return Check{Name: name, State: state} }
	review := func(id, state string) Review {
		return Review{
			ID:     id,
			Author: "kim",
			Writer: true,
			State:  state,
			Body:   "Please.",
			At:     noon.Add(-time.Hour),
		}
	}
	for _, row := range []struct {
		name string
		edit func(w *Watch, f *Feedback)
		want string
	}{
		{"nothing", func(*Watch, *Feedback) {}, ""},
		{"one failed", func(w *Watch, _ *Feedback) {
			w.Pull.Checks.List = []Check{check("lint", CheckFailure), check("test", CheckSuccess)}
		}, "lint failed"},
		{"one at work", func(w *Watch, _ *Feedback) {
			w.Pull.Checks.List = []Check{check("lint", CheckFailure), check("test", CheckPending)}
		}, ""},
		{
			"without a verdict",
			func(w *Watch, _ *Feedback) { w.Pull.Checks.List = []Check{check("lint", CheckOpen)} },
			"",
		},
		{
			"that fails on the base",
			func(w *Watch, _ *Feedback) { w.Pull.Checks.List = []Check{check("base", CheckFailure)} },
			"",
		},
		{"hidden", func(w *Watch, _ *Feedback) {
			w.Pull.Checks.Hidden = true
			w.Pull.Checks.State = CheckFailure
		}, "a check that is not listed failed"},
		{"hidden, at work", func(w *Watch, _ *Feedback) {
			w.Pull.Checks.Hidden = true
			w.Pull.Checks.State = CheckPending
		}, ""},
		{"3,000", func(w *Watch, _ *Feedback) {
			w.Pull.Checks.List = make([]Check, MaxChecks)
			w.Pull.Checks.Cut = true
			w.Pull.Checks.State = CheckFailure
		}, "a check that is not listed failed"},
		{"of an older commit", func(w *Watch, _ *Feedback) {
			w.Pull.Checks = Checks{Commit: "b", List: []Check{check("lint", CheckFailure)}}
		}, ""},
		{"of a person's commit", func(w *Watch, _ *Feedback) {
			w.Pull.Head = "b"
			w.Pull.Mergeable = pullConflicts
			w.Pull.Reviews = []Review{review("1", reviewChanges)}
			w.Pull.Checks = Checks{Commit: "b", List: []Check{check("lint", CheckFailure)}}
		}, ""},
		{"of a person's commit on top", func(w *Watch, _ *Feedback) {
			w.Pull.Head = "b"
			w.Pushed = Pushed{Commit: "b", On: "a", Builds: true}
			w.Pull.Reviews = []Review{review("1", reviewChanges)}
			w.Pull.Checks = Checks{Commit: "b", List: []Check{check("lint", CheckFailure)}}
		}, "lint failed; kim asks for changes"},
		{"of a person's commit instead", func(w *Watch, _ *Feedback) {
			w.Pull.Head = "b"
			w.Pushed = Pushed{Commit: "b", On: "a"}
			w.Pull.Reviews = []Review{review("1", reviewChanges)}
		}, ""},
		{"of a person's commit on an older one", func(w *Watch, _ *Feedback) {
			w.Pull.Head = "b"
			w.Pushed = Pushed{Commit: "b", On: "0", Builds: true}
			w.Pull.Reviews = []Review{review("1", reviewChanges)}
		}, ""},
		{"not wanted", func(w *Watch, f *Feedback) {
			f.Checks = false
			f.Reviews = false
			f.Conflicts = false
			w.Pull.Mergeable = pullConflicts
			w.Pull.Reviews = []Review{review("1", reviewChanges)}
			w.Pull.Checks.List = []Check{check("lint", CheckFailure)}
		}, ""},
		{
			"changes asked for",
			func(w *Watch, _ *Feedback) { w.Pull.Reviews = []Review{review("1", reviewChanges)} },
			"kim asks for changes",
		},
		{"approved with words", func(w *Watch, _ *Feedback) { w.Pull.Reviews = []Review{review("1", "approved")} }, ""},
		{"a stranger", func(w *Watch, _ *Feedback) {
			w.Pull.Reviews = []Review{review("1", reviewChanges)}
			w.Pull.Reviews[0].Writer = false
		}, ""},
		{"a bot", func(w *Watch, _ *Feedback) {
			w.Pull.Reviews = []Review{review("1", reviewComment)}
			w.Pull.Reviews[0].Bot = true
		}, ""},
		{"a bot by name", func(w *Watch, f *Feedback) {
			f.Reviewers = []string{"Helper[bot]"}
			w.Pull.Reviews = []Review{review("1", reviewComment), review("2", reviewComment)}
			w.Pull.Reviews[0].Bot = true
			w.Pull.Reviews[0].Author = "helper[bot]"
		}, "helper[bot] commented"},
		{"someone writes", func(w *Watch, _ *Feedback) {
			w.Pull.Reviews = []Review{review("1", reviewChanges), review("2", reviewComment)}
			w.Pull.Reviews[1].At = noon.Add(-time.Minute)
		}, ""},
		{"blocked", func(w *Watch, _ *Feedback) {
			w.Blocked = true
			w.Pull.Mergeable = pullConflicts
			w.Pull.Checks.List = []Check{check("lint", CheckFailure)}
		}, ""},
		{"an answer", func(w *Watch, _ *Feedback) {
			w.Blocked = true
			w.Pull.Mergeable = pullConflicts
			w.Pull.Reviews = []Review{review("1", reviewChanges)}
		}, "kim asks for changes"},
		{"conflict", func(w *Watch, _ *Feedback) { w.Pull.Mergeable = pullConflicts }, "it conflicts with its base"},
		{"everything", func(w *Watch, _ *Feedback) {
			w.Pull.Mergeable = pullConflicts
			w.Pull.Reviews = []Review{review("1", reviewChanges), review("2", reviewChanges)}
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				w.Pull.Checks.List = append(w.Pull.Checks.List, check(name, CheckFailure))
			}
		}, "a, b, c, 2 more failed; kim asks for changes; it conflicts with its base"},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := all
			w := &Watch{
				Delivered: Delivered{Commit: "a"},
				Pull:      Pull{Number: 1, Head: "a", Checks: Checks{Commit: "a"}},
			}
			row.edit(w, &f)
			causes := func() string {
				failed := OwnFailures(w.Failed(f, noon), Checks{List: []Check{check("base", CheckFailure)}})
				r := w.Causes(f, failed, noon)
				if r == nil {
					return ""
				}
				w.BeginRound(r)
				return r.Causes()
			}
			equal(t, "causes", causes(), row.want)
			equal(t, "the same again", causes(), "")
			equal(t, "rounds", w.Rounds, min(1, len(row.want)))
		})
	}
}

// TestReruns checks that failed jobs run again once for a commit, and that a failure counts
// once they have.
func TestReruns(t *testing.T) {
	w := &Watch{Pull: Pull{Head: "a", Checks: Checks{List: []Check{{State: CheckFailure, Run: 7}}}}}
	failed := []Check{{Run: 7}, {Run: 8}, {Run: 7}, {}}
	equal(t, "runs", len(w.Reruns(failed)), 2)
	w.BeginReruns([]int64{7, 8})
	w.RerunAt = noon
	equal(t, "again", len(w.Reruns(failed)), 0)
	equal(t, "another run that fails later", fmt.Sprint(w.Reruns(append(failed, Check{Run: 9}))), "[9]")
	equal(t, "just now", w.Settling(noon.Add(time.Minute)), true)
	equal(t, "never seen at work", w.Settling(noon.Add(3*time.Minute)), false)
	w.Update(Pull{
		Head:   "a",
		Checks: Checks{List: []Check{{State: CheckPending}}},
	}, Feedback{}, noon)
	equal(t, "at work", w.Settling(noon.Add(time.Minute)), false)
	w.Update(Pull{
		Head:   "a",
		Checks: Checks{List: []Check{{State: CheckFailure, Run: 7}}},
	}, Feedback{}, noon)
	equal(t, "and has ended", w.Settling(noon.Add(time.Minute)), false)
	w.Pull.Head = "b"
	equal(t, "of the next commit", len(w.Reruns(failed)), 2)
}

// TestLaterFailures checks that a check that fails later on the same commit is a new cause,
// whether or not the issue has come back for others, and that one that fails on the base is
// not.
func TestLaterFailures(t *testing.T) {
	f := Feedback{Checks: true, Rounds: 3}
	w := &Watch{Delivered: Delivered{Commit: "a"}}
	base := Checks{List: []Check{{Name: "slow", State: CheckFailure}}}
	look := func(failed ...string) string {
		p := Pull{
			Number: 1,
			Head:   "a",
			State:  pullOpen,
			Checks: Checks{Commit: "a", State: CheckFailure},
		}
		for _, name := range failed {
			p.Checks.List = append(p.Checks.List, Check{Name: name, State: CheckFailure})
		}
		w.Update(p, f, noon)
		own := OwnFailures(w.Failed(f, noon), base)
		w.IgnoreFailures(
			slices.DeleteFunc(w.Failed(f, noon), func(c Check) bool { return slices.Contains(own, c) }),
		)
		r := w.Causes(f, own, noon)
		if r == nil {
			return ""
		}
		w.BeginRound(r)
		return r.Causes()
	}
	equal(t, "the first", look("lint"), "lint failed")
	equal(t, "again", look("lint"), "")
	equal(t, "another system, later", look("lint", "nightly"), "nightly failed")
	equal(t, "that fails on the base", look("lint", "nightly", "slow"), "")
	equal(t, "known", fmt.Sprint(w.Failures), "{a [lint nightly] [slow]}")
	w.Delivered.Commit = "b"
	w.Update(Pull{
		Head:   "b",
		Checks: Checks{Commit: "b", List: []Check{{Name: "lint", State: CheckFailure}}},
	}, f, noon)
	equal(t, "on the next commit", len(w.Failed(f, noon)), 1)
}

// TestLate checks which check is named after an hour, and that it does not hold the others
// back then.
func TestLate(t *testing.T) {
	f := Feedback{Checks: true}
	w := &Watch{Delivered: Delivered{Commit: "a"}}
	p := Pull{Head: "a", State: pullOpen, Base: "main", Checks: Checks{Commit: "a", List: []Check{
		{Name: "CI / unit", State: CheckFailure}, {Name: "license", State: CheckPending},
	}}}
	waits := func(now time.Time) string {
		v := w.WaitsFor(f, now)
		if v == nil {
			return ""
		}
		return fmt.Sprint(v.Code, ": ", v.Text, ", ", now.Sub(*v.Since))
	}
	equal(t, "without a look", waits(noon), "")
	late := func(now time.Time) string {
		name, since := w.Late(now)
		return fmt.Sprint(name, " ", !since.IsZero(), " ", len(w.Failed(f, now)))
	}
	w.Update(p, f, noon)
	equal(t, "at work", waits(noon.Add(time.Minute)), "checks: checks, which are at work, 1m0s")
	equal(t, "soon", late(noon.Add(59*time.Minute)), " false 0")
	hour := noon.Add(time.Hour)
	equal(t, "after an hour", late(hour), "license true 1")
	p.Checks.List = p.Checks.List[:1]
	w.Update(p, f, hour)
	equal(t, "it has ended", late(hour), " false 1")
	equal(t, "waits for", waits(hour), "review: a review, 1h0m0s")
	p.Head = "b"
	w.Update(p, f, hour)
	equal(t, "of the next commit", late(hour), " false 0")
}

// TestWaitsFor checks what a pull request waits for that has come back once.
func TestWaitsFor(t *testing.T) {
	f := Feedback{Checks: true, Reviews: true, Conflicts: true, Rounds: 3}
	review := func(id, state string, at time.Time) Review {
		return Review{ID: id, Author: "kim", Writer: true, State: state, Body: "Please.", At: at}
	}
	for _, row := range []struct {
		name string
		edit func(w *Watch)
		want string
	}{
		{
			"a failed check that was answered without a commit", func(*Watch) {},
			"review: a review",
		},
		{"approved", func(w *Watch) {
			w.Pull.Reviews = []Review{review("1", "approved", noon)}
		}, "merge: a merge"},
		{"an agent works on it", func(w *Watch) {
			w.Rework = &Rework{Round: 2, Rounds: 3, Checks: w.Pull.Checks.List}
		}, "rework: rework 2 of 3: lint failed"},
		{"a commit that answers it", func(w *Watch) {
			w.Pull.Head = "b"
			w.Delivered.Commit = "b"
			w.Pull.Checks = Checks{Commit: "b"}
		}, "review: a review"},
		{"it passes now", func(w *Watch) {
			w.Pull.Checks.List = []Check{{Name: "lint", State: CheckSuccess}}
		}, "review: a review"},
		{"a new review", func(w *Watch) {
			w.Pull.Reviews = []Review{review("1", reviewChanges, noon.Add(-time.Minute))}
		}, "quiet: two quiet minutes after the review by kim"},
		{"an older one, too", func(w *Watch) {
			w.Pull.Reviews = []Review{
				review("1", reviewChanges, noon.Add(-time.Hour)),
				review("2", reviewComment, noon.Add(-time.Minute)),
			}
		}, "quiet: two quiet minutes after the review by kim"},
		{"a replaced branch", func(w *Watch) {
			w.Pull.Head = "b"
			w.Pushed = Pushed{Commit: "b", On: "a"}
		}, "person: a person: the branch was replaced by commit b, which does not contain what was delivered"},
		{"held", func(w *Watch) {
			w.Claim = Held
			w.Held = HoldFeedbackRounds
		}, "hold: the end of the issue's hold"},
		{"merged", func(w *Watch) { w.Pull.State = PullMerged }, ""},
	} {
		w := &Watch{Delivered: Delivered{Commit: "a"}}
		w.Pull = Pull{
			Head:   "a",
			State:  pullOpen,
			Checks: Checks{Commit: "a", List: []Check{{Name: "lint", State: CheckFailure}}},
		}
		w.Failures = KnownFailures{Commit: "a", Told: []string{"lint"}}
		row.edit(w)
		got := ""
		if v := w.WaitsFor(f, noon); v != nil {
			got = v.Code + ": " + v.Text
		}
		equal(t, row.name, got, row.want)
	}
}

// TestTakeBack checks that causes count again if someone has pushed before the issue was
// moved.
func TestTakeBack(t *testing.T) {
	f := Feedback{Checks: true, Reviews: true, Conflicts: true, Rounds: 3}
	w := &Watch{Delivered: Delivered{Commit: "a"}, Handled: []string{"review 0"}}
	w.Pull = Pull{
		Head:      "a",
		Mergeable: pullConflicts,
		Checks:    Checks{Commit: "a", List: []Check{{Name: "lint", State: CheckFailure}}},
		Reviews:   []Review{{ID: "1", Author: "kim", Writer: true, State: reviewChanges}},
	}
	causes := func() string { return fmt.Sprint(w.Causes(f, w.Failed(f, noon), noon)) }
	all := causes()
	w.BeginRound(w.Causes(f, w.Failed(f, noon), noon))
	equal(t, "after the round has begun", causes(), "<nil>")
	w.TakeBack()
	equal(t, "taken back", causes(), all)
	equal(t, "the rest", fmt.Sprint(w.Rounds, w.History, w.Handled), "0 [] [review 0]")
}

// TestIs checks by what a pull request is known.
func TestIs(t *testing.T) {
	w := &Watch{Delivered: Delivered{
		PullRequest: "https://f/team/Shop/pull/1",
		Branch:      "b",
		Commit:      "a",
	}}
	is := func(p Pull) string { return fmt.Sprint(w.Is(p)) }
	equal(t, "by its address", is(Pull{ID: "x", URL: "https://f/team/shop/pull/1"}), "true")
	equal(t, "by its branch and commit", is(Pull{
		ID:     "x",
		URL:    "https://f/team/store/pull/1",
		Branch: "b",
		Head:   "a",
	}), "true")
	equal(t, "another one", is(Pull{
		ID:     "x",
		URL:    "https://f/team/store/pull/1",
		Branch: "b",
		Head:   "c",
	}), "false")
	w.Pull.ID = "x"
	equal(t, "by its id", is(Pull{ID: "x", URL: "https://f/team/store/pull/1"}), "true")
	equal(t, "another id", is(Pull{
		ID:     "y",
		URL:    "https://f/team/shop/pull/1",
		Branch: "b",
		Head:   "a",
	}), "false")
}

// TestCrowd checks that what strangers write does not push out what a person with the right to
// push has asked for.
func TestCrowd(t *testing.T) {
	f := Feedback{Reviews: true}
	p := Pull{Reviews: []Review{{
		ID:     "1",
		Author: "kim",
		Writer: true,
		State:  reviewChanges,
		At:     noon,
	}}}
	for range MaxReviews {
		p.Reviews = append(p.Reviews, Review{Author: "stranger", State: reviewChanges, At: noon})
	}
	w := &Watch{}
	w.Update(p, f, noon)
	equal(t, "kept", len(w.Pull.Reviews), 1)
	equal(t, "asked for", len(w.NewReviews(f, noon.Add(time.Hour))), 1)
	f.Reviewers = []string{"Stranger"}
	w.Update(p, f, noon)
	equal(t, "named reviewers", len(w.Pull.Reviews), keptReviews)
}

// A hold about a pull request stays while the issue is not active, and ends when a person
// moves it back.
func TestHeldForItsPull(t *testing.T) {
	review := issueNo(1, inState("Human Review"))
	active := issueNo(1)
	done := issueNo(1, inState("Done"))
	for _, reason := range []string{HoldPullClosed, HoldFeedbackRounds} {
		for _, row := range []struct {
			issue Issue
			want  string
		}{{review, ""}, {done, "release A-1 terminal"}, {active, "retry A-1 moved; dispatch A-1 requested"}} {
			equal(
				t,
				reason+" in "+row.issue.State,
				story(Compute(newScene().held(review, reason).answer(row.issue).Snapshot)),
				row.want,
			)
		}
	}
	// A merge moves an issue that is held for its pull request, but not one that an operator
	// holds.
	for held, want := range map[string]bool{HoldFeedbackRounds: true, "": false} {
		w := Watch{Claim: Held, Held: held, Pull: Pull{State: PullMerged}}
		equal(t, "merged while held: "+held, w.Asks(Feedback{State: "Todo"}, noon), want)
	}
	// Only what is not the base's fault, or hidden there, is the pull request's own.
	hidden := Checks{Hidden: true, State: CheckFailure}
	equal(t, "hidden on both", len(OwnFailures(hidden.all(), hidden)), 0)
	equal(t, "hidden, the base passes", len(OwnFailures(hidden.all(), Checks{State: CheckSuccess})), 1)
	equal(
		t,
		"a new claim",
		strings.Contains(
			HeldClaim(review, "p", HoldPullClosed, "closed", noon).HoldText(),
			"moving the issue to an active state",
		),
		true,
	)
}

// TestSummary checks the words about a draft, whose failed check is not in the list.
func TestSummary(t *testing.T) {
	p := Pull{
		State:  "open",
		Draft:  true,
		Checks: Checks{State: CheckFailure, Cut: true, List: []Check{{State: CheckSuccess}}},
	}
	p.Reviews = []Review{{State: "approved", Writer: true}}
	equal(t, "summary", *p.Summary(), PullRequest{
		State:  "draft",
		Checks: "failed",
		Review: "approved",
	})
}

// TestVerdict checks that a request for changes counts until its author gives another verdict.
// An approval by another person does not end it.
func TestVerdict(t *testing.T) {
	by := func(author, state string) Review { return Review{Author: author, State: state, Writer: true} }
	for _, row := range []struct {
		reviews []Review
		want    string
	}{
		{nil, ""},
		{[]Review{by("kim", "commented")}, ""},
		{[]Review{by("kim", "approved"), by("kim", "commented")}, "approved"},
		{[]Review{by("kim", "changes_requested"), by("lee", "approved")}, "changes_requested"},
		{[]Review{by("kim", "changes_requested"), by("lee", "approved"), by("kim", "approved")}, "approved"},
		{[]Review{by("kim", "approved"), by("lee", "changes_requested")}, "changes_requested"},
		{[]Review{by("kim", "dismissed"), by("lee", "approved")}, "approved"},
		{[]Review{by("kim", "approved"), by("kim", "dismissed")}, ""},
		{[]Review{{Author: "mallory", State: "approved"}}, ""},
	} {
		equal(t, fmt.Sprint(row.reviews), Pull{Reviews: row.reviews}.Summary().Review, row.want)
	}
}

// TestSeen checks which events of a pull request are noted: the end of the checks of each commit,
// and of the pull request, once.
func TestSeen(t *testing.T) {
	w := &Watch{Delivered: Delivered{Commit: "a"}}
	at := noon
	for _, row := range []struct {
		ours, commit, checks, state string
		seen                        int
	}{
		{"a", "a", "", "open", 0},
		{"a", "a", CheckPending, "open", 0},
		{"a", "p", CheckFailure, "open", 0}, // a person's commit
		{"a", "a", CheckSuccess, "open", 1},
		{"a", "a", CheckSuccess, "open", 1},
		{"b", "a", CheckFailure, "open", 1}, // the forge still shows the commit before
		{"b", "b", CheckFailure, "open", 2},
		{"b", "b", CheckSuccess, PullMerged, 4},
		{"b", "b", CheckSuccess, PullMerged, 4},
		{"a", "a", CheckFailure, "open", 5}, // a check came late
	} {
		at = at.Add(time.Minute)
		w.Delivered.Commit = row.ours
		w.Update(Pull{
			State:  row.state,
			Head:   row.commit,
			Checks: Checks{Commit: row.commit, State: row.checks},
		}, Feedback{}, at)
		equal(t, fmt.Sprint(row), len(w.Seen), row.seen)
	}
	equal(t, "when", w.Seen[0], Observation{noon.Add(4 * time.Minute), "a", CheckSuccess})
}

// Another machine that goes on with an issue learns which causes were answered: not those for which an
// agent is still at work.
func TestAnswered(t *testing.T) {
	var w Watch
	w.Pull.Checks.Commit = "c1"
	w.BeginRound(&Rework{Round: 1, Commit: "c1", Reviews: []Review{{ID: "7"}}})
	w.Rework = nil
	w.BeginRound(&Rework{Round: 2, Commit: "c1", Checks: []Check{{Name: "lint and test"}}})
	w.Rework = nil
	w.BeginRound(&Rework{Round: 3, Commit: "c1", Conflict: true, Checks: []Check{{Name: "build"}}})
	before := len(w.Handled)
	causes, rounds := w.Answered()
	equal(t, "causes", strings.Join(causes, "; "), "review 7; check c1 lint and test")
	equal(t, "rounds", rounds, 2)
	equal(t, "the watch is as before", len(w.Handled), before)

	var heir Watch
	heir.Inherit(causes, rounds)
	heir.Pull.Checks.Commit = "c1"
	equal(t, "known checks", strings.Join(heir.knownFailures().Told, "; "), "lint and test")
	equal(t, "known review", heir.handled("review 7"), true)
	equal(t, "rounds", heir.Rounds, 2)
}
