package proc

import (
	"os"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	sigKill    = unix.SIGKILL
	lockShared = unix.LOCK_SH
)

func newSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// setUp makes a helper deaf to SIGTERM where asked to.
func setUp(args []string) {
	if slices.Contains(args, "deaf") {
		signal.Ignore(syscall.SIGTERM)
	}
}

func notify(c chan<- os.Signal, sigs ...os.Signal) { signal.Notify(c, sigs...) }
