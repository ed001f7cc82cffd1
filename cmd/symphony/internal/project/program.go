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

// version is the module's, or the revision it was built from.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionOf(info)
}

// versionOf is the release, for a program that was built from a tag or by go install; between releases the version that
// the go command makes of the commit, with +dirty where the sources were changed. Without the version control system's
// help there is at most a revision.
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

// programPath is where the running program was started from, to be started again after it may have been replaced
// there: the link by which it was called, where there is one, for that is what an upgrade turns to another file. Empty
// where it is gone.
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

// newRunID gives ids that sort by time, to the millisecond.
func NewRunID(now time.Time) string {
	return now.UTC().Format(runStamp) + "-" + strings.ToLower(rand.Text()[:6])
}

// runIDs gives ids that sort in the order in which they were given. After the clock was set back they go on from the
// newest one there is: by its id a run is known to be an issue's last, whose thread is gone on with.
func RunIDs(db *state.DB, now func() time.Time) func() string {
	var last string
	known := false
	return func() string {
		if !known {
			// Where it can't be read the row can't be written either, and the action says so.
			if runs, err := db.RecentRuns(context.Background(), 1); err == nil && len(runs) > 0 {
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
