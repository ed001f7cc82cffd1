package logs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/runner/agent"
)

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = file.WriteString(text)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

// Each line is shown once and whole, also when a full log is replaced by a new file.
func TestFollowReplacedLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	f := follower{path: path}
	defer f.close()
	var seen []string
	read := func(want string) {
		t.Helper()
		if err := f.read(func(line []byte) { seen = append(seen, string(line)) }); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(seen, " "); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
	write := func(text string) { appendTo(t, path, text) }
	read("")
	write("one\ntw")
	read("one")
	write("o\n")
	read("one two")
	write("three\n")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	read("one two three")
	write("four\nfi")
	read("one two three four")
	f.showRest(func(line []byte) { seen = append(seen, string(line)) })
	read("one two three four fi")
}

// A log that is replaced while its older part is read loses no line and shows none twice.
func TestLogReplacedWhileRead(t *testing.T) {
	for _, early := range []bool{true, false} {
		dir := t.TempDir()
		path, previous := filepath.Join(dir, "events.jsonl"), filepath.Join(dir, "events.1.jsonl")
		turn := func() {
			t.Helper()
			if err := os.Rename(path, previous); err != nil {
				t.Fatal(err)
			}
			appendTo(t, path, "three\n")
		}
		appendTo(t, previous, "one\n")
		appendTo(t, path, "two\n")
		f := follower{path: path}
		defer f.close()
		var seen []string
		show := func(line []byte) {
			if len(seen) == 0 && !early {
				turn()
			}
			seen = append(seen, string(line))
		}
		want := "one two three"
		if early {
			if err := f.open(); err != nil {
				t.Fatal(err)
			}
			turn()
			want = "two three" // the older one is gone
		}
		for range 2 {
			if err := f.readPrevious(previous, show); err != nil {
				t.Fatal(err)
			}
			if err := f.read(show); err != nil {
				t.Fatal(err)
			}
			previous = "" // there is none any more
		}
		if got := strings.Join(seen, " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A line that is no event is shown as it is, without a time. Raw events are the same JSON. No character of either moves the cursor.
func TestLines(t *testing.T) {
	var out bytes.Buffer
	pr := &printer{p: &project.Project{Env: &term.Env{Stdout: &out}}}
	for _, c := range []struct {
		print      func([]byte)
		line, want string
	}{
		{pr.printEvent, "", ""},
		{pr.printEvent, "null", "null"},
		{pr.printEvent, `{"at":17,"event":3}`, `{"at":17,"event":3}`},
		{pr.printEvent, "cut \x1b[2J \x9b", `cut \x1b[2J \x9b`},
		{pr.printEvent, `{"at":"2026-01-31T18:00:00.5Z","event":"notification"}`, "2026-01-31T18:00:00.5Z  notification"},
		{pr.printRaw, `{"message":"a ` + "\u009b31m\u202e\u007f" + ` é…\u001b"}`, `{"message":"a \u009b31m\u202e\u007f é…\u001b"}`},
	} {
		out.Reset()
		if c.print([]byte(c.line)); out.String() != c.want+"\n" {
			t.Errorf("%q is shown as %q, not %q", c.line, out.String(), c.want)
		}
	}
}

// The last event of a kind is found in a log with later events of other kinds, long lines and a last line without an end.
func TestLastLine(t *testing.T) {
	const prompt = `{"event":"turn_prompt","message":"one"}`
	long := `{"event":"notification","message":"` + strings.Repeat("x", 1<<20) + `"}`
	for _, log := range []string{prompt, prompt + "\n", `{"event":"turn_prompt"}` + "\n" + prompt + "\n" + long + "\nno event\n"} {
		path := filepath.Join(t.TempDir(), "events.jsonl")
		appendTo(t, path, log)
		if line, err := lastLine(path, "prompt"); err != nil || string(line) != prompt {
			t.Errorf("%.100q, %v", line, err)
		}
		if line, err := lastLine(path, "command"); err != nil || line != nil {
			t.Errorf("%.100q, %v", line, err)
		}
	}
}

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
			"2 file changes completed: a, b\nupdate /w/a\n@@ -1 +1,2 @@\n-x\n+y\n+z\nadd /w/b\n+x",
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
