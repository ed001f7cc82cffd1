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
	// Failure is why git could not answer.
	Failure GitFailure `json:"failure,omitzero"`
}

// GitFailure is why git could not try or make a merge of a base. It stays until git can.
type GitFailure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
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
	return !w.TriedMerge.is(w.Pull) || now.Sub(w.TriedMerge.At).Abs() >= mergeAgain
}

// NoteTry notes git's answer.
func (w *Watch) NoteTry(conflicts bool, now time.Time) {
	w.TriedMerge = TriedMerge{
		Head:      w.Pull.Head,
		Base:      w.Pull.BaseCommit,
		At:        now,
		Mergeable: pullMergeable,
	}
	if conflicts {
		w.TriedMerge.Mergeable = pullConflicts
	}
	w.Pull.Mergeable = w.TriedMerge.Mergeable
}

// NoteFailedTry notes why git could not answer.
func (w *Watch) NoteFailedTry(why GitFailure, now time.Time) {
	w.TriedMerge = TriedMerge{
		Head:    w.Pull.Head,
		Base:    w.Pull.BaseCommit,
		At:      now,
		Failure: why,
	}
}

// GitFailure returns why git could not try the merge of the base, or make it; the zero value if
// it could, or was not asked.
func (w *Watch) GitFailure() GitFailure {
	switch {
	case w.Ended || w.Pull.State != pullOpen:
		return GitFailure{}
	case w.TriedMerge.is(w.Pull) && w.TriedMerge.Mergeable == "":
		return w.TriedMerge.Failure
	case w.isRefused():
		return w.Merge.Failure
	}
	return GitFailure{}
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

// MostUpdates is how often symphony merges the base into a branch between two deliveries by an
// agent. Whoever merges something else into the base each time is faster than the checks.
const MostUpdates = 5

// UpdatesLeft is how often symphony may still merge the base into the branch.
func (w *Watch) UpdatesLeft() int { return MostUpdates - len(w.pushedMerges()) }

// pushedMerges are those merges of the base that the newest commit contains. A later one was
// stored, but not pushed.
func (w *Watch) pushedMerges() []string {
	merges := w.baseMerges()
	return merges[:slices.Index(merges, w.Pull.Head)+1]
}

// BeginUpdate notes a merge of the base that is going to be pushed.
func (w *Watch) BeginUpdate(commit string, now time.Time) {
	w.BaseMerges = BaseMerges{
		On:      w.Delivered.Commit,
		Commits: append(slices.Clone(w.pushedMerges()), commit),
		At:      now,
	}
	w.Pushed = Pushed{Commit: commit, On: w.Delivered.Commit, Builds: true}
	w.Merge = nil
}

// IsBaseMerge reports whether symphony has made a commit to bring the branch up to date with its
// base.
func (w *Watch) IsBaseMerge(commit string) bool { return slices.Contains(w.baseMerges(), commit) }

// HasTurn reports whether the branch was brought up to date with its base to be merged next. The
// turn ends when the pull request is merged or closed, or needs feedback or a person: a check
// that does not end, or another approval, ends it after an hour.
func (w *Watch) HasTurn(f Feedback, now time.Time) bool {
	merges := w.baseMerges()
	isLate := now.Sub(w.BaseMerges.At).Abs() >= checkPatient
	if w.Ended || w.Pull.State != pullOpen || len(merges) == 0 || isLate || w.isRefused() || w.isLeft() {
		return false
	}
	if merges[len(merges)-1] != w.Pull.Head { // the forge does not show it yet, or someone pushed
		return now.Sub(w.BaseMerges.At).Abs() < checksBegin
	}
	verdict, _ := w.MayMerge(f, now)
	return verdict != MergeNo
}

// EndTurn notes that a person has moved the issue, so that its pull request is not merged.
func (w *Watch) EndTurn() { w.BaseMerges.At = time.Time{} }

// GoesBefore reports whether an open pull request of the same base is merged before another one,
// whose branch needs its base. If both have a turn, because the base moved on meanwhile, the
// older one goes first: otherwise each would wait for the other.
func (w *Watch) GoesBefore(other *Watch, f Feedback, now time.Time) bool {
	isSame := w.IssueID == other.IssueID
	if isSame || w.Pull.Base != other.Pull.Base || !w.HasTurn(f, now) {
		return false
	}
	return w.Pull.Number < other.Pull.Number || !other.HasTurn(f, now)
}

// isRefused reports whether the newest commit could not be merged.
func (w *Watch) isRefused() bool {
	return w.Merge != nil && w.Merge.State == mergeRefused && w.Merge.Head == w.Pull.Head
}

// isLeft reports whether a person has ended auto-merge of the newest commit, which symphony then
// does not merge.
func (w *Watch) isLeft() bool {
	return w.Merge != nil && w.Merge.State == mergeEnded && w.Merge.Head == w.Pull.Head
}

// QueueMerge notes that another pull request of the base is merged first.
func (w *Watch) QueueMerge(first *Watch, now time.Time) {
	w.waitFor(first.Identifier+", which is merged before it", now)
}

// PutOff notes that a pass had no time left to bring the branch up to date.
func (w *Watch) PutOff(now time.Time) {
	w.waitFor("the next pass, because git has taken the time of this one", now)
}

func (w *Watch) waitFor(message string, now time.Time) {
	since := now
	if w.MergeQueued() {
		since = w.Merge.At
	}
	w.Merge = &MergeTry{
		Head:    w.Pull.Head,
		State:   mergeQueued,
		At:      since,
		Message: message,
	}
}

// MergeQueued reports whether the newest commit waits for another pull request of the base, or
// for the next pass.
func (w *Watch) MergeQueued() bool {
	return w.Merge != nil && w.Merge.State == mergeQueued && w.Merge.Head == w.Pull.Head
}
