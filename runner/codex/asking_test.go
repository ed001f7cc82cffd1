package codex

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/agent"
)

const (
	askCommand = `{"method":"item/commandExecution/requestApproval","id":0,"params":{"threadId":"th",` +
		`"turnId":"tu","itemId":"c1","command":"/bin/bash -lc 'touch a'","reason":"why"}}`
	resolved = `{"method":"serverRequest/resolved","params":{"threadId":"th","requestId":0}}`
)

// operator is an Asker that decides when the test tells it to.
type operator struct {
	asked chan agent.Request
	tell  chan agent.Decision
}

func newOperator() *operator {
	return &operator{asked: make(chan agent.Request, 10), tell: make(chan agent.Decision, 10)}
}

func (h *operator) ask(ctx context.Context, a agent.Request) agent.Decision {
	h.asked <- a
	select {
	case d := <-h.tell:
		return d
	case <-ctx.Done():
		return agent.Decision{}
	}
}

func (h *operator) options() agent.Options {
	return agent.Options{
		OnApproval: agent.ApprovalAsk, OnQuestion: agent.QuestionAsk, Ask: h.ask,
		StallTimeout: time.Minute, TurnTimeout: 2 * time.Minute,
	}
}

// asking returns a session in whose turn the operator was asked for approval, in the given
// thread.
func asking(t *testing.T, thread string) (*operator, *Session, *peer, running) {
	t.Helper()
	h := newOperator()
	s, p, wait := inTurn(t, t.Context(), h.options())
	p.say(strings.Replace(askCommand, `"th"`, `"`+thread+`"`, 1))
	test.Equal(t, "thread of the request", (<-h.asked).ThreadID, thread)
	return h, s, p, wait
}

// TestClocksPauseForOperator checks that time in which a request waits for an operator counts
// neither as a stall nor as silence.
func TestClocksPauseForOperator(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*agent.Options)
		code   agent.Code
		limit  time.Duration
	}{
		"stall": {func(o *agent.Options) { o.TurnTimeout = 0 }, agent.CodeStalled, time.Minute},
		"turn":  {func(o *agent.Options) { o.StallTimeout = 0 }, agent.CodeTurnTimeout, 2 * time.Minute},
	} {
		bubble(t, name, func(t *testing.T) {
			h := newOperator()
			o := h.options()
			c.change(&o)
			_, p, wait := inTurn(t, t.Context(), o)
			go p.rest()
			time.Sleep(c.limit - time.Second)
			p.say(askCommand)
			<-h.asked
			time.Sleep(10*time.Hour + 30*time.Minute) // the clock is checked every hour
			h.tell <- agent.Decision{Approve: true}
			synctest.Wait()
			test.Contains(t, "events", p.names(), agent.EventApprovalGranted)
			from := time.Now()
			wait.fails(t, c.code)
			test.Equal(t, "time after the decision", time.Since(from), c.limit)
		})
	}
}

// TestSlowAskFreesClocks checks that the clock runs again once codex has resolved a request,
// even if Ask ignores the end of its context.
func TestSlowAskFreesClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Hour)
		defer stop()
		_, p, wait := inTurn(t, ctx, agent.Options{
			OnApproval: agent.ApprovalAsk, StallTimeout: time.Minute,
			Ask: func(context.Context, agent.Request) agent.Decision {
				<-release
				return agent.Decision{Approve: true}
			},
		})
		go p.rest()
		p.say(askCommand)
		time.Sleep(time.Hour)
		p.say(resolved)
		from := time.Now()
		wait.fails(t, agent.CodeStalled)
		test.Equal(t, "time after the end of the request", time.Since(from), time.Minute)
	})
}

