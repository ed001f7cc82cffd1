package proc

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/text"
)

// maxOutput is how many bytes at the end of each stream Output keeps.
const maxOutput = 1 << 20

// Output runs a program, and returns what it has written to its two streams when it ends.
func Output(cmd *exec.Cmd) (stdout, stderr string, err error) {
	out := &text.Tail{Limit: maxOutput}
	said := &text.Tail{Limit: maxOutput}
	cmd.Stdout = out
	cmd.Stderr = said
	err = RunWithin(cmd, 0)
	answer, _ := out.Text()
	complaint, _ := said.Text()
	return string(answer), string(complaint), err
}

// Capture passes on what is written to a pipe. It can be finished while a process still holds the
// writing end open. Later output is read and discarded for as long as the worker lives, so that such a
// process neither gets SIGPIPE nor blocks.
type Capture struct {
	In   *os.File // the writing end, which the caller closes
	out  *os.File
	to   io.Writer
	done chan struct{}
}

// NewCapture returns a capture that passes on to a writer. If the writer fails, whoever writes to the pipe
// gets SIGPIPE.
func NewCapture(to io.Writer) (*Capture, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c := &Capture{In: in, out: out, to: to, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		_, err := io.Copy(c.to, c.out) // until the end of the output, or until Finish stops it
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			_ = c.out.Close()
		}
	}()
	return c, nil
}

// Finish returns when all that was written before the call is passed on.
func (c *Capture) Finish() {
	_ = c.out.SetReadDeadline(time.Now()) // files of os.Pipe support deadlines
	<-c.done
	_ = c.out.SetReadDeadline(time.Time{})
	c.drain()
	go func() {
		_, _ = io.Copy(io.Discard, c.out)
		_ = c.out.Close()
	}()
}

// drain reads the bytes already in the pipe, without waiting for more. It stops after a
// pipeful, because a child may still be writing: everything written before is in the first
// pipeful, and no pipe contains more than 1 MiB.
func (c *Capture) drain() {
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
			_, _ = c.to.Write(buf[:n])
			got += n
		}
		return true
	})
}
