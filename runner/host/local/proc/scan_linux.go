package proc

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// maxStat bounds what is read of one stat, maxEnviron of one environment: the kernel lets arguments and
// environment together grow to 6 MiB.
const (
	maxStat    = 64 << 10
	maxEnviron = 8 << 20
)

// table is one look at all processes, and the means to look closer at one of them.
type table struct {
	proc    *os.File
	entries []entry
}

// scan lists the processes that are alive; kernel threads and zombies are left out, others' users are not.
func scan() (*table, error) {
	t, err := look()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	t.entries = slices.DeleteFunc(t.entries, func(e entry) bool { return e.kernel || e.dead })
	return t, nil
}

// look lists every process there is.
func look() (*table, error) {
	if err := ownProc(); err != nil {
		return nil, err
	}
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	t := &table{proc: dir}
	if t.entries, err = t.stats(); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *table) close() { t.proc.Close() }

// minPart is how many processes are worth a goroutine: reading one costs 5 to 10 µs, nearly all of it in the
// kernel, where more processors help.
const minPart = 64

// inParts runs f on consecutive parts of the numbers below n, side by side.
func inParts(n int, f func(from, to int) error) error {
	parts := max(1, min(runtime.GOMAXPROCS(0), n/minPart))
	errs := make([]error, parts)
	var wg sync.WaitGroup
	for i := range parts {
		wg.Go(func() { errs[i] = f(n*i/parts, n*(i+1)/parts) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (t *table) stats() ([]entry, error) {
	names, err := t.proc.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(s string) bool { return s[0] < '1' || s[0] > '9' })
	entries := make([]entry, len(names))
	fd := int(t.proc.Fd())
	err = inParts(len(names), func(from, to int) error {
		buf := make([]byte, 0, 1024)
		for i := from; i < to; i++ {
			var err error
			if buf, err = readAt(fd, names[i]+"/stat", buf, maxStat); err == nil && len(buf) > 0 {
				entries[i], err = parseStat(buf)
			}
			if err != nil && !gone(err) && !notOurs(err) {
				return fmt.Errorf("process %s: %w", names[i], err)
			}
		}
		return nil
	})
	return slices.DeleteFunc(entries, func(e entry) bool { return e.pid == 0 }), err
}

// owner is the effective user of a process: that of its directory in /proc, which stays the process's own even
// where it is not dumpable and every file below belongs to root.
func (t *table) owner(pid string) (uint32, error) {
	var st unix.Stat_t
	_, err := retry(func() (int, error) {
		return 0, unix.Fstatat(int(t.proc.Fd()), pid, &st, unix.AT_SYMLINK_NOFOLLOW)
	})
	return st.Uid, err
}

// hasMarker reports which of the processes have the marker's tree file open as TreeFD or carry one of its marks in the
// environment that they were started with. Those of other users don't, nor those that may not be looked into (not
// dumpable, or grown more privileges).
func (t *table) hasMarker(pids []int, b marker) ([]bool, error) {
	marked := make([]bool, len(pids))
	fd := int(t.proc.Fd())
	err := inParts(len(pids), func(from, to int) error {
		buf := make([]byte, 0, 16<<10)
		var errs []error
		for i := from; i < to; i++ {
			name := strconv.Itoa(pids[i])
			var has bool
			var err error
			if b.tree != "" {
				has, buf, err = holdsTree(fd, name, b.tree, buf)
			}
			if err == nil && !has && len(b.marks) > 0 {
				buf, err = readAt(fd, name+"/environ", buf, maxEnviron)
				has = err == nil && carries(buf, b.marks)
			}
			// Whose it is costs a call, so it is asked of those only that it matters for.
			var uid uint32
			if err == nil && has {
				uid, err = t.owner(name)
			}
			switch {
			case err == nil:
				marked[i] = has && uid == uint32(os.Geteuid())
			case !gone(err) && !notOurs(err):
				errs = append(errs, fmt.Errorf("process %s: %w", name, err))
			}
		}
		return errors.Join(errs...)
	})
	return marked, err
}

// worksBelow reports whether the process has its working directory in the folder, or below it, as far as that may be
// seen. The folder is one without symlinks.
func (t *table) worksBelow(pid int, folder string) (bool, error) {
	dir, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd")
	if gone(err) || notOurs(err) {
		return false, nil
	}
	return strings.HasPrefix(dir+"/", folder+"/"), err
}

func notOurs(err error) bool { return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) }
