package codex

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/agent"
)

// requestCase is a request with its outcome under each of the settings.
type requestCase struct {
	params string
	want   map[string]answered
}

// answered is the outcome of a request.
type answered struct {
	answer string     // result or error
	events string     // names
	code   agent.Code // of the turn's error
}

// settings are the configurations of the sessions under test, by name.
var settings = map[string]agent.Options{
	"approve": {},
	"deny":    {OnApproval: agent.ApprovalDeny},
	"fail":    {OnApproval: agent.ApprovalFail},
	"yes": {
		OnApproval: agent.ApprovalAsk,
		OnQuestion: agent.QuestionAsk,
		Ask:        decides(agent.Decision{Approve: true, By: "operator", Answers: all}),
	},
	"session": {
		OnApproval: agent.ApprovalAsk,
		OnQuestion: agent.QuestionAsk,
		Ask: decides(agent.Decision{
			Approve:    true,
			ForSession: true,
			By:         "operator",
			Answers:    all,
		}),
	},
	"no": {
		OnApproval: agent.ApprovalAsk,
		OnQuestion: agent.QuestionAsk,
		Ask:        decides(agent.Decision{By: "operator", Reason: "too bold"}),
	},
	"expired": {
		OnApproval: agent.ApprovalAsk,
		OnQuestion: agent.QuestionAsk,
		Ask:        decides(agent.Decision{Expired: true}),
	},
	"unasked": {OnApproval: agent.ApprovalAsk, OnQuestion: agent.QuestionAsk},
}

// all answers every question of requestCases.
var all = map[string][]string{
	"q1":    {"Yes"},
	"stray": {"x"},
}

func decides(d agent.Decision) agent.Asker {
	return func(context.Context, agent.Request) agent.Decision { return d }
}

// same returns one outcome for several settings.
func same(answer, events string, names ...string) map[string]answered {
	out := map[string]answered{}
	for _, name := range names {
		out[name] = answered{answer: answer, events: events}
	}
	return out
}

func merged(parts ...map[string]answered) map[string]answered {
	out := map[string]answered{}
	for _, p := range parts {
		maps.Copy(out, p)
	}
	return out
}

func anyway(answer, events string) map[string]answered {
	return same(answer, events, slices.Collect(maps.Keys(settings))...)
}

// approvals returns the outcomes of a request for approval, given its possible answers.
func approvals(once, session, automatic, denied, ended string) map[string]answered {
	return map[string]answered{
		"approve": {answer: automatic, events: "approval_auto_approved"},
		"deny":    {answer: denied, events: "approval_denied"},
		"fail":    {answer: ended, events: "approval_required", code: agent.CodeApprovalRequired},
		"yes":     {answer: once, events: "approval_requested approval_granted"},
		"session": {answer: session, events: "approval_requested approval_granted"},
		"no":      {answer: denied, events: "approval_requested approval_denied"},
		"expired": {answer: denied, events: "approval_requested request_expired"},
		"unasked": {answer: denied, events: "approval_denied"},
	}
}

var (
	itemOutcomes = approvals(
		`{"decision":"accept"}`,
		`{"decision":"accept"}`,
		`{"decision":"acceptForSession"}`,
		`{"decision":"decline"}`,
		`{"decision":"cancel"}`,
	)
	reviewOutcomes = approvals(
		`{"decision":"approved"}`,
		`{"decision":"approved"}`,
		`{"decision":"approved_for_session"}`,
		`{"decision":"denied"}`,
		`{"decision":"abort"}`,
	)
	granted = `{"permissions":{"fileSystem":{"entries":[{"access":"write","path":{"path":"/opt",` +
		`"type":"path"}}],"write":["/opt"]},"network":{"enabled":true}},"scope":"turn"}`
	failsOnQuestion = answered{
		answer: `{"answers":{}}`,
		events: "turn_input_required",
		code:   agent.CodeTurnInputRequired,
	}
	nothing = `{"permissions":{},"scope":"turn"}`
	decline = `{"_meta":null,"action":"decline","content":null}`
)

