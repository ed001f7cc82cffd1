package workspace

import (
	"github.com/symphony-cron/symphony/runner/host/local/files"
	"golang.org/x/sys/unix"
)

// awaitExit waits for the end of a child and leaves it unreaped, so that its pid stays its own. An error
// means that there is nothing to wait for; the Wait that follows says what.
func awaitExit(pid int) {
	_ = files.Retry(func() error { return unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) })
}
