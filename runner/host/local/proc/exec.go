package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
)

// closeWait is how long Close waits for a killed child.
const closeWait = 5 * time.Second

// Exec is an agent or a hook to start (design 7 and 9).
type Exec struct {
	// Argv is the command; a name without a slash is looked up in PATH.
	Argv []string
	// Env is its whole environment; nil is an empty one.
	Env []string
	// Dir is its working directory.
	Dir string
	// A nil Stdin is /dev/null, or a pipe if PipeStdin is set. A nil Stdout or Stderr is a pipe that the caller reads.
	// The caller keeps its own files.
	Stdin, Stdout, Stderr *os.File
	PipeStdin             bool
	// Lease is inherited as descriptor 3, so that its lock is held as long as the child lives; may be nil.
	Lease *os.File
	// Tree is inherited as TreeFD, so that all descendants of the child are known by it; may be nil.
	Tree *os.File
}

// Child is a started process, the leader of a process group of its own. Close must be called.
type Child struct {
	// Stdin is the writing end, Stdout and Stderr are the reading ends of the pipes; nil where Exec asked for none. Close
	// closes them.
	Stdin          io.WriteCloser
	Stdout, Stderr io.ReadCloser

	cmd   *exec.Cmd
	watch *exitWatch

	mu     sync.Mutex
	reaped bool
	state  *os.ProcessState
	err    error
}

// Start starts the command in a process group of its own. It inherits its three streams, the lease and the tree file,
// nothing else. A command that does not exist is exec.ErrNotFound or fs.ErrNotExist.
func (x Exec) Start() (*Child, error) {
	if len(x.Argv) == 0 {
		return nil, errors.New("start: no command")
	}
	c := &Child{cmd: exec.Command(x.Argv[0], x.Argv[1:]...)} //nolint:noctx // KillTree ends it, with all that it started
	err := c.start(x)
	if err != nil {
		c.closePipes()
		return nil, fmt.Errorf("start %s: %w", x.Argv[0], err)
	}
	return c, nil
}

func (c *Child) start(x Exec) (err error) {
	c.cmd.Dir, c.cmd.Env, c.cmd.SysProcAttr = x.Dir, append([]string{}, x.Env...), &syscall.SysProcAttr{Setpgid: true}
	if x.Lease != nil {
		c.cmd.ExtraFiles = []*os.File{x.Lease}
	}
	c.cmd.ExtraFiles = WithTree(c.cmd.ExtraFiles, 3, x.Tree)
	if x.Stdin != nil { // a nil *os.File would not be a nil io.Reader
		c.cmd.Stdin = x.Stdin
	}
	if x.PipeStdin {
		if c.Stdin, err = c.cmd.StdinPipe(); err != nil {
			return err
		}
	}
	if x.Stdout != nil {
		c.cmd.Stdout = x.Stdout
	} else if c.Stdout, err = c.cmd.StdoutPipe(); err != nil {
		return err
	}
	if x.Stderr != nil {
		c.cmd.Stderr = x.Stderr
	} else if c.Stderr, err = c.cmd.StderrPipe(); err != nil {
		return err
	}
	c.watch, err = launch(c.cmd)
	return err
}

// exitWatch follows one child to its end.
type exitWatch struct {
	process reconcile.Process
	done    chan struct{} // closed when the child has ended
	err     error         // why the watch failed; set before done is closed
	// reap returns how the child ended. It may be called once done is closed.
	reap func() (*os.ProcessState, error)
	// pinned: the pid cannot be reused before reap is called.
	pinned bool
}

// launch starts a child that inherits the files given to it and no others, and watches it. The caller reaps it.
func launch(cmd *exec.Cmd) (*exitWatch, error) {
	if err := sealDescriptors(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	w, err := watchExit(cmd.Process)
	if err != nil { // a child that is not watched would never be ended and reaped
		if killErr := cmd.Process.Kill(); killErr != nil && !errors.Is(killErr, os.ErrProcessDone) {
			return nil, errors.Join(err, killErr, cmd.Process.Release())
		}
		_, waitErr := cmd.Process.Wait()
		return nil, errors.Join(err, waitErr)
	}
	return w, nil
}

// Process is the child, for the procs file and Owner.Roots.
func (c *Child) Process() reconcile.Process { return c.watch.process }

// Wait returns when the child itself has ended, even if other processes still hold its pipes, or when ctx has, with its
// error. The child is not reaped before Close, so its group can still be signalled.
func (c *Child) Wait(ctx context.Context) error {
	select {
	case <-c.watch.done:
		return c.watch.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Child) ended() bool {
	select {
	case <-c.watch.done:
		return true
	default:
		return false
	}
}

// KillGroup sends sig to the child's process group, also after the child itself has ended; os.ErrProcessDone if the group
// is empty, or after Close. (Until then the number of the group cannot be reused, because the child is not reaped.)
func (c *Child) KillGroup(sig unix.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped || !c.watch.pinned && c.ended() {
		return os.ErrProcessDone
	}
	err := unix.Kill(-c.watch.process.PID, sig)
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	if err != nil {
		return fmt.Errorf("signal %v to group %d: %w", sig, c.watch.process.PID, err)
	}
	return nil
}

// Close kills the group if the child still runs, reaps the child, closes the pipes and returns how it ended. Members of
// the group that outlived the child are left to KillGroup. A child that SIGKILL does not end within 5 s is an error, and
// is not reaped.
func (c *Child) Close() (*os.ProcessState, error) {
	defer c.closePipes()
	if !c.ended() {
		if err := c.KillGroup(unix.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	if err := c.Wait(ctx); err != nil {
		return nil, fmt.Errorf("process %d (%s) does not end: %w", c.watch.process.PID, c.watch.process.Name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		c.state, c.err = c.watch.reap()
		c.reaped = true
	}
	return c.state, c.err
}

func (c *Child) closePipes() {
	for _, pipe := range []io.Closer{c.Stdin, c.Stdout, c.Stderr} {
		if pipe != nil {
			_ = pipe.Close()
		}
	}
}
