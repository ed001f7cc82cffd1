// Package remote implements the port runner/host over a stream, for a machine on which another symphony serves it.
//
// A Client is at the side of the worker, a Server at that of the machine; it wraps another implementation of the port. The worker's calls
// and the answers to them are frames of a session, which outlives streams: each side keeps its frames until the other one has acknowledged
// them. After a broken stream both name the last frame that they have, and go on with the next one. So every frame arrives once and in
// order, and every call is carried out once. What a process writes is kept in files, and read by offsets.
//
//	Client ── hello ──► Server     who, for which run, and the last frame from there
//	       ◄─ welcome ─            the last frame from here, or why not
//	       ── frame ──►            a call, or the wish to end one
//	       ◄── frame ──            the answer to a call, in any order
package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// protocol is the version of the messages.
const protocol = 1

const (
	maxLine = 16 << 20       // bytes of a message
	maxBody = maxLine - 1024 // bytes of a frame's body
	maxText = 8 << 10        // bytes of an error's text
)

// Incarnation is one time that a run's work is given to a server, which refuses clients of others.
type Incarnation struct {
	RunID  string `json:"run_id"`
	Number int64  `json:"incarnation"` // grows with each one
	// Secret is known to the worker and the server, so that no program of the run can take the place of the worker.
	Secret string `json:"secret"`
}

// hello is the first message of a client.
type hello struct {
	Protocol int `json:"protocol"`
	Incarnation
	// Client is random. A server serves the newest one.
	Client   string `json:"client"`
	Received int64  `json:"received"` // the last frame of the server
}

// welcome is the first message of a server. With a fault it does not serve the client.
type welcome struct {
	Protocol int    `json:"protocol"`
	Received int64  `json:"received"` // the last frame of the client
	Fault    *fault `json:"fault,omitempty"`
}

// frame is every later message. Without a number it is a sign of life.
type frame struct {
	Number   int64           `json:"n,omitempty"`
	Received int64           `json:"received"` // the last frame of the other side
	Body     json.RawMessage `json:"body,omitempty"`
}

// request is what a client sends: a call, or the wish to end one.
type request struct {
	Call   int64           `json:"call,omitempty"`
	Method string          `json:"method,omitempty"`
	With   json.RawMessage `json:"with,omitempty"`
	Cancel int64           `json:"cancel,omitempty"`
}

// answer is what a server sends.
type answer struct {
	Call   int64           `json:"call"`
	Result json.RawMessage `json:"result,omitempty"`
	Fault  *fault          `json:"fault,omitempty"`
}

// fault is the part of an error that reaches the other machine.
type fault struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Is names the sentinels that the error wraps.
	Is []string `json:"is,omitempty"`
}

// sentinels are errors that callers of the port look for.
var sentinels = map[string]error{
	"canceled": context.Canceled, "timed_out": context.DeadlineExceeded, "process_done": os.ErrProcessDone, "not_exist": os.ErrNotExist,
	"closed": os.ErrClosed, "not_started": host.ErrNotStarted,
}

func newFault(err error) *fault {
	if err == nil {
		return nil
	}
	f := &fault{Message: err.Error()}
	if known, ok := errors.AsType[*reconcile.Error](host.WithCode(err)); ok {
		f.Code, f.Message, f.Hint = known.Code, known.Message, known.Hint
	}
	f.Is = text.Filter(slices.Sorted(maps.Keys(sentinels)), func(name string) bool { return errors.Is(err, sentinels[name]) })
	return f
}

// err returns the error of a fault, nil for none. Its texts can be printed, whatever the other machine has sent.
func (f *fault) err() error {
	if f == nil {
		return nil
	}
	e := &foreignError{message: printable(f.Message)}
	for _, name := range f.Is[:min(len(f.Is), len(sentinels))] {
		if sentinel := sentinels[name]; sentinel != nil {
			e.wrapped = append(e.wrapped, sentinel)
		}
	}
	if f.Code != "" {
		return &reconcile.Error{Code: printable(f.Code), Message: e.message, Hint: printable(f.Hint), Err: e}
	}
	return e
}

func printable(s string) string { return text.Visible(s[:min(len(s), maxText)]) }

// foreignError is an error of the other machine.
type foreignError struct {
	message string
	wrapped []error // sentinels
}

func (e *foreignError) Error() string   { return e.message }
func (e *foreignError) Unwrap() []error { return e.wrapped }

// writeLine writes a message.
func writeLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = w.Write(append(line, '\n'))
	}
	return err
}

// lines reads messages.
type lines struct{ scanner *bufio.Scanner }

func newLines(r io.Reader) lines {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	return lines{s}
}

// next decodes the next message. The error is io.EOF at the end.
func (l lines) next(v any) error {
	if !l.scanner.Scan() {
		if err := l.scanner.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	return json.Unmarshal(l.scanner.Bytes(), v)
}
