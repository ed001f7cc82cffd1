package runner

import (
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

func TestEventLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), eventsFile)
	const hard = `p<a>s"s&`
	l, err := openEventLog(path, newSecrets([]string{testKey, "", hard}))
	must(t, err)
	at := time.Date(2026, 11, 20, 8, 0, 0, 5e6, time.FixedZone("", 3600))
	quoted, err := json.Marshal("key " + hard)
	must(t, err)
	for _, e := range []codex.Event{
		{Name: "notification", At: at, Method: "item/completed", ThreadID: "th", TurnID: "tu", Message: "say " + testKey, Raw: json.RawMessage(`{"a":"` + testKey + `"}`)},
		{Name: "malformed", At: at, Raw: json.RawMessage("no JSON " + testKey)},
		{Name: "notification", At: at, Message: "long", Raw: json.RawMessage(`"` + strings.Repeat("x", eventFieldLimit) + `"`)},
		{Name: "notification", At: at, Message: hard, Raw: quoted},
		{Name: "notification", At: at, Message: "as the agent wrote it", Raw: json.RawMessage(`"key p<a>s\"s&"`)},
	} {
		must(t, l.append(e))
	}
	must(t, l.close())
	text := read(t, path)
	if strings.Contains(text, testKey) || strings.Contains(text, "a>s") || strings.Contains(text, `s\"s`) {
		t.Errorf("a secret stands in\n%s", text)
	}
	var lines []EventLine
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		var line EventLine
		if err := d.Decode(&line); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		lines = append(lines, line)
	}
	if len(lines) != 5 {
		t.Fatalf("%d lines", len(lines))
	}
	first := lines[0]
	if !first.At.Equal(at) || first.At.Location() != time.UTC || first.Event != "notification" || first.Method != "item/completed" ||
		first.ThreadID != "th" || first.TurnID != "tu" || first.Message != "say [redacted]" || string(first.Payload) != `{"a":"[redacted]"}` {
		t.Errorf("%+v", first)
	}
	if got := string(lines[1].Payload); got != `"no JSON [redacted]"` {
		t.Errorf("a line that is no JSON: %s", got)
	}
	if n := len(lines[2].Payload); lines[2].Message != "long" || n > eventFieldLimit || n < eventFieldLimit/2 {
		t.Errorf("a long payload: %d bytes", n)
	}
	if got := lines[3]; got.Message != redacted || string(got.Payload) != `"key [redacted]"` {
		t.Errorf("a secret that JSON writes differently: %+v, payload %s", got, got.Payload)
	}
}

// A full file is turned over: the newest events are kept, in at most two files.
func TestEventsTurnOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), eventsFile)
	l, err := openEventLog(path, secrets{})
	must(t, err)
	payload := json.RawMessage(`"` + strings.Repeat("x", eventFieldLimit-2) + `"`)
	const events = 3 * eventFileLimit / eventFieldLimit
	for i := range events {
		must(t, l.append(codex.Event{Name: "notification", TurnID: string(rune('a' + i%26)), Message: "number", Raw: payload}))
	}
	must(t, l.append(codex.Event{Name: "turn_completed"}))
	must(t, l.close())
	now, err := os.Stat(path)
	must(t, err)
	before, err := os.Stat(PreviousEvents(path))
	must(t, err)
	if now.Size() > eventFileLimit || before.Size() > eventFileLimit || before.Size() < eventFileLimit-2*eventFieldLimit {
		t.Errorf("%d and %d bytes", before.Size(), now.Size())
	}
	if !strings.Contains(read(t, path), "turn_completed") {
		t.Error("the last event is not in the newest file")
	}
	files, err := os.ReadDir(filepath.Dir(path))
	must(t, err)
	if len(files) != 2 {
		t.Errorf("%d files", len(files))
	}
	// A worker that goes on with the file knows how full it is.
	again, err := openEventLog(path, secrets{})
	must(t, err)
	if again.size != now.Size() {
		t.Errorf("reopened at %d of %d bytes", again.size, now.Size())
	}
	must(t, again.close())
}

func TestTailKeepsTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	f, err := openTail(path, 100, newSecrets([]string{testKey}))
	must(t, err)
	for i := range 100 {
		_, err := f.Write([]byte(strings.Repeat(string(rune('a'+i%26)), 9) + "\n"))
		must(t, err)
	}
	if n, err := f.Write([]byte(strings.Repeat("z", 1000) + "\nend\n")); n != 1005 || err != nil {
		t.Fatalf("a write longer than the log: %d, %v", n, err)
	}
	if got := f.tail(4); got != "end\n" {
		t.Errorf("tail %q", got)
	}
	must(t, f.close())
	if text := read(t, path); len(text) > 200 || !strings.HasSuffix(text, "\nend\n") {
		t.Errorf("%d bytes: %q", len(text), text)
	}
	// The next hook's output comes after it.
	f, err = openTail(path, 100, secrets{})
	must(t, err)
	_, err = f.Write([]byte("more\n"))
	must(t, err)
	must(t, f.close())
	if text := read(t, path); !strings.HasSuffix(text, "\nend\nmore\n") {
		t.Errorf("%q", text)
	}
}

