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

// Output runs a program, and returns what it has written to its two streams when it ends. Processes that
// it leaves behind may keep them open, as ssh and the keyring of gh do: nothing waits for them, however
// busy the machine is.
func Output(cmd *exec.Cmd) (stdout, stderr string, err error) {
	out, err := NewCapture(maxOutput)
	if err != nil {
		return "", "", err
	}
	said, err := NewCapture(maxOutput)
	if err != nil {
		_ = out.In.Close()
		out.Finish()
		return "", "", err
	}
	cmd.Stdout = out.In
	cmd.Stderr = said.In
	err = cmd.Start()
	_ = out.In.Close()
	_ = said.In.Close()
	if err == nil {
		err = cmd.Wait()
	}
	answer, _ := out.Finish()
	complaint, _ := said.Finish()
	return string(answer), string(complaint), err
}

// Capture keeps the last bytes that are written to a pipe. It can be finished while a process
// still holds the writing end open. Later output is read and discarded for as long as the
// worker lives, so that such a process neither gets SIGPIPE nor blocks.
type Capture struct {
	In   *os.File // the writing end, which the caller closes
	out  *os.File
	tail text.Tail
	done chan struct{}
}

// NewCapture returns a capture that keeps so many bytes.
func NewCapture(limit int) (*Capture, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c := &Capture{In: in, out: out, tail: text.Tail{Limit: limit}, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		_, _ = io.Copy(&c.tail, c.out) // until the end of the output, or until Finish stops it
	}()
	return c, nil
}

// Finish returns the kept part of the output before the call, and how many bytes came before
// it.
func (c *Capture) Finish() (text []byte, lost int64) {
	_ = c.out.SetReadDeadline(time.Now()) // files of os.Pipe support deadlines
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
			_, _ = c.tail.Write(buf[:n])
			got += n
		}
		return true
	})
}
