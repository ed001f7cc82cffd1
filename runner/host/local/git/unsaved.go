package git

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

const (
	unsavedTimeout  = 30 * time.Second // for a workspace
	maxRepositories = 50               // examined in a workspace
	maxNamed        = 10               // commits and files of a repository that Unsaved names
	maxItem         = 300              // bytes of such a name
)

// Unsaved describes the work below dir that exists nowhere else, for instance "2 commits not
// on any remote, 1 change not committed", and names the first commits and files of each
// repository. If it returns an empty string, nothing is lost when dir is deleted. Every
// decision to delete a workspace goes through this function. Repositories in the directories
// of alsoDeleted count as deleted with dir.
//
// The rule: git decides, for each repository at or below dir. A commit is saved if a reference
// of a remote contains it. A file is saved if it is committed without changes or ignored, by
// the repository or by the account of the agent's git.
// The remote must be in the configuration: the guard undoes some that agents make. A remote in
// a local directory that does not exist, or that is deleted with dir, does not count, except
// for the remote origin if the repository is now at the address origin. Commits of HEAD
// (detached or not), branches, tags, stashes, other references and submodules are unsaved if
// no remote contains them, and so are modified or untracked files, including files that the
// index hides from git status. A repository without a remote saved nothing. Anything that
// can't be read, or exceeds the limits of the search, counts as unsaved.
//
// Files that are in no repository are unsaved, unless they are in known, an earlier result of
// OutsideFiles: then after_create made them. A bare repository counts unless it is inside a
// work tree: there its files are untracked or ignored.
//
// git clone packs the tags of its remote, including tags that no branch contains, and the
// remote contains these commits. So a packed tag counts only if it may have been created here:
// HEAD was at its commit, or a reference is packed that no clone packs. If the main repository
// of a linked worktree is not deleted, its branches and stashes are safe.
//
// No program that a repository names is run, and no repository is written to.
func Unsaved(
	ctx context.Context,
	dir, known, origin string,
	account AccountFiles,
	alsoDeleted ...string,
) (work string, items []string) {
	ctx, cancel := context.WithTimeout(ctx, unsavedTimeout)
	defer cancel()
	top, ok, err := resolveDir(dir)
	if err != nil {
		return "a folder that can't be read", nil
	}
	if !ok {
		return "", nil
	}
	u := unsavedSearch{
		top:     top,
		origin:  origin,
		account: account,
		deleted: []string{top},
		judged:  map[string]bool{},
	}
	for _, also := range alsoDeleted {
		real, ok, err := resolveDir(also)
		if err != nil || !ok {
			continue // it does not exist, or counts as kept
		}
		u.deleted = append(u.deleted, real)
	}
	trees, bare, pipes, unread := findRepositories(ctx, top)
	u.pipes = pipes
	u.unread = unread
	isOutside := func(dir string) bool {
		return !slices.ContainsFunc(trees, func(tree string) bool { return paths.Inside(tree, dir) })
	}
	u.bare = text.Filter(bare, isOutside)
	for _, tree := range trees[:min(len(trees), maxRepositories)] {
		u.repository(ctx, tree)
	}
	for _, dir := range u.bare[:min(len(u.bare), maxRepositories)] {
		if !u.judged[dir] {
			u.bareRepository(ctx, dir)
		}
	}
	if max(len(trees), len(u.bare)) > maxRepositories {
		u.found = append(u.found, "more repositories than are examined")
	}
	if u.unread {
		u.found = append(u.found, "folders that can't be read")
	}
	u.outside(ctx, known)
	if ctx.Err() != nil {
		return fmt.Sprintf("work that can't be listed within %s", unsavedTimeout), nil
	}
	return strings.Join(u.found, ", "), u.items
}

