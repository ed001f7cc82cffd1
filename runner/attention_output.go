package runner

import (
	"os"
	"time"
)

// lastBytes keeps the end of what comes through a pipe.
type lastBytes struct {
	pipe  *os.File
	limit int
	buf   []byte
	done  chan struct{}
}

// newLastBytes reads from pipe, which is closed by finish.
func newLastBytes(pipe *os.File, limit int) *lastBytes {
	l := &lastBytes{pipe: pipe, limit: limit, done: make(chan struct{})}
	go l.read()
	return l
}

func (l *lastBytes) read() {
	defer close(l.done)
	chunk := make([]byte, 32<<10)
	for {
		n, err := l.pipe.Read(chunk)
		l.buf = append(l.buf, chunk[:n]...)
		if len(l.buf) > 2*l.limit {
			l.buf = append(l.buf[:0], l.buf[len(l.buf)-l.limit:]...)
		}
		if err != nil {
			return
		}
	}
}

// outputPatience is how long finish waits for somebody who still holds the other end, and is about to be ended.
const outputPatience = 100 * time.Millisecond

// finish returns what is kept once nobody writes any more.
func (l *lastBytes) finish() []byte {
	if err := l.pipe.SetReadDeadline(time.Now().Add(outputPatience)); err == nil {
		<-l.done
	}
	l.pipe.Close() // which ends the reading in any case
	<-l.done
	return l.buf[max(0, len(l.buf)-l.limit):]
}
