package proc

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func run(t *testing.T, x Exec) *Child {
	t.Helper()
	c, err := x.Start()
	must(t, err)
	t.Cleanup(func() {
		_, err := c.Close()
		must(t, err)
		noGoroutines(t)
	})
	return c
}

func sh(script string) []string { return []string{"sh", "-c", script} }

func waitFor(t *testing.T, c *Child) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	must(t, c.Wait(ctx))
}

func TestExecStreams(t *testing.T) {
	dir := t.TempDir()
	c := run(t, Exec{Argv: sh(`read l; echo "out $l $A"; pwd; echo err >&2; env; exit 4`), Env: []string{"A=b"}, Dir: dir, PipeStdin: true})
	_, err := io.WriteString(c.Stdin, "hello\n")
	must(t, err)
	must(t, c.Stdin.Close())
	out, err := io.ReadAll(c.Stdout)
	must(t, err)
	errs, err := io.ReadAll(c.Stderr)
	must(t, err)
	if got := string(out); !strings.HasPrefix(got, "out hello b\n"+dir+"\n") || strings.Contains(got, "HOME=") {
		t.Errorf("stdout: %s", got)
	}
	if string(errs) != "err\n" {
		t.Errorf("stderr: %q", errs)
	}
	waitFor(t, c)
	for range 2 { // closing again changes nothing
		state, err := c.Close()
		must(t, err)
		if state.ExitCode() != 4 {
			t.Errorf("%v", state)
		}
	}
	if err := c.KillGroup(unix.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("kill after close: %v", err)
	}
}

func TestExecToFiles(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "hook.log"))
	must(t, err)
	defer f.Close()
	c := run(t, Exec{Argv: sh(`cat; echo out; echo err >&2`), Stdout: f, Stderr: f})
	if c.Stdin != nil || c.Stdout != nil || c.Stderr != nil {
		t.Error("pipes that were not asked for")
	}
	waitFor(t, c)
	b, err := os.ReadFile(f.Name())
	must(t, err)
	if string(b) != "out\nerr\n" {
		t.Errorf("%q", b)
	}
	_, err = f.WriteString("ours still")
	must(t, err)
}

// A hook that leaves a process in the background counts as ended. The process holds its pipes and can still be killed
// with the group.
func TestExecEndsWhilePipesStayOpen(t *testing.T) {
	c := run(t, Exec{Argv: sh(`sleep 60 & echo $!; exit 0`)})
	waitFor(t, c)
	line, err := bufio.NewReader(c.Stdout).ReadString('\n')
	must(t, err)
	left := atoi(t, strings.TrimSpace(line))
	e, err := statOf(left)
	must(t, err)
	p := e.process()
	t.Cleanup(func() { _ = Signal(p, unix.SIGKILL) })
	if !living(p) {
		t.Fatal("the background process ended by itself")
	}
	if e, err := statOf(c.Process().PID); err != nil || !e.dead {
		t.Fatalf("the leader was reaped too early: %+v, %v", e, err)
	}
	must(t, c.KillGroup(unix.SIGKILL))
	eventually(t, "the background process to end", func() bool { return !living(p) })
}

func TestExecGroupIsItsOwn(t *testing.T) {
	c := run(t, Exec{Argv: sh(`trap '' TERM; echo up; sleep 60 & wait`)})
	_, err := bufio.NewReader(c.Stdout).ReadString('\n')
	must(t, err)
	group, err := unix.Getpgid(c.Process().PID)
	must(t, err)
	if group != c.Process().PID {
		t.Errorf("group %d of %d", group, c.Process().PID)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	must(t, Signal(c.Process(), unix.SIGTERM)) // it is deaf
	if err := c.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("wait: %v", err)
	}
	state, err := c.Close() // kills what still runs
	must(t, err)
	if state.String() != "signal: killed" {
		t.Errorf("%v", state)
	}
}

func TestExecHoldsTheLease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lease")
	lease, err := os.Create(path)
	must(t, err)
	must(t, flock(lease, unix.LOCK_EX))
	c := run(t, Exec{Argv: sh(`ls -l /proc/self/fd/3; echo up; cat`), PipeStdin: true, Lease: lease})
	r := bufio.NewReader(c.Stdout)
	line, err := r.ReadString('\n')
	must(t, err)
	if !strings.Contains(line, path) {
		t.Errorf("descriptor 3 is %s", line)
	}
	must(t, lease.Close())
	other, err := os.Open(path)
	must(t, err)
	defer other.Close()
	if err := flock(other, unix.LOCK_EX); !errors.Is(err, ErrHeld) {
		t.Errorf("the lease is free: %v", err)
	}
	must(t, c.Stdin.Close())
	waitFor(t, c)
	must(t, flock(other, unix.LOCK_EX))
}

func TestExecInheritsNothingElse(t *testing.T) {
	stray, err := os.Open("/etc/hostname")
	must(t, err)
	defer stray.Close()
	must(t, unix.Dup3(int(stray.Fd()), 62, 0))
	defer unix.Close(62)
	c := run(t, Exec{Argv: sh(`ls -l /proc/$$/fd`)})
	out, err := io.ReadAll(c.Stdout)
	must(t, err)
	if strings.Contains(string(out), "hostname") {
		t.Errorf("%s", out)
	}
	if n := strings.Count(string(out), " -> "); n != 3 {
		t.Errorf("%d descriptors:\n%s", n, out)
	}
}

func TestExecImpossible(t *testing.T) {
	before := descriptors(t)
	for name, c := range map[string]struct {
		x    Exec
		want error
	}{
		"not in PATH":  {Exec{Argv: []string{"no-such-program-here"}}, exec.ErrNotFound},
		"no such file": {Exec{Argv: []string{"/nowhere/codex"}, PipeStdin: true}, fs.ErrNotExist},
		"no directory": {Exec{Argv: sh("true"), Dir: "/nowhere"}, fs.ErrNotExist},
	} {
		if _, err := c.x.Start(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (Exec{}).Start(); err == nil {
		t.Error("no command: no error")
	}
	if _, err := (Exec{Argv: sh("true"), Stdin: os.Stdin, PipeStdin: true}).Start(); err == nil {
		t.Error("two stdins: no error")
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}
