package eventlog

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	file := test.Must(os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))
	test.Must(file.WriteString(text))
	test.OK(t, file.Close())
}

// Each line is shown once and whole, also when a full log is replaced by a new file.
func TestFollowReplacedLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	f := Follower{Path: path}
	defer f.Close()
	var seen []string
	read := func(want string) {
		t.Helper()
		test.OK(t, f.Read(func(line []byte) { seen = append(seen, string(line)) }))
		test.Equal(t, "it", strings.Join(seen, " "), want)
	}
	write := func(text string) { appendTo(t, path, text) }
	read("")
	write("one\ntw")
	read("one")
	write("o\n")
	read("one two")
	write("three\n")
	test.OK(t, os.Rename(path, path+".1"))
	read("one two three")
	write("four\nfi")
	read("one two three four")
	f.Rest(func(line []byte) { seen = append(seen, string(line)) })
	read("one two three four fi")
}

// A log that is replaced while its older part is read loses no line and shows none twice.
func TestLogReplacedWhileRead(t *testing.T) {
	for _, early := range []bool{true, false} {
		dir := t.TempDir()
		path := filepath.Join(dir, "events.jsonl")
		previous := filepath.Join(dir, "events.1.jsonl")
		turn := func() {
			t.Helper()
			test.OK(t, os.Rename(path, previous))
			appendTo(t, path, "three\n")
		}
		appendTo(t, previous, "one\n")
		appendTo(t, path, "two\n")
		f := Follower{Path: path}
		defer f.Close()
		var seen []string
		show := func(line []byte) {
			if len(seen) == 0 && !early {
				turn()
			}
			seen = append(seen, string(line))
		}
		want := "one two three"
		if early {
			test.OK(t, f.open())
			turn()
			want = "two three" // the older one is gone
		}
		for range 2 {
			test.OK(t, f.ReadPrevious(previous, show))
			test.OK(t, f.Read(show))
			previous = "" // there is none any more
		}
		test.Equal(t, "it", strings.Join(seen, " "), want)
	}
}

// A log that is replaced between the two looks at its files is shown once: the newest file then
// has the name of the older one, too.
func TestLogReplacedBetweenLooks(t *testing.T) {
	dir := t.TempDir()
	path := Path(dir, "run-1")
	test.Write(t, path, "one\ntwo\n")
	test.OK(t, os.Link(path, agent.PreviousEvents(path)))
	var seen []string
	test.OK(t, EachLine(dir, "run-1", func(line []byte) { seen = append(seen, string(line)) }))
	test.Equal(t, "the lines", seen, []string{"one", "two"})
}

// The last event of a kind is found in a log with later events of other kinds, long lines and
// the beginning of a line.
func TestLastLine(t *testing.T) {
	const prompt = `{"event":"turn_prompt","message":"one"}`
	long := `{"event":"notification","message":"` + strings.Repeat("x", 1<<20) + `"}`
	for _, log := range []string{
		prompt + "\n",
		prompt + "\n" + prompt[:9],
		`{"event":"turn_prompt"}` + "\n" + prompt + "\n" + long + "\nno event\n",
	} {
		dir := t.TempDir()
		test.Write(t, Path(dir, "run-1"), log)
		test.Equal(t, "the last prompt", string(test.Must(Last(dir, "run-1", "prompt"))), prompt)
		test.Equal(t, "the last command", test.Must(Last(dir, "run-1", "command")), nil)
	}
}

