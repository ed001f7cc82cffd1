// Package proctest runs helper processes for the tests of processes.
package proctest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// HelperArg makes the test binary a helper process. It is an argument, not a variable, so that
// a helper can run with an empty environment.
const HelperArg = "proc-helper"

// Helpers are the programs that this binary can run as, by name. An error that they return is
// printed, and the exit status is 1.
var Helpers = map[string]func(args []string) error{"idle": Idle}

// Main runs the tests, or a helper if the arguments name it.
func Main(m *testing.M) {
	if len(os.Args) < 3 || os.Args[1] != HelperArg {
		os.Exit(m.Run())
	}
	time.AfterFunc(3*test.Patience(), func() { os.Exit(99) }) // whatever the test forgets
	if err := Helpers[os.Args[2]](os.Args[3:]); err != nil {
		Say("error", err)
		os.Exit(1)
	}
}

// Say reports the progress of this helper to the test.
func Say(words ...any) { fmt.Println(words...) }

// SayUp tells the test which process this is.
func SayUp() error {
	Say("up", os.Getpid(), startOf(os.Getpid()))
	return nil
}

// startOf returns the start time of a process, 0 if it ended.
func startOf(pid int) (start uint64) {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	if fields := strings.Fields(rest); len(fields) > 19 && fields[0] != "Z" {
		start, _ = strconv.ParseUint(fields[19], 10, 64)
	}
	return start
}

// Idle reports that it runs, and continues until the end of its stdin, if any. With the
// argument deaf it ignores SIGTERM.
func Idle(args []string) error {
	if slices.Contains(args, "deaf") {
		signal.Ignore(syscall.SIGTERM)
	}
	err := SayUp()
	if _, readErr := os.Stdin.Read(make([]byte, 1)); readErr != nil && os.Getenv("IDLE_EOF") == "1" {
		return err
	}
	select {}
}

// Helper is a running helper, with the output of it and its children.
type Helper struct {
	t     *testing.T
	Cmd   *exec.Cmd
	lines *bufio.Scanner
	Stdin *os.File
}

// Start runs a helper with env added to a bare environment.
func Start(t *testing.T, env []string, args ...string) *Helper {
	t.Helper()
	return StartAs(t, env, func(*exec.Cmd) {}, args...)
}

// StartAs does so after the caller changed the command.
func StartAs(t *testing.T, env []string, change func(*exec.Cmd), args ...string) *Helper {
	t.Helper()
	h := &Helper{
		t:   t,
		Cmd: exec.CommandContext(t.Context(), os.Args[0], append([]string{HelperArg}, args...)...),
	}
	h.Cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	h.Cmd.Stderr = os.Stderr
	inR, inW, err := os.Pipe()
	test.OK(t, err)
	outR, outW, err := os.Pipe()
	test.OK(t, err)
	h.Cmd.Stdin = inR
	h.Cmd.Stdout = outW
	h.Stdin = inW
	h.lines = bufio.NewScanner(outR)
	test.OK(t, outR.SetReadDeadline(time.Now().Add(test.Patience())))
	change(h.Cmd)
	test.OK(t, h.Cmd.Start())
	inR.Close()
	outW.Close()
	t.Cleanup(func() {
		inW.Close()
		_ = h.Cmd.Process.Kill()
		_ = h.Cmd.Wait()
		outR.Close()
	})
	return h
}

// Line reads the next line that begins with word, and returns the rest.
func (h *Helper) Line(word string) string {
	h.t.Helper()
	if !h.lines.Scan() {
		h.t.Fatalf("helper ended without saying %q (%v)", word, h.lines.Err())
	}
	rest, ok := strings.CutPrefix(h.lines.Text(), word)
	if !ok {
		h.t.Fatalf("helper said %q, not %q", h.lines.Text(), word)
	}
	return strings.TrimSpace(rest)
}

// Up reads which process started next, and ends it after the test.
func (h *Helper) Up() reconcile.Process {
	h.t.Helper()
	var p reconcile.Process
	test.Must(fmt.Sscan(h.Line("up"), &p.PID, &p.Start))
	h.t.Cleanup(func() {
		if Living(p) {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
	})
	return p
}

// RunID makes a run id that no other test uses.
func RunID(t *testing.T) string {
	return fmt.Sprintf("%s-%d-%d", t.Name(), os.Getpid(), time.Now().UnixNano())
}

// Living reports whether a process is alive.
func Living(p reconcile.Process) bool { return startOf(p.PID) == p.Start }

// KeepsDescriptors checks that this process holds no more open descriptors at the end of the
// test than now.
func KeepsDescriptors(t *testing.T) {
	t.Helper()
	count := func() int { return len(test.Must(os.ReadDir("/proc/self/fd"))) }
	before := count()
	t.Cleanup(func() {
		if after := count(); after > before {
			t.Errorf("%d descriptors before, %d after", before, after)
		}
	})
}

// NeedsRoot skips a test unless it runs as root.
func NeedsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user's")
	}
}

// hiddenUID is a user that sees only its processes in a /proc with hidepid.
const hiddenUID = 20790

// AmongHidden runs a helper as another user where /proc hides the processes of others, after
// the shell commands in before.
func AmongHidden(t *testing.T, hidepid, before string, helper ...string) string {
	t.Helper()
	NeedsRoot(t)
	program := filepath.Join(t.TempDir(), "helper")
	test.OK(t, exec.CommandContext(t.Context(), "cp", os.Args[0], program).Run())
	for dir := filepath.Dir(program); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		test.OK(t, os.Chmod(dir, 0o755))
	}
	script := fmt.Sprintf(`mount -o remount,hidepid=%[1]s /proc || exit 77
as() { setpriv --reuid %[2]d --regid %[2]d --clear-groups "$@"; }
%[3]s
as "$@"`, hidepid, hiddenUID, before)
	cmd := exec.CommandContext(t.Context(), "unshare", append([]string{
		"--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", script, "-", program, HelperArg,
	}, helper...)...)
	var said strings.Builder
	cmd.Dir = "/"
	cmd.Stderr = &said // a test that measures its coverage adds to this
	out, err := cmd.Output()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() == 77 ||
		strings.Contains(said.String(), "unshare: ") {
		t.Skipf("no /proc of our own to be had: %v: %s", err, said.String())
	}
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, said.String())
	}
	return strings.TrimSpace(string(out))
}

// SideBySide calls do so many times in each of eight goroutines, to provoke a race.
func SideBySide(times int, do func() error) error {
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			for range times {
				errs[i] = errors.Join(errs[i], do())
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
