package wire

import (
	"bufio"
	"bytes"
	"sync"

	"github.com/charmbracelet/x/ansi"
)

// noise is the agent's output on its stdout beside messages: the title of a terminal's window,
// the notice of an update, or the question whether to install it. Noise before a message on
// its line is skipped. If no message comes, it tells why.
type noise struct {
	// only the reader uses these
	heard  bool // a message came
	looked int  // bytes of an incomplete line that are known to have no line break

	mu sync.Mutex
	// the latest noise, without the sequences that control a terminal; "" after the first
	// message
	last string
}

// split splits the stream into lines. A question ends without a line break, so that split also
// notes a line that is not complete.
func (n *noise) split(data []byte, atEOF bool) (advance int, token []byte, err error) {
	isComplete := bytes.IndexByte(data[min(n.looked, len(data)):], '\n') >= 0
	n.looked = len(data)
	if isComplete || atEOF {
		n.looked = 0
	}
	if !isComplete && !atEOF && n.heard {
		return 0, nil, nil // a line of 64 MiB comes in a thousand pieces: look at each once
	}
	advance, token, err = bufio.ScanLines(data, atEOF)
	if advance == 0 && !n.heard {
		n.note(data)
	}
	return advance, token, err
}

const (
	mostNoise       = 4 << 10 // bytes of a line that are kept
	longestSequence = 256     // bytes that control a terminal
)

// note keeps the end of a line of noise, unless nothing of it is visible.
func (n *noise) note(line []byte) {
	start := max(0, len(line)-mostNoise)
	before := max(0, start-longestSequence)
	if sequence := bytes.LastIndexByte(line[before:start], ansi.ESC); sequence >= 0 {
		start = before + sequence // it may reach over the start, and could not be removed in part
	}
	line = line[start:]
	visible := Short(ansi.Strip(string(line)), MessageLength)
	if visible == "" {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last = visible
}

// said returns the text that the agent wrote in place of its first message, "" if a message
// came.
func (n *noise) said() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last
}

// skip returns the message of a line without the noise in front of it. A line without a
// message stays as it is.
func (n *noise) skip(m *Message) *Message {
	if !m.IsMessage() && bytes.ContainsRune(m.Raw, ansi.ESC) {
		m = firstMessage(m, []byte(ansi.Strip(string(m.Raw))))
	}
	if n.heard {
		return m
	}
	if start := bytes.Index(m.Raw, []byte(`{"`)); !m.IsMessage() && start > 0 {
		m = firstMessage(m, m.Raw[start:])
	}
	if !m.IsMessage() {
		n.note(m.Raw)
		return m
	}
	n.heard = true
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last = ""
	return m
}

// firstMessage returns the message in a part of a line, or else the line itself.
func firstMessage(line *Message, part []byte) *Message {
	part = bytes.TrimSpace(part)
	if len(part) == 0 {
		return line
	}
	if m := ReadMessage(part); m.IsMessage() {
		return m
	}
	return line
}
