package eventlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// Path returns the path of the event log of a run.
func Path(stateDir, runID string) string {
	return File(host.RunDir(stateDir, runID))
}

// File is the path of the event log in the directory of a run.
func File(runDir string) string { return filepath.Join(runDir, "events.jsonl") }

// Tail is the end of the log of a run.
type Tail struct {
	Lines []Line // without minor ones, and with short details
	// Message is the agent's last message: of the run's own thread, not of a sub-agent. Empty
	// if there is none.
	Message string
}

// tailWindow is how many bytes at the end of a log are read first. A line is at most 32 KiB
// long.
const tailWindow = 256 << 10

// ReadTail returns the last lines of a run's log, at most n of them, and the agent's last
// message. ended is set after the end of the run. Without a log, the tail is empty.
func ReadTail(stateDir string, run reconcile.Run, n int, now time.Time, ended bool) (Tail, error) {
	for window := int64(tailWindow); ; window *= 8 {
		t, whole, err := readTail(stateDir, run, window, now, ended)
		if err != nil {
			return t, err
		}
		enough := len(t.Lines) >= n && t.Message != ""
		if !enough && !whole {
			continue
		}
		t.Lines = t.Lines[max(0, len(t.Lines)-n):]
		for i := range t.Lines {
			t.Lines[i], _ = t.Lines[i].Short()
		}
		return t, nil
	}
}

// readTail returns the lines in the last window bytes of a run's log. whole reports that there
// are no more.
func readTail(
	stateDir string, run reconcile.Run, window int64, now time.Time, ended bool,
) (t Tail, whole bool, err error) {
	r := Reader{Workspace: run.WorkspacePath}
	whole, err = eachOfLast(Path(stateDir, run.ID), window, func(data []byte) {
		l, ok := r.Read(data)
		if !ok || l.Minor {
			return
		}
		if l.Kind == Words && ofThread(data, run.ThreadID) {
			t.Message = l.Text
		}
		t.Lines = append(t.Lines, l)
	})
	t.Lines = append(t.Lines, r.Running(now, ended)...)
	return t, whole, err
}

// ReadRun returns the whole log of a run, without minor lines other than the agent's
// reasoning. ended is set after the end of the run.
func ReadRun(stateDir string, run reconcile.Run, now time.Time, ended bool) (lines []Line, err error) {
	r := Reader{Workspace: run.WorkspacePath}
	err = EachLine(stateDir, run.ID, func(data []byte) {
		l, ok := r.Read(data)
		if ok && (!l.Minor || l.Reasoning() != "") {
			lines = append(lines, l)
		}
	})
	return append(lines, r.Running(now, ended)...), err
}

// EachLine shows the events in the log of a run as they are stored.
func EachLine(stateDir, runID string, show func([]byte)) error {
	_, err := eachOfLast(Path(stateDir, runID), math.MaxInt64, show)
	return err
}

// eachOfLast shows the whole lines in the last window bytes of a log and of the file that it
// replaced. whole reports that there are no more.
func eachOfLast(path string, window int64, show func([]byte)) (whole bool, err error) {
	var parts []io.Reader
	var newest os.FileInfo
	for _, name := range []string{path, agent.PreviousEvents(path)} {
		file, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("log: %w", err)
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			return false, fmt.Errorf("log: %w", err)
		}
		if newest != nil && os.SameFile(newest, info) {
			break // the log was replaced just now: this is the file that was opened as the newest
		}
		newest = info
		size := min(info.Size(), window)
		parts = slices.Insert(parts, 0, io.Reader(io.NewSectionReader(file, info.Size()-size, size)))
		window -= size
	}
	whole = window > 0
	inside := whole
	_, err = eachLine(io.MultiReader(parts...), func(data []byte) {
		if inside {
			show(data)
		}
		inside = true // the first line may be cut
	})
	return whole, err
}

