package repository

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// pointer is a file of a commit for which Git LFS keeps the content elsewhere.
type pointer struct {
	path, blob string // the blob of the commit is text
	text       string
	oid        string // the SHA-256 of the content
	size       int64  // of the content in bytes
}

const (
	longestPointer = 1024     // bytes, as Git LFS reads them
	mostPointers   = 5000     // in a delivery
	mostContent    = 16 << 30 // bytes that are copied for a delivery or checkout
	pointersAtOnce = 500      // uploaded by a command
)

// pointerText matches the text of a pointer.
var pointerText = text.Pattern(`\Aversion https://(?:git-lfs|hawser)\.github\.com/spec/v1\r?\n(?:ext-.*\n)*` +
	`oid sha256:([0-9a-f]{64})\r?\nsize ([0-9]{1,18})\r?\n?\z`)

// largeFiles are the files of Git LFS in commits that the remote does not have.
type largeFiles struct {
	*Mirror
	gitDir string // of a repository with the commits, which no agent can write
	commit string
	known  []string // arguments by which git rev-list leaves out the remote's commits
	// workspace is the git directory that may have their content; empty if it is on another
	// machine.
	workspace string
}

func (d *delivery) largeFiles() largeFiles {
	return largeFiles{
		Mirror:    d.Mirror,
		gitDir:    d.path,
		commit:    d.Commit,
		known:     []string{"--branches", "--tags"},
		workspace: d.GitDir,
	}
}

// deliverLargeFiles uploads the contents in the workspace for which the commits contain
// pointers of Git LFS. It returns an error if the remote would lack some of the last commit: a
// clone would not get these files. A try uploads nothing.
func (d *delivery) deliverLargeFiles(ctx context.Context) error {
	if d.try && d.GitDir == "" {
		return nil // a hook may upload them on the other machine after the turn
	}
	l := d.largeFiles()
	list, err := l.pointers(ctx)
	if err != nil {
		return d.failed(host.CodeDeliveryFailed, "list the files of Git LFS", err)
	}
	if len(list) == 0 {
		return nil
	}
	if len(list) > mostPointers {
		return incomplete(fmt.Sprintf("the commits add more than %d files of Git LFS", mostPointers),
			"deliver fewer of them at once")
	}
	return d.withLargeStore(ctx, func(s largeStore) error {
		if err := s.checkInstalled(ctx, list[0]); err != nil {
			return err
		}
		to := filepath.Join(s.dir, ".git")
		if d.try {
			to = ""
		}
		found, missing, err := l.copyContent(ctx, list, to)
		if err != nil {
			return err
		}
		missing, err = l.inCommit(ctx, missing)
		if err != nil {
			return d.failed(host.CodeDeliveryFailed, "list the files of the commit", err)
		}
		if err := s.checkRemote(ctx, missing); err != nil || d.try {
			return err
		}
		return s.upload(ctx, found)
	})
}

// git is git in the repository with the commits, with no configuration but its own.
func (l largeFiles) git(ctx context.Context, args ...string) *exec.Cmd {
	cmd := withDir(l.command(ctx, gitcmd.Nobody, args...), l.gitDir, "")
	cmd.Env = append(cmd.Env, allocLimit)
	return cmd
}

// pointers lists the pointers in the commits, at most 1 more than the limit of a delivery.
// There are none if a clone of the last commit gives no file to Git LFS.
func (l largeFiles) pointers(ctx context.Context) (list []pointer, err error) {
	look := l.git(ctx, "grep", "--quiet", "--threads=1", "--fixed-strings", "-e", "filter=lfs",
		l.commit, "--", ":(glob)**/.gitattributes")
	err = l.run(look)
	if gitcmd.ExitedWith(err, 1) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	objects, err := l.temporary()
	if err != nil {
		return nil, err
	}
	defer objects.Close()
	small := l.git(
		ctx,
		"rev-list",
		"--objects",
		"--filter=blob:limit="+strconv.Itoa(longestPointer),
		l.commit,
		"--not",
	)
	small.Args = append(small.Args, l.known...)
	small.Stdout = objects
	if err := l.run(small); err != nil {
		return nil, err
	}
	if _, err := objects.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	read := l.git(ctx, "cat-file", "--batch=%(objectname) %(objecttype) %(objectsize) %(rest)")
	read.Stdin = objects
	out, in := io.Pipe()
	read.Stdout = in
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		in.CloseWithError(l.run(read))
	}()
	list, err = readPointers(bufio.NewReader(out))
	err = errors.Join(err, out.Close())
	<-ended // by the end of its output, if there are more pointers than are read
	return list, err
}

