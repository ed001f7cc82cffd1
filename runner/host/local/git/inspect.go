package git

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/patch"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// diffFor is how long a diff may take, for which an operator waits.
const diffFor = time.Minute

// inspectFor is how long a description of a repository may take. Tests that wait for another
// bound raise it.
var inspectFor = 5 * time.Second

const (
	maxListed = 200       // changed files
	maxIndex  = 512 << 20 // bytes of git's index that are copied
)

// Clone is symphony's knowledge of a clone that it made, zero if it made none. An agent can
// change all references of the repository, and put false objects into it, so neither shows the
// contents of the clone.
type Clone struct {
	// Origin is where the clone came from, and the commit that symphony found there last.
	Origin host.Origin
	// Commit is HEAD, empty if there is none. Objects are directories with all objects that it
	// leads to, hashed by git. Without Objects, HEAD and the objects of the repository are
	// read.
	Commit  string
	Objects []string
	// Began is the result of the function Began before the first agent. It counts if there is
	// no Origin.
	Began string
	// Beside are the commits on no remote that Began found beside HEAD.
	Beside []string
	// Elsewhere is the result of the function Elsewhere before the first agent, if Began is known.
	// An agent could lead to a repository of the operator instead, to learn what it contains.
	Elsewhere string
	// AccountFiles are those of the agent's git, so that git status is the same as the agent's.
	AccountFiles
}

// Inspect describes the repository of dir, with its newest commits that the base does not
// contain, at most so many; ok is false if there is none. It runs no program that the
// repository names and changes nothing in it. Whether a branch counts as pushed depends on the
// address of the origin, as in Unsaved.
func Inspect(
	ctx context.Context,
	dir string,
	clone Clone,
	most int,
) (g host.GitStatus, commits []host.GitCommit, ok bool, err error) {
	ctx, cancel := within(ctx, inspectFor)
	defer cancel()
	r, ok, err := openToCompare(ctx, dir, clone)
	if err != nil || !ok {
		return g, nil, ok, readFailed(ctx, dir, err)
	}
	defer func() { err = readFailed(ctx, dir, errors.Join(err, r.close())) }()
	if r.commit != "" {
		g.Commit = &r.commit
	}
	if branch, onBranch := strings.CutPrefix(r.head, "ref: refs/heads/"); onBranch {
		g.Branch = &branch
	}
	if err := r.listChanges(ctx, &g); err != nil || g.Commit == nil {
		return g, nil, true, err
	}
	commits, err = r.compareWithBase(ctx, &g, most)
	if err != nil {
		return g, nil, true, err
	}
	if err := r.compareWithRemote(ctx, &g, clone.Origin.URL); err != nil {
		return g, commits, true, err
	}
	places, err := r.withOwnObjects().elsewhere(ctx, r.baseCommit, clone) // their names and nothing else
	for _, p := range places {
		g.Elsewhere = append(g.Elsewhere, p.name)
	}
	return g, commits, true, err
}

// listChanges adds the files with changes that are not committed, at most maxListed of them,
// and their number.
func (r *reader) listChanges(ctx context.Context, g *host.GitStatus) error {
	g.Changed = []host.GitChange{}
	own := r.withOwnObjects()
	if err := own.showHidden(ctx); err != nil {
		return err
	}
	return own.eachChange(ctx, func(entry, path string) {
		g.Count++
		if g.Count > maxListed {
			return
		}
		c := host.GitChange{Status: entry[:1], Path: path}
		if entry[0] == '1' {
			c.Status = entry[2:4]
		}
		g.Changed = append(g.Changed, c)
	})
}

// compareWithBase adds how far HEAD is ahead of the base. It returns the newest commits that
// the base does not contain, at most so many.
func (r *reader) compareWithBase(
	ctx context.Context, g *host.GitStatus, most int,
) (commits []host.GitCommit, err error) {
	name, base, err := r.base()
	if err != nil || base == "" {
		return nil, err
	}
	g.Base = &name
	g.Ahead, err = r.countAhead(ctx, base)
	if err != nil {
		return nil, err
	}
	if most > 0 {
		commits, err = r.log(ctx, base, most)
		if err != nil {
			return nil, err
		}
	}
	return commits, nil
}