// What an event tells a reader, in short. Minor lines begin with a minus.
func TestRead(t *testing.T) {
	item := func(kind agent.ItemKind, ended bool, i agent.Item) agent.Event {
		i.Kind = kind
		i.Ended = ended
		return agent.Event{Name: agent.EventNotification, Message: "message", Item: &i}
	}
	zero := 0
	two := 2
	ms := int64(2345)
	for _, c := range []struct {
		e    agent.Event
		want string
	}{
		{
			agent.Event{
				Name:    agent.EventPrompt,
				Message: "turn 1, 9 characters",
				Raw:     []byte(`{"turn":1,"text":"a\nb\n\nd\ne\nf\ng\n"}`),
			},
			"prompt: prompt of turn 1, 9 characters|a|b||4 more lines",
		},
		{agent.Event{
			Name:    agent.EventPrompt,
			Message: "turn 1",
			Raw:     []byte(`"cut"`),
		}, "prompt: prompt of turn 1"},
		{item(agent.ItemMessage, false, agent.Item{}), ""},
		{item(agent.ItemMessage, true, agent.Item{Text: "first\nsecond\n"}), "words: first\nsecond"},
		{item(agent.ItemMessage, true, agent.Item{}), "words: message"},
		{item(agent.ItemPrompt, true, agent.Item{}), ""},
		{item(agent.ItemReasoning, true, agent.Item{}), "-note: message"},
		{item(agent.ItemCommand, false, agent.Item{Command: "make\n  all"}), "-command running: make all"},
		{item(agent.ItemCommand, true, agent.Item{
			Command:    "make",
			ExitCode:   &zero,
			DurationMS: &ms,
			Output:     "fine",
		}), "command succeeded 2345: make"},
		{item(agent.ItemCommand, true, agent.Item{
			Command:  "make",
			ExitCode: &two,
			Output:   "a\r\n\nb\n",
		}), "command failed: make (exit 2)|a||b"},
		{item(agent.ItemCommand, true, agent.Item{
			Command:  "make",
			ExitCode: &two,
			Output:   strings.Repeat("x\n", 12),
		}), "command failed: make (exit 2)|x|x|x|x|x|x|x|x|x|x|2 earlier lines"},
		{item(agent.ItemCommand, true, agent.Item{
			Command: "make",
			Status:  "declined",
		}), "command failed: make (declined)"},
		{
			item(agent.ItemFileChange, true, agent.Item{
				Status: "completed",
				Changes: []agent.FileChange{
					{
						Path: "/w/a",
						Kind: "update",
						Diff: "@@ -1 +1,2 @@\n-x\n+y\n+z\n",
					}, {
						Path: "/w/b/c",
						Kind: "add",
						Diff: "+x\n",
					}, {
						Path: "/w/d → /w/e",
						Kind: "update",
					},
				},
			}),
			"change succeeded: edit a +2 -1, add b/c +1, edit d → e",
		},
		{item(agent.ItemTool, true, agent.Item{
			Status: "completed",
			Tool:   "linear_graphql",
			Call:   "query viewer",
			Result: "{}",
		}), "call succeeded: linear_graphql query viewer"},
		{item(agent.ItemMCPTool, true, agent.Item{
			Status: "failed",
			Tool:   "forms/ask",
			Call:   "{}",
			Result: "a\nb\nc\nd",
		}), "call failed: forms/ask {}|a|b|c|1 more line"},
		{item(agent.ItemOther, true, agent.Item{}), "call succeeded: message"},
		{agent.Event{Name: agent.EventToolCallFailed, Message: "tool x {}"}, "-note: tool x {}"},
		{agent.Event{
			Name:    agent.EventMutation,
			Message: "commentCreate",
			Raw:     []byte(`{"success":true,"created":[{"kind":"comment","id":"1"}]}`),
		}, "-note: changed in the tracker: commentCreate"},
		{agent.Event{
			Name:    agent.EventMutation,
			Message: "commentCreate failed",
			Raw:     []byte(`{"success":false}`),
		}, "fault: changed in the tracker: commentCreate failed"},
		{agent.Event{
			Name:    agent.EventApprovalAutoApproved,
			Message: "approve command: make",
		}, "request: approved by agent.on_approval: command: make"},
		{agent.Event{
			Name:    agent.EventApprovalRequested,
			Message: "approve command: make",
		}, "request: waits for approval: command: make"},
		{agent.Event{
			Name:    agent.EventApprovalRequired,
			Message: "approve command: make",
		}, "request: needs approval, which agent.on_approval refuses: command: make"},
		{agent.Event{
			Name:    agent.EventApprovalDenied,
			Message: "approve command: make",
		}, "request: denied by agent.on_approval: command: make"},
		{agent.Event{
			Name:    agent.EventApprovalDenied,
			Message: "denied by operator: command: make",
		}, "request: denied by operator: command: make"},
		{agent.Event{
			Name:    agent.EventTurnInputRequired,
			Message: "Which way?",
		}, "request: asks a question, which agent.on_question refuses: Which way?"},
		{agent.Event{
			Name:    agent.EventQuestionAnswered,
			Message: "answered by operator: Yes",
		}, "request: answered by operator: Yes"},
		{agent.Event{
			Name:    agent.EventSessionStarted,
			Message: "session a-b",
		}, "-note: session a-b"},
		{agent.Event{
			Name:    agent.EventNotification,
			Message: "tokens: 1 in",
			Usage:   &agent.Usage{},
		}, "-note: tokens: 1 in"},
		{agent.Event{Name: agent.EventNotification, Message: "thread is idle", Routine: true}, ""},
		{agent.Event{
			Name:    agent.EventNotification,
			Message: "some/thing/new",
		}, "note: some/thing/new"},
		{agent.Event{
			Name:    agent.EventTurnCompleted,
			Message: "turn completed",
		}, "note: turn completed"},
		{agent.Event{
			Name:    agent.EventTurnFailed,
			Message: "turn failed: no luck",
		}, "fault: turn failed: no luck"},
		{agent.Event{
			Name:    agent.EventTurnEndedWithError,
			Message: "stalled for 1s",
		}, "fault: the turn was ended: stalled for 1s"},
		{agent.Event{
			Name:    agent.EventStartupFailed,
			Message: "no thread",
		}, "fault: the agent did not start: no thread"},
		{agent.Event{
			Name:    agent.EventError,
			Message: "retrying: no network",
		}, "fault: the agent: retrying: no network"},
		{agent.Event{
			Name:    agent.EventMalformed,
			Message: "x",
		}, "note: the agent sent what symphony does not understand: x"},
		{agent.Event{Name: "lock_ended", Message: "ended process 17"}, "note: ended process 17"},
		{agent.Event{
			Name:    agent.EventGitUndone,
			Message: "core.fsmonitor",
		}, "note: git configuration undone: core.fsmonitor"},
		{agent.Event{
			Name:    agent.EventWorkEnd,
			Message: "changed 1 file (+1 -0), 1 commit",
		}, "-note: the run has changed 1 file (+1 -0), 1 commit"},
	} {
		data := test.Must(json.Marshal(c.e))
		l, ok := (&Reader{Workspace: "/w"}).Read(data)
		got := ""
		if ok {
			got = inShort(l)
		}
		test.Equal(t, string(data), got, c.want)
	}
	for _, line := range []string{"", "null", `{"at":17,"event":3}`, "cut"} {
		if l, ok := new(Reader).Read([]byte(line)); !ok || l.Kind != Unknown || l.Text != line {
			t.Errorf("%q is read as %+v", line, l)
		}
	}
}

