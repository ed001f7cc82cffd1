package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
)

// hostScene is a machine on which hosts use agents.
type hostScene struct {
	t   *testing.T
	dir string
	env []string
}

func newHostScene(t *testing.T) *hostScene {
	t.Helper()
	s := &hostScene{t: t, dir: t.TempDir()}
	fake, err := inPath(os.Getenv("PATH"), "fake-codex")
	test.OK(t, err)
	for _, dir := range []string{"home", "codex-home", "a", "b"} {
		test.OK(t, os.Mkdir(s.path(dir), 0o700))
	}
	s.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.path("home"), "CODEX_HOME=" + s.path("codex-home"), "CODEX_BIN=" + fake, "TMPDIR=" + s.dir,
	}
	t.Cleanup(func() {
		h := s.host("{}")
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
	db, err := sql.Open("sqlite", "file:"+s.path("home/.local/state/symphony/agents/state.db")+"?mode=ro")
	test.OK(s.t, err)
	defer db.Close()
	var pid int
	test.OK(s.t, db.QueryRowContext(s.t.Context(), `SELECT worker_pid FROM runs WHERE identifier = ?`, agent).Scan(&pid))
	return pid
}

func (s *hostScene) path(name string) string { return filepath.Join(s.dir, name) }

// lineHost is a host with a server of its own. It keeps notifications until the test takes them.
type lineHost struct {
	*hostScene
	server *exec.Cmd
	in     *bufio.Writer
	meta   string // of its calls
	calls  int

	mu            sync.Mutex
	reading       sync.Mutex // held by a test in which the host does not read
	results       chan hostMessage
	notifications []hostMessage
}

type hostMessage struct {
	ID     int
	Method string
	Params json.RawMessage
	Error  json.RawMessage
	Result struct {
		IsError           bool
		StructuredContent json.RawMessage
	}
}

// host starts a server with flags for a host with these capabilities.
func (s *hostScene) host(capabilities string, flags ...string) *lineHost {
	s.t.Helper()
	h := s.start(flags...)
	h.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","clientInfo":{"name":"test","version":"1"},"capabilities":` +
		capabilities + `}}`)
	<-h.results
	h.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return h
}

// newerHost is host with the protocol of 2026-07-28, whose calls say what the host can do.
func (s *hostScene) newerHost(capabilities string, flags ...string) *lineHost {
	s.t.Helper()
	h := s.start(flags...)
	h.meta += `,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":` + capabilities
	h.call("list_agents", `{}`, nil)
	return h
}

func (s *hostScene) start(flags ...string) *lineHost {
	s.t.Helper()
	h := &lineHost{hostScene: s, meta: `"progressToken":"p"`, results: make(chan hostMessage, 1)}
	h.server = exec.CommandContext(context.Background(), "symphony", append([]string{"mcp", "--approval-timeout", "1s"}, flags...)...)
	h.server.Dir, h.server.Env = s.dir, s.env
	h.server.Stderr = s.t.Output()
	in, err := h.server.StdinPipe()
	test.OK(s.t, err)
	out, err := h.server.StdoutPipe()
	test.OK(s.t, err)
	test.OK(s.t, h.server.Start())
	h.in = bufio.NewWriter(in)
	go h.read(bufio.NewReader(out))
	return h
}

func (h *lineHost) read(out *bufio.Reader) {
	for {
		h.reading.Lock()
		h.reading.Unlock() //nolint:staticcheck // it waits
		line, err := out.ReadBytes('\n')
		if err != nil {
			close(h.results)
			return
		}
		var m hostMessage
		if err := json.Unmarshal(line, &m); err != nil {
			h.t.Errorf("not a message: %.200s", line)
			continue
		}
		if m.Method == "" {
			h.results <- m
			continue
		}
		h.mu.Lock()
		h.notifications = append(h.notifications, m)
		h.mu.Unlock()
	}
}

func (h *lineHost) send(line string) {
	h.t.Helper()
	_, err := h.in.WriteString(line + "\n")
	test.OK(h.t, err)
	test.OK(h.t, h.in.Flush())
}

// call calls a tool, which must not fail.
func (h *lineHost) call(tool, arguments string, result any) {
	h.t.Helper()
	m := h.try(tool, arguments)
	if m.Error != nil || m.Result.IsError {
		h.t.Fatalf("%s %s: %s %s", tool, arguments, m.Error, m.Result.StructuredContent)
	}
	if result != nil {
		test.OK(h.t, json.Unmarshal(m.Result.StructuredContent, result))
	}
}

