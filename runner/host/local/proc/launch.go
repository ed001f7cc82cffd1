package proc

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
)

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
