package codex

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// old is a notification of a version before thread/start.
func old(msg string) string {
	var m struct{ Type string }
	if err := json.Unmarshal([]byte(msg), &m); err != nil {
		panic(err)
	}
	return `{"method":"codex/event/` + m.Type + `","params":{"id":"0","conversationId":"th","msg":` + msg + `}}`
}

// An end in the old shape ends a turn, if nothing of today's comes.
func TestOldEnds(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
		code  Code // of the turn's error
		text  string
		event string
		took  time.Duration
	}{
		{"task_complete", []string{old(`{"type":"task_complete","last_agent_message":"all done"}`)}, "", "all done", EventTurnCompleted, oldEndGrace},
		{"with its turn", []string{old(`{"type":"task_complete","turn_id":"tu","last_agent_message":"all done"}`)}, "", "all done", EventTurnCompleted, oldEndGrace},
		{"turn_aborted", []string{old(`{"type":"turn_aborted","reason":"interrupted"}`)}, CodeTurnCancelled, "", EventTurnCancelled, oldEndGrace},
		{
			"after an error", []string{
				old(`{"type":"error","message":"You've hit your usage limit.","codex_error_info":"usage_limit_exceeded"}`), old(`{"type":"task_complete","last_agent_message":null}`),
			}, CodeAgentQuota, "usage limit", EventTurnFailed, oldEndGrace,
		},
		{
			"after a retry that worked", []string{
				old(`{"type":"stream_error","message":"stream disconnected; retrying 1/5"}`), old(`{"type":"agent_message","message":"said"}`), old(`{"type":"task_complete"}`),
			}, "", "said", EventTurnCompleted, oldEndGrace,
		},
		{
			"after a retry that did not",
			[]string{old(`{"type":"stream_error","message":"stream disconnected; retrying 1/5"}`), old(`{"type":"task_complete"}`)},
			"", "", EventTurnCompleted, oldEndGrace,
		},
		{
			"beside today's", []string{
				old(`{"type":"task_complete","last_agent_message":null}`),
				`{"method":"turn/completed","params":{"threadId":"th","turn":{"id":"tu","status":"failed","error":{"message":"no good"}}}}`,
			}, CodeTurnFailed, "no good", EventTurnFailed, 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, p, wait := inTurn(t, t.Context(), Options{StallTimeout: time.Minute})
				go p.rest()
				from := time.Now()
				p.say(old(`{"type":"task_started","model_context_window":1}`))
				p.say(c.lines...)
				turn, err := wait()
				got := Code("")
				text := turn.LastMessage
				if err != nil {
					got = wantAny(t, err).Code
					text += err.Error()
				}
				if got != c.code || !strings.Contains(text, c.text) || time.Since(from) != c.took {
					t.Errorf("%+v, %v after %v", turn, err, time.Since(from))
				}
				if n := strings.Count(" "+p.names(), " turn_"); n != 1 || !strings.HasSuffix(p.names(), c.event) {
					t.Errorf("events: %s", p.names())
				}
			})
		})
	}
}

// Ends of other threads and turns are none of ours.
func TestOldEndsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, wait := inTurn(t, t.Context(), Options{})
		go p.rest()
		p.say(strings.Replace(old(`{"type":"turn_aborted"}`), `"th"`, `"sub"`, 1), old(`{"type":"turn_aborted","turn_id":"older"}`))
		time.Sleep(time.Hour)
		p.say(turnCompleted)
		if turn, err := wait(); err != nil || turn.Status != statusCompleted {
			t.Errorf("%+v, %v", turn, err)
		}
	})
}

// The agent ends right after the old end: the turn has ended, nothing is waited for.
func TestOldEndAsLastWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, wait := inTurn(t, t.Context(), Options{})
		go p.rest()
		p.say(old(`{"type":"task_complete","last_agent_message":"bye"}`))
		_ = p.out.Close()
		from := time.Now()
		if turn, err := wait(); err != nil || turn.LastMessage != "bye" || time.Since(from) != 0 {
			t.Errorf("%+v, %v after %v", turn, err, time.Since(from))
		}
	})
}

