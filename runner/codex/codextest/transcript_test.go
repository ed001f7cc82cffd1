package codextest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/codex/codextest"
)

// record is one line of a transcript.
type record struct {
	Dir string          `json:"dir"`
	Msg json.RawMessage `json:"msg"`
}

type wire struct {
	ID     json.RawMessage            `json:"id"`
	Method string                     `json:"method"`
	Params map[string]json.RawMessage `json:"params"`
}

// transcripts gives the recordings by name, or skips the test.
func transcripts(t *testing.T) map[string][]record {
	t.Helper()
	dir := os.Getenv("SYMPHONY_CODEX_TRANSCRIPTS")
	if dir == "" {
		t.Skip("SYMPHONY_CODEX_TRANSCRIPTS names no folder of recorded transcripts")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts in %s (%v)", dir, err)
	}
	all := make(map[string][]record)
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var r record
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatalf("%s: %v", f, err)
			}
			all[strings.TrimSuffix(filepath.Base(f), ".jsonl")] = append(all[strings.TrimSuffix(filepath.Base(f), ".jsonl")], r)
		}
	}
	return all
}

// replay plays the agent's half of a transcript to a session.
type replay struct {
	t       *testing.T
	s       *codex.Session
	out     *io.PipeWriter
	ids     map[string]string // recorded id: the session's
	heard   chan wire         // requests of the session
	calls   sync.WaitGroup
	shake   chan struct{} // closed when the last call of the handshake has returned
	waiting string        // the recorded id of its request, until it is answered
	turn    chan struct{} // closed when the last RunTurn has returned; nil before any
	running bool          // by the transcript
	thread  string

	mu       sync.Mutex
	outcomes []string
	events   []agent.Event
}

func (r *replay) outcome(what string, err error) {
	var e *agent.Error
	text := "ok"
	switch {
	case errors.As(err, &e):
		text = string(e.Code)
	case err != nil:
		text = "error"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if what != "" || text != "ok" {
		r.outcomes = append(r.outcomes, strings.TrimSpace(what+" "+text))
	}
}

// do makes the session's call for a recorded request and learns its id.
func (r *replay) do(m wire, call func(context.Context) (string, error)) {
	done := make(chan struct{})
	r.calls.Add(1)
	go func() {
		defer r.calls.Done()
		defer close(done)
		r.outcome(call(r.t.Context()))
	}()
	if m.Method == "turn/start" {
		r.turn = done
	} else {
		r.shake, r.waiting = done, string(m.ID)
	}
	for {
		select {
		case w := <-r.heard:
			if w.Method == m.Method {
				r.ids[string(m.ID)] = string(w.ID)
				return
			}
		case <-done:
			return
		case <-time.After(never):
			r.t.Fatalf("%s was not sent", m.Method)
		}
	}
}

// send is a line that the recorded client sent.
func (r *replay) send(msg json.RawMessage) {
	var m wire
	if json.Unmarshal(msg, &m) != nil || len(m.ID) == 0 {
		return
	}
	if _, open := r.ids[r.waiting]; r.shake != nil && !open {
		<-r.shake // its answer is on the stream; the session may still be reading
	}
	cwd := func() string { var s string; _ = json.Unmarshal(m.Params["cwd"], &s); return s }
	switch m.Method {
	case "initialize":
		r.do(m, func(ctx context.Context) (string, error) { _, err := r.s.Initialize(ctx); return "", err })
	case "thread/start":
		r.do(m, func(ctx context.Context) (string, error) {
			_, err := r.s.StartThread(ctx, agent.ThreadParams{Cwd: cwd()})
			return "", err
		})
	case "thread/resume":
		var id string
		if err := json.Unmarshal(m.Params["threadId"], &id); err != nil {
			return
		}
		r.do(m, func(ctx context.Context) (string, error) { return "", r.s.ResumeThread(ctx, id, agent.ThreadParams{}) })
	case "turn/start":
		if r.running {
			return // a session never steers
		}
		if r.turn != nil {
			<-r.turn
		}
		r.do(m, func(ctx context.Context) (string, error) {
			_, err := r.s.RunTurn(ctx, agent.TurnParams{Input: "x"})
			return "turn", err
		})
	}
}

// recv is a line that codex sent.
func (r *replay) recv(msg json.RawMessage) {
	var whole map[string]json.RawMessage
	var m wire
	if json.Unmarshal(msg, &whole) != nil || json.Unmarshal(msg, &m) != nil {
		fmt.Fprintf(r.out, "%s\n", msg)
		return
	}
	if m.Method == "" && m.ID != nil {
		id, known := r.ids[string(m.ID)]
		if !known {
			return // the answer to a request that sessions don't make
		}
		delete(r.ids, string(m.ID))
		whole["id"] = json.RawMessage(id)
	}
	switch thread := string(m.Params["threadId"]); m.Method {
	case "turn/started":
		r.running = r.running || r.thread == "" || thread == r.thread
		if r.thread == "" {
			r.thread = thread
		}
	case "turn/completed":
		r.running = r.running && thread != r.thread
	}
	line, err := json.Marshal(whole)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.out.Write(append(line, '\n')); err != nil {
		r.t.Fatal(err)
	}
}

// play gives how the session's calls ended, and checks that it made something of every line: an event for each message,
// none of them malformed.
func play(t *testing.T, records []record, o agent.Options) []string {
	t.Helper()
	sent := map[string]int{} // by method
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	r := &replay{t: t, out: outW, ids: make(map[string]string), heard: make(chan wire, 1000)}
	go func() {
		lines := bufio.NewScanner(inR)
		lines.Buffer(nil, 1<<24)
		for lines.Scan() {
			var w wire
			if json.Unmarshal(lines.Bytes(), &w) == nil && w.Method != "" && w.ID != nil {
				r.heard <- w
			}
		}
	}()
	o.ReadTimeout = never
	o.Tools = []agent.Tool{{Name: "linear_graphql"}}
	o.CallTool = func(context.Context, string, json.RawMessage) agent.ToolResult {
		return agent.ToolResult{Success: true}
	}
	o.OnEvent = func(e agent.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, e)
	}
	r.s = codex.New(agent.Streams{Stdin: inW, Stdout: outR}, o)
	for _, rec := range records {
		var m wire
		if rec.Dir == "recv" && json.Unmarshal(rec.Msg, &m) == nil && m.Method != "" {
			sent[m.Method]++
		}
		switch rec.Dir {
		case "send":
			r.send(rec.Msg)
		case "recv":
			r.recv(rec.Msg)
		}
	}
	_ = outW.Close()
	ended := make(chan struct{})
	go func() {
		r.calls.Wait()
		<-r.s.Done()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(never):
		t.Fatal("the session hangs")
	}
	r.judge(sent)
	_ = r.s.Close()
	return r.outcomes
}

