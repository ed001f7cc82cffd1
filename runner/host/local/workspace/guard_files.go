package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/symphony-cron/symphony/internal/durable"
)

// The bounds of what is kept of a git directory.
const (
	keepBytes = 1 << 20  // of one file; of a larger one only what it was is known
	keepTotal = 64 << 20 // of all; what comes after that, likewise
	sumBytes  = 256 << 20
	treeFiles = 2000 // in hooks, remotes and branches of one git directory
)

// kinds of what stands at a path. Nothing is the zero value.
const (
	isNothing = ""
	isFile    = "file"
	isLink    = "link"
	isDir     = "directory"
	isOther   = "special" // a pipe, a socket, a device
)

// kept is what stood at a path when it could be trusted.
type kept struct {
	Kind   string      `json:"kind,omitempty"`
	Mode   fs.FileMode `json:"mode,omitempty"` // permissions
	Data   []byte      `json:"data,omitempty"`
	Target string      `json:"target,omitempty"` // of a link
	Real   string      `json:"real,omitempty"`   // where a .git led
	Sum    string      `json:"sum,omitempty"`    // of a file too large to keep
	// Config: it is read as git configuration. Then nothing may stand there, and later something.
	Config bool `json:"config,omitempty"`
}

func (k kept) same(o kept) bool {
	return k.Kind == o.Kind && k.Mode == o.Mode && string(k.Data) == string(o.Data) && k.Target == o.Target && k.Sum == o.Sum
}

// lookAtFile says what stands at a path, without following a link there or waiting for a pipe. Files that are made
// unreadable are made readable: they are ours.
func lookAtFile(path string) (kept, error) {
	info, err := os.Lstat(path)
	switch {
	case absent(err):
		return kept{}, nil
	case err != nil:
		return kept{}, err
	}
	k := kept{Kind: isOther, Mode: info.Mode().Perm()}
	switch mode := info.Mode(); {
	case mode.IsDir():
		k.Kind = isDir
	case mode&fs.ModeSymlink != 0:
		k.Kind, k.Mode = isLink, 0
		k.Target, err = os.Readlink(path)
	case mode.IsRegular():
		k.Kind = isFile
		if k.Mode&0o400 == 0 {
			if err := os.Chmod(path, k.Mode|0o400); err != nil {
				return kept{}, err
			}
		}
		k.Data, k.Sum, err = readKept(path)
	}
	return k, err
}

// readKept gives the content of a file, or of a large one its sum and size.
func readKept(path string) (data []byte, sum string, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, "", err
	}
	if info.Size() <= keepBytes {
		data, err = io.ReadAll(io.LimitReader(f, keepBytes))
		return data, "", err
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, sumBytes)); err != nil {
		return nil, "", err
	}
	return nil, fmt.Sprintf("%s %d", hex.EncodeToString(h.Sum(nil)), info.Size()), nil
}

// treeOf gives what stands at a path and below it, by paths, but for the samples of hooks, which git never runs and
// each new repository has. A tree with too much in it is an error.
func treeOf(ctx context.Context, root string) (map[string]kept, error) {
	files := map[string]kept{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case absent(err):
			return nil
		case err != nil:
			return err
		case len(files) == treeFiles:
			return errEnough
		}
		if filepath.Ext(path) == ".sample" && d.Type().IsRegular() && filepath.Dir(path) == root {
			return nil
		}
		k, err := lookAtFile(path)
		if k.Kind != isNothing {
			files[path] = k
		}
		if err == nil && k.Kind == isDir {
			err = openForUs(path) // before it is read
		}
		return err
	})
	return files, err
}

// put back makes a path what it was. Of what was too large to keep, nothing is left in the end.
func (k kept) putBack(ctx context.Context, path string) error {
	if k.Kind != isDir {
		if err := clearPath(ctx, path); err != nil {
			return err
		}
	}
	switch {
	case k.Kind == isFile && k.Sum == "":
		return replaceFile(path, k.Data, k.Mode)
	case k.Kind == isLink:
		return os.Symlink(k.Target, path)
	case k.Kind == isDir:
		return makeDir(ctx, path, k.Mode)
	}
	return nil
}

func makeDir(ctx context.Context, path string, mode fs.FileMode) error {
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return os.Chmod(path, mode|0o700)
	}
	if err := clearPath(ctx, path); err != nil {
		return err
	}
	return os.Mkdir(path, mode|0o700)
}

// clearPath takes away what is no regular file: that is replaced in one step.
func clearPath(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case absent(err):
		return nil
	case err != nil:
		return err
	case info.Mode().IsRegular():
		return nil
	}
	return takeAway(ctx, path)
}

// takeAway removes a file, or a directory with all below it, and follows no link.
func takeAway(ctx context.Context, path string) error {
	if err := openForUs(filepath.Dir(path)); err != nil {
		return err
	}
	return removeTree(ctx, path)
}

// openForUs makes a directory of ours writable, whoever may have made it read-only.
func openForUs(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o700 == 0o700 {
		return err
	}
	return os.Chmod(dir, info.Mode().Perm()|0o700)
}

// replaceFile puts a new file with this content in the place of a file or of nothing, durably. It writes into no
// file that is there, for that may have another name elsewhere.
func replaceFile(path string, data []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	if err := openForUs(dir); err != nil {
		return err
	}
	return durable.WriteFile(path, data, mode)
}