// Interrupt takes an old end as well.
func TestOldEndOfInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, wait := inTurn(t, t.Context(), Options{StallTimeout: time.Minute})
		go func() {
			p.hear() // turn/interrupt
			p.say(`{"id":4,"result":{}}`, old(`{"type":"turn_aborted","reason":"interrupted"}`))
			p.rest()
		}()
		_, err := wait()
		_ = wantCode(t, err, CodeStalled)
		if err := s.Interrupt(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// What began and ended before there were items counts as they do.
func TestOldItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, wait := inTurn(t, t.Context(), Options{StallTimeout: time.Minute, TurnTimeout: time.Hour})
		go p.rest()
		p.say(
			old(`{"type":"exec_command_begin","call_id":"c1","command":["bash","-lc","make"],"cwd":"/w"}`),
			old(`{"type":"token_count","info":{"total_token_usage":{"input_tokens":5,"output_tokens":1,"total_tokens":6}},"rate_limits":{"primary":{"used_percent":100,"resets_at":1795160235}}}`),
		)
		time.Sleep(50 * time.Minute) // a command is open: no stall
		p.say(old(`{"type":"exec_command_end","call_id":"c1","command":["bash","-lc","make"],"exit_code":2}`))
		from := time.Now()
		_, err := wait()
		_ = wantCode(t, err, CodeStalled)
		if took := time.Since(from); took != time.Minute {
			t.Errorf("stalled %v after the command", took)
		}
		if u := s.Usage(); u.Total != 6 {
			t.Errorf("usage %+v", u)
		}
		if got := string(s.RateLimits()); !strings.Contains(got, `"usedPercent":100`) || !strings.Contains(got, `"resetsAt":1795160235`) {
			t.Errorf("limits %s", got)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		var told []string
		for _, e := range p.events {
			told = append(told, e.Message)
		}
		for _, want := range []string{"command started: make", "command exited 2: make", "tokens: 5 in (0 cached), 1 out, 6 in all"} {
			if !strings.Contains(strings.Join(told, "\n"), want) {
				t.Errorf("no %q in %q", want, told)
			}
		}
	})
}

