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
	// Undelivered are those of them with commits that are not pushed yet.
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

func (f *Facts) headOf(c reconcile.Claim) IssueHead {
	return IssueHead{
		f.Name,
		c.IssueID,
		c.Identifier,
		c.Issue.URL,
		c.Issue.Title,
		c.Issue.Labels,
		c.Issue.Unreadable,
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
	// Verdict is what is known of a run on another machine: live, or unverifiable as long as
	// its host, or its worker, is not heard of.
	Verdict string `json:"verdict"`
	Alive   bool   `json:"worker_alive"`
	// lost is for how long the host was not heard of, 0 if it was.
	lost time.Duration
	// HeldNext: the issue is held when the run has ended.
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
	Error         string     `json:"error"`       // what the agent asks for first
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
		if i := slices.IndexFunc(v.Requests, func(q RequestRow) bool { return q.RunID == r.RunID }); i >= 0 {
			list = append(list, BlockedSession{
				r.IssueHead, r.State, v.Requests[i].Summary, r.Host, r.WorkspacePath, r.SessionID, v.Requests[i].AskedAt,
				r.LastEvent, r.LastMessage, r.LastEventAt,
			})
		}
	}
	return list
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

// HeldRow is a claim that waits for an operator or for a change of the issue.
type HeldRow struct {
	IssueHead
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	HeldAt  time.Time `json:"held_at"`

	ErrorCode   string `json:"-"` // of the last run
	Undelivered bool   `json:"-"` // its commits are not pushed yet
	text        string // Message, with what went wrong near its beginning
}

func (f *Facts) heldRow(c reconcile.Claim) HeldRow {
	row := HeldRow{
		f.headOf(c),
		c.HoldReason,
		c.HoldText(),
		c.HeldAt,
		c.ErrorCode,
		c.Delivery.Due,
		c.HoldText(),
	}
	if c.HoldReason == reconcile.HoldMaxFailures {
		c.HoldMessage = text.Plural(c.Failures, "run") + " failed: " + cmp.Or(c.ErrorMessage, c.ErrorCode)
		row.text = c.HoldText()
	}
	return row
}

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
}

// Claims makes a row of each claim.
func (f *Facts) Claims() Claims {
	v := Claims{
		[]RunningRow{},
		make([]RetryingRow, 0, len(f.Recorded.Claims)),
		[]HeldRow{},
		[]UndeliveredRow{},
	}
	runs := map[string]reconcile.Run{}
	for _, r := range f.Recorded.Runs {
		runs[r.ID] = r
	}
	claims := make([]*reconcile.Claim, len(f.Recorded.Claims)) // a claim is large to move
	for i := range claims {
		claims[i] = &f.Recorded.Claims[i]
	}
	slices.SortStableFunc(
		claims,
		func(a, b *reconcile.Claim) int { return text.CompareNatural(a.Identifier, b.Identifier) },
	)
	for _, one := range claims {
		c := *one
		if !f.wants(c.IssueID) {
			continue
		}
		if d := c.Delivery; d.Due && !d.Behind {
			row := UndeliveredRow{f.headOf(c), d.Tries, text.OrNull(d.FailedAt), ErrorText(d.Code, d.Message)}
			v.Undelivered = append(v.Undelivered, row)
		}
		switch c.Status {
		case reconcile.Running:
			r := runs[c.RunID]
			row := RunningRow{
				IssueHead:     f.headOf(c),
				State:         c.Issue.State,
				Activity:      r.Activity,
				TurnCount:     r.Turns,
				StartedAt:     r.StartedAt,
				Tokens:        Tokens(r.Tokens),
				Phase:         r.Phase,
				LastEvent:     text.OrNull(r.LastEvent),
				LastMessage:   r.LastMessage,
				LastEventAt:   text.OrNull(r.LastEventAt),
				RunID:         c.RunID,
				PID:           text.OrNull(r.Worker.PID),
				Attempt:       r.Attempt,
				StopReason:    text.OrNull(r.StopReason),
				HeartbeatAt:   text.OrNull(r.HeartbeatAt),
				ThreadID:      text.OrNull(r.ThreadID),
				WorkspacePath: text.OrNull(r.WorkspacePath),
				Host:          text.OrNull(r.Host),
				Alive:         r.ID != "" && wiring.Alive(f.Project.StateDir, r.ID),
				HeldNext:      c.HoldNext,
				WaitsFor:      []string{},
				Run:           r,
			}
			if f.Config != nil {
				row.Cost = Spend(f.Config.Agent.Prices, reconcile.ModelUse{
					Model:  r.Model,
					Tokens: r.Tokens,
				}).Cost
			}
			row.lost = r.Lost(f.Now)
			row.Verdict = verdictLive
			if r.Host != "" &&
				(row.lost > 0 || r.Phase == reconcile.EndingThere || r.Remote == reconcile.RemoteBegun && !row.Alive) {
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
			v.Running = append(v.Running, row)
		case reconcile.Waiting:
			code, message := c.Fault()
			reason := ErrorText(code, message)
			wait := f.Recorded.DeliveryWait(c, f.Now)
			if wait.Reason != "" {
				reason = new(strings.TrimPrefix(text.OrEmpty(reason)+"; "+wait.Message+"; "+wait.Ends, "; "))
			}
			at := f.lastPlaces[c.IssueID]
			v.Retrying = append(v.Retrying, RetryingRow{
				f.headOf(c), max(c.Attempt, 1), c.DueAt, reason, c.Kind,
				text.OrNull(at.Host), text.OrNull(at.Path), c, wait,
			})
		case reconcile.Held:
			v.Held = append(v.Held, f.heldRow(c))
		}
	}
	return v
}
