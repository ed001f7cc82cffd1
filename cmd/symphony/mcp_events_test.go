package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// hostScene is a machine on which hosts use agents.
type hostScene struct {
	t   *testing.T
	dir string
	env []string
}

// newMCPPlace makes the directories of a server whose codex is scripted.
func newMCPPlace(t *testing.T, dirs ...string) *hostScene {
	t.Helper()
	s := &hostScene{t: t, dir: t.TempDir()}
	for _, dir := range append(dirs, "home", "codex-home") {
		test.OK(t, os.Mkdir(s.path(dir), 0o700))
	}
	s.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.path("home"), "CODEX_HOME=" + s.path("codex-home"),
		"CODEX_BIN=" + test.Must(exec.LookPath("fake-codex")), "TMPDIR=" + s.dir,
	}
	return s
}

func newHostScene(t *testing.T) *hostScene {
	t.Helper()
	s := newMCPPlace(t, "a", "b")
	t.Cleanup(func() {
		h := s.host(false, "{}")
		defer h.close()
		var list struct{ AgentIDs []string }
		h.call("list_agents", `{}`, &list)
		for _, id := range list.AgentIDs {
			h.call("kill_agent", fmt.Sprintf(`{"agentId":%q}`, id), nil)
		}
	})
	return s
}

// worker is the process of an agent's worker.
func (s *hostScene) worker(agent string) int {
	s.t.Helper()
	db := test.Must(
		sql.Open("sqlite", "file:"+s.path("home/.local/state/symphony/agents/state.db")+"?mode=ro"),
	)
	defer db.Close()
	var pid int
	test.OK(
		s.t,
		db.QueryRowContext(s.t.Context(), `SELECT worker_pid FROM runs WHERE identifier = ?`, agent).
			Scan(&pid),
	)
	return pid
}

func (s *hostScene) path(name string) string { return filepath.Join(s.dir, name) }

// lineHost is a host with a server of its own.
type lineHost struct {
	*hostScene
	*mcpHost
}

// host starts a server with flags for a host with these capabilities.
func (s *hostScene) host(modern bool, capabilities string, flags ...string) *lineHost {
	s.t.Helper()
	cmd := exec.CommandContext(
		context.Background(),
		"symphony",
		append([]string{"mcp", "--approval-timeout", "1s"}, flags...)...)
	cmd.Dir = s.dir
	cmd.Env = s.env
	cmd.Stderr = s.t.Output()
	h := &lineHost{s, &mcpHost{on: s.t, cmd: cmd}}
	h.start(modern, capabilities)
	if modern { // the server learns the capabilities from a call
		h.call("list_agents", `{}`, nil)
	}
	return h
}

// call calls a tool, which must not fail.
func (h *lineHost) call(tool, arguments string, result any) {
	h.t.Helper()
	r := h.tool(tool, arguments)
	if r.IsError {
		h.t.Fatalf("%s %s: %s", tool, arguments, r.StructuredContent)
	}
	if result != nil {
		test.OK(h.t, json.Unmarshal(r.StructuredContent, result))
	}
}

// fails calls a tool, which has to fail with this code and a hint.
func (h *lineHost) fails(tool, arguments, code string) {
	h.t.Helper()
	var failure struct{ Code, Hint string }
	r := h.tool(tool, arguments)
	test.OK(h.t, json.Unmarshal(r.StructuredContent, &failure))
	if !r.IsError || failure.Code != code || failure.Hint == "" {
		h.t.Errorf("%s %s: %+v, want %s", tool, arguments, failure, code)
	}
}

// take returns the parameters of the notifications with that method since the last call.
func (h *lineHost) take(method string) (list []json.RawMessage) {
	for len(h.lines) > 0 {
		h.late = append(h.late, <-h.lines)
	}
	for _, line := range h.late {
		var m hostMessage
		test.OK(h.t, json.Unmarshal(line, &m))
		if m.Method == method {
			list = append(list, m.Params)
		}
	}
	h.late = nil
	return list
}

