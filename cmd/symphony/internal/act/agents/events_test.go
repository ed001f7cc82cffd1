package agents

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/workers"
)

// logOf returns agents with one run, and its event log.
func logOf(t *testing.T, secrets ...string) (*Agents, reconcile.Run, *agent.EventLog) {
	t.Helper()
	a := &Agents{runners: &workers.Local{StateDir: t.TempDir()}}
	run := reconcile.Run{ID: "20261122-1"}
	path := eventlog.Path(a.runners.StateDir, run.ID)
	test.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
	l := test.Must(agent.OpenEventLog(path, agent.NewRedactor(secrets)))
	l.Complete = true
	t.Cleanup(func() { l.Close() })
	return a, run, l
}

func add(t *testing.T, l *agent.EventLog, from, to, size int) {
	t.Helper()
	for n := from; n <= to; n++ {
		raw, _ := json.Marshal(strings.Repeat("x", size))
		test.OK(t, l.Append(agent.Event{Name: "notification", Message: fmt.Sprint(n), Raw: raw}))
	}
}

// events are those after a cursor.
type events struct {
	List   []agent.Event
	Lost   int64
	Cursor string
}

// eventsOf reads as many events as fit into maxBytes of the log, but at least one if there is
// one.
func eventsOf(a *Agents, run reconcile.Run, cursor string, maxBytes int) (e events, err error) {
	size := 0
	e.Cursor, e.Lost, err = a.EachEvent(run, cursor, func(one agent.Event, line []byte) bool {
		size += len(line)
		if size > maxBytes && len(e.List) > 0 {
			return false
		}
		e.List = append(e.List, one)
		return true
	})
	return e, err
}

// numbers are the first and the last number of the events, and how many there are.
func numbers(e events) string {
	if len(e.List) == 0 {
		return fmt.Sprintf("none, lost %d", e.Lost)
	}
	return fmt.Sprintf("%d-%d (%d), lost %d", e.List[0].No, e.List[len(e.List)-1].No, len(e.List), e.Lost)
}

func TestEventsFromACursor(t *testing.T) {
	a, run, l := logOf(t)
	read := func(cursor string, maxBytes int, want string) events {
		t.Helper()
		e := test.Must(eventsOf(a, run, cursor, maxBytes))
		test.Equal(t, "events", numbers(e), want)
		return e
	}
	e := read("", 1<<20, "none, lost 0")
	add(t, l, 1, 10, 100)
	read(e.Cursor, 1<<20, "1-10 (10), lost 0")
	e = read(e.Cursor, 700, "1-3 (3), lost 0")
	e = read(e.Cursor, 1, "4-4 (1), lost 0")
	e = read(e.Cursor, 1<<20, "5-10 (6), lost 0")
	read(e.Cursor, 1<<20, "none, lost 0")
	if got := e.List[0]; got.Message != "5" || got.Name != "notification" || len(got.Raw) != 102 {
		t.Errorf("%+v", got)
	}

	// A line without its end is not an event yet.
	path := eventlog.Path(a.runners.StateDir, run.ID)
	f := test.Must(os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0))
	test.Must(f.WriteString(`{"no":11,"event":"late"`))
	read(e.Cursor, 1<<20, "none, lost 0")
	test.Must(f.WriteString("}\n{\"no\":12,\"eve\n{\"no\":13,\"event\":\"after a full disk\"}\n"))
	test.OK(t, f.Close())
	read(e.Cursor, 1<<20, "11-13 (2), lost 1")

	for _, bad := range []string{
		"x", "20261122-2.1", run.ID, run.ID + ".0", run.ID + ".-1", run.ID + ".99", run.ID + ".x", run.ID + ".1.0.1", run.ID + ".01", e.Cursor + " ",
	} {
		if _, err := eventsOf(a, run, bad, 100); exit.From(err).Code != CodeCursor ||
			exit.From(err).Hint == "" {
			t.Errorf("cursor %q: %v", bad, err)
		}
	}
}

func TestEventsOverRotations(t *testing.T) {
	a, run, l := logOf(t)
	path := eventlog.Path(a.runners.StateDir, run.ID)
	last := 0
	// file writes the next events into a new file, as a rotation does. An empty one is a file
	// into which nothing was written yet.
	file := func(count int) {
		t.Helper()
		var lines strings.Builder
		for range count {
			last++
			fmt.Fprintf(&lines, `{"no":%d,"at":"2026-11-22T07:00:00Z","event":"notification"}`+"\n", last)
		}
		test.OK(t, os.Rename(path, agent.PreviousEvents(path)))
		test.OK(t, os.WriteFile(path, []byte(lines.String()), 0o600))
	}
	add(t, l, 1, 10, 10)
	last = 10
	five := test.Must(eventsOf(a, run, "", 500))
	old := five.Cursor
	after := int(five.List[len(five.List)-1].No)
	next := func(cursor, want string) string {
		t.Helper()
		e := test.Must(eventsOf(a, run, cursor, 1<<20))
		test.Equal(t, "events", numbers(e), want)
		return e.Cursor
	}
	file(0)
	next(old, fmt.Sprintf("%d-10 (%d), lost 0", after+1, 10-after))
	test.OK(t, os.Rename(agent.PreviousEvents(path), path))
	file(5)
	next(old, fmt.Sprintf("%d-15 (%d), lost 0", after+1, 15-after))
	file(5) // the first file is gone
	end := next(old, fmt.Sprintf("11-20 (10), lost %d", 10-after))
	next("", "11-20 (10), lost 10")
	next(end, "none, lost 0")
	test.OK(t, os.Rename(path, agent.PreviousEvents(path))) // in the middle of a rotation
	next(end, "none, lost 0")
	test.OK(t, os.WriteFile(path, nil, 0o600))
	file(1)
	next(end, "21-21 (1), lost 0")
}

// The log of an agent has codex's own line beside the item, without secrets.
func TestCompleteLog(t *testing.T) {
	a, run, l := logOf(t, "hunter2-hunter2")
	test.OK(t, l.Append(agent.Event{
		Name: "notification",
		Raw:  json.RawMessage(`{"method":"item/completed","params":{"text":"my hunter2-hunter2"}}`),
		Item: &agent.Item{Kind: agent.ItemMessage, Ended: true, Text: "my hunter2-hunter2"},
	}))
	e := test.Must(eventsOf(a, run, "", 1000))
	test.Equal(
		t,
		"the payload",
		string(e.List[0].Raw),
		`{"method":"item/completed","params":{"text":"my [redacted]"}}`,
	)
	data := test.Must(os.ReadFile(eventlog.Path(a.runners.StateDir, run.ID)))
	line, ok := (&eventlog.Reader{}).Read(data)
	if !ok || line.Kind != eventlog.Words || line.Text != "my [redacted]" {
		t.Errorf("the log as symphony logs shows it: %+v", line)
	}
}
