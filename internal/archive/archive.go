// Package archive writes and reads tar.gz files whose last entry is a manifest with the
// checksums of the others.
package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
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
)

const (
	manifestName = "manifest.json"
	mostBytes    = 2 << 30 // of all files together, which are in memory
	// manifestBytes is the room for the manifest, more than it needs.
	manifestBytes = 1 << 20
)

// Manifest describes an archive.
type Manifest struct {
	Kind    string    `json:"kind"` // the kind of archive, such as "support"
	Version string    `json:"version"`
	Schema  int       `json:"schema"` // of the project's database, 0 without a database
	MadeAt  time.Time `json:"made_at"`
	Files   []File    `json:"files"`
}

// File is a file in an archive.
type File struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Data   []byte `json:"-"`
}

// Refuse refuses a path at which Write can write no archive of that kind, for a command that first
// collects what belongs into it.
func Refuse(path, kind string) error {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		inside := text.ShellQuote(filepath.Join(path, kind+".tar.gz"))
		return reconcile.NewError("already_exists", path+" is a directory", "name a file in it, such as "+inside)
	}
	if _, err := os.Lstat(path); err == nil {
		return reconcile.NewError("already_exists", path+" exists", "give another name, or remove it")
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return notWritten(path, err)
	}
	return nil
}

// Write writes an archive to path, which must not exist. There is no file at path until the
// archive is complete and on the disk.
func Write(path string, m Manifest) error {
	if err := Refuse(path, m.Kind); err != nil {
		return err
	}
	size := 0
	for _, f := range m.Files {
		size += len(f.Data)
	}
	if size > mostBytes-manifestBytes {
		return reconcile.NewError(
			"file_write",
			fmt.Sprintf("%s would have %s, and could not be read again", path, text.BytesText(int64(size))),
			"copy the files yourself while no pass and no worker runs",
		)
	}
	for i, f := range m.Files {
		m.Files[i].SHA256 = fmt.Sprintf("%x", sha256.Sum256(f.Data))
	}
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	var errs []error // none is possible in memory
	for _, f := range append(m.Files, File{Name: manifestName, Data: text.JSON(m)}) {
		header := &tar.Header{
			Name:    f.Name,
			Size:    int64(len(f.Data)),
			Mode:    0o600,
			ModTime: m.MadeAt.Truncate(time.Second),
		}
		errs = append(errs, w.WriteHeader(header))
		_, err := w.Write(f.Data)
		errs = append(errs, err)
	}
	if err := errors.Join(append(errs, w.Close(), zip.Close())...); err != nil {
		return err
	}
	if err := durable.WriteFile(path, out.Bytes(), 0o600); err != nil {
		return notWritten(path, err)
	}
	return nil
}

// notWritten explains why there is no file at a path.
func notWritten(path string, err error) error {
	reason := err
	at, ok := errors.AsType[*fs.PathError](err)
	if ok { // of a file with another name beside it
		reason = at.Err
	}
	return reconcile.NewError(
		"file_write",
		path+" can't be written: "+reason.Error(),
		"name a file in a folder that exists and that this account can write to, on a disk with space",
	).WithCause(err)
}

// Read reads the archive at path, which must be of this kind and may contain only regular
// files with the given names. Anything else is refused, and so is an archive that is damaged
// or not complete.
func Read(path, kind string, names []string) (m Manifest, err error) {
	f, err := os.Open(path)
	if err != nil {
		return m, reconcile.NewError("file_read", err.Error(), "name a file that this account can read; "+
			"nothing was changed").
			WithCause(err)
	}
	defer f.Close()
	m, err = read(f, kind, names)
	if err != nil {
		err = Invalid(path, kind, err)
	}
	return m, err
}

// Invalid returns the error for the archive at path, which cannot be used because of err.
func Invalid(path, kind string, err error) error {
	return reconcile.NewError("archive_invalid", fmt.Sprintf("%s is not a whole %s of symphony: %v", path, kind, err),
		"use another one; nothing was changed").
		WithCause(err)
}

func read(from io.Reader, kind string, names []string) (m Manifest, err error) {
	zip, err := gzip.NewReader(from)
	if err != nil {
		return m, err
	}
	var found []File
	left := int64(mostBytes)
	for archive := tar.NewReader(zip); ; {
		header, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return m, errors.New("it has no manifest")
		case err != nil:
			return m, err
		case header.Typeflag != tar.TypeReg:
			return m, fmt.Errorf("%q is not a regular file", header.Name)
		case header.Name != manifestName && !slices.Contains(names, header.Name):
			return m, fmt.Errorf("it contains %q", header.Name)
		case header.Size > left:
			return m, fmt.Errorf("%q is too large", header.Name)
		}
		data, err := io.ReadAll(archive)
		left -= header.Size
		switch {
		case err != nil:
			return m, err
		case header.Name == manifestName:
			if err := json.Unmarshal(data, &m); err != nil {
				return m, err
			}
			same := slices.EqualFunc(
				m.Files,
				found,
				func(a, b File) bool { return a.Name == b.Name && a.SHA256 == b.SHA256 },
			)
			m.Files = found
			if _, err := archive.Next(); errors.Is(err, io.EOF) && same && m.Kind == kind {
				return m, nil
			}
			return m, errors.New("its manifest is about something else: it was damaged or changed")
		}
		found = append(found, File{header.Name, fmt.Sprintf("%x", sha256.Sum256(data)), data})
	}
}