// A secret is found however the reads of the pipe cut it.
func TestTailSecretInPieces(t *testing.T) {
	for _, pieces := range [][]string{
		{"key=" + testKey + "\n"},
		{"key=" + testKey[:5], testKey[5:] + "\n"},
		{"key=" + testKey[:1], testKey[1:9], testKey[9:] + "\n"},
		{"key=" + testKey[:20], testKey + "\n"},
	} {
		path := filepath.Join(t.TempDir(), "log")
		f, err := openTail(path, 1<<10, newSecrets([]string{testKey}))
		must(t, err)
		for _, p := range pieces {
			n, err := f.Write([]byte(p))
			if n != len(p) || err != nil {
				t.Fatalf("wrote %d of %d: %v", n, len(p), err)
			}
		}
		if got := f.tail(1 << 10); strings.Contains(got, "secret") {
			t.Errorf("%q: tail %q", pieces, got)
		}
		must(t, f.close())
		if got := read(t, path); !strings.HasPrefix(got, "key=") || strings.Contains(got, "secret") || !strings.HasSuffix(got, "\n") {
			t.Errorf("%q became %q", pieces, got)
		}
	}
	// What only looked like one is not lost.
	path := filepath.Join(t.TempDir(), "log")
	f, err := openTail(path, 1<<10, newSecrets([]string{testKey}))
	must(t, err)
	_, err = f.Write([]byte("ends with " + testKey[:7]))
	must(t, err)
	if got := f.tail(100); got != "ends with "+testKey[:7] {
		t.Errorf("tail %q", got)
	}
	must(t, f.close())
	if got := read(t, path); got != "ends with "+testKey[:7] {
		t.Errorf("%q", got)
	}
}

// An agent's stderr is read to its end even where it can't be stored: an agent that blocks on it would do
// no more work.
func TestDrainOnAFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	child, err := proc.Exec{Argv: []string{"sh", "-c", "head -c 1000000 /dev/zero >&2"}, Env: []string{"PATH=" + os.Getenv("PATH")}}.Start()
	must(t, err)
	log := &strings.Builder{}
	g := &agent{child: child, stderr: &tailFile{file: full, limit: 100}, drained: make(chan struct{})}
	go g.drain(slog.New(slog.NewTextHandler(log, nil)))
	select {
	case <-g.drained:
	case <-time.After(patience):
		t.Error("the agent's stderr is not read")
	}
	state, err := child.Close()
	must(t, err)
	if !state.Success() {
		t.Errorf("the agent ended with %v", state)
	}
	must(t, g.stderr.close())
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("the worker's log has %d lines about it:\n%.500s", n, log)
	}
}

// A secret that ends in what begins an escape takes the escape with it. The line is JSON all the same.
func TestEventWithHalfAnEscape(t *testing.T) {
	const secret = `ends-in-a\`
	path := filepath.Join(t.TempDir(), eventsFile)
	l, err := openEventLog(path, newSecrets([]string{secret}))
	must(t, err)
	must(t, l.append(codex.Event{Name: "notification", Message: "it " + secret, Raw: json.RawMessage(`{"a":"ends-in-a\"quote","b":1}`)}))
	must(t, l.close())
	var e EventLine
	must(t, json.Unmarshal([]byte(read(t, path)), &e))
	if e.Message != "it "+redacted || !strings.Contains(string(e.Payload), `[redacted]\"quote`) {
		t.Errorf("%+v, %s", e, e.Payload)
	}
	// Of a long one only that string is hurt.
	long := `{"a":"ends-in-a\"quote` + strings.Repeat("x", 2*eventFieldLimit) + `","b":1}`
	short := string(shorten(json.RawMessage(long), eventFieldLimit, newSecrets([]string{secret})))
	if !strings.HasPrefix(short, `{"a":"[redacted]\"quotexxx`) || !strings.HasSuffix(short, `","b":1}`) {
		t.Errorf("%.60s … %s", short, short[len(short)-20:])
	}
}

// A stream that is nothing but beginnings of secrets is not kept back for ever.
func TestTailOfEndlessBeginnings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	f, err := openTail(path, 1<<20, newSecrets([]string{"abcabcabcabc"}))
	must(t, err)
	for range 100 {
		_, err := f.Write([]byte(strings.Repeat("abc", 1000)))
		must(t, err)
	}
	if len(f.held) > longestHeld {
		t.Errorf("%d bytes are held", len(f.held))
	}
	must(t, f.close())
	if text := read(t, path); strings.Contains(text, "abcabcabcabc") || !strings.Contains(text, redacted) {
		t.Errorf("%.200q", text)
	}
}
