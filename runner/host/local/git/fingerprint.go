package git

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

const fingerprintFor = 10 * time.Second

// Fingerprint changes with the progress of the work (design section 5): HEAD, the index, or the work tree as
// `git status` sees it, changed files by size and time; where there is no repository that git can read, with
// names, sizes and times of the first 200,000 files. What git ignores does not count. It takes at most 10 s,
// else its error wraps context.DeadlineExceeded.
//
// Nothing that the repository names is run: git gets a git directory of our own that borrows the repository's
// objects and index, so that its configuration, with the filters, monitors, hooks and transports there, is
// never read. It is a temporary one, where an agent can't write.
func Fingerprint(ctx context.Context, dir string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, fingerprintFor)
	defer cancel()
	print, err := fingerprint(ctx, dir)
	var known *reconcile.Error
	switch {
	case err == nil:
		return print, nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("fingerprint of %s: %w", dir, ctx.Err())
	case errors.As(err, &known):
		return "", err
	}
	return "", files.Failed(err, "fingerprint of %s", dir)
}

func fingerprint(ctx context.Context, dir string) (string, error) {
	tree, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	repo, ok, err := openRepository(tree)
	if err != nil {
		return "", err
	}
	if ok {
		print, err := gitFingerprint(ctx, repo, tree)
		if err == nil || ctx.Err() != nil || !errors.Is(err, errUnread) {
			return print, err
		}
	}
	return walkFingerprint(ctx, tree, repo)
}

// scratchPattern names the git directories of our own.
const scratchPattern = "symphony-git-"

// errUnread says that git is missing or can't read the repository (a torn file, a format that it does not know).
var errUnread = errors.New("git can't read it")

func gitFingerprint(ctx context.Context, repo repository, tree string) (print string, err error) {
	scratch, err := os.MkdirTemp("", scratchPattern)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	content, commit, err := repo.head()
	if err != nil {
		return "", fmt.Errorf("%w: %w", errUnread, err)
	}
	if err := writeScratch(scratch, commit); err != nil {
		return "", err
	}
	cmd := statusCommand(ctx, repo, tree, scratch)
	var complaint strings.Builder
	cmd.Stderr = &limitWriter{w: &complaint, left: 4 << 10}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	put(h, "%s\x00%s\x00", content, commit)
	if err := repo.hashTables(h); err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("%w: %w", errUnread, err)
	}
	// Wait must come even after an error, to reap.
	err = hashStatus(ctx, h, tree, out)
	if waited := cmd.Wait(); waited != nil {
		return "", fmt.Errorf("%w: %w: %s", errUnread, waited, files.LastLine([]byte(complaint.String())))
	}
	if err != nil {
		return "", err
	}
	return "git:" + hex.EncodeToString(h.Sum(nil)), nil
}

// writeScratch makes the git directory of our own, detached at the commit.
func writeScratch(dir, commit string) error {
	for _, d := range []string{dir, filepath.Join(dir, "refs")} {
		if err := files.OwnDir(d); err != nil {
			return err
		}
	}
	head, config := "ref: refs/heads/none\n", "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
	if commit != "" {
		head = commit + "\n"
	}
	if len(commit) == 64 {
		config = "[core]\n\trepositoryformatversion = 1\n\tbare = false\n[extensions]\n\tobjectformat = sha256\n"
	}
	err := os.WriteFile(filepath.Join(dir, "HEAD"), []byte(head), 0o600)
	return errors.Join(err, os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600))
}

// statusCommand is git status.
func statusCommand(ctx context.Context, repo repository, tree, scratch string) *exec.Cmd {
	return borrowedGit(ctx, repo, tree, scratch, "status", "--porcelain=v2", "-z", "--no-renames", "--no-ahead-behind",
		"--untracked-files=all", "--ignored=no", "--ignore-submodules=all")
}

// borrowedGit is git, told everything and allowed nothing: no configuration but ours, no hook, no monitor, no transport
// (a partial clone would fetch what is missing), no lock, no terminal.
func borrowedGit(ctx context.Context, repo repository, tree, scratch string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", append([]string{
		"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.untrackedCache=false",
		"-c", "diff.autoRefreshIndex=false", // which takes the lock of the index, whatever GIT_OPTIONAL_LOCKS says
		"-c", "core.excludesFile=" + filepath.Join(repo.common, "info", "exclude"), "--no-pager",
	}, args...)...)
	cmd.Dir = tree
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + scratch, "LC_ALL=C",
		"GIT_DIR=" + scratch, "GIT_WORK_TREE=" + tree,
		"GIT_INDEX_FILE=" + filepath.Join(repo.gitDir, "index"),
		"GIT_OBJECT_DIRECTORY=" + filepath.Join(repo.common, "objects"),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=none",
		"GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1",
	}
	cmd.WaitDelay = time.Second
	return cmd
}

// hashStatus adds every entry of the status, and size and times of the files that have changed. An untracked
// repository is one entry with a slash at its end: there all that is in it counts.
func hashStatus(ctx context.Context, h hash.Hash, tree string, out io.Reader) error {
	r := bufio.NewReader(out)
	nested := walker{ctx: ctx, h: h, left: walkEntries}
	for {
		entry, err := r.ReadString(0)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		entry = strings.TrimSuffix(entry, "\x00")
		put(h, "%s\x00", entry)
		switch path := statusPath(entry); {
		case path == "":
		case strings.HasSuffix(path, "/"):
			err = nested.walk(filepath.Join(tree, path))
		default:
			err = hashFile(h, filepath.Join(tree, path))
		}
		if err != nil {
			return err
		}
	}
}

// statusPath is the path of an entry: after 8 fields of a changed one, 10 of an unmerged one, 1 of others.
func statusPath(entry string) string {
	fields := map[byte]int{'1': 8, 'u': 10, '?': 1}
	if entry == "" || fields[entry[0]] == 0 {
		return ""
	}
	n := fields[entry[0]]
	parts := strings.SplitN(entry, " ", n+1)
	if len(parts) <= n {
		return ""
	}
	return parts[n]
}

// hashTables adds what changes with every reference of a repository that keeps them in tables: there HEAD
// tells nothing.
func (repo repository) hashTables(h hash.Hash) error {
	for _, dir := range []string{repo.gitDir, repo.common} {
		b, err := files.ReadRegular(filepath.Join(dir, "reftable", "tables.list"), maxGitFile)
		if err != nil && !files.Absent(err) {
			return err
		}
		h.Write(b)
	}
	return nil
}

// limitWriter passes the first bytes on and drops the rest.
type limitWriter struct {
	w    io.Writer
	left int
}

func (l *limitWriter) Write(b []byte) (int, error) {
	n := min(len(b), l.left)
	l.left -= n
	if _, err := l.w.Write(b[:n]); err != nil {
		return 0, err
	}
	return len(b), nil
}
