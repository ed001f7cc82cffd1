package agent

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
)

func TestEventLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	const hard, half = `p<a>s"s&`, `ends-in-a\`
	output := "first line\n" + strings.Repeat(testKey+"x", 3*maxPayload/len(testKey)) + "\nlast line"
	l := test.Must(OpenEventLog(path, NewRedactor([]string{testKey, "", hard, half})))
	at := time.Date(2026, 11, 20, 8, 0, 0, 5e6, time.FixedZone("", 3600))
	for _, e := range []Event{
		{
			Name:     "notification",
			At:       at,
			PID:      42,
			ThreadID: "th",
			TurnID:   "tu",
			Message:  "say " + testKey,
			Raw:      json.RawMessage(`{"a":"` + testKey + `"}`),
		},
		{Name: "malformed", At: at, Raw: json.RawMessage("not JSON " + testKey)},
		{
			Name:    "notification",
			At:      at,
			Message: "long",
			Raw:     json.RawMessage(`"` + strings.Repeat("x", maxPayload) + `"`),
		},
		{Name: "notification", At: at, Message: hard, Raw: text.JSON("key " + hard)},
		{
			Name:    "notification",
			At:      at,
			Message: "as the agent wrote it",
			Raw:     json.RawMessage(`"key p<a>s\"s&"`),
		},
		{
			Name:    "notification",
			At:      at,
			Message: "it " + half,
			Raw:     json.RawMessage(`{"a":"ends-in-a\"quote","b":1}`),
		},
		{
			Name: "notification",
			At:   at,
			Raw:  json.RawMessage(`{"method":"item/completed"}`),
			Item: &Item{Kind: ItemCommand, Ended: true, Output: output},
		},
	} {
		test.OK(t, l.Append(e))
	}
	test.OK(t, l.Close())
	logged := test.Read(t, path)
	test.Lacks(t, "the events", logged, testKey, "a>s", `s\"s`, "ends-in")
	var lines [7]Event
	d := json.NewDecoder(strings.NewReader(logged))
	for i := range lines {
		test.OK(t, d.Decode(&lines[i]))
	}
	test.Equal(t, "there are more lines", d.More(), false)
	first := lines[0]
	if !first.At.Equal(at) || first.At.Location() != time.UTC || first.Name != "notification" || first.PID != 42 ||
		first.ThreadID != "th" ||
		first.TurnID != "tu" ||
		first.Message != "say [redacted]" ||
		string(first.Raw) != `{"a":"[redacted]"}` {
		t.Errorf("%+v", first)
	}
	test.Equal(t, "a line that is not JSON", string(lines[1].Raw), `"not JSON [redacted]"`)
	if n := len(lines[2].Raw); lines[2].Message != "long" || n > maxPayload || n < maxPayload/2 {
		t.Errorf("a long payload: %d bytes", n)
	}
	got := lines[3]
	test.Equal(
		t,
		"a secret with an escape in JSON",
		[]any{got.Message, string(got.Raw)},
		[]any{Redacted, `"key [redacted]"`},
	)
	// The event of an item contains the item instead of the agent's line, shortened like a
	// payload.
	item := lines[6].Item
	if kept := item.Output; lines[6].Raw != nil || len(kept) > maxPayload ||
		!strings.HasPrefix(kept, "first line") ||
		!strings.HasSuffix(kept, "last line") {
		t.Errorf("%d bytes of output: %.40s … %.40s", len(kept), kept, kept[max(0, len(kept)-40):])
	}
	if got := lines[5]; got.Message != "it "+Redacted ||
		!strings.Contains(string(got.Raw), `[redacted]\"quote`) {
		t.Errorf("a secret that ends within an escape: %+v, payload %s", got, got.Raw)
	}
}

func TestEventLogRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	l := test.Must(OpenEventLog(path, nil))
	payload := json.RawMessage(`"` + strings.Repeat("x", maxPayload-2) + `"`)
	for range 3 * maxEventFile / maxPayload {
		test.OK(t, l.Append(Event{Name: "notification", Raw: payload}))
	}
	test.OK(t, l.Append(Event{Name: "turn_completed"}))
	test.OK(t, l.Close())
	now := test.Must(os.Stat(path)).Size()
	before := test.Must(os.Stat(PreviousEvents(path))).Size()
	if now > maxEventFile || before > maxEventFile || before < maxEventFile-2*maxPayload {
		t.Errorf("%d and %d bytes", before, now)
	}
	test.Contains(t, "the newest file", test.Read(t, path), "turn_completed")

	// A directory that blocks the rotation loses events only while it exists.
	l = test.Must(OpenEventLog(path, nil))
	test.OK(t, os.Remove(PreviousEvents(path)))
	test.OK(t, os.MkdirAll(filepath.Join(PreviousEvents(path), "x"), 0o700))
	l.size = maxEventFile
	l.Complete = true
	test.Equal(t, "a directory is left alone", l.Append(Event{Name: "lost"}) != nil, true)
	test.OK(t, os.RemoveAll(PreviousEvents(path)))
	test.OK(t, l.Append(Event{Name: "second"}))
	if !strings.HasPrefix(test.Read(t, path), `{"no":2,"at":`) {
		t.Errorf("a lost event has no number: %.40s", test.Read(t, path))
	}
	test.OK(t, l.Close())
	test.Contains(t, "the log after the next event", test.Read(t, PreviousEvents(path)), "turn_completed")
	test.Contains(t, "the log after the next event", test.Read(t, path), "second")
}

// An event after a line that a full disk cut off begins on a new line.
func TestEventAfterATornLine(t *testing.T) {
	out, in, err := os.Pipe()
	test.OK(t, err)
	defer out.Close()
	l := &EventLog{path: "events.jsonl", file: in}
	// a pipe without a reader is soon full
	test.OK(t, in.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
	for err == nil {
		err = l.Append(Event{Raw: json.RawMessage(`"` + strings.Repeat("x", 10000) + `"`)})
	}
	test.OK(t, in.SetWriteDeadline(time.Time{}))
	written := make(chan []byte)
	go func() {
		data, _ := io.ReadAll(out)
		written <- data
	}()
	test.OK(t, l.Append(Event{Message: "after"}))
	test.OK(t, l.Append(Event{Message: "last"}))
	test.OK(t, l.Close())
	lines := strings.Split(strings.TrimSuffix(string(<-written), "\n"), "\n")
	for i, line := range lines {
		if torn := i == len(lines)-3; json.Valid([]byte(line)) == torn {
			t.Errorf("line %d of %d: %.60q", i+1, len(lines), line)
		}
	}
}

// A shortened payload still shows what happened, and how much is missing.
func TestShorten(t *testing.T) {
	const limit = 1 << 10
	long := strings.Repeat("b", 40) + strings.Repeat("x", 5000) + strings.Repeat("e", 40)
	for name, tc := range map[string]struct {
		in  string
		has []string
	}{
		"a command's output": {
			in: `{"method":"item/completed","params":{"item":{"type":"commandExecution","command":"make",` +
				`"aggregatedOutput":"` + long +
				`","exitCode":2,"durationMs":1234}}}`,
			has: []string{
				`"command":"make"`, `"aggregatedOutput":"bbbb`, `bytes cut]…`, `eeee"`,
				`"durationMs":1234,"exitCode":2`,
			},
		},
		"nothing but structure": {
			strings.Repeat(`[`, 1000) + strings.Repeat(`]`, 1000), []string{`"[[[[`, `bytes cut]…`, `]]]]"`},
		},
		"too deep to decode": {strings.Repeat(`[`, 1<<20), []string{`"[[[[`}},
		"not JSON":           {`{"a":` + long, []string{`"{\"a\":bbb`, `bytes cut]…`, `eee"`}},
		"other letters":      {`{"s":"` + strings.Repeat(`日本語é`, 300) + `"}`, []string{`日本語é`, `bytes cut]…`}},
		"short as it is":     {`{ "s" : 1.0 }`, []string{`{ "s" : 1.0 }`}},
	} {
		got := string(shorten(json.RawMessage(tc.in), limit, nil))
		if !json.Valid([]byte(got)) || !utf8.ValidString(got) || strings.Contains(got, "\uFFFD") ||
			len(got) > limit {
			t.Errorf("%s: %d bytes: %s", name, len(got), got)
		}
		test.Contains(t, name, got, tc.has...)
	}
}
