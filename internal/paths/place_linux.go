package paths

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const openDir = unix.O_PATH | unix.O_NOFOLLOW | unix.O_DIRECTORY | unix.O_CLOEXEC

// openNoFollow opens an entry of a directory, also a link itself, without the right to read
// it.
func openNoFollow(dir int, name string, _ bool) (fd int, err error) {
	return unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

func idOf(st *unix.Stat_t) fileID { return fileID{st.Dev, st.Ino} }

func isProc(fd int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && st.Type == unix.PROC_SUPER_MAGIC
}

// mount is a line of /proc/self/mountinfo (proc_pid_mountinfo(5)).
type mount struct {
	id     string
	device string // of the file system, such as 8:1
	root   string // the directory of the file system that is mounted: not / for a bind mount
	point  string // where it is mounted
}

func readMounts() (list []mount, err error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read the table of mounts: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		list = append(list, mount{
			id:     fields[0],
			device: fields[2],
			root:   unescape(fields[3]),
			point:  unescape(fields[4]),
		})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the table of mounts: %w", err)
	}
	return list, nil
}

// unescape replaces \040 by a blank, as the table of mounts writes it.
func unescape(field string) string {
	parts := strings.Split(field, `\`)
	for i, part := range parts[1:] {
		if len(part) < 3 {
			return field
		}
		code, err := strconv.ParseUint(part[:3], 8, 8)
		if err != nil {
			return field
		}
		parts[i+1] = string([]byte{byte(code)}) + part[3:]
	}
	return strings.Join(parts, "")
}

// otherNames returns the paths of an open file through other mounts of the same file system.
// Some may be covered by another mount.
func otherNames(fd int, path string) (names []string, err error) {
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return nil, fmt.Errorf("find the mount of %s: %w", path, err)
	}
	_, id, _ := strings.Cut(string(info), "mnt_id:")
	id, _, _ = strings.Cut(id, "\n")
	id = strings.TrimSpace(id)
	mounts, err := readMounts()
	if err != nil {
		return nil, err
	}
	var own mount
	for _, m := range mounts {
		if m.id == id {
			own = m
		}
	}
	within, err := filepath.Rel(own.point, path)
	if err != nil || !filepath.IsLocal(within) {
		return nil, nil //nolint:nilerr // a mount that has no name here
	}
	there := filepath.Join(own.root, within) // in the file system
	for _, m := range mounts {
		if m.id == id || m.device != own.device || !Inside(m.root, there) {
			continue
		}
		rel, err := filepath.Rel(m.root, there)
		if err != nil {
			continue
		}
		names = append(names, filepath.Join(m.point, rel))
	}
	return names, nil
}
