package runner

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/runner/codex"
)

// A line that is nested without end does not end the worker: each bracket would take a piece of its stack.
func TestShortenWhatIsNestedWithoutEnd(t *testing.T) {
	const limit = 1 << 10
	in := `[` + strings.Repeat(`0,`, 5000) + strings.Repeat(`[`, 12<<20)
	for _, text := range []string{in, in + strings.Repeat(`]`, 12<<20) + `]`} {
		if got := shorten(json.RawMessage(text), limit, secrets{}); len(got) > limit || !json.Valid(got) {
			t.Errorf("%d bytes: %.100s", len(got), got)
		}
	}
}

// What comes in pieces is not kept piece by piece, whatever its name in which version: a secret would be spread over
// events, each of which holds too little of it to be seen.
func TestPiecesAreNoEvents(t *testing.T) {
	for method, want := range map[string]bool{
		"item/agentMessage/delta": true, "item/commandExecution/outputDelta": true, "item/reasoning/summaryTextDelta": true,
		"turn/diff/updated": true, "codex/event/agent_message_delta": true, "codex/event/agent_message_content_delta": true,
		"codex/event/exec_command_output_delta": true, "codex/event/agent_reasoning_delta": true, "codex/event/turn_diff": true,
		"item/completed": false, "codex/event/agent_message": false, "codex/event/exec_command_end": false, "": false,
	} {
		if got := fragment(method); got != want {
			t.Errorf("%q is a piece: %v", method, got)
		}
	}
}

// Nor is a piece the run's last message: half a secret would stand in the database, and nobody reads half a word.
func TestPiecesAreNoLastMessage(t *testing.T) {
	r := newRig(t, "say hm")
	a := &attempt{Worker: r.Worker, run: r.run, secrets: newSecrets([]string{testKey}), agent: &agent{ready: make(chan struct{})}}
	a.rec = a.newRecord(func(error) {})
	var err error
	a.events, err = openEventLog(filepath.Join(t.TempDir(), eventsFile), a.secrets)
	must(t, err)
	defer func() { must(t, a.events.close()) }()
	in, out := io.Pipe()
	a.agent.session = codex.New(codex.Transport{Stdin: out, Stdout: in}, codex.Options{})
	defer a.agent.session.Close()
	close(a.agent.ready)
	a.onEvent(codex.Event{Name: codex.EventNotification, Method: "item/completed", Message: "reads the key"})
	for _, piece := range []string{testKey[:16], testKey[16:]} {
		a.onEvent(codex.Event{Name: codex.EventNotification, Method: "item/commandExecution/outputDelta", Message: piece})
		if got := a.rec.get().LastMessage; got != "reads the key" {
			t.Errorf("the last message is %q", got)
		}
	}
}

// A line that a full disk has cut takes nothing of the next one with it.
func TestEventAfterATornOne(t *testing.T) {
	out, in, err := os.Pipe()
	must(t, err)
	defer out.Close()
	l := &eventLog{path: "events.jsonl", file: in}
	must(t, in.SetWriteDeadline(time.Now().Add(100*time.Millisecond))) // a pipe that nobody reads is full soon
	for i := 0; ; i++ {
		if err := l.append(codex.Event{Name: "notification", Raw: json.RawMessage(`"` + strings.Repeat("x", 10000) + `"`)}); err != nil {
			break
		}
		if i > 1000 {
			t.Fatal("the pipe takes everything")
		}
	}
	must(t, in.SetWriteDeadline(time.Time{}))
	read := make(chan []byte)
	go func() {
		data, _ := io.ReadAll(out)
		read <- data
	}()
	must(t, l.append(codex.Event{Name: "notification", Message: "after"}))
	must(t, l.append(codex.Event{Name: "notification", Message: "last"}))
	must(t, l.close())
	lines := strings.Split(strings.TrimSuffix(string(<-read), "\n"), "\n")
	for i, line := range lines {
		if torn := i == len(lines)-3; json.Valid([]byte(line)) == torn {
			t.Errorf("line %d of %d: %.60q", i+1, len(lines), line)
		}
	}
}

// A file that can't be turned over now is turned over later: until then events are lost, and no longer.
func TestEventsAfterATurnThatFailed(t *testing.T) {
	path := filepath.Join(t.TempDir(), eventsFile)
	l, err := openEventLog(path, secrets{})
	must(t, err)
	event := func(text string) error { return l.append(codex.Event{Name: "notification", Message: text}) }
	must(t, event("first"))
	l.size = eventFileLimit
	inTheWay := filepath.Join(PreviousEvents(path), "x")
	must(t, os.MkdirAll(inTheWay, 0o700))
	if event("lost") == nil {
		t.Fatal("it was turned over onto a directory")
	}
	must(t, os.RemoveAll(PreviousEvents(path)))
	must(t, event("second"))
	must(t, l.close())
	if old, now := read(t, PreviousEvents(path)), read(t, path); !strings.Contains(old, "first") || !strings.Contains(now, "second") {
		t.Errorf("%s, then %s", old, now)
	}
}

// A secret that looks like a number of the rate limits leaves no record that is no JSON: ps could not be written any more.
func TestRateLimitsStayJSON(t *testing.T) {
	r := newRig(t, "say hm")
	a := &attempt{Worker: r.Worker, run: r.run, secrets: newSecrets([]string{"17900000"}), agent: &agent{ready: make(chan struct{})}}
	a.rec = a.newRecord(func(error) {})
	var err error
	a.events, err = openEventLog(filepath.Join(t.TempDir(), eventsFile), a.secrets)
	must(t, err)
	defer func() { must(t, a.events.close()) }()
	in, agent := io.Pipe()
	_, stdin := io.Pipe()
	seen := make(chan json.RawMessage, 10)
	a.agent.session = codex.New(codex.Transport{Stdin: stdin, Stdout: in}, codex.Options{OnEvent: func(e codex.Event) {
		a.onEvent(e)
		seen <- a.rec.get().RateLimits
	}})
	defer a.agent.session.Close()
	close(a.agent.ready)
	for _, reset := range []string{"1790000000", "1800000000"} {
		_, err := io.WriteString(agent, `{"method":"account/rateLimits/updated","params":{"rateLimits":{"primary":{"usedPercent":7,"resetsAt":`+reset+`}}}}`+"\n")
		must(t, err)
		limits := <-seen
		if good := reset == "1800000000"; good != strings.Contains(string(limits), reset) || limits != nil && !json.Valid(limits) {
			t.Errorf("kept are %s", limits)
		}
	}
	must(t, agent.Close())
}
