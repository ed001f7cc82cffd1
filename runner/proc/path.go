package proc

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// LookPath returns the path of a program, by the last PATH of an environment; empty if it is not there.
func LookPath(name string, env []string) string {
	for _, entry := range slices.Backward(env) {
		list, isPath := strings.CutPrefix(entry, "PATH=")
		if !isPath {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(path) {
				return path
			}
		}
		break
	}
	return ""
}
