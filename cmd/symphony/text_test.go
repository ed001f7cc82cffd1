package main

import (
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/logs"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// What comes from outside is shown as text: nothing of it may steer a terminal.
func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"plain, ümlaut, 日本":    "plain, ümlaut, 日本",
		"two\nlines":           `two\nlines`,
		"a\ttab":               "a tab",
		"\x1b[2Jred":           `\x1b[2Jred`,
		"bell\aand\x7f":        `bell\x07and\x7f`,
		"c1 \u009b31m":         `c1 \x9b31m`,
		"evil\u202etxt.exe":    `evil\x202etxt.exe`,
		"isolate\u2066here":    `isolate\x2066here`,
		"return\rto the left":  `return\x0dto the left`,
		"mark\u200f\u061chere": `mark\x200f\x61chere`,
		"line\u2028of its own": `line\x2028of its own`,
		"bytes \x9b31m\xff":    `bytes \x9b31m\xff`,
		"replaced \ufffd":      "replaced \ufffd",
	} {
		if got := term.Visible(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0ms", 41 * time.Millisecond: "41ms", 41 * time.Second: "41s", 61 * time.Second: "1m01s",
		2*time.Hour + 5*time.Minute: "2h05m", 47 * time.Hour: "47h00m", 100 * time.Hour: "4d",
	} {
		if got := term.Duration(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

// The specification's own wordings stand alone.
func TestErrorText(t *testing.T) {
	for _, c := range []struct{ code, message, want string }{
		{"", "", ""},
		{"turn_failed", "no luck", "turn_failed: no luck"},
		{"turn_failed", "", "turn_failed"},
		{"", reconcile.MessageNoSlot, reconcile.MessageNoSlot},
		{reconcile.CodeSpawnFailed, reconcile.MessageSpawnFailed, reconcile.MessageSpawnFailed},
		{"stalled", "stalled for 5m0s", "stalled for 5m0s"},
	} {
		got := ""
		if text := project.ErrorText(c.code, c.message); text != nil {
			got = *text
		}
		if got != c.want {
			t.Errorf("%s, %s: %q, want %q", c.code, c.message, got, c.want)
		}
	}
}

func TestHumanize(t *testing.T) {
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
		{ended("command exited 0: x", `"type":"commandExecution","Code":0,"durationMs":2345,"aggregatedOutput":"fine"`), "command exited 0: x (2.3s)"},
		{ended("command exited 1: x", `"type":"commandExecution","Code":1,"durationMs":2,"aggregatedOutput":"a\nb\n"`), "command exited 1: x (2ms)\na\nb"},
		{ended("command declined: x", `"type":"commandExecution","Code":null,"status":"declined"`), "command declined: x"},
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
		if got, ok := logs.Humanize(c.e, logs.InShort); ok && got != c.want || ok != (c.want != "") {
			t.Errorf("%+v: %q %v, want %q", c.e, got, ok, c.want)
		}
	}
}

// A table is cut at the terminal's edge by characters, whatever they take in bytes.
func TestTableEdge(t *testing.T) {
	w := testWorld()
	var out strings.Builder
	w.Stdout, w.Width = &out, 20
	table := term.Table{Head: []string{"ISSUE", "MESSAGE"}}
	table.Add("ABC-1", strings.Repeat("ü", 40))
	w.PrintTable("RUNNING", table)
	want := "RUNNING\n  ISSUE  MESSAGE\n  ABC-1  üüüüüüüüüü…\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