// inShort writes a line as one text.
func inShort(l Line) string {
	var b strings.Builder
	if l.Minor {
		b.WriteByte('-')
	}
	short, left := l.Short()
	b.WriteString(strings.TrimSpace(string(short.Kind) + " " + string(short.Status)))
	if short.DurationMS != nil {
		fmt.Fprintf(&b, " %d", *short.DurationMS)
	}
	b.WriteString(": " + short.Text)
	if short.Ending != "" {
		b.WriteString(" (" + short.Ending + ")")
	}
	for _, line := range short.Detail {
		b.WriteString("|" + line)
	}
	if left != "" {
		b.WriteString("|" + left)
	}
	return b.String()
}

// The end of a long log has its last lines, the last message of the run's own thread, and what
// runs now or was ended with the run.
func TestReadTail(t *testing.T) {
	dir := t.TempDir()
	run := reconcile.Run{ID: "run", ThreadID: "own"}
	now := time.Date(2026, 1, 31, 18, 0, 9, 0, time.UTC)
	if tail, err := ReadTail(dir, run, 3, now, true); err != nil || len(tail.Lines) > 0 ||
		tail.Message != "" {
		t.Errorf("without a log: %+v, %v", tail, err)
	}
	path := Path(dir, run.ID)
	test.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
	const (
		message = `{"at":"2026-01-31T18:00:00Z","event":"notification","thread_id":"%s","item":{"kind":"message","ended":true,"text":"%s"}}` + "\n"
		command = `{"at":"2026-01-31T18:00:0%dZ","event":"notification","thread_id":"own","item":{"id":"%s","kind":"command","ended":%v,"command":"%[2]s"}}` + "\n"
	)
	appendTo(
		t,
		path,
		fmt.Sprintf(message, "own", "all is done")+fmt.Sprintf(command, 1, "long", false)+strings.Repeat(fmt.Sprintf(message, "other", "x"), 2*tailWindow/100)+
			fmt.Sprintf(command, 2, "short", false)+fmt.Sprintf(command, 5, "short", true),
	)
	check := func(ended bool, want ...string) {
		t.Helper()
		tail := test.Must(ReadTail(dir, run, 3, now, ended))
		var got []string
		for _, l := range tail.Lines {
			got = append(got, inShort(l))
		}
		test.Equal(t, "the lines", got, want)
		test.Equal(t, "the message", tail.Message, "all is done")
	}
	check(true, "words: x", "command succeeded 3000: short", "command unended: long")
	test.OK(t, os.Rename(path, agent.PreviousEvents(path))) // a full log is replaced by a new file
	check(false, "words: x", "command succeeded 3000: short", "command running 8000: long")
	appendTo(t, path, fmt.Sprintf(command, 7, "new", true))
	check(false, "command succeeded 3000: short", "command succeeded: new", "command running 8000: long")
}