// requestCases has every request that codex sends, some in several shapes.
var requestCases = map[string][]requestCase{
	"item/commandExecution/requestApproval": {
		{
			params: `{"kind":"command","itemId":"call_1","reason":"needs to run outside",` +
				`"command":"/bin/bash -lc 'touch ../a'","cwd":"/w","availableDecisions":["accept","cancel"]}`,
			want: itemOutcomes,
		},
	},
	"item/fileChange/requestApproval": {
		{params: `{"itemId":"call_1","reason":null,"grantRoot":null}`, want: itemOutcomes},
	},
	"execCommandApproval": {
		{
			params: `{"conversationId":"t","callId":"call_1","command":["/bin/bash","-lc","touch ../a"],` +
				`"cwd":"/w","parsedCmd":[],"reason":"why"}`,
			want: reviewOutcomes,
		},
	},
	"applyPatchApproval": {
		{
			params: `{"conversationId":"t","callId":"call_1","fileChanges":{"/w/a":{"type":"add",` +
				`"content":"x"}},"reason":null,"grantRoot":null}`,
			want: reviewOutcomes,
		},
	},
	"item/tool/requestUserInput": {
		{
			params: `{"itemId":"call_1","isBlocking":true,"questions":[{"id":"q1","header":"Choice",` +
				`"question":"Which way?","isOther":true,"isSecret":false,"options":[{"label":"Yes",` +
				`"description":"go on"},{"label":"No","description":"stop"}]}]}`,
			want: merged(
				map[string]answered{
					"approve": failsOnQuestion,
					"deny":    failsOnQuestion,
					"fail":    failsOnQuestion,
				},
				same(
					`{"answers":{"q1":{"answers":["Yes"]}}}`,
					"question_asked question_answered",
					"yes",
					"session",
				),
				same(`{"answers":{}}`, "question_asked question_declined", "no"),
				same(`{"answers":{}}`, "question_asked request_expired", "expired"),
				same(`{"answers":{}}`, "question_declined", "unasked"),
			),
		},
		{
			params: `{"itemId":"call_1","questions":[]}`,
			want:   same(`{"answers":{}}`, "question_declined", "yes", "no", "expired", "unasked"),
		},
	},
	"item/tool/call": {
		{
			params: `{"callId":"call_1","namespace":null,"tool":"unheard_of","arguments":{}}`,
			want: anyway(
				`{"contentItems":[{"text":"{\"success\":false,\"error\":\"unsupported_tool_call\",`+
					`\"tool\":\"unheard_of\"}","type":"inputText"}],"success":false}`,
				"unsupported_tool_call",
			),
		},
		{
			params: `{"callId":"call_1","namespace":null,"tool":"bell\u0007","arguments":{}}`,
			want: anyway(
				`{"contentItems":[{"text":"{\"success\":false,\"error\":\"unsupported_tool_call\",`+
					`\"tool\":\"bell\\u0007\"}","type":"inputText"}],"success":false}`,
				"unsupported_tool_call",
			),
		},
	},
	"item/permissions/requestApproval": {
		{
			params: `{"itemId":"call_1","cwd":"/w","reason":"needs more",` +
				`"permissions":{"network":{"enabled":true},"fileSystem":{"read":null,"write":["/opt"],` +
				`"entries":[{"path":{"type":"path","path":"/opt"},"access":"write"}]}}}`,
			want: approvals(
				granted,
				strings.Replace(granted, `"turn"`, `"session"`, 1),
				granted,
				nothing,
				nothing,
			),
		},
	},
	"mcpServer/elicitation/request": {
		{
			params: `{"serverName":"forms","mode":"form","_meta":null,"message":"Where?",` +
				`"requestedSchema":{"type":"object","required":["region"],` +
				`"properties":{"region":{"type":"string","enum":["eu","us"]},` +
				`"sure":{"type":"boolean"},"n":{"type":"integer"}}}}`,
			want: anyway(decline, "question_declined"),
		},
		{
			// It is marked as an approval, but it has fields, so that an approval does not
			// answer it.
			params: `{"serverName":"forms","mode":"form","_meta":{"codex_approval_kind":"mcp_tool_call",` +
				`"tool_name":"ask"},"message":"Where?","requestedSchema":{"type":"object",` +
				`"required":["region"],"properties":{"region":{"type":"string"}}}}`,
			want: anyway(decline, "question_declined"),
		},
		{
			params: `{"serverName":"forms","mode":"url","message":"Sign in","url":"https://example.org/",` +
				`"elicitationId":"1"}`,
			want: anyway(decline, "question_declined"),
		},
		{
			params: `{"serverName":"forms","mode":"form","_meta":{"codex_approval_kind":"mcp_tool_call",` +
				`"persist":["session","always"],"tool_name":"ask","tool_params":{}},` +
				`"message":"Allow the forms MCP server to run tool \"ask\"?",` +
				`"requestedSchema":{"type":"object","properties":{}}}`,
			want: approvals(
				`{"_meta":null,"action":"accept","content":{}}`,
				`{"_meta":{"persist":"session"},"action":"accept","content":{}}`,
				`{"_meta":{"persist":"session"},"action":"accept","content":{}}`,
				decline,
				strings.Replace(decline, "decline", "cancel", 1),
			),
		},
	},
	"account/chatgptAuthTokens/refresh": {
		{
			params: `{"reason":"unauthorized","previousAccountId":null}`,
			want: anyway(
				`{"code":-32601,"message":"symphony does not support account/chatgptAuthTokens/refresh"}`,
				"request_refused",
			),
		},
	},
	"attestation/generate": {
		{
			params: `{}`,
			want: anyway(
				`{"code":-32601,"message":"symphony does not support attestation/generate"}`,
				"request_refused",
			),
		},
	},
	"currentTime/read": {{params: `{}`, want: anyway(`{"currentTimeAt":SECONDS}`, "notification")}},
	"item/unheardOf/request": {
		{
			params: `{}`,
			want: anyway(
				`{"code":-32601,"message":"symphony does not support item/unheardOf/request"}`,
				"request_refused",
			),
		},
	},
}

