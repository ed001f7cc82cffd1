package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/proc"

	"golang.org/x/sys/unix"
)

// closeWait is how long Close waits for a killed child.
const closeWait = 5 * time.Second

// Child is a started process, the leader of its process group.
type Child struct {
	process        reconcile.Process
	cmd            *exec.Cmd
	stdin          io.WriteCloser
	stdout, stderr io.ReadCloser
	done           chan struct{} // closed when the child ends; it is not reaped before Close

	mu     sync.Mutex
	reaped bool
}

// ErrNotInPath is wrapped by the error for a command without a slash that PATH does not lead to,
// such as git on a machine without git.
var ErrNotInPath = exec.ErrNotFound

// Start starts a command in a new process group, with pipes for its three streams. Apart from
// these it inherits only the lease, as descriptor 3, so that it is held as long as the child
// lives, and the tree file, as TreeFD, which marks all its descendants. Both may be nil. If
// the command does not exist, the error wraps ErrNotInPath or fs.ErrNotExist.
func Start(r host.StartRequest, lease, tree *os.File) (*Child, error) {
	return startChild(r, inherited(lease), tree, syscall.SysProcAttr{})
}

// StartReporting is Start for a command that also inherits a file into which it reports. fd is
// the descriptor of it.
func StartReporting(
	lease, tree, report *os.File,
	request func(fd int) (host.StartRequest, error),
) (*Child, error) {
	files := append(inherited(lease), report)
	r, err := request(proc.FirstExtra + len(files) - 1)
	if err != nil {
		return nil, err
	}
	return startChild(r, files, tree, syscall.SysProcAttr{})
}

// inherited returns the files that a child inherits beside the tree file.
func inherited(lease *os.File) []*os.File {
	if lease == nil {
		return nil
	}
	return []*os.File{lease}
}

func startChild(r host.StartRequest, files []*os.File, tree *os.File, attr syscall.SysProcAttr) (*Child, error) {
	attr.Setpgid = true
	c := &Child{
		cmd:  exec.Command(r.Argv[0], r.Argv[1:]...), //nolint:noctx // Kill ends it
		done: make(chan struct{}),
	}
	c.cmd.Dir = r.Dir
	c.cmd.Env = append([]string{}, r.Env...)
	c.cmd.SysProcAttr = &attr
	c.cmd.ExtraFiles = ExtraFiles(tree, files...)
	if err := c.launch(); err != nil {
		c.closePipes()
		return nil, fmt.Errorf("start %s: %w", r.Argv[0], err)
	}
	go func() {
		defer close(c.done)
		proc.AwaitExit(c.process.PID)
	}()
	return c, nil
}

// launch starts the command with its pipes. After an error, some of them may be open.
func (c *Child) launch() (err error) {
	c.stdin, err = c.cmd.StdinPipe()
	if err != nil {
		return err
	}
	c.stdout, err = c.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	c.stderr, err = c.cmd.StderrPipe()
	if err != nil {
		return err
	}
	c.process, err = proc.Launch(c.cmd)
	return err
}

// Process is the child.
func (c *Child) Process() reconcile.Process { return c.process }

// Stdin, Stdout and Stderr are this process's ends of the pipes.
func (c *Child) Stdin() io.WriteCloser { return c.stdin }
func (c *Child) Stdout() io.Reader     { return c.stdout }
func (c *Child) Stderr() io.Reader     { return c.stderr }

// Wait returns nil when the child ends, even if other processes hold its pipes open, or the
// error of ctx. The child is not reaped before Close, so its group can still be signalled.
func (c *Child) Wait(ctx context.Context) error {
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// SignalGroup sends sig to the child's process group, even after the end of the child itself.
// It returns os.ErrProcessDone if the group is empty, and after Close. (The number of the
// group cannot be reused before Close, because the child is not reaped.)
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

// Close kills the group if the child still runs, reaps the child, closes the pipes and returns
// how the child ended. If SIGKILL does not end the child within 5 s, Close returns an error
// and does not reap it.
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
		err = fmt.Errorf("process %d (%s) did not end after SIGKILL: %w", c.process.PID, c.process.Name, err)
		return host.Exit{Code: -1}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		c.reaped = true
		state, err := c.cmd.Process.Wait()
		if err != nil {
			return host.Exit{Code: -1}, err
		}
		c.cmd.ProcessState = state
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

// groupGrace is the time between SIGTERM and SIGKILL for a process group.
const groupGrace = 2 * time.Second

// WaitGroup waits for the end of a command that was started as the leader of a process group.
// If ctx ends, or after timeout, it ends the group, and returns the error of ctx, or the
// result of late, which it calls before.
func WaitGroup(ctx context.Context, cmd *exec.Cmd, timeout time.Duration, late func() error) error {
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	var err error
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = late()
	}
	endGroup(cmd.Process.Pid, groupGrace)
	select {
	case <-done: //nolint:errcheck // the status of a killed command has no meaning
	case <-time.After(closeWait):
		// a hung file system; it is reported when the processes of the run are ended
	}
	return err
}

// endGroup ends a process group: with SIGTERM, so that its programs can remove their lock
// files, and after grace with SIGKILL. The leader must be a child of this process. endGroup
// does not wait for zombies, which may remain in the group for long.
func endGroup(leader int, grace time.Duration) {
	_ = unix.Kill(-leader, unix.SIGTERM)
	_ = unix.Kill(-leader, unix.SIGCONT)
	for end := time.Now().Add(grace); time.Now().Before(end); time.Sleep(killStep) {
		living, err := proc.Scan()
		if err == nil && !slices.ContainsFunc(living, func(e proc.Entry) bool { return e.Group == leader }) {
			break
		}
	}
	_ = unix.Kill(-leader, unix.SIGKILL) // fails if the group is empty
}

const (
	stderrKept = 16 << 10
	// drainWait is how long Run reads on after the end of the program's processes, in case a
	// process that it could not find holds a pipe.
	drainWait = 2 * time.Second
)

// Output is the output of a program, and how it ended.
type Output struct {
	Stdout []byte // at most a byte more than the limit
	Stderr []byte // the last 16 KiB
	Exit   host.Exit
}

// Run runs a program in a new process group until it ends, until ctx ends, or until it wrote
// more than limit bytes to its standard output. Then Run ends all of its processes, also in
// other groups and sessions, and returns the output until then. The error comes from the
// start, or from ctx. If this process is killed, Linux kills the program, too, but not the
// processes that it started.
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
