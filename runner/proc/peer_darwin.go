package proc

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// PeerPID returns the process at the other end of a Unix socket.
func PeerPID(conn net.Conn) (pid int, err error) {
	socket, isUnix := conn.(*net.UnixConn)
	if !isUnix {
		return 0, errors.ErrUnsupported
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	controlErr := raw.Control(func(fd uintptr) { pid, err = unix.GetsockoptInt(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERPID) })
	return pid, errors.Join(controlErr, err)
}
