package proc

import "golang.org/x/sys/unix"

func peerPID(socket int) (int, error) {
	peer, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(peer.Pid), nil
}
