package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxCgroup bounds what is read of one cgroup file: a line per hierarchy, each with a path.
const maxCgroup = 64 << 10

// OwnScope is the cgroup of this process in the unified hierarchy, as /proc/self/cgroup names it, if it is the scope
// of this run (ScopeUnit). What is found in there later was started by the run, whatever it did to itself.
func OwnScope(runID string) (cgroup string, ok bool) {
	b, err := readAt(unix.AT_FDCWD, "/proc/self/cgroup", make([]byte, 0, 1024), maxCgroup)
	if err != nil {
		return "", false // no cgroups here, so no scope either
	}
	cgroup = unifiedCgroup(b)
	return cgroup, isScope(cgroup, runID)
}

// unifiedCgroup is the path in the line "0::" of a process's cgroup file; empty if there is none.
func unifiedCgroup(b []byte) string {
	for line := range bytes.Lines(b) {
		if p, ok := bytes.CutPrefix(line, []byte("0::")); ok {
			return string(bytes.TrimSuffix(p, []byte("\n")))
		}
	}
	return ""
}

// scopeDir is the folder of a cgroup of the unified hierarchy as this process sees it; empty where that hierarchy is
// not mounted, or what is mounted does not hold the cgroup.
func scopeDir(cgroup string) (string, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("mounts: %w", err)
	}
	return scopeDirIn(b, cgroup), nil
}

// scopeDirIn is scopeDir on the text of a mountinfo: "id parent dev root point options [tags] - type source options".
func scopeDirIn(mountinfo []byte, cgroup string) string {
	for line := range strings.Lines(string(mountinfo)) {
		head, tail, ok := strings.Cut(line, " - ")
		fields := strings.Fields(head)
		if !ok || len(fields) < 5 || !strings.HasPrefix(tail, "cgroup2 ") {
			continue
		}
		// In a container the mount may begin further down.
		root, point := unescapeMount(fields[3]), unescapeMount(fields[4])
		below, ok := strings.CutPrefix(cgroup, strings.TrimSuffix(root, "/")+"/")
		if ok && point != "" {
			return path.Join(point, below)
		}
	}
	return ""
}

// unescapeMount undoes what mountinfo does to blanks, tabs, newlines and backslashes.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// members lists the pids in the cgroup and in those below. A cgroup that is gone has none.
func (t *table) members(cgroup string) ([]int, error) {
	dir, err := scopeDir(cgroup)
	if err != nil {
		return nil, err
	}
	if dir == "" {
		return t.membersOneByOne(cgroup)
	}
	var pids []int
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
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			return nil // it has gone meanwhile, and then it was empty
		}
		if errors.Is(err, unix.EOPNOTSUPP) {
			return nil // one of threads: the processes that these are of stand further up
		}
		return err
	})
	if err != nil {
		return pids, fmt.Errorf("members of %s: %w", cgroup, err)
	}
	return pids, nil
}

// membersOneByOne asks each process for its cgroup, where the cgroups themselves can't be seen.
func (t *table) membersOneByOne(cgroup string) (pids []int, err error) {
	buf := make([]byte, 0, 1024)
	for _, e := range t.entries {
		buf, err = readAt(int(t.proc.Fd()), strconv.Itoa(e.pid)+"/cgroup", buf, maxCgroup)
		switch {
		case gone(err) || notOurs(err):
		case err != nil:
			return pids, fmt.Errorf("cgroup of process %d: %w", e.pid, err)
		case isWithin(unifiedCgroup(buf), cgroup):
			pids = append(pids, e.pid)
		}
	}
	return pids, nil
}

func isWithin(cgroup, of string) bool { return cgroup == of || strings.HasPrefix(cgroup, of+"/") }

// killScope ends all that is in the cgroup, and below, at one stroke: the kernel lets no fork escape it. It reports
// whether it did; a kernel before 5.14, a cgroup that is gone, and one that is not ours to kill are no errors.
func killScope(cgroup string) (bool, error) {
	dir, err := scopeDir(cgroup)
	if err != nil || dir == "" {
		return false, err
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