// repository reports the work in a repository with a work tree, and adds its modules to the
// git directories to examine. A linked worktree can contain modules, too.
func (u *unsavedSearch) repository(ctx context.Context, tree string) {
	r, ok, err := openToCompare(ctx, tree, Clone{AccountFiles: u.account})
	if err != nil || !ok {
		u.report(tree, "a repository that can't be read")
		return
	}
	defer func() { _ = r.close() }() // a temporary directory
	u.report(tree, append(u.commits(ctx, r), u.changes(ctx, r)...)...)
	u.judged[r.gitDir] = true
	u.judged[r.common] = true
	for _, name := range []string{"modules", "worktrees"} {
		_, modules, _, unread := findRepositories(ctx, filepath.Join(r.gitDir, name))
		u.bare = append(u.bare, modules...)
		u.unread = u.unread || unread
	}
}

// bareRepository reports the commits in a git directory without a work tree.
func (u *unsavedSearch) bareRepository(ctx context.Context, dir string) {
	const unread = "a repository that can't be read"
	r, err := newReader(ctx, repository{tree: dir, gitDir: dir, common: dir})
	if err != nil {
		u.report(dir, unread)
		return
	}
	defer func() { _ = r.close() }() // a temporary directory
	if r.refuseTables() != nil {
		u.report(dir, unread)
		return
	}
	u.report(dir, u.commits(ctx, r)...)
}

// unsavedSearch collects the unsaved work of a workspace.
type unsavedSearch struct {
	top     string
	origin  string          // the present address of the remote origin; empty if it is not known
	account AccountFiles    // of the agent's git
	deleted []string        // directories, top among them
	pipes   []string        // see findRepositories
	bare    []string        // git directories without a work tree, and those of modules
	judged  map[string]bool // git directories that were examined with their work tree
	unread  bool            // some directories could not be searched
	found   []string
	items   []string
}

// report adds the unsaved work of a repository.
func (u *unsavedSearch) report(path string, work ...string) {
	place, inside := strings.CutPrefix(path, u.top+"/")
	switch {
	case len(work) == 0:
		return
	case path == u.top:
		place = ""
	case !inside || strings.Contains(path, "/.git/"):
		place = "in submodule " + filepath.Base(path) + " "
	default:
		place = "in " + place + " "
	}
	u.found = append(u.found, place+strings.Join(work, ", "))
}

// deletes reports whether a path without links is deleted.
func (u *unsavedSearch) deletes(path string) bool {
	return slices.ContainsFunc(u.deleted, func(dir string) bool { return paths.Inside(dir, path) })
}

// findRepositories lists the directories that contain a .git, and the directories that are git
// directories themselves. pipes are files that git would wait for when it reads the rules of a
// directory. It follows no links.
func findRepositories(ctx context.Context, top string) (trees, bare, pipes []string, unread bool) {
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENAMETOOLONG) {
			return nil // git works at no such depth
		}
		if err != nil {
			unread = true
			return nil //nolint:nilerr // it is reported, and the rest is searched
		}
		dir := filepath.Dir(path)
		isRules := d.Name() == ".gitignore" || d.Name() == ".gitattributes"
		switch {
		case d.Name() == ".git" && path != top:
			trees = append(trees, dir)
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.Name() == "HEAD" && isBare(dir):
			bare = append(bare, dir)
		case isRules && d.Type()&fs.ModeNamedPipe != 0:
			pipes = append(pipes, path)
		}
		return nil
	})
	return trees, bare, pipes, unread || err != nil
}

// outside reports the files that are in no repository, unless they are the known ones.
func (u *unsavedSearch) outside(ctx context.Context, known string) {
	var paths []string
	print, err := outsideFiles(ctx, u.top, func(path string) { paths = append(paths, path) })
	if err != nil {
		u.found = append(u.found, "files that can't be listed")
		return
	}
	if len(paths) == 0 || print == known {
		return
	}
	u.found = append(u.found, text.Plural(len(paths), "file")+" in no repository")
	for i, path := range paths[:min(len(paths), maxNamed+1)] {
		u.name(i+1, path)
	}
}

// OutsideFiles returns a fingerprint of the files below dir that are in no repository: of
// their names, sizes and times. It is empty if they can't be listed in time.
func OutsideFiles(ctx context.Context, dir string) string {
	ctx, cancel := context.WithTimeout(ctx, unsavedTimeout)
	defer cancel()
	print, err := outsideFiles(ctx, dir, func(string) {})
	if err != nil {
		return ""
	}
	return print
}

