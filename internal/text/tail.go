package text

import "bytes"

// Tail is a writer that keeps the end of what is written to it.
type Tail struct {
	Limit int // in bytes
	buf   []byte
	total int64
}

func (t *Tail) Write(b []byte) (int, error) {
	t.total += int64(len(b))
	t.buf = append(t.buf, b...)
	if len(t.buf) > 2*t.Limit {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-t.Limit-1:]...)
	}
	return len(b), nil
}

// Text returns at most the last Limit bytes, and how many came before them. It cuts at the end of a line, because the rest of a
// secret that was cut would not be recognised.
func (t *Tail) Text() ([]byte, int64) {
	b := t.buf
	if cut := len(b) - t.Limit; cut > 0 {
		end := bytes.IndexAny(b[cut-1:], "\r\n")
		if end < 0 {
			return nil, t.total
		}
		b = b[cut+end:]
	}
	return b, t.total - int64(len(b))
}