// methodOf is the method of the message that an event tells of.
func methodOf(e agent.Event) string {
	var m struct {
		Method string `json:"method"`
	}
	_ = json.Unmarshal(e.Raw, &m) // the session emits no Raw that is not JSON
	return m.Method
}

// judge looks at the events for what was sent, by method.
func (r *replay) judge(sent map[string]int) {
	r.t.Helper()
	told := map[string]int{}
	// A tool call is told of when it is over, which may be after the end of the stream.
	waitFor(r.t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		clear(told)
		for _, e := range r.events {
			if e.Raw != nil {
				told[methodOf(e)]++
			}
		}
		return told["item/tool/call"] == sent["item/tool/call"]
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Name == agent.EventMalformed || e.Name == agent.EventOtherMessage && e.Raw != nil || e.Name == agent.EventRequestRefused {
			r.t.Errorf("%s: %s", e.Name, e.Message)
		}
		if e.Raw != nil && (e.Message == "" || e.Message == methodOf(e)) && !strings.Contains(string(e.Raw), `"delta":""`) {
			r.t.Errorf("nothing is said of %s", e.Raw)
		}
	}
	if !maps.Equal(sent, told) {
		r.t.Errorf("codex sent %v\nevents for %v", sent, told)
	}
}

func TestReplay(t *testing.T) {
	want := map[string]string{
		"plain_turn":                                      "turn ok, turn ok",
		"approval_command_on_request_accept":              "turn ok",
		"approval_command_on_request_cancel":              "turn turn_cancelled",
		"approval_file_change_untrusted":                  "turn ok",
		"approval_answered_with_error":                    "turn ok",
		"bad_requests":                                    "response_error, codex_incompatible, codex_incompatible, codex_incompatible, codex_incompatible, codex_incompatible, codex_incompatible, turn ok, turn response_error, turn response_error, turn response_error, turn response_error, turn ok, turn ok, turn response_error, turn ok, turn ok",
		"dynamic_tool_without_experimental":               "codex_incompatible",
		"dynamic_tool_legacy_spec":                        "response_error, response_error",
		"env_key_missing":                                 "turn agent_auth",
		"features_disabled_unreachable":                   "turn network",
		"goal_continues_by_itself":                        "turn ok",
		"interrupt_leaves_command_running":                "turn turn_cancelled",
		"large_output":                                    "turn ok, turn ok",
		"long_input":                                      "turn ok, turn response_error, turn response_error",
		"model_429":                                       "turn agent_quota, turn agent_quota",
		"model_hang_default":                              "turn port_exit",
		"model_http_400_401":                              "turn turn_failed, turn agent_auth, turn agent_auth, turn turn_failed, turn network",
		"model_http_500":                                  "turn ok, turn network",
		"model_response_failed":                           "turn turn_failed, turn agent_quota, turn turn_failed, turn network, turn agent_quota",
		"model_stream_cut":                                "turn ok, turn network",
		"no_credentials_default_provider":                 "turn turn_cancelled",
		"plan_mode_request_user_input":                    "turn turn_input_required",
		"rate_limits_and_token_usage":                     "turn ok, turn ok",
		"recommended_sequence_1":                          "turn ok",
		"recommended_sequence_2":                          "turn ok",
		"request_permissions":                             "turn ok",
		"request_user_input":                              "turn turn_input_required, turn turn_input_required, turn turn_input_required",
		"sigterm_while_shell_runs":                        "turn port_exit",
		"stdin_closed_mid_turn_shell":                     "turn port_exit",
		"sub_agent":                                       "turn ok",
		"thread_resume_2_new_process":                     "turn ok, response_error, response_error, turn response_error",
		"thread_resume_while_other_process_has_it_second": "response_error, turn error",
		"turn_interrupt":                                  "turn turn_cancelled, turn turn_cancelled",
		"turn_start_while_active":                         "turn ok",
	}
	all := transcripts(t)
	for name := range want {
		if all[name] == nil {
			t.Errorf("no transcript %s", name)
		}
	}
	for name, records := range all {
		t.Run(name, func(t *testing.T) {
			// Calls that overlap in the recording may return in either order.
			outcomes := play(t, records, agent.Options{})
			slices.Sort(outcomes)
			got := strings.Join(outcomes, ", ")
			wanted := strings.Split(want[name], ", ")
			slices.Sort(wanted)
			if w := strings.Join(wanted, ", "); w != "" && got != w {
				t.Errorf("outcomes %s\n    want %s", got, w)
			}
			t.Log(got)
		})
	}
}

