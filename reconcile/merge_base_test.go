package reconcile

import (
	"strconv"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
)

// A merge of the base that symphony has pushed counts as delivered, and as approved with the
// commit below it. What somebody pushes on top does not.
func TestBaseMerges(t *testing.T) {
	f := Feedback{State: "In Progress", Merge: Merge{When: MergeApproved, Method: "squash"}}
	w := approvedWatch()
	seen := func(head string) MergeVerdict {
		pull := w.Pull
		pull.Head = head
		pull.Checks.Commit = head
		w.Update(pull, f, mergeNoon.Add(-time.Hour))
		verdict, _ := w.MayMerge(f, mergeNoon)
		return verdict
	}
	test.Equal(t, "not pushed", w.HasTurn(f, mergeNoon), false)
	w.BeginUpdate("m1", mergeNoon)
	test.Equal(t, "the forge does not show it yet", w.HasTurn(f, mergeNoon.Add(time.Minute)), true)
	test.Equal(t, "then died before the push", w.HasTurn(f, mergeNoon.Add(3*time.Minute)), false)
	test.Equal(t, "the merge", seen("m1"), MergeGo)
	test.Equal(t, "its turn", w.HasTurn(f, mergeNoon.Add(3*time.Minute)), true)
	test.Equal(t, "after an hour", w.HasTurn(f, mergeNoon.Add(time.Hour)), false)
	w.BeginUpdate("m2", mergeNoon)
	test.Equal(t, "a second merge", seen("m2"), MergeGo)
	w.Merge = &MergeTry{Head: "m2", State: mergeEnded}
	test.Equal(t, "a person has ended auto-merge", w.HasTurn(f, mergeNoon), false)
	w.RefuseMerge("no", mergeNoon)
	test.Equal(t, "refused", w.HasTurn(f, mergeNoon), false)
	w.Merge = nil
	w.EndTurn()
	test.Equal(t, "a person has moved the issue", w.HasTurn(f, mergeNoon), false)
	test.Equal(t, "something else", seen("x"), MergeNo)
	w.Delivered.Commit = "d"
	test.Equal(t, "after a delivery", seen("m2"), MergeNo)
	test.Equal(t, "the delivery, which nobody has approved", seen("d"), MergeNo)
}

// Git's answer counts for a pair of commits. It is asked for again only if it could not answer.
func TestTriedMerge(t *testing.T) {
	f := Feedback{State: "In Progress", Conflicts: true}
	w := approvedWatch()
	pull := w.Pull
	pull.Mergeable = pullUnknown
	see := func(base string) string {
		pull.BaseCommit = base
		w.Update(pull, f, mergeNoon)
		return w.Pull.Mergeable
	}
	later := mergeNoon.Add(mergeAgain)
	test.Equal(t, "a forge that says no base", []any{see(""), w.WantsTry(f, mergeNoon)}, []any{pullUnknown, false})
	test.Equal(t, "before", []any{see("b"), w.WantsTry(f, mergeNoon)}, []any{pullUnknown, true})
	w.NoteFailedTry(GitFailure{"git_limit", "no memory"}, mergeNoon)
	f.Merge = Merge{When: MergeApproved}
	waits := w.WaitsFor(f, mergeNoon)
	test.Equal(t, "what it waits for", waits.Code+" "+waits.Text,
		"merge_refused git, which could not try the merge of its base: no memory; then symphony merges it")
	f.Merge = Merge{}
	test.Equal(t, "the failure", w.GitFailure().Code, "git_limit")
	test.Equal(t, "git failed", []any{see("b"), w.WantsTry(f, mergeNoon)}, []any{pullUnknown, false})
	test.Equal(t, "later", w.WantsTry(f, later), true)
	w.NoteTry(true, later)
	test.Equal(t, "no failure", w.GitFailure(), GitFailure{})
	test.Equal(t, "a conflict", []any{see("b"), w.WantsTry(f, later.Add(time.Hour))}, []any{pullConflicts, false})
	test.Equal(t, "another base", []any{see("c"), w.WantsTry(f, later)}, []any{pullUnknown, true})
	w.NoteTry(false, later)
	test.Equal(t, "no conflict", see("c"), pullMergeable)
}

// Two branches were brought up to date, the second while the first needed feedback, and the base
// moved on: one of them goes first, and the other waits for it.
func TestTurns(t *testing.T) {
	f := Feedback{State: "In Progress", Merge: Merge{When: MergeApproved, Method: "squash"}}
	made := func(number int, name string) *Watch {
		w := approvedWatch()
		w.IssueID = name
		w.Identifier = name
		w.Pull.Number = number
		w.BeginUpdate("m"+name, mergeNoon)
		w.Pull.Head = "m" + name
		w.Pull.Checks.Commit = w.Pull.Head
		return w
	}
	one := made(1, "A-1")
	two := made(2, "A-2")
	before := func() []bool { return []bool{one.GoesBefore(two, f, mergeNoon), two.GoesBefore(one, f, mergeNoon)} }
	test.Equal(t, "both have a turn", before(), []bool{true, false})
	test.Equal(t, "itself", one.GoesBefore(one, f, mergeNoon), false)
	one.Pull.Checks.List[0].State = CheckFailure
	test.Equal(t, "the first needs feedback", before(), []bool{false, true})
	two.Pull.Base = "release"
	test.Equal(t, "another base", before(), []bool{false, false})
	two.QueueMerge(one, mergeNoon)
	one.Identifier = "A-3"
	two.QueueMerge(one, mergeNoon.Add(time.Hour))
	test.Equal(t, "waits", two.WaitsFor(f, mergeNoon).Text, "A-3, which is merged before it; then symphony merges it")
	test.Equal(t, "since", *two.WaitsFor(f, mergeNoon).Since, mergeNoon)
}

// Symphony brings a branch up to date a few times, and again after a delivery by an agent. A merge
// that was not pushed does not count.
func TestUpdatesLeft(t *testing.T) {
	w := approvedWatch()
	for i := range MostUpdates {
		w.BeginUpdate("lost", mergeNoon)
		w.BeginUpdate("m"+strconv.Itoa(i), mergeNoon)
		test.Equal(t, "left before the push", w.UpdatesLeft(), MostUpdates-i)
		w.Pull.Head = "m" + strconv.Itoa(i)
	}
	test.Equal(t, "left", w.UpdatesLeft(), 0)
	test.Equal(t, "stored", len(w.BaseMerges.Commits), MostUpdates)
	w.Delivered.Commit = "d"
	w.Pull.Head = "d"
	test.Equal(t, "after a delivery", w.UpdatesLeft(), MostUpdates)
}