// outsideFiles calls each with the path, relative to top, of every file in no repository and
// of every folder that can't be read. The fingerprint is the same if top is moved.
func outsideFiles(ctx context.Context, top string, each func(path string)) (print string, err error) {
	h := sha256.New()
	err = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		name := relative(top, path)
		if err != nil { // it may contain files
			number, _ := errors.AsType[syscall.Errno](err)
			fmt.Fprintf(h, "%s\x00unread\x00%d\x00", name, number)
			each(name)
			return nil
		}
		if d.IsDir() && (exists(filepath.Join(path, ".git")) || isBare(path)) {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // it has vanished
		}
		fmt.Fprintf(h, "%s\x00%d\x00%d\x00", name, info.Size(), info.ModTime().UnixNano())
		each(name)
		return nil
	})
	return fmt.Sprintf("%x", h.Sum(nil)), err
}

// relative returns the part of a path below top: a/b for /top/a/b, and "." for /top itself.
func relative(top, path string) string {
	if path == top {
		return "."
	}
	return strings.TrimPrefix(path, top+"/")
}

// DirAround returns the nearest directory, from dir upwards, that looks like a git directory;
// "" for none.
func DirAround(dir string) string {
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if isBare(dir) {
			return dir
		}
	}
	return ""
}

// isBare reports whether a directory looks like a git directory.
func isBare(dir string) bool {
	return exists(filepath.Join(dir, "HEAD")) && exists(filepath.Join(dir, "objects")) &&
		exists(filepath.Join(dir, "refs"))
}

// changes counts the files with uncommitted changes, as text; empty if there are none.
func (u *unsavedSearch) changes(ctx context.Context, r *reader) []string {
	const unlisted = "changes that git can't list"
	if slices.ContainsFunc(u.pipes, func(pipe string) bool { return paths.Inside(r.tree, pipe) }) {
		return []string{unlisted}
	}
	if err := r.showHidden(ctx); err != nil {
		return []string{unlisted}
	}
	below := strings.TrimPrefix(strings.TrimPrefix(r.tree, u.top), "/")
	changes := 0
	err := r.eachChange(ctx, func(_, path string) {
		if strings.HasSuffix(path, "/") { // another repository, which is judged separately
			return
		}
		changes++
		u.name(changes, filepath.Join(below, path))
	})
	if err != nil {
		return []string{unlisted}
	}
	if changes == 0 {
		return nil
	}
	return []string{text.Plural(changes, "change") + " not committed"}
}

// name adds the nth item of a repository.
func (u *unsavedSearch) name(n int, item string) {
	switch {
	case n <= maxNamed:
		u.items = append(u.items, text.Within(item, maxItem))
	case n == maxNamed+1:
		u.items = append(u.items, "…")
	}
}

// showHidden makes git status compare the existing files that git would otherwise assume to be
// unchanged (git update-index --assume-unchanged, --skip-worktree). In a sparse checkout most
// of them do not exist.
func (r *reader) showHidden(ctx context.Context) error {
	if err := r.copyIndex(); err != nil {
		return err
	}
	var hidden gitcmd.Answer
	cmd := r.git(ctx, "ls-files", "-v", "-z")
	cmd.Stdout = &splitWriter{each: func(entry string) {
		tag, path, _ := strings.Cut(entry, " ")
		if (tag == "S" || tag != strings.ToUpper(tag)) && exists(filepath.Join(r.tree, path)) {
			hidden.AddPath(path)
		}
	}}
	if err := r.run(cmd); err != nil {
		return err
	}
	if err := hidden.Err(); err != nil {
		return err
	}
	if hidden.String() == "" {
		return nil
	}
	for _, show := range []string{"--no-assume-unchanged", "--no-skip-worktree"} {
		cmd := r.git(ctx, "update-index", show, "-z", "--stdin")
		cmd.Stdin = strings.NewReader(hidden.String())
		if err := r.run(cmd); err != nil {
			return err
		}
	}
	return nil
}

