package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// BecomeSubreaper makes this process the parent of every descendant whose own parent ends, in the place of init
// (design 8): what the agent leaves behind stays below the worker. Its zombies are then ours to reap (Reaper).
func BecomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	return nil
}

// NonDumpable keeps other processes of this user from reading the memory, the environment and the descriptors of
// this one (design 6), and from attaching to it. It ends with an exec, so it does not reach the agent.
//
// The consequence: every file in /proc/<pid> belongs to root then. Others, and this process itself unless it is
// root, can't open its environ any more, so Find does not see its marks: a worker is found by its recorded pid
// and start time, which stay readable. os.Environ is not affected, nor are /proc/self/exe and /proc/self/fd.
func NonDumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("become non-dumpable: %w", err)
	}
	return nil
}

// maxComm is how much of a name the kernel keeps.
const maxComm = 15

// ShowAs sets the name by which lists of processes show this one. It must come before NonDumpable, after which the file
// is root's.
func ShowAs(name string) error {
	if err := os.WriteFile("/proc/self/comm", []byte(name[:min(len(name), maxComm)]), 0); err != nil {
		return fmt.Errorf("own name: %w", err)
	}
	return nil
}

// Reaper reaps adopted children and leaves alone those that somebody in this process waits for: children of
// os/exec, os.StartProcess, Start and Detach. It tells them by their pidfds: package os, and this one, keep a
// descriptor of a child from its birth until it has been waited for.
type Reaper struct{}

// NewReaper makes sure that children can be told apart here. Where they can't (an old kernel, a sandbox without
// pidfds) the error says so; zombies then stay until this process ends, which harms nobody.
func NewReaper() (*Reaper, error) {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("reaper: %w", err)
	}
	defer func() { _ = self.Release() }() // it was only looked at
	held, err := heldPIDs()
	if err != nil {
		return nil, err
	}
	if held[os.Getpid()] == 0 {
		return nil, errors.New("reaper: children are not held by pidfds here, so adopted ones can't be told from others")
	}
	return &Reaper{}, nil
}

// Run reaps every so often until ctx ends. Errors go to report.
func (r *Reaper) Run(ctx context.Context, every time.Duration, report func(error)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := r.Reap(); err != nil {
			report(err)
		}
	}
}

// Reap reaps the adopted children that have ended and returns how many. It does not wait for any.
func (r *Reaper) Reap() (int, error) {
	// Asking for any zombie costs a microsecond, and there mostly is none.
	var info unix.Siginfo
	err := waitid(unix.P_ALL, 0, &info, unix.WNOWAIT)
	if errors.Is(err, unix.ECHILD) || err == nil && info.Signo == 0 {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reap: %w", err)
	}
	zombies, err := deadChildren()
	if err != nil {
		return 0, err
	}
	reaped := 0
	var errs []error
	for _, pid := range zombies {
		ok, err := reapAdopted(pid)
		if ok {
			reaped++
		}
		errs = append(errs, err)
	}
	return reaped, errors.Join(errs...)
}

// reapAdopted reaps the zombie pid unless somebody here waits for it. The descriptor is opened before it is judged,
// and it is what is reaped: if the owner was quicker and the number is somebody else's by now, nothing happens.
func reapAdopted(pid int) (bool, error) {
	fd, err := pidfdOpen(pid)
	if errors.Is(err, os.ErrProcessDone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	held, err := heldPIDs()
	if err != nil || held[pid] != 1 { // ours is one
		return false, err
	}
	var info unix.Siginfo
	err = waitid(unix.P_PIDFD, fd, &info, 0)
	if errors.Is(err, unix.ECHILD) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reap process %d: %w", pid, err)
	}
	return info.Signo != 0, nil
}

func waitid(kind, id int, info *unix.Siginfo, options int) error {
	_, err := retry(func() (int, error) {
		return 0, unix.Waitid(kind, id, info, unix.WEXITED|unix.WNOHANG|options, nil)
	})
	return err
}

// deadChildren lists our zombies. (Asking waitid over and over would show the first one only, which may be one
// that its owner has not come to yet.)
func deadChildren() ([]int, error) {
	t, err := look()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer t.close()
	var pids []int
	for _, e := range t.entries {
		if e.dead && e.ppid == os.Getpid() {
			pids = append(pids, e.pid)
		}
	}
	return pids, nil
}

// heldPIDs counts the pidfds that this process has open, by the process they mean.
func heldPIDs() (map[int]int, error) {
	dir, err := os.Open("/proc/self/fdinfo")
	if err != nil {
		return nil, fmt.Errorf("own descriptors: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("own descriptors: %w", err)
	}
	held := map[int]int{}
	buf := make([]byte, 0, 1024)
	for _, name := range names {
		buf, err = readAt(int(dir.Fd()), name, buf, maxStat)
		if gone(err) {
			continue // closed meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("own descriptor %s: %w", name, err)
		}
		if pid, ok := pidOfDescriptor(buf); ok {
			held[pid]++
		}
	}
	return held, nil
}

// pidOfDescriptor reads the line "Pid:" that only pidfds have.
func pidOfDescriptor(fdinfo []byte) (int, bool) {
	for line := range bytes.Lines(fdinfo) {
		if rest, ok := bytes.CutPrefix(line, []byte("Pid:")); ok {
			pid, err := strconv.Atoi(string(bytes.TrimSpace(rest)))
			return pid, err == nil && pid > 0
		}
	}
	return 0, false
}
