// Package durable writes files that survive a power failure.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/symphony-cron/symphony/reconcile/crash"
)

// TempSuffix ends the name of a file that WriteFile has not finished. A crash can leave one behind: code that
// lists a directory skips such names.
const TempSuffix = ".new"

// WriteFile replaces the file at path by one with this content and mode. A reader sees either the old content or the
// new one; when WriteFile returns, the new content and its name are on the disk. It never writes into an existing
// file, because that file may have a second name (a hard link) elsewhere.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*"+TempSuffix)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	crash.At("durable.written")
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	crash.At("durable.renamed")
	return SyncDir(dir)
}

// SyncDir makes the names in a directory durable: what was created, renamed or removed there. For a file it makes the
// content durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
