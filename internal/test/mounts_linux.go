package test

import (
	"os"
	"os/exec" //nolint:depguard // only tests start it
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// OwnMounts runs the calling test again in a process with mounts of its own, where it returns
// true. In the first process it returns false after that. It skips the test if the system does
// not allow that.
func OwnMounts(t *testing.T) bool {
	t.Helper()
	const inside = "TEST_OWN_MOUNTS"
	if os.Getenv(inside) != "" {
		return true
	}
	again := exec.CommandContext(t.Context(), Must(os.Executable()), "-test.run=^"+t.Name()+"$", "-test.v")
	again.Env = append(os.Environ(), inside+"=1")
	again.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := again.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Skipf("no mounts of its own: %v", err)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// Bind mounts a directory at another path, too.
func Bind(t *testing.T, from, to string) {
	t.Helper()
	OK(t, os.MkdirAll(to, 0o700))
	OK(t, unix.Mount(from, to, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(to, unix.MNT_DETACH) })
}
