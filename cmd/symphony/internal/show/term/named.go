package term

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
)

// Named returns an environment that prints name before each line, except for JSON and logs,
// which have it as a value. out is locked while a line is printed, so that several projects
// can share the streams.
func (w *Env) Named(name string, out *sync.Mutex) *Env {
	own := *w
	own.Stdout = &namedLines{out: w.Stdout, name: name + ": ", mu: out}
	if w.JSON {
		own.Stdout = &namedLines{out: w.Stdout, mu: out}
	}
	own.Stderr = &namedLines{out: w.Stderr, name: name + ": ", mu: out}
	if w.Log != nil {
		own.Log = w.Log.With(slog.String("project", name))
	}
	return &own
}

// namedLines prints a name before each line.
type namedLines struct {
	out  io.Writer
	name string
	mu   *sync.Mutex
	rest []byte // of a line without an end yet
}

// Write implements io.Writer.
func (n *namedLines) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rest = append(n.rest, b...)
	var lines []byte
	for {
		line, rest, ended := bytes.Cut(n.rest, []byte("\n"))
		if !ended {
			break
		}
		n.rest = rest
		lines = append(lines, n.withName(line)...)
	}
	if len(lines) == 0 {
		return len(b), nil
	}
	_, err := n.out.Write(lines)
	return len(b), err
}

// withName returns a line with the name before it. A priority of the journal, such as "<4>",
// stays at the beginning.
func (n *namedLines) withName(line []byte) []byte {
	priority := ""
	if len(line) > 3 && line[0] == '<' && line[2] == '>' && n.name != "" {
		priority = string(line[:3])
		line = line[3:]
	}
	return []byte(priority + n.name + string(line) + "\n")
}