func (h *lineHost) close() {
	_ = h.cmd.Process.Kill()
	_ = h.wait() // it was killed
}

// spawn starts an agent in the directory of its name with a conversation, whose id it returns.
func (h *lineHost) spawn(id string) string {
	h.t.Helper()
	h.call("spawn_agent", fmt.Sprintf(`{"id":%q,"cwd":%q}`, id, h.path(id)), nil)
	var c struct{ ConversationID string }
	h.call("new_conversation", fmt.Sprintf(`{"agentId":%q}`, id), &c)
	return c.ConversationID
}

// turn begins a turn with a script.
func (h *lineHost) turn(agent, conversation, id, script string) {
	h.t.Helper()
	prompt := test.Must(json.Marshal("```agent\n" + script + "\n```\n"))
	h.call(
		"send_user_turn",
		fmt.Sprintf(
			`{"agentId":%q,"params":{"conversationId":%q,"id":%q,"items":[{"type":"text","text":%s}]}}`,
			agent,
			conversation,
			id,
			prompt,
		),
		nil,
	)
}

type waitResult struct {
	State, Cursor string
	Agents        []struct {
		AgentID, State string
		Conversations  []struct {
			ConversationID string
			Turns          []struct{ TurnID, Status, LastMessage string }
		}
		Requests []struct{ RequestID, Command string }
	}
}

// String is short: "done a idle [a.1:completed one]". Of open turns it has only the id.
func (r waitResult) String() string {
	text := r.State
	for _, a := range r.Agents {
		text += " " + a.AgentID + " " + a.State
		for _, c := range a.Conversations {
			for _, turn := range c.Turns {
				if turn.Status == "queued" || turn.Status == "running" {
					text += " [" + turn.TurnID + "]"
					continue
				}
				text += " [" + strings.TrimSpace(turn.TurnID+":"+turn.Status+" "+turn.LastMessage) + "]"
			}
		}
		for _, q := range a.Requests {
			text += " {" + q.RequestID + " " + q.Command + "}"
		}
	}
	return text
}

// waits calls wait_agent and returns the cursor.
func (h *lineHost) waits(agents, mode string, seconds float64, cursor, want string) string {
	h.t.Helper()
	h.beginWait(agents, mode, seconds, cursor)
	return h.endWait(want)
}

func (h *lineHost) beginWait(agents, mode string, seconds float64, cursor string) {
	h.ask("tools/call", map[string]any{"name": "wait_agent", "arguments": map[string]any{
		"agentIds":       strings.Fields(agents),
		"mode":           mode,
		"timeoutSeconds": seconds,
		"cursor":         cursor,
	}})
}

func (h *lineHost) endWait(want string) string {
	h.t.Helper()
	var answer struct{ StructuredContent waitResult }
	test.OK(h.t, json.Unmarshal(h.answer().Result, &answer))
	test.Equal(h.t, "wait_agent", answer.StructuredContent.String(), want)
	return answer.StructuredContent.Cursor
}

// long is more time than a test needs.
const long = 50

