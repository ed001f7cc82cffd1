package proc

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// sealDescriptors marks every descriptor above 2 close-on-exec: those that were inherited from cron, a terminal
// or a test are not. What a child shall inherit is named to it and loses the mark there.
func sealDescriptors() error {
	err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
		return sealEach() // before Linux 5.11, or a sandbox that does not know the call
	}
	if err != nil {
		return fmt.Errorf("close descriptors to children: %w", err)
	}
	return nil
}

func sealEach() error {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("close descriptors to children: %w", err)
	}
	for _, n := range names {
		if fd, err := strconv.Atoi(n.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// watchExit watches a child that has not been reaped, through a pidfd in the poller: a goroutine, not a thread.
func watchExit(p *os.Process) (*exitWatch, error) {
	e, err := statOfChild(p.Pid)
	if err != nil {
		return nil, err
	}
	fd, err := pidfdOpen(p.Pid)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(fmt.Errorf("watch process %d: %w", p.Pid, err), unix.Close(fd))
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch process %d: %w", p.Pid, err), f.Close())
	}
	w := &exitWatch{process: e.process(), done: make(chan struct{}), reap: p.Wait, pinned: true}
	go func() {
		defer close(w.done)
		defer f.Close()
		if raw.Read(hasEnded) != nil {
			w.err = awaitEnd(fd) // the poller does not take pidfds here
		}
	}()
	return w, nil
}

// childBound is how long a child may take to be seen, childStep how often it is looked for.
const (
	childBound = 2 * time.Second
	childStep  = time.Millisecond
)

// statOfChild reads a child that has not been reaped, and so is there whatever /proc says: one that hides what its
// reader may not look into (hidepid) hides a non-dumpable process's child until the very end of its exec, a moment
// after os.StartProcess has returned.
func statOfChild(pid int) (entry, error) {
	for end := time.Now().Add(childBound); ; time.Sleep(childStep) {
		e, err := statOf(pid)
		hidden := notOurs(err) || errors.Is(err, os.ErrProcessDone)
		if !hidden || time.Now().After(end) {
			return e, err
		}
	}
}

// awaitEnd blocks a thread until the process behind a pidfd has ended.
func awaitEnd(fd int) error {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if _, err := retry(func() (int, error) { return unix.Poll(poll, -1) }); err != nil {
		return fmt.Errorf("watch a child: %w", err)
	}
	return nil
}

// hasEnded reports whether the process behind a pidfd has ended; an error of poll is left to the next look.
func hasEnded(fd uintptr) bool {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n == 1
}
