package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/words"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Row is an issue at a glance.
type Row struct {
	Project     string  `json:"project"` // the name of the folder of WORKFLOW.md
	Status      Status  `json:"status"`
	IssueID     string  `json:"issue_id"`
	Identifier  string  `json:"issue_identifier"`
	Title       string  `json:"title"` // empty where it is not known
	URL         *string `json:"url"`
	State       *string `json:"state"` // in the tracker, at the last pass
	PullRequest *string `json:"pull_request_url"`
	// the beginning of the status; of a claim that waits, when it is due
	At     *time.Time `json:"at"`
	Turn   int        `json:"turn_count"`
	Tokens int64      `json:"total_tokens"` // of the present or the ended run
	Cost   *Cost      `json:"cost"`         // of these tokens; null without agent.prices
	// Text is the agent's present activity: its last command or sentence. For an issue without
	// a run it is the reason for that.
	Text string `json:"text"`
	// WaitsFor is the wait of the issue's watched pull request, such as for its checks or a
	// review; null if none is watched.
	WaitsFor *reconcile.Waits `json:"pull_request_waits_for"`

	// Brief is Text without the Advice, which many rows may share: how a hold ends, or why all
	// slots are taken. Both are empty for other rows.
	Brief  string `json:"-"`
	Advice string `json:"-"`
	// Claimed is set for issues that symphony claimed.
	Claimed bool `json:"-"`
	// HeldNext: the issue is held when its run ends.
	HeldNext bool `json:"-"`
	// Undelivered: the issue is held, and its commits are not pushed yet.
	Undelivered bool `json:"-"`
	// LastSign is when the agent of a run was last heard of; nil for an issue without a run.
	LastSign *time.Time `json:"-"`
	Labels   []string   `json:"-"` // of the issue
	// Entry is the entry of the overview's list that this row was made of.
	Entry Entry `json:"-"`

	place  int // in the queue for a slot
	paused bool
	found  string // more text in which a search looks
	// unreadable is why the tracker's record can't be read; empty if it can.
	unreadable string
}

// Entry is an entry of a list of the overview: a RunningRow, RetryingRow, HeldRow, KeptRow,
// ReviewRow, SkippedRow or RunRow. The lists and their JSON contain exact values, a Row the
// values common to all entries.
type Entry interface{ addTo(v *Overview) }

func (r RunningRow) addTo(v *Overview)  { v.Running = append(v.Running, r) }
func (r RetryingRow) addTo(v *Overview) { v.Retrying = append(v.Retrying, r) }
func (r HeldRow) addTo(v *Overview)     { v.addHeld(r) }
func (r KeptRow) addTo(v *Overview)     { v.Kept = append(v.Kept, r) }
func (r SkippedRow) addTo(v *Overview) {
	if v.Skipped == nil {
		v.stuck = append(v.stuck, r)
		return
	}
	v.Skipped = append(v.Skipped, r)
}
func (r RunRow) addTo(v *Overview) { v.Ended = append(v.Ended, r) }

// Label is the status as people read it. An issue that waits while the project is paused is
// paused.
func (r Row) Label() string {
	if r.paused {
		return "paused"
	}
	return r.Status.Label()
}

// Has reports whether all of these words are in the row, or in the records of its run, without
// regard to case.
func (r Row) Has(words ...string) bool {
	all := strings.ToLower(
		strings.Join([]string{r.Project, string(r.Status), r.Identifier, r.Title, r.Text, r.found}, "\n"),
	)
	return !slices.ContainsFunc(
		words,
		func(word string) bool { return !strings.Contains(all, strings.ToLower(word)) },
	)
}

// Status is the status of an issue, such as running or held.
type Status = reconcile.Status

// The statuses that only lists have.
const (
	// StatusStuck: it can't start before a person changes something in the tracker.
	StatusStuck Status = "stuck"
	StatusKept  Status = "kept"
	StatusEnded Status = "ended"
)

// Statuses are all statuses of rows in the order of a list: first the statuses that need a
// person.
var Statuses = []Status{
	reconcile.StatusNeedsAnswer,
	reconcile.StatusNeedsHelp,
	reconcile.StatusHeld,
	StatusStuck,
	reconcile.StatusUndelivered,
	StatusKept,
	reconcile.StatusRunning,
	reconcile.StatusQueued,
	reconcile.StatusBlocked,
	reconcile.StatusWaiting,
	reconcile.StatusHandedOver,
	reconcile.StatusSkipped,
	StatusEnded,
}

// StuckStatuses are the statuses of issues with which nothing goes on before a person acts, in
// the order of a list. A request of an agent has its own place in every view.
var StuckStatuses = []Status{
	reconcile.StatusNeedsHelp,
	reconcile.StatusHeld,
	StatusStuck,
	reconcile.StatusUndelivered,
	StatusKept,
}

