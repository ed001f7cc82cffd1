package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// ScopeUnit is the systemd scope of a run's worker, where it gets one. The run id makes the name nobody else's.
func ScopeUnit(runID string) string { return "symphony-" + runID + ".scope" }

// isScope reports whether cgroup is the path of the run's scope. Whatever else is written in a scope file (an empty
// line, "/", the cgroup of a session) would make strangers the run's, so nothing else is believed.
func isScope(cgroup, runID string) bool {
	return runID != "" && strings.HasPrefix(cgroup, "/") && !strings.Contains(cgroup, "\n") &&
		path.Clean(cgroup) == cgroup && path.Base(cgroup) == ScopeUnit(runID)
}

// ReadScope reads the file in which a worker has written its OwnScope, one line. No file, and a file that does not
// name the scope of this run, is no scope.
func ReadScope(file, runID string) (string, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("scope file: %w", err)
	}
	if cgroup := strings.TrimSuffix(string(b), "\n"); isScope(cgroup, runID) {
		return cgroup, nil
	}
	return "", nil
}
