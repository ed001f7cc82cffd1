package proc

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// helperArg makes the test binary a helper process. It is an argument, not a variable, so that a helper can run with an empty environment.
const helperArg = "proc-helper"

// helpers are the programs that this binary can run as, by name. If one returns an error, it is printed, and the exit status is 1.
var helpers = map[string]func(args []string) error{"idle": idle, "runs": runs, "spawn": spawn}

func TestMain(m *testing.M) {
	if len(os.Args) < 3 || os.Args[1] != helperArg {
		os.Exit(m.Run())
	}
	time.AfterFunc(3*test.Patience(), func() { os.Exit(99) }) // whatever the test forgets
	if err := helpers[os.Args[2]](os.Args[3:]); err != nil {
		say("error", err)
		os.Exit(1)
	}
}

// say reports the progress of this helper to the test.
func say(words ...any) { fmt.Println(words...) }

func sayUp() error {
	h, err := Self()
	say("up", h.PID, h.Start)
	return err
}

// idle reports that it runs, and continues until the end of its stdin, if it has one. With the argument deaf it ignores SIGTERM.
func idle(args []string) error {
	if slices.Contains(args, "deaf") {
		signal.Ignore(syscall.SIGTERM)
	}
	err := sayUp()
	if _, readErr := os.Stdin.Read(make([]byte, 1)); readErr != nil && os.Getenv("IDLE_EOF") == "1" {
		return err
	}
	select {}
}

// spawn starts another helper as its child and continues to run, or ends. Its first argument lists flags:
// setsid, clear (an empty environment), keep (the tree descriptor), exit.
func spawn(args []string) error {
	flags := args[0]
	cmd := exec.Command(os.Args[0], append([]string{helperArg}, args[1:]...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if strings.Contains(flags, "clear") {
		cmd.Env = []string{}
	}
	if strings.Contains(flags, "keep") {
		cmd.ExtraFiles = ExtraFiles(os.NewFile(TreeFD, "tree"))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: strings.Contains(flags, "setsid")}
	if err := sayUp(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil || strings.Contains(flags, "exit") {
		return err
	}
	select {}
}

// helper is a running helper, with the output of it and its children.
type helper struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
	stdin *os.File
}

// start runs a helper with env added to a bare environment.
func start(t *testing.T, env []string, args ...string) *helper {
	t.Helper()
	return startAs(t, env, func(*exec.Cmd) {}, args...)
}

// startAs does so after the caller has changed the command.
func startAs(t *testing.T, env []string, change func(*exec.Cmd), args ...string) *helper {
	t.Helper()
	h := &helper{t: t, cmd: exec.Command(os.Args[0], append([]string{helperArg}, args...)...)}
	h.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	h.cmd.Stderr = os.Stderr
	inR, inW, err := os.Pipe()
	test.OK(t, err)
	outR, outW, err := os.Pipe()
	test.OK(t, err)
	h.cmd.Stdin, h.cmd.Stdout, h.stdin = inR, outW, inW
	h.lines = bufio.NewScanner(outR)
	test.OK(t, outR.SetReadDeadline(time.Now().Add(test.Patience())))
	change(h.cmd)
	test.OK(t, h.cmd.Start())
	inR.Close()
	outW.Close()
	t.Cleanup(func() {
		inW.Close()
		_ = h.cmd.Process.Kill()
		_ = h.cmd.Wait()
		outR.Close()
	})
	return h
}

// line reads the next line that begins with word, and returns the rest.
func (h *helper) line(word string) string {
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

// up reads which process has started next, and ends it after the test.
func (h *helper) up() reconcile.Process {
	h.t.Helper()
	var p reconcile.Process
	test.Must(fmt.Sscan(h.line("up"), &p.PID, &p.Start))
	h.t.Cleanup(func() { _ = Signal(p, unix.SIGKILL) })
	return p
}

// runID makes a run id that no other test has.
func runID(t *testing.T) string {
	return fmt.Sprintf("%s-%d-%d", t.Name(), os.Getpid(), time.Now().UnixNano())
}

func boot(t *testing.T) string {
	t.Helper()
	return test.Must(BootID())
}

func living(p reconcile.Process) bool { return checkSame(p) == nil }

// keepsDescriptors checks that this process has no more open descriptors at the end of the test than now.
func keepsDescriptors(t *testing.T) {
	t.Helper()
	count := func() int { return len(test.Must(os.ReadDir("/proc/self/fd"))) }
	before := count()
	t.Cleanup(func() {
		if after := count(); after > before {
			t.Errorf("%d descriptors before, %d after", before, after)
		}
	})
}

// startsWith checks the first bytes that a child writes, which it may do in several parts.
func startsWith(t *testing.T, c *Child, want string) {
	t.Helper()
	got := make([]byte, len(want))
	test.Must(io.ReadFull(c.Stdout(), got))
	test.Equal(t, "output", string(got), want)
}

// wantSaid checks that a text has parts, and that it has not others.
func wantSaid(t *testing.T, text string, parts []string, not ...string) {
	t.Helper()
	test.Contains(t, "the text", text, parts...)
	test.Lacks(t, "the text", text, not...)
}

// wantAllEnded ends the processes of an owner.
func wantAllEnded(t *testing.T, o Owner, grace time.Duration) {
	t.Helper()
	test.Equal(t, "left", pids(test.Must(KillTree(t.Context(), o, grace))), nil)
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user's")
	}
}