// rows joins the overview's lists, in the order of the statuses, then of the queue and the
// identifiers. Ended runs follow, the newest first.
func (v Overview) rows() []Row {
	list := []Row{}
	for _, r := range v.Running {
		list = append(list, v.runningRow(r))
	}
	for _, r := range slices.Concat(v.NeedsHelp, v.Held) {
		row := r.row(r.status(), &r.HeldAt, r.text, r)
		row.Claimed = true
		row.Brief = r.brief
		row.Advice = r.advice
		row.Undelivered = r.Undelivered
		list = append(list, row)
	}
	for _, r := range v.Retrying {
		list = append(list, v.retryingRow(r))
	}
	for _, r := range v.Kept {
		list = append(list, r.row(StatusKept, &r.Since, r.Unsaved, r))
	}
	for _, r := range slices.Concat(v.Skipped, v.stuck) {
		if r.Reason != reconcile.SkipUnsavedWork { // Kept already lists these
			list = append(list, v.skippedRow(r))
		}
	}
	list = append(list, v.reviewRows()...)
	slices.SortStableFunc(list, func(a, b Row) int {
		return cmp.Or(
			cmp.Compare(slices.Index(Statuses, a.Status), slices.Index(Statuses, b.Status)),
			cmp.Compare(a.place, b.place),
			text.CompareNatural(a.Identifier, b.Identifier),
		)
	})
	return v.complete(append(list, v.endedRows()...))
}

func (v Overview) endedRows() (list []Row) {
	for _, r := range v.Ended {
		outcome, reason := r.Ending()
		list = append(list, Row{
			Status:     StatusEnded,
			Identifier: r.Identifier,
			IssueID:    r.issueID,
			Title:      r.Title,
			URL:        r.IssueURL,
			At:         r.EndedAt,
			Turn:       r.Turns,
			Tokens:     r.Tokens.Total,
			Cost:       r.Cost,
			Text:       strings.TrimSuffix(outcome+": "+reason, ": "),
			Labels:     r.labels,
			Entry:      r,
			found:      r.found,
		})
	}
	return list
}

// complete adds to rows the fields that all kinds of rows share.
func (v Overview) complete(list []Row) []Row {
	pulls := map[string]string{}
	for _, p := range v.PullRequests {
		pulls[p.IssueID] = p.URL
	}
	waits := map[string]reconcile.Waits{}
	for _, w := range v.Watched {
		waits[w.IssueID] = w.WaitsFor
	}
	for i := range list {
		row := &list[i]
		row.Project = v.Project.Name
		row.PullRequest = cmp.Or(text.OrNull(pulls[row.IssueID]), row.PullRequest)
		row.paused = v.Paused && row.Status == reconcile.StatusWaiting
		wait, watched := waits[row.IssueID]
		if watched && row.Status != StatusEnded {
			row.WaitsFor = &wait
		}
		if row.unreadable != "" {
			row.Text = UnreadableText + row.unreadable + "; " + row.Text
			row.Brief = ""
			row.Advice = ""
		}
	}
	return list
}

// Unreadable is the text of a row whose issue carries a record in the tracker that can't be read;
// empty if it can.
func (r Row) Unreadable() string {
	if r.unreadable == "" {
		return ""
	}
	return r.Text
}

// UnreadableText begins the text of a row whose issue carries a record in the tracker that
// can't be read.
const UnreadableText = "the tracker's record can't be read: "

// HeldNextText begins the text of a row whose issue is held when its run ends.
const HeldNextText = "held after this run"

// row makes a row of an entry of any list.
func (h IssueHead) row(status Status, at *time.Time, text string, entry Entry) Row {
	return Row{
		Status:     status,
		IssueID:    h.IssueID,
		Identifier: h.Identifier,
		Title:      h.Title,
		URL:        h.IssueURL,
		At:         at,
		Text:       text,
		Labels:     h.labels,
		Entry:      entry,
		unreadable: h.unreadable,
	}
}

func (v Overview) runningRow(r RunningRow) Row {
	row := r.row(reconcile.StatusRunning, &r.StartedAt, r.doing(), r)
	row.Claimed = true
	row.HeldNext = r.HeldNext
	row.LastSign = r.LastEventAt
	row.State = &r.State
	row.Turn = r.TurnCount
	row.Tokens = r.Tokens.Total
	row.Cost = r.Cost
	if request := v.requestOf(r.RunID); request != nil {
		row.Status = reconcile.StatusNeedsAnswer
		row.At = &request.AskedAt
		row.Text = request.Summary
	}
	if r.HeldNext {
		row.Text = HeldNextText + "; " + row.Text
	}
	return row
}

// LastError is how the last run ended, empty if it succeeded: "stopped by an operator", for
// example, after symphony stop --all.
func (r RetryingRow) LastError() string {
	if r.Kind == reconcile.Interrupted && r.Claim.ErrorCode == reconcile.StopAll {
		return words.Stopped(reconcile.StopAll)
	}
	return text.OrEmpty(r.Error)
}

