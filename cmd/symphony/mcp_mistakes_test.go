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
// call, which must succeed. CWD stands for an empty directory of its own, REPO for a
// repository, HOME for the home directory. Without a repaired call the user has to act.
type mistake struct {
	tool, wrong string
	says        string // a regular expression
	next, right string
}

var mistakes = []mistake{
	// names of arguments
	{
		"spawn_agent",
		`{"id":"idle","cwd":"BUSY"}`,
		`needs the argument "prompt"`,
		"spawn_agent",
		`{"id":"idle","cwd":"BUSY","prompt":"x"}`,
	},
	{
		"spawn_agent",
		`{"id":"idle","cwd":"BUSY","task":"x"}`,
		`use "prompt", a text`,
		"spawn_agent",
		`{"id":"idle","cwd":"BUSY","prompt":"x"}`,
	},
	{
		"spawn_agent", `{"id":"idle","directory":"BUSY","prompt":"x"}`, `use "cwd", a text`,
		"spawn_agent", `{"id":"idle","cwd":"BUSY","prompt":"x"}`,
	},
	{
		"spawn_agent", `{"name":"named","cwd":"CWD","prompt":"x"}`, `use "id", a text`,
		"spawn_agent", `{"id":"named","cwd":"CWD","prompt":"x"}`,
	},
	{
		"spawn_agent",
		`{"id":"idle","cwd":"BUSY","prompt":"x","approval_policy":"never"}`,
		`use "approvalPolicy", a text`,
		"spawn_agent", `{"id":"idle","cwd":"BUSY","prompt":"x","approvalPolicy":"never"}`,
	},
	{
		"spawn_agent", `{"id":"idle","cwd":"BUSY","prompt":"x","fork_turns":"none"}`, `leave it out`,
		"spawn_agent", `{"id":"idle","cwd":"BUSY","prompt":"x"}`,
	},
	{"wait_agent", `{"agentId":"idle"}`, `use "agentIds", a list`, "wait_agent", `{"agentIds":["idle"]}`},
	{"wait_agent", `{"agent_ids":["idle"]}`, `use "agentIds", a list`, "wait_agent", `{"agentIds":["idle"]}`},
	{
		"wait_agent", `{"agentIds":["idle"],"timeout_ms":1000}`, `use "timeoutSeconds", a number`,
		"wait_agent", `{"agentIds":["idle"],"timeoutSeconds":1}`,
	},
	{
		"send_message", `{"agentId":"idle","message":"x"}`, `use "prompt", a text`,
		"send_message", `{"agentId":"idle","prompt":"x"}`,
	},
	{
		"send_message", `{"agent_id":"idle","prompt":"x"}`, `use "agentId", a text`,
		"send_message", `{"agentId":"idle","prompt":"x"}`,
	},
	{
		"send_message", `{"agentId":"idle","conversationId":"main","prompt":"x"}`, `leave it out`,
		"send_message", `{"agentId":"idle","prompt":"x"}`,
	},
	{"read_events", `{"agent":"idle"}`, `use "agentId", a text`, "read_events", `{"agentId":"idle"}`},
	{"interrupt", `{"target":"idle"}`, `use "agentId", a text`, "interrupt", `{"agentId":"idle"}`},
	{"kill_agent", `{}`, `needs the argument "agentId"`, "list_agents", `{}`},
	// types
	{
		"spawn_agent",
		`{"id":"idle","cwd":"BUSY","prompt":[{"type":"text","text":"x"}]}`,
		`prompt: .*send a single text`,
		"spawn_agent", `{"id":"idle","cwd":"BUSY","prompt":"x"}`,
	},
	{
		"spawn_agent",
		`{"id":"tree","cwd":"REPO","prompt":"x","worktree":"true"}`,
		`worktree: .*send true or false, without quotes`,
		"spawn_agent", `{"id":"tree","cwd":"REPO","prompt":"x","worktree":true}`,
	},
	{"wait_agent", `{"agentIds":"idle"}`, `agentIds: .*send a list`, "wait_agent", `{"agentIds":["idle"]}`},
	{
		"wait_agent",
		`{"agentIds":["idle"],"timeoutSeconds":"1"}`,
		`timeoutSeconds: .*send a number, without quotes`,
		"wait_agent", `{"agentIds":["idle"],"timeoutSeconds":1}`,
	},
	{"list_agents", `"{}"`, `send the object itself, without quotes`, "list_agents", `{}`},
	// places
	{
		"spawn_agent", `{"cwd":"repo","prompt":"x"}`, `give the absolute path of an existing directory`,
		"spawn_agent", `{"cwd":"CWD","prompt":"x"}`,
	},
	{
		"spawn_agent", `{"cwd":"CWD/none","prompt":"x"}`, `give the absolute path of an existing directory`,
		"spawn_agent", `{"cwd":"CWD","prompt":"x"}`,
	},
	{
		"spawn_agent", `{"cwd":"HOME/.ssh","prompt":"x"}`, `choose a directory`,
		"spawn_agent", `{"cwd":"CWD","prompt":"x"}`,
	},
	{
		"spawn_agent", `{"cwd":"BUSY","prompt":"x"}`, `set worktree: true, or shared: true`,
		"spawn_agent", `{"cwd":"BUSY","prompt":"x","shared":true}`,
	},
	{
		"spawn_agent", `{"cwd":"CWD","prompt":"x","worktree":true}`, `leave worktree out`,
		"spawn_agent", `{"cwd":"CWD","prompt":"x"}`,
	},
	{
		"spawn_agent", `{"cwd":"REPO","prompt":"x","branch":"b1"}`, `set worktree: true`,
		"spawn_agent", `{"cwd":"REPO","prompt":"x","branch":"b1","worktree":true}`,
	},
	{
		"spawn_agent", `{"cwd":"REPO","prompt":"x","worktree":true,"base":"master"}`, `leave base out`,
		"spawn_agent", `{"cwd":"REPO","prompt":"x","worktree":true}`,
	},
	{
		"spawn_agent", `{"cwd":"REPO","prompt":"x","worktree":true,"branch":"main"}`, `choose another name`,
		"spawn_agent", `{"cwd":"REPO","prompt":"x","worktree":true,"branch":"b2"}`,
	},
	{
		"spawn_agent",
		`{"cwd":"REPO","prompt":"x","worktree":true,"branch":"my branch"}`,
		`letters, digits and -_\./`,
		"spawn_agent", `{"cwd":"REPO","prompt":"x","worktree":true,"branch":"my-branch"}`,
	},
	// ids
	{
		"spawn_agent", `{"id":"my agent","cwd":"CWD","prompt":"x"}`, `letters, digits, - and _`,
		"spawn_agent", `{"id":"my-agent","cwd":"CWD","prompt":"x"}`,
	},
	{
		"spawn_agent", `{"id":"IDLE","cwd":"CWD","prompt":"x"}`, `choose another id`,
		"spawn_agent", `{"id":"idle-2","cwd":"CWD","prompt":"x"}`,
	},
	{
		"spawn_agent", `{"id":"ended","cwd":"CWD","prompt":"x"}`, `choose another id`,
		"spawn_agent", `{"id":"ended-2","cwd":"CWD","prompt":"x"}`,
	},
	{
		"spawn_agent", `{"id":"idle","cwd":"CWD","prompt":"x"}`, `choose another id`,
		"spawn_agent", `{"id":"idle-3","cwd":"CWD","prompt":"x"}`,
	},
	{"wait_agent", `{"agentIds":["nobody"]}`, `list_agents shows the agents`, "list_agents", `{}`},
	{"wait_agent", `{"agentIds":[]}`, `list_agents shows the agents`, "list_agents", `{}`},
	{"send_message", `{"agentId":"nobody","prompt":"x"}`, `list_agents shows the agents`, "list_agents", `{}`},
	{
		"send_message", `{"agentId":"ended","prompt":"x"}`, `spawn_agent starts another`,
		"spawn_agent", `{"cwd":"CWD","prompt":"x"}`,
	},
	// words
	{
		"spawn_agent",
		`{"id":"idle","cwd":"BUSY","prompt":"x","sandbox":"full"}`,
		`use read-only or workspace-write`,
		"spawn_agent", `{"id":"idle","cwd":"BUSY","prompt":"x","sandbox":"read-only"}`,
	},
	{
		"spawn_agent",
		`{"id":"idle","cwd":"BUSY","prompt":"x","sandbox":"danger-full-access"}`,
		`use workspace-write`,
		"spawn_agent", `{"id":"idle","cwd":"BUSY","prompt":"x","sandbox":"workspace-write"}`,
	},
	{
		"spawn_agent",
		`{"id":"idle","cwd":"BUSY","prompt":"x","approvalPolicy":"on-failure"}`,
		`use on-request`,
		"spawn_agent", `{"id":"idle","cwd":"BUSY","prompt":"x","approvalPolicy":"on-request"}`,
	},
	{
		"spawn_agent",
		`{"id":"idle","cwd":"BUSY","prompt":"x","approvalPolicy":"auto"}`,
		`use untrusted, on-request or never`,
		"spawn_agent", `{"id":"idle","cwd":"BUSY","prompt":"x","approvalPolicy":"never"}`,
	},
	{
		"wait_agent", `{"agentIds":["idle"],"mode":"first"}`, `use any or all`,
		"wait_agent", `{"agentIds":["idle"],"mode":"any"}`,
	},
	{
		"wait_agent", `{"agentIds":["idle"],"cursor":"7"}`, `use the cursor of its last result, or none`,
		"wait_agent", `{"agentIds":["idle"]}`,
	},
	{
		"send_message",
		`{"agentId":"idle","prompt":" "}`,
		`say what the agent is to do`,
		"send_message",
		`{"agentId":"idle","prompt":"x"}`,
	},
	{
		"read_events", `{"agentId":"idle","detail":"verbose"}`, `use concise or full`,
		"read_events", `{"agentId":"idle","detail":"full"}`,
	},
	{
		"read_events", `{"agentId":"idle","last":-1}`, `say how many of the last events you want`,
		"read_events", `{"agentId":"idle","last":20}`,
	},
	{
		"read_events", `{"agentId":"idle","cursor":"idle:1.0.0"}`, `read_events has returned .* or none`,
		"read_events", `{"agentId":"idle"}`,
	},
	// changes
	{
		"read_changes",
		`{"agentId":"idle"}`,
		`list_agents shows whether the agent works there`,
		"list_agents",
		`{}`,
	},
	{
		"read_changes", `{"agentId":"tree","offset":1,"commit":"1111111111111111111111111111111111111111"}`,
		`read the changes again`, "read_changes", `{"agentId":"tree"}`,
	},
	{
		"deliver_changes", `{"agentId":"idle"}`, `spawn_agent makes one with worktree: true`,
		"spawn_agent", `{"cwd":"REPO","prompt":"x","worktree":true}`,
	},
	{
		"deliver_changes", `{"agentId":"working"}`, `wait_agent until its turn has ended, or interrupt it`,
		"interrupt", `{"agentId":"working"}`,
	},
	// requests
	{
		"decide_request", `{"requestId":"nobody.1","decision":"approve"}`, `wait_agent shows the open requests`,
		"wait_agent", `{"agentIds":["asks"],"timeoutSeconds":0}`,
	},
	{"decide_request", `{"requestId":"asks","decision":"approve"}`, `name a request, such as asks\.1`, "", ""},
	{"decide_request", `{"requestId":"asks.1"}`, `needs the argument "decision"`, "", ""},
	{
		"decide_request",
		`{"requestId":"asks.1","decision":"yes"}`,
		`use approve, approve_for_session, deny or answer`,
		"",
		"",
	},
	{
		"decide_request",
		`{"requestId":"asks.1","decision":"answer","answers":["yes"]}`,
		`decide_request with the decision approve or deny`,
		"",
		"",
	},
	{
		"decide_request", `{"request_id":"asks.1","decision":"approve"}`, `use "requestId", a text`,
		"decide_request", `{"requestId":"asks.1","decision":"approve"}`,
	},
	{
		"decide_request", `{"requestId":"asks.1","decision":"deny"}`, `wait_agent shows the open requests`,
		"wait_agent", `{"agentIds":["asks"],"timeoutSeconds":0}`,
	},
	{
		"decide_request",
		`{"requestId":"wonders.1","decision":"approve"}`,
		`decide_request with the decision answer, and one of answers`,
		"",
		"",
	},
	{
		"decide_request",
		`{"requestId":"wonders.1","decision":"answer"}`,
		`one of answers for each question`,
		"",
		"",
	},
	{
		"decide_request",
		`{"requestId":"wonders.1","decision":"answer","answers":["Yes","No"]}`,
		`one of answers for each question`,
		"decide_request", `{"requestId":"wonders.1","decision":"answer","answers":["Yes"]}`,
	},
}

