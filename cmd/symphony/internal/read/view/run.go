package view

import (
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Totals are the usage of runs.
type Totals struct {
	Tokens
	Seconds float64 `json:"seconds_running"`
}

// Add counts the run's use so far; a run without an end counts up to now.
func (t *Totals) Add(r reconcile.Run, now time.Time) {
	end := r.EndedAt
	if end.IsZero() {
		end = now
	}
	t.Tokens = Tokens(reconcile.Tokens(t.Tokens).Plus(r.Tokens))
	t.Seconds += max(end.Sub(r.StartedAt).Seconds(), 0)
}

// RunRow is a run.
type RunRow struct {
	Project       string             `json:"project"`
	RunID         string             `json:"run_id"`
	Identifier    string             `json:"issue_identifier"`
	IssueURL      *string            `json:"issue_url"`
	Title         string             `json:"title"`
	Kind          reconcile.RunKind  `json:"kind"`
	Agent         *AgentRow          `json:"agent"`   // null for a run without one
	Attempt       int                `json:"attempt"` // 0 for the first run
	Phase         reconcile.Phase    `json:"phase"`
	Outcome       *reconcile.Outcome `json:"outcome"`
	Error         *string            `json:"error"`
	AfterRunError *string            `json:"after_run_error"` // does not change the outcome
	// Delivery is the result of delivering the commits; null where no delivery was tried. It
	// does not change the outcome of an agent's run.
	Delivery  *reconcile.DeliveryResult `json:"delivery"`
	StartedAt time.Time                 `json:"started_at"`
	EndedAt   *time.Time                `json:"ended_at"`
	Turns     int                       `json:"turn_count"`
	Tokens    Tokens                    `json:"tokens"`
	Cost      *Cost                     `json:"cost"` // of these tokens; null without agent.prices
	ThreadID  *string                   `json:"thread_id"`
	stoppedBy string                    // reconcile.Run.StoppedBy
	issueID   string
	labels    []string
	found     string // the text in which a search looks; empty before the end of the run
}

// RunRow is the row of a run.
func (f *Facts) RunRow(r reconcile.Run) RunRow {
	return RunRow{
		Project:       f.Name,
		RunID:         r.ID,
		stoppedBy:     r.StoppedBy(),
		issueID:       r.IssueID,
		labels:        r.Issue.Labels,
		Identifier:    r.Identifier,
		IssueURL:      r.Issue.URL,
		Title:         r.Issue.Title,
		Kind:          r.Kind,
		Agent:         agentOf(r),
		Attempt:       r.Attempt,
		Phase:         r.Phase,
		Outcome:       text.OrNull(r.Outcome),
		Delivery:      text.OrNull(r.Delivery),
		Error:         ErrorText(r.ErrorCode, r.ErrorText),
		AfterRunError: text.OrNull(r.AfterRunError),
		StartedAt:     r.StartedAt,
		EndedAt:       text.OrNull(r.EndedAt),
		Turns:         r.Turns,
		Tokens:        Tokens(r.Tokens),
		Cost:          f.costOf(r),
		ThreadID:      text.OrNull(r.ThreadID),
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
	Agent         *AgentRow       `json:"agent"` // null for a run without one
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
	// agent names its agent, empty if the project has no other.
	agent string
	// HeldNext: the issue is held when the run ends.
	HeldNext bool `json:"held_after_run"`
	// WaitsFor are the ids of the run's open requests.
	WaitsFor []string      `json:"waits_for"`
	Run      reconcile.Run `json:"-"`
}

// The verdicts about a run.
const (
	verdictLive         = "live"
	verdictUnverifiable = "unverifiable"
)

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
		Agent:         agentOf(r),
		agent:         f.agentName(r),
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

// costOf returns the cost of the tokens of a run; nil without agent.prices.
func (f *Facts) costOf(r reconcile.Run) *Cost {
	if f.Config == nil {
		return nil
	}
	return Spend(f.Config.Agent.Prices, reconcile.ModelUse{Model: r.Model, Tokens: r.Tokens}).Cost
}

// ErrorText is "<code>: <message>", nil where there is neither. The errors that the
// specification words itself stand without a code.
func ErrorText(code, message string) *string {
	switch {
	case code == "" && message == "":
		return nil
	case message == "":
		return &code
	case code == "" || code == reconcile.CodeSpawnFailed || code == string(reconcile.Stalled):
		return &message
	}
	return new(code + ": " + message)
}
