package state

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	helpers["hold"] = func(args []string) error { return holdUntilTold(args[0]) }
}

// holdUntilTold takes the lock and keeps it until stdin ends.
func holdUntilTold(dir string) error {
	release, held, err := Acquire(ctx, dir, Holder{Trigger: "timer", Since: epoch}, 0)
	if err != nil || held != nil {
		return fmt.Errorf("held by %v, %w", held, err)
	}
	fmt.Println("acquired")
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, release())
}

func acquire(t *testing.T, dir string, timeout time.Duration) (release func() error, held *Holder) {
	t.Helper()
	release, held, err := Acquire(ctx, dir, Holder{Trigger: "manual", Since: epoch}, timeout)
	check(t, err)
	if (release == nil) == (held == nil) {
		t.Fatalf("release is nil: %v, held %v", release == nil, held)
	}
	return release, held
}

func TestLockNamesItsHolder(t *testing.T) {
	dir := newDir(t)
	cmd := helper(t, "hold", dir)
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "acquired" {
		t.Fatalf("the helper says %q", lines.Text())
	}
	_, held := acquire(t, dir, 0)
	if held == nil || *held != (Holder{PID: cmd.Process.Pid, Trigger: "timer", Since: epoch}) {
		t.Errorf("held by %+v", held)
	}
	before := inode(t, dir)
	check(t, in.Close())
	check(t, cmd.Wait())
	release, held := acquire(t, dir, 0)
	if held != nil {
		t.Fatalf("still held by %+v", held)
	}
	if _, held := acquire(t, dir, 0); held == nil || held.PID != os.Getpid() {
		t.Errorf("a second handle of this process: %+v", held)
	}
	check(t, release())
	check(t, release()) // once more does no harm
	if inode(t, dir) != before {
		t.Error("the lock file was made anew")
	}
}

func inode(t *testing.T, dir string) uint64 {
	t.Helper()
	var st unix.Stat_t
	check(t, unix.Stat(filepath.Join(dir, lockName), &st))
	if st.Mode&0o777 != 0o600 {
		t.Errorf("mode of the lock file is %o", st.Mode&0o777)
	}
	return st.Ino
}

func TestWaitIsBounded(t *testing.T) {
	dir := newDir(t)
	release, _ := acquire(t, dir, 0)
	defer func() { check(t, release()) }()
	if _, held := acquire(t, dir, 60*time.Millisecond); held == nil || held.Queued {
		t.Errorf("held %+v", held)
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	_, held, err := Acquire(ctx, dir, Holder{}, time.Hour)
	if held != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: held %+v, error %v", held, err)
	}
	// The waiters that gave up are no waiters any more.
	if _, held := acquire(t, dir, time.Millisecond); held == nil || held.Queued {
		t.Errorf("held %+v", held)
	}
}
