package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/internal/text"
)

const (
	maxEventFile = 16 << 20 // bytes of events.jsonl before it is rotated
	maxPayload   = 32 << 10 // bytes of a payload or item
)

// EventLog writes events.jsonl without secrets. A full file is renamed to events.1.jsonl,
// which replaces the previous file, so that the latest events of a run are kept.
type EventLog struct {
	// Complete: number the events, and keep the agent's own lines even where an item contains
	// all of them. Clients can then read events as the agent sent them, from where they
	// stopped.
	Complete bool
	path     string
	redactor *Redactor
	mu       sync.Mutex
	file     *os.File
	size     int64
	torn     bool  // the last line is incomplete, for instance because the disk was full
	last     int64 // the number of the last event, if Complete
}

// OpenEventLog opens the log for appending.
func OpenEventLog(path string, r *Redactor) (*EventLog, error) {
	l := &EventLog{path: path, redactor: r}
	return l, l.open()
}

// PreviousEvents returns the path of the file with the older events of a long run.
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
	l.file = f
	l.size = info.Size()
	l.torn = false
	return nil
}

// Append writes an event as a line. A long payload is shortened.
func (l *EventLog) Append(e Event) error {
	data, err := l.encode(e)
	if err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Complete {
		l.last++
		data = append(fmt.Appendf(nil, `{"no":%d,`, l.last), data[1:]...)
	}
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

// encode returns an event as a line, without secrets.
func (l *EventLog) encode(e Event) ([]byte, error) {
	e.At = e.At.UTC()
	if e.Item != nil && e.Item.Kind != ItemOther && !l.Complete {
		e.Raw = nil
	}
	e.Raw = shorten(e.Raw, maxPayload, l.redactor)
	e.Item = e.Item.shorten(maxPayload, l.redactor)
	data, err := json.Marshal(e)
	data = l.redactor.Bytes(data)
	if err == nil && json.Valid(data) {
		return append(data, '\n'), nil
	}
	// Raw is not JSON, or a secret ended in the middle of an escape sequence: both become texts.
	if e.Raw == nil && e.Item != nil {
		e.Raw = text.JSON(e.Item)
	}
	e.Raw = text.JSON(l.redactor.Text(string(e.Raw)))
	e.Message = l.redactor.Text(e.Message)
	e.Item = nil
	data, err = json.Marshal(e)
	return append(data, '\n'), err
}

// rotate starts a new file. After an error the next event tries again.
func (l *EventLog) rotate() error {
	full := l.file
	// An earlier call may have renamed the file and failed to create the new file.
	if err := os.Rename(l.path, PreviousEvents(l.path)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("event log: %w", err)
	}
	if err := l.open(); err != nil {
		return err
	}
	return full.Close()
}

// Close closes the file.
func (l *EventLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// shorten returns a JSON value of at most limit bytes. Long strings keep their beginning and
// end, so that a shortened event still tells which command ran, where, and how it ended.
// Strings are redacted before they are cut, because a part of a secret would not be
// recognised.
func shorten(payload json.RawMessage, limit int, r *Redactor) json.RawMessage {
	if len(payload) <= limit {
		return payload
	}
	var value any
	if json.Unmarshal(payload, &value) == nil {
		for room := limit * 3 / 4; room >= 16; room /= 3 {
			if short := text.JSON(cutStrings(value, room, r)); len(short) <= limit {
				return short
			}
		}
	}
	return text.JSON(cutMiddle(r.Text(string(payload)), limit/8))
}

// maxChanges is how many files of a patch are kept.
const maxChanges = 100

// shorten returns the item with long texts cut, so that it takes at most limit bytes.
func (i *Item) shorten(limit int, r *Redactor) *Item {
	if i == nil || len(text.JSON(i)) <= limit {
		return i
	}
	cut := *i
	if more := len(i.Changes) - maxChanges; more > 0 {
		cut.Changes = append(
			slices.Clone(i.Changes[:maxChanges]),
			FileChange{Path: fmt.Sprintf("%s %d more", ellipsis, more)},
		)
	}
	var short Item
	if json.Unmarshal(shorten(text.JSON(cut), limit, r), &short) != nil {
		return &Item{ID: i.ID, Kind: i.Kind, Ended: i.Ended, Status: i.Status, ExitCode: i.ExitCode}
	}
	return &short
}

// cutStrings shortens every string to about room bytes.
func cutStrings(value any, room int, r *Redactor) any {
	switch v := value.(type) {
	case string:
		return cutMiddle(r.Text(v), room)
	case []any:
		for i := range v {
			v[i] = cutStrings(v[i], room, r)
		}
	case map[string]any:
		for name := range v {
			v[name] = cutStrings(v[name], room, r)
		}
	}
	return value
}

// cutMiddle keeps three quarters of room from the beginning of a string and a quarter from its
// end.
func cutMiddle(s string, room int) string {
	if len(s) <= room {
		return s
	}
	head := text.Within(s, room-room/4)
	tail := len(s) - room/4
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return head + ellipsis + "[" + strconv.Itoa(tail-len(head)) + " bytes cut]" + ellipsis + s[tail:]
}
