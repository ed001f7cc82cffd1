package git

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// repository describes where git keeps the data of a work tree. All paths are absolute, with
// links resolved.
type repository struct {
	tree   string
	gitDir string // HEAD and index
	// common contains objects and refs. It is gitDir, or for a linked worktree the main
	// repository's git directory.
	common string
	linked bool
	inTree bool // gitDir is <work tree>/.git, a real directory
}

// errElsewhere is the error of a workspace in which an agent has replaced the repository.
var errElsewhere = errors.New("its .git leads to another repository")

// away returns the git directory, empty if it is <work tree>/.git itself. Its path has no
// links, so that it names the directory that is read, also if .git became a link meanwhile.
func (repo repository) away() string {
	tree, ok, err := resolveDir(repo.tree)
	isOwn := err == nil && ok && repo.gitDir == filepath.Join(tree, ".git") && !repo.linked
	if isOwn {
		return ""
	}
	return repo.gitDir
}

// Elsewhere returns the git directory of a work tree if that is not its own .git, as in a linked
// worktree; empty if it is, and where there is no repository.
func Elsewhere(dir string) string {
	repo, ok, err := openRepository(dir)
	if err != nil || !ok {
		return ""
	}
	return repo.away()
}

// The maximum sizes of git's own files that are read, in bytes. packed-refs is the largest of
// them.
const (
	maxGitFile = 32 << 20
	maxHead    = 8 << 10 // the name of a branch is shown to operators
)

// openRepository reads <tree>/.git; ok is false if there is no valid repository. The result is
// not trusted: it may point anywhere.
func openRepository(tree string) (repo repository, ok bool, err error) {
	dotGit := filepath.Join(tree, ".git")
	info, err := os.Lstat(dotGit)
	if files.Absent(err) {
		return repository{}, false, nil
	}
	if err != nil {
		return repository{}, false, files.Failed(err, "read the repository of %s", tree)
	}
	if info.IsDir() && isEmpty(dotGit) { // as a sandbox leaves it
		return repository{}, false, nil
	}
	gitDir := dotGit
	if info.Mode().IsRegular() {
		gitDir, ok, err = pointer(dotGit, "gitdir:")
		if err != nil || !ok {
			return repository{}, false, err
		}
	}
	gitDir, ok, err = resolveDir(gitDir)
	if err != nil || !ok {
		return repository{}, false, err
	}
	repo = repository{tree: tree, gitDir: gitDir, inTree: info.IsDir()}
	common, ok, err := pointer(filepath.Join(repo.gitDir, "commondir"), "")
	if err != nil {
		return repository{}, false, err
	}
	if !ok {
		repo.common = repo.gitDir
		return repo, true, nil
	}
	repo.common, repo.linked, err = resolveDir(common)
	return repo, repo.linked, err
}

// pointer reads a file whose single line contains a path, which may be relative to the file's
// directory.
func pointer(file, prefix string) (path string, ok bool, err error) {
	b, err := files.ReadRegular(file, 1<<16)
	if files.Absent(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, files.Failed(err, "read the repository's %s", file)
	}
	path, ok = strings.CutPrefix(strings.TrimRight(string(b), "\r\n"), prefix)
	path = strings.TrimSpace(path)
	if !ok || path == "" || strings.ContainsAny(path, "\n\x00") {
		return "", false, nil
	}
	return absolute(filepath.Dir(file), path), true, nil
}

// resolveDir resolves all links in the path of a directory; ok is false if it does not exist.
func resolveDir(path string) (real string, ok bool, err error) {
	real, err = filepath.EvalSymlinks(path)
	if files.Absent(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, files.Failed(err, "resolve %s", path)
	}
	info, err := os.Stat(real)
	if files.Absent(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, files.Failed(err, "resolve %s", path)
	}
	return real, info.IsDir(), nil
}

