package workspace

import (
	"github.com/symphony-cron/symphony/runner/host/local/files"
	"golang.org/x/sys/unix"
)

// awaitExit waits for the end of a child and leaves it unreaped, so that its pid stays its own. An error
// means that there is nothing to wait for; the Wait that follows says what.
func awaitExit(pid int) {
	kq, err := unix.Kqueue()
	if err != nil {
		return
	}
	defer unix.Close(kq)
	var ev unix.Kevent_t
	unix.SetKevent(&ev, pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	ev.Fflags = unix.NOTE_EXIT
	_ = files.Retry(func() error {
		_, err := unix.Kevent(kq, []unix.Kevent_t{ev}, make([]unix.Kevent_t, 1), nil)
		return err
	})
}