func TestWaitAgent(t *testing.T) {
	t.Parallel()
	s := newHostScene(t)
	h := s.host(false, "{}")
	a := h.spawn("a")
	b := h.spawn("b")
	h.waits("a b", "all", long, "", "done a idle b idle")
	h.turn("a", a, "1", "say one")
	one := h.waits("a", "any", long, "", "done a idle [a.1:completed one]")
	h.waits("a", "any", long, one, "done a idle")

	// The server is killed in the middle of a turn. Another one continues at the cursor.
	h.turn("a", a, "2", "sleep 1s\nsay two")
	h.close()
	h = s.host(false, "{}")
	defer h.close()
	two := h.waits("a", "any", long, one, "done a idle [a.2:completed two]")
	h.waits("a", "any", long, one, "done a idle [a.2:completed two]")

	// The time is up.
	h.turn("a", a, "3", "hang")
	h.waits("a", "any", 0.3, two, "running a active [a.3]")

	// One of two agents, and all of them; two hosts at once.
	h.turn("b", b, "1", "say b")
	three := h.waits("a b", "any", long, two, "done a active [a.3] b idle [b.1:completed b]")
	h.waits("b a b", "all", 0, three, "running a active [a.3] b idle")
	other := s.host(true, "{}")
	defer other.close()
	other.beginWait("a b", "all", long, three)
	h.call("interrupt", fmt.Sprintf(`{"agentId":"a","params":{"conversationId":%q}}`, a), nil)
	other.endWait("done a idle [a.3:interrupted] b idle")
	four := h.waits("a b", "any", long, three, "done a idle [a.3:interrupted] b idle")

	// A request ends the wait once.
	h.turn("a", a, "4", "ask-command touch asked\nsay four")
	asked := h.waits("a", "all", long, four, "done a waiting for approval [a.4] {a.1 touch asked}")
	h.waits("a", "any", 0, asked, "running a waiting for approval [a.4] {a.1 touch asked}")
	five := h.waits("a", "any", long, asked, "done a idle [a.4:completed four]")

	// A host learns the end of an agent once, too.
	h.turn("b", b, "2", "hang")
	h.call("kill_agent", `{"agentId":"a"}`, nil)
	six := h.waits("a b", "any", long, five, "done a ended b active [b.2]")
	h.waits("a b", "any", 0.1, six, "running a ended b active [b.2]")

	// So is the end of an agent whose worker was killed.
	test.OK(t, syscall.Kill(s.worker("b"), syscall.SIGKILL))
	h.waits("a b", "all", long, six, "done a ended b ended [b.2:failed]")

	for _, c := range []struct{ arguments, code string }{
		{`{"agentIds":["a"],"cursor":"a:x"}`, "invalid_argument"},
		{`{"agentIds":["a"],"cursor":"a:1.1.2"}`, "invalid_argument"},
		{`{"agentIds":[]}`, "invalid_argument"},
		{`{"agentIds":["a"],"mode":"most"}`, "invalid_argument"},
		{`{"agentIds":["c"]}`, "not_found"},
	} {
		h.fails("wait_agent", c.arguments, c.code)
	}
}

// eventOf is an event of an agent, as read_events returns it and codex/event sends it.
type eventOf struct {
	AgentID, ConversationID, Name, Message string
	No, Dropped                            int64
	Event                                  json.RawMessage
}

// events returns the events after a number that the host is sent until a turn has ended, and
// how many were dropped.
func (h *lineHost) events(after int64) (list []eventOf, dropped int64) {
	h.t.Helper()
	test.Until(h.t, "the event of the end of a turn", func() bool {
		for _, params := range h.take("codex/event") {
			var e eventOf
			test.OK(h.t, json.Unmarshal(params, &e))
			if e.No > after {
				list = append(list, e)
				dropped = dropped + e.Dropped
			}
		}
		n := len(list) - 1
		return n >= 0 && list[n].Name == "call_completed" && list[n].Message == "turn"
	})
	return list, dropped
}

