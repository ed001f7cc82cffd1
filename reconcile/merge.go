package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Merge says when symphony merges the pull request of an issue that was handed over. With the
// zero value it never does.
type Merge struct {
	When   string // MergeApproved or MergeGreen; empty for never
	Method string // squash, merge or rebase
}

// The values of Merge.When.
const (
	MergeApproved = "approved" // once a reviewer approved the delivered commit
	MergeGreen    = "green"    // once its checks are green
)

// On reports whether symphony merges pull requests.
func (m Merge) On() bool { return m.When != "" }

// Merging is a merge to make. The forge refuses it unless Head is still the newest commit of
// the pull request.
type Merging struct {
	Number int
	Head   string
	Method string // squash, merge or rebase; a merge queue ignores it
}

// MergeRules are what a forge says about a merge that symphony wants to make.
type MergeRules struct {
	Head    string   // the newest commit of the pull request
	Methods []string // that the repository allows: squash, merge, rebase
	// Missing: the base requires something, such as a second approval, that is missing or may
	// be missing. The forge merges later if Auto.
	Missing bool
	Auto    bool // the forge can merge by itself, once nothing is missing
	Queue   bool // the base has a merge queue, through which everything is merged
	Behind  bool // the base demands that the branch contain its newest commit, which it does not
	// Linear: the base takes the commits of a branch as they are, unless they are squashed. A
	// merge of the base among them would be in its history, which people keep free of merges.
	Linear bool
}

// MergeMethods returns the names of the methods that a repository allows, as in MergeRules.
func MergeMethods(squash, merge, rebase bool) []string {
	var names []string
	if squash {
		names = append(names, "squash")
	}
	if merge {
		names = append(names, "merge")
	}
	if rebase {
		names = append(names, "rebase")
	}
	return names
}

// ErrBehind is wrapped by the error of a merge that the base refuses because the branch lacks its
// newest commit.
var ErrBehind = errors.New("the base demands that the branch contain its newest commit")

// ErrLater is wrapped by the error of a merge that may succeed soon: the pull request or its
// base was just changed, or the forge still computes whether they conflict.
var ErrLater = errors.New("the forge asks to try it again later")

// MergeTry is what symphony did last to merge a pull request.
type MergeTry struct {
	Head  string    `json:"head"` // the commit that is to be merged
	State string    `json:"state"`
	At    time.Time `json:"at"`
	// Why it may be merged, such as "approved by ann"
	Why string `json:"why,omitempty"`
	// LookedAt is when the forge, which merges by itself, was asked last whether it can.
	LookedAt time.Time `json:"looked_at,omitzero"`
	// Message is why it was refused, or for what it is queued.
	Message string `json:"message,omitempty"`
	// Failure is git's, if it was refused for that.
	Failure   GitFailure `json:"failure,omitzero"`
	Commented bool       `json:"commented,omitempty"` // the issue has the comment about the merge
}

// The states of a MergeTry.
const (
	mergeBegun = "begun" // it is not known whether the forge has got the request
	mergeArmed = "armed" // the forge merges by itself, once nothing is missing
	// symphony takes that back, and it is not known whether the forge has got the request
	mergeDisarming = "disarming"
	mergeDone      = "merged"  // the forge has merged
	mergeRefused   = "refused" // it is tried again later
	mergeEnded     = "ended"   // the forge, or a person there, ended what was armed
	mergeQueued    = "queued"  // another pull request of the base is merged first, or a pass has no time
)

const (
	// checksBegin is how long after a push all of its checks have begun.
	checksBegin = 2 * time.Minute
	// mergeAgain is how long after a refusal a merge is tried again.
	mergeAgain = 10 * time.Minute
)

// MergeVerdict says whether a pull request may be merged now.
type MergeVerdict string

// The verdicts.
const (
	MergeNo   MergeVerdict = "no"   // what the forge was asked to do later is taken back
	MergeWait MergeVerdict = "wait" // not yet; what the forge was asked to do later stays
	MergeGo   MergeVerdict = "go"
)

