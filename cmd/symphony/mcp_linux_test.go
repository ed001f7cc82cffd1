package main

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/test"
)

// A signal ends a server whose host does not read.
func TestMCPStuckHost(t *testing.T) {
	t.Parallel()
	const pipeSize = 32 << 10 // less than a pipe holds, because messages fill it in parts
	cmd := mcpServerCommand(t)
	in, err := cmd.StdinPipe()
	test.OK(t, err)
	out, err := cmd.StdoutPipe()
	test.OK(t, err)
	test.OK(t, cmd.Start())
	fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for id := range 50 {
		fmt.Fprintf(in, `{"jsonrpc":"2.0","id":"%d","method":"tools/list","params":{}}`+"\n", id)
	}
	for unread := 0; unread < pipeSize; time.Sleep(10 * time.Millisecond) {
		unread, err = unix.IoctlGetInt(int(out.(*os.File).Fd()), unix.TIOCINQ)
		test.OK(t, err)
	}
	test.OK(t, cmd.Process.Signal(syscall.SIGTERM))
	test.OK(t, cmd.Wait())
}