// inCommit returns the pointers that are in the last commit, each with one of its paths there.
func (l largeFiles) inCommit(ctx context.Context, list []pointer) (found []pointer, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	wanted := map[string]pointer{} // by the id of the blob
	for _, p := range list {
		wanted[p.blob] = p
	}
	cmd := l.git(ctx, "ls-tree", "-r", "-z", "--full-tree", l.commit)
	cmd.Stdout = git.EachEntry(func(entry string) {
		about, at, _ := strings.Cut(entry, "\t")
		blob := about[strings.LastIndexByte(about, ' ')+1:]
		p, isWanted := wanted[blob]
		if !isWanted {
			return
		}
		delete(wanted, blob)
		p.path = at
		found = append(found, p)
	})
	err = l.run(cmd)
	return found, err
}

// copyContent copies the workspace's content for pointers into a git directory. Without a
// directory it only checks whether the content is there.
func (l largeFiles) copyContent(
	ctx context.Context, list []pointer, gitDir string,
) (found, missing []pointer, err error) {
	if l.workspace == "" {
		return nil, list, nil
	}
	root, err := os.OpenRoot(l.workspace) // an agent can put links in it
	if err != nil {
		return nil, nil, l.failed(host.CodeDeliveryFailed, "read the files of Git LFS", err)
	}
	defer root.Close()
	var left int64 = mostContent
	for _, p := range list {
		there, err := p.copyContent(ctx, root, gitDir, left)
		if errors.Is(err, errMuchContent) {
			return nil, nil, tooMuchContent()
		}
		if err != nil {
			what := "copy " + p.shown() + " of Git LFS"
			return nil, nil, l.failed(host.CodeDeliveryFailed, what, err)
		}
		if !there {
			missing = append(missing, p)
			continue
		}
		found = append(found, p)
		left -= p.size
	}
	return found, missing, nil
}

var errMuchContent = errors.New("the content is too large")

func tooMuchContent() error {
	return reconcile.NewError(
		host.CodeGitLimit,
		fmt.Sprintf("the commits add files of Git LFS with more than %d GiB of content", mostContent>>30),
		"deliver fewer of them: git lfs ls-files --size shows their sizes",
	)
}

// copyContent copies the content for a pointer, unless it is larger than the bytes that are
// left. It reports whether the workspace contains it.
func (p pointer) copyContent(
	ctx context.Context, workspace *os.Root, gitDir string, left int64,
) (bool, error) {
	info, err := workspace.Lstat(p.object())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() || info.Size() != p.size {
		return false, nil
	}
	if p.size > left {
		return false, errMuchContent
	}
	from, err := workspace.OpenFile(p.object(), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false, err
	}
	defer from.Close()
	content := io.LimitReader(git.WithContext(ctx, from), p.size)
	if gitDir == "" {
		return p.isContent(content, io.Discard)
	}
	to := filepath.Join(gitDir, p.object())
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return false, err
	}
	copied, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false, err
	}
	is, err := p.isContent(content, copied)
	if err := errors.Join(err, copied.Close()); err != nil {
		return false, err
	}
	if !is {
		return false, os.Remove(to)
	}
	return true, nil
}

