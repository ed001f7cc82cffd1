package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// TailFile keeps the last part of what is written to it, without secrets: a log that a talkative program cannot fill a disk
// with.
type TailFile struct {
	mu       sync.Mutex
	file     *os.File
	limit    int
	size     int
	redactor *Redactor
	held     []byte // the end of what was written, until a secret in it can be recognised
	err      error  // the first failure to store something
}

// OpenTailFile opens a log that keeps at least the last limit bytes, and at most twice as many.
func OpenTailFile(path string, limit int, r *Redactor) (*TailFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("log: %w", err), f.Close())
	}
	return &TailFile{file: f, limit: limit, size: int(end), redactor: r}, nil
}

// Write implements io.Writer. It never fails, so that a program never waits for free disk space; Err reports what could
// not be stored.
func (t *TailFile) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	clean, held := t.redactor.Split(append(t.held, p...))
	t.held = held
	t.store(clean)
	return len(p), nil
}

// store appends to the file. One that would become too long is first cut down to its last limit bytes.
func (t *TailFile) store(data []byte) {
	data = data[max(0, len(data)-t.limit):]
	var err error
	if t.size+len(data) > 2*t.limit {
		keep := make([]byte, min(t.limit, t.size))
		if _, err = t.file.ReadAt(keep, int64(t.size-len(keep))); err == nil {
			err = t.file.Truncate(0)
		}
		if err == nil {
			t.size = 0
			data = append(keep, data...)
		}
	}
	if err == nil {
		var n int
		n, err = t.file.WriteAt(data, int64(t.size))
		t.size += n
	}
	if err != nil && t.err == nil {
		t.err = fmt.Errorf("log: %w", err)
	}
}

// Err returns the first failure to store something.
func (t *TailFile) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Tail returns up to n of the last bytes.
func (t *TailFile) Tail(n int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	buf := make([]byte, min(n, t.size))
	if _, err := t.file.ReadAt(buf, int64(t.size-len(buf))); err != nil {
		return ""
	}
	buf = append(buf, t.redactor.Bytes(t.held)...)
	return string(buf[max(0, len(buf)-n):])
}

// Close stores what was held back and closes the file.
func (t *TailFile) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.store(t.redactor.Bytes(t.held))
	t.held = nil
	return t.file.Close()
}

var (
	colours   = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")
	logRecord = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\S+\s+(TRACE|DEBUG|INFO|WARN|ERROR)\s`)
)

// LastWords returns the last line of an agent's stderr that is not a log record, which tells why the agent ended. A healthy
// agent logs errors too, so log records say nothing about its end.
func LastWords(stderr string) string {
	for _, line := range slices.Backward(strings.Split(stderr, "\n")) {
		line = strings.TrimSpace(colours.ReplaceAllString(line, ""))
		if line != "" && !logRecord.MatchString(line) {
			return line
		}
	}
	return ""
}