// commits counts a repository's commits that no remote-tracking reference contains, as text;
// empty if there are none.
func (u *unsavedSearch) commits(ctx context.Context, r *reader) []string {
	unknown := []string{"commits that git can't count"}
	work, saved, err := u.ends(ctx, r)
	if err != nil {
		return unknown
	}
	if len(work) == 0 {
		return nil
	}
	commits := text.Map(work, func(p place) string { return p.commit })
	slices.Sort(commits) // so that the names are the same every time
	revisions := strings.Join(append(commits, saved...), "\n") + "\n"
	list := func(args ...string) (string, error) {
		cmd := r.git(ctx, append([]string{"rev-list", "--stdin"}, args...)...)
		cmd.Stdin = strings.NewReader(revisions)
		return r.output(cmd)
	}
	count, err := list("--count")
	if err != nil {
		return unknown
	}
	n, err := strconv.Atoi(count)
	if err != nil {
		return unknown
	}
	if n == 0 {
		return nil
	}
	names, err := list("--pretty=oneline", "--abbrev-commit", "--max-count="+strconv.Itoa(maxNamed+1))
	if err == nil { // otherwise the number is enough
		for i, line := range strings.Split(names, "\n") {
			u.name(i+1, line)
		}
	}
	return []string{text.Plural(n, "commit") + " not on any remote"}
}

// place is where a line of work ends: the branch aside, stash@{0}, or the linked worktree wt,
// called "worktree wt".
type place struct{ name, commit string }

