package detail

import "bytes"

// Stat counts the lines of a diff that is written to it.
type Stat struct {
	Patch

	rest []byte // a line without an end
}

// Write implements io.Writer. It never fails.
func (s *Stat) Write(data []byte) (int, error) {
	s.rest = append(s.rest, data...)
	for {
		line, rest, whole := bytes.Cut(s.rest, []byte("\n"))
		if !whole {
			return len(data), nil
		}
		s.Line(string(line))
		s.rest = rest
	}
}