// Writable returns the directories that `git commit` in dir must be able to write, if the
// agent can write them: for an ordinary clone <dir>/.git. A git directory elsewhere (a link,
// --separate-git-dir, a submodule, a linked worktree) and the directory that it shares are
// returned only if they are inside dir or inside an opened directory: the agent can write to
// these anyway, but a sandbox protects a git directory in them unless it is listed. It only
// reads files, which the agent may have written in order to gain access the next time.
//
// A linked worktree's main repository is not opened: git writes text of the agent's choice
// through a link that the agent puts into its logs or rr-cache, also when the operator runs
// git there.
func Writable(dir string, opened ...string) (list []string, err error) {
	tree, ok, err := resolveDir(dir)
	if err != nil || !ok {
		return nil, err
	}
	repo, ok, err := openRepository(tree)
	if err != nil || !ok {
		return nil, err
	}
	if repo.inTree && !repo.linked {
		return []string{repo.gitDir}, nil
	}
	for _, dir := range append([]string{tree}, opened...) {
		real, ok, err := resolveDir(dir)
		if err != nil {
			return nil, err
		}
		if ok && paths.Inside(real, repo.gitDir) && paths.Inside(real, repo.common) {
			return slices.Compact([]string{repo.gitDir, repo.common}), nil
		}
	}
	return nil, nil
}

// Root returns the root of the main repository that contains dir, which is the key of an
// agent's trust settings: the nearest parent directory with a .git or, for a linked worktree,
// the root of its main repository; without a repository dir itself. An empty directory is no
// .git. All links are resolved.
func Root(dir string) (string, error) {
	real, ok, err := resolveDir(dir)
	if err != nil {
		return "", err
	}
	if !ok {
		return "", files.Failed(fs.ErrNotExist, "find the repository of %s", dir)
	}
	for at := real; ; at = filepath.Dir(at) {
		repo, ok, err := openRepository(at)
		if err != nil {
			return "", err
		}
		if ok && filepath.Dir(repo.gitDir) == filepath.Join(repo.common, "worktrees") {
			return filepath.Dir(repo.common), nil
		}
		dotGit := filepath.Join(at, ".git")
		if ok || exists(dotGit) && !isEmpty(dotGit) {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return real, nil
		}
	}
}

func isEmpty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) == 0
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Head is the commit of a workspace's HEAD, empty if there is none, the directory with the
// repository's objects, and the content of its references by name.
type Head struct {
	Commit     string
	Branch     string // the branch that HEAD names; empty if it names a commit
	Objects    string
	References map[string]string
}

// GitDir is the git directory of the workspace.
func (h Head) GitDir() string { return filepath.Dir(h.Objects) }

// ErrNoRepository means that someone removed .git from a workspace.
var ErrNoRepository = errors.New(
	"it has no git repository any more: restore its .git, or move the workspace away; then symphony retry ISSUE",
)

// HeadOf reads HEAD of a workspace. Its repository must be a directory .git of its own.
func HeadOf(workspace string) (h Head, err error) {
	repo, ok, err := openRepository(workspace)
	if err != nil {
		return h, err
	}
	if !ok {
		return h, ErrNoRepository
	}
	if repo.away() != "" {
		return h, errElsewhere
	}
	r := &reader{repository: repo}
	if err := r.refuseTables(); err != nil {
		return h, err
	}
	if err := r.readReferences(); err != nil {
		return h, err
	}
	h.Objects = filepath.Join(repo.common, "objects")
	h.References = r.refs
	content, commit, err := r.headOf(repo.gitDir)
	h.Commit = commit
	if branch, named := strings.CutPrefix(content, "ref: refs/heads/"); named {
		h.Branch = branch
	}
	return h, err
}

// SetRemoteBranch records in a workspace that its remote contains a commit, as git push does.
// It follows no links in the repository, and replaces symbolic references.
func SetRemoteBranch(workspace, branch, commit string) error {
	repo, ok, err := openRepository(workspace)
	if err != nil {
		return err
	}
	if !ok || !repo.inTree {
		return errUnread
	}
	return repo.setReference("refs/remotes/origin/"+branch, commit)
}

