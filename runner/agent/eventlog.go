package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Names of the events that a worker adds to those of the agent (specification 10.4).
const (
	// EventPrompt is the text that a turn was started with; its payload is a PromptEvent.
	EventPrompt = "turn_prompt"
	// EventMutation is a change that the agent made in the tracker; its payload is a reconcile.Mutation.
	EventMutation = "tracker_mutation"
	// EventGitUndone lists the git hooks and settings of the agent that were undone; its payload is a GitUndoneEvent.
	EventGitUndone = "git_configuration_undone"
)

// PromptEvent is the payload of EventPrompt.
type PromptEvent struct {
	Turn int    `json:"turn"`
	Text string `json:"text"`
}

// GitUndoneEvent is the payload of EventGitUndone.
type GitUndoneEvent struct {
	Names []string `json:"names"`
}

const (
	maxEventFile = 16 << 20 // bytes of events.jsonl before it is rotated
	maxPayload   = 32 << 10 // bytes of one payload or item
)

// EventLine is one line of events.jsonl (specification 10.4). The event of an item has the item, all others have the
// agent's own message as their payload.
type EventLine struct {
	At       time.Time       `json:"at"`
	Event    string          `json:"event"`
	PID      int             `json:"codex_app_server_pid,omitempty"`
	ThreadID string          `json:"thread_id,omitempty"`
	TurnID   string          `json:"turn_id,omitempty"`
	Message  string          `json:"message,omitempty"`
	Routine  bool            `json:"routine,omitempty"`
	Usage    *Usage          `json:"usage,omitempty"`
	Item     *Item           `json:"item,omitempty"`
	Payload  json.RawMessage `json:"payload,omitempty"`
}

// Line is the event as it is stored.
func (e Event) Line() EventLine {
	line := EventLine{
		At: e.At, Event: e.Name, PID: e.PID, ThreadID: e.ThreadID, TurnID: e.TurnID, Message: e.Message, Routine: e.Routine,
		Usage: e.Usage, Item: e.Item, Payload: e.Raw,
	}
	if e.Item != nil && e.Item.Kind != ItemOther {
		line.Payload = nil // the item has all of it
	}
	return line
}

// EventLog writes events.jsonl without secrets. A full file becomes events.1.jsonl, so that the latest events of a run
// are kept, in at most twice the limit.
type EventLog struct {
	path     string
	redactor *Redactor
	mu       sync.Mutex
	file     *os.File
	size     int64
	torn     bool // the last line is incomplete: the disk was full
}

// OpenEventLog opens the log for appending.
func OpenEventLog(path string, r *Redactor) (*EventLog, error) {
	l := &EventLog{path: path, redactor: r}
	return l, l.open()
}

// PreviousEvents names the file with the older events of a long run.
func PreviousEvents(path string) string { return strings.TrimSuffix(path, ".jsonl") + ".1.jsonl" }

