//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Versions of Landlock, the kernel's restrictions that a process puts on itself.
const (
	landlockWithMoves  = 2 // Linux 5.19; older ones let no file be moved to another directory
	landlockWithScopes = 6 // Linux 6.12
)

// keepSocketsIn lets the sandbox make sockets only below some directories, which no other run
// can write. Two runs with a socket in a directory of both, such as the agent's home, could pass
// each other open directories: one would change git's settings in the workspace of the other
// after symphony has looked at them. The same is true of abstract sockets on the network of the
// machine, if the kernel can keep them apart.
func keepSocketsIn(dirs []string) error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		version = 0
	}
	if version < landlockWithMoves {
		return errors.New(noLandlock)
	}
	handled := unix.LandlockRulesetAttr{
		Handled_access_fs: unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_REFER,
	}
	if version >= landlockWithScopes {
		handled.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	ruleset, _, errno := unix.Syscall(
		unix.SYS_LANDLOCK_CREATE_RULESET,
		uintptr(unsafe.Pointer(&handled)),
		unsafe.Sizeof(handled),
		0,
	)
	if errno != 0 {
		return os.NewSyscallError("make rules for files", errno)
	}
	defer unix.Close(int(ruleset))
	// Without a rule for moves, Landlock lets no file be moved to another directory.
	if err := addRule(int(ruleset), "/", unix.LANDLOCK_ACCESS_FS_REFER); err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := addRule(int(ruleset), dir, unix.LANDLOCK_ACCESS_FS_MAKE_SOCK); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("give up new privileges", err)
	}
	_, _, errno = unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0)
	if errno != 0 {
		return os.NewSyscallError("obey the rules for files", errno)
	}
	return nil
}

// addRule adds a rule to a ruleset: it allows something in a directory and below.
func addRule(ruleset int, dir string, access uint64) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(
		unix.SYS_LANDLOCK_ADD_RULE,
		uintptr(ruleset),
		unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)),
		0, 0, 0,
	)
	if errno != 0 {
		return os.NewSyscallError("add a rule about "+dir, errno)
	}
	return nil
}