// compareWithRemote adds how many commits of HEAD the branch of the remote origin lacks, if
// commits pushed there count as saved: see unsavedSearch.remotes.
func (r *reader) compareWithRemote(ctx context.Context, g *host.GitStatus, origin string) error {
	u := unsavedSearch{top: r.tree, origin: origin, deleted: []string{r.tree}}
	remotes, err := u.remotes(ctx, r)
	if err != nil || g.Branch == nil {
		return err
	}
	remote := r.refs["refs/remotes/origin/"+*g.Branch]
	if !objectID(remote) || !slices.Contains(remotes, "refs/remotes/origin/") {
		return nil
	}
	name := "origin/" + *g.Branch
	g.Remote = &name
	g.Unpushed, err = r.countAhead(ctx, remote)
	return err
}

// elsewhere returns where work ends that neither HEAD, the base nor a remote contains, unless
// it was there before the first agent: branches, stashes, and linked worktrees whose HEAD is on
// no branch. A linked worktree shares these with others, so there it returns nothing.
func (r *reader) elsewhere(ctx context.Context, base string, clone Clone) (places []place, err error) {
	if !paths.Inside(r.tree, r.common) {
		return nil, nil
	}
	u := unsavedSearch{top: r.tree, origin: clone.Origin.URL, deleted: []string{r.tree}}
	ends, saved, err := u.ends(ctx, r)
	if err != nil {
		return nil, err
	}
	from := clone.Origin // what it had once counts as saved: a local main stays at a commit that was purged there
	known := append(strings.Fields(from.Dropped), r.commit, base, from.Commit, from.Base)
	for _, id := range append(known, clone.Beside...) {
		if id != "" {
			saved = append(saved, "^"+id)
		}
	}
	isOpen := func(p place) bool {
		return !slices.Contains(saved, "^"+p.commit) && !strings.HasPrefix(p.name, "refs/")
	}
	ends = text.Filter(ends, isOpen)
	if len(ends) == 0 {
		return nil, nil
	}
	asked := append(text.Map(ends, func(p place) string { return p.commit }), saved...)
	list := r.git(ctx, "rev-list", "--ignore-missing", "--stdin")
	list.Stdin = strings.NewReader(strings.Join(asked, "\n") + "\n")
	commits, err := r.output(list)
	if err != nil {
		return nil, err
	}
	open := map[string]bool{}
	for line := range strings.Lines(commits) {
		open[strings.TrimSpace(line)] = true
	}
	slices.SortFunc(ends, func(a, b place) int { // worktrees last, because their names have a space
		return cmp.Or(strings.Count(a.name, " ")-strings.Count(b.name, " "), cmp.Compare(a.name, b.name))
	})
	for _, p := range ends {
		isNew := open[p.commit] && len(places) < mostElsewhere
		if isNew {
			places = append(places, p)
			delete(open, p.commit) // a worktree on a branch is named once
		}
	}
	return places, nil
}

const mostElsewhere = 20

// Has reports whether the repository in dir, which may be bare, contains a commit.
func Has(ctx context.Context, dir, commit string) bool {
	r, ok, err := openReader(ctx, dir)
	if err != nil {
		return false
	}
	if !ok {
		r, err = newReader(ctx, repository{tree: dir, gitDir: dir, common: dir})
		if err != nil {
			return false
		}
	}
	defer func() { _ = r.close() }() // a temporary directory
	_, err = r.output(r.git(ctx, "cat-file", "-e", commit+"^{commit}"))
	return err == nil
}

// openToCompare opens a repository whose references are files. Without a repository ok is
// false.
func openToCompare(ctx context.Context, dir string, clone Clone) (r *reader, ok bool, err error) {
	repo, ok, err := findRepository(dir)
	if err == nil && clone.replaced(repo, ok) {
		err = errElsewhere
	}
	if err != nil || !ok {
		return nil, false, err
	}
	r, err = newReader(ctx, repo)
	if err != nil {
		return nil, false, err
	}
	if err := r.prepareToCompare(clone); err != nil {
		return nil, false, errors.Join(err, r.close())
	}
	return r, true, nil
}

// replaced reports whether an agent has made the repository of a work tree another one, or led to
// nothing: whether there is something would tell it which directories the operator has.
func (c Clone) replaced(repo repository, ok bool) bool {
	if c.Began == "" {
		return false
	}
	if ok {
		return repo.away() != c.Elsewhere
	}
	info, err := os.Lstat(filepath.Join(repo.tree, ".git"))
	return err == nil && !info.IsDir()
}

// prepareToCompare lets a reader use the record of a clone.
func (r *reader) prepareToCompare(clone Clone) error {
	if err := r.refuseTables(); err != nil {
		return err
	}
	r.baseCommit = cmp.Or(clone.Origin.Base, clone.Origin.Commit)
	r.objectDirs = clone.Objects
	r.attributes = clone.Attributes
	if err := r.ignore(clone.Ignored); err != nil {
		return err
	}
	if r.objectDirs != nil && r.commit != clone.Commit {
		return errors.New("HEAD has changed meanwhile: try again")
	}
	return nil
}

