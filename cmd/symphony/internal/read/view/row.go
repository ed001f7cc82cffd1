package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Row is one issue at a glance.
type Row struct {
	Project     string     `json:"project"` // the name of the folder of WORKFLOW.md
	Status      Status     `json:"status"`
	IssueID     string     `json:"issue_id"`
	Identifier  string     `json:"issue_identifier"`
	Title       string     `json:"title"` // empty where it is not known
	URL         *string    `json:"url"`
	State       *string    `json:"state"` // in the tracker, at the last pass
	PullRequest *string    `json:"pull_request_url"`
	At          *time.Time `json:"at"` // since when it has the status; of a waiting issue, when it is due
	Turn        int        `json:"turn_count"`
	Tokens      int64      `json:"total_tokens"` // of the present or the ended run
	// Text says what the agent does now: its last command or sentence. Of an issue without a run it says why it has none.
	Text string `json:"text"`

	// Detail is the row of one of the overview's lists that this row was made of: a RunningRow, RetryingRow, HeldRow, KeptRow,
	// SkippedRow or RunRow.
	Detail any `json:"-"`
}

// Status says what a row's issue does, from an operator's point of view.
type Status string

// The statuses in the order of the rows: first those that need a person.
const (
	StatusAsks        Status = "asks"
	StatusHeld        Status = "held"
	StatusUndelivered Status = "undelivered"
	StatusKept        Status = "kept"
	StatusRunning     Status = "running"
	StatusWaiting     Status = "waiting"
	StatusSkipped     Status = "skipped"
	StatusEnded       Status = "ended"
)

// Statuses are all of them in their order.
var Statuses = []Status{StatusAsks, StatusHeld, StatusUndelivered, StatusKept, StatusRunning, StatusWaiting, StatusSkipped, StatusEnded}

// rows makes one list of the overview's lists, in the order of the statuses, then of the identifiers. Ended runs follow, the newest
// first.
func (v Overview) rows() []Row {
	undelivered := map[string]UndeliveredRow{}
	for _, u := range v.Undelivered {
		if u.Error != nil {
			undelivered[u.IssueID] = u
		}
	}
	list := []Row{}
	for _, r := range v.Running {
		row := Row{
			Status: StatusRunning, IssueID: r.IssueID, Identifier: r.Identifier, Title: r.Title, URL: r.IssueURL, State: &r.State, At: &r.StartedAt,
			Turn: r.TurnCount, Tokens: r.Tokens.Total, Text: r.doing(), Detail: r,
		}
		if i := slices.IndexFunc(v.Requests, func(q RequestRow) bool { return q.RunID == r.RunID }); i >= 0 {
			row.Status, row.At, row.Text = StatusAsks, &v.Requests[i].AskedAt, v.Requests[i].Summary
		}
		if r.HeldNext {
			row.Text = "held after this run; " + row.Text
		}
		list = append(list, row)
	}
	for _, r := range v.Held {
		list = append(list, Row{
			Status: StatusHeld, IssueID: r.IssueID, Identifier: r.Identifier, Title: r.Title, URL: r.IssueURL, At: &r.HeldAt,
			Text: r.text, Detail: r,
		})
	}
	for _, r := range v.Retrying {
		row := Row{
			Status: StatusWaiting, IssueID: r.IssueID, Identifier: r.Identifier, Title: r.Title, URL: r.IssueURL, At: &r.DueAt,
			Text: cmp.Or(plain(deref(r.Error)), waitText[r.Kind]), Detail: r,
		}
		if u, found := undelivered[r.IssueID]; found {
			row.Status, row.At, row.Text = StatusUndelivered, u.Since, pushRefused(*u.Error)
		}
		list = append(list, row)
	}
	for _, r := range v.Kept {
		list = append(list, Row{Status: StatusKept, IssueID: r.IssueID, Identifier: r.Identifier, Title: r.Title, URL: r.IssueURL, At: &r.Since, Text: r.Unsaved, Detail: r})
	}
	for _, r := range v.Skipped {
		row := Row{Status: StatusSkipped, IssueID: r.IssueID, Identifier: r.Identifier, Title: r.Title, At: &r.Since, Text: skipSentence(r.Skip), Detail: r}
		if r.URL != "" {
			row.URL = &r.URL
		}
		list = append(list, row)
	}
	slices.SortStableFunc(list, func(a, b Row) int {
		return cmp.Or(cmp.Compare(slices.Index(Statuses, a.Status), slices.Index(Statuses, b.Status)), text.CompareNatural(a.Identifier, b.Identifier))
	})
	for _, r := range v.Ended {
		list = append(list, Row{
			Status: StatusEnded, Identifier: r.Identifier, IssueID: r.issueID, Title: r.Title, URL: r.IssueURL, At: r.EndedAt, Turn: r.Turns,
			Tokens: r.Tokens.Total, Text: r.ending(), Detail: r,
		})
	}
	pulls := map[string]string{}
	for _, p := range v.PullRequests {
		pulls[p.IssueID] = p.URL
	}
	for i := range list {
		list[i].Project = v.Project.Name
		if url := pulls[list[i].IssueID]; url != "" {
			list[i].PullRequest = &url
		}
	}
	return list
}

// pushRefused returns what is special about the error of a delivery.
func pushRefused(message string) string {
	message = strings.TrimPrefix(message, "delivery_failed: ")
	if rest, pushed := strings.CutPrefix(message, "push to "); pushed {
		if _, reason, found := strings.Cut(rest, ": "); found {
			return reason
		}
	}
	return message
}

// doing is what a run does now.
func (r RunningRow) doing() string {
	switch {
	case !r.Alive && r.Phase != reconcile.Starting:
		return "its worker has ended; the next pass settles the run"
	case r.StopReason != nil:
		return "is asked to end: " + *r.StopReason
	}
	return cmp.Or(r.Activity, strings.ReplaceAll(string(r.Phase), "_", " "))
}

// ending says how a run ended.
func (r RunRow) ending() string {
	line, reason := deref(r.Outcome), plain(deref(r.Error))
	if d := r.Delivery; d != nil && d.Code != "" && reason == "" {
		line, reason = "not delivered", d.Code+": "+d.Message
	}
	if r.Kind != reconcile.AgentRun {
		line = string(r.Kind) + " " + line
	}
	return strings.TrimSuffix(line+": "+reason, ": ")
}

// plain rewords the errors of runs that were stopped.
func plain(e string) string {
	switch code, reason, _ := strings.Cut(e, ": "); {
	case reason != "stopped: "+code:
		return e
	case code == reconcile.StopOperator || code == reconcile.StopAll:
		return "stopped by an operator"
	default:
		return reason
	}
}

// waitText says why an issue without an error waits.
var waitText = map[reconcile.RetryKind]string{
	reconcile.Continuation: "continues: the issue is still active",
	reconcile.Interrupted:  "its last run was ended from outside",
	reconcile.NoSlot:       "no slot is free",
	reconcile.Requested:    "an operator asked for another run",
	reconcile.Delivering:   "its commits are delivered next",
}

func deref[T ~string](s *T) string {
	if s == nil {
		return ""
	}
	return string(*s)
}
