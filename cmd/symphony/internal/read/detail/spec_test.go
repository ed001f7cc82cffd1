package detail

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/test"
)

// The examples of section 13.7 of the specification. A null stands for a value of any type.
const (
	specState = `{"generated_at": "2026-02-24T20:15:30Z",
		"counts": {"running": 1, "retrying": 1},
		"running": [{"issue_id": "abc123", "issue_identifier": "MT-649", "state": "In Progress",
			"session_id": "thread-1-turn-1", "turn_count": 7, "last_event": "turn_completed",
			"last_message": "", "started_at": "2026-02-24T20:10:12Z", "last_event_at": "2026-02-24T20:14:59Z",
			"tokens": {"input_tokens": 1200, "output_tokens": 800, "total_tokens": 2000}}],
		"retrying": [{"issue_id": "def456", "issue_identifier": "MT-650", "attempt": 3, "due_at": "2026-02-24T20:16:00Z",
			"error": "no available orchestrator slots"}],
		"codex_totals": {"input_tokens": 5000, "output_tokens": 2400, "total_tokens": 7400, "seconds_running": 1834.2},
		"rate_limits": null}`
	specIssue = `{"issue_identifier": "MT-649", "issue_id": "abc123", "status": "running",
		"workspace": {"path": "/tmp/symphony_workspaces/MT-649"},
		"attempts": {"restart_count": 1, "current_retry_attempt": 2},
		"running": {"session_id": "thread-1-turn-1", "turn_count": 7, "state": "In Progress", "started_at": "2026-02-24T20:10:12Z",
			"last_event": "notification", "last_message": "Working on tests", "last_event_at": "2026-02-24T20:14:59Z",
			"tokens": {"input_tokens": 1200, "output_tokens": 800, "total_tokens": 2000}},
		"retry": null,
		"logs": {"codex_session_logs": [{"label": "latest", "path": "/var/log/symphony/codex/MT-649/latest.log", "url": null}]},
		"recent_events": [{"at": "2026-02-24T20:14:59Z", "event": "notification", "message": "Working on tests"}],
		"last_error": null, "tracked": {}}`
)

// Each field of the examples is there with its type: in an overview, in that of several
// projects, and in an issue.
func TestFieldsOfSpecification(t *testing.T) {
	at := time.Date(2026, 2, 24, 20, 15, 30, 0, time.UTC)
	text := "text"
	running := view.RunningRow{SessionID: &text, LastEvent: &text, LastEventAt: &at}
	v := view.Overview{Claims: view.Claims{
		Running:  []view.RunningRow{running},
		Retrying: []view.RetryingRow{{DueAt: at, Error: &text}},
	}}
	i := Issue{Workspace: &WorkspaceRow{}, SpecIssue: SpecIssue{
		Running:      &running,
		Logs:         Logs{[]SessionLog{{}}},
		RecentEvents: []RecentEvent{{At: at, Event: eventlog.Words}},
	}}
	for _, c := range []struct {
		name, example string
		answer        any
	}{{"overview", specState, v}, {"joined", specState, view.Join([]view.Overview{v})}, {"issue", specIssue, i}} {
		var example, answer any
		test.OK(t, json.Unmarshal(test.Must(json.Marshal(c.answer)), &answer))
		test.OK(t, json.Unmarshal([]byte(c.example), &example))
		test.Equal(t, "what is missing", lacks(example, answer, c.name), nil)
	}
}

// lacks returns where an answer lacks a member of an example, or has it with another type.
func lacks(example, answer any, at string) (all []string) {
	if example == nil {
		return nil
	}
	if reflect.TypeOf(example) != reflect.TypeOf(answer) {
		return []string{fmt.Sprintf("%s is %T, not %T", at, answer, example)}
	}
	switch e := example.(type) {
	case map[string]any:
		for name, value := range e {
			member, found := answer.(map[string]any)[name]
			if !found {
				all = append(all, at+" has no "+name)
				continue
			}
			all = append(all, lacks(value, member, at+"."+name)...)
		}
	case []any:
		if len(answer.([]any)) == 0 {
			return []string{at + " is empty"}
		}
		all = lacks(e[0], answer.([]any)[0], at+"[0]")
	}
	return all
}
