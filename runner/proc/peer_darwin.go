package proc

import "golang.org/x/sys/unix"

func peerPID(socket int) (int, error) {
	return unix.GetsockoptInt(socket, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
}
