package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// children are the processes that a server has started, by the numbers that its client knows them by.
type children struct {
	dir string

	mu   sync.Mutex
	last int64
	all  map[int64]*child
}

// child is a process and what it has written so far.
type child struct {
	host.Process
	outputs [2]*output // stdout and stderr

	mu      sync.Mutex // held while its stdin is written
	written int64      // bytes of its stdin
}

// The parameters and results of the calls about a process.
type (
	started struct {
		Child   int64             `json:"child"`
		Process reconcile.Process `json:"process"`
	}
	childCall struct {
		Child int64 `json:"child"`
	}
	threadCall struct {
		childCall
		ThreadID string `json:"thread_id"`
	}
	signalCall struct {
		childCall
		Signal unix.Signal `json:"signal"`
	}
	// readCall asks for what a process has written from an offset on. The call waits until there is something.
	readCall struct {
		childCall
		Stream int   `json:"stream"` // the index in child.outputs
		Offset int64 `json:"offset"`
		Max    int   `json:"max"`
	}
	// readResult is empty at the end of the stream.
	readResult struct {
		Data []byte `json:"data"`
	}
	// writeCall writes the stdin of a process. Offset is the number of bytes before Data.
	writeCall struct {
		childCall
		Offset int64  `json:"offset"`
		Data   []byte `json:"data"`
	}
)

// start starts a process and begins to keep what it writes.
func (c *children) start(ctx context.Context, run host.Run, r host.StartRequest) (started, error) {
	c.mu.Lock()
	c.last++
	n := c.last
	c.mu.Unlock()
	made := &child{}
	for i := range made.outputs {
		var err error
		if made.outputs[i], err = newOutput(filepath.Join(c.dir, fmt.Sprintf("output-%d-%d", n, i))); err != nil {
			return started{}, errors.Join(err, made.closeOutputs())
		}
	}
	p, err := run.Start(ctx, r)
	if err != nil {
		return started{}, errors.Join(err, made.closeOutputs())
	}
	made.Process = p
	go made.outputs[0].copy(p.Stdout())
	go made.outputs[1].copy(p.Stderr())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[n] = made
	return started{n, p.Process()}, nil
}

// find returns a process that was not closed.
func (c *children) find(n int64) (*child, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.all[n]; p != nil {
		return p, nil
	}
	return nil, os.ErrProcessDone
}

// end closes a process and deletes what it has written.
func (c *children) end(n int64) (host.Exit, error) {
	p, err := c.find(n)
	if err != nil {
		return host.Exit{Code: -1}, err
	}
	exit, err := p.Close()
	c.mu.Lock()
	delete(c.all, n)
	c.mu.Unlock()
	return exit, errors.Join(err, p.closeOutputs())
}

// close closes all processes.
func (c *children) close() (err error) {
	c.mu.Lock()
	var left []int64
	for n := range c.all {
		left = append(left, n)
	}
	c.mu.Unlock()
	for _, n := range left {
		_, endErr := c.end(n)
		err = errors.Join(err, endErr)
	}
	return err
}

func (p *child) closeOutputs() (err error) {
	for _, o := range p.outputs {
		if o != nil {
			err = errors.Join(err, o.close())
		}
	}
	return err
}

// write writes what the process's stdin does not have yet.
func (p *child) write(w writeCall) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.written - w.Offset
	if known < 0 {
		return fmt.Errorf("stdin of process %d: %d bytes are missing", p.Process.Process().PID, -known)
	}
	if known >= int64(len(w.Data)) {
		return nil
	}
	n, err := p.Stdin().Write(w.Data[known:])
	p.written += int64(n)
	return err
}

// output is one stream of a process, kept in a file.
type output struct {
	file *os.File

	mu      sync.Mutex
	size    int64
	err     error         // why nothing more comes: io.EOF, or what copying met
	changed chan struct{} // closed at the next change
}

func newOutput(path string) (*output, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return &output{file: file, changed: make(chan struct{})}, nil
}

// copy keeps what r delivers. It reads on after the disk is full, so that the process never blocks.
func (o *output) copy(r io.Reader) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := r.Read(buffer)
		o.mu.Lock()
		if n > 0 && o.err == nil {
			var kept int
			kept, o.err = o.file.Write(buffer[:n])
			o.size += int64(kept)
		}
		if err != nil && o.err == nil {
			o.err = io.EOF
		}
		close(o.changed)
		o.changed = make(chan struct{})
		o.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// read returns at most limit bytes from an offset on. It waits until there is a byte, and returns none at the end.
func (o *output) read(ctx context.Context, offset int64, limit int) ([]byte, error) {
	for {
		o.mu.Lock()
		size, err, changed := o.size, o.err, o.changed
		o.mu.Unlock()
		switch {
		case offset < size:
			data := make([]byte, min(size-offset, int64(limit), maxRead))
			n, err := o.file.ReadAt(data, offset)
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return data[:n], err
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return nil, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// maxRead bounds the bytes of one read or write.
const maxRead = 256 << 10

// close deletes the file. Reads that wait end.
func (o *output) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = io.EOF
	}
	close(o.changed)
	o.changed = make(chan struct{})
	return errors.Join(o.file.Close(), os.Remove(o.file.Name()))
}