var seconds = regexp.MustCompile(`"currentTimeAt":\d+`)

// TestRequests checks the answer to every request under every setting, for our thread and a
// sub-agent's.
func TestRequests(t *testing.T) {
	for method, shapes := range requestCases {
		t.Run(method, func(t *testing.T) {
			for i, shape := range shapes {
				for name, want := range shape.want {
					for _, thread := range []string{"th", "sub"} {
						synctest.Test(t, func(t *testing.T) {
							got := serveOne(t, settings[name], method, shape.params, thread)
							if got != want {
								t.Errorf(
									"shape %d, %s, thread %s:\n got %+v\nwant %+v",
									i,
									name,
									thread,
									got,
									want,
								)
							}
						})
					}
				}
			}
		})
	}
}

// serveOne sends one request during a turn and returns its outcome.
func serveOne(t *testing.T, o agent.Options, method, params, thread string) answered {
	t.Helper()
	_, p, wait := inTurn(t, t.Context(), o)
	lines := p.lines()
	var members map[string]any
	test.OK(t, json.Unmarshal([]byte(params), &members))
	members["threadId"] = thread
	members["turnId"] = "tu"
	p.say(string(test.Must(json.Marshal(map[string]any{
		"id":     0,
		"method": method,
		"params": members,
	}))))
	var answer struct {
		ID            json.RawMessage
		Result, Error json.RawMessage
	}
	if line := <-lines; json.Unmarshal([]byte(line), &answer) != nil || string(answer.ID) != "0" {
		t.Fatalf("answer: %s", line)
	}
	synctest.Wait()
	names := []string{}
	for _, e := range p.heard() {
		if e.Name != agent.EventSessionStarted {
			if first := len(names) == 0; (e.Raw != nil) != first {
				t.Errorf(
					"%s, event %d: raw line of %d bytes; only the first event has it",
					e.Name,
					len(names)+1,
					len(e.Raw),
				)
			}
			names = append(names, e.Name)
			if e.ThreadID != thread {
				t.Errorf("%s of thread %q", e.Name, e.ThreadID)
			}
		}
	}
	p.say(turnCompleted)
	_, err := wait()
	out := answered{
		answer: string(answer.Result) + string(answer.Error),
		events: strings.Join(names, " "),
	}
	out.answer = seconds.ReplaceAllString(out.answer, `"currentTimeAt":SECONDS`)
	if e := new(agent.Error); errors.As(err, &e) {
		out.code = e.Code
	}
	return out
}

// TestNewFile: codex sends the text of a new file as it is, also if it looks like a diff.
func TestNewFile(t *testing.T) {
	var changes []wireChange
	test.OK(t, json.Unmarshal([]byte(`[
		{"path": "/w/x.rb", "kind": {"type": "add"}, "diff": "@@n = 0\n- 1\n"},
		{"path": "/w/y.rb", "kind": {"type": "delete"}, "diff": "gone"},
		{"path": "/w/z.rb", "kind": {"type": "update"}, "diff": "@@ -1 +1 @@\n-a\n+b\n"}
	]`), &changes))
	var diffs []string
	for _, change := range fileChanges(changes) {
		diffs = append(diffs, change.Diff)
	}
	test.Equal(t, "diffs", diffs, []string{"+@@n = 0\n+- 1\n", "-gone\n", "@@ -1 +1 @@\n-a\n+b\n"})
}
