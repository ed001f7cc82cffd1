package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Status is the state of an issue in a word, such as "running". Every view, command and page
// names and counts issues by it.
type Status string

// The statuses of issues that symphony works on or will work on, and of candidates that get no
// run.
const (
	StatusNeedsAnswer Status = "needs_answer" // it runs, and its agent waits for an operator
	// StatusNeedsHelp: its agent could not go on without a person, and handed it over.
	StatusNeedsHelp   Status = "needs_help"
	StatusHeld        Status = "held"
	StatusUndelivered Status = "undelivered" // its commits could not be pushed
	StatusRunning     Status = "running"
	StatusQueued      Status = "queued"  // for a slot
	StatusBlocked     Status = "blocked" // by another issue
	StatusWaiting     Status = "waiting" // for a time, or for the end of a fault that stops every issue
	StatusSkipped     Status = "skipped" // it will not run
	// StatusHandedOver: its agent has finished, and it waits for a person's review.
	StatusHandedOver Status = "handed_over"
)

// Label is the status as people read it.
func (s Status) Label() string {
	if s == StatusNeedsAnswer {
		return "needs an answer"
	}
	return strings.ReplaceAll(string(s), "_", " ")
}

// Counted is a number of issues with the status, such as "3 held", "1 needs help" or "2 need
// help".
func (s Status) Counted(n int) string {
	label := s.Label()
	verb, rest, _ := strings.Cut(label, " ")
	if verb == "needs" && n != 1 {
		label = "need " + rest
	}
	return fmt.Sprintf("%d %s", n, label)
}

// IssueStatus is the status of the claim's issue. asking is set if its run waits for the
// answer to a request, stopped if nothing starts at present, whatever the issue: then none
// waits for a slot.
func (c Claim) IssueStatus(asking, stopped bool) Status {
	switch {
	case c.Status == Running && asking:
		return StatusNeedsAnswer
	case c.Status == Running:
		return StatusRunning
	case c.Status == Held && c.HoldReason == HoldNeedsHelp:
		return StatusNeedsHelp
	case c.Status == Held:
		return StatusHeld
	case c.Delivery.Code != "":
		return StatusUndelivered
	case c.Kind == NoSlot && !stopped:
		return StatusQueued
	}
	return StatusWaiting
}

// OwnStatus is the status of the claim's issue without regard to requests, and as if runs could
// start.
func (c Claim) OwnStatus() Status { return c.IssueStatus(false, false) }

// NeedsHelp reports whether the agent of the issue needs a person.
func (c Claim) NeedsHelp() bool { return c.OwnStatus() == StatusNeedsHelp }

// IssueStatus is the status of a candidate that the pass did not start. stopped is set if
// nothing starts at present.
func (s Skip) IssueStatus(stopped bool) Status {
	switch s.Reason {
	case SkipNoSlot, SkipNoSlotInState, SkipSentBack:
		if stopped {
			return StatusWaiting
		}
		return StatusQueued
	case SkipBlockedBy:
		return StatusBlocked
	case SkipPaused,
		SkipBlocked,
		SkipRateLimited,
		SkipDiskLow,
		SkipBudget,
		SkipElsewhere,
		SkipClaimRefused,
		SkipWorkspaceBusy,
		SkipUnverified:
		return StatusWaiting
	}
	return StatusSkipped
}

// Stuck reports whether the candidate can't start before a person changes something in the
// tracker: it waits for an issue that does not exist, for instance.
func (s Skip) Stuck() bool { return s.Mend != "" || s.Reason == SkipMalformed }

