package power

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const killBound = 20 * time.Second

// killAll ends all that came of the command: with its parent dead each becomes a child of this process.
func killAll() error {
	for end := time.Now().Add(killBound); time.Now().Before(end); {
		below, err := descendants(os.Getpid())
		if err != nil || len(below) == 0 {
			return err
		}
		for _, pid := range below {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
		}
		var status unix.WaitStatus
		for pid := 1; pid > 0; {
			pid, _ = unix.Wait4(-1, &status, unix.WALL|unix.WNOHANG, nil)
		}
		time.Sleep(time.Millisecond)
	}
	return errors.New("processes are left")
}

// descendants lists the processes below one.
func descendants(parent int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has just ended
		}
		var pid, ppid int
		var state string
		// The name in parentheses may hold anything.
		end := strings.LastIndex(string(stat), ")")
		if _, err := fmt.Sscan(string(stat[:max(0, strings.Index(string(stat), " "))]), &pid); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if _, err := fmt.Sscan(string(stat[end+1:]), &state, &ppid); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		children[ppid] = append(children[ppid], pid)
	}
	list := slices.Clone(children[parent])
	for i := 0; i < len(list); i++ {
		list = append(list, children[list[i]]...)
	}
	return list, nil
}
