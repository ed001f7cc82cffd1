package runner

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/reconcile"

	"github.com/symphony-cron/symphony/runner/agent"
)

// The agent has the secrets of the worker's environment, and nothing that the run writes contains one.
func TestRunHidesTheEnvironmentsSecrets(t *testing.T) {
	const token = "ghp_0123456789abcdef"
	r := newRig(t, "sh echo $GH_TOKEN; echo $GH_TOKEN >&2; echo Bearer other-token\nsay done with "+token)
	r.Env = append(r.Env, "GH_TOKEN="+token)
	r.Config.Hooks.BeforeRun = "echo hook $GH_TOKEN; echo $GH_TOKEN | base64"
	run, err := r.work()
	must(t, err)
	if !strings.Contains(run.LastMessage+read(t, filepath.Join(r.Dir, eventsFile)), agent.Redacted) {
		t.Error("nothing had to be hidden: the agent had no token")
	}
	files, err := os.ReadDir(r.Dir)
	must(t, err)
	for _, f := range files {
		text := read(t, filepath.Join(r.Dir, f.Name()))
		for _, bad := range []string{token, "other-token", base64.StdEncoding.EncodeToString([]byte(token))[:24]} {
			if strings.Contains(text, bad) {
				t.Errorf("%s stands in %s", bad, f.Name())
			}
		}
	}
	if hooks := read(t, filepath.Join(r.Dir, hooksFile)); strings.Count(hooks, agent.Redacted) != 2 {
		t.Errorf("hooks.log: %s", hooks)
	}
}

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
