package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// inspectFor bounds what is looked up for a person who waits, diffFor what such a person reads.
const (
	inspectFor = 5 * time.Second
	diffFor    = time.Minute
)

// maxListed is how many changed files are listed.
const maxListed = 200

// Status is what stands in a workspace's repository, for people.
type Status struct {
	Branch string // empty where HEAD is at a commit of its own
	Commit string // empty where there is none yet
	// Base is what the work is compared with: the branch of origin that a clone begins with, or else main or master.
	// Empty where there is none. Ahead counts the commits that HEAD has beside it.
	Base  string
	Ahead int
	// Remote is origin's branch of the same name as the repository knows it, from its own pushes and fetches; empty where
	// it knows none. Unpushed counts the commits that HEAD has beside it.
	Remote   string
	Unpushed int
	// Changed are files of the work tree that are not committed as they are, the first of them; Count is of all.
	Changed []Changed
	Count   int
}

// Changed is one file, with what git status says of it: "?" where git does not know it, "u" where it is in conflict, else
// the two letters of its short format, of the index and of the work tree, a dot for no change.
type Changed struct {
	Status string
	Path   string
}

// Inspect says what the repository of dir holds; ok is false where git has none there. Nothing that the repository
// names is run, and nothing in it is written: see Fingerprint.
func Inspect(ctx context.Context, dir string) (g Status, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, inspectFor)
	defer cancel()
	b, ok, err := borrow(dir)
	if err != nil || !ok {
		return Status{}, false, err
	}
	defer func() { err = errors.Join(err, b.done()) }()
	g.Commit = b.commit
	if branch, found := strings.CutPrefix(b.content, "ref: refs/heads/"); found {
		g.Branch = branch
	}
	if err := g.status(ctx, b); err != nil {
		return g, true, b.fault(ctx, err)
	}
	if g.Commit == "" {
		return g, true, nil
	}
	return g, true, b.fault(ctx, errors.Join(g.compare(ctx, b), g.pushed(ctx, b)))
}

func (g *Status) compare(ctx context.Context, b *borrowed) error {
	base, commit, err := b.base()
	if err != nil || commit == "" {
		return err
	}
	g.Base = base
	g.Ahead, err = b.beside(ctx, commit)
	return err
}

func (g *Status) pushed(ctx context.Context, b *borrowed) error {
	if g.Branch == "" {
		return nil
	}
	_, commit, err := b.follow("refs/remotes/origin/" + g.Branch)
	if err != nil || commit == "" {
		return err
	}
	g.Remote = "origin/" + g.Branch
	g.Unpushed, err = b.beside(ctx, commit)
	return err
}

// beside counts the commits that HEAD has and the other one has not.
func (b *borrowed) beside(ctx context.Context, commit string) (int, error) {
	count, err := b.output(ctx, "rev-list", "--count", b.commit, "^"+commit, "--")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(count)
}

// status lists what git status tells.
func (g *Status) status(ctx context.Context, b *borrowed) error {
	return b.eachChange(ctx, func(c Changed) {
		if g.Count++; g.Count <= maxListed {
			g.Changed = append(g.Changed, c)
		}
	})
}

// Diff writes what the work in dir has changed since it left its base (see Status), committed or not, new files with it, as
// git diff does; ok is false where git has no repository there. Nothing that the repository names is run, and nothing
// in it is written.
func Diff(ctx context.Context, dir string, w io.Writer) (ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, diffFor)
	defer cancel()
	b, ok, err := borrow(dir)
	if err != nil || !ok {
		return false, err
	}
	defer func() { err = errors.Join(err, b.done()) }()
	from, err := b.since(ctx)
	if err == nil {
		err = b.knowNewFiles(ctx)
	}
	if err != nil {
		return true, b.fault(ctx, err)
	}
	cmd := b.git(ctx, "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--ignore-submodules=all", from, "--")
	cmd.Stdout = w
	return true, b.fault(ctx, b.run(cmd))
}

// borrowed is a repository with a git directory of our own to read it by.
type borrowed struct {
	repo            repository
	tree, scratch   string
	content, commit string // of HEAD
	index           string // a copy of the repository's, empty while that is good enough
}

func borrow(dir string) (b *borrowed, ok bool, err error) {
	tree, ok, err := resolveDir(dir)
	if err != nil || !ok {
		return nil, false, err
	}
	repo, ok, err := openRepository(tree)
	if err != nil || !ok {
		return nil, false, err
	}
	b = &borrowed{repo: repo, tree: tree}
	if _, err := os.Lstat(filepath.Join(repo.common, "reftable")); err == nil {
		return nil, false, files.Failed(errUnread, "read the repository of %s: its references are kept in tables", dir)
	}
	if b.content, b.commit, err = repo.head(); err != nil {
		return nil, false, files.Failed(err, "read the repository of %s", dir)
	}
	if b.scratch, err = os.MkdirTemp("", scratchPattern); err != nil {
		return nil, false, files.Failed(err, "read the repository of %s", dir)
	}
	if err := writeScratch(b.scratch, b.commit); err != nil {
		return nil, false, files.Failed(errors.Join(err, b.done()), "read the repository of %s", dir)
	}
	return b, true, nil
}

func (b *borrowed) done() error { return os.RemoveAll(b.scratch) }

// fault says where it happened; nil stays nil.
func (b *borrowed) fault(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return files.Failed(ctx.Err(), "read the repository of %s", b.tree)
	}
	return files.Failed(err, "read the repository of %s", b.tree)
}

