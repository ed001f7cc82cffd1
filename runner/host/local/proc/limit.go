package proc

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// CheckLimits fails if a limit of this process is lower than what a pass, a worker and an agent need. They would fail
// later otherwise, wherever they are.
func CheckLimits() error {
	const least = 64
	var files, processes unix.Rlimit
	if err := errors.Join(unix.Getrlimit(unix.RLIMIT_NOFILE, &files), unix.Getrlimit(unix.RLIMIT_NPROC, &processes)); err != nil {
		return fmt.Errorf("look at the limits: %w", err)
	}
	what, limit := "files may be open at once (ulimit -n)", files.Cur
	if limit >= least && os.Geteuid() != 0 { // the other does not bind root
		what, limit = "processes and threads may run at once (ulimit -u)", processes.Cur
	}
	if limit < least {
		return fmt.Errorf("only %d %s; at least %d are needed: %w", limit, what, least, syscall.EMFILE)
	}
	return nil
}

// ThreadsRefused reports whether the log of a Go program says that it died because the system gave it no thread.
func ThreadsRefused(log string) bool {
	return strings.Contains(log, "failed to create new OS thread") || strings.Contains(log, "pthread_create failed")
}
