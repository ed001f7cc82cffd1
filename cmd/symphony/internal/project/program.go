package project

import (
	"cmp"
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/state"
)

// Version is the version of the program, which the go command derives from a tag or commit.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "(devel)" {
		return "devel"
	}
	return cmp.Or(info.Main.Version, "devel")
}

// ProgramPath is the path to start this program from again after an upgrade: the link by which it was called, if there is
// one. It is empty where the program is gone.
func ProgramPath() string {
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	called, err := exec.LookPath(os.Args[0])
	if err == nil {
		called, err = filepath.Abs(called)
	}
	if err != nil || !sameFile(called, exe) {
		return exe
	}
	return called
}

func sameFile(a, b string) bool {
	there, errA := os.Stat(a)
	here, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(there, here)
}

const runStamp = "20060102T150405.000"

// NewRunID returns an id that sorts by time, to the millisecond.
func NewRunID(now time.Time) string {
	return now.UTC().Format(runStamp) + "-" + strings.ToLower(rand.Text()[:6])
}

// RunIDs returns a function for ids that sort in the order of its calls, also after the clock was set back: an issue's last
// run is known by its id.
func RunIDs(db *state.DB, now func() time.Time) func() string {
	var last string
	return func() string {
		if last == "" {
			// If the database can't be read, the run's row can't be written, and that is reported.
			if runs, err := db.Views.RecentRuns(context.Background(), 1); err == nil && len(runs) > 0 {
				last = runs[0].ID
			}
		}
		id := NewRunID(now())
		if len(last) > len(runStamp) && id[:len(runStamp)] <= last[:len(runStamp)] {
			if at, err := time.Parse(runStamp, last[:len(runStamp)]); err == nil {
				id = NewRunID(at.Add(time.Millisecond))
			}
		}
		last = id
		return id
	}
}