func (b *borrowed) git(ctx context.Context, args ...string) *exec.Cmd {
	cmd := borrowedGit(ctx, b.repo, b.tree, b.scratch, args...)
	// A shallow clone ends where this file says, and not with an error.
	if shallow := filepath.Join(b.repo.common, "shallow"); exists(shallow) {
		cmd.Env = append(cmd.Env, "GIT_SHALLOW_FILE="+shallow)
	}
	if b.index != "" {
		cmd.Env = append(cmd.Env, "GIT_INDEX_FILE="+b.index, "GIT_OBJECT_DIRECTORY="+filepath.Join(b.scratch, "objects"),
			"GIT_ALTERNATE_OBJECT_DIRECTORIES="+listed(filepath.Join(b.repo.common, "objects")), "GIT_LITERAL_PATHSPECS=1")
	}
	return cmd
}

func exists(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

// listed is a path as an entry of a list that colons separate.
func listed(path string) string {
	if !strings.ContainsAny(path, `:"`) {
		return path
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(path) + `"`
}

// run runs git and makes what it complains of part of the error.
func (b *borrowed) run(cmd *exec.Cmd) error {
	var complaint strings.Builder
	cmd.Stderr = &limitWriter{w: &complaint, left: 4 << 10}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %w: %s", errUnread, err, files.LastLine([]byte(complaint.String())))
	}
	return nil
}

func (b *borrowed) output(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := b.git(ctx, args...)
	cmd.Stdout = &limitWriter{w: &out, left: 1 << 10}
	err := b.run(cmd)
	return strings.TrimSpace(out.String()), err
}

// base is what the work is compared with, and its commit; empty where there is nothing.
func (b *borrowed) base() (name, commit string, err error) {
	for _, ref := range []string{"refs/remotes/origin/HEAD", "refs/remotes/origin/main", "refs/remotes/origin/master", "refs/heads/main", "refs/heads/master"} {
		if strings.HasSuffix(b.content, " "+ref) {
			continue // a branch is not ahead of itself
		}
		name, commit, err := b.follow(ref)
		if err != nil || commit != "" {
			return strings.TrimPrefix(strings.TrimPrefix(name, "refs/remotes/"), "refs/heads/"), commit, err
		}
	}
	return "", "", nil
}

// follow is the reference that a symbolic one leads to, and its commit; empty where there is none.
func (b *borrowed) follow(ref string) (name, commit string, err error) {
	for range 5 { // as deep as git follows symbolic references
		content, err := b.repo.ref(ref)
		if err != nil {
			return "", "", err
		}
		next, symbolic := strings.CutPrefix(content, "ref:")
		if !symbolic {
			if content != "" && !objectID(content) {
				return "", "", fmt.Errorf("%s leads to %.60q", ref, content)
			}
			return ref, content, nil
		}
		ref = strings.TrimSpace(next)
	}
	return "", "", nil
}

// The tree without a file, which git knows without having it.
const (
	emptyTree    = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
	emptyTree256 = "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
)

// since is the commit at which the work left its base; HEAD where there is no base, the empty tree without a commit.
func (b *borrowed) since(ctx context.Context) (string, error) {
	_, commit, err := b.base()
	switch {
	case err != nil:
		return "", err
	case b.commit == "" && len(commit) == len(emptyTree256):
		return emptyTree256, nil
	case b.commit == "":
		return emptyTree, nil
	case commit == "":
		return b.commit, nil
	}
	from, err := b.output(ctx, "merge-base", commit, b.commit)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return b.commit, nil // they have nothing in common
	}
	return from, err
}

// knowNewFiles has git diff show files that are not in the index: by a copy of it, with objects of our own beside it.
func (b *borrowed) knowNewFiles(ctx context.Context) error {
	var names bytes.Buffer
	err := b.eachChange(ctx, func(c Changed) {
		if c.Status == "?" && !strings.HasSuffix(c.Path, "/") { // a repository of its own is no file
			names.WriteString(c.Path + "\x00")
		}
	})
	if err != nil || names.Len() == 0 {
		return err
	}
	index, err := files.ReadRegular(filepath.Join(b.repo.gitDir, "index"), maxIndex)
	if err != nil && !files.Absent(err) {
		return err
	}
	copied := filepath.Join(b.scratch, "index")
	if err == nil {
		err = os.WriteFile(copied, index, 0o600)
	} else {
		err = nil // the first commit is still to come
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(b.scratch, "objects"), 0o700)
	}
	if err != nil {
		return err
	}
	b.index = copied
	cmd := b.git(ctx, "add", "--intent-to-add", "--pathspec-from-file=-", "--pathspec-file-nul")
	cmd.Stdin = &names
	return b.run(cmd)
}

// maxIndex bounds what is copied of git's index, in bytes.
const maxIndex = 512 << 20

// eachChange calls f for every entry of git status.
func (b *borrowed) eachChange(ctx context.Context, f func(Changed)) error {
	cmd := statusCommand(ctx, b.repo, b.tree, b.scratch)
	out := &splitWriter{each: func(entry string) {
		path := statusPath(entry)
		if path == "" {
			return
		}
		c := Changed{Status: entry[:1], Path: path}
		if entry[0] == '1' {
			c.Status = entry[2:4]
		}
		f(c)
	}}
	cmd.Stdout = out
	return b.run(cmd)
}

// splitWriter calls each for what ends with a zero byte.
type splitWriter struct {
	each func(string)
	rest []byte
}

func (s *splitWriter) Write(b []byte) (int, error) {
	s.rest = append(s.rest, b...)
	for {
		entry, rest, ok := bytes.Cut(s.rest, []byte{0})
		if !ok {
			return len(b), nil
		}
		s.each(string(entry))
		s.rest = rest
	}
}