// The same, with a person who is asked all that a person can be asked.
func TestReplayAsking(t *testing.T) {
	var asked atomic.Int32
	for name, records := range transcripts(t) {
		t.Run(name, func(t *testing.T) {
			play(t, records, agent.Options{
				OnApproval: agent.ApprovalAsk, OnQuestion: agent.QuestionAsk,
				Ask: func(_ context.Context, a agent.Request) agent.Decision {
					asked.Add(1)
					if a.Summary == "" || a.ItemID == "" || a.ThreadID == "" || a.TurnID == "" {
						t.Errorf("asked %+v", a)
					}
					if a.Kind == agent.RequestFileChange && (len(a.Changes) == 0 || a.Changes[0].Diff == "") {
						t.Errorf("the changes are not known: %+v", a)
					}
					return agent.Decision{Approve: true, By: "operator"}
				},
			})
		})
	}
	if n := asked.Load(); n != 25 {
		t.Errorf("%d requests were asked, the transcripts have 25", n)
	}
}

// shapes are the member names of objects, by kind of message and place in it.
type shapes map[string]map[string]bool

// kindOf tells messages apart as far as their shape may differ.
func kindOf(msg map[string]any, answers map[string]string) string {
	method, _ := msg["method"].(string)
	if method == "" {
		return "answer to " + answers[fmt.Sprint(msg["id"])]
	}
	params, _ := msg["params"].(map[string]any)
	if item, ok := params["item"].(map[string]any); ok {
		return method + " " + fmt.Sprint(item["type"])
	}
	return method
}

// free are places whose members are data.
func free(path string) bool {
	for _, f := range []string{".arguments", ".agentsStates", ".codexErrorInfo", ".rateLimits.", ".sandbox", ".codexHome", ".gitInfo", ".commandActions", ".availableDecisions", ".activePermissionProfile"} {
		if strings.Contains(path, f) {
			return true
		}
	}
	return false
}

// walk calls visit for every object in v.
func walk(path string, v any, visit func(path, members string)) {
	switch v := v.(type) {
	case map[string]any:
		if free(path) {
			return
		}
		names := make([]string, 0, len(v))
		for k, member := range v {
			names = append(names, k)
			walk(path+"."+k, member, visit)
		}
		slices.Sort(names)
		visit(path, strings.Join(names, " "))
	case []any:
		for _, member := range v {
			walk(path+"[]", member, visit)
		}
	}
}

func (s shapes) learn(kind string, msg map[string]any) {
	walk(kind, msg, func(path, members string) {
		if s[path] == nil {
			s[path] = make(map[string]bool)
		}
		s[path][members] = true
	})
}

