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
	controlErr := raw.Control(func(fd uintptr) {
		var peer *unix.Ucred
		if peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(peer.Pid)
		}
	})
	return pid, errors.Join(controlErr, err)
}
