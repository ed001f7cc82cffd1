package proc

import (
	"errors"
	"io"
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

// RunWithin runs a command. On Linux its process, and each that it starts, may have so many bytes of
// memory of their own, and then gets no more. 0 is no limit. When it has ended, all that it has written is
// in its Stdout and Stderr. Processes that it leaves behind may hold the streams open, as ssh and the
// keyring of gh do: nothing waits for them, however busy the machine is.
func RunWithin(cmd *exec.Cmd, bytes uint64) error {
	var captures []*Capture
	for _, stream := range []*io.Writer{&cmd.Stdout, &cmd.Stderr} {
		if _, isFile := (*stream).(*os.File); isFile || *stream == nil {
			continue
		}
		c, err := NewCapture(*stream)
		if err != nil {
			return err
		}
		defer c.Finish()
		defer c.In.Close()
		*stream = c.In
		captures = append(captures, c)
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for _, c := range captures {
		_ = c.In.Close()
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
