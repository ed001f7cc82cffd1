package wire

import (
	"bufio"
	"bytes"
	"sync"

	"github.com/charmbracelet/x/ansi"
)

// noise is the agent's output on its stdout in place of its first message, such as the question
// whether to install an update. If no message comes, it tells why.
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

const mostNoise = 4 << 10 // bytes of a line that are kept

// note keeps the end of a line of noise, unless nothing of it is visible.
func (n *noise) note(line []byte) {
	line = line[max(0, len(line)-mostNoise):]
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

// look notes a line before the first message.
func (n *noise) look(m *Message) {
	if n.heard {
		return
	}
	if !m.IsMessage() {
		n.note(m.Raw)
		return
	}
	n.heard = true
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last = ""
}
