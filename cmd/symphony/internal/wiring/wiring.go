// Package wiring opens a project and builds the program's parts for it. A project is a
// WORKFLOW.md and its state directory. Only this package builds adapters: the tracker, the
// forge, the machine and the agent of a configuration.
package wiring

import (
	"context"
	"os"
	"time"
)

// Exists reports whether there is a file at the path.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// SameFile reports whether two paths name the same existing file.
func SameFile(a, b string) bool {
	there, errA := os.Stat(a)
	here, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(there, here)
}

// WaitStep is how often a command checks whether it can go on.
const WaitStep = 200 * time.Millisecond

// Sleep waits for d. It returns false if ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
