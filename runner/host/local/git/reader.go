package git

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// scratchPattern is the pattern of the names of temporary git directories.
const scratchPattern = "symphony-git-"

// errUnread: git is missing or can't read the repository (a damaged file, an unknown format).
var errUnread = errors.New("git can't read it")

// reader reads a repository. It runs no program that the repository names and changes nothing
// in it: git gets a temporary git directory, where an agent can't write, with copies of the
// repository's small files, which borrows its objects. So git never reads the repository's
// configuration with its filters, monitors, hooks and transports, and follows no link to a file
// of the operator, which an agent could make while git works.
type reader struct {
	repository
	scratch string
	// the content of HEAD, and its commit, empty if there is none yet
	head, commit string
	sha256       bool              // objects are named by SHA-256, not by SHA-1
	refs         map[string]string // by name: an object, or "ref: " and another name
	packed       map[string]string // the commits of references that are in packed-refs only
	// git pack-refs ran here: a clone packs only the references of its remote
	repacked   bool
	index      string   // the copy of the repository's index, empty until there is one
	objects    string   // where git stores new objects; empty as long as it makes none
	baseCommit string   // the commit of the remote according to Origin in Clone
	attributes string   // AccountFiles.Attributes
	objectDirs []string // Objects of Clone; empty for the repository's own
}

// openReader opens the repository of a work tree; ok is false if there is none. The caller
// must call close.
func openReader(ctx context.Context, dir string) (r *reader, ok bool, err error) {
	repo, ok, err := findRepository(dir)
	if err != nil || !ok {
		return nil, false, err
	}
	r, err = newReader(ctx, repo)
	return r, err == nil, err
}

// findRepository finds the repository of a work tree. Its field tree is set without one, too.
func findRepository(dir string) (repo repository, ok bool, err error) {
	tree, ok, err := resolveDir(dir)
	if err != nil || !ok {
		return repository{tree: dir}, false, err
	}
	repo, ok, err = openRepository(tree)
	repo.tree = tree
	return repo, ok, err
}

func newReader(ctx context.Context, repo repository) (r *reader, err error) {
	r = &reader{repository: repo}
	if err := r.readReferences(); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnread, err)
	}
	r.head, r.commit, err = r.headOf(r.gitDir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnread, err)
	}
	r.sha256, err = r.usesSHA256(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnread, err)
	}
	r.scratch, err = os.MkdirTemp("", scratchPattern)
	if err != nil {
		return nil, err
	}
	if err := r.makeGitDir(); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// usesSHA256 reports whether objects are named by SHA-256. The length of a commit shows it.
