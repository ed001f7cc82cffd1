package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Feedback is what brings an issue back that was handed over with a pull request. The zero value brings none back.
type Feedback struct {
	Checks, Reviews, Conflicts bool
	State                      string // to which the issue is moved then
	MergedState                string // to which it is moved once the pull request is merged; empty for no move
	Rounds                     int    // how often an issue comes back before it is held
	Reviewers                  []string
}

// On reports whether pull requests are watched.
func (f Feedback) On() bool { return f.State != "" }

// Watch is what symphony remembers of a pull request that it has opened, for the time after the handover.
type Watch struct {
	IssueID    string      `json:"-"`
	Identifier string      `json:"-"`
	Delivered  Delivered   `json:"-"` // what it has pushed last
	Claim      ClaimStatus `json:"-"` // the status of the issue's claim; empty if there is none
	Blocked    bool        `json:"-"` // its agent waits for a person, whose review is the only cause then

	Pull    Pull          `json:"pull"` // as it was read last
	Rounds  int           `json:"rounds,omitempty"`
	Handled []string      `json:"told,omitempty"`  // the causes that bring the issue back no more: each does so once
	Rerun   string        `json:"rerun,omitempty"` // the commit whose failed jobs were run again
	RerunAt time.Time     `json:"rerun_at,omitzero"`
	Rework  *Rework       `json:"rework,omitempty"`  // what the issue has come back for, until it is handed over again
	History []Round       `json:"history,omitempty"` // all rounds, the oldest first
	Seen    []Observation `json:"seen,omitempty"`    // what has happened to the pull request, the oldest first
	Held    string        `json:"held,omitempty"`    // the reason for which the issue was held; empty if it was not, or is not any more
	Ended   bool          `json:"ended,omitempty"`   // nothing more is expected of the pull request
}

// Round is one return of an issue.
type Round struct {
	At     time.Time `json:"at"`
	Causes string    `json:"causes"`
}

// Observation is the first time that a pass has read that all checks of a commit have ended, or that the pull request has.
type Observation struct {
	At     time.Time `json:"at"`
	Commit string    `json:"commit"`
	What   string    `json:"what"` // CheckSuccess, CheckFailure, PullMerged or PullClosed
}

// Rework is what an issue has come back for.
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
	PullMerged    = "merged"
	PullClosed    = "closed"
	pullConflicts = "conflicting"
	reviewChanges = "changes_requested"
	reviewComment = "commented"
)

const (
	reviewQuiet  = 2 * time.Minute // since the newest review, whose author may write more
	rerunSettles = 2 * time.Minute // until the forge shows that jobs run again
	mostHandled  = 200
	keptReviews  = 100 // of a pull request, in the database
)

// Failed lists the checks that have failed, once all checks of the pushed commit have ended.
func (w *Watch) Failed(f Feedback) []Check {
	c := w.Pull.Checks
	all := c.all()
	pending := slices.ContainsFunc(all, func(one Check) bool { return one.State == CheckPending })
	if !f.Checks || w.Blocked || pending || c.Commit != w.Delivered.Commit || w.handled("checks "+c.Commit) {
		return nil
	}
	return slices.DeleteFunc(all, func(one Check) bool { return one.State != CheckFailure })
}

// unlisted is the name of a check that stands for those that the token may not see, or that are too many.
const unlisted = "a check that is not listed"

func (c Checks) all() []Check {
	list := slices.Clone(c.List)
	if c.Hidden || c.Cut {
		list = append(list, Check{Name: unlisted, State: c.State})
	}
	return list
}

// OwnFailures are those of the failed checks that do not fail on the base as well.
func OwnFailures(failed []Check, base Checks) []Check {
	return slices.DeleteFunc(slices.Clone(failed), func(c Check) bool {
		fails := func(b Check) bool { return b.Name == c.Name && b.State == CheckFailure }
		return slices.ContainsFunc(base.List, fails) || c.Name == unlisted && base.State == CheckFailure
	})
}

// IgnoreFailures marks the failed checks of the newest commit as handled, because the base has the same failures.
func (w *Watch) IgnoreFailures() { w.Handled = append(w.Handled, "checks "+w.Pull.Head) }

// Asks reports whether something may have to be done about the issue of the pull request.
func (w *Watch) Asks(f Feedback, now time.Time) bool {
	merged := w.Pull.State == PullMerged
	heldForIt := w.Claim == Held && w.Held != ""
	if w.Ended || w.Claim != "" && (!merged || !heldForIt) {
		return false
	}
	return merged || w.Pull.State == PullClosed || w.Rework != nil || w.Causes(f, w.Failed(f), now) != nil
}

// NewReviews lists the reviews that ask for something, once nobody has written for two minutes.
func (w *Watch) NewReviews(f Feedback, now time.Time) (list []Review) {
	if !f.Reviews {
		return nil
	}
	for _, r := range w.Pull.Reviews {
		asks := r.State == reviewChanges || r.State == reviewComment && (r.Body != "" || len(r.Comments) > 0)
		if !asks || w.handled("review "+r.ID) || !f.listensTo(r) {
			continue
		}
		if now.Sub(r.At) < reviewQuiet {
			return nil
		}
		list = append(list, r)
	}
	return list
}

