// Package test contains the checks that tests of all packages share.
package test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec" //nolint:depguard // only tests start it
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// OK ends the test if err is not nil. It also takes the T of a property test.
func OK(t interface {
	Helper()
	Fatal(args ...any)
}, err error,
) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Must returns v, and panics if err is not nil.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Err returns the error of a call alone.
func Err[T any](_ T, err error) error { return err }

// Map returns f of each element of list.
func Map[T, U any](list []T, f func(T) U) (of []U) {
	for _, v := range list {
		of = append(of, f(v))
	}
	return of
}

// Equal reports the differences between got and want as an error of the test.
func Equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Contains reports each of the parts that text does not contain as an error of the test.
func Contains(t testing.TB, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s: no %q in\n%s", what, part, text)
		}
	}
}

// Lacks reports each of the parts that text contains as an error of the test.
func Lacks(t testing.TB, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("%s: %q is in\n%s", what, part, text)
		}
	}
}

// ErrorIs reports an error that does not wrap target as an error of the test.
func ErrorIs(t testing.TB, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: error is %v, want %v", what, err, target)
	}
}

// Run runs a command and returns its output, without the white space around it. If the command
// fails, it ends the test.
func Run(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// Read returns the content of a file.
func Read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	OK(t, err)
	return string(text)
}

// Write writes a file, and makes the directories above it.
func Write(t testing.TB, path, content string) {
	t.Helper()
	OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
	OK(t, os.WriteFile(path, []byte(content), 0o600))
}

// Exists reports whether there is something at the path, be it a link that leads nowhere.
func Exists(t testing.TB, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	if !errors.Is(err, fs.ErrNotExist) {
		OK(t, err)
	}
	return err == nil
}

// Unprivileged reports whether this process runs as a normal user, for tests that can't fail
// as root. As root it runs the test as another user, in a copy of the program and with its own
// temporary directory, and returns false.
func Unprivileged(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return true
	}
	const other = 65534
	dir, err := os.MkdirTemp("", "symphony-other-") //nolint:usetesting // the other user can't enter t.TempDir
	OK(t, err)
	t.Cleanup(func() { OK(t, os.RemoveAll(dir)) })
	exe, err := os.Executable()
	OK(t, err)
	OK(t, os.Chmod(dir, 0o755))
	copied := filepath.Join(dir, "symphony.test")
	// By another process: a file that this process holds open for writing can't be executed
	// while a parallel test starts a program.
	OK(t, exec.CommandContext(t.Context(), "install", "-m", "755", exe, copied).Run())
	temp := filepath.Join(dir, "tmp")
	OK(t, os.Mkdir(temp, 0o700))
	OK(t, os.Chown(temp, other, other))
	ctx, cancel := context.WithTimeout(t.Context(), Patience())
	defer cancel()
	cmd := exec.CommandContext(ctx, copied, "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Dir = temp
	cmd.Env = []string{"TMPDIR=" + temp, "HOME=" + temp, "PATH=" + os.Getenv("PATH")}
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "SYMPHONY_TEST") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: other, Gid: other}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("as another user: %v\n%s", err, out)
	}
	return false
}

// All reports whether the slow tests run, which need minutes: after a commit, in CI. The
// variable SYMPHONY_TEST is then "all", or "each", which also tries every combination of
// deaths and all stored seeds. Without it, the tests before a commit run.
func All() bool { return os.Getenv("SYMPHONY_TEST") == "all" || Each() }

// Each reports whether tests also try combinations that need hours. See [All].
func Each() bool { return os.Getenv("SYMPHONY_TEST") == "each" }

// Expensive skips a test that does not run before a commit. See [All].
func Expensive(t testing.TB) {
	t.Helper()
	if !All() {
		t.Skip("set SYMPHONY_TEST=all to run this test")
	}
}

// Patience is the limit of every wait of a test: two minutes, times SYMPHONY_TEST_PATIENCE, a
// number above 0. A test that needs less on a slow and busy machine ends sooner, because it
// waits for a state.
func Patience() time.Duration {
	factor := 1.0
	if text := os.Getenv("SYMPHONY_TEST_PATIENCE"); text != "" {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || f <= 0 {
			panic(fmt.Sprintf("SYMPHONY_TEST_PATIENCE is %q: must be a number above 0", text))
		}
		factor = f
	}
	return time.Duration(factor * float64(2*time.Minute))
}

// Until waits until holds returns true. After [Patience] it fails the test.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience()); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %s for %s", Patience(), what)
		}
	}
}
