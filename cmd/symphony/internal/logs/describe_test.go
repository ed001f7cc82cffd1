package logs

import (
	"testing"

	"github.com/symphony-cron/symphony/runner/agent"
)

// What an event says to a reader, and what it leaves out.
func TestDescribe(t *testing.T) {
	started := func(message string, i agent.Item) agent.Event {
		return agent.Event{Name: "notification", Message: message, Item: &i}
	}
	ended := func(message string, i agent.Item) agent.Event {
		i.Ended = true
		return started(message, i)
	}
	zero, one, ms, long := 0, 1, int64(2), int64(2345)
	for _, c := range []struct {
		e    agent.Event
		want string
	}{
		{agent.Event{Name: "turn_prompt", Message: "turn 1, 9 characters", Raw: []byte(`{"turn":1,"text":"a\nb\nc\nd\ne\nf\ng\n"}`)}, "prompt, turn 1, 9 characters\na\nb\nc\nd\ne\nf\n… 1 more line"},
		{agent.Event{Name: "turn_prompt", Message: "turn 1", Raw: []byte(`"cut"`)}, "prompt, turn 1"},
		{
			agent.Event{Name: "tracker_mutation", Message: "commentCreate", Raw: []byte(`{"created":[{"kind":"comment","id":"1"}]}`)},
			"tracker_mutation: commentCreate\ncreated comment 1",
		},
		{ended("first", agent.Item{Kind: agent.ItemMessage, Text: "first\nsecond\n"}), "agent: first\nsecond"},
		{ended("command exited 0: x", agent.Item{Kind: agent.ItemCommand, ExitCode: &zero, DurationMS: &long, Output: "fine"}), "command exited 0: x (2.3s)"},
		{ended("command exited 1: x", agent.Item{Kind: agent.ItemCommand, ExitCode: &one, DurationMS: &ms, Output: "a\nb\n"}), "command exited 1: x (2ms)\na\nb"},
		{ended("command declined: x", agent.Item{Kind: agent.ItemCommand, Status: "declined"}), "command declined: x"},
		{
			ended("2 file changes completed: a, b", agent.Item{Kind: agent.ItemFileChange, Changes: []agent.FileChange{
				{Path: "/w/a", Kind: "update", Diff: "@@ -1 +1,2 @@\n-x\n+y\n+z\n"}, {Path: "/w/b", Kind: "add", Diff: "x\n"},
			}}),
			"2 file changes completed: a, b\nupdate /w/a +2 -1\n@@ -1 +1,2 @@\n-x\n+y\n+z\nadd /w/b\n+x",
		},
		{ // lines that only look like the head of a diff
			ended("changed", agent.Item{Kind: agent.ItemFileChange, Changes: []agent.FileChange{
				{Path: "a", Kind: "update", Diff: "--- a\n+++ a\n@@ -1 +1 @@\n--- x\n+++ x\n"},
			}}),
			"changed\nupdate a +1 -1\n--- a\n+++ a\n@@ -1 +1 @@\n--- x\n+++ x",
		},
		{ended("tool x completed", agent.Item{Kind: agent.ItemTool, Status: "completed"}), ""},
		{ended("tool x failed", agent.Item{Kind: agent.ItemTool, Status: "failed", Result: "a\nb\nc\nd\ne"}), "tool x failed\na\nb\nc\n… 2 more lines"},
		{ended("MCP tool f/a completed", agent.Item{Kind: agent.ItemMCPTool}), "MCP tool f/a completed"},
		{ended("prompt", agent.Item{Kind: agent.ItemPrompt}), ""},
		{agent.Event{Name: "approval_granted", Message: "approved by operator: make"}, "approval_granted: approved by operator: make"},
		{agent.Event{Name: "turn_failed", Message: "turn failed: no luck"}, "turn_failed: turn failed: no luck"},
		{agent.Event{Name: "turn_completed", Message: "turn completed"}, "turn_completed"},
		{ended("done", agent.Item{Kind: agent.ItemMessage}), "agent: done"},
		{started("agent message started", agent.Item{Kind: agent.ItemMessage}), ""},
		{started("command started: make", agent.Item{Kind: agent.ItemCommand}), "command started: make"},
		{agent.Event{Name: "notification", Message: "thread is idle", Routine: true}, ""},
		{agent.Event{Name: "notification", Message: "some/thing/new"}, "some/thing/new"},
		{agent.Event{Name: "agent_error", Message: "retrying: no network"}, "retrying: no network"},
	} {
		if got := describe(c.e, false); got != c.want {
			t.Errorf("%+v: %q, want %q", c.e, got, c.want)
		}
	}
}