func TestEventsForHosts(t *testing.T) {
	t.Parallel()
	s := newHostScene(t)
	asks := s.host(false, `{"experimental":{"codex/event":{}}}`)
	other := s.host(false, "{}")
	flag := s.host(false, "{}", "--events")
	newer := s.host(true, `{"experimental":{"codex/event":{}}}`)
	defer asks.close()
	defer newer.close()
	defer other.close()
	defer flag.close()
	a := other.spawn("a")
	other.turn("a", a, "1", "say hello")
	one := other.waits("a", "any", long, "", "done a idle [a.1:completed hello]")

	// Hosts that ask for events get those of all agents, codex's own messages; others read
	// them.
	sent, _ := asks.events(0)
	message := -1
	for i, e := range sent {
		if e.AgentID != "a" || e.No != int64(i+1) || e.Dropped != 0 {
			t.Errorf("event %d: %+v", i+1, e)
		}
		if strings.Contains(string(e.Event), `"method":"item/completed"`) &&
			strings.Contains(string(e.Event), "hello") &&
			e.ConversationID == a {
			message = i
		}
	}
	got, _ := newer.events(0)
	test.Equal(t, "what a newer host got", got, sent)
	if message < 0 {
		t.Errorf("the agent's message is missing: %+v", sent)
	}
	test.Equal(t, "what a host that has not asked got", other.take("codex/event"), nil)
	var all []eventOf
	for cursor, more := "", true; more; {
		var read struct {
			Events []eventOf
			Cursor string
			Lost   int64
		}
		other.call(
			"read_events",
			fmt.Sprintf(`{"agentId":"a","detail":"full","cursor":%q}`, cursor),
			&read,
		)
		all = append(all, read.Events...)
		cursor = read.Cursor
		more = len(read.Events) > 0
		test.Equal(t, "how many events are lost", read.Lost, 0)
	}
	if len(all) < len(sent) || fmt.Sprint(all[:len(sent)]) != fmt.Sprint(sent) {
		t.Errorf("read %v\nsent %v", all, sent)
	}

	var lines struct {
		Events []struct{ Name, Message, TurnID string }
	}
	other.call("read_events", `{"agentId":"a"}`, &lines)
	said := slices.DeleteFunc(
		slices.Clone(lines.Events),
		func(e struct{ Name, Message, TurnID string }) bool { return e.Name != "words" },
	)
	test.Equal(t, "what the agent has said", fmt.Sprint(said), "[{words · hello a.1}]")
	whole1 := len(lines.Events)
	other.call("read_events", `{"agentId":"a","last":1}`, &lines)
	test.Equal(
		t,
		"how many events there are, and with last",
		[]int{whole1, len(lines.Events)},
		[]int{whole1, 1},
	)
	if whole1 < 2 || whole1 >= len(all) {
		t.Errorf("%d of %d events have a line", whole1, len(all))
	}

	// A host does not read. That delays neither the agent nor the other hosts; it loses
	// events, but none about approvals.
	before := sent[len(sent)-1].No
	flag.reading.Lock()
	flood := strings.Repeat("long 30000\n", 60)
	other.turn("a", a, "2", "ask-command touch asked\n"+flood+"sleep 2500ms\nsay done")
	two := other.waits("a", "any", long, one, "done a waiting for approval [a.2] {a.1 touch asked}")
	other.waits("a", "any", long, two, "done a idle [a.2:completed done]")
	var part struct{ More bool }
	other.call("read_events", `{"agentId":"a","detail":"full"}`, &part)
	test.Equal(t, "there are later events", part.More, true)
	// On a busy machine one that reads may lose some, too.
	whole, lost := asks.events(before)
	flag.reading.Unlock()
	some, dropped := flag.events(before)
	end := whole[len(whole)-1].No
	test.Equal(t, "how many events a host that reads has got or lost", int64(len(whole))+lost, end-before)
	if dropped == 0 || int64(len(some))+dropped != end-before {
		t.Errorf(
			"a host that did not read has got %d events and lost %d of %d",
			len(some),
			dropped,
			end-before,
		)
	}
	approvals := func(list []eventOf) (names []string) {
		for _, e := range list {
			if strings.HasPrefix(e.Name, "approval_") || strings.HasPrefix(e.Name, "request_") {
				names = append(names, e.Name)
			}
		}
		return names
	}
	asked := approvals(some)
	every := approvals(whole)
	if len(every) < 2 || fmt.Sprint(asked) != fmt.Sprint(every) {
		t.Errorf("events about approvals: %v, want %v", asked, every)
	}

	for arguments, code := range map[string]string{
		`{"agentId":"a","cursor":"x"}`: "invalid_argument",
		`{"agentId":"c"}`:              "not_found",
	} {
		other.fails("read_events", arguments, code)
	}
}
