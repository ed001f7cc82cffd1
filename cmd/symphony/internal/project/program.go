package project

import (
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

// Version is the version of the program.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionOf(info)
}

// versionOf is the module's version, which the go command derives from a tag or commit; otherwise the revision.
func versionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	v := "devel"
	if revision := settings["vcs.revision"]; revision != "" {
		v += "-" + revision[:min(12, len(revision))]
	}
	if settings["vcs.modified"] == "true" {
		v += "+dirty"
	}
	return v
}

// ProgramPath is the path to start this program from again after an upgrade: the link by which it was called, if there is
// one. It is empty where the program is gone.
func ProgramPath() string {
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	called, err := exec.LookPath(os.Args[0])
	if err != nil {
		return exe
	}
	if called, err = filepath.Abs(called); err != nil || !sameFile(called, exe) {
		return exe
	}
	return called
}

func sameFile(a, b string) bool {
	there, err := os.Stat(a)
	if err != nil {
		return false
	}
	here, err := os.Stat(b)
	return err == nil && os.SameFile(there, here)
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
	known := false
	return func() string {
		if !known {
			// If the database can't be read, the run's row can't be written, and that is reported.
			if runs, err := db.Views.RecentRuns(context.Background(), 1); err == nil && len(runs) > 0 {
				last = runs[0].ID
			}
			known = true
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
