package sandbox

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Listen makes the socket of a proxy. Only this account may connect to it. The address of a
// socket has at most 107 bytes, so that its directory is named by a descriptor.
func Listen(path string) (net.Listener, error) {
	dir, err := os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("the directory of a socket: %w", err)
	}
	defer dir.Close()
	short := filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), filepath.Base(path))
	address := &net.UnixAddr{Name: short, Net: "unix"}
	listener, err := net.ListenUnix("unix", address)
	if err != nil {
		return nil, fmt.Errorf("make the socket %s: %w", path, err)
	}
	listener.SetUnlinkOnClose(false) // by that name, which is gone
	if err := os.Chmod(path, 0o600); err != nil {
		_ = listener.Close()
		return nil, fmt.Errorf("make the socket %s: %w", path, err)
	}
	return namedListener{listener, path}, nil
}

// namedListener removes its socket when it is closed.
type namedListener struct {
	net.Listener
	path string
}

// Close implements net.Listener.
func (l namedListener) Close() error {
	err := l.Listener.Close()
	if err != nil {
		return err
	}
	return os.Remove(l.path)
}
