package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// OwnScope returns the cgroup of this process in the unified hierarchy if it is the scope of the run (ScopeUnit). Every
// process found in it later was started by the run.
func OwnScope(runID string) (cgroup string, ok bool) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", false // a kernel without cgroups
	}
	cgroup = unifiedCgroup(string(b))
	return cgroup, isScope(cgroup, runID)
}

// unifiedCgroup returns the path in the line "0::" of a process's cgroup file; empty if there is none.
func unifiedCgroup(file string) string {
	for line := range strings.Lines(file) {
		if p, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSuffix(p, "\n")
		}
	}
	return ""
}

// scopeDir returns the directory of a cgroup of the unified hierarchy; empty where that hierarchy is not mounted.
func scopeDir(cgroup string) string {
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(mount + "/cgroup.procs"); err == nil {
			return filepath.Join(mount, cgroup)
		}
	}
	return ""
}

// scopeMembers lists the pids in the cgroup and in those below it. A cgroup that is gone has none.
func scopeMembers(cgroup string) (pids []int, err error) {
	dir := scopeDir(cgroup)
	if dir == "" {
		return nil, nil
	}
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			var b []byte
			b, err = os.ReadFile(filepath.Join(name, "cgroup.procs"))
			for word := range strings.FieldsSeq(string(b)) {
				if pid, err := strconv.Atoi(word); err == nil && pid > 0 { // 0: of an outer pid namespace
					pids = append(pids, pid)
				}
			}
		}
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENODEV): // it was removed, so it was empty
			return nil
		case errors.Is(err, unix.EOPNOTSUPP): // a cgroup of threads: their processes are listed further up
			return nil
		}
		return err
	})
	if err != nil {
		return pids, fmt.Errorf("members of %s: %w", cgroup, err)
	}
	return pids, nil
}

// killScope ends all processes in the cgroup and below at once: the kernel lets no fork escape. It returns false where
// that is not possible: before Linux 5.14, in a cgroup that is gone, and without the permission.
func killScope(cgroup string) (bool, error) {
	dir := scopeDir(cgroup)
	if dir == "" {
		return false, nil
	}
	f, err := os.OpenFile(filepath.Join(dir, "cgroup.kill"), os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("kill %s: %w", cgroup, err)
	}
	defer f.Close()
	if _, err := f.WriteString("1"); err != nil && !errors.Is(err, unix.ENODEV) {
		return false, fmt.Errorf("kill %s: %w", cgroup, err)
	}
	return true, nil
}
