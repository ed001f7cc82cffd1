package reconcile

import (
	"slices"
	"time"
)

// TriedMerge is git's answer to the question whether a pull request conflicts with its base.
type TriedMerge struct {
	Head string    `json:"head"`
	Base string    `json:"base"` // the newest commit of the base
	At   time.Time `json:"at"`
	// Mergeable is as in Pull; empty if git could not answer.
	Mergeable string `json:"mergeable,omitempty"`
}

// is reports whether the answer is about the commits of a pull request. Without the commit of the
// base nobody knows.
func (t TriedMerge) is(p Pull) bool {
	return p.BaseCommit != "" && t.Head == p.Head && t.Base == p.BaseCommit
}

// WantsTry reports whether git is to be asked if the pull request conflicts with its base: once
// for each pair of commits, and again later if git could not answer.
func (w *Watch) WantsTry(f Feedback, now time.Time) bool {
	isWanted := f.Conflicts || f.Merge.On()
	if !isWanted || w.Pull.State != pullOpen || w.Pull.Mergeable != pullUnknown || w.Pull.BaseCommit == "" {
		return false
	}
	return !w.TriedMerge.is(w.Pull) || now.Sub(w.TriedMerge.At).Abs() >= mergeRetries
}

// NoteTry notes git's answer. known is false if git could not answer.
func (w *Watch) NoteTry(known, conflicts bool, now time.Time) {
	w.TriedMerge = TriedMerge{Head: w.Pull.Head, Base: w.Pull.BaseCommit, At: now}
	if !known {
		return
	}
	w.TriedMerge.Mergeable = pullMergeable
	if conflicts {
		w.TriedMerge.Mergeable = pullConflicts
	}
	w.Pull.Mergeable = w.TriedMerge.Mergeable
}

// BaseMerges are the merges of the base that symphony has made on top of a delivered commit,
// because the base demands that a branch contain it.
type BaseMerges struct {
	On      string    `json:"on"`      // the delivered commit
	Commits []string  `json:"commits"` // the oldest first
	At      time.Time `json:"at"`      // of the last one
}

// isOwn reports whether a commit is the delivered one, or a merge of the base on top of it that
// symphony has made.
func (w *Watch) isOwn(commit string) bool {
	return commit == w.Delivered.Commit || slices.Contains(w.baseMerges(), commit)
}

func (w *Watch) baseMerges() []string {
	if w.BaseMerges.On != w.Delivered.Commit {
		return nil
	}
	return w.BaseMerges.Commits
}

// BeginUpdate notes a merge of the base that is going to be pushed.
func (w *Watch) BeginUpdate(commit string, now time.Time) {
	w.BaseMerges = BaseMerges{
		On:      w.Delivered.Commit,
		Commits: append(slices.Clone(w.baseMerges()), commit),
		At:      now,
	}
	w.Pushed = Pushed{Commit: commit, On: w.Delivered.Commit, Builds: true}
	w.Merge = nil
}

// HasTurn reports whether the branch was brought up to date with its base to be merged next. No
// other branch of the base is for an hour, as long as this one may be merged.
func (w *Watch) HasTurn(f Feedback, now time.Time) bool {
	merges := w.baseMerges()
	isOver := now.Sub(w.BaseMerges.At).Abs() >= checkPatient // the issue may have been moved
	if w.Ended || w.Pull.State != pullOpen || len(merges) == 0 || isOver {
		return false
	}
	if merges[len(merges)-1] != w.Pull.Head { // the forge does not show it yet, or someone pushed
		return now.Sub(w.BaseMerges.At).Abs() < mergeSettles
	}
	verdict, _ := w.MayMerge(f, now)
	isRefused := w.Merge != nil && w.Merge.State == mergeRefused && w.Merge.Head == w.Pull.Head
	return verdict != MergeNo && !isRefused
}

// QueueMerge notes that another pull request of the base is merged first.
func (w *Watch) QueueMerge(first *Watch, now time.Time) {
	if w.MergeQueued() {
		return
	}
	w.Merge = &MergeTry{
		Head:    w.Pull.Head,
		State:   mergeQueued,
		At:      now,
		Message: first.Identifier + ", which is merged before it",
	}
}

// MergeQueued reports whether the newest commit waits for another pull request of the base.
func (w *Watch) MergeQueued() bool {
	return w.Merge != nil && w.Merge.State == mergeQueued && w.Merge.Head == w.Pull.Head
}
