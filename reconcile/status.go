package reconcile

import (
	"fmt"
	"strings"
)

// Status is what goes on with an issue, in one word. Every view, command and page names and counts issues by it.
type Status string

// The statuses of issues that symphony works on or will work on, and of candidates that get no run.
const (
	StatusNeedsAnswer Status = "needs_answer" // it runs, and its agent waits for an operator
	StatusHeld        Status = "held"
	StatusUndelivered Status = "undelivered" // its commits could not be pushed
	StatusRunning     Status = "running"
	StatusQueued      Status = "queued"  // for a slot
	StatusBlocked     Status = "blocked" // by another issue
	StatusWaiting     Status = "waiting" // for a time, or for the end of what stops every issue
	StatusSkipped     Status = "skipped" // it will not run
)

// Label is the status as people read it.
func (s Status) Label() string { return strings.ReplaceAll(string(s), "_", " ") }

// Standing is the status of the claim. asking says that its run has an open request.
func (c Claim) Standing(asking bool) Status {
	switch {
	case c.Status == Running && asking:
		return StatusNeedsAnswer
	case c.Status == Running:
		return StatusRunning
	case c.Status == Held:
		return StatusHeld
	case c.Delivery.Code != "":
		return StatusUndelivered
	case c.Kind == NoSlot:
		return StatusQueued
	}
	return StatusWaiting
}

// Status is the status of a candidate that the pass did not start.
func (s Skip) Status() Status {
	switch s.Reason {
	case SkipNoSlot, SkipNoSlotInState:
		return StatusQueued
	case SkipBlockedBy:
		return StatusBlocked
	case SkipPaused, SkipBlocked, SkipRateLimited, SkipDiskLow, SkipBudget, SkipElsewhere, SkipWorkspaceBusy:
		return StatusWaiting
	}
	return StatusSkipped
}

// Counts are the numbers of issues by their status.
type Counts struct {
	Running  int `json:"running"`  // claims with a run
	Retrying int `json:"retrying"` // claims that wait for their next run
	Held     int `json:"held"`
	// Undelivered counts those that wait because their commits could not be pushed.
	Undelivered int `json:"undelivered"`
	NeedsAnswer int `json:"needs_answer"` // of the running ones, those whose agent waits for an operator
	// Queued, Blocked, Waiting and Skipped count claims and candidates that have no run: for a slot, by another issue, for anything
	// else, and those that will not run.
	Queued  int `json:"queued"`
	Blocked int `json:"blocked"`
	Waiting int `json:"waiting"`
	Skipped int `json:"skipped"`
}

// Count counts claims, and the skips of issues without a claim. asking has the ids of runs with an open request.
func Count(claims []Claim, asking map[string]bool, skips []Skip) (n Counts) {
	claimed := map[string]bool{}
	for _, c := range claims {
		claimed[c.IssueID] = true
		if c.Status == Waiting {
			n.Retrying++
		}
		n.Add(c.Standing(asking[c.RunID]))
	}
	for _, s := range skips {
		if !claimed[s.IssueID] && s.Reason != SkipUnsavedWork {
			n.Add(s.Status())
		}
	}
	return n
}

// Plus is the sum of two counts.
func (n Counts) Plus(m Counts) Counts {
	return Counts{
		n.Running + m.Running, n.Retrying + m.Retrying, n.Held + m.Held, n.Undelivered + m.Undelivered, n.NeedsAnswer + m.NeedsAnswer,
		n.Queued + m.Queued, n.Blocked + m.Blocked, n.Waiting + m.Waiting, n.Skipped + m.Skipped,
	}
}

// Add counts an issue with the status.
func (n *Counts) Add(s Status) {
	switch s {
	case StatusUndelivered:
		n.Undelivered++
	case StatusNeedsAnswer:
		n.NeedsAnswer++
		n.Running++
	case StatusRunning:
		n.Running++
	case StatusHeld:
		n.Held++
	case StatusQueued:
		n.Queued++
	case StatusBlocked:
		n.Blocked++
	case StatusWaiting:
		n.Waiting++
	case StatusSkipped:
		n.Skipped++
	}
}

// Text is the sum in words: "6 running (2 need an answer), 3 queued, 1 held"; empty without an issue.
func (n Counts) Text() string {
	list := n.goingOn()
	if n.Held > 0 {
		list = append(list, fmt.Sprintf("%d held", n.Held))
	}
	if n.Undelivered > 0 {
		list = append(list, fmt.Sprintf("%d undelivered", n.Undelivered))
	}
	return strings.Join(list, ", ")
}

// GoingOn is the part of the sum that needs no person.
func (n Counts) GoingOn() string { return strings.Join(n.goingOn(), ", ") }

func (n Counts) goingOn() (list []string) {
	for _, part := range []struct {
		n    int
		what Status
	}{{n.Running, StatusRunning}, {n.Queued, StatusQueued}, {n.Blocked, StatusBlocked}, {n.Waiting, StatusWaiting}, {n.Skipped, StatusSkipped}} {
		if part.n > 0 {
			list = append(list, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	switch {
	case n.NeedsAnswer == 1:
		list[0] += " (1 needs an answer)"
	case n.NeedsAnswer > 1:
		list[0] += fmt.Sprintf(" (%d need an answer)", n.NeedsAnswer)
	}
	return list
}
