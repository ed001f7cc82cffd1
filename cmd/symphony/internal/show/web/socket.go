package web

import (
	"context"
	"net"
	"os"
	"path/filepath"
)

// privateSocket listens at path. The socket is made in a directory that no other account can enter and moved to path when its mode
// is set, because between bind and chmod another account could connect.
func privateSocket(ctx context.Context, path string) (net.Listener, error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".symphony-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is empty
	var config net.ListenConfig
	inside := filepath.Join(dir, "s")
	l, err := config.Listen(ctx, "unix", inside)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err = os.Chmod(inside, 0o600); err == nil {
		err = os.Rename(inside, path)
	}
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return &socketListener{l, path}, nil
}

// socketListener removes its socket when it is closed.
type socketListener struct {
	net.Listener
	path string
}

// Close implements net.Listener.
func (l *socketListener) Close() error {
	_ = os.Remove(l.path)
	return l.Listener.Close()
}

// Addr implements net.Listener.
func (l *socketListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }
