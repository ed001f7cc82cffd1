package git

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

const (
	maxControlFile  = 1 << 20 // bytes
	maxControlFiles = 1000    // in a git directory
)

var (
	// controlFiles and the files in controlDirs decide which programs git runs: configuration,
	// pointers to other directories, hooks, and remotes in an old format. Two more name directories
	// with objects of other repositories, which would be pushed.
	controlFiles = []string{
		"config", "config.worktree", "commondir", "gitdir",
		"objects/info/alternates", "objects/info/http-alternates",
	}
	controlDirs = []string{"hooks", "remotes", "branches"}

	// inProgress are files that can make git run a program when a hook continues a rebase or a
	// series of picks, with the content that does. A merge strategy with a slash is a path.
	// Older versions of git accept exec without a space after it.
	inProgress = map[string]func() *regexp.Regexp{
		"rebase-merge/git-rebase-todo": text.Pattern(`(?m)^\s*(x\s|exec)`),
		"rebase-merge/strategy":        text.Pattern(`/`),
		"sequencer/opts":               text.Pattern(`(?i)strategy`),
	}

	// writtenDirs are the directories in which git writes. Links matter there: if a reflog or
	// COMMIT_EDITMSG is a link, git in a hook writes text of the agent's choice into any file
	// of the account. Git itself creates no links.
	writtenDirs = slices.Concat(controlDirs, []string{
		"objects", "refs", "logs", "reftable", "rr-cache", "info", "rebase-merge", "rebase-apply",
		"sequencer", "worktrees", "modules", "lfs", "svn",
	})
)

// isControl reports whether a file of a git directory decides which programs git runs. Samples
// of hooks do not.
func isControl(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	return slices.Contains(controlFiles, name) ||
		slices.Contains(controlDirs, top) && filepath.Ext(name) != ".sample"
}

// entry is a file, a link or a special file.
type entry struct {
	Mode fs.FileMode `json:"mode"`
	Data []byte      `json:"data,omitempty"` // or the target of a link
}

func (e entry) isLink() bool { return e.Mode&fs.ModeSymlink != 0 }

func (e entry) digest() string { return digest(e.Mode.String(), string(e.Data)) }

// readEntry returns the entry at a path. It follows no link and does not block on a pipe. An
// entry that can't be read is marked with fs.ModeIrregular, so that it equals no other.
func readEntry(path string) (e entry, there bool, err error) {
	info, err := os.Lstat(path)
	if files.Absent(err) {
		return e, false, nil
	}
	if err != nil {
		return entry{Mode: fs.ModeIrregular}, true, err
	}
	e.Mode = info.Mode()
	switch {
	case e.isLink():
		var target string
		target, err = os.Readlink(path)
		e.Data = []byte(target)
	case e.Mode.IsRegular():
		e.Data, err = files.ReadRegular(path, maxControlFile)
	}
	if err != nil {
		e.Mode |= fs.ModeIrregular
	}
	return e, true, err
}

// readGitDir adds to list, by path, the files of a git directory that decide which programs
// git runs or where it writes: control files, the commands of a rebase in progress, and links.
// A control file that can't be read is in the list, too (see unreadable); a directory that
// can't be read is an error.
func readGitDir(ctx context.Context, list map[string]entry, dir string) error {
	count := 0
	keep := func(path string, d fs.DirEntry, e entry) error {
		list[path] = e
		count++
		if count > maxControlFiles {
			return fmt.Errorf("%s holds more than %d files that git could run", dir, maxControlFiles)
		}
		if d != nil && d.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name := strings.ToLower(strings.TrimPrefix(path, dir+"/")) // some file systems ignore case
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case files.Absent(err):
			return nil
		case err != nil && isControl(name):
			return keep(path, d, entry{Mode: fs.ModeIrregular})
		case err != nil:
			return err
		case path == dir:
			return nil
		case d.IsDir() && !slices.Contains(controlFiles, name):
			return enter(path, name)
		case d.Type()&fs.ModeSymlink == 0 && !isControl(name) && inProgress[name] == nil:
			return nil
		}
		e, _, _ := readEntry(path)
		if isHarmless(name, e) {
			return nil
		}
		return keep(path, d, e)
	})
}

// enter returns fs.SkipDir for a directory of a git directory in which git neither runs nor
// writes anything.
func enter(path, name string) error {
	top, _, _ := strings.Cut(name, "/")
	if !slices.Contains(writtenDirs, top) {
		return fs.SkipDir
	}
	open(path)
	return nil
}

// isHarmless reports whether git runs nothing because of a file in its place: a series of
// picks without commands, or HEAD as old versions of git make it, a link that they do not
// follow.
func isHarmless(name string, e entry) bool {
	if name == "head" {
		return strings.HasPrefix(string(e.Data), "refs/")
	}
	step := inProgress[name]
	return step != nil && e.Mode.IsRegular() && !step().Match(e.Data)
}