// refuseTables returns an error if the repository keeps references in tables, which are not
// read here.
func (r *reader) refuseTables() error {
	if exists(filepath.Join(r.common, "reftable")) {
		return errors.New("its references are kept in tables")
	}
	return nil
}

// log returns the newest commits of HEAD that the base does not contain.
func (r *reader) log(ctx context.Context, base string, most int) (list []host.GitCommit, err error) {
	log := r.git(
		ctx, "log", "--no-show-signature", "--format=%H %s", "-n", strconv.Itoa(most), r.commit, "^"+base, "--",
	)
	out, err := r.output(log)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(out) {
		id, subject, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		list = append(list, host.GitCommit{ID: id, Subject: subject})
	}
	return list, nil
}

// countAhead counts the commits by which HEAD is ahead: none of the other commits contains
// them. An empty name is no commit.
func (r *reader) countAhead(ctx context.Context, others ...string) (*int, error) {
	args := []string{"rev-list", "--count", r.commit}
	for _, commit := range others {
		if commit != "" {
			args = append(args, "^"+commit)
		}
	}
	text, err := r.output(r.git(ctx, append(args, "--")...))
	if err != nil {
		return nil, err
	}
	count, err := strconv.Atoi(text)
	return &count, err
}

// base returns the branch that the work is compared with, and its commit; empty if there is
// none. If symphony made the clone, this is the recorded commit.
func (r *reader) base() (name, commit string, err error) {
	candidates := []string{
		"refs/remotes/origin/HEAD", "refs/remotes/origin/main", "refs/remotes/origin/master",
		"refs/heads/main", "refs/heads/master",
	}
	for _, ref := range candidates {
		if r.head == "ref: "+ref {
			continue // a branch is not ahead of itself
		}
		name, commit, err := r.follow("ref: " + ref)
		if err != nil {
			return "", "", err
		}
		if commit != "" {
			name = strings.TrimPrefix(strings.TrimPrefix(name, "refs/remotes/"), "refs/heads/")
			return name, cmp.Or(r.baseCommit, commit), nil
		}
	}
	return r.baseCommit, r.baseCommit, nil
}

// diffWords are git diff without anything that a repository can configure. With trees, a
// commit of another repository is a change.
var (
	diffWords = []string{
		"diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--ignore-submodules=all",
	}
	// clipped, so that no append writes into an array that other commands share
	diffTreeWords = slices.Clip(append(slices.Clip(diffWords), "--ignore-submodules=none"))

	// What people read shows a moved file as such. Among more than 400 new files git only finds
	// those that moved without a change.
	asRenames = []string{"--find-renames", "-l400"}
)

// Diff writes the changes of the work in dir since it left its base (see host.GitStatus),
// committed or not, with new files, as git diff does; ok is false where git finds no
// repository. Nothing that the repository names is run, and nothing in it is written. Of work
// with an origin, the commits come first, and the rest below the line patch.NotCommitted: else
// files could hide the commits that a delivery would push.
func Diff(ctx context.Context, dir string, clone Clone, w io.Writer) (ok bool, err error) {
	ctx, cancel := within(ctx, diffFor)
	defer cancel()
	r, ok, err := openToCompare(ctx, dir, clone)
	if err != nil || !ok {
		return ok, readFailed(ctx, dir, err)
	}
	defer func() { err = readFailed(ctx, dir, errors.Join(err, r.close())) }()
	from, err := r.whereWorkBegan(ctx)
	if err != nil {
		return true, err
	}
	if r.baseCommit != "" {
		if r.commit != "" && from != r.commit {
			if err := r.diffCommits(ctx, from, r.commit, w); err != nil {
				return true, err
			}
			from = r.commit
		}
		w = &headed{w, patch.NotCommitted + "\n"}
	}
	return true, r.withOwnObjects().diffTree(ctx, from, w)
}

// diffCommits writes the difference between two commits.
func (r *reader) diffCommits(ctx context.Context, from, to string, w io.Writer) error {
	if err := r.checkSize(ctx, to); err != nil {
		return err
	}
	cmd := r.git(ctx, append(slices.Concat(diffTreeWords, asRenames), from, to, "--")...)
	cmd.Stdout = w
	return r.run(cmd)
}

