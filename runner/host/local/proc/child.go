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
	"github.com/symphony-cron/symphony/runner/host"
)

// closeWait is how long Close waits for a killed child.
const closeWait = 5 * time.Second

// Child is a started process, the leader of a process group of its own. It implements host.Process.
type Child struct {
	process        reconcile.Process
	cmd            *exec.Cmd
	stdin          io.WriteCloser
	stdout, stderr io.ReadCloser
	done           chan struct{} // closed when the child has ended; it is not reaped before Close

	mu     sync.Mutex
	reaped bool
}

var _ host.Process = (*Child)(nil)

// Start starts a command in a process group of its own, with pipes for its three streams. It inherits those, the lease as
// descriptor 3, so that its lock is held as long as the child lives, the tree file as TreeFD, by which all its descendants are
// known, and nothing else; both may be nil. A command that does not exist is exec.ErrNotFound or fs.ErrNotExist.
func Start(r host.StartRequest, lease, tree *os.File) (*Child, error) {
	c := &Child{cmd: exec.Command(r.Argv[0], r.Argv[1:]...), done: make(chan struct{})} //nolint:noctx // KillTree ends it, with all that it started
	c.cmd.Dir, c.cmd.Env, c.cmd.SysProcAttr = r.Dir, append([]string{}, r.Env...), &syscall.SysProcAttr{Setpgid: true}
	if lease != nil {
		c.cmd.ExtraFiles = []*os.File{lease}
	}
	c.cmd.ExtraFiles = ExtraFiles(tree, c.cmd.ExtraFiles...)
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err == nil {
		c.stdout, err = c.cmd.StdoutPipe()
	}
	if err == nil {
		c.stderr, err = c.cmd.StderrPipe()
	}
	if err == nil {
		c.process, err = launch(c.cmd)
	}
	if err != nil {
		c.closePipes()
		return nil, fmt.Errorf("start %s: %w", r.Argv[0], err)
	}
	go func() {
		defer close(c.done)
		awaitExit(c.process.PID)
	}()
	return c, nil
}

// launch starts a child that inherits the files given to it and no others.
func launch(cmd *exec.Cmd) (reconcile.Process, error) {
	if err := sealDescriptors(); err != nil {
		return reconcile.Process{}, err
	}
	if err := cmd.Start(); err != nil {
		return reconcile.Process{}, err
	}
	e, err := statOfChild(cmd.Process.Pid)
	if err != nil { // a child that is not known would never be ended
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	return e.process(), err
}

// statOfChild reads a child that has not been reaped and so exists, whatever /proc says: with the mount option hidepid,
// the child of a non-dumpable process is hidden until its exec is over, a moment after os.StartProcess has returned.
func statOfChild(pid int) (entry, error) {
	for end := time.Now().Add(2 * time.Second); ; time.Sleep(time.Millisecond) {
		e, err := statOf(pid)
		hidden := errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrProcessDone)
		if !hidden || time.Now().After(end) {
			return e, err
		}
	}
}

// Process is the child.
func (c *Child) Process() reconcile.Process { return c.process }

// Stdin, Stdout and Stderr are this process's ends of the pipes.
func (c *Child) Stdin() io.WriteCloser { return c.stdin }
func (c *Child) Stdout() io.Reader     { return c.stdout }
func (c *Child) Stderr() io.Reader     { return c.stderr }

// Wait returns when the child itself has ended, even if other processes still hold its pipes, or when ctx has, with its
// error. The child is not reaped before Close, so its group can still be signalled.
func (c *Child) Wait(ctx context.Context) error {
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// SignalGroup sends sig to the child's process group, also after the child itself has ended; os.ErrProcessDone if the group
// is empty, or after Close. (Until then the number of the group cannot be reused, because the child is not reaped.)
func (c *Child) SignalGroup(sig unix.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return os.ErrProcessDone
	}
	err := unix.Kill(-c.process.PID, sig)
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	if err != nil {
		return fmt.Errorf("signal %v to group %d: %w", sig, c.process.PID, err)
	}
	return nil
}

// Close kills the group if the child still runs, reaps the child, closes the pipes and returns how it ended. A child that SIGKILL
// does not end within 5 s is an error, and is not reaped.
func (c *Child) Close() (host.Exit, error) {
	defer c.closePipes()
	select {
	case <-c.done:
	default:
		if err := c.SignalGroup(unix.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return host.Exit{Code: -1}, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	if err := c.Wait(ctx); err != nil {
		return host.Exit{Code: -1}, fmt.Errorf("process %d (%s) does not end: %w", c.process.PID, c.process.Name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		c.reaped = true
		var err error
		if c.cmd.ProcessState, err = c.cmd.Process.Wait(); err != nil {
			return host.Exit{Code: -1}, err
		}
	}
	state := c.cmd.ProcessState
	return host.Exit{Code: state.ExitCode(), Text: state.String()}, nil
}

func (c *Child) closePipes() {
	for _, pipe := range []io.Closer{c.stdin, c.stdout, c.stderr} {
		if pipe != nil {
			_ = pipe.Close()
		}
	}
}