// TestShapes compares what the scripted server sends with the recordings.
func TestShapes(t *testing.T) {
	recorded := make(shapes)
	for _, records := range transcripts(t) {
		asked := make(map[string]string)
		for _, rec := range records {
			var msg map[string]any
			if json.Unmarshal(rec.Msg, &msg) != nil {
				continue
			}
			switch method, _ := msg["method"].(string); {
			case rec.Dir == "send" && method != "":
				asked[fmt.Sprint(msg["id"])] = method
			case rec.Dir == "recv":
				recorded.learn(kindOf(msg, asked), msg)
			}
		}
	}
	home := t.TempDir()
	var sent [][]byte
	first := newTap(&sent)
	first.run(t, home, `{"cwd":"CWD","approvalPolicy":"never"}`, "", script(
		"think a", "sh echo out; exit 3", "background sleep 1000", "say b c", "patch f t", `tool linear_graphql {"query":"q"}`, "tokens 1 2", "stream 2 1ms",
		"subagent s", "ask-command true", "ask-file g", "ask-permissions", "ask-user q?", "retry-notices 1 1ms", "long 10", "steal-turn", "say end",
		"turn 2:", "fail httpConnectionFailed=503 no"), "continuation turn #2 of 3")
	second := newTap(&sent)
	second.run(t, home, `{"cwd":"CWD","threadId":"`+first.thread+`","excludeTurns":true}`, first.thread, "go on", "```agent\ncancel\n```")
	kinds := make(map[string]bool)
	for _, line := range sent {
		var msg map[string]any
		if err := json.Unmarshal(line, &msg); err != nil {
			t.Errorf("not a message: %s", line)
			continue
		}
		kind := kindOf(msg, map[string]string{"1": "initialize", "2": "thread/start", "22": "thread/resume", "3": "turn/start"})
		kinds[kind] = true
		walk(kind, msg, func(path, members string) {
			if !recorded[path][members] {
				t.Errorf("%s has %s,\nrecorded: %v", path, members, recorded[path])
			}
		})
	}
	if len(kinds) < 25 {
		t.Errorf("only %d kinds of messages were compared: %v", len(kinds), kinds)
	}
}

// tap is a client that grants everything and keeps what it is sent.
type tap struct {
	sent   *[][]byte
	thread string
}

func newTap(sent *[][]byte) *tap { return &tap{sent: sent} }

func (p *tap) run(t *testing.T, home, params, resume string, prompts ...string) {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	exited := make(chan int, 1)
	go func() {
		exited <- codextest.Serve(t.Context(), inR, outW, io.Discard, codextest.ServeOptions{Home: home})
		_ = outW.Close()
	}()
	lines := bufio.NewScanner(outR)
	lines.Buffer(nil, 1<<24)
	say := func(format string, args ...any) { fmt.Fprintf(inW, format+"\n", args...) }
	next := func(want func(wire, map[string]any) bool) map[string]any {
		for lines.Scan() {
			var w wire
			var msg map[string]any
			if json.Unmarshal(lines.Bytes(), &w) != nil || json.Unmarshal(lines.Bytes(), &msg) != nil {
				t.Fatalf("not a message: %s", lines.Bytes())
			}
			*p.sent = append(*p.sent, slices.Clone(lines.Bytes()))
			if w.Method != "" && w.ID != nil {
				go say(`{"id":%s,"result":{"decision":"accept","answers":{},"permissions":{},"scope":"turn","contentItems":[],"success":true}}`, w.ID)
			}
			if want(w, msg) {
				return msg
			}
		}
		t.Fatal("the server ended")
		return nil
	}
	answer := func(id string) func(wire, map[string]any) bool {
		return func(w wire, _ map[string]any) bool { return w.Method == "" && string(w.ID) == id }
	}
	go say(`{"id":1,"method":"initialize","params":{"clientInfo":{"name":"tap","version":"1"}}}`)
	next(answer("1"))
	method, id := "thread/start", "2"
	if resume != "" {
		method, id = "thread/resume", "22"
	}
	go say(`{"id":%s,"method":%q,"params":%s}`, id, method, strings.ReplaceAll(params, "CWD", t.TempDir()))
	p.thread = next(answer(id))["result"].(map[string]any)["thread"].(map[string]any)["id"].(string)
	for _, prompt := range prompts {
		text, err := json.Marshal(prompt)
		if err != nil {
			t.Fatal(err)
		}
		go say(`{"id":3,"method":"turn/start","params":{"threadId":%q,"input":[{"type":"text","text":%s}]}}`, p.thread, text)
		next(func(w wire, _ map[string]any) bool {
			return w.Method == "turn/completed" && string(w.Params["threadId"]) == `"`+p.thread+`"`
		})
	}
	_ = inW.Close()
	for lines.Scan() {
	}
	if code := <-exited; code != 0 {
		t.Errorf("exit %d", code)
	}
}
