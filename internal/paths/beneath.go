package paths

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
)

// OpenHome opens a directory of symphony in which agents write, and makes it if it is missing.
// An agent may have taken all rights from it.
func OpenHome(path string) (*os.Root, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o700); err != nil {
		return nil, err
	}
	return os.OpenRoot(path)
}

// WriteBeneath writes a file below a directory in which an agent may have left anything. It
// removes what is in the way: a link or a file in place of a directory, or a directory in place
// of the file. If it fails, an older file stays as it was.
func WriteBeneath(dir *os.Root, name string, content []byte) error {
	if err := OpenAbove(dir, name); err != nil {
		return err
	}
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

// OpenAbove gives the directories above a file their rights, and removes other things that are in
// the place of one. Root could do without, but an agent of root can't.
func OpenAbove(dir *os.Root, name string) error {
	var list []string
	for above := filepath.Dir(name); above != "."; above = filepath.Dir(above) {
		list = append(list, above)
	}
	for _, above := range slices.Backward(list) { // the outermost first
		info, err := dir.Lstat(above)
		switch {
		case err != nil:
			return nil // it is made with the file
		case !info.IsDir():
			return dir.Remove(above)
		case info.Mode().Perm()&0o700 == 0o700:
			continue
		}
		if err := dir.Chmod(above, info.Mode().Perm()|0o700); err != nil {
			return err
		}
	}
	return nil
}

// clearWay removes a directory in place of a file. If it can't be removed, because a directory
// below it has no rights, it gets another name.
func clearWay(dir *os.Root, name string) error {
	info, err := dir.Lstat(name)
	if err != nil || !info.IsDir() { // a new file replaces a file or a link
		return nil //nolint:nilerr // there is nothing
	}
	if dir.RemoveAll(name) == nil {
		return nil
	}
	return dir.Rename(name, name+".unreadable."+rand.Text())
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
