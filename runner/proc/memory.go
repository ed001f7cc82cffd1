package proc

import (
	"errors"
	"os/exec"
)

// RunWithin runs a command, and waits for it as cmd.Run does. On Linux its process, and each
// that it starts, may have so many bytes of memory of their own, and then gets no more. 0 is
// no limit.
func RunWithin(cmd *exec.Cmd, bytes uint64) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	if bytes == 0 {
		return cmd.Wait()
	}
	if err := limitMemory(cmd.Process.Pid, bytes); err != nil {
		_ = cmd.Process.Kill() // it may have ended
		return errors.Join(err, cmd.Wait())
	}
	return cmd.Wait()
}
