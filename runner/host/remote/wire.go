// Package remote implements the port runner/host over a stream, for a machine on which another symphony serves it.
//
// A Client has the side of the worker, a Server that of the machine; it wraps another implementation of the port. Both send lines of JSON.
// The worker numbers its calls. If the stream breaks, the client connects again and repeats the calls that it has no answer to. The server
// carries out each number once, and keeps the answer until the client has it. What a process writes is kept in files, and read by offsets.
//
//	Client ── hello ──► Server     which run, and which calls have no answer yet
//	       ◄─ welcome ─            or why not
//	       ── call n ─►
//	       ◄─ answer n             in any order
//	       ── forget n ─►
package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// protocol is the version of the messages.
const protocol = 1

// maxLine bounds a message in bytes.
const maxLine = 16 << 20

// hello is the first message of a client.
type hello struct {
	Protocol int    `json:"protocol"`
	RunID    string `json:"run_id"`
	// Incarnation grows each time that a run's work is given to a server. A server refuses clients of other ones.
	Incarnation int64 `json:"incarnation"`
	// Unanswered are the calls that the client repeats. The server forgets its answers to others.
	Unanswered []int64 `json:"unanswered,omitempty"`
}

// welcome is the first message of a server. With a fault the server serves other clients, but not this one.
type welcome struct {
	Protocol int    `json:"protocol"`
	Fault    *fault `json:"fault,omitempty"`
}

// message is what a client sends next: a call, the end of the wait for one, an answer that it has, or, without a number, a sign of life.
type message struct {
	Call   int64           `json:"call,omitempty"`
	Method string          `json:"method,omitempty"`
	With   json.RawMessage `json:"with,omitempty"`
	Cancel int64           `json:"cancel,omitempty"`
	Forget int64           `json:"forget,omitempty"`
}

// answer is what a server sends next. Without a number it is a sign of life.
type answer struct {
	Call   int64           `json:"call,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Fault  *fault          `json:"fault,omitempty"`
}

// fault is the part of an error that reaches the other machine.
type fault struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Is names the error of sentinels that it wraps.
	Is string `json:"is,omitempty"`
}

// sentinels are errors that callers of the port look for.
var sentinels = map[string]error{
	"canceled": context.Canceled, "timed_out": context.DeadlineExceeded, "process_done": os.ErrProcessDone, "not_exist": os.ErrNotExist,
	"closed": os.ErrClosed, "not_started": host.ErrNotStarted, "eof": io.EOF,
}

func newFault(err error) *fault {
	if err == nil {
		return nil
	}
	f := &fault{Message: err.Error()}
	var known *reconcile.Error
	if errors.As(host.WithCode(err), &known) {
		f.Code, f.Message, f.Hint = known.Code, known.Message, known.Hint
	}
	for name, sentinel := range sentinels {
		if errors.Is(err, sentinel) {
			f.Is = name
		}
	}
	return f
}

// err returns the error of a fault, nil for none.
func (f *fault) err() error {
	if f == nil {
		return nil
	}
	sentinel := sentinels[f.Is]
	switch {
	case f.Code != "":
		return &reconcile.Error{Code: f.Code, Message: f.Message, Hint: f.Hint, Err: sentinel}
	case sentinel == nil:
		return errors.New(f.Message)
	}
	return &foreignError{f.Message, sentinel}
}

// foreignError is an error of the other machine that wraps a sentinel.
type foreignError struct {
	message  string
	sentinel error
}

func (e *foreignError) Error() string { return e.message }
func (e *foreignError) Unwrap() error { return e.sentinel }

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
