package repository

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// looseDir and looseName match where git keeps an object of its own, such as 1f/0e2…; packName
// matches a pack and its index.
var (
	looseDir  = text.Pattern(`^[0-9a-f]{2}$`)
	looseName = text.Pattern(`^([0-9a-f]{38}|[0-9a-f]{62})$`)
	packName  = text.Pattern(`^pack-[0-9a-f]+\.(pack|idx)$`)
)

// takeObjects returns a directory beside the mirror, which the caller removes, with the objects
// of a workspace: hard links to them, or copies on another file system. git must not read the
// workspace itself. There an agent can add the objects of any repository of the operator, by
// links and by a list of alternates, also while git reads. Such objects would be pushed.
//
// A clone that symphony made borrows from the mirror alone. The clone of a hook may borrow from
// repositories that the hook chose.
func (m *Mirror) takeObjects(workspace string, cloned host.Origin) (dir string, err error) {
	defer func() { err = git.Failed(err, "read the objects of %s", workspace) }()
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return "", err
	}
	defer root.Close()
	objects, err := root.OpenRoot(filepath.Join(".git", "objects")) // os.Root leaves the workspace by no link
	if err != nil {
		return "", err
	}
	defer objects.Close()
	dir, err = os.MkdirTemp(filepath.Dir(m.path), incomingPrefix)
	if err != nil {
		return "", err
	}
	if err := takeAll(objects, dir); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	if cloned.URL == "" {
		if err := takeAlternates(objects, dir); err != nil {
			return "", errors.Join(err, os.RemoveAll(dir))
		}
	}
	return dir, nil
}

// takeAll takes the objects and packs of a directory of objects.
func takeAll(objects *os.Root, to string) error {
	entries, err := fs.ReadDir(objects.FS(), ".")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		names := looseName
		switch {
		case entry.Name() == "pack":
			names = packName
		case !looseDir().MatchString(entry.Name()):
			continue
		}
		if !entry.IsDir() {
			return fmt.Errorf("objects/%s is no directory", entry.Name())
		}
		if err := takeDir(objects, entry.Name(), to, names().MatchString); err != nil {
			return err
		}
	}
	return nil
}

// takeDir takes the files of a directory whose names fit.
func takeDir(objects *os.Root, name, to string, fits func(name string) bool) error {
	from, err := objects.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	entries, err := from.ReadDir(-1)
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(to, name), 0o700); err != nil {
		return err
	}
	for _, entry := range entries {
		if !fits(entry.Name()) {
			continue
		}
		err := takeFile(from, entry.Name(), filepath.Join(to, name, entry.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // git has packed it meanwhile
		}
		if err != nil {
			return fmt.Errorf("objects/%s/%s: %w", name, entry.Name(), err)
		}
	}
	return nil
}

// takeFile links a regular file of a directory to a path, or copies it.
func takeFile(dir *os.File, name, to string) error {
	err := unix.Linkat(int(dir.Fd()), name, unix.AT_FDCWD, to, 0) // a link itself, not where it leads
	if err != nil && errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		info, err := os.Lstat(to)
		if err == nil && !info.Mode().IsRegular() {
			err = errors.New("it is no regular file")
		}
		return err
	}
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	from := os.NewFile(uintptr(fd), name)
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is no regular file")
	}
	written, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	_, err = io.Copy(written, from)
	return errors.Join(err, written.Close())
}

// takeAlternates writes the list of other directories of objects from which a clone borrows.
func takeAlternates(objects *os.Root, to string) error {
	list, err := objects.ReadFile(filepath.Join("info", "alternates"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var lines strings.Builder
	for line := range strings.Lines(string(list)) {
		if filepath.IsAbs(line) || strings.HasPrefix(line, "#") {
			lines.WriteString(line)
			continue
		}
		lines.WriteString(filepath.Join(objects.Name(), line))
	}
	if err := os.Mkdir(filepath.Join(to, "info"), 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, "info", "alternates"), []byte(lines.String()), 0o600)
}
