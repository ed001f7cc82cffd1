package proc

import (
	"errors"
	"net"
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
	controlErr := raw.Control(func(fd uintptr) { pid, err = peerPID(int(fd)) })
	return pid, errors.Join(controlErr, err)
}
