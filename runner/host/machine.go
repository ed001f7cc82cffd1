package host

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
)

// CodeDiskFull is the code of an error caused by a full disk.
const CodeDiskFull = "disk_full"

// CodeUntrusted: no hook may run in a workspace, see GitRestored.Untrusted.
const CodeUntrusted = "workspace_untrusted"

// WithCode adds the code to an error caused by the machine: a full disk or a limit of the system. It returns other errors unchanged.
// What stores, prints or sends an error calls it, since any operation of a machine may meet these.
func WithCode(err error) error {
	switch {
	case err == nil, errors.As(err, new(*reconcile.Error)):
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return &reconcile.Error{Code: CodeDiskFull, Message: err.Error(), Hint: "free some space; no work is lost", Err: err}
	case LimitReached(err):
		const hint = "raise the limits of open files (ulimit -n) and processes (ulimit -u); no work is lost"
		return &reconcile.Error{Code: reconcile.CodeResourceLimit, Message: err.Error(), Hint: hint, Err: err}
	}
	return err
}

// LimitReached reports whether the system refused a further descriptor, process or memory. That is the machine's fault, and
// an immediate retry would fail too. (fork returns EAGAIN. Locks and streams return it as well, but their callers wait.)
func LimitReached(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOMEM)
}

// The environment variables that mark the processes of a run.
const (
	RunMark    = "SYMPHONY_RUN_ID" // forced into agents, hooks and agents' commands
	ThreadMark = "CODEX_THREAD_ID" // set by codex for each command of a thread
)

// Scrub returns env ("NAME=value" entries) without the variables of a run and without those named in drop. Other runs must not
// see them: a worker that inherited ThreadMark, for example, would count as a process of that thread's run.
func Scrub(env []string, drop ...string) []string {
	drop = append([]string{RunMark, ThreadMark, "SYMPHONY_ATTEMPT", "SYMPHONY_WORKSPACE", "SYMPHONY_OUTCOME"}, drop...)
	kept := append([]string{}, env...) // never nil: os/exec replaces nil by this process's environment
	return slices.DeleteFunc(kept, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return strings.HasPrefix(name, "SYMPHONY_ISSUE_") || slices.Contains(drop, name)
	})
}