// unreadable returns an error if a list of readGitDir contains something that could not be
// read. The error names the first of several, so that each try fails with the same words.
func unreadable(list map[string]entry) error {
	for _, path := range slices.Sorted(maps.Keys(list)) {
		if list[path].Mode&fs.ModeIrregular != 0 {
			return fmt.Errorf("%s can't be read", path)
		}
	}
	return nil
}

// restore restores the control files of the workspace's repository, removes new ones and new
// links, and returns their names. It keeps changed settings that can't run a program.
func (s *snapshot) restore(ctx context.Context) (names []string, err error) {
	for _, dir := range s.Dirs {
		real, ok, err := resolveDir(dir)
		if err != nil || !ok || real != dir {
			continue // it does not exist or leads elsewhere, which the search reports
		}
		open(dir)
		now := map[string]entry{}
		// a control file that can't be read is restored
		if err := readGitDir(ctx, now, dir); err != nil {
			return names, err
		}
		todo, err := planRestore(ctx, dir, s.Files[dir], now)
		if err != nil {
			return names, err
		}
		for _, r := range todo {
			names = append(names, r.names...)
		}
		if err := putBack(ctx, todo); err != nil {
			return names, err
		}
	}
	return slices.Compact(names), nil
}

// repair is how a path of a git directory is restored.
type repair struct {
	path  string
	names []string // of what is changed back: "hooks/pre-push", or a setting such as "alias.a"
	// remove: nothing takes the place of what is there, otherwise entry does
	remove bool
	entry  entry
}

// planRestore returns the repairs of a git directory, by path.
func planRestore(ctx context.Context, dir string, was, now map[string]entry) (todo []repair, err error) {
	all := maps.Clone(now)
	maps.Copy(all, was)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		before, wasThere := was[path]
		after, isThere := now[path]
		name := strings.TrimPrefix(path, dir+"/")
		var r repair
		switch {
		case wasThere && isThere:
			r, err = repairChanged(ctx, name, before, after)
		case wasThere:
			r, err = repairGone(ctx, name, before)
		default:
			r, err = repairNew(ctx, name, after)
		}
		if err != nil {
			return nil, err
		}
		if len(r.names) > 0 {
			r.path = path
			todo = append(todo, r)
		}
	}
	return todo, nil
}

// repairChanged changes a file back. In a configuration it keeps the settings that an agent
// may make, and the mode.
func repairChanged(ctx context.Context, name string, before, after entry) (repair, error) {
	if before.Mode == after.Mode && bytes.Equal(before.Data, after.Data) {
		return repair{}, nil
	}
	if !isConfig(name, before) || !isConfig(name, after) {
		return repair{names: []string{name}, entry: before}, nil
	}
	data, changed, err := settleConfig(ctx, after.Data, before.Data, name)
	return repair{names: changed, entry: entry{after.Mode.Perm() | 0o600, data}}, err
}

// repairGone brings a control file back as it was. A configuration stays away if that changes
// nothing about which programs git runs.
func repairGone(ctx context.Context, name string, before entry) (repair, error) {
	if !isControl(name) {
		return repair{}, nil
	}
	if !isConfig(name, before) {
		return repair{names: []string{name}, entry: before}, nil
	}
	_, changed, err := settleConfig(ctx, nil, before.Data, name)
	return repair{names: changed, entry: before}, err
}

// repairNew removes a file. A configuration stays with the settings that an agent may make.
func repairNew(ctx context.Context, name string, after entry) (repair, error) {
	if !isConfig(name, after) {
		return repair{names: []string{name}, remove: true}, nil
	}
	data, changed, err := settleConfig(ctx, after.Data, nil, name)
	return repair{names: changed, entry: entry{after.Mode.Perm() | 0o600, data}}, err
}

// isConfig reports whether an entry is a configuration, of a repository or of a work tree.
func isConfig(name string, e entry) bool {
	return strings.HasPrefix(name, "config") && e.Mode.IsRegular()
}

// putBack carries out repairs. It replaces a file atomically, and removes anything else first.
// It never writes into an existing file, because that may have a second name elsewhere.
func putBack(ctx context.Context, todo []repair) error {
	// A link in the place of a directory goes first: what is behind it is not the workspace's.
	for _, r := range todo {
		open(filepath.Dir(r.path))
		info, err := os.Lstat(r.path)
		if !r.remove && r.entry.Mode.IsRegular() && err == nil && !info.IsDir() {
			continue
		}
		if err := files.RemoveTree(ctx, r.path); err != nil {
			return err
		}
	}
	for _, r := range todo {
		if r.remove {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(r.path), 0o755); err != nil {
			return err
		}
		if r.entry.isLink() {
			if err := os.Symlink(string(r.entry.Data), r.path); err != nil {
				return err
			}
			continue
		}
		if err := durable.WriteFile(r.path, r.entry.Data, r.entry.Mode.Perm()); err != nil {
			return err
		}
	}
	return nil
}

// open makes a directory accessible again, because an agent may have changed its mode.
func open(dir string) {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o700 == 0o700 {
		return
	}
	_ = os.Chmod(dir, info.Mode().Perm()|0o700) // if that fails, reading the directory fails
}
