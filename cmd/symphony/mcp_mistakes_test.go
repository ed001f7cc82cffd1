package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// mistake is a wrong call of a model, what the error says about the repair, and the repaired
// call, which must succeed. CWD stands for an empty directory of its own, BUSY for that of an
// agent. Without a repaired call nothing is to be repaired.
type mistake struct {
	tool, wrong string
	says        string // a regular expression
	next, right string
}

var mistakes = []mistake{
	// names of arguments
	{
		"spawn_agent", `{"id":"idle","directory":"BUSY","prompt":"x"}`,
		`input schema of spawn_agent: .*unexpected additional properties .*directory.*call spawn_agent again`,
		"spawn_agent", `{"id":"idle","cwd":"BUSY","prompt":"x"}`,
	},
	{"wait_agent", `{}`, `missing properties: .*agentIds`, "wait_agent", `{"agentIds":["idle"]}`},
	{
		"interrupt", `{"agentId":"idle"}`, `params: .*missing properties: .*conversationId`,
		"interrupt", `{"agentId":"idle","conversationId":"main"}`,
	},
	// types
	{"wait_agent", `{"agentIds":"idle"}`, `agentIds: has type "string"`, "wait_agent", `{"agentIds":["idle"]}`},
	{"list_agents", `"{}"`, `arguments must be an object`, "list_agents", `{}`},
	// places
	{
		"spawn_agent", `{"cwd":"BUSY","prompt":"x"}`, `set worktree: true or shared: true`,
		"spawn_agent", `{"cwd":"BUSY","prompt":"x","shared":true}`,
	},
	{
		"spawn_agent", `{"cwd":"CWD","prompt":"x","worktree":true}`, `leave worktree out`,
		"spawn_agent", `{"cwd":"CWD","prompt":"x"}`,
	},
	// ids
	{
		"spawn_agent", `{"id":"my agent","cwd":"CWD","prompt":"x"}`, `letters, digits, - and _`,
		"spawn_agent", `{"id":"my-agent","cwd":"CWD","prompt":"x"}`,
	},
	{"wait_agent", `{"agentIds":["nobody"]}`, `list_agents, or .* shows the agents`, "list_agents", `{}`},
	{
		"send_user_message",
		`{"agentId":"ended","conversationId":"main","items":[{"type":"text","text":"x"}]}`,
		`spawn_agent starts another`,
		"spawn_agent", `{"cwd":"CWD","prompt":"x"}`,
	},
	// words
	{
		"spawn_agent", `{"id":"idle","cwd":"BUSY","prompt":"x","sandbox":"full"}`, `use read-only or workspace-write`,
		"spawn_agent", `{"id":"idle","cwd":"BUSY","prompt":"x","sandbox":"read-only"}`,
	},
	{
		"wait_agent", `{"agentIds":["idle"],"cursor":"7"}`, `use the cursor of its last result, or none`,
		"wait_agent", `{"agentIds":["idle"]}`,
	},
	// changes
	{
		"deliver_changes", `{"agentId":"working"}`, `wait_agent until its turn has ended, or interrupt it`,
		"interrupt", `{"agentId":"working","conversationId":"main"}`,
	},
	// requests
	{"decide_request", `{"requestId":"asks.1","decision":"yes"}`, `use approve, approve_for_session, deny or answer`, "", ""},
	{
		"decide_request", `{"requestId":"asks.1","decision":"answer","answers":["yes"]}`, `symphony approve asks\.1`,
		"decide_request", `{"requestId":"asks.1","decision":"approve"}`,
	},
}

// Each mistake of a model leads to its repair in one step.
func TestMistakesOfModels(t *testing.T) {
	t.Parallel()
	s := newHostScene(t)
	for _, dir := range []string{"repo", "busy", "places"} {
		test.OK(t, os.Mkdir(s.path(dir), 0o700))
	}
	for _, args := range []string{
		"init -q -b main",
		"config user.name A",
		"config user.email a@example.com",
		"commit -q --allow-empty -m Begin",
	} {
		test.Run(t, exec.Command("git", append([]string{"-C", s.path("repo")}, strings.Fields(args)...)...))
	}
	h := s.host(false, "{}", "--deliver", "--approval-timeout", "1h")
	defer h.close()
	spawn := func(id, place, more, script string) {
		h.call("spawn_agent", fmt.Sprintf(`{"id":%q,"cwd":%q,"prompt":%q%s}`,
			id, s.path(place), "```agent\n"+script+"\n```", more), nil)
	}
	spawn("idle", "busy", "", "say yes")
	spawn("ended", "places", "", "say yes")
	h.call("kill_agent", `{"agentId":"ended"}`, nil)
	spawn("tree", "repo", `,"worktree":true`, "say yes")
	spawn("working", "repo", `,"worktree":true`, "hang")
	test.OK(t, os.Mkdir(s.path("asks"), 0o700))
	spawn("asks", "asks", "", "ask-command touch made\nhang")
	test.Until(t, "an agent asks", func() bool {
		r := h.tool("wait_agent", `{"agentIds":["asks"],"timeoutSeconds":1}`)
		return strings.Contains(string(r.StructuredContent), `"requestId":"asks.1"`)
	})
	test.Until(t, "the others have begun", func() bool {
		r := h.tool("wait_agent", `{"agentIds":["idle","tree"],"mode":"all","timeoutSeconds":5}`)
		return strings.Contains(string(r.StructuredContent), `"state":"done"`)
	})
	for n, m := range mistakes {
		own := s.path(fmt.Sprintf("place-%d", n))
		test.OK(t, os.Mkdir(own, 0o700))
		places := strings.NewReplacer(
			"CWD", own,
			"BUSY", s.path("busy"),
		)
		r := h.tool(m.tool, places.Replace(m.wrong))
		said := r.Content[0].Text
		name := m.tool + " " + m.wrong
		if !r.IsError || !regexp.MustCompile(m.says).MatchString(said) {
			t.Errorf("%s: %s, want %s", name, said, m.says)
		}
		if m.next == "" {
			continue
		}
		r = h.tool(m.next, places.Replace(m.right))
		if r.IsError {
			t.Errorf("%s, after %s: %s", m.next+" "+m.right, name, r.Content[0].Text)
		}
		var started struct{ AgentID string }
		isNew := !strings.Contains(m.right, `"id":"idle"`) && !strings.Contains(m.right, `"id":"tree"`)
		if m.next == "spawn_agent" && isNew && json.Unmarshal(r.StructuredContent, &started) == nil {
			h.call("kill_agent", fmt.Sprintf(`{"agentId":%q}`, started.AgentID), nil)
		}
	}
}
