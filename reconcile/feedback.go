package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Feedback says when an issue that was handed over comes back to an agent: failed checks,
// reviews or conflicts of its pull request. With the zero value none does.
type Feedback struct {
	Checks, Reviews, Conflicts bool
	State                      string // to which the issue is moved then
	// to which it is moved once the pull request is merged; empty for no move
	MergedState string
	Rounds      int // how often an issue comes back before it is held
	Reviewers   []string
	Merge       Merge
}

// On reports whether pull requests are watched.
func (f Feedback) On() bool { return f.State != "" }

// Watch is the stored state of a pull request that symphony opened, for the time after the
// handover.
type Watch struct {
	IssueID    string      `json:"-"`
	Identifier string      `json:"-"`
	Delivered  Delivered   `json:"-"` // symphony's last push
	Claim      ClaimStatus `json:"-"` // the status of the issue's claim; empty if there is none
	// its agent waits for a person, whose review is the only cause then
	Blocked bool `json:"-"`

	// Renamed is the present address, if the repository of Delivered.PullRequest was renamed
	// or moved to another owner. Saving the watch stores it.
	Renamed string `json:"-"`

	Pull   Pull   `json:"pull"` // as it was read last
	Pushed Pushed `json:"pushed,omitzero"`
	Rounds int    `json:"rounds,omitempty"`
	// the causes that bring the issue back no more: each does so once
	Handled  []string      `json:"told,omitempty"`
	Failures KnownFailures `json:"failures,omitzero"`
	Rerun    string        `json:"rerun,omitempty"` // the commit whose failed jobs were run again
	Reran    []int64       `json:"reran,omitempty"` // the workflow runs of these jobs
	// zero once the forge shows that they run again
	RerunAt time.Time `json:"rerun_at,omitzero"`
	ReranAt time.Time `json:"reran_at,omitzero"` // the same, kept
	HeadAt  time.Time `json:"head_at,omitzero"`  // when the newest commit was first seen
	// why the issue came back, until it is handed over again
	Rework  *Rework `json:"rework,omitempty"`
	History []Round `json:"history,omitempty"` // all rounds, the oldest first
	// the events of the pull request, the oldest first
	Seen []Observation `json:"seen,omitempty"`
	// who took the result by symphony done; nil if nobody did
	Taken *Taken `json:"taken,omitempty"`
	// who accepted another base than the delivered one; nil if nobody did
	Accepted *Accepted `json:"accepted,omitempty"`
	// what symphony did last to merge it; nil for nothing
	Merge      *MergeTry  `json:"merge,omitempty"`
	TriedMerge TriedMerge `json:"tried_merge,omitzero"`
	BaseMerges BaseMerges `json:"base_merges,omitzero"`
	// the reason for which the issue was held; empty if it was not, or is not any more
	Held string `json:"held,omitempty"`
	// nothing more is expected of the pull request
	Ended bool `json:"ended,omitempty"`
}

// Taken says that an operator has taken the result of an agent, which approves its pull request.
type Taken struct {
	By     string `json:"by"`     // the operator's account
	Commit string `json:"commit"` // the newest commit of the pull request then
}

// Accepted says that an operator has accepted another base of a pull request.
type Accepted struct {
	By   string `json:"by"`   // the operator's account
	Base string `json:"base"` // such as production
}

// Pushed is the newest commit of the pull request if it is not symphony's delivery: someone else
// pushed it, or it is one of the BaseMerges.
type Pushed struct {
	Commit string `json:"commit"`
	On     string `json:"on"`               // the last commit that symphony had pushed
	Builds bool   `json:"builds,omitempty"` // Commit contains On; otherwise the branch was replaced
}

// KnownFailures are the names of the failed checks of a commit for which the issue does not
// come back again: it came back for the checks in Told already, and the checks in OfBase fail
// on the base, too. A check of another name that fails later on the same commit is a new
// cause.
type KnownFailures struct {
	Commit string   `json:"commit"`
	Told   []string `json:"told,omitempty"`
	OfBase []string `json:"of_base,omitempty"`
}

// Round is a return of an issue.
type Round struct {
	At     time.Time `json:"at"`
	Causes string    `json:"causes"`
}

// Observation is the first time that a pass saw that all checks of a commit, or the pull
// request, had ended.
type Observation struct {
	At     time.Time `json:"at"`
	Commit string    `json:"commit"`
	What   string    `json:"what"` // CheckSuccess, CheckFailure, PullMerged or PullClosed
}

