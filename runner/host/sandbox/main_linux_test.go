//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/test"
)

// withoutVar lists the walls and calls that Init leaves out in a test, such as "wall:keyring".
const withoutVar = "SANDBOX_TEST_WITHOUT"

// TestMain runs the tests, or plays symphony or another program in a sandbox.
func TestMain(m *testing.M) {
	roles := map[string]func(args []string) int{
		InitCommand: playInit,
		"attack":    playAttack,
		"with-key":  playWithKey,
		"program":   playProgram,
	}
	if len(os.Args) < 2 || roles[os.Args[1]] == nil {
		os.Exit(m.Run())
	}
	time.AfterFunc(test.Patience(), func() { os.Exit(99) }) // whatever the test forgets
	os.Exit(roles[os.Args[1]](os.Args[2:]))
}

// playInit is symphony sandbox-init, but for what the test leaves out.
func playInit(args []string) int {
	o, err := ParseInit(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return ExitInitFailed
	}
	left := os.Getenv(withoutVar)
	os.Unsetenv(withoutVar)
	if left == "" {
		code, err := Init(o)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return code
	}
	without := strings.Split(left, ",")
	var calls []systemCall
	for _, call := range refusedCalls() {
		if !slices.Contains(without, "call:"+call.name) {
			calls = append(calls, call)
		}
	}
	var built []wall
	for _, w := range walls(o) {
		if w.name == "filter" {
			w.build = func() error { return obey(newFilter(calls)) }
		}
		if !slices.Contains(without, "wall:"+w.name) {
			built = append(built, w)
		}
	}
	code, err := initWith(o, built)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return code
}

// keyName is the description of a key that a test gives to the worker.
const keyName = "symphony-sandbox-test"

// playWithKey starts a program in a session whose keyring contains a key.
func playWithKey(args []string) int {
	runtime.LockOSThread()
	test.OK(panics{}, joinNewKeyring())
	test.Must(unix.AddKey("user", keyName, []byte("secret"), unix.KEY_SPEC_SESSION_KEYRING))
	path := test.Must(exec.LookPath(args[0]))
	fmt.Fprintln(os.Stderr, unix.Exec(path, args, os.Environ()))
	return 1
}

// scene is a box of a test, in a directory that also contains what the box does not show.
type scene struct {
	t   *testing.T
	dir string
	box Box

	env   []string
	files []*os.File // that bubblewrap inherits, from descriptor 3 on
	stdin *os.File   // a terminal, which becomes the controlling one
	start []string   // a program and its arguments that start bubblewrap
}

func newScene(t *testing.T) *scene {
	t.Helper()
	needBubblewrap(t)
	dir := test.Must(filepath.EvalSymlinks(t.TempDir()))
	s := &scene{t: t, dir: dir, box: Box{
		Workspace: filepath.Join(dir, "workspaces", "ABC-1"),
		Home:      filepath.Join(dir, "home"),
		Temp:      filepath.Join(dir, "run", "tmp"),
		Agents:    []string{filepath.Join(dir, "workspaces")},
		Program:   test.Must(os.Executable()),
	}}
	for _, made := range []string{s.box.Workspace, s.box.Home, s.box.Temp} {
		test.OK(t, os.MkdirAll(made, 0o700))
	}
	test.Write(t, filepath.Join(dir, "outside", "secret"), "the secret\n")
	return s
}

// needBubblewrap skips a test on a machine where no sandbox can be made.
func needBubblewrap(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath(bubblewrap)
	if err != nil && test.All() {
		t.Fatal("install bubblewrap: ", err)
	}
	if err != nil {
		t.Skip("install bubblewrap to run this test: ", err)
	}
	probe := exec.Command(
		bubblewrap, "--unshare-user", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "--proc", "/proc", "true",
	)
	out, err := probe.CombinedOutput()
	if err != nil {
		t.Skipf("user namespaces are off here: %s", out)
	}
}

// command returns bubblewrap with other arguments in the place of some, for the command of the
// box.
func (s *scene) command(changes ...change) *exec.Cmd {
	s.t.Helper()
	args, err := Prepare(s.box)
	test.OK(s.t, err)
	for _, c := range changes {
		args = c.apply(s.t, args)
	}
	argv := slices.Concat(s.start, []string{bubblewrap}, args)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + s.box.Home,
		"GORACE=atexit_sleep_ms=0", // with the race detector each process would end a second later
	}, s.env...)
	cmd.Dir = "/"
	cmd.ExtraFiles = s.files
	if s.stdin != nil {
		cmd.Stdin = s.stdin
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	}
	return cmd
}

// change replaces arguments of bubblewrap.
type change struct{ from, to string }

func (c change) apply(t *testing.T, args []string) []string {
	t.Helper()
	from := strings.Fields(c.from)
	for i := range args {
		if i+len(from) <= len(args) && slices.Equal(args[i:i+len(from)], from) {
			return slices.Concat(args[:i], strings.Fields(c.to), args[i+len(from):])
		}
	}
	t.Fatalf("no %q in %q", c.from, args)
	return nil
}

// held reports whether a process holds the lock of a file.
func held(t *testing.T, path string) bool {
	t.Helper()
	f := test.Must(os.Open(path))
	defer f.Close()
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if !errors.Is(err, unix.EWOULDBLOCK) {
		test.OK(t, err)
	}
	return err != nil
}
