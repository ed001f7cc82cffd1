package sandbox

import "golang.org/x/sys/unix"

const (
	architecture = unix.AUDIT_ARCH_X86_64
	// foreignCalls and larger numbers are calls of x32, which have other numbers and arguments.
	foreignCalls = 1 << 30
)

var refusedHere = []systemCall{
	{"iopl", unix.SYS_IOPL},
	{"ioperm", unix.SYS_IOPERM},
	{"uselib", unix.SYS_USELIB},
}