// SetSubmoduleBranch is SetRemoteBranch in a submodule of a workspace. The path of the
// workspace contains no links. It does nothing if the submodule is not set up.
func SetSubmoduleBranch(workspace, path, branch, commit string) error {
	repo, ok, err := openRepository(filepath.Join(workspace, path))
	if err != nil || !ok {
		return err
	}
	if repo.linked || !paths.Inside(filepath.Join(workspace, ".git", "modules"), repo.gitDir) {
		return errors.New("its repository is elsewhere")
	}
	return repo.setReference("refs/remotes/origin/"+branch, commit)
}

// MoveBranch moves the branch of a workspace to a commit, whose files are already in the work
// tree. index is git's index of these files. The index comes first: if only that is there, git
// shows the files of the commit as staged.
func MoveBranch(workspace, branch, commit string, index []byte) error {
	repo, ok, err := openRepository(workspace)
	if err != nil {
		return err
	}
	if !ok || !repo.inTree {
		return errUnread
	}
	if err := repo.replace("index", index); err != nil {
		return fmt.Errorf("write the index of %s: %w", workspace, err)
	}
	crash.At("workspace.branch.indexed")
	return repo.setReference("refs/heads/"+branch, commit)
}

// MoveHead moves the branch of a workspace, or HEAD if there is no branch, to another commit
// with the same tree. HEAD must be at a commit.
func MoveHead(workspace, from, to string) error {
	repo, ok, err := openRepository(workspace)
	if err != nil {
		return err
	}
	if !ok || !repo.inTree {
		return errUnread
	}
	r := &reader{repository: repo}
	if err := r.readReferences(); err != nil {
		return err
	}
	head, commit, err := r.headOf(repo.gitDir)
	if err != nil {
		return err
	}
	if commit != from {
		return errors.New("HEAD has changed meanwhile")
	}
	branch, onBranch := strings.CutPrefix(head, "ref: ")
	if !onBranch {
		return repo.setReference("HEAD", to)
	}
	if !strings.HasPrefix(branch, "refs/heads/") || r.refs[branch] != from {
		return fmt.Errorf("HEAD leads to %.60q", branch)
	}
	return repo.setReference(branch, to)
}

// setReference writes a reference as a file. It follows no links in the repository, and
// replaces symbolic references.
func (repo repository) setReference(name, content string) error {
	return repo.replace(name, []byte(content+"\n"))
}

// replace replaces a file in the git directory. It follows no links there.
func (repo repository) replace(name string, content []byte) error {
	dir, err := os.OpenRoot(repo.gitDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	temporary := "symphony-" + rand.Text() // with a fixed name an agent could put a pipe there
	if err := dir.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	parent := filepath.Join(repo.gitDir, filepath.Dir(name))
	real, ok, err := resolveDir(parent)
	if err != nil {
		return err
	}
	if !ok || real != parent {
		return fmt.Errorf("%s is a link", parent)
	}
	if err := writeNew(dir, temporary, content); err != nil {
		return err
	}
	if err := dir.Rename(temporary, name); err != nil {
		return errors.Join(err, dir.Remove(temporary))
	}
	return nil
}

// writeNew writes a file that must not exist. It is on disk then: after a power failure git
// would refuse an empty reference.
func writeNew(dir *os.Root, name string, content []byte) error {
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return errors.Join(err, dir.Remove(name))
	}
	return nil
}

// otherToGit matches names that git allows for a branch and reads as something else:
// "FETCH_HEAD" is the result of the last fetch, "+main" forces a push of main, "tags/v1" is a
// tag, 40 hexadecimal digits are a commit.
var otherToGit = text.Pattern(
	`^(@|\+.*|(refs|heads|tags|remotes)/.*|([A-Z_]+_)?HEAD|AUTO_MERGE|[0-9a-fA-F]{40}|[0-9a-fA-F]{64})$`,
)

