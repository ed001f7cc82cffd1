package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The steps of a filter for system calls.
var (
	loadNumber   = unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}        // of the call
	loadFirst    = unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16} // the lower half of its first argument
	allow        = unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	notPermitted = unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}
	notKnown     = unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)}
)

// unless goes over so many steps where what was loaded is another number; withBits where it has none of the bits.
func unless(number uint32, over uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: number, Jf: over}
}

func withBits(bits uint32, over uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: bits, Jf: over}
}

// withoutPidfds becomes the program named, for which no process can be held fast: the seccomp profiles of older
// containers forbid the call that does it, as kernels before it do not know it.
func withoutPidfds() {
	becomeFiltered([]unix.SockFilter{loadNumber, unless(unix.SYS_PIDFD_OPEN, 1), notPermitted, allow})
}

// withoutNamespaces becomes the program named, which can make no user namespace and so no sandbox: that is how containers
// are set up that are not told otherwise. Of the call that hides its flags in memory they say that there is none.
func withoutNamespaces() {
	becomeFiltered([]unix.SockFilter{
		loadNumber,
		unless(unix.SYS_UNSHARE, 1), notPermitted,
		unless(unix.SYS_CLONE3, 1), notKnown,
		unless(unix.SYS_CLONE, 3), loadFirst, withBits(unix.CLONE_NEWUSER, 1), notPermitted,
		allow,
	})
}

// becomeFiltered becomes the program that the arguments name, with a filter on its system calls and on those of all that
// it starts.
func becomeFiltered(program []unix.SockFilter) {
	runtime.LockOSThread() // what is forbidden to this thread is to the program that it becomes
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	path, err := exec.LookPath(os.Args[1])
	if err == nil {
		err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	}
	if err == nil {
		err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0)
	}
	if err == nil {
		err = unix.Exec(path, os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(77)
}
