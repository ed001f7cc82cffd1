package file

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
)

// gone returns the error of something that does not exist.
func gone(message, hint string) *reconcile.Error {
	return &reconcile.Error{
		Code:    "issue_not_found",
		Message: message,
		Hint:    hint,
		Err:     reconcile.ErrGone,
	}
}

// malformed returns the error of a file that is no issue.
func (t *tracker) malformed(r *record) error {
	return reconcile.NewError(
		"tracker_malformed",
		t.Path+": "+r.fault(),
		"correct the file, or move it out of the folder",
	)
}

// unreadable returns the error of a folder or file that cannot be read.
func unreadable(path string, err error) error {
	return reconcile.NewError(
		"file_read",
		path+": "+reason(err),
		cmp.Or(paths.Regain(path), "make it readable for the account that symphony runs as")+
			"; until then nothing is started, stopped or released",
	).WithCause(err)
}

// reason returns the system's part of an error, without the path.
func reason(err error) string {
	e, ok := errors.AsType[*fs.PathError](err)
	if ok {
		return e.Err.Error()
	}
	return err.Error()
}

// folderError returns the error of a folder that cannot be read.
func folderError(path string, err error) error {
	what, remedy := paths.Missing(path)
	hint := cmp.Or(remedy, "create it")
	info, statErr := os.Stat(path)
	isOther := statErr == nil && !info.IsDir()
	if isOther {
		what = "is not a folder"
		hint = "move that file away and create the folder"
	}
	if !isOther && !errors.Is(err, fs.ErrNotExist) {
		return unreadable(path, err)
	}
	return reconcile.NewError(
		"tracker_project_not_found",
		path+" "+what,
		hint+", or correct tracker.provider.path; until then no run is stopped and no issue is released",
	)
}

// unwritable returns the error of a file that the system did not let symphony change.
func (t *tracker) unwritable(name string, err error) error {
	hint := cmp.Or(
		paths.Regain(filepath.Join(t.Path, name)),
		"make the folder and the file writable for the account that symphony runs as",
	)
	switch {
	case paths.IsFull(err):
		hint = paths.MakeRoom(t.Path)
	case errors.Is(err, syscall.EROFS):
		hint = "mount the volume of the folder read-write"
	}
	return t.unchanged(name, reason(err), hint)
}

// unchanged returns the error of a file that was not changed.
func (t *tracker) unchanged(name, why, hint string) error {
	return reconcile.NewError("file_write", filepath.Join(t.Path, name)+" was not changed: "+why, hint)
}