// Rework is the reason why an issue came back.
type Rework struct {
	Round    int       `json:"round"`
	Rounds   int       `json:"rounds"` // how many the workflow allows
	At       time.Time `json:"at"`
	Number   int       `json:"number"` // of the pull request
	Commit   string    `json:"commit"`
	Checks   []Check   `json:"checks,omitempty"` // that have failed
	Reviews  []Review  `json:"reviews,omitempty"`
	Conflict bool      `json:"conflict,omitempty"` // it can't be merged into its base
	Moved    bool      `json:"moved,omitempty"`    // the issue is in Feedback.State
}

// String names the round and the causes in a line, such as "rework 2 of 3: lint failed".
func (r *Rework) String() string {
	return fmt.Sprintf("rework %d of %d: %s", r.Round, r.Rounds, r.Causes())
}

// namedCauses bounds the checks and the reviewers that a line names.
const namedCauses = 3

// Causes names the causes in a line.
func (r *Rework) Causes() string {
	var list, names []string
	for _, c := range r.Checks {
		names = append(names, c.Name)
	}
	if n := len(names); n > namedCauses {
		names = append(names[:namedCauses], fmt.Sprintf("%d more", n-namedCauses))
	}
	if len(names) > 0 {
		list = append(list, strings.Join(names, ", ")+" failed")
	}
	for _, v := range r.Reviews {
		if one := v.Author + " " + v.Verb(); !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	if r.Conflict {
		list = append(list, "it conflicts with its base")
	}
	if n := len(list); n > namedCauses+1 {
		list = append(list[:namedCauses+1], fmt.Sprintf("%d more", n-namedCauses-1))
	}
	return strings.Join(list, "; ")
}

// Verb returns the words that follow the author's name in a sentence about the review.
func (r Review) Verb() string {
	if r.State == reviewChanges {
		return "asks for changes"
	}
	return "commented"
}

// The states of a Pull, of its Mergeable, and of a Review that decisions depend on.
const (
	pullOpen      = "open"
	PullMerged    = "merged"
	PullClosed    = "closed"
	pullConflicts = "conflicting"
	pullMergeable = "mergeable"
	pullUnknown   = "unknown"

	reviewChanges  = "changes_requested"
	reviewApproved = "approved"
	reviewComment  = "commented"
)

const (
	reviewQuiet  = 2 * time.Minute // since the newest review, whose author may write more
	rerunSettles = 2 * time.Minute // until the forge shows that jobs run again
	checkPatient = time.Hour       // after which a check is late
	mostHandled  = 200
	keptReviews  = 100 // of a pull request, in the database
)

// Failed lists the checks that have failed and have not brought the issue back yet, once all
// checks of the pushed commit have ended. A check that is late does not hold the others back.
func (w *Watch) Failed(f Feedback, now time.Time) []Check {
	c := w.Pull.Checks
	if !f.Checks || w.Blocked || c.Commit != w.Pull.Head || !w.Ours() {
		return nil
	}
	if w.pending() && !w.late(now) {
		return nil
	}
	known := w.knownFailures()
	return slices.DeleteFunc(c.all(), func(one Check) bool {
		return one.State != CheckFailure || slices.Contains(known.Told, one.Name) ||
			slices.Contains(known.OfBase, one.Name)
	})
}

// pending reports whether a check of the newest commit is not finished.
func (w *Watch) pending() bool {
	return slices.ContainsFunc(w.Pull.Checks.all(), func(c Check) bool { return c.State == CheckPending })
}

// checksSince is when the checks of the newest commit began, or began again.
func (w *Watch) checksSince() time.Time {
	if w.Rerun == w.Pull.Head && w.ReranAt.After(w.HeadAt) {
		return w.ReranAt
	}
	return w.HeadAt
}

// late reports whether the checks of the newest commit have had an hour.
func (w *Watch) late(now time.Time) bool {
	since := w.checksSince()
	return !since.IsZero() && now.Sub(since) >= checkPatient
}

// knownFailures returns the known failures of the newest commit.
func (w *Watch) knownFailures() KnownFailures {
	if w.Failures.Commit == w.Pull.Checks.Commit {
		return w.Failures
	}
	return KnownFailures{Commit: w.Pull.Checks.Commit}
}

// Late names a check of the newest commit that is at work and did not report for an hour, and
// since when it is awaited; empty if there is none.
func (w *Watch) Late(now time.Time) (name string, since time.Time) {
	if !w.late(now) || w.Pull.Checks.Commit != w.Pull.Head {
		return "", time.Time{}
	}
	for _, c := range w.Pull.Checks.List {
		if c.State == CheckPending {
			return c.Name, w.checksSince()
		}
	}
	return "", time.Time{}
}

// unlisted is the name of a check that stands for the checks that the token may not see, or
// that are too many.
const unlisted = "a check that is not listed"

func (c Checks) all() []Check {
	list := slices.Clone(c.List)
	if c.Hidden || c.Cut {
		list = append(list, Check{Name: unlisted, State: c.State})
	}
	return list
}

// OwnFailures returns the failed checks that do not fail on the base as well.
func OwnFailures(failed []Check, base Checks) []Check {
	return slices.DeleteFunc(slices.Clone(failed), func(c Check) bool {
		fails := func(b Check) bool { return b.Name == c.Name && b.State == CheckFailure }
		return slices.ContainsFunc(base.List, fails) || c.Name == unlisted && base.State == CheckFailure
	})
}

// IgnoreFailures notes failed checks of the newest commit that fail on the base, too.
func (w *Watch) IgnoreFailures(failed []Check) {
	w.Failures = w.knownFailures()
	for _, c := range failed {
		w.Failures.OfBase = append(w.Failures.OfBase, c.Name)
	}
}

// Asks reports whether something may have to be done about the issue of the pull request.
func (w *Watch) Asks(f Feedback, now time.Time) bool {
	merged := w.Pull.State == PullMerged
	heldForIt := w.Claim == Held && w.Held != ""
	if w.Ended || w.Claim != "" && !w.NeedsHelp() && (!merged || !heldForIt) {
		return false
	}
	return merged || w.Pull.State == PullClosed || w.Rework != nil ||
		w.Causes(f, w.Failed(f, now), now) != nil
}

// NeedsHelp reports whether the issue is held only because its agent needs a person. A review
// or a merge ends that hold as it brings back any issue that was handed over.
func (w *Watch) NeedsHelp() bool { return w.Blocked && w.Claim == Held && w.Held == "" }

// NewReviews lists the reviews that ask for a change, once nobody wrote for two minutes.
func (w *Watch) NewReviews(f Feedback, now time.Time) []Review {
	if w.unquiet(f, now) != nil {
		return nil
	}
	return w.unanswered(f)
}

// unanswered lists the reviews that ask for a change and for which the issue did not come
// back.
func (w *Watch) unanswered(f Feedback) (list []Review) {
	if !f.Reviews {
		return nil
	}
	for _, r := range w.Pull.Reviews {
		asks := r.State == reviewChanges || r.State == reviewComment && (r.Body != "" || len(r.Comments) > 0)
		if asks && !w.handled("review "+r.ID) && f.listensTo(r) {
			list = append(list, r)
		}
	}
	return list
}

// listensTo reports whether the author of a review may bring an issue back: a reviewer or, if
// no reviewers are named, a person who may push to the repository.
func (f Feedback) listensTo(r Review) bool {
	if len(f.Reviewers) == 0 {
		return r.Writer && !r.Bot
	}
	return slices.ContainsFunc(f.Reviewers, func(name string) bool { return SameUser(name, r.Author) })
}

func (w *Watch) handled(cause string) bool { return slices.Contains(w.Handled, cause) }

// Ours reports whether the newest commit of the pull request is symphony's last push, or
// builds on it: commits that people push there are part of the work.
func (w *Watch) Ours() bool {
	return w.Pull.Head == w.Delivered.Commit || w.pushKnown() && w.Pushed.Builds
}

func (w *Watch) pushKnown() bool {
	return w.Pushed.Commit == w.Pull.Head && w.Pushed.On == w.Delivered.Commit
}

// UnknownPush reports whether someone else pushed the newest commit, and it is not known
// whether it builds on symphony's commit.
func (w *Watch) UnknownPush() bool {
	return w.Pull.State == pullOpen && w.Pull.Head != w.Delivered.Commit && !w.pushKnown()
}

// Is reports whether p is the pull request that symphony opened. If the pull request was read
// before, the forge's ids are compared, which stay if the repository gets another name or
// owner. Otherwise the addresses are compared, or else the branch and its commit.
func (w *Watch) Is(p Pull) bool {
	if w.Pull.ID != "" {
		return w.Pull.ID == p.ID
	}
	return strings.EqualFold(w.Delivered.PullRequest, p.URL) ||
		w.Delivered.Branch == p.Branch && w.Delivered.Commit == p.Head
}

// Differs says how the pull request differs from what was delivered, apart from its newest commit: "it
// goes into production, and the work was delivered for main". It is empty if it does not differ.
// Whoever can edit pull requests can do that, an agent included: then symphony neither merges it nor
// brings its issue back.
func (w *Watch) Differs() string {
	pull := w.Pull
	delivered := w.Delivered
	switch {
	case delivered.Branch != "" && pull.Branch != "" && pull.Branch != delivered.Branch:
		return fmt.Sprintf("it is about the branch %s, and the work was delivered to %s", pull.Branch, delivered.Branch)
	case delivered.Base == "" || pull.Base == "" || pull.Base == delivered.Base:
		return ""
	case w.Accepted != nil && w.Accepted.Base == pull.Base:
		return ""
	}
	return fmt.Sprintf("it goes into %s, and the work was delivered for %s", pull.Base, delivered.Base)
}

// OtherBase reports whether the pull request differs from what was delivered only in its base, which
// an operator can accept.
func (w *Watch) OtherBase() bool {
	return w.IsOpen() && w.Differs() != "" && w.Pull.Branch == w.Delivered.Branch
}

// Accept accepts the base of the pull request as it was read last.
func (w *Watch) Accept(by string) { w.Accepted = &Accepted{By: by, Base: w.Pull.Base} }

// Causes returns the causes that bring the issue back now; nil for none. failed are the failed
// checks that are the pull request's own.
func (w *Watch) Causes(f Feedback, failed []Check, now time.Time) *Rework {
	if !w.Ours() || w.Differs() != "" {
		return nil
	}
	conflict := "conflict " + w.Pull.Head
	r := &Rework{
		Round:    w.Rounds + 1,
		Rounds:   f.Rounds,
		At:       now,
		Number:   w.Pull.Number,
		Commit:   w.Pull.Head,
		Checks:   failed,
		Reviews:  w.NewReviews(f, now),
		Conflict: f.Conflicts && !w.Blocked && w.Pull.Mergeable == pullConflicts && !w.handled(conflict),
	}
	if len(r.Checks)+len(r.Reviews) == 0 && !r.Conflict {
		return nil
	}
	return r
}

// Reruns lists the workflow runs whose failed jobs are run again, before a failure counts:
// each once for a commit.
func (w *Watch) Reruns(failed []Check) (runs []int64) {
	for _, c := range failed {
		reran := w.Rerun == w.Pull.Head && slices.Contains(w.Reran, c.Run)
		if c.Run != 0 && !reran && !slices.Contains(runs, c.Run) {
			runs = append(runs, c.Run)
		}
	}
	return runs
}

// BeginReruns notes that the failed jobs of workflow runs are run again. Until RerunAt is set
// it is not known whether they are.
func (w *Watch) BeginReruns(runs []int64) {
	if w.Rerun != w.Pull.Head {
		w.Reran = nil
	}
	w.Rerun = w.Pull.Head
	w.Reran = slices.Concat(w.Reran, runs)
	w.RerunAt = time.Time{}
}

// ForgetReruns undoes BeginReruns for the workflow runs that did not run again.
func (w *Watch) ForgetReruns(runs []int64) {
	w.Reran = slices.DeleteFunc(w.Reran, func(run int64) bool { return slices.Contains(runs, run) })
}

// Settling reports whether jobs were run again just now, which the forge does not show yet.
func (w *Watch) Settling(now time.Time) bool {
	return w.Rerun == w.Pull.Head && now.Sub(w.RerunAt).Abs() < rerunSettles
}

// Update takes over the present state of the pull request, and notes the end of its checks and
// of the pull request. It keeps only reviews that may ask for a change, so that strangers'
// reviews can't push these out.
func (w *Watch) Update(p Pull, f Feedback, now time.Time) {
	if w.HeadAt.IsZero() || w.Pull.Head != p.Head {
		w.HeadAt = now
	}
	w.Pull = p
	if p.Mergeable == pullUnknown && w.TriedMerge.is(p) && w.TriedMerge.Mergeable != "" {
		w.Pull.Mergeable = w.TriedMerge.Mergeable
	}
	w.Pull.Reviews = slices.DeleteFunc(
		slices.Clone(p.Reviews),
		func(r Review) bool { return !r.Writer && !f.listensTo(r) },
	)
	w.Pull.Reviews = w.Pull.Reviews[max(0, len(w.Pull.Reviews)-keptReviews):]
	if c := p.Checks; c.Commit == w.Delivered.Commit && (c.State == CheckSuccess || c.State == CheckFailure) {
		w.note(Observation{now, c.Commit, c.State})
	}
	if p.State == PullMerged || p.State == PullClosed {
		w.note(Observation{now, p.Head, p.State})
	}
	if w.pending() {
		w.RerunAt = time.Time{} // the forge shows that jobs run again
	}
}

func (w *Watch) note(s Observation) {
	same := func(o Observation) bool { return o.Commit == s.Commit && o.What == s.What }
	if !slices.ContainsFunc(w.Seen, same) {
		w.Seen = append(w.Seen, s)
	}
}

// AllCauses names the causes of all rounds in a line.
func (w *Watch) AllCauses() string {
	list := make([]string, 0, len(w.History))
	for _, r := range w.History {
		list = append(list, r.Causes)
	}
	return strings.Join(list, "; ")
}

// BeginRound begins a round: it marks the causes that bring the issue back now as handled.
func (w *Watch) BeginRound(r *Rework) {
	w.Rounds = r.Round
	w.Rework = r
	w.History = append(w.History, Round{r.At, r.Causes()})
	if len(r.Checks) > 0 {
		w.Failures = w.knownFailures()
	}
	for _, c := range r.Checks {
		w.Failures.Told = append(w.Failures.Told, c.Name)
	}
	for _, v := range r.Reviews {
		w.Handled = append(w.Handled, "review "+v.ID)
	}
	if r.Conflict {
		w.Handled = append(w.Handled, "conflict "+r.Commit)
	}
	w.Handled = w.Handled[max(0, len(w.Handled)-mostHandled):]
}

// TakeBack undoes the last BeginRound: its causes count again. The issue was not moved yet,
// and someone pushed meanwhile.
func (w *Watch) TakeBack() {
	r := w.Rework
	w.Rework = nil
	w.Rounds--
	w.History = w.History[:max(0, len(w.History)-1)]
	causes := []string{"conflict " + r.Commit}
	for _, v := range r.Reviews {
		causes = append(causes, "review "+v.ID)
	}
	w.Handled = slices.DeleteFunc(
		w.Handled,
		func(cause string) bool { return slices.Contains(causes, cause) },
	)
	if w.Failures.Commit == r.Commit {
		w.Failures.Told = slices.DeleteFunc(w.Failures.Told, func(name string) bool {
			return slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Name == name })
		})
	}
}

