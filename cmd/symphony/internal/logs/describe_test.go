package logs

import (
	"testing"

	"github.com/symphony-cron/symphony/runner/agent"
)

// What an event says to a reader, and what it leaves out.
func TestDescribe(t *testing.T) {
	item := func(method, kind, message string) agent.EventLine {
		return agent.EventLine{
			Event: "notification", Method: method, Message: message,
			Payload: []byte(`{"params":{"item":{"type":"` + kind + `"}}}`),
		}
	}
	ended := func(message, members string) agent.EventLine {
		return agent.EventLine{
			Event: "notification", Method: "item/completed", Message: message, Payload: []byte(`{"params":{"item":{` + members + `}}}`),
		}
	}
	for _, c := range []struct {
		e    agent.EventLine
		want string
	}{
		{agent.EventLine{Event: "turn_prompt", Message: "turn 1, 9 characters", Payload: []byte(`{"turn":1,"text":"a\nb\nc\nd\ne\nf\ng\n"}`)}, "prompt, turn 1, 9 characters\na\nb\nc\nd\ne\nf\n… 1 more line"},
		{agent.EventLine{Event: "turn_prompt", Message: "turn 1", Payload: []byte(`"cut"`)}, "prompt, turn 1"},
		{
			agent.EventLine{Event: "tracker_mutation", Message: "commentCreate", Payload: []byte(`{"created":[{"kind":"comment","id":"1"}]}`)},
			"tracker_mutation: commentCreate\ncreated comment 1",
		},
		{ended("first", `"type":"agentMessage","text":"first\nsecond\n"`), "agent: first\nsecond"},
		{ended("command exited 0: x", `"type":"commandExecution","exitCode":0,"durationMs":2345,"aggregatedOutput":"fine"`), "command exited 0: x (2.3s)"},
		{ended("command exited 1: x", `"type":"commandExecution","exitCode":1,"durationMs":2,"aggregatedOutput":"a\nb\n"`), "command exited 1: x (2ms)\na\nb"},
		{ended("command declined: x", `"type":"commandExecution","exitCode":null,"status":"declined"`), "command declined: x"},
		{
			ended("2 file changes completed: a, b", `"type":"fileChange","changes":[{"path":"/w/a","kind":{"type":"update"},"diff":"@@ -1 +1,2 @@\n-x\n+y\n+z\n"},{"path":"/w/b","kind":"add","diff":"x\n"}]`),
			"2 file changes completed: a, b\nupdate /w/a +2 -1\n@@ -1 +1,2 @@\n-x\n+y\n+z\nadd /w/b\n+x",
		},
		{ // lines that only look like the head of a diff
			ended("changed", `"type":"fileChange","changes":[{"path":"a","kind":"update","diff":"--- a\n+++ a\n@@ -1 +1 @@\n--- x\n+++ x\n"}]`),
			"changed\nupdate a +1 -1\n--- a\n+++ a\n@@ -1 +1 @@\n--- x\n+++ x",
		},
		{ended("tool x completed", `"type":"dynamicToolCall","status":"completed","success":true`), ""},
		{ended("tool x failed", `"type":"dynamicToolCall","success":false,"contentItems":[{"text":"a\nb\nc\nd\ne"}]`), "tool x failed\na\nb\nc\n… 2 more lines"},
		{ended("MCP tool f/a completed", `"type":"mcpToolCall","durationMs":"soon"`), "MCP tool f/a completed"},
		{item("item/completed", "userMessage", "prompt"), ""},
		{agent.EventLine{Event: "approval_granted", Method: "item/commandExecution/requestApproval", Message: "approved by operator: make"}, "approval_granted: approved by operator: make"},
		{agent.EventLine{Event: "turn_failed", Method: "turn/completed", Message: "turn failed: no luck"}, "turn_failed: turn failed: no luck"},
		{agent.EventLine{Event: "turn_completed", Method: "turn/completed", Message: "turn completed"}, "turn_completed"},
		{item("item/completed", "agentMessage", "done"), "agent: done"},
		{item("item/started", "agentMessage", "agent message started"), ""},
		{item("item/started", "commandExecution", "command started: make"), "command started: make"},
		{agent.EventLine{Event: "notification", Method: "thread/status/changed", Message: "thread is idle"}, ""},
		{agent.EventLine{Event: "notification", Method: "thread/settings/updated", Message: "settings of the thread changed"}, ""},
		{agent.EventLine{Event: "notification", Method: "some/thing/new"}, "some/thing/new"},
	} {
		if got, ok := describe(c.e, short); ok && got != c.want || ok != (c.want != "") {
			t.Errorf("%+v: %q %v, want %q", c.e, got, ok, c.want)
		}
	}
}