// diffTree writes the difference between a commit and the work tree, with new files.
func (r *reader) diffTree(ctx context.Context, from string, w io.Writer) error {
	if err := r.showHidden(ctx); err != nil {
		return err
	}
	changed, err := r.listUncommitted(ctx)
	if err != nil {
		return err
	}
	if err := r.addToIndex(ctx, changed.untracked.String(), "--intent-to-add"); err != nil {
		return err
	}
	cmd := r.git(ctx, append(slices.Concat(diffWords, asRenames), from, "--")...)
	cmd.Stdout = w
	return r.run(cmd)
}

// headed writes its head before the first bytes.
type headed struct {
	io.Writer
	head string
}

// Write implements io.Writer.
func (h *headed) Write(b []byte) (int, error) {
	if _, err := io.WriteString(h.Writer, h.head); err != nil {
		return 0, err
	}
	h.head = ""
	return h.Writer.Write(b)
}

// The tree without a file, which git knows without having it.
const (
	emptyTree1   = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
	emptyTree256 = "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
)

// emptyTree returns the name of the tree without a file.
func (r *reader) emptyTree() string {
	if r.sha256 {
		return emptyTree256
	}
	return emptyTree1
}

// whereWorkBegan returns the commit at which the work left its base. Without a base it returns
// HEAD, and without a commit the empty tree. Several such commits can exist. Then a clone is
// compared with the recorded commit, because with another a revert would not show.
func (r *reader) whereWorkBegan(ctx context.Context) (string, error) {
	_, commit, err := r.base()
	if err != nil {
		return "", err
	}
	if r.commit == "" {
		return r.emptyTree(), nil
	}
	if commit == "" {
		return r.commit, nil
	}
	list, err := MergeBases(r.asker(ctx), commit, r.commit)
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return cmp.Or(r.baseCommit, r.commit), nil
	}
	if len(list) > 1 && r.baseCommit != "" {
		return r.baseCommit, nil
	}
	return list[0], nil
}

// asker returns what asks git in the repository.
func (r *reader) asker(ctx context.Context) Ask {
	return func(stdin string, args ...string) (string, error) {
		cmd := r.git(ctx, args...)
		cmd.Stdin = strings.NewReader(stdin)
		cmd.Env = append(cmd.Env, "GIT_LITERAL_PATHSPECS=1")
		return r.output(cmd)
	}
}

// uncommitted are the files of a work tree with changes that are not committed. Nested
// repositories do not count.
type uncommitted struct {
	count     int
	bytes     int64
	untracked gitcmd.Answer // the names of those that git does not know, for --stdin of another git
}

func (r *reader) listUncommitted(ctx context.Context) (*uncommitted, error) {
	list := &uncommitted{}
	err := r.eachChange(ctx, func(entry, path string) {
		isRepository := strings.HasSuffix(path, "/")
		if isRepository {
			return
		}
		list.count++
		list.bytes += sizeOf(filepath.Join(r.tree, path))
		if entry[0] == '?' {
			list.untracked.AddPath(path)
		}
	})
	if err != nil {
		return nil, err
	}
	return list, list.untracked.Err()
}

// addToIndex adds files to a copy of the index, by their names with a zero byte after each.
func (r *reader) addToIndex(ctx context.Context, names string, flags ...string) error {
	if names == "" {
		return nil
	}
	if err := r.copyIndex(); err != nil {
		return err
	}
	add := []string{"add", "--pathspec-from-file=-", "--pathspec-file-nul"}
	cmd := r.gitThatStores(ctx, append(add, flags...)...)
	cmd.Stdin = strings.NewReader(names)
	return r.run(cmd)
}

// sizeOf returns the size of a file, 0 if it is gone.
func sizeOf(path string) int64 {
	info, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

const (
	fingerprintFor = 10 * time.Second
	walkEntries    = 200_000 // the limit for trees that git can't read
)

// Fingerprint returns a text that changes when the work progresses. It depends on HEAD, the
// index, and the work tree as `git status` sees it, with the contents of changed files;
// without a repository that git can read, on the names and contents of the first 200,000
// files. After 64 MiB of contents, the times of files count instead. Ignored files do not
// count. After 10 s the error wraps context.DeadlineExceeded.
func Fingerprint(ctx context.Context, dir string) (string, error) {
	ctx, cancel := within(ctx, fingerprintFor)
	defer cancel()
	tree, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", readFailed(ctx, dir, err)
	}
	print, err := gitFingerprint(ctx, tree)
	if errors.Is(err, errUnread) {
		print, err = walkFingerprint(ctx, tree)
	}
	return print, readFailed(ctx, dir, err)
}

