package main

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/test"
)

// A signal ends a server whose host does not read.
func TestMCPStuckHost(t *testing.T) {
	t.Parallel()
	const pipeSize = 32 << 10 // less than a pipe holds, because messages fill it in parts
	h := newHostScene(t).host(false, "{}")
	h.reading.Lock()
	defer h.reading.Unlock()
	for range 50 {
		h.ask("tools/list", map[string]any{})
	}
	test.Until(t, "a full pipe", func() bool {
		return test.Must(unix.IoctlGetInt(int(h.out.(*os.File).Fd()), unix.TIOCINQ)) >= pipeSize
	})
	test.OK(t, h.cmd.Process.Signal(syscall.SIGTERM))
	test.OK(t, h.cmd.Wait())
}