// MayMerge decides whether the pull request may be merged, as far as it was read. For MergeGo,
// text is the reason, such as "approved by ann"; otherwise what it waits for, such as "an
// approval".
func (w *Watch) MayMerge(f Feedback, now time.Time) (verdict MergeVerdict, text string) {
	if reason := w.unmergeable(f); reason != "" {
		return MergeNo, reason
	}
	by, missing := w.approval(f)
	switch {
	case missing != "":
		return MergeNo, missing
	case w.unquiet(f, now) != nil:
		return MergeWait, "two quiet minutes after a review"
	case len(w.unanswered(f)) > 0:
		return MergeNo, "an answer to a review"
	case w.Pull.Checks.Commit != w.Pull.Head || w.pending():
		return MergeWait, "checks, which are at work"
	case len(w.Pull.Checks.all()) == 0 && f.Merge.When == MergeGreen:
		return MergeWait, "a check, which it does not have"
	case !w.green():
		return MergeNo, "green checks"
	case now.Sub(w.HeadAt) < checksBegin:
		return MergeWait, "checks, which may not have begun yet"
	case w.Pull.Mergeable != pullMergeable:
		return MergeWait, w.unknownMerge(f, now)
	}
	return MergeGo, by
}

// unknownMerge says for what a pull request waits of which it is not known whether it conflicts
// with its base.
func (w *Watch) unknownMerge(f Feedback, now time.Time) string {
	switch {
	case w.GitFailure() != GitFailure{}:
		return "git, which could not try the merge of its base: " + w.GitFailure().Message
	case w.WantsTry(f, now):
		return "the next pass, in which git tries the merge of its base"
	}
	return "the forge, which does not know yet whether it can be merged"
}

// unmergeable returns what must change before anyone's approval counts; empty if nothing must.
func (w *Watch) unmergeable(f Feedback) string {
	switch {
	case !f.Merge.On() || w.Ended || w.Pull.State != pullOpen:
		return "a person"
	case w.Differs() != "":
		return "a person: " + w.Differs()
	case w.Rework != nil || w.Blocked:
		return "the issue, which is not finished"
	case w.Claim != "":
		return "the issue, which is held or worked on"
	case !w.isOwn(w.Pull.Head):
		return fmt.Sprintf("a person: symphony did not deliver commit %.12s", w.Pull.Head)
	case w.Pull.Draft:
		return "a person: it is a draft"
	case w.Pull.Mergeable == pullConflicts:
		return "a merge of its base, with which it conflicts"
	}
	if who := w.objectors(f); len(who) > 0 {
		return "an approval by " + named(who) + ", who asked for changes"
	}
	return ""
}

// green reports whether no check of the newest commit failed, or ended without a verdict.
func (w *Watch) green() bool {
	return !slices.ContainsFunc(w.Pull.Checks.all(), func(c Check) bool {
		return c.State != CheckSuccess && c.State != CheckSkipped
	})
}

// approval returns why the pull request may be merged, or what is missing for that.
func (w *Watch) approval(f Feedback) (by, missing string) {
	who := w.approvers(f)
	switch {
	case w.Taken != nil && w.sees(w.Taken.Commit):
		return "taken by " + w.Taken.By, ""
	case w.Delivered.Workflow != "" && !w.approvedByPerson(f):
		return "", "an approval by a person, because it changes what symphony runs outside the sandbox: " +
			w.Delivered.Workflow
	case f.Merge.When == MergeGreen && w.Delivered.Proof != "" && !w.approvedByPerson(f):
		return "", "an approval by a person, because of changed files that its checks may run or obey: " +
			w.Delivered.Proof
	case len(who) > 0:
		return "approved by " + named(who), ""
	case f.Merge.When == MergeGreen:
		return "its checks are green", ""
	}
	return "", "an approval"
}

// approvers are the people whose last verdict approves the newest commit: what was pushed after
// an approval nobody has seen.
func (w *Watch) approvers(f Feedback) []string {
	return w.lastVerdicts(func(r Review) bool { return w.approves(r) && f.listensTo(r) })
}

// approves reports whether a review approves the newest commit.
func (w *Watch) approves(r Review) bool { return r.State == reviewApproved && w.sees(r.Commit) }

// sees reports whether a person who approved a commit has seen the newest one: it is the same, or
// symphony has merged the base into it since, without a conflict and without an agent.
func (w *Watch) sees(commit string) bool {
	return commit == w.Pull.Head || w.isOwn(commit) && w.isOwn(w.Pull.Head)
}

// approvedByPerson reports whether one of the approvers is a person.
func (w *Watch) approvedByPerson(f Feedback) bool {
	people := w.lastVerdicts(func(r Review) bool {
		return w.approves(r) && f.listensTo(r) && !r.Bot
	})
	return len(people) > 0
}