func (l *EventLog) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("event log: %w", err), f.Close())
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Append writes one event as one line. A long payload is shortened.
func (l *EventLog) Append(line EventLine) error {
	line.At = line.At.UTC()
	line.Payload = shorten(line.Payload, maxPayload, l.redactor)
	line.Item = line.Item.shorten(maxPayload, l.redactor)
	data, err := l.encode(line)
	if err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+int64(len(data)) > maxEventFile {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	if l.torn {
		data = append([]byte("\n"), data...)
	}
	n, err := l.file.Write(data)
	l.size += int64(n)
	if n > 0 {
		l.torn = n < len(data)
	}
	if err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	return nil
}

// encode gives the line of an event. A payload becomes a string if it is not JSON: as the agent sent it, or because
// a secret was replaced that ended in the middle of an escape.
func (l *EventLog) encode(line EventLine) ([]byte, error) {
	if data, err := json.Marshal(line); err == nil {
		if clean := l.redactor.Bytes(data); json.Valid(clean) {
			return append(clean, '\n'), nil
		}
	}
	if line.Payload == nil && line.Item != nil {
		line.Payload = marshal(line.Item)
	}
	line.Payload, line.Message, line.Item = marshal(l.redactor.Text(string(line.Payload))), l.redactor.Text(line.Message), nil
	data, err := json.Marshal(line)
	return append(data, '\n'), err
}

// rotate begins a new file. After an error the next event tries again.
func (l *EventLog) rotate() error {
	full := l.file
	// The file may have been renamed by a call that could not create the new one.
	if err := os.Rename(l.path, PreviousEvents(l.path)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("event log: %w", err)
	}
	if err := l.open(); err != nil {
		return err
	}
	l.torn = false
	if err := full.Close(); err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	return nil
}

// Close closes the file.
func (l *EventLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// shorten returns a JSON value of at most limit bytes. Long strings keep their beginning and end, long lists and objects
// their beginning, and each says how much was left out. So the short form of a large event still tells what was run,
// where, and how it ended. Strings are redacted before they are cut: half a secret would not be recognised.
func shorten(payload json.RawMessage, limit int, r *Redactor) json.RawMessage {
	if len(payload) <= limit {
		return payload
	}
	var value any
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	err := d.Decode(&value)
	if _, end := d.Token(); err == nil && end == io.EOF {
		for room, entries := limit*3/4, 4096; entries >= 4; room, entries = room/3, entries/4 {
			value = cutValue(value, room, entries, r)
			if short := marshal(value); len(short) <= limit {
				return short
			}
		}
	}
	return marshal(cutMiddle(r.Text(string(payload)), limit/8))
}

// shorten returns the item with long texts cut, so that it takes at most limit bytes.
func (i *Item) shorten(limit int, r *Redactor) *Item {
	const maxChanges = 100
	if i == nil || len(marshal(i)) <= limit {
		return i
	}
	short := *i
	short.Changes = slices.Clone(i.Changes[:min(len(i.Changes), maxChanges)])
	if more := len(i.Changes) - maxChanges; more > 0 {
		short.Changes = append(short.Changes, FileChange{Path: leftOut(more)})
	}
	texts := []*string{&short.Text, &short.Command, &short.Output, &short.Result}
	for n := range short.Changes {
		texts = append(texts, &short.Changes[n].Path, &short.Changes[n].Diff)
	}
	for room := limit * 3 / 4; room >= 16 && len(marshal(short)) > limit; room /= 3 {
		for _, text := range texts {
			*text = cutMiddle(r.Text(*text), room)
		}
	}
	return &short
}

// cutValue shortens every string to about room bytes, and every list and object to a number of entries.
func cutValue(value any, room, entries int, r *Redactor) any {
	switch v := value.(type) {
	case string:
		return cutMiddle(r.Text(v), room)
	case json.Number:
		if len(v) > 64 {
			return ellipsis
		}
	case []any:
		short := make([]any, 0, min(len(v), entries+1))
		for _, entry := range v[:min(len(v), entries)] {
			short = append(short, cutValue(entry, room, entries, r))
		}
		if more := len(v) - entries; more > 0 {
			short = append(short, leftOut(more))
		}
		return short
	case map[string]any:
		short := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if len(short) == entries {
				short[leftOut(len(v)-entries)] = nil
				break
			}
			short[r.Text(name)] = cutValue(v[name], room, entries, r)
		}
		return short
	}
	return value
}

func leftOut(entries int) string { return ellipsis + " " + strconv.Itoa(entries) + " more" }

// cutMiddle keeps three quarters of room from the beginning of a text and one quarter from its end.
func cutMiddle(text string, room int) string {
	if len(text) <= room {
		return text
	}
	head, tail := room-room/4, len(text)-room/4
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return text[:head] + ellipsis + "[" + strconv.Itoa(tail-head) + " bytes cut]" + ellipsis + text[tail:]
}

// marshal encodes what was decoded before, without an escape for < and the like.
func marshal(value any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return json.RawMessage(`""`) // strings, numbers, lists and objects always encode
	}
	return bytes.TrimSpace(b.Bytes())
}
