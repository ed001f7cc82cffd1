package proc

import (
	"errors"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/lock"
)

// holdSlot takes a number as the name of an abstract socket, which is no file and belongs to the machine.
func holdSlot(slot int) (io.Closer, error) {
	name := "@symphony/slot/" + strconv.Itoa(slot)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	held := os.NewFile(uintptr(fd), name)
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: name})
	if errors.Is(err, unix.EADDRINUSE) {
		err = lock.ErrHeld
	}
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	return held, nil
}
