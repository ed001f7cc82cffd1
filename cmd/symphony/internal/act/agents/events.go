package agents

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// CodeCursor is the error code of a cursor that belongs to no position of the log.
const CodeCursor = "invalid_cursor"

// Event is an event of an agent's log, without the item that describes its payload.
type Event struct {
	No       int64           `json:"no"` // from 1
	At       time.Time       `json:"at"`
	Name     string          `json:"event"`
	PID      int             `json:"codex_app_server_pid"` // 0: an event of the worker
	ThreadID string          `json:"thread_id"`
	TurnID   string          `json:"turn_id"`
	Message  string          `json:"message"`
	Payload  json.RawMessage `json:"payload"` // codex's own line, or what the worker notes
	Line     []byte          `json:"-"`       // of the log
}

// Events are consecutive events of an agent.
type Events struct {
	List   []Event
	Lost   int64  // how many events between the cursor and the list the log no longer has
	Cursor string // after the last event
}

// EventsOf returns the events of an agent after a cursor, as many whole ones as fit into maxBytes of its log, but at least one if there
// is one. An empty cursor stands before the oldest event that the log has. Error: CodeCursor.
func (a *Agents) EventsOf(run reconcile.Run, cursor string, maxBytes int) (events Events, err error) {
	r := logReader{path: eventlog.Path(a.runners.StateDir, run.ID)}
	valid := false
	if r.pos, valid = parsePosition(run.ID, cursor); valid {
		defer r.close()
		if err = r.open(); err == nil {
			valid, err = r.read(maxBytes)
		}
	}
	switch {
	case err != nil:
		return events, fmt.Errorf("event log: %w", err)
	case !valid:
		return events, reconcile.NewError(CodeCursor, fmt.Sprintf("cursor %q is none of this agent's events", cursor),
			"use a cursor that read_events has returned for this agent, or none to begin with the oldest event")
	}
	r.events.Cursor = r.pos.cursor(run.ID)
	return r.events, nil
}

// TurnsOf returns a function that finds the call of the turn to which an event belongs, "" for an event of none.
func (a *Agents) TurnsOf(ctx context.Context, run reconcile.Run) (func(Event) string, error) {
	calls, err := a.DB.Clients.CallsOf(ctx, run.ID)
	threads := map[string]string{} // by the call that opened it
	for _, c := range calls {
		if c.Verb == reconcile.CallConversation {
			threads[c.ID] = c.ThreadID
		}
	}
	return func(e Event) (id string) {
		var began time.Time
		for _, c := range calls {
			if c.Verb == reconcile.CallTurn && e.TurnID != "" && threads[c.Conversation] == e.ThreadID && !c.StartedAt.IsZero() &&
				!c.StartedAt.After(e.At) && !c.StartedAt.Before(began) {
				id, began = c.ID, c.StartedAt
			}
		}
		return id
	}, err
}

// position is a place between two events. The number of a file's first event names the file, also after the log has been rotated.
type position struct {
	first  int64 // the number of the first event in the file; 0: none was read yet
	offset int64 // in that file
	next   int64 // the number of the next event
}

func (p position) cursor(runID string) string {
	return fmt.Sprintf("%s.%d.%d.%d", runID, p.first, p.offset, p.next)
}

func parsePosition(runID, cursor string) (p position, ok bool) {
	if cursor == "" {
		return position{next: 1}, true
	}
	_, err := fmt.Sscanf(strings.TrimPrefix(cursor, runID), ".%d.%d.%d", &p.first, &p.offset, &p.next)
	return p, err == nil && p.cursor(runID) == cursor && p.first >= 0 && p.offset >= 0 && p.next >= max(1, p.first)
}

// logReader reads the current file of a log and the one before.
type logReader struct {
	path   string
	pos    position
	files  []logFile // the older one first
	events Events
}

type logFile struct {
	*os.File
	first int64
}

// open opens the files that have an event. The current one is first: if the log is rotated in between, both are the same.
func (r *logReader) open() error {
	for _, path := range []string{r.path, agent.PreviousEvents(r.path)} {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		file := logFile{File: f}
		if file.first, err = firstNumber(f); err != nil {
			return errors.Join(err, f.Close())
		}
		if file.first == 0 || len(r.files) > 0 && r.files[0].first == file.first {
			_ = f.Close() // it was only read
			continue
		}
		r.files = append([]logFile{file}, r.files...)
	}
	return nil
}

func (r *logReader) close() {
	for _, f := range r.files {
		_ = f.Close() // it was only read
	}
}

// numberLimit is more than the number at the beginning of an event takes.
const numberLimit = 32

// firstNumber returns the number of the first event of a file, 0 if there is none yet.
func firstNumber(f *os.File) (int64, error) {
	in := bufio.NewReaderSize(io.NewSectionReader(f, 0, math.MaxInt64), numberLimit)
	for {
		line, err := in.ReadSlice('\n')
		if n := numberOf(line); n > 0 {
			return n, nil
		}
		if errors.Is(err, io.EOF) {
			return 0, nil
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return 0, err
		}
	}
}

// numberOf returns the number of an event from the beginning of its line, 0 if it has none.
func numberOf(line []byte) int64 {
	text, found := bytes.CutPrefix(line[:min(len(line), numberLimit)], []byte(`{"no":`))
	text, _, ends := bytes.Cut(text, []byte(","))
	n, err := strconv.ParseInt(string(text), 10, 64)
	if !found || !ends || err != nil {
		return 0
	}
	return n
}

// read reads events from the position on. ok is false if the log can't have that position.
func (r *logReader) read(maxBytes int) (ok bool, err error) {
	begin := slices.IndexFunc(r.files, func(f logFile) bool { return f.first == r.pos.first })
	if begin < 0 {
		if begin = 0; len(r.files) > 0 && r.pos.first > r.files[0].first {
			return false, nil
		}
		r.pos.offset = 0 // nothing was read yet, or the file is gone
	}
	for i, f := range r.files[begin:] {
		if i > 0 {
			r.pos.offset = 0
		}
		r.pos.first = f.first
		if ok, err := f.startsLine(r.pos.offset); !ok || err != nil {
			return false, err
		}
		if full, err := r.readFile(f, &maxBytes); full || err != nil {
			return true, err
		}
	}
	return true, nil
}

// startsLine reports whether a line of the file begins, or is going to begin, at the offset.
func (f logFile) startsLine(offset int64) (bool, error) {
	if offset == 0 {
		return true, nil
	}
	before := make([]byte, 1)
	_, err := f.ReadAt(before, offset-1)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return before[0] == '\n', err
}

// readFile reads events of one file. full is true if the next one does not fit.
func (r *logReader) readFile(f logFile, maxBytes *int) (full bool, err error) {
	in := bufio.NewReader(io.NewSectionReader(f, r.pos.offset, math.MaxInt64-r.pos.offset))
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return false, nil // the rest of a line comes later, or never
		}
		if err != nil {
			return false, err
		}
		if *maxBytes -= len(line); *maxBytes < 0 && len(r.events.List) > 0 {
			return true, nil
		}
		r.pos.offset += int64(len(line))
		var e Event
		if json.Unmarshal(line, &e) != nil || e.No < r.pos.next {
			continue // a line that was cut, for instance because the disk was full
		}
		r.events.Lost += e.No - r.pos.next
		r.pos.next = e.No + 1
		e.Line = line
		r.events.List = append(r.events.List, e)
	}
}
