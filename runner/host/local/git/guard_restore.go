package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// What is put back in a git directory: its configuration, what leads git to another directory, and its hooks.
var (
	configFiles  = []string{"config", "config.worktree"}
	pointerFiles = []string{"commondir", "gitdir"}
)

const (
	maxKeptFile  = 1 << 20 // bytes
	maxHookFiles = 500
)

// keptFile is what stood at a path before the agent. Its path is in bytes, because a path need not be text.
type keptFile struct {
	Path   []byte      `json:"path"`
	There  bool        `json:"there,omitempty"`
	Mode   fs.FileMode `json:"mode,omitempty"`
	Data   []byte      `json:"data,omitempty"` // or the target of a link
	Config bool        `json:"config,omitempty"`
}

// lookAtKept says what stands at a path, following no link and waiting for no pipe.
func lookAtKept(path string) (k keptFile, err error) {
	k.Path = []byte(path)
	info, err := os.Lstat(path)
	switch {
	case files.Absent(err):
		return k, nil
	case err != nil:
		return k, err
	}
	k.There, k.Mode = true, info.Mode()
	switch {
	case k.Mode&fs.ModeSymlink != 0:
		var target string
		target, err = os.Readlink(path)
		k.Data = []byte(target)
	case k.Mode.IsRegular() && info.Size() > maxKeptFile:
		err = fmt.Errorf("%s is larger than %d bytes", path, maxKeptFile)
	case k.Mode.IsRegular():
		if k.Data, err = files.ReadRegular(path, maxKeptFile); errors.Is(err, fs.ErrPermission) && os.Chmod(path, k.Mode.Perm()|0o400) == nil {
			k.Data, err = files.ReadRegular(path, maxKeptFile)
		}
	}
	return k, err
}

func (k keptFile) same(o keptFile) bool {
	return k.There == o.There && k.Mode == o.Mode && string(k.Data) == string(o.Data)
}

// keep writes down the files of a git directory.
func (s *gitSnapshot) keep(dir string) error {
	for _, name := range slices.Concat(configFiles, pointerFiles) {
		k, err := lookAtKept(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		k.Config = slices.Contains(configFiles, name)
		s.Files = append(s.Files, k)
	}
	hooks, err := hookFiles(dir)
	s.Files = append(s.Files, hooks...)
	return err
}

// hookFiles are what is in the hooks of a git directory, parents first, without the samples, which git never runs.
func hookFiles(dir string) (list []keptFile, err error) {
	root := filepath.Join(dir, "hooks")
	openForUs(dir)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case files.Absent(err):
			return nil
		case err != nil:
			return err
		case len(list) == maxHookFiles:
			return fmt.Errorf("%s holds more than %d files", root, maxHookFiles)
		case filepath.Ext(path) == ".sample" && d.Type().IsRegular() && filepath.Dir(path) == root:
			return nil
		}
		if d.IsDir() {
			openForUs(path) // before it is read
		}
		k, err := lookAtKept(path)
		list = append(list, k)
		return err
	})
	return list, err
}

// openForUs makes a directory of this account accessible again, which an agent may have closed.
func openForUs(dir string) {
	if info, err := os.Lstat(dir); err == nil && info.IsDir() && info.Mode().Perm()&0o700 != 0o700 {
		_ = os.Chmod(dir, info.Mode().Perm()|0o700) // what still can't be read is an error then
	}
}

// restore puts the files of the run's repository back and names those that were changed.
func (s *gitSnapshot) restore(ctx context.Context) (names []string, err error) {
	was := map[string]keptFile{}
	for _, k := range s.Files {
		was[string(k.Path)] = k
	}
	for _, dir := range s.Dirs {
		real, err := filepath.EvalSymlinks(dir)
		if info, statErr := os.Lstat(dir); err != nil || real != dir || statErr != nil || !info.IsDir() {
			continue // it is gone or leads elsewhere, which findPrograms reports
		}
		openForUs(dir)
		for _, name := range slices.Concat(configFiles, pointerFiles) {
			changed, err := restoreFile(ctx, was[filepath.Join(dir, name)], filepath.Join(dir, name))
			if err != nil {
				return names, err
			}
			names = append(names, changed...)
		}
		changed, err := restoreHooks(ctx, dir, was)
		if err != nil {
			return names, err
		}
		names = append(names, changed...)
	}
	return slices.Compact(names), nil
}

// restoreFile puts one file back. Of a configuration, settings that can't run a program stay as they are now.
func restoreFile(ctx context.Context, was keptFile, path string) (changed []string, err error) {
	now, err := lookAtKept(path)
	if err == nil && (now.same(was) || was.Config && !now.There) {
		return nil, nil // a configuration that is gone sets nothing
	}
	plain := func(k keptFile) bool { return !k.There || k.Mode.IsRegular() }
	if was.Config && err == nil && plain(was) && now.There && now.Mode.IsRegular() {
		result, changed, err := settleConfig(ctx, now.Data, was.Data)
		if err != nil || len(changed) == 0 {
			return nil, err
		}
		for i, name := range changed {
			if name == wholeFile {
				changed[i] = filepath.Base(path)
			}
		}
		return changed, durable.WriteFile(path, result, now.Mode.Perm()|0o600)
	}
	return []string{filepath.Base(path)}, was.putBack(ctx, path)
}

// restoreHooks makes the hooks of a git directory what they were.
func restoreHooks(ctx context.Context, dir string, was map[string]keptFile) (changed []string, err error) {
	root := filepath.Join(dir, "hooks")
	list, err := hookFiles(dir)
	if err != nil { // too much, or unreadable: none of it is trusted
		changed, err = []string{"hooks"}, files.RemoveTree(ctx, root)
		list = nil
	}
	if err != nil {
		return changed, err
	}
	seen := map[string]bool{}
	for _, now := range slices.Backward(list) { // files before the directory that they are in
		path := string(now.Path)
		seen[path] = true
		if now.same(was[path]) || path == root && now.Mode.IsDir() && (!was[path].There || was[path].Mode.IsDir()) {
			continue
		}
		changed = append(changed, strings.TrimPrefix(path, dir+"/"))
		if !now.Mode.IsDir() || !was[path].Mode.IsDir() {
			if err := files.RemoveTree(ctx, path); err != nil {
				return changed, err
			}
		}
		seen[path] = false
	}
	var missing []string
	for path := range was {
		if (path == root || within(root, path)) && !seen[path] {
			missing = append(missing, path)
		}
	}
	slices.Sort(missing) // parents first
	for _, path := range missing {
		if rel := strings.TrimPrefix(path, dir+"/"); !slices.Contains(changed, rel) {
			changed = append(changed, rel)
		}
		if err := was[path].putBack(ctx, path); err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// putBack makes a path what it was. It writes into no file that is there, for that may have another name elsewhere.
func (k keptFile) putBack(ctx context.Context, path string) error {
	if k.Mode.IsDir() {
		if info, err := os.Lstat(path); err == nil && info.IsDir() {
			return os.Chmod(path, k.Mode.Perm()|0o700)
		}
	}
	if err := files.RemoveTree(ctx, path); err != nil {
		return err
	}
	switch {
	case !k.There:
		return nil
	case k.Mode.IsDir():
		return os.Mkdir(path, k.Mode.Perm()|0o700)
	case k.Mode&fs.ModeSymlink != 0:
		return os.Symlink(string(k.Data), path)
	}
	return errors.Join(durable.WriteFile(path, k.Data, k.Mode.Perm()), os.Chmod(path, k.Mode.Perm()))
}