// objectors are the people whose last verdict asks for changes of any commit.
func (w *Watch) objectors(f Feedback) []string {
	return w.lastVerdicts(func(r Review) bool {
		return r.State == reviewChanges && (r.Writer || f.listensTo(r))
	})
}

// lastVerdicts returns the sorted authors of the reviews that fit, of each author's last review
// that is more than a comment.
func (w *Watch) lastVerdicts(fits func(Review) bool) (authors []string) {
	last := map[string]Review{}
	for _, r := range w.Pull.Reviews {
		if r.State != reviewComment {
			last[r.Author] = r
		}
	}
	for author, r := range last {
		if fits(r) {
			authors = append(authors, author)
		}
	}
	slices.Sort(authors)
	return authors
}

// MergePlan is how a pull request with MergeGo is merged.
type MergePlan struct {
	Do      string // MergeNow, MergeArm, or empty if it is not to be merged
	Refused string // why not, for people; empty if the next pass shall look again
	Why     string // why it may be merged, such as "approved by ann"
}

// The values of MergePlan.Do.
const (
	MergeNow    = "merge"
	MergeArm    = "arm"    // the forge merges later
	MergeUpdate = "update" // symphony merges the base into the branch first
)

// PlanMerge decides how a pull request with MergeGo is merged.
func (w *Watch) PlanMerge(f Feedback, rules MergeRules) MergePlan {
	if rules.Head != w.Pull.Head {
		return MergePlan{}
	}
	why, _ := w.approval(f)
	p := MergePlan{Do: MergeNow, Why: why}
	switch {
	case rules.Queue:
		p.Do = MergeArm
	case !slices.Contains(rules.Methods, f.Merge.Method):
		return MergePlan{Refused: fmt.Sprintf("the repository does not allow merge.method: %s, but %s",
			f.Merge.Method, strings.Join(rules.Methods, ", "))}
	case rules.Behind && rules.Linear && f.Merge.Method != "squash":
		return MergePlan{Refused: "the base has moved on, and takes only branches that were rebased onto it, " +
			"which symphony does not do: rebase and merge it yourself, or set merge.method: squash"}
	case rules.Behind:
		p.Do = MergeUpdate
	case rules.Missing && !rules.Auto:
		return MergePlan{Refused: "the base requires something that is missing, such as another approval, " +
			"and the repository does not allow auto-merge"}
	case rules.Missing:
		p.Do = MergeArm
	}
	return p
}

// IsOpen reports whether the pull request was open when it was read last.
func (w *Watch) IsOpen() bool { return !w.Ended && w.Pull.State == pullOpen }

// Take notes that an operator has taken the result, as its newest commit is. What was refused or
// ended is tried again.
func (w *Watch) Take(by string) {
	w.Taken = &Taken{By: by, Commit: w.Pull.Head}
	if w.Merge != nil && (w.Merge.State == mergeRefused || w.Merge.State == mergeEnded) {
		w.Merge = nil
	}
}

// MergeDue reports whether something has to be done about the merge: it is to be made, or what
// the forge was asked to do later is looked after.
func (w *Watch) MergeDue(f Feedback, now time.Time) bool {
	if w.MayBeArmed() {
		return true
	}
	verdict, _ := w.MayMerge(f, now)
	return verdict == MergeGo && !w.MergeRests(now)
}

// MergeRests reports whether the newest commit is not merged for now, because the forge refused
// it a moment ago, or because auto-merge was ended there.
func (w *Watch) MergeRests(now time.Time) bool {
	t := w.Merge
	if t == nil || t.Head != w.Pull.Head {
		return false
	}
	return t.State == mergeEnded || t.State == mergeDone ||
		t.State == mergeRefused && now.Sub(t.At).Abs() < mergeAgain
}

// MayBeArmed reports whether the forge may merge the open pull request by itself.
func (w *Watch) MayBeArmed() bool {
	return w.Pull.State == pullOpen && w.Merge != nil && w.Merge.wasAsked()
}

// wasAsked reports whether the forge may have got the request, and may still act on it.
func (t *MergeTry) wasAsked() bool {
	return t.State == mergeBegun || t.State == mergeArmed || t.State == mergeDisarming
}

// LeftToForge reports whether symphony leaves the merge to the forge, which was asked for it, for
// now. Every ten minutes it looks whether the forge still can: most forges do not merge a branch
// that the base has left behind meanwhile.
func (w *Watch) LeftToForge(now time.Time) bool {
	return w.MergeArmed() && now.Sub(w.Merge.LookedAt).Abs() < mergeAgain
}

