package workflow

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// texts are the keys with a free text that names no file of this machine. A key that names one
// has naming in its row instead.
var texts = []string{
	// of the tracker
	"tracker.kind", "tracker.api_key", "tracker.project_slug", "tracker.team", "tracker.assignee", "tracker.operators",
	"tracker.active_states", "tracker.terminal_states", "tracker.required_labels", "tracker.provider.states",
	"tracker.provider.verbs", "tracker.provider.repo", "tracker.provider.repos", "tracker.provider.state_labels",
	"tracker.provider.priority_labels",
	"tracker.provider.email", "tracker.provider.project_key", "tracker.provider.cloud_id", "tracker.provider.jql",
	"tracker.provider.priorities",
	"repository.base", "repository.branch", "repository.token", "repository.git_name", "repository.git_email",
	"handoff.state", "handoff.blocked_state", "feedback.state", "feedback.reviewers", "feedback.merged_state",
	"codex.model", "codex.effort", "codex.approval_policy", "codex.thread_sandbox",
	"agent.model", "agent.effort", "agent.env", "agent.key",
	"agent.pass_env", "worker.engine.pass_env", // names of variables
	"worker.ssh_hosts", "server.host",
}

// A new key that names a file has to say so, or agents beside the project could change that
// file.
func TestKeysSayWhatTheyName(t *testing.T) {
	cfg := &Config{}
	cfg.Workspace.Root = "/some/root"
	policy := json.RawMessage(`{"type": "workspaceWrite", "writableRoots": ["/some/file"]}`)
	plain := []string{
		typeURL, typeInteger, typeTokens, typeMS, typeBool, typeBudget, typeStateMap, typePrices, typeNetwork,
		typeClaims,
	}
	var naming []string
	for _, k := range keys(cfg) {
		listed := slices.Contains(texts, k.Name)
		switch {
		case k.Names() != NamesNothing && listed:
			t.Errorf("%s names files: remove it from texts", k.Name)
		case k.Names() != NamesNothing:
			naming = append(naming, k.Name)
		case listed, slices.Contains(plain, k.Type), len(k.Words) > 0, k.same != "":
		default:
			t.Errorf(
				"%s: say in its row what it names (naming), or add it to texts if it names no file",
				k.Name,
			)
		}
		switch to := k.to.(type) {
		case *string:
			*to = "/some/file"
		case *[]string:
			*to = []string{"/some/file"}
		case *json.RawMessage:
			*to = policy
		}
	}
	cfg.Agent.ByLabel = []LabelRow{{Label: "hard", Model: "x"}, {Label: "wide", Sandbox: policy}}
	cfg.Agent.Fallback = []AgentChoice{{Kind: DefaultAgent}, {Kind: agentACP, Command: "/some/file"}}
	var read []string
	for _, named := range cfg.Named() {
		read = append(read, named.Key)
		want := "/some/file"
		if named.Key == "workspace.root" {
			want = cfg.Workspace.Root
		}
		test.Equal(t, named.Key, named.Values, []string{want})
	}
	test.Equal(t, "the keys that Named reads", read, naming)
}
