package host

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
)

// CodeDiskFull is the code of an error that a full disk has caused.
const CodeDiskFull = "disk_full"

// WithCode gives a fault of the machine, a full disk or a limit of the system, its code. Other errors stay as they are.
func WithCode(err error) error {
	var known *reconcile.Error
	switch {
	case err == nil, errors.As(err, &known):
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return &reconcile.Error{Code: CodeDiskFull, Message: err.Error(), Hint: "free some space; nothing is lost meanwhile", Err: err}
	case LimitReached(err):
		const hint = "raise the limits of open files (ulimit -n) and processes (ulimit -u); nothing is lost meanwhile"
		return &reconcile.Error{Code: reconcile.CodeResourceLimit, Message: err.Error(), Hint: hint, Err: err}
	}
	return err
}

// LimitReached reports whether the system refused a further descriptor, process or memory: the machine's fault, and no
// reason to try again at once. (EAGAIN is the answer of fork. Locks and streams return it too, but their callers wait.)
func LimitReached(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOMEM)
}

// The environment variables by which a process is known to belong to a run.
const (
	RunMark    = "SYMPHONY_RUN_ID" // forced into agents, hooks and agents' commands
	ThreadMark = "CODEX_THREAD_ID" // set by codex for each command of a thread
)

// Scrub returns env ("NAME=value" entries) without the variables of a run, which no other run may see, and without those named in
// drop. ThreadMark is one of them: a worker that inherited it would count as a process of that thread's run.
func Scrub(env []string, drop ...string) []string {
	drop = append([]string{RunMark, ThreadMark, "SYMPHONY_ATTEMPT", "SYMPHONY_WORKSPACE", "SYMPHONY_OUTCOME"}, drop...)
	kept := append([]string{}, env...) // never nil: for os/exec a nil environment is its own
	return slices.DeleteFunc(kept, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return strings.HasPrefix(name, "SYMPHONY_ISSUE_") || slices.Contains(drop, name)
	})
}
