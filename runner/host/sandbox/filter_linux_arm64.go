package sandbox

import "golang.org/x/sys/unix"

const (
	architecture = unix.AUDIT_ARCH_AARCH64
	// foreignCalls and larger numbers are no calls.
	foreignCalls = 1 << 30
)

var refusedHere []systemCall