// isContent copies the content for a pointer, and reports whether its hash is the pointer's.
func (p pointer) isContent(from io.Reader, to io.Writer) (bool, error) {
	hash := sha256.New()
	_, err := io.Copy(io.MultiWriter(to, hash), from)
	return hex.EncodeToString(hash.Sum(nil)) == p.oid, err
}

// readPointers reads the output of git cat-file --batch.
func readPointers(r *bufio.Reader) (list []pointer, err error) {
	known := map[string]bool{}
	for len(list) <= mostPointers {
		header, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		words := strings.SplitN(strings.TrimSuffix(header, "\n"), " ", 4)
		if len(words) != 4 {
			return nil, fmt.Errorf("git describes an object as %.60q", header)
		}
		size, err := strconv.Atoi(words[2])
		if err != nil {
			return nil, err
		}
		if words[1] != "blob" || size >= longestPointer {
			// and the end of its line
			if _, err := io.CopyN(io.Discard, r, int64(size)+1); err != nil {
				return nil, err
			}
			continue
		}
		content := make([]byte, size+1)
		if _, err := io.ReadFull(r, content); err != nil {
			return nil, err
		}
		p, is := parsePointer(string(content[:size]))
		if is && !known[p.oid] {
			known[p.oid] = true
			p.blob = words[0]
			p.path = words[3]
			list = append(list, p)
		}
	}
	return list, nil
}

func parsePointer(content string) (pointer, bool) {
	match := pointerText().FindStringSubmatch(content)
	if match == nil {
		return pointer{}, false
	}
	size, err := strconv.ParseInt(match[2], 10, 64)
	return pointer{text: content, oid: match[1], size: size}, err == nil
}

func (p pointer) shown() string { return text.Visible(text.Within(p.path, maxShown)) }

// object is the path of the content in a git directory.
func (p pointer) object() string {
	return filepath.Join("lfs", "objects", p.oid[:2], p.oid[2:4], p.oid)
}

// largeStore is a repository of its own in which git-lfs works. No agent can write it, and the
// settings that git-lfs finds in a repository come from the base.
type largeStore struct {
	*delivery
	dir string
}