// WorkEnd returns the changes that a run left in its workspace; nil if its log does not say
// so.
func WorkEnd(stateDir, runID string) (end *host.WorkEnd, err error) {
	_, err = eachOfLast(Path(stateDir, runID), tailWindow, func(data []byte) {
		if !bytes.Contains(data, []byte(agent.EventWorkEnd)) { // most lines need no decoding
			return
		}
		var e agent.Event
		if json.Unmarshal(data, &e) == nil && e.Name == agent.EventWorkEnd {
			end = &host.WorkEnd{}
			_ = json.Unmarshal(e.Raw, end) // as the worker wrote it
		}
	})
	return end, err
}

// notedWindow is how many bytes at the end of a log are searched for what Noted returns.
const notedWindow = 4 << 20

// Noted returns the hosts that the sandbox refused in a run, the oldest first, and what can't be
// done with its agent: Server.Limits.
func Noted(stateDir, runID string) (refused []agent.RefusedHost, limits string, err error) {
	_, err = eachOfLast(Path(stateDir, runID), notedWindow, func(data []byte) {
		isRefusal := bytes.Contains(data, []byte(agent.EventHostRefused)) // most lines need no decoding
		if !isRefusal && !bytes.Contains(data, []byte(agent.EventLimited)) {
			return
		}
		var e agent.Event
		if json.Unmarshal(data, &e) != nil {
			return
		}
		var host agent.RefusedHost
		switch e.Name {
		case agent.EventLimited:
			limits = e.Message
		case agent.EventHostRefused:
			if json.Unmarshal(e.Raw, &host) == nil {
				refused = append(refused, host)
			}
		}
	})
	return refused, limits, err
}

// ofThread reports whether a line of a log is about a thread. A line without a thread is about
// all of them.
func ofThread(data []byte, thread string) bool {
	var e struct {
		ThreadID string `json:"thread_id"`
	}
	return json.Unmarshal(data, &e) == nil && (thread == "" || e.ThreadID == "" || e.ThreadID == thread)
}

// kinds are the kinds of events that Last finds. A command counts as soon as it starts.
var kinds = map[string]func(agent.Event) bool{
	"prompt":  func(e agent.Event) bool { return e.Name == agent.EventPrompt },
	"command": func(e agent.Event) bool { return e.Item != nil && e.Item.Kind == agent.ItemCommand },
	"change":  func(e agent.Event) bool { return isEnded(e.Item, agent.ItemFileChange) },
	"message": func(e agent.Event) bool { return isEnded(e.Item, agent.ItemMessage) },
}

// isEnded reports whether an item is of a kind and has ended.
func isEnded(i *agent.Item, kind agent.ItemKind) bool { return i != nil && i.Kind == kind && i.Ended }

// Kinds are the kinds of events that Last finds.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

// Last returns the last event of a kind in the log of a run as it is stored, nil if there is
// none.
func Last(stateDir, runID, kind string) (last []byte, err error) {
	err = EachLine(stateDir, runID, func(line []byte) {
		var e agent.Event
		if json.Unmarshal(line, &e) == nil && kinds[kind](e) {
			last = line
		}
	})
	return last, err
}

// Follower reads a growing log, which is replaced by a new file when it is full.
type Follower struct {
	Path string
	file *os.File // nil until the log exists
	rest []byte   // a line without its end
}

// ReadPrevious shows the file, if any, that the current log replaced. It opens the current
// file first, so that a replacement in between loses no line.
func (f *Follower) ReadPrevious(path string, show func([]byte)) error {
	if err := f.open(); err != nil {
		return err
	}
	previous := Follower{Path: path}
	defer previous.Close()
	if err := previous.open(); err != nil || previous.file == nil {
		return err
	}
	same, err := f.stillAt(path)
	if same || err != nil {
		return err // replaced in between: Read shows it
	}
	_, err = eachLine(previous.file, show)
	return err
}

