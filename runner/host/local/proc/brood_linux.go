package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
)

// Brood looks at what descends from this process from its own side: the kernel keeps each thread's children, so that a
// look costs some microseconds per thread of the own tree, and not per process of the machine. Where nobody has been
// born on the whole machine since the last look there is no need even for that. Not for use by several goroutines at
// once.
type Brood struct {
	known, now map[int]bool
	buf        []byte
	dirents    []byte
	born       int  // the newest number when the tree was last looked at and held nobody new
	counted    bool // the newest number can be asked for
}

// NewBrood fails with errors.ErrUnsupported where the kernel does not tell a thread's children.
func NewBrood() (*Brood, error) {
	if err := ownProc(); err != nil {
		return nil, err
	}
	if _, err := os.Stat(childrenOf(os.Getpid(), strconv.Itoa(os.Getpid()))); err != nil {
		return nil, fmt.Errorf("children of threads: %w", errors.ErrUnsupported)
	}
	return &Brood{
		known: map[int]bool{}, now: map[int]bool{}, buf: make([]byte, 0, 4096), dirents: make([]byte, 4096), counted: ownLoadavg(),
	}, nil
}

const loadavg = "/proc/loadavg"

// ownLoadavg reports whether the file is the kernel's. Containers may have one of lxcfs in its place, which is some
// seconds old.
func ownLoadavg() bool {
	var st unix.Statfs_t
	_, err := retry(func() (int, error) { return 0, unix.Statfs(loadavg, &st) })
	return err == nil && st.Type == unix.PROC_SUPER_MAGIC
}

// newest is the number that was given last to a process or thread of this pid namespace, as /proc/loadavg has it; 0
// where that is not to be had.
func (b *Brood) newest() (n int) {
	if !b.counted {
		return 0
	}
	var err error
	if b.buf, err = readAt(unix.AT_FDCWD, loadavg, b.buf, maxStat); err != nil {
		return 0
	}
	words := strings.Fields(string(b.buf))
	if len(words) < 5 {
		return 0
	}
	if n, err = strconv.Atoi(words[4]); err != nil {
		return 0
	}
	return n
}

func childrenOf(pid int, thread string) string {
	return "/proc/" + strconv.Itoa(pid) + "/task/" + thread + "/children"
}

// Fresh lists the descendants that were not there at the last call. One that changes its parent in this very moment
// may be listed by the next one only.
func (b *Brood) Fresh() ([]reconcile.Process, error) {
	newest := b.newest() // before the look: who is born during it shows at the next one
	if newest > 0 && newest == b.born {
		return nil, nil
	}
	clear(b.now)
	var fresh []reconcile.Process
	var errs []error
	for open := []int{os.Getpid()}; len(open) > 0; {
		pid := open[len(open)-1]
		children, err := b.children(pid)
		errs = append(errs, err)
		open = open[:len(open)-1]
		for _, child := range children {
			if b.now[child] {
				continue
			}
			b.now[child] = true
			open = append(open, child)
			if b.known[child] {
				continue // the number can't have gone round since the last look
			}
			switch e, err := statOf(child); {
			case err == nil && !e.dead:
				fresh = append(fresh, e.process())
			case err != nil && !errors.Is(err, os.ErrProcessDone):
				errs = append(errs, err)
			}
		}
	}
	b.known, b.now = b.now, b.known
	b.born = 0 // after a look with news another one: where much happens a child may be overlooked
	if len(fresh) == 0 {
		b.born = newest
	}
	return fresh, errors.Join(errs...)
}

// children lists those of all threads of a process; none where it is gone.
func (b *Brood) children(pid int) (list []int, err error) {
	threads, err := b.threads(pid)
	if err != nil {
		return nil, err
	}
	for _, thread := range threads {
		b.buf, err = readAt(unix.AT_FDCWD, childrenOf(pid, thread), b.buf, maxStat)
		if gone(err) {
			continue
		}
		if err != nil {
			return list, fmt.Errorf("children of process %d: %w", pid, err)
		}
		for word := range strings.FieldsSeq(string(b.buf)) {
			if child, err := strconv.Atoi(word); err == nil {
				list = append(list, child)
			}
		}
	}
	return list, nil
}

// threads lists those of a process. Most processes have one only, which the number of links tells.
func (b *Brood) threads(pid int) (list []string, err error) {
	var st unix.Stat_t
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	_, err = retry(func() (int, error) { return 0, unix.Stat(dir, &st) })
	if err == nil && st.Nlink == 3 {
		return []string{strconv.Itoa(pid)}, nil
	}
	var fd int
	if err == nil {
		fd, err = retry(func() (int, error) { return unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	}
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("threads of process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	for {
		n, err := retry(func() (int, error) { return unix.ReadDirent(fd, b.dirents) })
		if gone(err) || err == nil && n == 0 {
			return list, nil
		}
		if err != nil {
			return list, fmt.Errorf("threads of process %d: %w", pid, err)
		}
		_, _, list = unix.ParseDirent(b.dirents[:n], -1, list)
	}
}