// withLargeStore calls use with an empty store, which is removed afterwards.
func (d *delivery) withLargeStore(ctx context.Context, use func(largeStore) error) (err error) {
	dir, err := os.MkdirTemp(filepath.Dir(d.path), incomingPrefix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	gitDir := filepath.Join(dir, ".git")
	if err := d.makeStore(gitDir, len(d.Commit) == sha256Length); err != nil {
		return err
	}
	head, err := d.commitOf(ctx, d.base)
	if err != nil {
		return d.failed(host.CodeDeliveryFailed, "find the base", err)
	}
	if err := os.WriteFile(filepath.Join(gitDir, "HEAD"), []byte(head+"\n"), 0o600); err != nil {
		return err
	}
	return use(largeStore{delivery: d, dir: dir})
}

// makeStore writes a git directory that borrows the objects of the mirror. Git LFS asks it for the
// address of the remote.
func (m *Mirror) makeStore(gitDir string, sha256 bool) error {
	for _, dir := range []string{"objects/info", "refs"} {
		if err := os.MkdirAll(filepath.Join(gitDir, dir), 0o700); err != nil {
			return err
		}
	}
	config := strings.Replace(configOf(sha256), "bare = true", "bare = false", 1)
	config += "[remote \"origin\"]\n\turl = " + git.QuotedValue(m.Address()) + "\n"
	content := map[string]string{
		"config":                  config,
		"HEAD":                    "ref: refs/heads/main\n",
		"objects/info/alternates": git.Quoted(filepath.Join(m.path, "objects")) + "\n",
	}
	for name, text := range content {
		if err := os.WriteFile(filepath.Join(gitDir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// git is git-lfs in the store, with the operator's configuration and credentials.
func (s largeStore) git(ctx context.Context, args ...string) *exec.Cmd {
	// not by GIT_DIR, which git-lfs would use in a remote on this machine, too
	return s.commandAt(ctx, s.dir, gitcmd.Operator, append([]string{"lfs"}, args...)...)
}

// checkInstalled returns an error for a pointer if git-lfs is not installed.
func (s largeStore) checkInstalled(ctx context.Context, p pointer) error {
	err := s.runWithin(s.git(ctx, "version"), gitcmd.NoLimit)
	if notInstalled().MatchString(host.GitOutput(err)) {
		return incomplete(
			p.shown()+" is a file of Git LFS, and git-lfs is not installed",
			"a person has to install git-lfs",
		)
	}
	return s.failed(host.CodeDeliveryFailed, "start git-lfs", err)
}

var notInstalled = text.Pattern(`'lfs' is not a git command`)

// checkRemote returns an error unless the remote sends the content for all these pointers.
func (s largeStore) checkRemote(ctx context.Context, missing []pointer) error {
	if len(missing) == 0 {
		return nil
	}
	var left int64 = mostContent
	for _, p := range missing {
		if p.size > left {
			return tooMuchContent()
		}
		left -= p.size
	}
	if err := s.fetch(ctx, missing); err != nil {
		return s.failed(host.CodeDeliveryFailed, "look for files of Git LFS", err)
	}
	root, err := os.OpenRoot(filepath.Join(s.dir, ".git"))
	if err != nil {
		return err
	}
	defer root.Close()
	for _, p := range missing {
		there, err := p.copyContent(ctx, root, "", p.size)
		if err != nil {
			return s.failed(host.CodeDeliveryFailed, "look for "+p.shown()+" of Git LFS", err)
		}
		if !there {
			return s.missing(p)
		}
	}
	return nil
}

// fetch brings the content for pointers into the store, as far as the remote stores it. A
// commit in the store contains all of them, so that git-lfs asks for all at once.
func (s largeStore) fetch(ctx context.Context, list []pointer) error {
	const branch = "refs/heads/asked"
	var commit strings.Builder
	fmt.Fprintf(&commit, "commit %s\ncommitter symphony <> 0 +0000\ndata 0\n", branch)
	for i, p := range list {
		fmt.Fprintf(&commit, "M 100644 inline %d\ndata %d\n%s\n", i, len(p.text), p.text)
	}
	write := s.command(ctx, gitcmd.Nobody, "fast-import", "--quiet")
	withDir(write, filepath.Join(s.dir, ".git"), "")
	write.Stdin = strings.NewReader(commit.String())
	if err := s.run(write); err != nil {
		return err
	}
	err := s.runWithin(s.git(ctx, "fetch", "--include=", "--exclude=", "origin", branch), gitcmd.NoLimit)
	if notOnRemote().MatchString(host.GitOutput(err)) {
		return nil
	}
	return err
}

// notOnRemote matches git-lfs's messages about content that is not on the remote.
var notOnRemote = text.Pattern(`(?i)\[(?:404|410)\]|missing object|does not exist`)

// missing is the error for a pointer whose content would be missing in a clone.
func (s largeStore) missing(p pointer) error {
	message := p.shown() + " is a file of Git LFS without content here or on the remote"
	hint := "write its content, git add and commit it again, or leave Git LFS out for it in .gitattributes"
	if s.GitDir == "" {
		message = p.shown() + " is a file of Git LFS without content on the remote"
		hint = "commit it without Git LFS, or let a hook run git lfs push there"
	}
	return incomplete(message, hint)
}

// upload sends content in the store to the remote.
func (s largeStore) upload(ctx context.Context, list []pointer) error {
	for some := range slices.Chunk(list, pointersAtOnce) {
		push := s.git(ctx, "push", "--object-id", "origin")
		for _, p := range some {
			push.Args = append(push.Args, p.oid)
		}
		if err := s.runWithin(push, gitcmd.NoLimit); err != nil {
			return s.failed(host.CodeDeliveryFailed, "upload the files of Git LFS", err)
		}
	}
	return nil
}