// listensTo reports whether the author of a review may bring an issue back: one of the reviewers or, if none are named, a person who may
// push to the repository.
func (f Feedback) listensTo(r Review) bool {
	if len(f.Reviewers) == 0 {
		return r.Writer && !r.Bot
	}
	return slices.ContainsFunc(f.Reviewers, func(name string) bool { return SameUser(name, r.Author) })
}

func (w *Watch) handled(cause string) bool { return slices.Contains(w.Handled, cause) }

// Ours reports whether the newest commit of the pull request is the one that symphony has pushed last.
func (w *Watch) Ours() bool { return w.Pull.Head == w.Delivered.Commit }

// Causes returns what brings the issue back now; nil for nothing. failed are the failed checks that are the pull request's own.
func (w *Watch) Causes(f Feedback, failed []Check, now time.Time) *Rework {
	if !w.Ours() {
		return nil
	}
	conflict := "conflict " + w.Pull.Head
	r := &Rework{
		Round: w.Rounds + 1, Rounds: f.Rounds, At: now, Number: w.Pull.Number, Commit: w.Pull.Head, Checks: failed, Reviews: w.NewReviews(f, now),
		Conflict: f.Conflicts && !w.Blocked && w.Pull.Mergeable == pullConflicts && !w.handled(conflict),
	}
	if len(r.Checks)+len(r.Reviews) == 0 && !r.Conflict {
		return nil
	}
	return r
}

// Reruns lists the workflow runs whose failed jobs are run again, before a failure counts: each once for a commit.
func (w *Watch) Reruns(failed []Check) (runs []int64) {
	if w.Rerun == w.Pull.Head {
		return nil
	}
	for _, c := range failed {
		if c.Run != 0 && !slices.Contains(runs, c.Run) {
			runs = append(runs, c.Run)
		}
	}
	return runs
}

// Settling reports whether jobs were run again just now, which the forge does not show yet.
func (w *Watch) Settling(now time.Time) bool {
	return w.Rerun == w.Pull.Head && now.Sub(w.RerunAt).Abs() < rerunSettles
}

// Update takes over the present state of the pull request, and notes when its checks have ended, or the pull request itself. Of the
// reviews it keeps those that may ask for something: what strangers write can't push them out.
func (w *Watch) Update(p Pull, f Feedback, now time.Time) {
	w.Pull = p
	w.Pull.Reviews = slices.DeleteFunc(slices.Clone(p.Reviews), func(r Review) bool { return !r.Writer && !f.listensTo(r) })
	w.Pull.Reviews = w.Pull.Reviews[max(0, len(w.Pull.Reviews)-keptReviews):]
	if c := p.Checks; c.Commit == w.Delivered.Commit && (c.State == CheckSuccess || c.State == CheckFailure) {
		w.note(Observation{now, c.Commit, c.State})
	}
	if p.State == PullMerged || p.State == PullClosed {
		w.note(Observation{now, p.Head, p.State})
	}
	if slices.ContainsFunc(p.Checks.all(), func(c Check) bool { return c.State == CheckPending }) {
		w.RerunAt = time.Time{} // the forge shows that jobs run again
	}
}

func (w *Watch) note(s Observation) {
	if !slices.ContainsFunc(w.Seen, func(o Observation) bool { return o.Commit == s.Commit && o.What == s.What }) {
		w.Seen = append(w.Seen, s)
	}
}

// FirstChecks is CheckSuccess if all checks of the first commit with checks have succeeded at once, CheckFailure if not, and empty if they
// have not ended yet.
func (w *Watch) FirstChecks() (state string) {
	first := ""
	for _, s := range w.Seen {
		ofChecks := s.What == CheckSuccess || s.What == CheckFailure
		if ofChecks && (first == "" || s.Commit == first) && state != CheckFailure {
			first, state = s.Commit, s.What
		}
	}
	return state
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
	w.Rounds, w.Rework = r.Round, r
	w.History = append(w.History, Round{r.At, r.Causes()})
	if len(r.Checks) > 0 {
		w.Handled = append(w.Handled, "checks "+r.Commit)
	}
	for _, v := range r.Reviews {
		w.Handled = append(w.Handled, "review "+v.ID)
	}
	if r.Conflict {
		w.Handled = append(w.Handled, "conflict "+r.Commit)
	}
	w.Handled = w.Handled[max(0, len(w.Handled)-mostHandled):]
}

// Summary describes the pull request in the words of views. How its checks are is the forge's sum, which also counts those that are not
// listed.
func (p Pull) Summary() *PullRequest {
	words := map[string]string{CheckPending: "pending", CheckFailure: "failed", CheckSuccess: "passed"}
	s := &PullRequest{URL: p.URL, State: p.State, Checks: words[p.Checks.State]}
	if p.State == "open" && p.Draft {
		s.State = "draft"
	}
	for _, r := range p.Reviews {
		if r.Writer && (r.State == reviewChanges || r.State == "approved") {
			s.Review = r.State
		}
	}
	return s
}
