package codex

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// JSON-RPC's code for a method that is not known.
const codeMethodNotFound = -32601

// message is any line of the stream. Kinds are told apart by the presence of
// method, never by the id: both sides number from their own start, and 0 is an
// id like any other.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *wireError      `json:"error"`

	raw json.RawMessage
}

// read decodes a line. As in params.read a member of another type than expected does not hinder the others: a request
// is answered and an error is one, whatever else its line holds.
func (m *message) read(line []byte) bool {
	if !json.Valid(line) {
		return false
	}
	lenient(line, m)
	return true
}

func (m *message) hasID() bool { return len(m.ID) > 0 && !bytes.Equal(m.ID, []byte("null")) }

// maxLine bounds one line (bytes). codex's own are a few megabytes at most; a
// program that never ends its line must not fill the machine.
const maxLine = 256 << 20

var errLineTooLong = errors.New("line too long")

// readLine gives the next line without its end. A last line without an end is
// given as well, the error comes with the next call.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	tooLong := false
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			tooLong, line = true, nil
		}
		if !tooLong {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case tooLong && err == nil:
			return nil, errLineTooLong
		case err != nil && len(line) == 0:
			return nil, err
		}
		// A half line at the end is judged like any other; io.EOF comes next.
		return bytes.TrimRight(line, "\r\n"), nil
	}
}

// read is the reader goroutine: every line once, in order, until stdout ends.
func (s *Session) read() {
	r := bufio.NewReaderSize(s.in, 64<<10)
	for {
		line, err := readLine(r)
		switch {
		case errors.Is(err, errLineTooLong):
			s.touch(false)
			s.emit(Event{Name: EventMalformed, Message: fmt.Sprintf("a line of more than %d bytes", maxLine)})
			continue
		case err != nil:
			s.end(err)
			return
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			s.handle(line)
		}
	}
}

// handle takes one line.
func (s *Session) handle(line []byte) {
	m := &message{raw: line}
	if line[0] != '{' || !m.read(line) {
		s.touch(false)
		s.emit(Event{Name: EventMalformed, Message: oneLine(string(line), messageLength), Raw: rawOrNil(line)})
		return
	}
	switch {
	case m.Method != "" && m.hasID():
		s.touch(true)
		s.serve(m)
	case m.Method != "":
		s.notice(m)
	case m.hasID() && (m.Result != nil || m.Error != nil):
		s.touch(false)
		s.answered(m)
	default:
		s.touch(false)
		s.emit(Event{Name: EventOtherMessage, Message: oneLine(string(line), messageLength), Raw: line})
	}
}

// rawOrNil keeps Raw a legal JSON value, so that an event can be marshalled.
func rawOrNil(line []byte) json.RawMessage {
	if json.Valid(line) {
		return line
	}
	return nil
}

// encode gives v as a line. HTML escaping is off: prompts hold < and &, and
// the transcript is read by people.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil // Encode ends the line
}

// post sends anything that needs no answer.
func (s *Session) post(v any) error {
	line, err := encode(v)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	if err := s.out.send(line); err != nil {
		if errors.Is(err, io.ErrClosedPipe) {
			return &Error{Code: CodePortExit, Message: "the session was closed"}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.err != nil {
			return s.err
		}
		return &Error{Code: CodeResponseTimeout, Message: err.Error()}
	}
	return nil
}