// TestAskEnds checks that the end of a request ends the context of Ask, and that a later
// decision is not sent.
func TestAskEnds(t *testing.T) {
	for name, end := range map[string]func(s *Session, p *peer){
		"resolved": func(_ *Session, p *peer) { p.say(resolved) },
		"turn":     func(_ *Session, p *peer) { p.say(turnCompleted) },
		"session":  func(s *Session, _ *peer) { _ = s.Close() },
		"agent":    func(_ *Session, p *peer) { _ = p.out.Close() },
	} {
		bubble(t, name, func(t *testing.T) {
			ended := false
			s, p, wait := inTurn(t, t.Context(), agent.Options{
				OnApproval: agent.ApprovalAsk,
				Ask: func(ctx context.Context, _ agent.Request) agent.Decision {
					<-ctx.Done()
					ended = true
					// after the end
					return agent.Decision{
						Approve: true,
						Sent:    func() { t.Error("Sent was called") },
					}
				},
			})
			lines := p.lines()
			p.say(askCommand)
			synctest.Wait()
			end(s, p)
			synctest.Wait()
			test.Equal(
				t,
				"the context of Ask has ended, and answers",
				[]any{ended, len(lines)},
				[]any{true, 0},
			)
			test.Contains(
				t,
				"events",
				p.names(),
				agent.EventApprovalRequested+" ",
				agent.EventRequestWithdrawn,
			)
			p.say(turnCompleted)
			_ = p.out.Close()
			_, _ = wait() // other tests check the turn's outcome
		})
	}
}

// TestAnswerNotRead checks that an answer that the agent did not get does not count as sent:
// the next run passes it on.
func TestAnswerNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, p, wait := asking(t, "th")
		_ = p.inR.Close() // a pipe in memory
		h.tell <- agent.Decision{
			Approve: true,
			Sent:    func() { t.Error("the answer counts as sent") },
		}
		wait.fails(t, agent.CodePortExit)
	})
}

// TestEndOfRequestIsProgress checks that a request ends together with the pause of the clock:
// a check in between would find a stall as long as the request was open.
func TestEndOfRequestIsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, p, wait := asking(t, "th")
		go p.rest()
		time.Sleep(time.Minute - time.Second)
		s.requests.finish(json.RawMessage("0"))
		if ago := s.current().SinceProgress(); ago != 0 {
			t.Errorf("the last progress was %v ago", ago)
		}
		p.say(turnCompleted)
		_, _ = wait()
	})
}

// TestAskOfSubAgentLeftBehind checks that the end of our turn answers a sub-agent's request.
// It would wait forever, otherwise.
func TestAskOfSubAgentLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, p, wait := asking(t, "sub")
		go p.say(turnCompleted)
		p.hears(`{"id":0,"result":{"decision":"decline"}}`)
		wait.completes(t)
	})
}

// TestAskedBetweenTurns checks that a request that a sub-agent makes between two turns pauses
// the clock of the next turn.
func TestAskedBetweenTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newOperator()
		s, p, wait := inTurn(t, t.Context(), h.options())
		p.say(turnCompleted)
		wait.completes(t)
		p.say(strings.Replace(askCommand, `"th"`, `"sub"`, 1))
		<-h.asked
		wait = runTurn(
			t.Context(),
			s,
			p,
			agent.TurnParams{Input: "more"},
			`{"id":4,"result":{"turn":{"id":"t2"}}}`,
		)
		time.Sleep(10 * time.Hour)
		h.tell <- agent.Decision{Approve: true}
		p.hears(`{"id":0,"result":{"decision":"accept"}}`)
		go p.rest()
		from := time.Now()
		wait.fails(t, agent.CodeStalled) // the clock runs again
		test.Equal(t, "time after the decision", time.Since(from), time.Minute)
	})
}

// TestDecidedAtTheEnd checks a decision that comes together with the end of its request or
// turn. It is sent at most once, and the request does not stay open.
func TestDecidedAtTheEnd(t *testing.T) {
	for name, end := range map[string]string{"resolved": resolved, "turn": turnCompleted} {
		for range 50 {
			bubble(t, name, func(t *testing.T) {
				h, s, p, wait := asking(t, "th")
				lines := p.lines()
				sent := 0
				go func() { h.tell <- agent.Decision{Approve: true, Sent: func() { sent++ }} }()
				p.say(end)
				synctest.Wait()
				n, _ := s.pending()
				test.Equal(t, "open requests", n, 0)
				p.say(turnCompleted)
				wait.completes(t)
				reported := strings.Count(p.names(), agent.EventApprovalGranted) + strings.Count(
					p.names(), agent.EventRequestWithdrawn,
				)
				synctest.Wait()
				if n := len(lines); n > 1 || reported != 1 || sent != n {
					t.Errorf("answered %d times, reported %d times, Sent called %d times", n, reported, sent)
				}
			})
		}
	}
}

