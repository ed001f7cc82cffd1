package runner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/runner/codex"
)

const (
	eventFileLimit  = 16 << 20 // bytes of events.jsonl before it is turned over
	eventFieldLimit = 8 << 10  // bytes of one payload
	redacted        = "[redacted]"
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
	secrets []string
	mu      sync.Mutex
	file    *os.File
	size    int64
}

func openEventLog(path string, secrets []string) (*eventLog, error) {
	l := &eventLog{path: path, secrets: secrets}
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

// append writes one event as one line, secrets removed.
func (l *eventLog) append(e codex.Event) error {
	line := EventLine{At: e.At.UTC(), Event: e.Name, Method: e.Method, ThreadID: e.ThreadID, TurnID: e.TurnID, Message: e.Message}
	if len(e.Raw) <= eventFieldLimit {
		line.Payload = e.Raw
	}
	data, err := json.Marshal(line)
	if err != nil {
		// A payload that is no JSON: a line of the agent that was none.
		line.Payload, err = json.Marshal(string(e.Raw))
		if err == nil {
			data, err = json.Marshal(line)
		}
		if err != nil {
			return fmt.Errorf("event log: %w", err)
		}
	}
	data = append(scrub(data, l.secrets), '\n')
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+int64(len(data)) > eventFileLimit {
		if err := l.turnOver(); err != nil {
			return err
		}
	}
	n, err := l.file.Write(data)
	l.size += int64(n)
	if err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	return nil
}

func (l *eventLog) turnOver() error {
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	if err := os.Rename(l.path, PreviousEvents(l.path)); err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	return l.open()
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

// scrub replaces secrets. A secret that JSON writes differently is replaced in that form too.
func scrub(data []byte, secrets []string) []byte {
	for _, s := range secrets {
		if s == "" {
			continue
		}
		data = bytes.ReplaceAll(data, []byte(s), []byte(redacted))
		if quoted, err := json.Marshal(s); err == nil && len(quoted) > 2 {
			data = bytes.ReplaceAll(data, quoted[1:len(quoted)-1], []byte(redacted))
		}
	}
	return data
}

// tailFile keeps the last part of what is written to it: a log that a talkative program can't fill a disk with.
type tailFile struct {
	mu      sync.Mutex
	file    *os.File
	limit   int
	size    int
	secrets []string
}

func openTail(path string, limit int, secrets []string) (*tailFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	end, err := f.Seek(0, 2)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	return &tailFile{file: f, limit: limit, size: int(end), secrets: secrets}, nil
}

// Write implements io.Writer.
func (t *tailFile) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	data := scrub(bytes.Clone(p), t.secrets)
	if t.size+len(data) > 2*t.limit {
		if err := t.cut(); err != nil {
			return 0, err
		}
	}
	n, err := t.file.Write(data)
	t.size += n
	if err != nil {
		return 0, fmt.Errorf("log: %w", err)
	}
	return len(p), nil
}

// cut keeps the last limit bytes.
func (t *tailFile) cut() error {
	keep := make([]byte, min(t.limit, t.size))
	if _, err := t.file.ReadAt(keep, int64(t.size-len(keep))); err != nil {
		return fmt.Errorf("log: %w", err)
	}
	if err := t.file.Truncate(0); err != nil {
		return fmt.Errorf("log: %w", err)
	}
	if _, err := t.file.WriteAt(keep, 0); err != nil {
		return fmt.Errorf("log: %w", err)
	}
	t.size = len(keep)
	_, err := t.file.Seek(int64(t.size), 0)
	return err
}

// tail returns up to n of the last bytes.
func (t *tailFile) tail(n int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	buf := make([]byte, min(n, t.size))
	if _, err := t.file.ReadAt(buf, int64(t.size-len(buf))); err != nil {
		return ""
	}
	return string(buf)
}

func (t *tailFile) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.file.Close()
}
