package proc

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
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

// carrying reports which of the processes carry one of the marks in the environment that they were started with.
// Those of other users, and those whose environment may not be read (not dumpable, or grown more privileges), don't.
func (t *table) carrying(pids []int, marks [][]byte) ([]bool, error) {
	carry := make([]bool, len(pids))
	err := inParts(len(pids), func(from, to int) error {
		buf := make([]byte, 0, 16<<10)
		var errs []error
		for i := from; i < to; i++ {
			var err error
			if buf, err = t.environ(pids[i], buf); err != nil {
				errs = append(errs, err)
				continue
			}
			carry[i] = carries(buf, marks)
		}
		return errors.Join(errs...)
	})
	return carry, err
}

// environ reads an environment into buf: entries that each end in a zero byte.
func (t *table) environ(pid int, buf []byte) ([]byte, error) {
	name := strconv.Itoa(pid)
	uid, err := t.owner(name)
	if err == nil && uid == uint32(os.Geteuid()) {
		buf, err = readAt(int(t.proc.Fd()), name+"/environ", buf, maxEnviron)
	} else {
		buf = buf[:0]
	}
	if err != nil && !gone(err) && !notOurs(err) {
		return buf[:0], fmt.Errorf("environment of process %d: %w", pid, err)
	}
	return buf, nil
}

func notOurs(err error) bool { return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) }
