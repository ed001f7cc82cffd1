package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// pfKthread is the kernel's flag for its own threads.
const pfKthread = 0x00200000

// parseStat reads /proc/<pid>/stat. The name stands in parentheses and may itself hold parentheses, blanks and
// newlines, so the fields are counted from the last one.
func parseStat(b []byte) (entry, error) {
	var e entry
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return e, errors.New("stat without a name")
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(b[:open])))
	if err != nil {
		return e, fmt.Errorf("stat: pid: %w", err)
	}
	e.pid, e.name = pid, string(b[open+1:end])

	// Numbers below are those of proc(5): 3 state, 4 parent, 6 session, 9 flags, 20 threads, 22 start time.
	var state byte
	var flags, threads uint64
	rest := b[end+1:]
	for field := 3; field <= 22; field++ {
		rest = bytes.TrimLeft(rest, " ")
		word := rest
		if i := bytes.IndexByte(rest, ' '); i >= 0 {
			word, rest = rest[:i], rest[i:]
		} else {
			rest = nil
		}
		if len(word) == 0 {
			return e, fmt.Errorf("stat of %d ends before field %d", pid, field)
		}
		var err error
		switch field {
		case 3:
			state = word[0]
		case 4:
			e.ppid, err = strconv.Atoi(string(word))
		case 6:
			e.session, err = strconv.Atoi(string(word))
		case 9:
			flags, err = strconv.ParseUint(string(word), 10, 64)
		case 20:
			threads, err = strconv.ParseUint(string(word), 10, 64)
		case 22:
			e.start, err = strconv.ParseUint(string(bytes.TrimSpace(word)), 10, 64)
		}
		if err != nil {
			return e, fmt.Errorf("stat of %d, field %d: %w", pid, field, err)
		}
	}
	e.kernel = flags&pfKthread != 0
	// A process whose first thread has ended shows as a zombie while its other threads run on.
	e.dead = state == 'X' || state == 'x' || state == 'Z' && threads <= 1
	return e, nil
}

// readAt reads a small file below the directory fd into buf, which grows as needed, up to max bytes. It makes no
// os.File: a scan reads hundreds of them.
func readAt(dir int, name string, buf []byte, max int) ([]byte, error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	})
	if err != nil {
		return buf[:0], err
	}
	defer unix.Close(fd)
	buf = buf[:0]
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := retry(func() (int, error) { return unix.Read(fd, buf[len(buf):cap(buf)]) })
		if err != nil {
			return buf[:0], err
		}
		buf = buf[:len(buf)+n]
		if len(buf) < cap(buf) || len(buf) >= max {
			return buf, nil // these files give all that fits, so a read that leaves room was the last
		}
	}
}

// retry repeats a system call that a signal interrupted.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// gone reports whether err is how /proc and the pidfd calls say that a process has ended.
func gone(err error) bool {
	return errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT)
}

// statOf reads one process; os.ErrProcessDone if there is none.
func statOf(pid int) (entry, error) {
	b, err := readAt(unix.AT_FDCWD, "/proc/"+strconv.Itoa(pid)+"/stat", make([]byte, 0, 1024), maxStat)
	if gone(err) || err == nil && len(b) == 0 {
		return entry{}, os.ErrProcessDone
	}
	if err != nil {
		return entry{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return parseStat(b)
}

// environ is the environment that a process was started with; empty if it is gone or may not be looked into.
func environ(pid int) ([]byte, error) {
	raw, err := readAt(unix.AT_FDCWD, "/proc/"+strconv.Itoa(pid)+"/environ", nil, maxEnviron)
	if gone(err) || notOurs(err) {
		return nil, nil
	}
	return raw, err
}
