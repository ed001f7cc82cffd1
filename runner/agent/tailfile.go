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

	"github.com/symphony-cron/symphony/internal/text"
)

// TailFile keeps the end of its input, without secrets. The output of a talkative program
// can't fill the disk.
type TailFile struct {
	mu       sync.Mutex
	file     *os.File
	limit    int
	size     int
	redactor *Redactor
	held     []byte // not written yet, because a secret at its end may be incomplete
	err      error  // the first write error
}

// OpenTailFile opens a file for appending. It keeps at least the last limit bytes, and at most
// twice as many.
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

// Write implements io.Writer. It never fails, so that a full disk does not block the program
// that writes; Err returns the error.
func (t *TailFile) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	clean, held := t.redactor.Split(append(t.held, p...))
	t.held = held
	t.store(clean)
	return len(p), nil
}

// store appends to the file, which keeps the last limit bytes. Err returns the first error.
func (t *TailFile) store(data []byte) {
	data = data[max(0, len(data)-t.limit):]
	if err := t.write(data); err != nil && t.err == nil {
		t.err = fmt.Errorf("log: %w", err)
	}
}

// write appends to the file. If the file would get too long, it cuts the file first.
func (t *TailFile) write(data []byte) error {
	if t.size+len(data) > 2*t.limit {
		keep := make([]byte, min(t.limit, t.size))
		if _, err := t.file.ReadAt(keep, int64(t.size-len(keep))); err != nil {
			return err
		}
		if err := t.file.Truncate(0); err != nil {
			return err
		}
		t.size = 0
		data = append(keep, data...)
	}
	n, err := t.file.WriteAt(data, int64(t.size))
	t.size += n
	return err
}

// Err returns the first write error.
func (t *TailFile) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Tail returns at most n bytes of the end.
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

// Close writes the bytes that were held back and closes the file.
func (t *TailFile) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.store(t.redactor.Bytes(t.held))
	t.held = nil
	return t.file.Close()
}

// LastWords returns why an agent ended, as its stderr tells it, "" if that says nothing: the
// last line that begins with "error:", and the line at the end if that names its cause;
// without such a line the last one. The lines behind an error are often about --help. Log
// records do not count, because a healthy agent logs errors too. Control characters are
// escaped.
func LastWords(stderr string) string { return text.Visible(lastWords(stderr)) }

func lastWords(stderr string) string {
	logRecord := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\S+\s+(TRACE|DEBUG|INFO|WARN|ERROR)\s`)
	last := ""
	cause := ""
	for _, line := range slices.Backward(strings.Split(stderr, "\n")) {
		line = strings.TrimSpace(WithoutColours(line))
		switch {
		case line == "" || logRecord.MatchString(line):
		case strings.HasPrefix(strings.ToLower(line), "error:"):
			return strings.TrimSuffix(line+": "+cause, ": ")
		case line == "Caused by:":
			cause = last
		case last == "":
			last = line
		}
	}
	return last
}

var colours = text.Pattern("\x1b\\[[0-9;]*[A-Za-z]")

// WithoutColours removes what sets the colours of a terminal.
func WithoutColours(s string) string { return colours().ReplaceAllString(s, "") }
