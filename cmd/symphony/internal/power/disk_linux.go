package power

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// file identifies a file. File systems reuse inode numbers, so the time of birth belongs to it.
type file struct {
	inode uint64
	birth unix.StatxTimestamp
}

func identify(path string) (file, error) {
	var stat unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &stat)
	return file{stat.Ino, stat.Btime}, err
}

// disk is what a power failure would leave of a folder.
type disk struct {
	dir     string
	content map[file][]byte            // what its last sync saw
	entries map[string]map[string]file // by folder: its names as of their last sync
}

// newDisk takes what a folder holds now as synced. The folder need not exist.
func newDisk(dir string) (*disk, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	d := &disk{dir: dir, content: map[file][]byte{}, entries: map[string]map[string]file{}}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	return d, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		return errors.Join(err, d.synced(rel))
	})
}

// synced records that a file or folder is on the disk, and with it its name and those of its parents.
func (d *disk) synced(rel string) error {
	path := filepath.Join(d.dir, rel)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed meanwhile
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		names, err := d.names(rel)
		d.entries[rel] = names
		return errors.Join(err, d.linked(rel))
	}
	if info.Mode().IsRegular() {
		id, err := identify(path)
		if err != nil {
			return err
		}
		if d.content[id], err = os.ReadFile(path); err != nil {
			return err
		}
	}
	return d.linked(rel)
}

// linked records that a name is on the disk, and those of its parents.
func (d *disk) linked(rel string) error {
	for ; rel != "."; rel = filepath.Dir(rel) {
		id, err := identify(filepath.Join(d.dir, rel))
		if err != nil {
			return err
		}
		dir := filepath.Dir(rel)
		if d.entries[dir] == nil {
			d.entries[dir] = map[string]file{}
		}
		d.entries[dir][filepath.Base(rel)] = id
	}
	return nil
}

// names lists what a folder holds now.
func (d *disk) names(rel string) (map[string]file, error) {
	list, err := os.ReadDir(filepath.Join(d.dir, rel))
	if err != nil {
		return nil, err
	}
	names := map[string]file{}
	for _, entry := range list {
		id, err := identify(filepath.Join(d.dir, rel, entry.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		names[entry.Name()] = id
	}
	return names, nil
}

// seen is the suffix of the folder as programs saw it at the cut.
const seen = ".seen"

// restore replaces the folder by what the disk holds. With lazy, the names in folders are those of their last sync, too.
func (d *disk) restore(lazy bool) error {
	if _, err := os.Lstat(d.dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	folders := map[file]bool{}
	err := filepath.WalkDir(d.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		id, err := identify(path)
		if err != nil {
			return err
		}
		folders[id] = true
		rel, err := filepath.Rel(d.dir, path)
		if err == nil && !lazy {
			d.entries[rel], err = d.names(rel)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(d.dir+seen), os.Rename(d.dir, d.dir+seen)); err != nil {
		return err
	}
	if len(d.entries) == 0 {
		return nil
	}
	return d.write(".", folders)
}

func (d *disk) write(rel string, folders map[file]bool) error {
	dir := filepath.Join(d.dir, rel)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for name, id := range d.entries[rel] {
		var err error
		if folders[id] {
			err = d.write(filepath.Join(rel, name), folders)
		} else {
			err = os.WriteFile(filepath.Join(dir, name), d.content[id], 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