func (v Overview) retryingRow(r RetryingRow) Row {
	why := cmp.Or(r.LastError(), words.Waits[r.Kind].Short)
	row := r.row(r.Claim.IssueStatus(false, v.stop != ""), &r.DueAt, why, r)
	row.Claimed = true
	switch {
	case r.wait.Reason != "":
		row.Text = r.wait.Message + "; " + r.wait.Ends
	case row.Status == reconcile.StatusUndelivered:
		row.At = text.OrNull(r.Claim.Delivery.FailedAt)
		row.Text = r.Claim.Delivery.Message
	case r.Kind == reconcile.NoSlot:
		row.Text = words.Waits[reconcile.NoSlot].Short // not the specification's words
		v.addQueue(&row, v.places[r.IssueID])
	}
	return row
}

// status is the status of the row of a candidate. stopped is set if nothing starts at present.
func (r SkippedRow) status(stopped bool) Status {
	if r.Stuck() {
		return StatusStuck
	}
	return r.IssueStatus(stopped)
}

// Stuck are the rows of the candidates that can't start before a person changes something.
func (v Overview) Stuck() []Row {
	return text.Filter(v.Rows, func(r Row) bool { return r.Status == StatusStuck })
}

func (v Overview) skippedRow(r SkippedRow) Row {
	row := Row{
		Status:     r.status(v.stop != ""),
		IssueID:    r.IssueID,
		Identifier: r.Identifier,
		Title:      r.Title,
		URL:        text.OrNull(r.URL),
		At:         &r.Since,
		Text:       r.Message,
		Labels:     r.Labels,
		Entry:      r,
	}
	if r.Reason == reconcile.SkipNoSlot || r.Reason == reconcile.SkipNoSlotInState {
		v.addQueue(&row, r.Place)
	}
	return row
}

// addQueue adds its place in the queue to the row of an issue without a slot. While nothing
// starts, that is the reason, and no queue.
func (v Overview) addQueue(row *Row, place int) {
	switch {
	case v.stop != "":
		row.Text = v.stop
	case place > 0:
		row.place = place
		row.Brief = fmt.Sprintf("place %d in the queue", place)
		row.Advice = row.Text
		row.Text = row.Brief + ": " + row.Text
	}
}

// doing is the present activity of a run.
func (r RunningRow) doing() string {
	host := text.OrEmpty(r.Host)
	switch {
	case r.lost > 0:
		return "host " + host + " lost for " + text.Duration(r.lost)
	case r.Run.Remote == reconcile.RemoteBegun && (!r.Alive || r.Phase == reconcile.EndingThere):
		doing := "its worker has ended; the run is ended on " + host
		if r.Run.Outcome == reconcile.Failed { // the reason may also keep the host from ending it
			doing += ", after " + r.Run.ErrorCode + ": " + r.Run.ErrorText
		}
		if r.Phase == reconcile.EndingThere && r.Activity != "" {
			doing += ": " + r.Activity
		}
		return doing
	case !r.Alive && r.Phase != reconcile.Starting:
		return "its worker has ended; the next pass settles the run"
	case r.StopReason != nil:
		return "is stopping (" + *r.StopReason + ")"
	}
	doing := cmp.Or(r.Activity, words.Phase(r.Phase))
	if host != "" {
		doing = "on " + host + ": " + doing
	}
	if r.agent != "" {
		doing = r.agent + ": " + doing
	}
	return doing
}

// Verification is how verify ended in the run; nil if it did not run there.
func (r RunRow) Verification() *reconcile.Verification {
	if v := r.Delivery.Verification(); v != nil && !v.At.Before(r.StartedAt) {
		return v
	}
	return nil
}

// Why is why a run ended, if that was not a success: "stopped by an operator", for example.
func (r RunRow) Why() string {
	if r.stoppedBy != "" {
		return words.Stopped(r.stoppedBy)
	}
	return text.OrEmpty(r.Error)
}

// NotDelivered is what a run is called whose commits did not arrive.
const NotDelivered = "not delivered"

// Errors are the errors of a run, of its after_run hook and of its delivery.
func (r RunRow) Errors() (list []string) {
	if r.Error != nil {
		list = append(list, *r.Error)
	}
	if r.AfterRunError != nil {
		list = append(list, "hook failed: "+*r.AfterRunError)
	}
	if d := r.Delivery; d != nil && d.Code != "" {
		list = append(list, NotDelivered+": "+d.Code+": "+d.Message)
	}
	return list
}

// Ending describes how a run ended, and why if that was not a success.
func (r RunRow) Ending() (outcome, reason string) {
	outcome = string(text.OrEmpty(r.Outcome))
	reason = r.Why()
	if d := r.Delivery; d != nil && d.Code != "" && reason == "" {
		outcome = NotDelivered
		reason = d.Code + ": " + d.Message
	}
	if v := r.Verification(); v != nil && reason == "" {
		reason = v.String()
	}
	if r.Kind != reconcile.AgentRun {
		outcome = string(r.Kind) + " " + outcome
	}
	return outcome, reason
}
