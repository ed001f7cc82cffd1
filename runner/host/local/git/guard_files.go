package git

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

const (
	maxControlFile  = 1 << 20 // bytes
	maxControlFiles = 500     // in one directory
)

// controlFiles are the files and directories by which git finds programs in a git directory: its configuration, what leads git
// to another directory, and hooks.
var controlFiles = []string{"config", "config.worktree", "commondir", "gitdir", "hooks"}

// entry is what stands at a path that is no directory.
type entry struct {
	Mode fs.FileMode `json:"mode"`
	Data []byte      `json:"data,omitempty"` // or the target of a link
}

func (e entry) isLink() bool { return e.Mode&fs.ModeSymlink != 0 }

func (e entry) digest() string { return digest(e.Mode.String(), string(e.Data)) }

// readEntry returns what stands at a path, following no link and waiting for no pipe. What can't be read is like nothing else.
func readEntry(path string) (e entry, there bool, err error) {
	info, err := os.Lstat(path)
	if files.Absent(err) {
		return e, false, nil
	}
	if err == nil {
		e.Mode = info.Mode()
		switch {
		case e.isLink():
			var target string
			target, err = os.Readlink(path)
			e.Data = []byte(target)
		case e.Mode.IsRegular():
			e.Data, err = files.ReadRegular(path, maxControlFile)
		}
	}
	if err != nil {
		e.Mode |= fs.ModeIrregular
	}
	return e, true, err
}

// readTree adds a file, or the files below a directory, without the samples of hooks, which git never runs. With an error the
// list holds what could not be read as well.
func readTree(root string, list map[string]entry) (failed error) {
	count := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		e := entry{Mode: fs.ModeIrregular}
		switch {
		case files.Absent(err), err == nil && d.IsDir() && (path != root || d.Name() == "hooks"), filepath.Ext(path) == ".sample":
			return nil
		case err == nil:
			e, _, err = readEntry(path)
		}
		if count++; count > maxControlFiles {
			e, err = entry{Mode: fs.ModeIrregular}, fmt.Errorf("%s holds more than %d files", root, maxControlFiles)
			path = root
		}
		list[path] = e
		if err != nil {
			failed = err
		}
		if path == root {
			return fs.SkipAll
		}
		return nil
	})
	if failed == nil {
		failed = err
	}
	return failed
}

// restore puts the files of the workspace's repository back and names those that were changed. Of a configuration, settings
// that can't run a program stay as they are now.
func (s *snapshot) restore(ctx context.Context) (names []string, err error) {
	for _, dir := range s.Dirs {
		if real, ok, err := resolveDir(dir); err != nil || !ok || real != dir {
			continue // it is gone or leads elsewhere, which the search reports
		}
		was, now := map[string]entry{}, map[string]entry{}
		for path, e := range s.Files {
			if top, _, _ := strings.Cut(strings.TrimPrefix(path, dir+"/"), "/"); slices.Contains(controlFiles, top) {
				was[path] = e
			}
		}
		for _, name := range controlFiles {
			_ = readTree(filepath.Join(dir, name), now) // what can't be read is put back
		}
		var changed []string
		all := maps.Clone(was)
		maps.Copy(all, now)
		for _, path := range slices.Sorted(maps.Keys(all)) {
			before, wasThere := was[path]
			after, isThere := now[path]
			name := strings.TrimPrefix(path, dir+"/")
			if wasThere == isThere && before.Mode == after.Mode && bytes.Equal(before.Data, after.Data) {
				continue
			}
			found := []string{name}
			if strings.HasPrefix(name, "config") && before.Mode.IsRegular() && after.Mode.IsRegular() {
				before.Data, found, err = settleConfig(ctx, after.Data, before.Data, name)
				if err != nil {
					return names, err
				}
				before.Mode = after.Mode.Perm() | 0o600
				was[path] = before
			}
			if len(found) > 0 {
				changed, names = append(changed, path), append(names, found...)
			}
		}
		if err := putBack(ctx, changed, was); err != nil {
			return names, err
		}
	}
	return slices.Compact(names), nil
}

// putBack makes some paths what they were. A file is replaced by another at once, all else removed before. It writes into no
// file that is there, for that may have another name elsewhere.
func putBack(ctx context.Context, paths []string, was map[string]entry) error {
	for _, path := range slices.Backward(paths) { // files before the directories in which they are
		before, there := was[path]
		info, err := os.Lstat(path)
		if there && before.Mode.IsRegular() && err == nil && !info.IsDir() {
			continue
		}
		if err := files.RemoveTree(ctx, path); err != nil {
			return err
		}
	}
	for _, path := range paths {
		before, there := was[path]
		if !there {
			continue
		}
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil && before.isLink() {
			err = os.Symlink(string(before.Data), path)
		} else if err == nil {
			err = durable.WriteFile(path, before.Data, before.Mode.Perm())
		}
		if err != nil {
			return err
		}
	}
	return nil
}
