package workspace

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// capture keeps the last bytes that come through a pipe. It can be finished while a process still holds the
// writing end. What comes later is read and discarded for as long as the worker lives, so that such a process neither gets
// SIGPIPE nor blocks.
type capture struct {
	in   *os.File // the writing end; started closes ours
	out  *os.File
	tail tail
	eof  bool
	done chan struct{}
}

func newCapture(limit int) (*capture, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c := &capture{in: in, out: out, tail: tail{limit: limit}, done: make(chan struct{})}
	go c.read()
	return c, nil
}

func (c *capture) read() {
	defer close(c.done)
	buf := make([]byte, 32<<10)
	for {
		n, err := c.out.Read(buf)
		c.tail.add(buf[:n])
		if err != nil {
			c.eof = !errors.Is(err, os.ErrDeadlineExceeded)
			return
		}
	}
}

// started closes our copy of the writing end, once the child has its own.
func (c *capture) started() { _ = c.in.Close() }

// finish gives all that was written before the call, as far as it is kept, and how many bytes went before.
func (c *capture) finish() (text []byte, lost int64) {
	_ = c.out.SetReadDeadline(time.Now()) // os.Pipe gives files that have deadlines
	<-c.done
	if !c.eof {
		c.drain()
	}
	text, lost = c.tail.text()
	if c.eof {
		_ = c.out.Close()
		return text, lost
	}
	go func() {
		_, _ = io.Copy(io.Discard, c.out)
		_ = c.out.Close()
	}()
	return text, lost
}

// drain takes what is in the pipe already, without waiting for more and not for ever: a child may be filling
// it. What was written before is within the first pipeful, and no pipe that we make holds more than this.
func (c *capture) drain() {
	const pipeful = 1 << 20
	if err := c.out.SetReadDeadline(time.Time{}); err != nil {
		return
	}
	raw, err := c.out.SyscallConn()
	if err != nil {
		return
	}
	buf := make([]byte, 32<<10)
	_ = raw.Read(func(fd uintptr) bool {
		for got := 0; got < pipeful; {
			n, err := unix.Read(int(fd), buf)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || n <= 0 {
				break
			}
			c.tail.add(buf[:n])
			got += n
		}
		return true
	})
}

// tail keeps the last limit bytes of what is added.
type tail struct {
	limit int
	buf   []byte
	total int64
}

func (t *tail) add(b []byte) {
	t.total += int64(len(b))
	t.buf = append(t.buf, b...)
	if len(t.buf) > 2*t.limit {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-t.limit:]...)
	}
}

// text gives what is kept and how much came before it.
func (t *tail) text() ([]byte, int64) {
	b := t.buf[max(0, len(t.buf)-t.limit):]
	return b, t.total - int64(len(b))
}
