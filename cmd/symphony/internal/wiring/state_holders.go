package wiring

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/tree"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/state"
)

// holders names the processes that hold a lock or lease on a file: "process 1234 (python3) of
// run 20260728-x". It is empty if none is found.
func holders(path string) string {
	found, err := tree.HoldersOf(path)
	if err != nil {
		return ""
	}
	names := text.Map(found, func(p reconcile.Process) string {
		name := fmt.Sprintf("process %d (%s)", p.PID, p.Name)
		environ, _ := proc.EnvironOf(p.PID) // of an agent's, it names the run
		for entry := range strings.SplitSeq(environ, "\x00") {
			if id, is := strings.CutPrefix(entry, host.RunMark+"="); is {
				name += " of run " + id
			}
		}
		return name
	})
	return strings.Join(names, ", ")
}

// NameHolder says who holds the lock of a state directory, if it is no pass: any process that
// can read a file can lock it.
func NameHolder(stateDir string, h *state.Holder) {
	if h != nil && h.PID == 0 {
		h.Name = holders(filepath.Join(stateDir, "lock"))
	}
}

// nameLease adds to the error of a file that could not be opened who holds a lease on it.
func nameLease(err error, path string) error {
	known, is := errors.AsType[*reconcile.Error](err)
	if !is || !errors.Is(err, syscall.EAGAIN) {
		return err
	}
	named := *known
	named.Hint = "a worker ends what its agent holds within 20 s: try again, or end that process"
	if who := holders(path); who != "" {
		named.Message += ": " + who
	}
	return &named
}
