// Package files opens, creates and removes files safely in places where an agent may have put
// something else.
package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// The codes of a failed system call.
const (
	CodeFailed       = "workspace_failed"
	CodeDiskFull     = "disk_full"
	CodeRootUnusable = "workspace_root_unusable"
)

// Failed wraps the error of a system call; nil stays nil. A full disk and a read-only volume
// have their own codes, because they are faults of the machine and not of the issue.
func Failed(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	e := &reconcile.Error{
		Code:    CodeFailed,
		Message: fmt.Sprintf(format, args...) + ": " + err.Error(),
		Err:     err,
	}
	temporary := host.TemporaryDirectory(err)
	switch {
	case temporary != nil:
		temporary.Message = fmt.Sprintf(format, args...) + ": " + temporary.Message
		return temporary
	case paths.IsFull(err):
		e.Code = CodeDiskFull
		e.Hint = "free space on the volume of workspace.root"
		if at, isPath := errors.AsType[*fs.PathError](err); isPath {
			e.Hint = paths.MakeRoom(filepath.Dir(at.Path))
		}
	case errors.Is(err, syscall.EROFS):
		e.Code = CodeRootUnusable
		e.Hint = "mount the volume of workspace.root read-write"
	case errors.Is(err, fs.ErrPermission):
		denied, isPath := errors.AsType[*fs.PathError](err)
		if isPath {
			e.Hint = paths.Regain(denied.Path)
		}
	case errors.Is(err, exec.ErrNotFound):
		e.Hint = "install git, or add its directory to PATH in ~/.profile"
	}
	return e
}

// Absent reports whether an error means that a path does not exist.
func Absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// OwnDir creates a directory that only this account can use. An existing directory is checked
// as by CheckOwnDir.
func OwnDir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return CheckOwnDir(path)
}

// CheckOwnDir checks that path is a directory that only this account can write. It follows no
// symlink.
func CheckOwnDir(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "use", Path: path, Err: syscall.ENOTDIR}
	}
	if !paths.Ours(info) || info.Mode().Perm()&0o022 != 0 {
		err := errors.New("others own it or can write to it")
		return &fs.PathError{Op: "use", Path: path, Err: err}
	}
	return nil
}

// ReadRegular reads a small regular file. A link, pipe or device in its place is an error: an
// agent may have made a link to what only the operator may read. A pipe is not waited for.
func ReadRegular(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readRegular(f, limit)
}

// ReadReal is ReadRegular for a path in which nothing is a link, also no directory above the file.
// It is for what an agent that still works can change: it may make a link of a directory between
// two calls.
func ReadReal(path string, limit int64) ([]byte, error) {
	f, err := paths.OpenReal(path, os.O_RDONLY|syscall.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readRegular(f, limit)
}

func readRegular(f *os.File, limit int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, &fs.PathError{Op: "read", Path: f.Name(), Err: errors.New("not a small regular file")}
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// lastLineMax bounds a line of output in an error, in bytes.
const lastLineMax = 200

// Reason returns the line of output that most likely explains why a command failed: among the
// last twenty lines the first that git and many other programs mark as an error, otherwise the
// last line.
func Reason(text []byte) string {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	for _, line := range lines[max(0, len(lines)-reasonLines):] {
		line = bytes.TrimSpace(line)
		if start := bytes.ToLower(line[:min(len(line), len("remote: error:"))]); marked().Match(start) {
			return LastLine(line)
		}
	}
	return LastLine(text)
}

const reasonLines = 20

var marked = text.Pattern(`^(?:remote: )?(?:fatal|error): ?`)

// LastLine returns the last line of output that is not blank, shortened to 200 bytes, as valid
// UTF-8.
func LastLine(output []byte) string {
	s := strings.TrimSpace(strings.ToValidUTF8(string(output), "\uFFFD"))
	return text.Short(strings.TrimSpace(s[strings.LastIndexAny(s, "\n\r")+1:]), lastLineMax)
}
