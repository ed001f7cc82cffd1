package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/runner/codex"
)

const (
	eventFileLimit  = 16 << 20 // bytes of events.jsonl before it is turned over
	eventFieldLimit = 32 << 10 // bytes of one payload
)

// EventLine is one line of events.jsonl (specification 10.4).
type EventLine struct {
	At       time.Time       `json:"at"`
	Event    string          `json:"event"`
	Method   string          `json:"method,omitempty"`
	ThreadID string          `json:"thread_id,omitempty"`
	TurnID   string          `json:"turn_id,omitempty"`
	Message  string          `json:"message,omitempty"`
	Payload  json.RawMessage `json:"payload,omitempty"`
}

// eventLog writes events.jsonl. When the file is full it becomes events.1.jsonl and a new one is begun, so
// that at most twice the limit is kept: the run's latest events.
type eventLog struct {
	path    string
	secrets secrets
	mu      sync.Mutex
	file    *os.File
	size    int64
	torn    bool // the last line has no end: the disk was full
}

func openEventLog(path string, s secrets) (*eventLog, error) {
	l := &eventLog{path: path, secrets: s}
	return l, l.open()
}

func (l *eventLog) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	l.file, l.size = f, info.Size()
	return nil
}

// append writes one event as one line, bounded and without secrets.
func (l *eventLog) append(e codex.Event) error {
	line := EventLine{At: e.At.UTC(), Event: e.Name, Method: e.Method, ThreadID: e.ThreadID, TurnID: e.TurnID, Message: e.Message}
	data, err := l.encode(line, shorten(e.Raw, eventFieldLimit, l.secrets))
	if err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+int64(len(data)) > eventFileLimit {
		if err := l.turnOver(); err != nil {
			return err
		}
	}
	if l.torn {
		data = slices.Concat([]byte("\n"), data)
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

// encode gives the line of an event. A payload that is no JSON becomes a string: a line of the agent that was none, or
// one that ceased to be any when a secret was taken out of it in the middle of an escape.
func (l *eventLog) encode(line EventLine, payload json.RawMessage) ([]byte, error) {
	line.Payload = payload
	if data, err := json.Marshal(line); err == nil {
		if clean := l.secrets.scrub(data); len(clean) == len(data) || json.Valid(clean) {
			return append(clean, '\n'), nil
		}
	}
	text, err := json.Marshal(string(l.secrets.scrub(payload)))
	if err != nil {
		return nil, err
	}
	line.Payload, line.Message = text, l.secrets.clean(line.Message)
	data, err := json.Marshal(line)
	return append(data, '\n'), err
}

// turnOver begins a new file. Where it fails the next event tries again.
func (l *eventLog) turnOver() error {
	full := l.file
	// It may have been renamed already, and the new one could not be made.
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

// PreviousEvents names the file that the older events of a long run are in.
func PreviousEvents(path string) string {
	return path[:len(path)-len(".jsonl")] + ".1.jsonl"
}

func (l *eventLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// tailFile keeps the last part of what is written to it: a log that a talkative program can't fill a disk with.
type tailFile struct {
	mu      sync.Mutex
	file    *os.File
	limit   int
	size    int
	secrets secrets
	held    []byte // the end of what was written, where it may be the beginning of a secret
	err     error  // the first failure to store something
}

func openTail(path string, limit int, s secrets) (*tailFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("log: %w", err), f.Close())
	}
	return &tailFile{file: f, limit: limit, size: int(end), secrets: s}, nil
}

// Write implements io.Writer. It takes everything, so that who writes never waits for a disk with room;
// failure tells whether some of it could not be stored.
func (t *tailFile) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	clean, held := t.secrets.scrubBegun(append(t.held, p...))
	t.store(clean)
	t.held = held
	return len(p), nil
}

func (t *tailFile) store(data []byte) {
	if len(data) > t.limit {
		data = data[len(data)-t.limit:]
	}
	err := t.cut(len(data))
	if err == nil {
		var n int
		n, err = t.file.Write(data)
		t.size += n
	}
	if err != nil && t.err == nil {
		t.err = fmt.Errorf("log: %w", err)
	}
}

// cut makes room: of a file that would become too long the last limit bytes are kept.
func (t *tailFile) cut(more int) error {
	if t.size+more <= 2*t.limit {
		return nil
	}
	keep := make([]byte, min(t.limit, t.size))
	if _, err := t.file.ReadAt(keep, int64(t.size-len(keep))); err != nil {
		return err
	}
	if err := t.file.Truncate(0); err != nil {
		return err
	}
	if _, err := t.file.WriteAt(keep, 0); err != nil {
		return err
	}
	t.size = len(keep)
	_, err := t.file.Seek(int64(t.size), io.SeekStart)
	return err
}

// failure is the first error of storing.
func (t *tailFile) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// tail returns up to n of the last bytes.
func (t *tailFile) tail(n int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	buf := make([]byte, min(n, t.size))
	if _, err := t.file.ReadAt(buf, int64(t.size-len(buf))); err != nil {
		return ""
	}
	buf = append(buf, t.secrets.scrub(t.held)...)
	return string(buf[max(0, len(buf)-n):])
}

func (t *tailFile) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.store(t.secrets.scrub(t.held))
	t.held = nil
	return t.file.Close()
}
