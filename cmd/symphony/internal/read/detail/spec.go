package detail

import (
	"context"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// SpecIssue contains the fields that section 13.7 of the specification names, if Issue lacks
// them or names them otherwise. Programs for other implementations find them where they expect
// them.
type SpecIssue struct {
	ID         string   `json:"issue_id"`
	Identifier string   `json:"issue_identifier"`
	Attempts   Attempts `json:"attempts"`
	// Running is the row of ps if the issue has a run, Retry the row of ps if it waits for its
	// next run.
	Running *view.RunningRow  `json:"running"`
	Retry   *view.RetryingRow `json:"retry"`
	Logs    Logs              `json:"logs"`
	// RecentEvents are the last lines of the newest run's log, the oldest first.
	RecentEvents []RecentEvent `json:"recent_events"`
	// LastError is why the issue waits or is held, otherwise why its last ended run failed;
	// null if it did not.
	LastError *string `json:"last_error"`
	// Tracked is the issue's record again.
	Tracked KnownIssue `json:"tracked"`
}

// Attempts are the numbers of the runs of a claim.
type Attempts struct {
	// Restarts is the number of runs of the agent after the first since the issue was claimed;
	// 0 for an unclaimed issue.
	Restarts int `json:"restart_count"`
	// Current is the attempt of the present or the next run; 0 for the first run.
	Current int `json:"current_retry_attempt"`
}

// Logs are the logs of an issue.
type Logs struct {
	// Sessions are the event logs of the runs listed here, the newest first.
	Sessions []SessionLog `json:"codex_session_logs"`
}

// SessionLog is the event log of a run.
type SessionLog struct {
	Label string `json:"label"` // the run's id
	Path  string `json:"path"`
	// the path of its text on the server that answers; null in the output of a command
	URL *string `json:"url"`
}

// RecentEvent is a line of a log.
type RecentEvent struct {
	At      time.Time     `json:"at"`
	Event   eventlog.Kind `json:"event"`
	Message string        `json:"message"`
}

// specIssue makes the part of the issue that the specification names, from the data read
// already.
func (r *issueReader) specIssue(ctx context.Context, v Issue) (s SpecIssue, err error) {
	s = SpecIssue{
		ID:         r.id,
		Identifier: r.identifier,
		Logs:       Logs{[]SessionLog{}},
		Tracked:    v.Issue,
		RecentEvents: text.Map(v.Log, func(l eventlog.Line) RecentEvent {
			return RecentEvent{l.At, l.Kind, l.Text}
		}),
	}
	r.Only = []string{r.id}
	claims := r.Claims()
	if len(claims.Running) > 0 {
		s.Running = &claims.Running[0]
	}
	if len(claims.Retrying) > 0 {
		s.Retry = &claims.Retrying[0]
	}
	if c := r.claim; c != nil {
		s.Attempts.Current = c.Attempt
		runs, err := r.DB.Runs.CountOfAgents(ctx, r.id, c.ClaimedAt)
		if err != nil {
			return s, err
		}
		s.Attempts.Restarts = max(runs-1, 0)
		s.LastError = v.Claim.Error
	}
	for _, run := range r.runs {
		path := eventlog.Path(r.Project.StateDir, run.ID)
		if wiring.Exists(path) {
			s.Logs.Sessions = append(s.Logs.Sessions, SessionLog{Label: run.ID, Path: path})
		}
	}
	if s.LastError == nil {
		ended := text.First(r.runs, func(run reconcile.Run) bool {
			return run.Kind == reconcile.AgentRun && run.Outcome != ""
		})
		s.LastError = view.ErrorText(ended.ErrorCode, ended.ErrorText)
	}
	return s, nil
}
