package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
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

// RunningRow is a claim whose run is not settled.
type RunningRow struct {
	IssueHead
	State string `json:"state"`
	// the agent's last command, or the first line of its last sentence
	Activity      string          `json:"activity"`
	SessionID     *string         `json:"session_id"`
	TurnCount     int             `json:"turn_count"`
	LastEvent     *string         `json:"last_event"`
	LastMessage   string          `json:"last_message"`
	StartedAt     time.Time       `json:"started_at"`
	LastEventAt   *time.Time      `json:"last_event_at"`
	Tokens        Tokens          `json:"tokens"`
	Cost          *Cost           `json:"cost"` // of these tokens; null without agent.prices
	RunID         string          `json:"run_id"`
	PID           *int            `json:"pid"`
	Attempt       int             `json:"attempt"` // 0 for the first run
	Phase         reconcile.Phase `json:"phase"`
	StopReason    *string         `json:"stop_reason"`
	HeartbeatAt   *time.Time      `json:"heartbeat_at"`
	ThreadID      *string         `json:"thread_id"`
	WorkspacePath *string         `json:"workspace_path"`
	Host          *string         `json:"host"`
	// Verdict is the state of a run on another machine: live, or unverifiable as long as its
	// host, or its worker, is not heard of.
	Verdict string `json:"verdict"`
	Alive   bool   `json:"worker_alive"`
	// lost is for how long the host was not heard of, 0 if it was.
	lost time.Duration
	// HeldNext: the issue is held when the run ends.
	HeldNext bool `json:"held_after_run"`
	// WaitsFor are the ids of the run's open requests.
	WaitsFor []string      `json:"waits_for"`
	Run      reconcile.Run `json:"-"`
}

// BlockedSession is a session that waits for a person, with the names of the specification's
// reference.
type BlockedSession struct {
	IssueHead
	State         string     `json:"state"`
	Error         string     `json:"error"`       // the first request of the agent
	WorkerHost    *string    `json:"worker_host"` // null for this machine
	WorkspacePath *string    `json:"workspace_path"`
	SessionID     *string    `json:"session_id"`
	BlockedAt     time.Time  `json:"blocked_at"`
	LastEvent     *string    `json:"last_event"`
	LastMessage   string     `json:"last_message"`
	LastEventAt   *time.Time `json:"last_event_at"`
}

// blockedSessions are the sessions of the open requests.
func (v Overview) blockedSessions() []BlockedSession {
	list := []BlockedSession{}
	for _, r := range v.Running {
		request := v.requestOf(r.RunID)
		if request == nil {
			continue
		}
		list = append(list, BlockedSession{
			IssueHead:     r.IssueHead,
			State:         r.State,
			Error:         request.Summary,
			WorkerHost:    r.Host,
			WorkspacePath: r.WorkspacePath,
			SessionID:     r.SessionID,
			BlockedAt:     request.AskedAt,
			LastEvent:     r.LastEvent,
			LastMessage:   r.LastMessage,
			LastEventAt:   r.LastEventAt,
		})
	}
	return list
}

// requestOf returns the first open request of a run, or nil.
func (v Overview) requestOf(runID string) *RequestRow {
	i := slices.IndexFunc(v.Requests, func(q RequestRow) bool { return q.RunID == runID })
	if i < 0 {
		return nil
	}
	return &v.Requests[i]
}

// The verdicts about a run.
const (
	verdictLive         = "live"
	verdictUnverifiable = "unverifiable"
)

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

	ErrorCode   string `json:"-"` // of the last run
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
		ErrorCode:   c.ErrorCode,
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
	return reconcile.Claim{Status: reconcile.Held, HoldReason: r.Reason}.IssueStatus(false, false)
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
	v.Counts = reconcile.Count(v.claims, asking, v.skips, v.obstacle != "")
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

// runningRow is the row of a claim with the run r.
func (f *Facts) runningRow(c *reconcile.Claim, r reconcile.Run) RunningRow {
	row := RunningRow{
		IssueHead:     f.headOf(c),
		State:         c.Issue.State,
		Activity:      r.Activity,
		TurnCount:     r.Turns,
		LastEvent:     text.OrNull(r.LastEvent),
		LastMessage:   r.LastMessage,
		StartedAt:     r.StartedAt,
		LastEventAt:   text.OrNull(r.LastEventAt),
		Tokens:        Tokens(r.Tokens),
		Cost:          f.costOf(r),
		RunID:         c.RunID,
		PID:           text.OrNull(r.Worker.PID),
		Attempt:       r.Attempt,
		Phase:         r.Phase,
		StopReason:    text.OrNull(r.StopReason),
		HeartbeatAt:   text.OrNull(r.HeartbeatAt),
		ThreadID:      text.OrNull(r.ThreadID),
		WorkspacePath: text.OrNull(r.WorkspacePath),
		Host:          text.OrNull(r.Host),
		Verdict:       verdictLive,
		Alive:         r.ID != "" && wiring.Alive(f.Project.StateDir, r.ID),
		lost:          r.Lost(f.Now),
		HeldNext:      c.HoldNext,
		WaitsFor:      []string{},
		Run:           r,
	}
	endsThere := r.Phase == reconcile.EndingThere || r.Remote == reconcile.RemoteBegun && !row.Alive
	if r.Host != "" && (row.lost > 0 || endsThere) {
		row.Verdict = verdictUnverifiable
	}
	if r.ThreadID != "" && r.TurnID != "" {
		row.SessionID = new(r.ThreadID + "-" + r.TurnID)
	}
	for _, q := range f.Requests {
		if q.RunID == c.RunID {
			row.WaitsFor = append(row.WaitsFor, q.ID())
		}
	}
	return row
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