// gitFingerprint hashes every entry of the status, and the contents of changed files. An
// untracked repository is a single entry that ends with a slash: all files in it count.
// Without a repository the error is errUnread.
func gitFingerprint(ctx context.Context, tree string) (print string, err error) {
	r, ok, err := openReader(ctx, tree)
	if err != nil {
		return "", err
	}
	if !ok {
		return "", errUnread
	}
	defer func() { err = errors.Join(err, r.close()) }()
	w := walker{ctx: ctx, h: sha256.New(), left: walkEntries}
	fmt.Fprintf(w.h, "%s\x00%s\x00", r.head, r.commit)
	w.tables(r.repository)
	var failed error
	err = r.eachChange(ctx, func(entry, path string) {
		fmt.Fprintf(w.h, "%s\x00", entry)
		path = filepath.Join(r.tree, path)
		switch {
		case failed != nil:
		case strings.HasSuffix(entry, "/"):
			failed = w.walk(path, "")
		default:
			failed = w.file(path)
		}
	})
	return fmt.Sprintf("git:%x", w.h.Sum(nil)), errors.Join(err, failed)
}

// walkFingerprint is the fingerprint of a tree without a repository that git can read.
func walkFingerprint(ctx context.Context, tree string) (string, error) {
	w := walker{ctx: ctx, h: sha256.New(), left: walkEntries}
	repo, ok, err := openRepository(tree)
	if err != nil {
		return "", err
	}
	skip := ""
	if ok {
		skip = filepath.Join(tree, ".git")
		w.tables(repo)
		for _, name := range []string{"HEAD", "index", "logs/HEAD"} {
			if err := w.file(filepath.Join(repo.gitDir, name)); err != nil {
				return "", err
			}
		}
	}
	if err := w.walk(tree, skip); err != nil {
		return "", err
	}
	return fmt.Sprintf("walk:%x", w.h.Sum(nil)), nil
}

// walker hashes files by names, modes and contents.
type walker struct {
	ctx  context.Context
	h    hash.Hash
	left int   // entries
	read int64 // bytes of content
}

// tables adds the list of reference tables, which changes with every reference. With reftable,
// the file HEAD never changes.
func (w *walker) tables(repo repository) {
	for _, dir := range []string{repo.gitDir, repo.common} {
		// most have none
		list, _ := files.ReadReal(filepath.Join(dir, "reftable", "tables.list"), maxGitFile)
		w.h.Write(list)
	}
}

// walk adds everything below root, except for the directory skip.
func (w *walker) walk(root, skip string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if w.ctx.Err() != nil {
			return w.ctx.Err()
		}
		if files.Absent(err) {
			return nil // an agent just removed it
		}
		if err != nil && path == root {
			return err
		}
		if path == skip && d.IsDir() {
			return fs.SkipDir
		}
		if w.left == 0 {
			return fs.SkipAll
		}
		w.left--
		fmt.Fprintf(w.h, "%s\x00", strings.TrimPrefix(path, root))
		if err != nil || d.IsDir() { // a directory that can't be read counts by its name
			fmt.Fprintf(w.h, "%o\x00", d.Type())
			return nil //nolint:nilerr // see above
		}
		return w.file(path)
	})
}

// file adds the mode and the content of a file, or that it does not exist.
func (w *walker) file(path string) error {
	info, err := os.Lstat(path)
	if files.Absent(err) {
		fmt.Fprint(w.h, "gone\x00")
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(w.h, "%o %d ", info.Mode(), info.Size())
	if w.content(path, info) {
		fmt.Fprint(w.h, "\x00")
	} else {
		fmt.Fprintf(w.h, "%d\x00", info.ModTime().UnixNano())
	}
	return nil
}

// hashedBytes is how much content of files a walker reads. After that the times of files count
// instead of their contents: an agent that writes the same again made no progress.
const hashedBytes = 64 << 20

// content adds the content of a regular file, or the target of a link. It returns false if
// neither can be read, or would be too much.
func (w *walker) content(path string, info fs.FileInfo) bool {
	if info.Mode().Type() == fs.ModeSymlink {
		target, err := os.Readlink(path)
		fmt.Fprint(w.h, target)
		return err == nil
	}
	if !info.Mode().IsRegular() || w.read+info.Size() > hashedBytes {
		return false
	}
	content, err := files.ReadRegular(path, hashedBytes)
	if err != nil {
		return false
	}
	w.read += int64(len(content))
	w.h.Write(content)
	return true
}
