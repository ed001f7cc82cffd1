package reconcile

import (
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
)

var mergeNoon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// approvedWatch is a green pull request that ann has approved an hour after its push.
func approvedWatch() *Watch {
	return &Watch{
		Delivered: Delivered{Commit: "c"},
		HeadAt:    mergeNoon.Add(-time.Hour),
		Pull: Pull{
			State:     pullOpen,
			Head:      "c",
			Mergeable: pullMergeable,
			Checks:    Checks{Commit: "c", State: CheckSuccess, List: []Check{{Name: "test", State: CheckSuccess}}},
			Reviews:   []Review{{ID: "1", Author: "ann", Writer: true, State: reviewApproved, Commit: "c"}},
		},
	}
}

func TestMayMerge(t *testing.T) {
	approved := Merge{When: MergeApproved, Method: "squash"}
	green := Merge{When: MergeGreen, Method: "squash"}
	review := func(author, state string) func(*Watch) {
		return func(w *Watch) {
			w.Pull.Reviews = append(w.Pull.Reviews, Review{
				ID: "2", Author: author, Writer: author != "reader", State: state, Commit: "c",
				At: mergeNoon.Add(-time.Hour),
			})
		}
	}
	noReview := func(w *Watch) { w.Pull.Reviews = nil }
	noChecks := func(w *Watch) { w.Pull.Checks = Checks{Commit: "c"} }
	check := func(state string) func(*Watch) {
		return func(w *Watch) { w.Pull.Checks.List[0].State = state }
	}
	both := func(changes ...func(*Watch)) func(*Watch) {
		return func(w *Watch) {
			for _, change := range changes {
				change(w)
			}
		}
	}
	proof := func(w *Watch) { w.Delivered.Proof = "`check.sh`" }
	workflow := func(w *Watch) { w.Delivered.Workflow = "ops/WORKFLOW.md" }
	for name, c := range map[string]struct {
		merge  Merge
		change func(*Watch)
		want   MergeVerdict
		text   string
	}{
		"off":                        {Merge{}, nil, MergeNo, "a person"},
		"approved":                   {approved, nil, MergeGo, "approved by ann"},
		"approved twice":             {approved, review("bob", reviewApproved), MergeGo, "approved by ann, bob"},
		"not approved":               {approved, noReview, MergeNo, "an approval"},
		"approved by a reader":       {approved, both(noReview, review("reader", reviewApproved)), MergeNo, "an approval"},
		"an earlier commit approved": {approved, func(w *Watch) { w.Pull.Reviews[0].Commit = "b" }, MergeNo, "an approval"},
		"the approval dismissed":     {approved, review("ann", "dismissed"), MergeNo, "an approval"},
		"a comment without words":    {approved, review("ann", reviewComment), MergeGo, "approved by ann"},
		"a comment with words": {
			approved,
			both(review("ann", reviewComment), func(w *Watch) { w.Pull.Reviews[1].Body = "But the name is wrong." }),
			MergeNo,
			"an answer to a review",
		},
		"ann changed her mind":      {approved, review("ann", reviewChanges), MergeNo, "an approval by ann, who asked"},
		"bob asks for changes":      {approved, review("bob", reviewChanges), MergeNo, "an approval by bob, who asked"},
		"a reader asks for changes": {approved, review("reader", reviewChanges), MergeGo, "approved by ann"},
		"bob approves later": {
			approved, both(review("bob", reviewChanges), review("bob", reviewApproved), func(w *Watch) {
				w.Handled = []string{"review 2"} // the issue has come back for it
			}),
			MergeGo, "approved by ann, bob",
		},
		"someone pushed": {
			approved,
			func(w *Watch) { w.Pull.Head = "d"; w.Pushed = Pushed{Commit: "d", On: "c", Builds: true} },
			MergeNo, "symphony did not deliver commit d",
		},
		"a draft":        {approved, func(w *Watch) { w.Pull.Draft = true }, MergeNo, "a draft"},
		"held":           {approved, func(w *Watch) { w.Claim = Held }, MergeNo, "the issue, which is held"},
		"worked on":      {approved, func(w *Watch) { w.Claim = Running }, MergeNo, "the issue, which is held or worked on"},
		"needs help":     {approved, func(w *Watch) { w.Blocked = true }, MergeNo, "the issue, which is not finished"},
		"came back":      {approved, func(w *Watch) { w.Rework = &Rework{} }, MergeNo, "the issue, which is not finished"},
		"closed":         {approved, func(w *Watch) { w.Pull.State = PullClosed }, MergeNo, "a person"},
		"conflict":       {approved, func(w *Watch) { w.Pull.Mergeable = pullConflicts }, MergeNo, "a merge of its base"},
		"not known yet":  {approved, func(w *Watch) { w.Pull.Mergeable = "unknown" }, MergeWait, "the forge"},
		"just pushed":    {approved, func(w *Watch) { w.HeadAt = mergeNoon }, MergeWait, "may not have begun"},
		"red":            {approved, check(CheckFailure), MergeNo, "green checks"},
		"cancelled":      {approved, check(CheckOpen), MergeNo, "green checks"},
		"at work":        {approved, check(CheckPending), MergeWait, "checks, which are at work"},
		"a hidden check": {approved, func(w *Watch) { w.Pull.Checks.Hidden = true }, MergeGo, "approved by ann"},
		"a hidden check failed": {
			approved, func(w *Watch) { w.Pull.Checks.Hidden = true; w.Pull.Checks.State = CheckFailure },
			MergeNo, "green checks",
		},
		"checks of another commit": {
			approved, func(w *Watch) { w.Pull.Checks.Commit = "b" },
			MergeWait, "checks, which are at work",
		},
		"approved without checks": {approved, noChecks, MergeGo, "approved by ann"},
		"green":                   {green, noReview, MergeGo, "its checks are green"},
		"green and approved":      {green, nil, MergeGo, "approved by ann"},
		"green without checks":    {green, both(noReview, noChecks), MergeWait, "a check, which it does not have"},
		"green, WORKFLOW.md changed": {
			green, both(noReview, workflow),
			MergeNo, "an approval by a person, because it changes what symphony runs outside the sandbox: ops/WORKFLOW.md",
		},
		"green, WORKFLOW.md changed, approved": {green, workflow, MergeGo, "approved by ann"},
		"green, its proof changed": {
			green, both(noReview, proof),
			MergeNo, "an approval by a person, because of changed files that its checks may run or obey: `check.sh`",
		},
		"green, its proof changed, approved by a bot": {
			green, both(proof, func(w *Watch) { w.Pull.Reviews[0].Bot = true }),
			MergeNo, "an approval by a person",
		},
		"green, its proof changed, approved": {green, proof, MergeGo, "approved by ann"},
		"its proof changed, approved":        {approved, proof, MergeGo, "approved by ann"},
	} {
		w := approvedWatch()
		if c.change != nil {
			c.change(w)
		}
		verdict, text := w.MayMerge(Feedback{State: "In Progress", Reviews: true, Merge: c.merge}, mergeNoon)
		if verdict != c.want || !strings.Contains(text, c.text) {
			t.Errorf("%s: %s, %q; want %s, %q", name, verdict, text, c.want, c.text)
		}
	}
}

