package acp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"github.com/symphony-cron/symphony/runner/proc"
)

// Relay passes on what an agent and the server of symphony's tools tell each other, until one
// of them ends. The agent starts it with the path of the server's socket.
func Relay(ctx context.Context, socket string, in io.Reader, out io.Writer) (err error) {
	dir, err := os.Open(filepath.Dir(socket))
	if err != nil {
		return fmt.Errorf("the tools of symphony: %w", err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	var dialer net.Dialer
	server, err := dialer.DialContext(ctx, "unix", proc.SocketPath(dir, filepath.Base(socket)))
	if err != nil {
		return fmt.Errorf("the tools of symphony: the run has ended: %w", err)
	}
	ended := make(chan error, 2)
	go func() {
		_, err := io.Copy(server, in)
		ended <- err
	}()
	go func() {
		_, err := io.Copy(out, server)
		ended <- err
	}()
	return errors.Join(<-ended, server.Close())
}