// A whole turn with the members spelled as other versions did.
func TestSnakeCase(t *testing.T) {
	s, p, wait := inTurn(t, t.Context(), Options{OnApproval: ApprovalAsk, Ask: answers(Decision{Approve: true})})
	p.say(
		`{"method":"turn/started","params":{"thread_id":"th","turn":{"id":"tu"}}}`,
		`{"method":"item/started","params":{"thread_id":"th","turn_id":"tu","item":{"type":"command_execution","id":"c1","command":"make","aggregated_output":null,"exit_code":null}}}`,
		`{"method":"item/completed","params":{"thread_id":"th","turn_id":"tu","item":{"type":"command_execution","id":"c1","command":"make","exit_code":3,"status":"failed"}}}`,
		`{"method":"thread/token_usage/updated","params":{"thread_id":"th","token_usage":{"total":{"input_tokens":5,"output_tokens":1,"total_tokens":6}}}}`,
		`{"method":"account/rateLimits/updated","params":{"rate_limits":{"limit_id":"codex","primary":{"used_percent":7}}}}`,
		`{"method":"error","params":{"thread_id":"th","turn_id":"tu","will_retry":true,"error":{"message":"again","codex_error_info":"other","additional_details":"more"}}}`,
		`{"method":"item/completed","params":{"thread_id":"th","turn_id":"tu","item":{"type":"agent_message","id":"m","text":"snake_case is read"}}}`,
		`{"method":"item/permissions/requestApproval","id":0,"params":{"thread_id":"th","turn_id":"tu","item_id":"c2","permissions":{"file_system":{"write":["/a_b"]}}}}`,
	)
	if got, want := p.hear(), `{"id":0,"result":{"permissions":{"file_system":{"write":["/a_b"]}},"scope":"turn"}}`; got != want {
		t.Errorf("heard %s", got)
	}
	go p.rest()
	p.say(
		`{"method":"turn/completed","params":{"thread_id":"other","turn":{"id":"tu","status":"failed"}}}`,
		`{"method":"turn/completed","params":{"thread_id":"th","turn_id":"older","turn":{"status":"failed"}}}`,
		`{"method":"turn/completed","params":{"thread_id":"th","turn_id":"tu","turn":{"status":"completed"}}}`,
	)
	turn, err := wait()
	if err != nil || turn.LastMessage != "snake_case is read" {
		t.Fatalf("%+v, %v", turn, err)
	}
	if u := s.Usage(); u.Total != 6 {
		t.Errorf("usage %+v", u)
	}
	if got := string(s.RateLimits()); !strings.Contains(got, `"usedPercent":7`) {
		t.Errorf("limits %s", got)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var told []string
	for _, e := range p.events {
		told = append(told, e.Message)
		if e.Name != EventSessionStarted && e.Method != "account/rateLimits/updated" && e.ThreadID == "" {
			t.Errorf("%s has no thread", e.Method)
		}
	}
	for _, want := range []string{"command started: make", "command exited 3: make", "tokens: 5 in", "retrying: again: more"} {
		if !strings.Contains(strings.Join(told, "\n"), want) {
			t.Errorf("no %q in %q", want, told)
		}
	}
}

// Data keeps its spelling, and so does what is spelled as today.
func TestCamelKeys(t *testing.T) {
	for _, c := range []struct{ raw, want string }{
		{`{"threadId":"a","_meta":{"x_y":1}}`, ""},
		{`{"thread_id":"a","arguments":{"x_y":1},"permissions":{"file_system":1}}`, `{"arguments":{"x_y":1},"permissions":{"file_system":1},"threadId":"a"}`},
		{`{"threadId":"a","thread_id":"b"}`, `{"threadId":"a"}`},
		{`{"item":{"exit_code":1,"text":"a_b"}}`, `{"item":{"exitCode":1,"text":"a_b"}}`},
		{`{"questions":[{"is_secret":true},7]}`, `{"questions":[{"isSecret":true},7]}`},
		{`{"fileChanges":{"a_b":{}}}`, ""},
		{`{"status":{"type":"active","active_flags":["a_b"]}}`, `{"status":{"activeFlags":["a_b"],"type":"active"}}`},
		{`{"item":{"changes":[{"kind":{"move_path":"a_b"},"diff":"a_b"}],"arguments":{"x_y":1},"result":{"x_y":1}}}`, ""},
		{`{"msg":{"call_id":"c","changes":{"a_b":{"unified_diff":"x"}}}}`, `{"msg":{"callId":"c","changes":{"a_b":{"unified_diff":"x"}}}}`},
		{`{"requested_schema":{"properties":{"first_name":{"type":"string"}}},"_meta":{"tool_params":{"a_b":1}}}`, `{"_meta":{"tool_params":{"a_b":1}},"requestedSchema":{"properties":{"first_name":{"type":"string"}}}}`},
		{`"a_b"`, ""},
		{`[1]`, ""},
	} {
		got, changed := camelKeys(json.RawMessage(c.raw))
		want := c.want
		if want == "" {
			want = c.raw
		}
		if string(got) != want || changed != (c.want != "") {
			t.Errorf("%s: %s, %v", c.raw, got, changed)
		}
	}
}

// The class of an error is found in the spelling of other versions as well; the words of the message are no help here.
func TestSnakeCaseErrors(t *testing.T) {
	for _, c := range []struct {
		info string
		code Code
	}{
		{`"usage_limit_exceeded"`, CodeAgentQuota},
		{`"unauthorized"`, CodeAgentAuth},
		{`"internal_server_error"`, CodeNetwork},
		{`{"http_connection_failed":{"http_status_code":401}}`, CodeAgentAuth},
		{`{"response_stream_disconnected":{"http_status_code":null}}`, CodeNetwork},
		{`"context_window_exceeded"`, CodeTurnFailed},
	} {
		t.Run(c.info, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, p, wait := inTurn(t, t.Context(), Options{})
				go p.rest()
				p.say(
					old(`{"type":"error","message":"it did not work","codex_error_info":`+c.info+`}`),
					`{"method":"turn/failed","params":{"thread_id":"th","turn_id":"tu","error":{"message":"it did not work","codex_error_info":`+c.info+`}}}`,
				)
				_, err := wait()
				_ = wantCode(t, err, c.code)
			})
		})
	}
}

// The words of policies and sandboxes are spelled as an older codex has them, in turns too, and it is asked again only
// for a word that it knows in another spelling.
func TestSpelling(t *testing.T) {
	refused := func(id int, word string) string {
		return fmt.Sprintf("{\"id\":%d,\"error\":{\"code\":-32600,\"message\":\"Invalid request: unknown variant `%s`, expected one of "+
			"`unlessTrusted`, `onFailure`, `onRequest`, `never`, `readOnly`, `workspaceWrite`\"}}", id, word)
	}
	s, p := connect(t, Options{})
	started := make(chan error, 1)
	go func() {
		_, err := s.StartThread(t.Context(), ThreadParams{Cwd: "/w", ApprovalPolicy: json.RawMessage(`"on-request"`), Sandbox: json.RawMessage(`"workspace-write"`)})
		started <- err
	}()
	for i, want := range []string{
		`{"id":2,"method":"thread/start","params":{"cwd":"/w","approvalPolicy":"on-request","sandbox":"workspace-write"}}`,
		`{"id":4,"method":"thread/start","params":{"cwd":"/w","approvalPolicy":"onRequest","sandbox":"workspace-write"}}`,
		`{"id":5,"method":"thread/start","params":{"cwd":"/w","approvalPolicy":"onRequest","sandbox":"workspaceWrite"}}`,
	} {
		if got := p.hear(); got != want {
			t.Fatalf("request %d: %s, want %s", i, got, want)
		}
		p.say([]string{refused(2, "on-request"), refused(4, "workspace-write"), `{"id":5,"result":{"thread":{"id":"th"}}}`}[i])
	}
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = s.RunTurn(t.Context(), TurnParams{Input: "i", ApprovalPolicy: json.RawMessage(`"on-request"`)})
	}()
	if got := p.hear(); !strings.Contains(got, `"approvalPolicy":"onRequest"`) {
		t.Errorf("turn: %s", got)
	}
}

// A word that codex knows in no spelling is refused once.
func TestSpellingOfOthers(t *testing.T) {
	s, p := connect(t, Options{})
	go func() {
		p.hear()
		p.say("{\"id\":2,\"error\":{\"code\":-32600,\"message\":\"Invalid request: unknown variant `on-request`, expected one of `asking`, `never`\"}}")
	}()
	_, err := s.StartThread(t.Context(), ThreadParams{Cwd: "/w", ApprovalPolicy: json.RawMessage(`"on-request"`)})
	if e := wantCode(t, err, CodeIncompatible); !strings.Contains(e.Message, "`asking`") {
		t.Errorf("error %v", e)
	}
}

// asVersion makes the session one with a codex of that version.
func asVersion(s *Session, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = version
}

// Releases before 0.97 take what a tool has said as one text.
func TestOldToolAnswer(t *testing.T) {
	for _, c := range []struct{ version, answer string }{
		{"0.92.0", `{"id":0,"result":{"output":"found","success":true}}`},
		{"0.96.0", `{"id":0,"result":{"output":"found","success":true}}`},
		{"0.97.0", `{"id":0,"result":{"contentItems":[{"text":"found","type":"inputText"}],"success":true}}`},
		{"", `{"id":0,"result":{"contentItems":[{"text":"found","type":"inputText"}],"success":true}}`},
	} {
		t.Run(c.version, func(t *testing.T) {
			s, p := connect(t, Options{
				Tools: []Tool{{Name: "look"}},
				CallTool: func(context.Context, string, json.RawMessage) ToolResult {
					return ToolResult{Text: "found", Success: true}
				},
			})
			asVersion(s, c.version)
			go p.say(`{"method":"item/tool/call","id":0,"params":{"threadId":"th","turnId":"tu","callId":"c","tool":"look","arguments":{}}}`)
			if got := p.hear(); got != c.answer {
				t.Errorf("answer %s, want %s", got, c.answer)
			}
		})
	}
}

