package paths

import (
	"crypto/rand"
	"os"
	"path/filepath"
)

// WriteBeneath writes a file below a directory in which an agent may have left anything. It
// removes what is in the way: a link or a file in place of a directory, or a directory in place
// of the file. If it fails, an older file stays as it was.
func WriteBeneath(dir *os.Root, name string, content []byte) error {
	temporary := name + "." + rand.Text()
	err := replace(dir, name, temporary, content)
	if err == nil {
		return nil
	}
	if err := clearWay(dir, name); err != nil {
		return err
	}
	return replace(dir, name, temporary, content)
}

// clearWay removes what keeps a name from being the name of a file.
func clearWay(dir *os.Root, name string) error {
	for above := filepath.Dir(name); above != "."; above = filepath.Dir(above) {
		info, err := dir.Lstat(above)
		if err != nil || info.IsDir() {
			continue
		}
		if err := dir.Remove(above); err != nil {
			return err
		}
	}
	info, err := dir.Lstat(name)
	if err != nil || !info.IsDir() { // a new file replaces a file or a link
		return nil //nolint:nilerr // there is nothing
	}
	return dir.RemoveAll(name)
}

// replace writes a file under a temporary name, and gives it the name of the file.
func replace(dir *os.Root, name, temporary string, content []byte) error {
	if err := dir.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	err := dir.WriteFile(temporary, content, 0o600)
	if err != nil {
		_ = dir.Remove(temporary) // a part may have been written
		return err
	}
	err = dir.Rename(temporary, name)
	if err != nil {
		_ = dir.Remove(temporary)
		return err
	}
	return nil
}