func TestPlanMerge(t *testing.T) {
	byAnn := MergePlan{Do: MergeNow, Why: "approved by ann"}
	later := MergePlan{Do: MergeArm, Why: "approved by ann"}
	refused := func(part string) MergePlan { return MergePlan{Refused: part} }
	for name, c := range map[string]struct {
		rules MergeRules
		want  MergePlan
	}{
		"nothing missing": {MergeRules{Head: "c", Methods: []string{"squash"}, Auto: true}, byAnn},
		"moved meanwhile": {MergeRules{Head: "d", Methods: []string{"squash"}}, MergePlan{}},
		"something is":    {MergeRules{Head: "c", Methods: []string{"squash"}, Auto: true, Missing: true}, later},
		"no auto-merge":   {MergeRules{Head: "c", Methods: []string{"squash"}, Missing: true}, refused("does not allow auto-merge")},
		"another method":  {MergeRules{Head: "c", Methods: []string{"merge", "rebase"}}, refused("squash, but merge, rebase")},
		"a queue":         {MergeRules{Head: "c", Queue: true}, later},
		"behind":          {MergeRules{Head: "c", Methods: []string{"squash"}, Behind: true}, MergePlan{Do: MergeUpdate, Why: "approved by ann"}},
	} {
		w := approvedWatch()
		got := w.PlanMerge(Feedback{Merge: Merge{When: MergeApproved, Method: "squash"}}, c.rules)
		if !strings.Contains(got.Refused, c.want.Refused) {
			t.Errorf("%s: refused %q, want %q", name, got.Refused, c.want.Refused)
		}
		got.Refused = c.want.Refused
		test.Equal(t, name, got, c.want)
	}
}

