package proc

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// MachineMemory returns the bytes of memory of this machine in whole MiB; 0 where the system
// does not say it in /proc/meminfo.
func MachineMemory() int64 {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		rest, found := strings.CutPrefix(line, "MemTotal:")
		fields := strings.Fields(rest)
		if !found || len(fields) == 0 {
			continue
		}
		kilobytes, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return 0
		}
		return kilobytes >> 10 << 20
	}
	return 0
}

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