// checkCause begins the cause of a failed check, before its commit and its name.
const checkCause = "check "

// Answered returns for which causes the pull request has brought the issue back, without those that
// still wait for an agent, and how often: what another machine has to know that goes on with the issue.
func (w *Watch) Answered() (causes []string, rounds int) {
	answered := *w
	answered.Handled = slices.Clone(w.Handled)
	answered.Failures.Told = slices.Clone(w.Failures.Told)
	if w.Rework != nil {
		answered.TakeBack()
	}
	causes = answered.Handled
	for _, name := range answered.Failures.Told {
		causes = append(causes, checkCause+answered.Failures.Commit+" "+name)
	}
	return causes, answered.Rounds
}

// Inherit takes over what Answered has returned on another machine.
func (w *Watch) Inherit(causes []string, rounds int) {
	w.Rounds = rounds
	for _, cause := range causes {
		check, isCheck := strings.CutPrefix(cause, checkCause)
		commit, name, _ := strings.Cut(check, " ")
		if !isCheck {
			w.Handled = append(w.Handled, cause)
			continue
		}
		w.Failures.Commit = commit
		w.Failures.Told = append(w.Failures.Told, name)
	}
}

// Summary describes the pull request for views. The state of its checks is the forge's sum,
// which also counts checks that are not listed.
func (p Pull) Summary() *PullRequest {
	words := map[string]string{
		CheckPending: "pending",
		CheckFailure: "failed",
		CheckSuccess: "passed",
	}
	s := &PullRequest{URL: p.URL, State: p.State, Checks: words[p.Checks.State], Review: p.verdict()}
	if p.State == pullOpen && p.Draft {
		s.State = "draft"
	}
	return s
}

// verdict sums up the reviews of those who may push: changes_requested if anyone's last verdict
// is that, else approved if anyone's is; empty without a verdict. A comment changes no verdict.
func (p Pull) verdict() string {
	last := map[string]string{} // by author
	for _, r := range p.Reviews {
		if r.Writer && r.State != reviewComment {
			last[r.Author] = r.State
		}
	}
	verdicts := slices.Collect(maps.Values(last))
	for _, state := range []string{reviewChanges, reviewApproved} {
		if slices.Contains(verdicts, state) {
			return state
		}
	}
	return ""
}