// Releases before 0.66 name no command in their requests, and take a consent for the session as a setting of it.
func TestOldApproval(t *testing.T) {
	for _, c := range []struct{ version, answer string }{
		{"0.61.0", `{"id":0,"result":{"acceptSettings":{"forSession":true},"decision":"accept"}}`},
		{"0.65.0", `{"id":0,"result":{"acceptSettings":{"forSession":true},"decision":"accept"}}`},
		{"0.66.0", `{"id":0,"result":{"decision":"acceptForSession"}}`},
		{"", `{"id":0,"result":{"decision":"acceptForSession"}}`},
		{"1.2.0", `{"id":0,"result":{"decision":"acceptForSession"}}`},
	} {
		t.Run(c.version, func(t *testing.T) {
			var asked Event
			heard := make(chan struct{})
			s, p, _ := inTurn(t, t.Context(), Options{OnEvent: func(e Event) {
				if e.Name == EventApprovalAutoApproved {
					asked = e
					close(heard)
				}
			}})
			asVersion(s, c.version)
			go p.say(
				old(`{"type":"exec_command_begin","call_id":"c1","command":["/bin/bash","-lc","touch ../outside"]}`),
				`{"method":"item/started","params":{"item":{"type":"commandExecution","id":"c1","command":"/bin/bash -lc 'touch ../outside'","cwd":"/w"}}}`,
				`{"method":"item/commandExecution/requestApproval","id":0,"params":{"threadId":"th","turnId":"0","itemId":"c1","reason":"it must","risk":null}}`)
			if got := p.hear(); got != c.answer {
				t.Errorf("answer %s, want %s", got, c.answer)
			}
			<-heard
			if want := "approve command: touch ../outside (outside the sandbox): it must"; asked.Message != want {
				t.Errorf("event %q, want %q", asked.Message, want)
			}
		})
	}
}

// Releases before 0.78 count a resumed thread from zero.
func TestOldTotalsOfAResumedThread(t *testing.T) {
	for _, c := range []struct {
		version string
		want    int64
	}{{"0.61.0", 430}, {"0.77.0", 430}, {"0.79.0", 330}, {"", 330}} {
		s, p := connect(t, Options{})
		asVersion(s, c.version)
		go func() {
			p.hear()
			p.say(`{"id":2,"result":{"thread":{"id":"th"}}}`)
		}()
		if err := s.ResumeThread(t.Context(), "th", ThreadParams{Used: Usage{Input: 300, Output: 30, Total: 330}}); err != nil {
			t.Fatal(err)
		}
		p.say(`{"method":"codex/event/token_count","params":{"id":"0","conversationId":"th","msg":{"type":"token_count","info":{"total_token_usage":`+
			`{"input_tokens":90,"cached_input_tokens":0,"output_tokens":10,"reasoning_output_tokens":0,"total_tokens":100}}}}}`,
			`{"method":"thread/tokenUsage/updated","params":{"threadId":"th","tokenUsage":{"total":{"totalTokens":`+map[bool]string{true: "50", false: "330"}[c.want == 430]+`}}}}`)
		s.flush()
		waitUsage(t, s, c.want)
	}
}

func waitUsage(t *testing.T, s *Session, want int64) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); s.Usage().Total != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("used %d, want %d", s.Usage().Total, want)
		}
	}
}

// An MCP server's start is told in the old shape as in today's.
func TestOldStartOfMCPServer(t *testing.T) {
	var p params
	p.read(json.RawMessage(`{"id":"","msg":{"type":"mcp_startup_update","server":"broken","status":{"state":"failed","error":"No such file"}},"conversationId":"th"}`))
	if got := describe(p.modern("mcp_startup_update"), &p); got != "MCP server broken is failed: No such file" {
		t.Error(got)
	}
}

// Releases before 0.63 tell a model that fails by these words alone.
func TestOldWordsOfAFailingModel(t *testing.T) {
	if class, ok := classify(nil, "We're currently experiencing high demand, which may cause temporary errors."); class != CodeNetwork || !ok {
		t.Errorf("%q, %v", class, ok)
	}
}
