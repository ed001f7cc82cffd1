// Package archive writes and reads tar.gz files whose last entry is a manifest: what wrote the archive, and the checksums of the others.
package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

// Codes of errors.
const (
	CodeExists  = "file_exists"
	CodeInvalid = "archive_invalid"
)

const (
	manifestName = "manifest.json"
	mostBytes    = 16 << 30 // of all files together
	// fewestBytes may come from an archive of any size, and mostGrowth bytes more from each of its bytes.
	fewestBytes = 64 << 20
	mostGrowth  = 200
)

// Manifest describes an archive.
type Manifest struct {
	Kind    string    `json:"kind"` // what the archive is
	Version string    `json:"version"`
	MadeAt  time.Time `json:"made_at"`
	Schema  int       `json:"schema"` // of the project's database, 0 without one
	Files   []File    `json:"files"`
}

// File is a file in an archive.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Write writes an archive to path, which must not exist. add adds the files, with a directory for its temporary ones. There is
// no file at path until the archive is complete and on the disk.
func Write(path string, m Manifest, add func(w *Writer) error) (Manifest, error) {
	if _, err := os.Lstat(path); err == nil {
		return m, reconcile.NewError(CodeExists, path+" exists", "give another name, or remove it")
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), "."+filepath.Base(path)+".*"+durable.TempSuffix)
	if err != nil {
		return m, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // after an error the first one counts
	f, err := os.OpenFile(filepath.Join(dir, "archive"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return m, err
	}
	zip := gzip.NewWriter(f)
	w := &Writer{Dir: dir, manifest: m, tar: tar.NewWriter(zip)}
	if err = add(w); err == nil {
		err = w.addManifest()
	}
	if err = errors.Join(err, w.tar.Close(), zip.Close(), f.Sync(), f.Close()); err != nil {
		return m, err
	}
	crash.At("archive.written")
	if err := os.Rename(f.Name(), path); err != nil {
		return m, err
	}
	crash.At("archive.renamed")
	return w.manifest, durable.SyncDir(filepath.Dir(path))
}

// Writer adds files to an archive.
type Writer struct {
	Dir      string // for temporary files, removed with the Writer
	manifest Manifest
	tar      *tar.Writer
}

// SetSchema records the schema of the project's database.
func (w *Writer) SetSchema(schema int) { w.manifest.Schema = schema }

// AddFile adds the file at path, which does not change meanwhile.
func (w *Writer) AddFile(name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return w.add(name, info.Size(), f)
}

// Add adds a file with this content.
func (w *Writer) Add(name string, data []byte) error { return w.add(name, int64(len(data)), bytes.NewReader(data)) }

func (w *Writer) add(name string, size int64, content io.Reader) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: w.manifest.MadeAt.Truncate(time.Second)}
	if err := w.tar.WriteHeader(header); err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(w.tar, sum), content, size); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	w.manifest.Files = append(w.manifest.Files, File{name, size, hex.EncodeToString(sum.Sum(nil))})
	return nil
}

func (w *Writer) addManifest() error {
	files := w.manifest.Files
	err := w.add(manifestName, int64(len(text.JSON(w.manifest))), bytes.NewReader(text.JSON(w.manifest)))
	w.manifest.Files = files
	return err
}

// Extract unpacks the archive at path, which must be of this kind, into an empty directory. It may contain only regular files with the
// given names. Anything else is refused, and so is an archive that is damaged or not complete.
func Extract(path, dir, kind string, names []string) (m Manifest, err error) {
	f, err := os.Open(path)
	if err != nil {
		return m, reconcile.NewError(CodeInvalid, err.Error(), "give the path of a readable "+kind).WithCause(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return m, err
	}
	most := min(mostBytes, fewestBytes+mostGrowth*info.Size())
	if m, err = extract(f, dir, kind, names, most); err == nil || errors.As(err, new(*fs.PathError)) { // of the disk, not the archive
		return m, err
	}
	return m, reconcile.NewError(CodeInvalid, fmt.Sprintf("%s is not a whole %s of symphony: %v", path, kind, err),
		"use another one; nothing was changed").WithCause(err)
}

// extract unpacks at most left bytes.
func extract(from io.Reader, dir, kind string, names []string, left int64) (m Manifest, err error) {
	zip, err := gzip.NewReader(from)
	if err != nil {
		return m, err
	}
	var found []File
	for archive := tar.NewReader(zip); ; {
		header, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return m, errors.New("it has no manifest")
		case err != nil:
			return m, err
		case header.Typeflag != tar.TypeReg:
			return m, fmt.Errorf("%q is not a regular file", header.Name)
		case header.Size > left:
			return m, fmt.Errorf("%q is too large", header.Name)
		case header.Name == manifestName:
			if err := json.NewDecoder(io.LimitReader(archive, 1<<20)).Decode(&m); err != nil {
				return m, fmt.Errorf("%s: %w", manifestName, err)
			}
			_, err = archive.Next()
			return m, check(m, kind, found, errors.Is(err, io.EOF))
		case !slices.Contains(names, header.Name), slices.ContainsFunc(found, func(f File) bool { return f.Name == header.Name }):
			return m, fmt.Errorf("it contains %q", header.Name)
		}
		left -= header.Size
		file, err := unpack(archive, filepath.Join(dir, header.Name))
		if err != nil {
			return m, err
		}
		file.Name = header.Name
		found = append(found, file)
	}
}

// unpack writes a new file.
func unpack(content io.Reader, path string) (file File, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return file, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return file, err
	}
	sum := sha256.New()
	file.Bytes, err = io.Copy(io.MultiWriter(f, sum), content)
	file.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return file, errors.Join(err, f.Sync(), f.Close())
}

// check compares a manifest with the files that were found, all of them if the archive has ended.
func check(m Manifest, kind string, found []File, ended bool) error {
	switch {
	case m.Kind != kind:
		return fmt.Errorf("it is %q", m.Kind)
	case !ended:
		return errors.New("something follows its manifest")
	case !slices.Equal(m.Files, found):
		return errors.New("its files are not those of its manifest: it was damaged or changed")
	}
	return nil
}
