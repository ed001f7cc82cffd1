package runner

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/reconcile"
)

// A token that the agent's error message was cut in the middle of is not in the run's row either.
func TestRunHidesACutSecret(t *testing.T) {
	const token = "ghp_0123456789abcdef0123456789"
	r := newRig(t, "fail other "+strings.Repeat("x", 385)+token)
	r.Env = append(r.Env, "GH_TOKEN="+token)
	run, err := r.work()
	must(t, err)
	if half := token[:10]; !strings.HasSuffix(run.ErrorText, "…") || strings.Contains(run.ErrorText, half) || strings.Contains(r.log.String(), half) {
		t.Errorf("the error is %q", run.ErrorText)
	}
}

// The agent reads what the tool answers unchanged, but for the tracker's key: an issue may be about tokens.
func TestToolAnswerIsLeftAlone(t *testing.T) {
	r := newRig(t, "")
	r.Tracker.Tool = &reconcile.AgentTool{
		ChangesIssue: func(json.RawMessage) bool { return false },
		Call: func(context.Context, json.RawMessage) reconcile.ToolAnswer {
			return reconcile.ToolAnswer{Text: "send Bearer tokens, ghp_0123456789 or " + testKey, Success: true}
		},
	}
	c := newConversation(r.newJob(r.run, func(error) {}), nil)
	got := c.options(&agentProcess{}).CallTool(t.Context(), "linear_graphql", nil)
	if got.Text != "send Bearer tokens, ghp_0123456789 or [redacted]" || !got.Success {
		t.Errorf("%+v", got)
	}
}