// asksOf returns the request that reaches the operator after the given lines.
func asksOf(t *testing.T, params agent.TurnParams, lines ...string) agent.Request {
	t.Helper()
	h := newOperator()
	s, p := opened(t, h.options())
	wait := runTurn(t.Context(), s, p, params, turnStarted)
	go p.rest()
	p.say(lines...)
	a := <-h.asked
	p.say(turnCompleted)
	wait.completes(t)
	return a
}

const begunPatch = `{"method":"item/started","params":{"threadId":"th","turnId":"tu",` +
	`"item":{"type":"fileChange","id":"p1","status":"inProgress","changes":[{"path":"PATH",` +
	`"kind":{"type":"update","move_path":null},"diff":"@@ -1 +1 @@\n-a\n+b\n"}]}}}`

const askPatch = `{"method":"item/fileChange/requestApproval","id":7,"params":{"threadId":"th",` +
	`"turnId":"tu","itemId":"p1","startedAtMs":1,"reason":null,"grantRoot":null}}`

// TestAskSays checks what the operator is shown for each kind of request.
func TestAskSays(t *testing.T) {
	untrusted := agent.TurnParams{Cwd: "/w", ApprovalPolicy: json.RawMessage(`"untrusted"`)}
	onRequest := agent.TurnParams{Cwd: "/w", ApprovalPolicy: json.RawMessage(`"on-request"`)}
	patch := func(path string) string { return strings.Replace(begunPatch, "PATH", path, 1) }
	change := func(path string, outside bool) agent.Request {
		return agent.Request{
			Kind:     agent.RequestFileChange,
			ThreadID: "th",
			ItemID:   "p1",
			Summary:  "update " + path,
			Changes: []agent.FileChange{{
				Path: path,
				Kind: "update",
				Diff: "@@ -1 +1 @@\n-a\n+b\n",
			}},
			OutsideSandbox: outside,
		}
	}
	command := func(summary, text string) agent.Request {
		return agent.Request{
			Kind:           agent.RequestCommand,
			ThreadID:       "th",
			ItemID:         "c1",
			Summary:        summary,
			Command:        text,
			OutsideSandbox: true,
		}
	}
	askFor := func(members string) []string {
		return []string{
			`{"method":"item/commandExecution/requestApproval","id":0,"params":{"threadId":"th",` +
				`"turnId":"tu","itemId":"c1",` + members + `}}`,
		}
	}
	withReason := func(r agent.Request, reason string) agent.Request {
		r.Reason = reason
		return r
	}
	unknown := agent.Request{
		Kind:           agent.RequestFileChange,
		ThreadID:       "th",
		ItemID:         "p1",
		Summary:        "files that codex did not name",
		OutsideSandbox: true,
	}
	for _, c := range []struct {
		name   string
		params agent.TurnParams
		lines  []string
		want   agent.Request
	}{
		{"a command", onRequest, []string{askCommand}, withReason(command("touch a", "touch a"), "why")},
		{
			"a host", onRequest, askFor(`"command":"curl x",` +
				`"networkApprovalContext":{"host":"example.org","protocol":"https"}`),
			command("network access to example.org (https): curl x", "curl x"),
		},
		{"a command without permissions", onRequest, askFor(`"command":"touch a",` +
			`"additionalPermissions":null`), command("touch a", "touch a")},
		{
			"a command that is not named", onRequest, askFor(`"command":null`),
			command("a command that codex did not name", ""),
		},
		{
			"a command of another shape", onRequest, askFor(`"command":{"argv":["rm","x"]}`),
			command(`{"argv":["rm","x"]}`, `{"argv":["rm","x"]}`),
		},
		{
			"input that is not named", onRequest, askFor(`"kind":"writeStdin"`),
			command("input to a running command: something that codex did not name", ""),
		},
		{
			"a command with permissions", onRequest,
			askFor(`"command":"/bin/bash -lc 'touch a'",` +
				`"additionalPermissions":{"network":{"enabled":true},"fileSystem":{"write":["/opt"]}}`),
			agent.Request{
				Kind:           agent.RequestCommand,
				ThreadID:       "th",
				ItemID:         "c1",
				Summary:        "with network, write /opt: touch a",
				Command:        "touch a",
				Permissions:    json.RawMessage(`{"network":{"enabled":true},"fileSystem":{"write":["/opt"]}}`),
				OutsideSandbox: true,
			},
		},
		{"a patch under on-request", onRequest, []string{patch("/w/f"), askPatch}, change("/w/f", true)},
		{
			"a patch of the workspace under untrusted", untrusted,
			[]string{patch("/w/f"), askPatch},
			change("/w/f", false),
		},
		{
			"a patch of its .git", untrusted,
			[]string{patch("/w/.git/hooks/x"), askPatch},
			change("/w/.git/hooks/x", true),
		},
		{
			"a patch of its .codex", untrusted,
			[]string{patch("/w/.codex/config.toml"), askPatch},
			change("/w/.codex/config.toml", true),
		},
		{"a patch of its .agents", untrusted, []string{patch(".agents/x"), askPatch}, change(".agents/x", true)},
		{"a patch of its .aws", untrusted, []string{patch("/w/a/../.aws"), askPatch}, change("/w/a/../.aws", true)},
		{
			"a patch that only looks so", untrusted,
			[]string{patch("/w/a/.gitignore"), askPatch},
			change("/w/a/.gitignore", false),
		},
		{"a patch beside it", untrusted, []string{patch("/wide/f"), askPatch}, change("/wide/f", true)},
		{
			"a patch that the sandbox has refused", untrusted,
			[]string{
				patch("/w/f"),
				strings.Replace(askPatch, `"reason":null`, `"reason":"command failed; retry without sandbox?"`, 1),
			},
			withReason(change("/w/f", true), "command failed; retry without sandbox?"),
		},
		{"a patch that was not announced", untrusted, []string{askPatch}, unknown},
		{
			"a patch that has ended", untrusted,
			[]string{patch("/w/f"), strings.Replace(patch("/w/f"), "started", "completed", 1), askPatch},
			unknown,
		},
		{
			"a patch that was changed", untrusted,
			[]string{patch("/w/f"), `{"method":"item/fileChange/patchUpdated","params":{"threadId":"th",` +
				`"turnId":"tu","itemId":"p1","changes":[{"path":"/w/g","kind":{"type":"update",` +
				`"move_path":"/h"},"diff":"@@ -1 +1 @@\n-a\n+b\n"}]}}`, askPatch},
			change("/w/g → /h", true),
		},
		{
			"permissions", onRequest,
			[]string{`{"method":"item/permissions/requestApproval","id":0,"params":{"threadId":"th",` +
				`"turnId":"tu","itemId":"c1","cwd":"/w","reason":"more",` +
				`"permissions":{"network":{"enabled":true},"fileSystem":{"write":["/opt"],` +
				`"entries":[{"path":{"type":"path","path":"/opt"},"access":"write"}]}}}}`},
			agent.Request{
				Kind:     agent.RequestPermissions,
				ThreadID: "th",
				ItemID:   "c1",
				Summary:  "network, write /opt",
				Reason:   "more",
				Cwd:      "/w",
				Permissions: json.RawMessage(`{"network":{"enabled":true},"fileSystem":{"write":["/opt"],` +
					`"entries":[{"path":{"type":"path","path":"/opt"},"access":"write"}]}}`),
			},
		},
		{
			"an MCP tool", onRequest,
			[]string{`{"method":"mcpServer/elicitation/request","id":0,"params":{"threadId":"th",` +
				`"turnId":"tu","serverName":"forms","mode":"form",` +
				`"_meta":{"codex_approval_kind":"mcp_tool_call","tool_name":"ask",` +
				`"tool_params":{"a":1}},"message":"Allow it?","requestedSchema":{"type":"object",` +
				`"properties":{}}}}`},
			agent.Request{
				Kind:           agent.RequestPermissions,
				ThreadID:       "th",
				Summary:        `forms/ask {"a":1}`,
				Reason:         "Allow it?",
				Server:         "forms",
				OutsideSandbox: true,
				Permissions: json.RawMessage(`{"codex_approval_kind":"mcp_tool_call",` +
					`"tool_name":"ask","tool_params":{"a":1}}`),
			},
		},
		{
			"a question", onRequest,
			[]string{`{"method":"item/tool/requestUserInput","id":0,"params":{"threadId":"th",` +
				`"turnId":"tu","itemId":"c1","questions":[{"id":"q1","header":"Choice",` +
				`"question":"Which way?","isOther":true,"isSecret":false,"options":[{"label":"Yes",` +
				`"description":"go on"}]},{"id":"q2","header":"Key","question":"",` +
				`"isSecret":true,"options":null}]}}`},
			agent.Request{
				Kind:     agent.RequestQuestion,
				ThreadID: "th",
				ItemID:   "c1",
				Summary:  "Which way? / Key",
				Questions: []agent.Question{
					{
						ID:      "q1",
						Header:  "Choice",
						Text:    "Which way?",
						Options: []agent.Option{{Label: "Yes", Description: "go on"}},
						Other:   true,
					},
					{ID: "q2", Header: "Key", Text: "Key", Secret: true},
				},
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			test.Equal(t, "request", asksOf(t, c.params, c.lines...), c.want)
		})
	}
}

