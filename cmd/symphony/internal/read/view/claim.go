package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Claims are the claims by their status.
type Claims struct {
	Running  []RunningRow  `json:"running"`
	Retrying []RetryingRow `json:"retrying"`
	Held     []HeldRow     `json:"held"`
	// NeedsHelp are the claims whose agents need a person. The message is the agent's words.
	NeedsHelp []HeldRow `json:"needs_help"`
	// Undelivered are the claims with commits that are not pushed yet, whatever their status.
	Undelivered []UndeliveredRow `json:"undelivered"`
}

// IssueHead names the issue of a row.
type IssueHead struct {
	Project    string  `json:"project"`
	IssueID    string  `json:"issue_id"`
	Identifier string  `json:"issue_identifier"`
	IssueURL   *string `json:"issue_url"`
	Title      string  `json:"title"` // empty where it is not known
	labels     []string
	unreadable string // why the tracker's record can't be read; empty if it can
}

func (f *Facts) headOf(c *reconcile.Claim) IssueHead {
	return IssueHead{
		Project:    f.Name,
		IssueID:    c.IssueID,
		Identifier: c.Identifier,
		IssueURL:   c.Issue.URL,
		Title:      c.Issue.Title,
		labels:     c.Issue.Labels,
		unreadable: c.Issue.Unreadable,
	}
}

// RetryingRow is a claim that waits for its next run.
type RetryingRow struct {
	IssueHead
	Attempt int                 `json:"attempt"` // of the next run, from 1 on
	DueAt   time.Time           `json:"due_at"`
	Error   *string             `json:"error"`
	Kind    reconcile.RetryKind `json:"kind"`
	// WorkerHost and WorkspacePath are where its last run worked; WorkerHost is null for this
	// machine.
	WorkerHost    *string `json:"worker_host"`
	WorkspacePath *string `json:"workspace_path"`

	Claim reconcile.Claim `json:"-"`
	wait  reconcile.DeliveryWait
}

// HeldRow is a claim that waits for a person or for a change of the issue.
type HeldRow struct {
	IssueHead
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	HeldAt  time.Time `json:"held_at"`

	Undelivered bool   `json:"-"` // its commits are not pushed yet
	text        string // Message, with the failure near its beginning
	brief       string // the same without the advice how to end the hold
	advice      string // with ISSUE for the identifier, so that many rows share it
}

func (f *Facts) heldRow(c *reconcile.Claim) HeldRow {
	row := HeldRow{
		IssueHead:   f.headOf(c),
		Reason:      c.HoldReason,
		Message:     c.HoldText(),
		HeldAt:      c.HeldAt,
		Undelivered: c.Delivery.Due,
	}
	shown := *c
	if c.HoldReason == reconcile.HoldMaxFailures {
		shown.HoldMessage = text.Plural(c.Failures, "run") + " failed: " + cmp.Or(c.ErrorMessage, c.ErrorCode)
	}
	row.text = shown.HoldText()
	row.brief = cmp.Or(shown.HoldMessage, "held")
	if shown.Delivery.Due {
		row.brief += "; its work is not delivered"
	}
	shown.Identifier = "ISSUE"
	row.advice = shown.HoldEnds()
	return row
}

// addHeld adds a held claim to the list of its status.
func (v *Claims) addHeld(r HeldRow) {
	if r.status() == reconcile.StatusNeedsHelp {
		v.NeedsHelp = append(v.NeedsHelp, r)
	} else {
		v.Held = append(v.Held, r)
	}
}

// status is needs_help or held.
func (r HeldRow) status() Status {
	return reconcile.Claim{Status: reconcile.Held, HoldReason: r.Reason}.OwnStatus()
}

// Brief returns the message without the advice how to end the hold, and that advice with ISSUE
// for the identifier: many holds of a list share it.
func (r HeldRow) Brief() (message, advice string) { return r.brief, r.advice }

// UndeliveredRow is a claim with commits that are not pushed yet. Nothing failed if Error is
// null: they are pushed next.
type UndeliveredRow struct {
	IssueHead
	Tries int        `json:"failed_tries"` // in a row
	Since *time.Time `json:"since"`        // when the first of them failed
	Error *string    `json:"error"`        // of the last of them
}

// Candidates is how many candidates the last pass did not start.
func (v Overview) Candidates() int { return len(v.skips) }

// count counts the issues of the overview.
func (v *Overview) count() {
	asking := map[string]bool{}
	for _, r := range v.Running {
		asking[r.RunID] = len(r.WaitsFor) > 0
	}
	v.Counts = reconcile.Count(v.claims, asking, v.skips, v.stop != "")
	v.Counts.HandedOver = len(v.Reviews)
}

// Claims makes a row of each claim, sorted by the identifiers.
func (f *Facts) Claims() Claims {
	v := Claims{
		Running:     []RunningRow{},
		Retrying:    make([]RetryingRow, 0, len(f.Recorded.Claims)),
		Held:        []HeldRow{},
		NeedsHelp:   []HeldRow{},
		Undelivered: []UndeliveredRow{},
	}
	runs := map[string]reconcile.Run{}
	for _, r := range f.Recorded.Runs {
		runs[r.ID] = r
	}
	claims := make([]*reconcile.Claim, len(f.Recorded.Claims)) // a claim is large to move
	for i := range claims {
		claims[i] = &f.Recorded.Claims[i]
	}
	slices.SortStableFunc(claims, func(a, b *reconcile.Claim) int {
		return text.CompareNatural(a.Identifier, b.Identifier)
	})
	for _, c := range claims {
		if !f.wants(c.IssueID) {
			continue
		}
		if d := c.Delivery; d.Due && !d.WaitsForAgent {
			v.Undelivered = append(v.Undelivered, UndeliveredRow{
				IssueHead: f.headOf(c),
				Tries:     d.Tries,
				Since:     text.OrNull(d.FailedAt),
				Error:     ErrorText(d.Code, d.Message),
			})
		}
		switch c.Status {
		case reconcile.Running:
			v.Running = append(v.Running, f.runningRow(c, runs[c.RunID]))
		case reconcile.Waiting:
			v.Retrying = append(v.Retrying, f.retryingRow(c))
		case reconcile.Held:
			v.addHeld(f.heldRow(c))
		}
	}
	return v
}

func (f *Facts) retryingRow(c *reconcile.Claim) RetryingRow {
	why := ErrorText(c.Fault())
	wait := f.Recorded.DeliveryWait(*c, f.Now)
	if wait.Reason != "" {
		said := text.OrEmpty(why) + "; " + wait.Message + "; " + wait.Ends
		why = new(strings.TrimPrefix(said, "; "))
	}
	at := f.lastPlaces[c.IssueID]
	return RetryingRow{
		IssueHead:     f.headOf(c),
		Attempt:       max(c.Attempt, 1),
		DueAt:         c.DueAt,
		Error:         why,
		Kind:          c.Kind,
		WorkerHost:    text.OrNull(at.Host),
		WorkspacePath: text.OrNull(at.Path),
		Claim:         *c,
		wait:          wait,
	}
}
