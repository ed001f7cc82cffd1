package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host"
)

const (
	stderrKept = 16 << 10
	// drainWait is how long Run reads on after the end of the program's processes, in case one that it could not find has a pipe.
	drainWait = 2 * time.Second
)

// Output is what a program has written, and how it ended.
type Output struct {
	Stdout []byte // at most one byte more than the limit
	Stderr []byte // the last 16 KiB
	Exit   host.Exit
}

// Run runs a program in a new process group until it ends, until ctx ends, or until it has written more than limit bytes to its standard
// output. Then Run ends all of its processes, also those in other groups and sessions, and returns what was written before. The error is
// that of the start, or of ctx. If this process is killed, Linux kills the program, too, but none that it has started.
func Run(ctx context.Context, r host.StartRequest, stdin []byte, limit int) (out Output, err error) {
	tree, err := os.CreateTemp("", "symphony-")
	if err != nil {
		return out, fmt.Errorf("start %s: %w", r.Argv[0], err)
	}
	defer tree.Close()
	if err := os.Remove(tree.Name()); err != nil {
		return out, fmt.Errorf("start %s: %w", r.Argv[0], err)
	}
	c, err := startChild(r, nil, tree, killedWithParent)
	if err != nil {
		return out, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	tail := &text.Tail{Limit: stderrKept}
	var reads sync.WaitGroup
	go func() {
		_, _ = c.Stdin().Write(stdin) // fails if the program does not read it
		_ = c.Stdin().Close()
	}()
	reads.Go(func() {
		out.Stdout, _ = io.ReadAll(io.LimitReader(c.Stdout(), int64(limit)+1))
		if len(out.Stdout) > limit {
			stop()
		}
	})
	reads.Go(func() { _, _ = io.Copy(tail, c.Stderr()) })
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		reads.Wait()
	}()
	if c.Wait(running) != nil {
		endGroup(c.process.PID, groupGrace)
	}
	_, err = Kill(context.WithoutCancel(ctx), Owner{Tree: tree.Name()}, groupGrace)
	_ = c.SignalGroup(unix.SIGKILL) // fails if the group is empty
	select {
	case <-drained:
	case <-time.After(drainWait):
	}
	var closeErr error
	out.Exit, closeErr = c.Close()
	<-drained
	out.Stderr, _ = tail.Text()
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	return out, errors.Join(err, closeErr)
}