func (f *Follower) open() error {
	if f.file != nil {
		return nil
	}
	file, err := os.Open(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	f.file = file
	return nil
}

// stillAt reports whether the open file is still the file at the path.
func (f *Follower) stillAt(path string) (bool, error) {
	if f.file == nil {
		return false, nil
	}
	mine, err := f.file.Stat()
	if err != nil {
		return false, fmt.Errorf("log: %w", err)
	}
	there, err := os.Stat(path)
	if err != nil {
		return false, fmt.Errorf("log: %w", err)
	}
	return os.SameFile(mine, there), nil
}

// Read shows the lines that were written since the last call. It keeps a last line without an
// end.
func (f *Follower) Read(show func([]byte)) error {
	for {
		err := f.open()
		if err != nil || f.file == nil {
			return err
		}
		// Checked before reading: everything that was written to the old file is read below.
		same, err := f.stillAt(f.Path)
		isMoved := errors.Is(err, fs.ErrNotExist) // the new file is about to be created
		if err != nil && !isMoved {
			return err
		}
		f.rest, err = eachLine(io.MultiReader(bytes.NewReader(f.rest), f.file), show)
		if err != nil || same || isMoved {
			return err
		}
		f.Rest(show)
		f.Close()
	}
}

// Rest shows a last line without an end.
func (f *Follower) Rest(show func([]byte)) {
	if len(f.rest) > 0 {
		show(f.rest)
	}
	f.rest = nil
}

// Close closes the log. A later Read opens it again, from its beginning.
func (f *Follower) Close() {
	if f.file != nil {
		_ = f.file.Close() // it was only read
		f.file = nil
	}
}

// eachLine shows whole lines and returns a last line without an end.
func eachLine(r io.Reader, show func([]byte)) (rest []byte, err error) {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return line, nil
		}
		if err != nil {
			return nil, fmt.Errorf("log: %w", err)
		}
		show(bytes.TrimSuffix(line, []byte("\n")))
	}
}

// Turn is a turn of a run.
type Turn struct {
	Number    int
	At, Until time.Time // Until is zero if the log lacks the end of the turn
	// completed, failed, cancelled or ended; empty if the log lacks the end of the turn
	Result string
	Text   string // why it did not complete; may be empty
}

// turnsWindow is how many bytes at the end of a log are searched for turns.
const turnsWindow = 2 << 20

// turnResults are the events that end a turn.
var turnResults = map[string]string{
	agent.EventTurnCompleted:      "completed",
	agent.EventTurnFailed:         "failed",
	agent.EventTurnCancelled:      "cancelled",
	agent.EventTurnEndedWithError: "ended",
}

// Turns returns the turns in a run's log, the oldest first. Of a very long log it reads the
// end.
func Turns(stateDir string, run reconcile.Run) (list []Turn, err error) {
	_, err = eachOfLast(Path(stateDir, run.ID), turnsWindow, func(line []byte) {
		// The name of an event comes right after its time, so that most lines need no
		// decoding.
		if !bytes.Contains(line[:min(len(line), 100)], []byte(`"event":"turn_`)) {
			return
		}
		var e agent.Event
		if json.Unmarshal(line, &e) != nil {
			return
		}
		last := len(list) - 1
		result, ends := turnResults[e.Name]
		switch {
		case e.Name == agent.EventPrompt:
			var p agent.PromptEvent
			_ = json.Unmarshal(e.Raw, &p) // a payload that was cut lacks the number
			if p.Turn == 0 && last >= 0 {
				p.Turn = list[last].Number + 1
			}
			list = append(list, Turn{Number: max(p.Turn, 1), At: e.At})
		case ends && last >= 0 && list[last].Until.IsZero() && ofThread(line, run.ThreadID):
			list[last].Until = e.At
			list[last].Result = result
			if result != "completed" {
				list[last].Text = e.Message
			}
		}
	})
	return list, err
}
