// Package durable writes files that survive a power failure.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/symphony-cron/symphony/reconcile/crash"
)

// TempSuffix ends the name of a file that WriteFile did not finish. A crash can leave such a
// file behind, so code that lists a directory must skip these names.
const TempSuffix = ".new"

// WriteFile replaces the file at path by a new file with this content and mode. A reader sees
// either the old content or the new content. When WriteFile returns nil, the content and the
// name are on the disk. It never writes into an existing file, because that file may have a
// second name (a hard link) elsewhere.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*"+TempSuffix)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	crash.At("durable.written")
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	crash.At("durable.renamed")
	return SyncDir(dir)
}

// SyncDir makes the changes of names in a directory durable: files that were created, renamed
// or removed. For a file it makes the content durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
