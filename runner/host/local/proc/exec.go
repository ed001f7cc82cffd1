package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"golang.org/x/sys/unix"
)

// closeWait is how long Close waits for a killed child.
const closeWait = 5 * time.Second

// Exec is an agent or a hook to start (design 7 and 9).
type Exec struct {
	// Argv is the command; a name without a slash is looked up in PATH.
	Argv []string
	// Env is all of its environment; nil is an empty one.
	Env []string
	// Dir is its working directory.
	Dir string
	// Stdin, Stdout and Stderr are what it gets. A nil Stdin is /dev/null, or a pipe with PipeStdin; a nil Stdout or
	// Stderr is a pipe that the caller reads. The caller keeps its own files.
	Stdin, Stdout, Stderr *os.File
	PipeStdin             bool
	// Lease is inherited as descriptor 3, so that the lock on it is held as long as the child lives; may be nil.
	Lease *os.File
	// Tree is inherited as TreeFD, so that all that descends from the child is known by it; may be nil.
	Tree *os.File
}

// Child is a started process, the leader of a process group of its own. Close must be called.
type Child struct {
	// Stdin is the writing end, Stdout and Stderr the reading ends of the pipes; nil where Exec asked for none.
	// They support deadlines. Close closes them.
	Stdin, Stdout, Stderr *os.File

	watch *exitWatch
	p     *os.Process

	mu     sync.Mutex
	reaped bool
	state  *os.ProcessState
	err    error
}