// Before the first commit, or after git checkout --orphan, the configuration tells it.
func (r *reader) usesSHA256(ctx context.Context) (bool, error) {
	if r.commit != "" {
		return len(r.commit) == len(emptyTree256), nil
	}
	config, err := files.ReadReal(filepath.Join(r.common, "config"), maxGitFile)
	if files.Absent(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	settings, err := parseConfig(ctx, config)
	if err != nil {
		return false, err
	}
	format := ""
	for _, s := range settings {
		if s.key() == "extensions.objectformat" {
			format = s.value
		}
	}
	return format == "sha256", nil
}

// ownPatterns is the file in the temporary git directory with the patterns of the repository whose
// files git ignores.
const ownPatterns = "exclude"

// makeGitDir writes the temporary git directory.
func (r *reader) makeGitDir() error {
	head := "ref: refs/heads/none\n"
	config := "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
	if r.commit != "" {
		head = r.commit + "\n"
	}
	if r.sha256 {
		config = "[core]\n\trepositoryformatversion = 1\n\tbare = false\n[extensions]\n\tobjectformat = sha256\n"
	}
	for _, dir := range []string{"refs", "objects", "info"} {
		if err := os.Mkdir(filepath.Join(r.scratch, dir), 0o700); err != nil {
			return err
		}
	}
	content := map[string]string{
		"HEAD":   head,
		"config": config,
		// Only its content makes a file binary. An agent's .gitattributes, which git may
		// ignore itself, could otherwise hide every file.
		"info/attributes": "* !diff\n",
	}
	for name, copied := range map[string]string{
		"shallow":   "shallow", // of a clone that ends at the commits in it, and not with an error
		ownPatterns: "info/exclude",
	} {
		// A file that is a link, or can't be read, counts as missing: more files are work then.
		text, err := files.ReadReal(filepath.Join(r.common, copied), maxIgnore)
		if err == nil {
			content[name] = string(text)
		}
	}
	for name, text := range content {
		if err := os.WriteFile(filepath.Join(r.scratch, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) close() error { return os.RemoveAll(r.scratch) }

// readFailed adds dir to an error; nil stays nil. After the end of ctx it returns the error
// of ctx, or the LimitError of within.
func readFailed(ctx context.Context, dir string, err error) error {
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
		if late, is := errors.AsType[gitcmd.LimitError](context.Cause(ctx)); is {
			err = late
		}
	}
	return Failed(err, "read the repository of %s", dir)
}

// readReferences reads all references. It does not follow entries that git itself does not
// create, such as a link.
func (r *reader) readReferences() error {
	r.refs = map[string]string{}
	r.packed = map[string]string{}
	packed, err := files.ReadReal(filepath.Join(r.common, "packed-refs"), maxGitFile)
	if err != nil && !files.Absent(err) {
		return err
	}
	last := ""
	for line := range strings.Lines(string(packed)) {
		line = strings.TrimSpace(line)
		// of the annotated tag in the line above
		if commit, ok := strings.CutPrefix(line, "^"); ok {
			r.packed[last] = commit
			continue
		}
		id, name, ok := strings.Cut(line, " ")
		if !ok || !objectID(id) {
			continue
		}
		last = name
		r.refs[name] = id
		r.packed[name] = id
		if !strings.HasPrefix(name, "refs/tags/") && !strings.HasPrefix(name, "refs/remotes/") {
			r.repacked = true
		}
	}
	if len(r.refs) > maxReferences {
		return errReferences
	}
	return r.readLoose("refs")
}

// errReferences is the error of a repository with more references than are read.
var errReferences = gitcmd.LimitError{What: fmt.Sprintf("it has more than %d references", maxReferences)}

// readLoose reads the references that are files below a directory of the git directory, which
// it reads in parts: a sorted list of millions would take as much memory as git does.
func (r *reader) readLoose(dir string) error {
	path := filepath.Join(r.common, dir)
	list, err := paths.OpenReal(path, os.O_RDONLY|syscall.O_DIRECTORY)
	if err != nil {
		return r.unreadable(dir, err)
	}
	defer list.Close()
	for {
		entries, err := list.ReadDir(1000)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return r.unreadable(dir, err)
		}
		for _, e := range entries {
			name := dir + "/" + e.Name()
			if e.IsDir() {
				err = r.readLoose(name)
			} else if !strings.HasSuffix(name, ".lock") {
				err = r.addLoose(name, e)
			}
			if err != nil {
				return err
			}
		}
	}
}

// unreadable records a directory of references that can't be read. A directory that is gone
// contains none.
func (r *reader) unreadable(dir string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		r.refs[dir] = "unreadable"
	}
	return nil
}

// addLoose adds the reference in a file. It does not follow entries that git itself does not
// create there.
func (r *reader) addLoose(name string, e fs.DirEntry) error {
	delete(r.packed, name)
	r.refs[name] = "unreadable"
	if len(r.refs) > maxReferences {
		return errReferences
	}
	if !e.Type().IsRegular() {
		return nil
	}
	data, err := files.ReadReal(filepath.Join(r.common, name), 1<<10)
	if err != nil {
		return nil //nolint:nilerr // it stays unreadable
	}
	r.refs[name] = strings.TrimSpace(string(data))
	return nil
}

// headOf returns the content of HEAD in a git directory, and its commit.
func (r *reader) headOf(gitDir string) (content, commit string, err error) {
	data, err := files.ReadReal(filepath.Join(gitDir, "HEAD"), maxHead)
	if err != nil {
		return "", "", err
	}
	content = strings.TrimSpace(string(data))
	_, commit, err = r.follow(content)
	return content, commit, err
}

// follow returns the target of a symbolic reference, and its commit; empty if there is none.
func (r *reader) follow(content string) (name, commit string, err error) {
	for range 5 { // as deep as git follows symbolic references
		next, symbolic := strings.CutPrefix(content, "ref:")
		if !symbolic {
			break
		}
		name = strings.TrimSpace(next)
		content = r.refs[name]
	}
	if content != "" && !objectID(content) {
		return "", "", fmt.Errorf("%s leads to no commit", cmp.Or(name, "HEAD"))
	}
	return name, content, nil
}

func objectID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// plainGit is git that obeys nobody's settings.
func plainGit(ctx context.Context, dir string, args ...string) *exec.Cmd {
	path := []string{"PATH=" + os.Getenv("PATH")}
	return gitcmd.Command(ctx, dir, gitcmd.Nobody, path, args...)
}

// git is plainGit with the temporary git directory: without the repository's configuration.
func (r *reader) git(ctx context.Context, args ...string) *exec.Cmd {
	ignored := "core.excludesFile=" + filepath.Join(r.scratch, ownPatterns)
	attributes := "core.attributesFile=" + r.attributes
	cmd := plainGit(ctx, r.tree, append([]string{"-c", ignored, "-c", attributes}, args...)...)
	cmd.Env = append(cmd.Env, "GIT_DIR="+r.scratch, "GIT_WORK_TREE="+r.tree,
		"GIT_INDEX_FILE="+filepath.Join(r.scratch, "index"))
	if r.baseCommit != "" { // of a clone that symphony made: it makes no shallow ones
		cmd.Env = append(cmd.Env, "GIT_SHALLOW_FILE=")
	}
	if r.index != "" {
		cmd.Env = append(cmd.Env, "GIT_LITERAL_PATHSPECS=1")
	}
	read := r.objectDirs
	if read == nil {
		read = []string{filepath.Join(r.common, "objects")}
	}
	if r.objects != "" {
		read = append([]string{r.objects}, read...)
	}
	cmd.Env = append(cmd.Env, "GIT_OBJECT_DIRECTORY="+read[0],
		"GIT_ALTERNATE_OBJECT_DIRECTORIES="+strings.Join(text.Map(read[1:], Quoted), ":"))
	return cmd
}

// withOwnObjects returns a reader that also reads the objects of the repository, which include
// staged objects that are not committed.
func (r *reader) withOwnObjects() *reader {
	own := *r
	if r.objectDirs != nil {
		own.objectDirs = append(slices.Clip(r.objectDirs), filepath.Join(r.common, "objects"))
	}
	return &own
}

// gitThatStores is git for commands that store objects. It does not look for them in the
// repository: git would touch existing objects, and an agent may have put links there.
func (r *reader) gitThatStores(ctx context.Context, args ...string) *exec.Cmd {
	cmd := r.git(ctx, append([]string{"-c", "core.fsync=none", "-c", "core.looseCompression=1"}, args...)...)
	cmd.Env = append(cmd.Env, "GIT_ALTERNATE_OBJECT_DIRECTORIES=")
	return cmd
}

// Quoted returns a path as an entry of a list of git.
func Quoted(path string) string {
	if strings.ContainsAny(path, `:"`) {
		path = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(path) + `"`
	}
	return path
}

// run runs git. Whatever fails, it did not read the repository.
func (r *reader) run(cmd *exec.Cmd) error {
	if err := gitcmd.Run(cmd, maxMemory); err != nil {
		return fmt.Errorf("%w: %w", errUnread, err)
	}
	return nil
}

func (r *reader) output(cmd *exec.Cmd) (string, error) {
	var out gitcmd.Answer
	cmd.Stdout = &out
	err := r.run(cmd)
	return strings.TrimSpace(out.String()), err
}

// eachChange calls f for every entry of git status and its path. The path comes after 8 fields
// in the entry of a changed file, after 10 for a file in conflict, and after 1 for an
// untracked file.
func (r *reader) eachChange(ctx context.Context, f func(entry, path string)) error {
	if r.commit != "" {
		if err := r.checkSize(ctx, r.commit); err != nil {
			return err
		}
	}
	if err := r.copyIndex(); err != nil {
		return err
	}
	cmd := r.git(ctx, "status", "--porcelain=v2", "-z", "--no-renames", "--no-ahead-behind",
		"--untracked-files=all", "--ignored=no", "--ignore-submodules=all")
	fields := map[byte]int{'1': 8, 'u': 10, '?': 1}
	filter := &changeFilter{ctx: ctx, r: r, each: f}
	cmd.Stdout = &splitWriter{each: func(entry string) {
		if entry == "" {
			return
		}
		n := fields[entry[0]]
		if parts := strings.SplitN(entry, " ", n+1); n > 0 && len(parts) > n {
			filter.add(change{entry: entry, fields: parts})
		}
	}}
	if err := r.run(cmd); err != nil {
		return err
	}
	filter.flush()
	return filter.err
}

// copyIndex gives git a copy of the repository's index, and a temporary directory for new objects
// if there is no other. A second call keeps the copy, with the changes that were made in it.
func (r *reader) copyIndex() error {
	if r.index != "" {
		return nil
	}
	r.index = filepath.Join(r.scratch, "index")
	r.objects = cmp.Or(r.objects, filepath.Join(r.scratch, "objects"))
	original := filepath.Join(r.gitDir, "index")
	info, err := os.Lstat(original)
	if files.Absent(err) { // there is no commit yet
		return nil
	}
	if err != nil {
		return err
	}
	index, err := files.ReadReal(original, maxIndex)
	if files.Absent(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errUnread, err)
	}
	if err := os.WriteFile(r.index, index, 0o600); err != nil {
		return err
	}
	if err := r.copySharedIndex(index); err != nil {
		return fmt.Errorf("%w: %w", errUnread, err)
	}
	// git compares the content of files only if they are not older than the index, so the copy
	// must have the same time.
	return os.Chtimes(r.index, time.Time{}, info.ModTime())
}

