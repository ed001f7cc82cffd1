package proc

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// LimitReached reports whether the system gave no further descriptor, process or memory: the machine's fault, and no
// reason to try the same again at once. (EAGAIN is what fork says. A lock or a stream that has to wait says it too, but
// is waited for where it does.)
func LimitReached(err error) bool {
	for _, limit := range []error{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM} {
		if errors.Is(err, limit) {
			return true
		}
	}
	return false
}

// LimitHint says what to do about one.
const LimitHint = "raise the limits of open files (ulimit -n) and processes (ulimit -u); nothing is lost meanwhile"

// What a pass, a worker and an agent need at the least, with room to spare: below it the first to need one more than
// there are would fail in its middle, wherever that is.
const (
	leastFiles     = 64
	leastProcesses = 64
)

// CheckLimits says which limit of this process is too low to begin anything.
func CheckLimits() error {
	for _, l := range []struct {
		what, flag string
		resource   int
		least      uint64
	}{
		{"files may be open at once", "-n", unix.RLIMIT_NOFILE, leastFiles},
		{"processes and threads may run at once", "-u", unix.RLIMIT_NPROC, leastProcesses},
	} {
		if l.resource == unix.RLIMIT_NPROC && os.Geteuid() == 0 {
			continue // it does not bind root
		}
		var have unix.Rlimit
		if err := unix.Getrlimit(l.resource, &have); err != nil {
			return fmt.Errorf("look at the limits: %w", err)
		}
		if have.Cur < l.least {
			return fmt.Errorf("only %d %s (ulimit %s); at least %d are needed: %w", have.Cur, l.what, l.flag, l.least, syscall.EMFILE)
		}
	}
	return nil
}

// ThreadsRefused reports whether a program of Go's has died because the system gave it no thread: nobody but its last
// words, which end in its log, says so.
func ThreadsRefused(lastWords string) bool {
	return strings.Contains(lastWords, "failed to create new OS thread") || strings.Contains(lastWords, "pthread_create failed")
}
