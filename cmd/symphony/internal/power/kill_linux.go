package power

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

const killBound = 20 * time.Second

// killAll ends all that came of the command: with its parent dead each becomes a child of this process.
func killAll() error {
	for end := time.Now().Add(killBound); time.Now().Before(end); {
		below, err := proc.Descendants(os.Getpid())
		if err != nil || len(below) == 0 {
			return err
		}
		for _, p := range below {
			_ = unix.Kill(p.PID, unix.SIGKILL) // it may have ended
		}
		var status unix.WaitStatus
		for pid := 1; pid > 0; {
			pid, _ = unix.Wait4(-1, &status, unix.WALL|unix.WNOHANG, nil)
		}
		time.Sleep(time.Millisecond)
	}
	return errors.New("processes are left")
}