// Start starts the command in a process group of its own. It inherits its three streams, the lease and the
// tree file, nothing else. A command that is not there is exec.ErrNotFound or fs.ErrNotExist.
func (x Exec) Start() (*Child, error) {
	c, err := x.start()
	if err != nil {
		name := "command"
		if len(x.Argv) > 0 {
			name = x.Argv[0]
		}
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return c, nil
}

func (x Exec) start() (*Child, error) {
	if len(x.Argv) == 0 {
		return nil, errors.New("no command")
	}
	exe := x.Argv[0]
	if !strings.Contains(exe, "/") {
		found, err := exec.LookPath(exe)
		if err != nil {
			return nil, err
		}
		exe = found
	}
	var p plumbing
	c, files, err := p.lay(x)
	defer p.closeTheirs()
	if err == nil {
		c.p, c.watch, err = launch(exe, x.Argv, &os.ProcAttr{
			Dir:   x.Dir,
			Env:   notNil(x.Env),
			Files: files,
			Sys:   &syscall.SysProcAttr{Setpgid: true},
		})
	}
	if err != nil {
		p.closeOurs()
		return nil, err
	}
	return c, nil
}

// plumbing holds the pipes of a child: the ends that it gets, and ours.
type plumbing struct{ theirs, ours []*os.File }

func (p *plumbing) closeTheirs() { closeAll(p.theirs) }
func (p *plumbing) closeOurs()   { closeAll(p.ours) }

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// lay makes the pipes that x asks for and returns the child's files in their order.
func (p *plumbing) lay(x Exec) (c *Child, files []*os.File, err error) {
	c = &Child{}
	stdin, stdout, stderr := x.Stdin, x.Stdout, x.Stderr
	switch {
	case x.PipeStdin && stdin != nil:
		return nil, nil, errors.New("stdin can't be a file and a pipe at once")
	case x.PipeStdin:
		if stdin, c.Stdin, err = os.Pipe(); err != nil {
			return nil, nil, err
		}
		p.add(stdin, c.Stdin)
	case stdin == nil:
		if stdin, err = os.Open(os.DevNull); err != nil {
			return nil, nil, err
		}
		p.theirs = append(p.theirs, stdin)
	}
	if stdout == nil {
		if c.Stdout, stdout, err = os.Pipe(); err != nil {
			return nil, nil, err
		}
		p.add(stdout, c.Stdout)
	}
	if stderr == nil {
		if c.Stderr, stderr, err = os.Pipe(); err != nil {
			return nil, nil, err
		}
		p.add(stderr, c.Stderr)
	}
	files = []*os.File{stdin, stdout, stderr}
	if x.Lease != nil {
		files = append(files, x.Lease)
	}
	return c, WithTree(files, 0, x.Tree), nil
}

func (p *plumbing) add(theirs, ours *os.File) {
	p.theirs, p.ours = append(p.theirs, theirs), append(p.ours, ours)
}

// Process is the child, for the procs file and Owner.Roots.
func (c *Child) Process() reconcile.Process { return c.watch.process }

// Done is closed when the child itself has ended, whoever still holds its pipes.
func (c *Child) Done() <-chan struct{} { return c.watch.done }

// Wait returns when the child itself has ended, even if others still hold its pipes, or when ctx has: the error
// is then that of ctx. The child is not reaped before Close, so its group can still be signalled.
func (c *Child) Wait(ctx context.Context) error {
	select {
	case <-c.watch.done:
		return c.watch.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Signal sends sig to the child alone; os.ErrProcessDone if it has ended.
func (c *Child) Signal(sig unix.Signal) error {
	if c.ended() {
		return os.ErrProcessDone
	}
	return c.p.Signal(sig)
}

func (c *Child) ended() bool {
	select {
	case <-c.watch.done:
		return true
	default:
		return false
	}
}

// KillGroup sends sig to the child's process group, also after the child itself has ended; os.ErrProcessDone if
// nobody is left in it, or after Close. (Until then the number of the group can't have become another's, because the
// child is not reaped.) A group that has only the child's zombie left takes the signal without an error.
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

// Close kills the group if the child still runs, reaps the child, closes our ends of the pipes and returns how it
// ended. Members of the group that outlived the child are not touched: see KillGroup. A child that SIGKILL does
// not end within 5 s is an error, and stays unreaped.
func (c *Child) Close() (*os.ProcessState, error) {
	defer closeAll(c.pipes())
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

func (c *Child) pipes() []*os.File {
	var open []*os.File
	for _, f := range []*os.File{c.Stdin, c.Stdout, c.Stderr} {
		if f != nil {
			open = append(open, f)
		}
	}
	return open
}

// exitWatch follows one child to its end.
type exitWatch struct {
	process reconcile.Process
	done    chan struct{} // closed when the child has ended
	err     error         // why the watch ended before it; set before done is closed
	// reap gives how the child ended; not before done is closed.
	reap func() (*os.ProcessState, error)
	// pinned: until reap is called the pid can't become another process's.
	pinned bool
}

// launch starts a child that inherits the files given to it and no others, and watches it. The child is the
// caller's to reap.
func launch(exe string, argv []string, attr *os.ProcAttr) (*os.Process, *exitWatch, error) {
	if len(argv) == 0 {
		return nil, nil, errors.New("no arguments, not even a name")
	}
	if err := sealDescriptors(); err != nil {
		return nil, nil, err
	}
	p, err := os.StartProcess(exe, argv, attr)
	if err != nil {
		return nil, nil, err
	}
	w, err := watchExit(p)
	if err != nil {
		// Unwatched it would be a process that nobody ends or reaps.
		return nil, nil, errors.Join(err, discard(p))
	}
	return p, w, nil
}

func discard(p *os.Process) error {
	if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return errors.Join(err, p.Release())
	}
	_, err := p.Wait()
	return err
}

// socketPair returns two joined sockets, ours ready for deadlines, neither inherited by chance.
func socketPair() (ours, theirs *os.File, err error) {
	syscall.ForkLock.RLock() // no fork between the making and the marking
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("socket pair: %w", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("socket pair: %w", err), unix.Close(fds[0]), unix.Close(fds[1]))
	}
	return os.NewFile(uintptr(fds[0]), "ready socket"), os.NewFile(uintptr(fds[1]), "worker's ready socket"), nil
}

// control runs f on the descriptor of a file without taking it out of the poller, as Fd would.
func control(file *os.File, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	return errors.Join(raw.Control(func(fd uintptr) { inner = f(int(fd)) }), inner)
}

// notNil makes an environment that is left out an empty one: os.StartProcess would pass our own on.
func notNil(env []string) []string {
	if env == nil {
		return []string{}
	}
	return env
}