// try calls a tool with a progress token.
func (h *lineHost) try(tool, arguments string) hostMessage {
	h.t.Helper()
	h.calls++
	h.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{%s}}}`,
		h.calls, tool, arguments, h.meta))
	m, ok := <-h.results
	if !ok {
		h.t.Fatalf("%s: the server has exited", tool)
	}
	return m
}

// take returns the parameters of the notifications with that method since the last call.
func (h *lineHost) take(method string) (list []map[string]any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.notifications {
		if n.Method == method {
			params := map[string]any{}
			test.OK(h.t, json.Unmarshal(n.Params, &params))
			list = append(list, params)
		}
	}
	h.notifications = nil
	return list
}

func (h *lineHost) close() {
	_ = h.server.Process.Kill()
	_ = h.server.Wait() // it was killed
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
	prompt, err := json.Marshal("```agent\n" + script + "\n```\n")
	test.OK(h.t, err)
	h.call("send_user_turn", fmt.Sprintf(`{"agentId":%q,"params":{"conversationId":%q,"id":%q,"items":[{"type":"text","text":%s}]}}`,
		agent, conversation, id, prompt), nil)
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

// wait calls wait_agent and returns the cursor.
func (h *lineHost) wait(agents, mode string, seconds float64, cursor, want string) string {
	h.t.Helper()
	ids, err := json.Marshal(strings.Fields(agents))
	test.OK(h.t, err)
	var r waitResult
	h.call("wait_agent", fmt.Sprintf(`{"agentIds":%s,"mode":%q,"timeoutSeconds":%g,"cursor":%q}`, ids, mode, seconds, cursor), &r)
	if r.String() != want {
		h.t.Errorf("wait_agent %s %s from %q: %s\nwant %s", agents, mode, cursor, r, want)
	}
	return r.Cursor
}

// long is more time than a test needs.
const long = 50

func TestWaitAgent(t *testing.T) {
	t.Parallel()
	s := newHostScene(t)
	h := s.host("{}")
	a, b := h.spawn("a"), h.spawn("b")
	h.wait("a b", "all", long, "", "done a idle b idle")
	h.turn("a", a, "1", "say one")
	one := h.wait("a", "any", long, "", "done a idle [a.1:completed one]")
	h.wait("a", "any", long, one, "done a idle")

	// The server is killed in the middle of a turn. Another one continues at the cursor.
	h.turn("a", a, "2", "sleep 1s\nsay two")
	h.close()
	h = s.host("{}")
	defer h.close()
	two := h.wait("a", "any", long, one, "done a idle [a.2:completed two]")
	h.wait("a", "any", long, one, "done a idle [a.2:completed two]")

	// The time is up.
	h.turn("a", a, "3", "hang")
	h.take("notifications/progress")
	h.wait("a", "any", 0.3, two, "running a active [a.3]")
	if p := h.take("notifications/progress"); len(p) == 0 || p[0]["progressToken"] != "p" || !strings.HasPrefix(fmt.Sprint(p[0]["message"]), "a: active") {
		t.Errorf("progress: %v", p)
	}

	// One of two agents, and all of them; two hosts at once.
	h.turn("b", b, "1", "say b")
	three := h.wait("a b", "any", long, two, "done a active [a.3] b idle [b.1:completed b]")
	h.wait("b a b", "all", 0, three, "running a active [a.3] b idle")
	other := s.newerHost("{}")
	defer other.close()
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		other.wait("a b", "all", long, three, "done a idle [a.3:interrupted] b idle")
	}()
	for len(other.take("notifications/progress")) == 0 { // it waits
		time.Sleep(10 * time.Millisecond)
	}
	h.call("interrupt", fmt.Sprintf(`{"agentId":"a","params":{"conversationId":%q}}`, a), nil)
	<-waited
	four := h.wait("a b", "any", long, three, "done a idle [a.3:interrupted] b idle")

	// A request ends the wait once.
	h.turn("a", a, "4", "ask-command touch asked\nsay four")
	asked := h.wait("a", "all", long, four, "done a waiting for approval [a.4] {a.1 touch asked}")
	h.wait("a", "any", 0, asked, "running a waiting for approval [a.4] {a.1 touch asked}")
	five := h.wait("a", "any", long, asked, "done a idle [a.4:completed four]")

	// A host learns the end of an agent once, too.
	h.turn("b", b, "2", "hang")
	h.call("kill_agent", `{"agentId":"a"}`, nil)
	six := h.wait("a b", "any", long, five, "done a ended b active [b.2]")
	h.wait("a b", "any", 0.1, six, "running a ended b active [b.2]")

	// So is the end of an agent whose worker was killed.
	test.OK(t, syscall.Kill(s.worker("b"), syscall.SIGKILL))
	h.wait("a b", "all", long, six, "done a ended b ended [b.2:failed]")

	for _, c := range []struct{ arguments, code string }{
		{`{"agentIds":["a"],"cursor":"a:x"}`, "invalid_cursor"},
		{`{"agentIds":["a"],"cursor":"a:1.1.2"}`, "invalid_cursor"},
		{`{"agentIds":[]}`, "invalid_argument"},
		{`{"agentIds":["a"],"mode":"most"}`, "invalid_argument"},
		{`{"agentIds":["c"]}`, "unknown_agent"},
	} {
		var failure struct{ Code, Hint string }
		m := h.try("wait_agent", c.arguments)
		test.OK(t, json.Unmarshal(m.Result.StructuredContent, &failure))
		if !m.Result.IsError || failure.Code != c.code || failure.Hint == "" {
			t.Errorf("%s: %+v", c.arguments, failure)
		}
	}
}

// eventOf is an event of an agent, as read_events returns it and codex/event sends it.
type eventOf struct {
	AgentID, ConversationID, Name, Message string
	No, Dropped                            int64
	Event                                  json.RawMessage
}

// events returns the events after a number that the host is sent until a turn has ended, and how many were dropped.
func (h *lineHost) events(after int64) (list []eventOf, dropped int64) {
	h.t.Helper()
	for {
		for _, params := range h.take("codex/event") {
			data, err := json.Marshal(params)
			test.OK(h.t, err)
			var e eventOf
			test.OK(h.t, json.Unmarshal(data, &e))
			if e.No > after {
				list, dropped = append(list, e), dropped+e.Dropped
			}
		}
		if n := len(list) - 1; n >= 0 && list[n].Name == "call_completed" && list[n].Message == "turn" {
			return list, dropped
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestEventsForHosts(t *testing.T) {
	t.Parallel()
	s := newHostScene(t)
	asks, other, flag := s.host(`{"experimental":{"codex/event":{}}}`), s.host("{}"), s.host("{}", "--events")
	newer := s.newerHost(`{"experimental":{"codex/event":{}}}`)
	defer asks.close()
	defer newer.close()
	defer other.close()
	defer flag.close()
	a := other.spawn("a")
	other.turn("a", a, "1", "say hello")
	one := other.wait("a", "any", long, "", "done a idle [a.1:completed hello]")

	// Hosts that ask for events get those of all agents, codex's own messages; others read them.
	sent, _ := asks.events(0)
	message := -1
	for i, e := range sent {
		if e.AgentID != "a" || e.No != int64(i+1) || e.Dropped != 0 {
			t.Errorf("event %d: %+v", i+1, e)
		}
		if strings.Contains(string(e.Event), `"method":"item/completed"`) && strings.Contains(string(e.Event), "hello") && e.ConversationID == a {
			message = i
		}
	}
	if got, _ := newer.events(0); fmt.Sprint(got) != fmt.Sprint(sent) {
		t.Errorf("a newer host got %v\nnot %v", got, sent)
	}
	if message < 0 {
		t.Errorf("the agent's message is missing: %+v", sent)
	}
	if got := other.take("codex/event"); got != nil {
		t.Errorf("a host that has not asked got %v", got)
	}
	var all []eventOf
	for cursor, more := "", true; more; {
		var read struct {
			Events []eventOf
			Cursor string
			Lost   int64
		}
		other.call("read_events", fmt.Sprintf(`{"agentId":"a","maxBytes":2000,"cursor":%q}`, cursor), &read)
		all, cursor, more = append(all, read.Events...), read.Cursor, len(read.Events) > 0
		if read.Lost != 0 {
			t.Errorf("%d events lost", read.Lost)
		}
	}
	if len(all) < len(sent) || fmt.Sprint(all[:len(sent)]) != fmt.Sprint(sent) {
		t.Errorf("read %v\nsent %v", all, sent)
	}

	// A host does not read. That delays neither the agent nor the other hosts; it loses events, but none about approvals.
	before := sent[len(sent)-1].No
	flag.reading.Lock()
	flood := strings.Repeat("long 30000\n", 60)
	other.turn("a", a, "2", "ask-command touch asked\n"+flood+"sleep 2500ms\nsay done")
	two := other.wait("a", "any", long, one, "done a waiting for approval [a.2] {a.1 touch asked}")
	other.wait("a", "any", long, two, "done a idle [a.2:completed done]")
	whole, dropped := asks.events(before)
	if dropped != 0 {
		t.Errorf("a host that reads has lost %d events", dropped)
	}
	flag.reading.Unlock()
	some, dropped := flag.events(before)
	end := whole[len(whole)-1].No
	if dropped == 0 || int64(len(some))+dropped != end-before {
		t.Errorf("a host that did not read has got %d events and lost %d of %d", len(some), dropped, end-before)
	}
	approvals := func(list []eventOf) (names []string) {
		for _, e := range list {
			if strings.HasPrefix(e.Name, "approval_") || strings.HasPrefix(e.Name, "request_") {
				names = append(names, e.Name)
			}
		}
		return names
	}
	if got, want := approvals(some), approvals(whole); len(want) < 2 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("events about approvals: %v, want %v", got, want)
	}

	for arguments, code := range map[string]string{`{"agentId":"a","cursor":"x"}`: "invalid_cursor", `{"agentId":"c"}`: "unknown_agent"} {
		m := other.try("read_events", arguments)
		if !m.Result.IsError || !strings.Contains(string(m.Result.StructuredContent), code) {
			t.Errorf("%s: %s", arguments, m.Result.StructuredContent)
		}
	}
}