// toolWord matches the names of symphony's tools of all groups that contain two words.
var toolWord = regexp.MustCompile(`\b(new_conversation|send_user_message|send_user_turn|list_requests|` +
	`exec_one_off_command|get_auth_status|git_diff_to_remote|list_issues|show_issue|run_issue|retry_issue|hold_issue|send_back_issue|` +
	`symphony (agents|answer|approve|deny|help|ps|status|stop))\b`)

// Each mistake of a model leads to its repair in one step, in words of the tools that the
// model has.
func TestMistakesOfModels(t *testing.T) {
	t.Parallel()
	s := newHostScene(t)
	for _, dir := range []string{"repo", "busy", "home/.ssh", "places"} {
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
	h := s.host(false, "{}", "--tools", "lean", "--deliver", "--approval-timeout", "1h")
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
	asking := map[string]string{"asks": "ask-command touch made", "wonders": "ask-user Which way?"}
	for id, ask := range asking {
		test.OK(t, os.Mkdir(s.path(id), 0o700))
		spawn(id, id, "", ask+"\nhang")
		test.Until(t, id+" asks", func() bool {
			r := h.tool("wait_agent", fmt.Sprintf(`{"agentIds":[%q],"timeoutSeconds":1}`, id))
			return strings.Contains(string(r.StructuredContent), `"requestId":"`+id+`.1"`)
		})
	}
	test.Until(t, "the others have begun", func() bool {
		r := h.tool("wait_agent", `{"agentIds":["idle","tree"],"mode":"all","timeoutSeconds":5}`)
		return strings.Contains(string(r.StructuredContent), `"state":"done"`)
	})
	for n, m := range mistakes {
		own := s.path(fmt.Sprintf("place-%d", n))
		test.OK(t, os.Mkdir(own, 0o700))
		places := strings.NewReplacer(
			"CWD", own,
			"REPO", s.path("repo"),
			"BUSY", s.path("busy"),
			"HOME", s.path("home"),
		)
		r := h.tool(m.tool, places.Replace(m.wrong))
		said := r.Content[0].Text
		name := m.tool + " " + m.wrong
		if !r.IsError || !regexp.MustCompile(m.says).MatchString(said) {
			t.Errorf("%s: %s, want %s", name, said, m.says)
		}
		if word := toolWord.FindString(said); word != "" {
			t.Errorf("%s: %s names %s, which the model does not have", name, said, word)
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
	h.ask("tools/call", map[string]any{"name": "new_conversation"})
	test.Contains(t, "the error of an unknown tool", string(h.answer().Error), "use spawn_agent; the tools are ")
	t.Logf("%d mistakes", len(mistakes)+1)
}