// Counts are the numbers of issues by their status.
type Counts struct {
	Running  int `json:"running"`  // claims with a run
	Retrying int `json:"retrying"` // claims that wait for their next run
	Held     int `json:"held"`
	// NeedsHelp counts issues that their agents handed over because they need a person.
	NeedsHelp int `json:"needs_help"`
	// Undelivered counts issues that wait because their commits could not be pushed.
	Undelivered int `json:"undelivered"`
	// running issues whose agent waits for an operator
	NeedsAnswer int `json:"needs_answer"`
	// Blocked is the same number under the name of the specification's reference.
	Blocked int `json:"blocked"`
	// Queued, BlockedBy, Waiting and Skipped count claims and candidates without a run: they
	// wait for a slot, for another issue, for anything else, or will not run.
	Queued    int `json:"queued"`
	BlockedBy int `json:"blocked_by"`
	Waiting   int `json:"waiting"`
	Skipped   int `json:"skipped"`
	// HandedOver counts the issues that wait for a person's review.
	HandedOver int `json:"handed_over"`
}

// Count counts claims, and the skips of issues without a claim. asking holds the ids of runs
// with an open request; stopped is explained at IssueStatus.
func Count(claims []Claim, asking map[string]bool, skips []Skip, stopped bool) (n Counts) {
	claimed := map[string]bool{}
	for _, c := range claims {
		claimed[c.IssueID] = true
		if c.Status == Waiting {
			n.Retrying++
		}
		n.Add(c.IssueStatus(asking[c.RunID], stopped))
	}
	for _, s := range skips {
		if !claimed[s.IssueID] && s.Reason != SkipUnsavedWork {
			n.Add(s.IssueStatus(stopped))
		}
	}
	return n
}

// Plus is the sum of two counts.
func (n Counts) Plus(m Counts) Counts {
	return Counts{
		n.Running + m.Running,
		n.Retrying + m.Retrying,
		n.Held + m.Held,
		n.NeedsHelp + m.NeedsHelp,
		n.Undelivered + m.Undelivered,
		n.NeedsAnswer + m.NeedsAnswer,
		n.Blocked + m.Blocked,
		n.Queued + m.Queued,
		n.BlockedBy + m.BlockedBy,
		n.Waiting + m.Waiting,
		n.Skipped + m.Skipped,
		n.HandedOver + m.HandedOver,
	}
}

// field is the number of issues with the status; a number of its own for a status that is not
// counted.
func (n *Counts) field(s Status) *int {
	counted := map[Status]*int{
		StatusNeedsAnswer: &n.NeedsAnswer,
		StatusRunning:     &n.Running,
		StatusHeld:        &n.Held,
		StatusNeedsHelp:   &n.NeedsHelp,
		StatusUndelivered: &n.Undelivered,
		StatusQueued:      &n.Queued,
		StatusBlocked:     &n.BlockedBy,
		StatusWaiting:     &n.Waiting,
		StatusSkipped:     &n.Skipped,
		StatusHandedOver:  &n.HandedOver,
	}
	return cmp.Or(counted[s], new(int))
}

// Of is the number of issues with the status.
func (n Counts) Of(s Status) int { return *n.field(s) }

// Add counts an issue with the status. An issue that needs an answer is also running.
func (n *Counts) Add(s Status) {
	*n.field(s)++
	if s == StatusNeedsAnswer {
		n.Blocked++
		n.Running++
	}
}

// goingOn are the statuses that need no person; running includes needs_answer.
var goingOn = []Status{StatusRunning, StatusQueued, StatusBlocked, StatusWaiting, StatusSkipped}

// Text is the sum in words: "6 running (2 need an answer), 3 queued, 1 held"; empty without an
// issue.
func (n Counts) Text() string {
	return n.text(slices.Concat(goingOn, []Status{StatusNeedsHelp, StatusHeld, StatusUndelivered}))
}

// GoingOn is the part of the sum that needs no person.
func (n Counts) GoingOn() string { return n.text(goingOn) }

func (n Counts) text(statuses []Status) string {
	var list []string
	for _, s := range statuses {
		if count := n.Of(s); count > 0 {
			list = append(list, s.Counted(count))
		}
	}
	switch {
	case n.NeedsAnswer == 1:
		list[0] += " (1 needs an answer)"
	case n.NeedsAnswer > 1:
		list[0] += fmt.Sprintf(" (%d need an answer)", n.NeedsAnswer)
	}
	return strings.Join(list, ", ")
}
