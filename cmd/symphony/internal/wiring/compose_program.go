package wiring

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
)

// RunningProgram is the path with which this program is started again, even after its file was
// replaced.
func RunningProgram() (string, error) {
	const exe = "/proc/self/exe"
	if Exists(exe) {
		return exe, nil
	}
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("own program: %w", err)
	}
	return path, nil
}

// ProgramPath is the path that still names this program after an upgrade: the link, if any, by
// which it was called. It is empty if the path of the program can't be found.
func ProgramPath() string {
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	called, err := exec.LookPath(os.Args[0])
	if err != nil {
		return exe
	}
	called, err = filepath.Abs(called)
	if err != nil || !SameFile(called, exe) {
		return exe
	}
	return called
}

var builtByGoRun = text.Pattern(`(^|/)go-build[0-9]*/|/[0-9a-f]{2}/[0-9a-f]{64}-d/`)

// BuiltByGoRun reports whether a program was built by go run: in a temporary folder, or in the
// cache of the go command.
func BuiltByGoRun(path string) bool { return builtByGoRun().MatchString(path) }

// Version is the version of the program, which the go command derives from the tag or commit.
func Version() string { return ReadBuild().Version }

// Build is the go command's record of the program's source.
type Build struct {
	Version string
	// Commit and Date are of the commit that was checked out, empty if the program was not
	// built in a git repository.
	Commit   string
	Date     string // RFC 3339
	Modified bool   // the source had changes that were not committed
}

// ReadBuild returns the build of this program.
func ReadBuild() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Build{Version: "devel"}
	}
	return buildOf(info)
}

func buildOf(info *debug.BuildInfo) Build {
	b := Build{Version: cmp.Or(strings.Trim(info.Main.Version, "()"), "devel")}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String is the version, with the commit and its day if they are known: v1.2.3 (4be0a1f0c6a2,
// 2026-02-24).
func (b Build) String() string {
	if b.Commit == "" {
		return b.Version
	}
	commit := fmt.Sprintf("%.12s", b.Commit)
	if b.Modified {
		commit += " with changes"
	}
	return fmt.Sprintf("%s (%s, %.10s)", b.Version, commit, b.Date)
}
