package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// BecomeSubreaper makes this process, instead of init, the parent of every descendant whose own parent ends (design 8), so
// that a process that the agent leaves behind stays below the worker. A Reaper must reap those.
func BecomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	return nil
}

// NonDumpable keeps other processes of this user from reading the memory, the environment and the descriptors of this one
// (design 6), and from attaching to it. It ends with an exec, so it does not reach the agent.
//
// Every file in /proc/<pid> then belongs to root. Find cannot read the markers of such a process: a worker is found by its
// recorded pid and start time, which stay readable.
func NonDumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("become non-dumpable: %w", err)
	}
	return nil
}

// maxComm is how many bytes of a name the kernel keeps.
const maxComm = 15

// ShowAs sets the name under which this process is listed. It must come before NonDumpable, after which the file belongs
// to root.
func ShowAs(name string) error {
	if err := os.WriteFile("/proc/self/comm", []byte(name[:min(len(name), maxComm)]), 0); err != nil {
		return fmt.Errorf("own name: %w", err)
	}
	return nil
}

// Reaper reaps adopted children and leaves alone those that this process waits for: children of os/exec,
// os.StartProcess, Start and Detach. They are recognized by their pidfds: package os and this one keep a descriptor of a
// child until it has been waited for.
type Reaper struct{}

// NewReaper makes sure that children can be told apart here. Where they cannot (a sandbox without pidfds) it fails, and
// zombies stay until this process ends, which does no harm.
func NewReaper() (*Reaper, error) {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("reaper: %w", err)
	}
	defer func() { _ = self.Release() }()
	held, err := heldPIDs()
	if err != nil {
		return nil, err
	}
	if held[os.Getpid()] == 0 {
		return nil, errors.New("reaper: package os holds no pidfds here, so adopted children cannot be told from others")
	}
	return &Reaper{}, nil
}

// Run reaps at each interval until ctx ends. Errors go to report.
func (r *Reaper) Run(ctx context.Context, interval time.Duration, report func(error)) {
	tick := time.NewTicker(interval)
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
	// There mostly is no zombie, and this question costs a microsecond.
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	if errors.Is(err, unix.ECHILD) || err == nil && info.Signo == 0 {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reap: %w", err)
	}
	// Waitid would name only the first zombie again and again, which may be one that this process waits for.
	entries, err := scanAll()
	if err != nil {
		return 0, err
	}
	reaped := 0
	var errs []error
	for _, e := range entries {
		if !e.dead || e.ppid != os.Getpid() {
			continue
		}
		ok, err := reapAdopted(e.pid)
		if ok {
			reaped++
		}
		errs = append(errs, err)
	}
	return reaped, errors.Join(errs...)
}

// reapAdopted reaps the zombie pid unless this process waits for it. The descriptor is opened first, and it is what is
// reaped: if the child was waited for in between and its pid reused, nothing happens.
func reapAdopted(pid int) (bool, error) {
	fd, err := openPIDFD(pid)
	if errors.Is(err, os.ErrProcessDone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	held, err := heldPIDs()
	if err != nil || held[pid] != 1 { // one is fd
		return false, err
	}
	var info unix.Siginfo
	err = unix.Waitid(unix.P_PIDFD, fd, &info, unix.WEXITED|unix.WNOHANG, nil)
	if errors.Is(err, unix.ECHILD) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reap process %d: %w", pid, err)
	}
	return info.Signo != 0, nil
}

// heldPIDs counts the pidfds that this process has open, by the process they refer to.
func heldPIDs() (map[int]int, error) {
	const dir = "/proc/self/fdinfo"
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("own descriptors: %w", err)
	}
	held := map[int]int{}
	for _, name := range names {
		info, err := os.ReadFile(filepath.Join(dir, name.Name()))
		if gone(err) {
			continue // closed meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("own descriptors: %w", err)
		}
		for line := range strings.Lines(string(info)) {
			if rest, ok := strings.CutPrefix(line, "Pid:"); ok { // only pidfds have this line
				if pid, err := strconv.Atoi(strings.TrimSpace(rest)); err == nil {
					held[pid]++
				}
			}
		}
	}
	return held, nil
}