// MergeArmed reports whether the forge was asked to merge the newest commit, and has answered.
func (w *Watch) MergeArmed() bool {
	return w.MayBeArmed() && w.Merge.State == mergeArmed && w.Merge.Head == w.Pull.Head
}

// BeginMerge notes that the newest commit is going to be merged.
func (w *Watch) BeginMerge(why string, now time.Time) {
	if w.MergeArmed() {
		w.Merge.LookedAt = now
		return
	}
	w.Merge = &MergeTry{
		Head:  w.Pull.Head,
		State: mergeBegun,
		At:    now,
		Why:   why,

		LookedAt: now,
	}
}

// EndMerge notes the forge's answer to a merge that was begun: that it has merged, or that it
// will.
func (w *Watch) EndMerge(merged bool) {
	w.Merge.State = mergeArmed
	if merged {
		w.Merge.State = mergeDone
	}
}

// RefuseUpdate notes that git could not merge the base into the branch.
func (w *Watch) RefuseUpdate(message string, why GitFailure, now time.Time) {
	w.RefuseMerge(message+why.Message, now)
	w.Merge.Failure = why
}

// RefuseMerge notes why the newest commit was not merged.
func (w *Watch) RefuseMerge(message string, now time.Time) {
	w.Merge = &MergeTry{
		Head:    w.Pull.Head,
		State:   mergeRefused,
		At:      now,
		Message: message,
	}
}

// BeginDisarm notes that symphony takes back what it has asked the forge for. If it dies before
// it has recorded the answer, the next pass does not mistake that for a person's decision.
func (w *Watch) BeginDisarm() { w.Merge.State = mergeDisarming }

// NoteArming notes that a person, or the forge, has ended auto-merge, which symphony has not
// taken back.
func (w *Watch) NoteArming(now time.Time) {
	if w.MergeArmed() && w.Pull.AutoMerge == AutoMergeOff {
		w.Merge.State = mergeEnded
		w.Merge.At = now
	}
}

// MergedBy returns who has merged the pull request, if that was symphony: "merged by symphony,
// approved by ann". It is empty if it was not.
func (w *Watch) MergedBy() string {
	t := w.Merge
	if t == nil || w.Pull.State != PullMerged || t.Head != w.Pull.Head {
		return ""
	}
	if !t.wasAsked() && t.State != mergeDone {
		return ""
	}
	return "merged by symphony, " + t.Why
}

// Summary describes the pull request for views, with its merge.
func (w *Watch) Summary() *PullRequest {
	s := w.Pull.Summary()
	s.Merge = w.MergedBy()
	if w.MergeArmed() {
		s.Merge = "auto-merge, " + w.Merge.Why
	}
	return s
}

// waitsForMerge returns how the merge of a pull request without other reasons to wait goes on;
// nil if symphony merges none.
func (w *Watch) waitsForMerge(f Feedback, now time.Time) *Waits {
	if !f.Merge.On() || !w.green() || w.Pull.Mergeable == pullConflicts {
		return nil
	}
	verdict, text := w.MayMerge(f, now)
	if w.Merge != nil && w.Merge.Head == w.Pull.Head && verdict == MergeGo {
		switch w.Merge.State {
		case mergeArmed:
			return newWaits(WaitsForge, "the forge, which merges it once its base allows that: "+text, w.Merge.At)
		case mergeRefused:
			return newWaits(WaitsRefused, "a person: symphony could not merge it: "+w.Merge.Message, w.Merge.At)
		case mergeQueued:
			return newWaits(WaitsSymphony, w.Merge.Message+"; then symphony merges it", w.Merge.At)
		case mergeEnded:
			return newWaits(WaitsMerge, "a merge; auto-merge was ended at the forge", w.Merge.At)
		case mergeDone:
			return newWaits(WaitsForge, "the forge, which has merged it", w.Merge.At)
		}
	}
	if verdict == MergeGo {
		return newWaits(WaitsSymphony, "a pass, which merges it: "+text, time.Time{})
	}
	code := WaitsReview
	switch {
	case w.GitFailure() != GitFailure{}:
		code = WaitsRefused
	case verdict == MergeWait:
		code = WaitsSymphony
	}
	return newWaits(code, text+"; then symphony merges it", w.HeadAt)
}