const (
	sharedIndex = "sharedindex." // and an id in hexadecimal: the name of a part of a split index
	mostNames   = 1000           // of a git directory that are looked at
)

// copySharedIndex copies the part that a split index (core.splitIndex) names. git looks for it in
// the git directory.
func (r *reader) copySharedIndex(index []byte) error {
	dir, err := paths.OpenReal(r.gitDir, os.O_RDONLY|syscall.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(mostNames)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for _, name := range names {
		digits, isShared := strings.CutPrefix(name, sharedIndex)
		id, err := hex.DecodeString(digits)
		if !isShared || err != nil || len(id) == 0 || !bytes.Contains(index, id) {
			continue
		}
		shared, err := files.ReadReal(filepath.Join(r.gitDir, name), maxIndex)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.scratch, name), shared, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// maxEntry bounds a part that a splitWriter keeps, in bytes. The system allows paths of 4,096.
const maxEntry = 1 << 20

// splitWriter calls each for every part that ends with a zero byte.
type splitWriter struct {
	each func(string)
	rest []byte
}

// EachEntry returns a writer for output of git with -z. It calls each for every entry, without
// its zero byte.
func EachEntry(each func(string)) io.Writer { return &splitWriter{each: each} }

func (s *splitWriter) Write(b []byte) (int, error) {
	s.rest = append(s.rest, b...)
	for {
		entry, rest, ok := bytes.Cut(s.rest, []byte{0})
		if !ok && len(s.rest) > maxEntry {
			return 0, fmt.Errorf("git prints a path of more than %d bytes", maxEntry)
		}
		if !ok {
			return len(b), nil
		}
		s.each(string(entry))
		s.rest = rest
	}
}