// A base that takes only what was rebased gets no merges of itself, unless a squash removes them.
func TestLinearBase(t *testing.T) {
	rules := MergeRules{Head: "c", Methods: []string{"squash", "rebase"}, Behind: true, Linear: true}
	plan := func(method string) MergePlan {
		return approvedWatch().PlanMerge(Feedback{Merge: Merge{When: MergeApproved, Method: method}}, rules)
	}
	test.Equal(t, "by squash", plan("squash").Do, MergeUpdate)
	test.Equal(t, "by rebase", plan("rebase").Do, "")
	if reason := plan("rebase").Refused; !strings.Contains(reason, "set merge.method: squash") {
		t.Errorf("refused %q", reason)
	}
	rules.Behind = false
	test.Equal(t, "up to date", plan("rebase").Do, MergeNow)
}

// A merge is tried once, and again only later, or if the forge may not have got the request.
func TestMergeDue(t *testing.T) {
	f := Feedback{State: "In Progress", Merge: Merge{When: MergeApproved, Method: "squash"}}
	at := func(state string) *MergeTry {
		return &MergeTry{Head: "c", State: state, At: mergeNoon.Add(-time.Minute)}
	}
	for name, c := range map[string]struct {
		try  *MergeTry
		auto string
		want bool
	}{
		"never tried":         {nil, "", true},
		"begun":               {at(mergeBegun), AutoMergeOff, true},
		"armed":               {at(mergeArmed), AutoMergeOn, true}, // the issue may have been moved
		"being taken back":    {at(mergeDisarming), AutoMergeOff, true},
		"ended at the forge":  {at(mergeArmed), AutoMergeOff, false},
		"refused":             {at(mergeRefused), "", false},
		"refused long ago":    {&MergeTry{Head: "c", State: mergeRefused, At: mergeNoon.Add(-time.Hour)}, "", true},
		"another was refused": {&MergeTry{Head: "b", State: mergeRefused, At: mergeNoon}, "", true},
		"merged":              {at(mergeDone), "", false},
	} {
		w := approvedWatch()
		w.Merge = c.try
		pull := w.Pull
		pull.AutoMerge = c.auto
		w.Update(pull, f, mergeNoon)
		w.NoteArming(mergeNoon)
		test.Equal(t, name, w.MergeDue(f, mergeNoon), c.want)
	}
}

// A merge counts as symphony's only if it was the commit that symphony had asked for.
func TestMergedBy(t *testing.T) {
	w := approvedWatch()
	w.BeginMerge("approved by ann", mergeNoon)
	test.Equal(t, "open", w.MergedBy(), "")
	w.Pull.State = PullMerged
	test.Equal(t, "died before the answer", w.MergedBy(), "merged by symphony, approved by ann")
	w.EndMerge(false)
	test.Equal(t, "armed", w.MergedBy(), "merged by symphony, approved by ann")
	w.Pull.Head = "d"
	test.Equal(t, "another commit", w.MergedBy(), "")
	w.RefuseMerge("no", mergeNoon)
	test.Equal(t, "refused, then merged by a person", w.MergedBy(), "")
}
