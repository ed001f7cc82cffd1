package paths

import (
	"crypto/rand"
	"os"
	"path/filepath"
)

// WriteBeneath writes a file below a directory in which an agent may have left anything. What is in
// the way is removed: a link, or a file in place of a directory.
func WriteBeneath(dir *os.Root, name string, content []byte) error {
	temporary := name + "." + rand.Text()
	err := replace(dir, name, temporary, content)
	if err == nil {
		return nil
	}
	_ = dir.Remove(temporary) // if it was written
	for above := filepath.Dir(name); above != "."; above = filepath.Dir(above) {
		info, err := dir.Lstat(above)
		if err != nil || info.IsDir() {
			continue
		}
		if err := dir.Remove(above); err != nil {
			return err
		}
	}
	if err := dir.RemoveAll(name); err != nil {
		return err
	}
	return replace(dir, name, temporary, content)
}

func replace(dir *os.Root, name, temporary string, content []byte) error {
	if err := dir.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	if err := dir.WriteFile(temporary, content, 0o600); err != nil {
		return err
	}
	return dir.Rename(temporary, name)
}
