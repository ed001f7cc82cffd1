package state

import (
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
	helpers["hold"] = func(args []string) error { return holdUntilTold(args[0], args[1]) }
	helpers["linger"] = func([]string) error {
		fmt.Println("here")
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	}
}

// holdUntilTold takes the lock, waiting for it at most as long as it is told, and keeps it until stdin ends.
func holdUntilTold(dir, timeout string) error {
	wait, err := time.ParseDuration(timeout)
	if err != nil {
		return err
	}
	release, held, err := Acquire(context.Background(), dir, Holder{Trigger: "timer", Since: epoch}, wait)
	if err != nil {
		return err
	}
	if held != nil {
		fmt.Println("held by", held.PID, held.Queued)
		return nil
	}
	fmt.Println("acquired")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return release()
}

func acquire(t *testing.T, dir string, timeout time.Duration) (release func() error, held *Holder) {
	t.Helper()
	release, held, err := Acquire(context.Background(), dir, Holder{Trigger: "manual", Since: epoch}, timeout)
	check(t, err)
	if (release == nil) == (held == nil) {
		t.Fatalf("release is nil: %v, held %v", release == nil, held)
	}
	return release, held
}

func TestLockTellsWhoHasIt(t *testing.T) {
	dir := newDir(t)
	cmd, lines, goOn := startHelper(t, "hold", dir, "0s")
	if !lines.Scan() || lines.Text() != "acquired" {
		t.Fatalf("the helper says %q", lines.Text())
	}
	_, held := acquire(t, dir, 0)
	if held == nil || *held != (Holder{PID: cmd.Process.Pid, Trigger: "timer", Since: epoch}) {
		t.Errorf("held by %+v", held)
	}
	before := inode(t, dir)
	goOn()
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

func TestLockEndsWithItsHolder(t *testing.T) {
	dir := newDir(t)
	cmd, lines, _ := startHelper(t, "hold", dir, "0s")
	if !lines.Scan() {
		t.Fatal("no helper")
	}
	check(t, cmd.Process.Kill())
	if err := cmd.Wait(); err == nil {
		t.Fatal("the helper ended by itself")
	}
	release, held := acquire(t, dir, 0)
	if held != nil {
		t.Fatalf("held by the dead %+v", held)
	}
	if _, held := acquire(t, dir, 0); held == nil || held.PID != os.Getpid() {
		t.Errorf("the record of the dead one stayed: %+v", held)
	}
	check(t, release())
}

func TestLockIsNotInherited(t *testing.T) {
	dir := newDir(t)
	release, _ := acquire(t, dir, 0)
	cmd, lines, goOn := startHelper(t, "linger")
	if !lines.Scan() {
		t.Fatal("no helper")
	}
	check(t, release())
	again, held := acquire(t, dir, 0)
	if held != nil {
		t.Fatal("the child holds the lock")
	}
	check(t, again())
	goOn()
	check(t, cmd.Wait())
}

func TestOneWaits(t *testing.T) {
	const several = 5
	dir := newDir(t)
	release, _ := acquire(t, dir, 0)
	answers := make(chan string, several)
	for range several {
		cmd, lines, goOn := startHelper(t, "hold", dir, "30s")
		go func() {
			lines.Scan()
			answers <- lines.Text()
			goOn()
		}()
		t.Cleanup(func() { check(t, cmd.Wait()) })
	}
	for range several - 1 {
		if got, want := <-answers, fmt.Sprint("held by ", os.Getpid(), " true"); got != want {
			t.Errorf("a further waiter says %q, want %q", got, want)
		}
	}
	check(t, release())
	if got := <-answers; got != "acquired" {
		t.Errorf("the waiter says %q", got)
	}
}

func TestWaitIsBounded(t *testing.T) {
	dir := newDir(t)
	release, _ := acquire(t, dir, 0)
	defer func() { check(t, release()) }()
	began := time.Now()
	_, held := acquire(t, dir, 60*time.Millisecond)
	if took := time.Since(began); held == nil || held.Queued || took < 60*time.Millisecond {
		t.Errorf("held %+v after %v", held, took)
	}
	ctx, cancel := context.WithCancel(context.Background())
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

const rounds = 20
