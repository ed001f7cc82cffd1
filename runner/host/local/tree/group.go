package tree

import (
	"context"
	"os/exec"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/runner/proc"
)

// groupGrace is the time between SIGTERM and SIGKILL for a process group.
const groupGrace = 2 * time.Second

// WaitGroup waits for the end of a command that was started as the leader of a process group. If ctx ends, or after timeout, it ends
// the group, and returns the error of ctx, or that of late, which it calls before.
func WaitGroup(ctx context.Context, cmd *exec.Cmd, timeout time.Duration, late func() error) error {
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	var err error
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = late()
	}
	endGroup(cmd.Process.Pid, groupGrace)
	select {
	case <-done: //nolint:errcheck // the status of a killed command has no meaning
	case <-time.After(closeWait): // a hung file system; it is reported when the processes of the run are ended
	}
	return err
}

// endGroup ends a process group: with SIGTERM, so that its programs can remove their lock files, and after grace with SIGKILL. The
// leader must be a child of this process. endGroup does not wait for zombies, which may remain in the group for long.
func endGroup(leader int, grace time.Duration) {
	_, _ = unix.Kill(-leader, unix.SIGTERM), unix.Kill(-leader, unix.SIGCONT)
	for end := time.Now().Add(grace); time.Now().Before(end); time.Sleep(killStep) {
		living, err := proc.Scan()
		if err == nil && !slices.ContainsFunc(living, func(e proc.Entry) bool { return e.Group == leader }) {
			break
		}
	}
	_ = unix.Kill(-leader, unix.SIGKILL) // fails if the group is empty
}