// TestAskSaysAll checks that a summary lists all that an approval grants, however long it is.
func TestAskSaysAll(t *testing.T) {
	long := strings.Repeat("/harmless", 200)
	reads := `"fileSystem":{"read":["` + long + `"],"write":["/etc"]}`
	for name, c := range map[string]struct{ line, want string }{
		"permissions": {
			`{"method":"item/permissions/requestApproval","id":0,"params":{"threadId":"th","turnId":"tu",` +
				`"itemId":"c1","permissions":{` + reads + `}}}`,
			"write /etc",
		},
		"permissions of a command": {
			`{"method":"item/commandExecution/requestApproval","id":0,"params":{"threadId":"th",` +
				`"turnId":"tu","itemId":"c1","command":"ls","additionalPermissions":{` + reads + `}}}`,
			"write /etc: ls",
		},
		"an MCP tool": {
			`{"method":"mcpServer/elicitation/request","id":0,"params":{"threadId":"th","turnId":"tu",` +
				`"serverName":"db","mode":"form","_meta":{"codex_approval_kind":"mcp_tool_call",` +
				`"tool_name":"run","tool_params":{"a":"` + long + `","sql":"DROP TABLE t"}},` +
				`"message":"Allow it?","requestedSchema":{"type":"object","properties":{}}}}`,
			`"sql":"DROP TABLE t"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if a := asksOf(t, agent.TurnParams{Cwd: "/w"}, c.line); !strings.HasSuffix(a.Summary, c.want) {
				t.Errorf("summary %q", a.Summary)
			}
		})
	}
}

// TestPermissionsText checks that permissions of an unknown shape are shown as JSON.
func TestPermissionsText(t *testing.T) {
	for _, c := range []struct{ raw, want string }{
		{`{"network":{"enabled":true},"fileSystem":null}`, "network"},
		{`{"fileSystem":{"read":["/a"],"write":["/b"],"entries":[{"access":"write","path":{"type":"path",` +
			`"path":"/b"}},{"access":"read","path":{"type":"glob_pattern",` +
			`"pattern":"/c/*"}}]}}`, "read /a, write /b, read /c/*"},
		{`{"fileSystem":{"entries":[{"access":"write","path":{"type":"special","value":{"kind":"root"}}}]}}`, ""},
		{`{"network":{"enabled":true},"fileSystem":{"somethingNew":true}}`, ""},
		{`{}`, ""},
		{`7`, ""},
	} {
		want := c.want
		if want == "" {
			want = c.raw
		}
		test.Equal(t, c.raw, readPermissions(json.RawMessage(c.raw), "/ws").text(), want)
	}
}

// TestAskShowsWhereLinksLead checks that an operator sees the directory of a command and the
// files of a patch without symlinks, and that an approval is worth nothing once they lead
// elsewhere.
func TestAskShowsWhereLinksLead(t *testing.T) {
	for name, c := range map[string]struct{ request, shown string }{
		"command": {
			`{"method":"item/commandExecution/requestApproval","id":0,"params":{"threadId":"th",` +
				`"turnId":"tu","itemId":"c1","command":"touch a","cwd":"DIR/sub"}}`,
			"DIR/real",
		},
		"patch": {
			strings.Replace(begunPatch, "PATH", "DIR/sub/a", 1) + "\n" + askPatch,
			"update DIR/sub/a (leads to DIR/real/a)",
		},
		"patch of what a link leads to, but does not exist": {
			strings.Replace(begunPatch, "PATH", "DIR/late", 1) + "\n" + askPatch,
			"update DIR/late (leads to DIR/real/none)",
		},
		"permissions": {
			`{"method":"item/permissions/requestApproval","id":0,"params":{"threadId":"th","turnId":"tu",` +
				`"permissions":{"fileSystem":{"write":["DIR/sub"]}}}}`,
			"write DIR/sub (leads to DIR/real)",
		},
	} {
		for swapped, event := range map[bool]string{
			false: agent.EventApprovalGranted,
			true:  agent.EventApprovalDenied,
		} {
			bubble(t, fmt.Sprintf("%s swapped %v", name, swapped), func(t *testing.T) {
				dir := test.Must(filepath.EvalSymlinks(t.TempDir()))
				link := func(to string) {
					_ = os.Remove(dir + "/sub") // the first time there is none
					test.OK(t, os.Symlink(to, dir+"/sub"))
				}
				test.OK(t, errors.Join(os.Mkdir(dir+"/real", 0o700), os.Mkdir(dir+"/other", 0o700)))
				test.OK(t, os.Symlink("sub/none", dir+"/late"))
				link("real")
				h := newOperator()
				_, p, wait := inTurn(t, t.Context(), h.options())
				go p.rest()
				p.say(strings.ReplaceAll(c.request, "DIR", dir))
				asked := <-h.asked
				test.Equal(
					t,
					"what is shown",
					cmp.Or(asked.Cwd, asked.Summary),
					strings.ReplaceAll(c.shown, "DIR", dir),
				)
				if swapped {
					link("other")
				}
				h.tell <- agent.Decision{Approve: true}
				synctest.Wait()
				test.Contains(t, "events", p.names(), event)
				p.say(turnCompleted)
				_, _ = wait() // other tests check the turn's outcome
			})
		}
	}
}

// An approval for the session is for the same command in the same place. Codex would compare
// the name of a directory alone.
func TestSessionApprovalHoldsForThePlace(t *testing.T) {
	bubble(t, "session", func(t *testing.T) {
		dir := test.Must(filepath.EvalSymlinks(t.TempDir()))
		test.OK(t, errors.Join(os.Mkdir(dir+"/sub", 0o700), os.Mkdir(dir+"/other", 0o700)))
		h := newOperator()
		_, p, wait := inTurn(t, t.Context(), h.options())
		ask := func() {
			p.say(
				fmt.Sprintf(
					`{"method":"item/commandExecution/requestApproval","id":0,"params":{"threadId":"th",`+
						`"turnId":"tu","itemId":"c1","command":"touch a","cwd":%q}}`,
					dir+"/sub",
				),
			)
		}
		ask()
		<-h.asked
		h.tell <- agent.Decision{Approve: true, ForSession: true}
		p.hears(`{"id":0,"result":{"decision":"accept"}}`)
		ask()
		p.hears(`{"id":0,"result":{"decision":"accept"}}`)
		test.OK(t, errors.Join(os.Remove(dir+"/sub"), os.Symlink("other", dir+"/sub")))
		ask()
		test.Equal(t, "directory that is asked about again", (<-h.asked).Cwd, dir+"/other")
		h.tell <- agent.Decision{}
		p.hears(`{"id":0,"result":{"decision":"decline"}}`)
		go p.rest()
		p.say(turnCompleted)
		wait.completes(t)
	})
}

// Permissions are for a path, also after the agent has replaced it by a link. So none are
// granted for what the agent can replace.
func TestPermissionsForReplaceablePaths(t *testing.T) {
	for _, path := range []string{
		"/ws/a", "b/../a", "/tmp/own/a", "/proc/self/root/ws/a", "/dev/fd/../root/ws/a",
		"/proc/self/cwd/../../../srv/data",
	} {
		bubble(t, path, func(t *testing.T) {
			h := newOperator()
			s, p := opened(t, h.options())
			sandbox := json.RawMessage(`{"type":"workspaceWrite","writableRoots":["/tmp/own"]}`)
			wait := runTurn(t.Context(), s, p, agent.TurnParams{
				Input:         "do",
				Cwd:           "/ws",
				SandboxPolicy: sandbox,
			}, turnStarted)
			p.say(
				fmt.Sprintf(
					`{"method":"item/permissions/requestApproval","id":0,"params":{"threadId":"th",`+
						`"turnId":"tu","cwd":"/ws","permissions":{"fileSystem":{"write":[%q]}}}}`,
					path,
				),
			)
			p.hears(`{"id":0,"result":{"permissions":{},"scope":"turn"}}`)
			go p.rest()
			p.say(turnCompleted)
			wait.completes(t)
		})
	}
}

// What a request would do in a path through /proc is denied: the agent decides later where the
// path leads.
func TestRequestThroughProc(t *testing.T) {
	for _, request := range []string{
		`{"method":"item/commandExecution/requestApproval","id":0,"params":{"threadId":"th",` +
			`"turnId":"tu","itemId":"c1","command":"ls","cwd":"/proc/self/cwd"}}`,
		`{"method":"item/fileChange/requestApproval","id":0,"params":{"threadId":"th","turnId":"tu",` +
			`"itemId":"c1","grantRoot":"/proc/self/cwd/a"}}`,
	} {
		bubble(t, request, func(t *testing.T) {
			h := newOperator()
			s, p := opened(t, h.options())
			wait := runTurn(t.Context(), s, p, agent.TurnParams{
				Input: "do",
				Cwd:   "/ws",
			}, turnStarted)
			p.say(request)
			p.hears(`{"id":0,"result":{"decision":"decline"}}`)
			go p.rest()
			p.say(turnCompleted)
			wait.completes(t)
		})
	}
}

// TestSecretAnswer checks that no event contains the answer to a secret question.
func TestSecretAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, wait := inTurn(t, t.Context(), agent.Options{
			OnQuestion: agent.QuestionAsk,
			Ask: decides(agent.Decision{
				Answers: map[string][]string{"k": {"hush"}},
				By:      "operator",
			}),
		})
		p.say(
			`{"method":"item/tool/requestUserInput","id":0,"params":{"threadId":"th","turnId":"tu",` +
				`"questions":[{"id":"k","header":"Key","question":"Which key?","isSecret":true}]}}`,
		)
		p.hears(`{"id":0,"result":{"answers":{"k":{"answers":["hush"]}}}}`)
		go p.rest()
		synctest.Wait() // the event follows the answer
		p.say(turnCompleted)
		wait.completes(t)
		reported := false
		for _, e := range p.heard() {
			reported = reported || e.Message == "answered by operator: Which key? → (not shown)"
			test.Lacks(t, "event", e.Message+string(e.Raw), "hush")
		}
		if !reported {
			t.Errorf("events: %+v", p.events)
		}
	})
}