// ends returns where lines of work end in a repository, and, after a "^", the commits up to
// which the work is saved.
func (u *unsavedSearch) ends(ctx context.Context, r *reader) (work []place, saved []string, err error) {
	// Otherwise branches survive in the main repository, except in a linked worktree's
	// submodule, which is deleted with it.
	deleted := u.deletes(r.common) ||
		strings.Contains(r.common, "/worktrees/") && strings.Contains(r.common, "/modules/")
	heads, err := r.readHeads(deleted)
	if err != nil {
		return nil, nil, err
	}
	remotes, err := u.remotes(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	work = heads.current
	for name, id := range r.refs {
		if strings.HasPrefix(id, "ref:") {
			continue // its target is listed, too
		}
		if !objectID(id) {
			return nil, nil, fmt.Errorf("the reference %s names no commit", name)
		}
		isRemote := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		if !deleted || slices.ContainsFunc(remotes, isRemote) {
			saved = append(saved, "^"+id)
			continue
		}
		if !r.clonedTag(name) || slices.Contains(heads.past, r.packed[name]) {
			work = append(work, place{strings.TrimPrefix(name, "refs/heads/"), id})
		}
	}
	return work, saved, nil
}

// clonedTag reports whether a reference is a tag that git clone may have packed, and nothing
// else.
func (r *reader) clonedTag(name string) bool {
	return strings.HasPrefix(name, "refs/tags/") && r.packed[name] != "" && !r.repacked
}

// remotes returns the prefixes of the references to the contents of remotes. It omits remotes
// that are deleted together with the commits pushed there, or that are already gone.
func (u *unsavedSearch) remotes(ctx context.Context, r *reader) (prefixes []string, err error) {
	data, err := files.ReadReal(filepath.Join(r.common, "config"), maxControlFile)
	if files.Absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := parseConfig(ctx, data)
	if err != nil {
		return nil, err
	}
	lost := map[string]bool{}
	for _, s := range list {
		if s.section != "remote" || s.sub == "" || s.name != "url" && s.name != "pushurl" {
			continue
		}
		lost[s.sub] = lost[s.sub] || u.loses(r.tree, s, list)
	}
	for name, lost := range lost {
		if lost && name == "origin" && u.origin != "" {
			lost = u.isLost(r.tree, u.origin, true) // it was moved
		}
		if !lost {
			prefixes = append(prefixes, "refs/remotes/"+name+"/", "refs/prefetch/remotes/"+name+"/")
		}
	}
	return prefixes, nil
}

// loses reports whether an address of a remote, or one that the configuration puts in its
// place, leads to a directory that is deleted. An address to fetch from is also lost if nothing
// exists there; an address to push to is often a word that prevents pushes, such as "no-push".
func (u *unsavedSearch) loses(tree string, address setting, config []setting) bool {
	used := rewritten(address.value, "insteadof", config)
	if len(used) == 0 {
		used = []string{address.value}
	}
	for _, one := range used {
		if u.isLost(tree, one, address.name == "url") {
			return true
		}
	}
	for _, one := range rewritten(address.value, "pushinsteadof", config) {
		if u.isLost(tree, one, false) {
			return true
		}
	}
	return false
}

// isLost reports whether an address leads to a directory of this machine that is deleted, or
// that does not exist if absent counts as lost. A relative path is meant from tree.
func (u *unsavedSearch) isLost(tree, address string, absent bool) bool {
	path := strings.TrimPrefix(address, "file://")
	server, _, _ := strings.Cut(path, "/")
	if strings.Contains(server, ":") { // host:path or https://host/path
		return false
	}
	path = absolute(tree, path)
	real, err := filepath.EvalSymlinks(path)
	if err != nil { // git adds the suffix, too
		real, err = filepath.EvalSymlinks(path + ".git")
	}
	if err != nil {
		return absent
	}
	return u.deletes(real)
}

// rewritten returns the addresses that an address may become by the settings insteadOf or
// pushInsteadOf, whose name is in lower case, in a configuration.
func rewritten(address, name string, config []setting) (addresses []string) {
	for _, s := range config {
		if s.section != "url" || s.name != name {
			continue
		}
		rest, matches := strings.CutPrefix(address, s.value)
		if matches {
			addresses = append(addresses, s.sub+rest)
		}
	}
	return addresses
}

// heads are the commits that only HEAD or a stash refers to. past are earlier commits of HEAD.
type heads struct {
	current []place
	past    []string
}

// automaticStashes are the files in which git keeps changes during a rebase or merge.
var automaticStashes = []string{"rebase-merge/autostash", "rebase-apply/autostash", "MERGE_AUTOSTASH"}

// readHeads reads HEAD and, if the repository itself is deleted, the HEADs of its linked
// worktrees and every stash: refs/stash is only the latest stash.
func (r *reader) readHeads(deleted bool) (h heads, err error) {
	dirs := map[string]string{"HEAD": r.gitDir}
	if deleted {
		worktrees, err := os.ReadDir(filepath.Join(r.common, "worktrees"))
		if err != nil && !files.Absent(err) {
			return h, err
		}
		for _, w := range worktrees {
			dirs["worktree "+w.Name()] = filepath.Join(r.common, "worktrees", w.Name())
		}
		stashes, err := reflog(filepath.Join(r.common, "logs", "refs", "stash"))
		if err != nil {
			return h, err
		}
		slices.Reverse(stashes) // stash@{0} is the last one
		for i, id := range stashes {
			h.current = append(h.current, place{fmt.Sprintf("stash@{%d}", i), id})
		}
	}
	for name, dir := range dirs {
		_, commit, err := r.headOf(dir)
		if err != nil {
			return h, err
		}
		if commit != "" {
			h.current = append(h.current, place{name, commit})
		}
		stashes, err := readAutomaticStashes(dir)
		if err != nil {
			return h, err
		}
		for _, id := range stashes {
			h.current = append(h.current, place{"autostash", id})
		}
		past, err := reflog(filepath.Join(dir, "logs", "HEAD"))
		if err != nil {
			return h, err
		}
		h.past = append(h.past, past...)
	}
	return h, nil
}

// readAutomaticStashes returns the commits in the files of automaticStashes.
func readAutomaticStashes(gitDir string) (ids []string, err error) {
	for _, name := range automaticStashes {
		stash, err := files.ReadReal(filepath.Join(gitDir, name), 1<<10)
		if files.Absent(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		id := strings.TrimSpace(string(stash))
		if !objectID(id) {
			return nil, fmt.Errorf("%s: %w", name, errUnread)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// reflog returns the commits that a reference pointed to; none if no log exists.
func reflog(path string) (ids []string, err error) {
	log, err := files.ReadReal(path, maxGitFile)
	if files.Absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(log)) {
		words := strings.Fields(line)
		if len(words) > 1 && objectID(words[1]) {
			ids = append(ids, words[1])
		}
	}
	return ids, nil
}
