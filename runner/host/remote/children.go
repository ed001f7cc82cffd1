package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// children are the processes that a server started, by the numbers that its client knows them
// by.
type children struct {
	mu     sync.Mutex
	last   int64
	all    map[int64]*child
	closed bool
}

// child is a process and its output so far.
type child struct {
	host.Process
	outputs [2]*output // stdout and stderr
}

// The parameters and results of the calls about a process.
type (
	started struct {
		Child   int64             `json:"child"`
		Process reconcile.Process `json:"process"`
	}
	childCall struct {
		Child    int64       `json:"child"`
		ThreadID string      `json:"thread_id,omitempty"` // of KillThread
		Signal   unix.Signal `json:"signal,omitempty"`    // of SignalGroup
		Data     []byte      `json:"data,omitempty"`      // of Write
		// Read asks for at most Max bytes of a process's output from an offset on. It waits
		// until there is something.
		Stream int   `json:"stream,omitempty"` // the index in child.outputs
		Offset int64 `json:"offset,omitempty"`
		Max    int   `json:"max,omitempty"`
	}
	// readResult is empty at the end of the stream.
	readResult struct {
		Data []byte `json:"data"`
	}
)

// start starts a process and begins to keep its output.
func (c *children) start(ctx context.Context, run host.Run, r host.StartRequest) (started, error) {
	c.mu.Lock()
	c.last++
	n := c.last
	c.mu.Unlock()
	process, err := run.Start(ctx, r)
	if err != nil {
		return started{}, err
	}
	made := &child{Process: process, outputs: [2]*output{newOutput(), newOutput()}}
	go made.outputs[0].copy(made.Stdout())
	go made.outputs[1].copy(made.Stderr())
	c.mu.Lock()
	c.all[n] = made
	closed := c.closed
	c.mu.Unlock()
	if closed || ctx.Err() != nil { // its client will not know of it
		_, err := c.closeChild(n)
		return started{}, errors.Join(context.Canceled, err)
	}
	return started{n, made.Process.Process()}, nil
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

// closeChild closes a process and its output.
func (c *children) closeChild(n int64) (host.Exit, error) {
	p, err := c.find(n)
	if err != nil {
		return host.Exit{Code: -1}, err
	}
	exit, err := p.Close()
	c.mu.Lock()
	delete(c.all, n)
	c.mu.Unlock()
	for _, o := range p.outputs {
		o.close()
	}
	return exit, err
}

// eofGrace is how long processes may take to end after the end of their stdin.
const eofGrace = 10 * time.Second

// sendEOF closes the stdin of all processes and waits for their end.
func (c *children) sendEOF(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, eofGrace)
	defer cancel()
	c.mu.Lock()
	all := slices.Collect(maps.Values(c.all))
	c.mu.Unlock()
	for _, p := range all {
		_ = p.Stdin().Close() // a process that does not end by this is killed
	}
	for _, p := range all {
		_ = p.Wait(ctx)
	}
}

// close closes all processes.
func (c *children) close() (err error) {
	c.mu.Lock()
	c.closed = true
	left := slices.Collect(maps.Keys(c.all))
	c.mu.Unlock()
	for _, n := range left {
		_, closeErr := c.closeChild(n)
		err = errors.Join(err, closeErr)
	}
	return err
}

// output is an output stream of a process, kept until the client has read it.
type output struct {
	mu      sync.Mutex
	kept    []byte
	begin   int64         // the offset of its first byte: the client has read everything before it
	err     error         // why nothing more comes: io.EOF, or an error of the copying
	changed chan struct{} // closed at the next change
}

const (
	maxRead = 256 << 10 // bytes of a read or write
	// bytes that a process may be ahead of its reader; then it waits, as for a full pipe
	maxKept = 32 << 20
)

func newOutput() *output { return &output{changed: make(chan struct{})} }

// notify wakes all that wait for a change. o.mu is held.
func (o *output) notify() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// copy keeps everything from r.
func (o *output) copy(r io.Reader) {
	buffer := make([]byte, 64<<10)
	for {
		o.awaitRoom()
		n, err := r.Read(buffer)
		if errors.Is(err, fs.ErrClosed) {
			err = io.EOF
		}
		o.mu.Lock()
		if o.err == nil {
			o.kept = append(o.kept, buffer[:n]...)
			o.err = err
		}
		o.notify()
		o.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// awaitRoom waits until the reader is less than maxKept behind.
func (o *output) awaitRoom() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.kept) >= maxKept && o.err == nil {
		changed := o.changed
		o.mu.Unlock()
		<-changed
		o.mu.Lock()
	}
}

// next returns at most limit bytes from an offset on. It waits until there is a byte, and
// returns none at the end. The client already read everything before the offset.
func (o *output) next(ctx context.Context, offset int64, limit int) ([]byte, error) {
	if limit <= 0 {
		return nil, fmt.Errorf("a read of %d bytes", limit)
	}
	for {
		data, changed, err := o.look(offset, limit)
		if len(data) > 0 || err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return data, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// look returns the bytes from an offset on, or a channel that is closed when there are more.
func (o *output) look(offset int64, limit int) (data []byte, changed <-chan struct{}, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	read := offset - o.begin
	if read < 0 || read > int64(len(o.kept)) {
		return nil, nil, fmt.Errorf("no output at %d: there are %d bytes from %d on", offset, len(o.kept), o.begin)
	}
	if read > 0 {
		o.kept = o.kept[read:]
		o.begin = offset
		o.notify()
	}
	if len(o.kept) == 0 {
		return nil, o.changed, o.err
	}
	n := min(len(o.kept), limit, maxRead)
	return o.kept[:n:n], nil, nil
}

// close ends the reads that wait.
func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = io.EOF
	}
	o.notify()
}