// IsBranchName reports whether a branch can have a name, whether the name means nothing else
// to git, and whether a person who reads it sees all of its characters in their order. The
// error means that git did not answer, for instance because it is missing.
func IsBranchName(ctx context.Context, name string) (bool, error) {
	if name == "" || otherToGit().MatchString(name) {
		return false, nil
	}
	if strings.ContainsFunc(name, text.Control) {
		return false, nil
	}
	err := gitcmd.Run(plainGit(ctx, "/", "check-ref-format", "--branch", name), maxMemory)
	if gitcmd.Exited(err) {
		return false, nil
	}
	return err == nil, err
}

// OnBranch reports whether the work tree of the operator in dir is on a branch. It is false if
// git can't read the repository.
func OnBranch(ctx context.Context, dir string) bool {
	show := plainGit(ctx, dir, "-c", "safe.directory=*", "symbolic-ref", "--quiet", "HEAD")
	return gitcmd.Run(show, maxMemory) == nil
}

// HasBranch reports whether a branch exists in a repository of the operator in dir.
func HasBranch(ctx context.Context, dir, name string) bool {
	show := plainGit(
		ctx, dir, "-c", "safe.directory=*", "show-ref", "--verify", "--quiet", "refs/heads/"+name,
	)
	return gitcmd.Run(show, maxMemory) == nil
}

// Identity returns the author of commits in a repository of the operator in dir, by the
// configuration of the repository and of the account whose environment is env.
func Identity(ctx context.Context, dir string, env []string) (name, email string) {
	return configured(ctx, dir, env, "user.name"), configured(ctx, dir, env, "user.email")
}

// configured reads a value of git's configuration; empty if there is none.
func configured(ctx context.Context, dir string, env []string, key string) string {
	ask := []string{"-c", "safe.directory=*", "config", "--get", key}
	value, err := gitcmd.Output(gitcmd.Command(ctx, dir, gitcmd.AsConfigured, env, ask...), maxMemory)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(value)
}

// agentsNeed matches the settings of an operator that commits of agents need, too: the author,
// and how files of Git LFS are stored.
const agentsNeed = `^(user\.(name|email)|init\.defaultbranch|core\.autocrlf|core\.eol|filter\.lfs\..*)$`

// SettingsOfAgents returns a configuration for agents with what their commits need of the
// account whose environment is env. A git that does not answer leaves it empty.
func SettingsOfAgents(ctx context.Context, env []string) string {
	ask := []string{"config", "--global", "--includes", "-z", "--get-regexp", agentsNeed}
	found, err := gitcmd.Output(gitcmd.Command(ctx, "/", gitcmd.AsConfigured, env, ask...), maxMemory)
	if err != nil {
		return "" // there is none of them
	}
	var lines strings.Builder
	for entry := range strings.SplitSeq(strings.TrimSuffix(found, "\x00"), "\x00") {
		key, value, hasValue := strings.Cut(entry, "\n")
		section, name := splitKey(key)
		if section == "" || !hasValue {
			continue
		}
		fmt.Fprintf(&lines, "%s\n\t%s = %s\n", section, name, QuotedValue(value))
	}
	return lines.String()
}

// splitKey returns the line of a section and the name of a setting: filter.lfs.clean is clean
// in [filter "lfs"].
func splitKey(key string) (section, name string) {
	parts := strings.Split(key, ".")
	switch len(parts) {
	case 2:
		return "[" + parts[0] + "]", parts[1]
	case 3:
		return fmt.Sprintf("[%s %q]", parts[0], parts[1]), parts[2]
	}
	return "", ""
}

// QuotedValue returns a value as git's configuration has it.
func QuotedValue(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(value) + `"`
}
