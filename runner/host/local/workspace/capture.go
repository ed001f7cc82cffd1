package workspace

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// capture keeps the last bytes that come through a pipe. It can be finished while a process still holds the
// writing end. What comes later is read and discarded for as long as the worker lives, so that such a process neither gets
// SIGPIPE nor blocks.
type capture struct {
	in, out *os.File
	tail    files.Tail
	done    chan struct{}
}

func newCapture(limit int) (*capture, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c := &capture{in: in, out: out, tail: files.Tail{Limit: limit}, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		_, _ = io.Copy(&c.tail, c.out) // to the end, or until finish stops it
	}()
	return c, nil
}

// started closes our copy of the writing end, once the child has its own.
func (c *capture) started() { _ = c.in.Close() }

// finish gives all that was written before the call, as far as it is kept, and how many bytes went before.
func (c *capture) finish() (text []byte, lost int64) {
	_ = c.out.SetReadDeadline(time.Now()) // os.Pipe gives files that have deadlines
	<-c.done
	_ = c.out.SetReadDeadline(time.Time{})
	c.drain()
	text, lost = c.tail.Text()
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
			_, _ = c.tail.Write(buf[:n])
			got += n
		}
		return true
	})
}
