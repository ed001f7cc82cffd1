package test

import (
	"context"
	"os"
	"os/exec" //nolint:depguard // only tests start it
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Unprivileged reports whether this process runs as a normal user, for tests that can't fail as root. As root it runs the test as
// another user, in a copy of the program and with its own temporary directory, and returns false.
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
	// By another process: a file that this one has open for writing can't be executed while a parallel test starts a program.
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
