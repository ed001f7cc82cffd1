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

// sealDescriptors marks every descriptor above 2 close-on-exec, because those that were inherited from cron, a terminal or
// a test are not marked. The descriptors that a child shall inherit are passed on explicitly.
func sealDescriptors() error {
	err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	// Before Linux 5.11, or in a sandbox that does not know the call.
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

// watchExit watches a child that has not been reaped, through a pidfd in the poller: a goroutine without a thread.
func watchExit(p *os.Process) (*exitWatch, error) {
	e, err := statOfChild(p.Pid)
	if err != nil {
		return nil, err
	}
	fd, err := openPIDFD(p.Pid)
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
		w.err = raw.Read(func(fd uintptr) bool { // a pidfd becomes readable when its process ends
			poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			n, err := unix.Poll(poll, 0)
			return err == nil && n == 1
		})
	}()
	return w, nil
}

// childLimit is how long a child may take to become visible, childStep how often it is looked for.
const (
	childLimit = 2 * time.Second
	childStep  = time.Millisecond
)

// statOfChild reads a child that has not been reaped and so exists, whatever /proc says: with the mount option hidepid,
// the child of a non-dumpable process is hidden until its exec is over, a moment after os.StartProcess has returned.
func statOfChild(pid int) (entry, error) {
	for end := time.Now().Add(childLimit); ; time.Sleep(childStep) {
		e, err := statOf(pid)
		hidden := forbidden(err) || errors.Is(err, os.ErrProcessDone)
		if !hidden || time.Now().After(end) {
			return e, err
		}
	}
}
