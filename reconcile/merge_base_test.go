package reconcile

import (
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
	later := mergeNoon.Add(mergeRetries)
	test.Equal(t, "a forge that says no base", []any{see(""), w.WantsTry(f, mergeNoon)}, []any{pullUnknown, false})
	test.Equal(t, "before", []any{see("b"), w.WantsTry(f, mergeNoon)}, []any{pullUnknown, true})
	w.NoteTry(false, false, mergeNoon)
	test.Equal(t, "git failed", []any{see("b"), w.WantsTry(f, mergeNoon)}, []any{pullUnknown, false})
	test.Equal(t, "later", w.WantsTry(f, later), true)
	w.NoteTry(true, true, later)
	test.Equal(t, "a conflict", []any{see("b"), w.WantsTry(f, later.Add(time.Hour))}, []any{pullConflicts, false})
	test.Equal(t, "another base", []any{see("c"), w.WantsTry(f, later)}, []any{pullUnknown, true})
	w.NoteTry(true, false, later)
	test.Equal(t, "no conflict", see("c"), pullMergeable)
}
