// Package repository clones a project's repository into workspaces and pushes the work of
// agents.
//
// All workspaces of a root that use the same address share a mirror: a bare repository where
// no agent can write. It is fetched from the remote before each clone, so that a further clone
// is local, and before each later run in a workspace. Workspaces borrow the mirror's objects
// (alternates), and therefore no object is ever removed from it.
//
//	remote ──fetch──► mirror ──clone --shared──► workspace ──► agent
//	remote ◄──push─── mirror ◄──pack of HEAD──── workspace ◄──┘
//
// A push never reads the configuration of the workspace's repository, its hooks, filters,
// attributes or remotes. The only things that are read there are references and objects.
// Objects that are packed for the mirror are hashed again when the mirror unpacks them, so
// that an agent can't put a false object there.
//
// Git talks to the remote with the operator's configuration and credentials, which agents
// can't write; all else is done without any configuration but the mirror's. Hooks never run.
package repository

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/lock"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// Mirror is the mirror of a remote repository. It must not be used concurrently.
type Mirror struct{ commands }

// New returns the mirror of a remote below dir. Env is the operator's environment.
func New(dir string, remote host.Repository, env []string, inherit func(...*os.File) []*os.File) *Mirror {
	sum := sha256.Sum256([]byte(remote.URL))
	name := notInName().ReplaceAllString(strings.TrimSuffix(filepath.Base(remote.URL), ".git"), "_")
	name = strings.TrimLeft(name[max(0, len(name)-40):], "-.")
	path := filepath.Join(dir, fmt.Sprintf("%s-%x.git", name, sum[:8]))
	return &Mirror{commands{remote: remote, path: path, env: env, inherit: inherit}}
}

var notInName = text.Pattern(`[^A-Za-z0-9._-]`)

// lockStep is how often a wait for the lock checks whether it was given up.
const lockStep = 100 * time.Millisecond

// writer is a mirror while this process holds its lock. Only then its branches, its default
// branch and its packs change.
type writer struct{ *Mirror }

// current updates the mirror. It returns the name of the base.
func (m *Mirror) current(ctx context.Context) (base string, err error) {
	err = m.withLock(ctx, func(w writer) (err error) {
		base, err = w.update(ctx)
		return err
	})
	return base, err
}

// withLock holds the lock of the mirror while f writes there. Git commands inherit the lock:
// if this process dies, it is released when they end, and the next holder removes their
// leftovers.
func (m *Mirror) withLock(ctx context.Context, f func(writer) error) (err error) {
	m.lock, err = m.openLock(ctx)
	if err != nil {
		return err
	}
	defer func() {
		// also for a program that git left in the background
		err = errors.Join(err, lock.Release(m.lock))
		m.lock = nil
	}()
	w := writer{m}
	w.removeLeftovers()
	if m.exists() {
		if err := m.renewConfig(); err != nil {
			return err
		}
	}
	return f(w)
}

// openLock opens the file of the lock, and locks it.
func (m *Mirror) openLock(ctx context.Context) (*os.File, error) {
	if err := files.OwnDir(filepath.Dir(m.path)); err != nil {
		return nil, files.Failed(err, "create the directory of mirrors")
	}
	f, err := os.OpenFile(m.path+".lock", os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, files.Failed(err, "lock the mirror")
	}
	err = lock.Try(f, lock.Exclusive, lockStep)
	for errors.Is(err, lock.ErrHeld) && ctx.Err() == nil {
		err = lock.Try(f, lock.Exclusive, lockStep)
	}
	if errors.Is(err, lock.ErrHeld) {
		err = fmt.Errorf("another clone or delivery is using the mirror %s: %w: %w", m.path, err, ctx.Err())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// removeLeftovers removes locks and temporary files of git commands that were killed, and
// references that are empty after a power failure, with which git would refuse every fetch.
func (m writer) removeLeftovers() {
	paths := find(
		m.path,
		"*.lock", "objects/pack/tmp_*", "objects/pack/.tmp-*", "objects/pack/*.keep",
	)
	paths = append(paths, olderThan(oldestObject, find(m.path, "objects/??/tmp_obj_*"))...)
	_ = filepath.WalkDir(filepath.Join(m.path, "refs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // git reports what can't be read
		}
		if strings.HasSuffix(path, ".lock") || isEmpty(d) {
			paths = append(paths, path)
		}
		return nil
	})
	for _, path := range paths {
		_ = os.Remove(path) // git reports a lock that is left
	}
	for _, path := range olderThan(oldestIncoming, find(filepath.Dir(m.path), incomingPrefix+"*")) {
		_ = os.RemoveAll(path) // the next holder of the lock tries again
	}
}

// olderThan returns the paths that were changed last more than an age ago.
func olderThan(age time.Duration, paths []string) (old []string) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err == nil && time.Since(info.ModTime()) > age {
			old = append(old, path)
		}
	}
	return old
}

// isEmpty reports whether a file is known to be empty.
func isEmpty(d fs.DirEntry) bool {
	info, err := d.Info()
	return err == nil && info.Size() == 0
}

// oldestIncoming is the age from which the incoming files of a delivery can't belong to a
// running delivery.
const oldestIncoming = 24 * time.Hour

// oldestObject is the age from which an object that git has not finished is left over. Claims are
// written without the lock: a younger one may be an object that another process is writing.
const oldestObject = time.Hour

// find returns the paths in a directory that match patterns.
func find(dir string, patterns ...string) (paths []string) {
	for _, pattern := range patterns {
		found, _ := fs.Glob(os.DirFS(dir), pattern) // the patterns are valid
		paths = append(
			paths,
			text.Map(found, func(name string) string { return filepath.Join(dir, name) })...)
	}
	return paths
}

// update brings the branches and tags of the remote into the mirror, which it creates if it is
// missing. It returns the name of the base.
func (m writer) update(ctx context.Context) (base string, err error) {
	if err := m.checkWhole(ctx); err != nil {
		return "", err
	}
	// with another base, too: work is never pushed to the default branch
	if err := m.readHead(ctx); err != nil {
		return "", err
	}
	var others []string
	if m.remote.Claim != "" {
		others = []string{claimsDir + m.remote.Claim + "*"} // no error if there is none
	}
	if err := m.fetchFrom(ctx, m.remoteGit, m.remote.URL, others...); err != nil {
		return "", err
	}
	if err := m.refuseClaimed(ctx); err != nil {
		return "", err
	}
	return m.findBase(ctx)
}

// fetchFrom makes the branches, the tags, and perhaps other references the same as in a remote
// or a bundle.
func (m writer) fetchFrom(
	ctx context.Context, command func(context.Context, ...string) *exec.Cmd, from string, others ...string,
) error {
	fetch := []string{
		"fetch", "--quiet", "--force", "--prune", "--no-tags", "--no-write-fetch-head", "--no-auto-gc",
		"--", from,
	}
	for _, refs := range append([]string{"refs/heads/*", "refs/tags/*"}, others...) {
		fetch = append(fetch, "+"+refs+":"+refs)
	}
	err := m.unlessKilled(ctx, func() error { return m.runWithin(command(ctx, fetch...), gitcmd.NoLimit) })
	if err != nil {
		return m.failed(host.CodeRepositoryUnavailable, "fetch", err)
	}
	m.joinPacks(ctx)
	return nil
}

// unlessKilled calls do, and again if a signal ended git meanwhile.
func (m writer) unlessKilled(ctx context.Context, do func() error) error {
	err := do()
	if !killed(err) || ctx.Err() != nil {
		return err
	}
	m.removeLeftovers()
	return ofSignal(ctx, do())
}

// maxPacks is the number of packs from which on they slow git down.
const maxPacks = 50

// joinPacks joins packs, because each fetch and delivery adds a pack. Unlike git gc it removes
// no object, whether a reference leads to it or not. Failures are tried again after the next
// fetch.
func (m writer) joinPacks(ctx context.Context) {
	if len(find(m.path, "objects/pack/*.pack")) > maxPacks {
		_ = m.run(m.localGit(ctx, "repack", "--geometric=2", "-d", "-n", "-q"))
	}
}

// findBase returns the name of the base, which must be a branch of the mirror.
func (m *Mirror) findBase(ctx context.Context) (string, error) {
	base := cmp.Or(m.remote.Base, m.headBranch())
	at, err := m.commitOf(ctx, base)
	if err == nil && at == "" {
		err = fmt.Errorf("it has no branch %q: correct repository.base, or push a first commit", base)
	}
	if err != nil {
		return "", m.failed(host.CodeRepositoryUnavailable, "find the base", ofSignal(ctx, err))
	}
	return base, nil
}

// headBranch returns the default branch that readHead last found.
func (m *Mirror) headBranch() string {
	head, _ := files.ReadRegular(filepath.Join(m.path, "HEAD"), 1<<10)
	return strings.TrimPrefix(strings.TrimSpace(string(head)), "ref: refs/heads/")
}

// OriginOf returns the address of the remote origin of a repository of the operator, empty for
// none.
func (m *Mirror) OriginOf(ctx context.Context, dir string) string {
	look := m.commandAt(ctx, dir, gitcmd.Operator, "config", "--get", "remote.origin.url")
	address, err := m.output(look)
	if err != nil || address == "" {
		return ""
	}
	if strings.HasPrefix(address, "./") || strings.HasPrefix(address, "../") {
		return filepath.Join(dir, address)
	}
	return address
}

// commitOf returns the commit of a branch in the mirror, empty if there is none.
func (m *Mirror) commitOf(ctx context.Context, branch string) (string, error) {
	reference := "refs/heads/" + branch
	exists, err := m.says(m.localGit(ctx, "show-ref", "--verify", "--quiet", reference))
	if err != nil || !exists {
		return "", err
	}
	return m.output(m.localGit(ctx, "show-ref", "--verify", "--hash", reference))
}

// contains reports whether other is in the history of a commit. It is false if the mirror
// lacks either.
func (m *Mirror) contains(ctx context.Context, commit, other string) (bool, error) {
	isAncestor := func() (bool, error) {
		return m.says(m.localGit(ctx, "merge-base", "--is-ancestor", other, commit))
	}
	contains, err := isAncestor()
	if err == nil {
		return contains, nil
	}
	for _, name := range []string{commit, other} {
		has, hasErr := m.says(m.localGit(ctx, "rev-parse", "--verify", "--quiet", name+"^{commit}"))
		if hasErr == nil && !has {
			return false, nil
		}
	}
	// Both are there now: another delivery may have brought the same commit meanwhile.
	return isAncestor()
}

// anyContains reports whether other is in the history of any of some commits. An empty commit
// contains nothing.
func (m *Mirror) anyContains(ctx context.Context, commits []string, other string) (bool, error) {
	for _, commit := range commits {
		if commit == "" {
			continue
		}
		is, err := m.contains(ctx, commit, other)
		if err != nil || is {
			return is, err
		}
	}
	return false, nil
}

// readHead asks the remote for its default branch, and creates the mirror if it is missing.
func (m writer) readHead(ctx context.Context) error {
	var head remoteHead
	err := m.unlessKilled(ctx, func() (err error) {
		head, err = m.askHead(ctx)
		return err
	})
	if err != nil {
		return m.failed(host.CodeRepositoryUnavailable, "read the default branch", err)
	}
	if head.commit == "" && m.remote.Base == "" {
		return m.failed(host.CodeRepositoryUnavailable, "read the default branch",
			errors.New("it has no commit on its default branch"))
	}
	reference := cmp.Or(head.reference, "refs/heads/main")
	return m.setHead(ctx, reference, head.sha256)
}

// hasOtherBase reports whether the default branch of the remote, or the commit of the base,
// differs from the mirror's. It reports false if the remote can't be asked; the push reports
// that error.
func (d *delivery) hasOtherBase(ctx context.Context) bool {
	head, err := d.askHead(ctx)
	if err != nil || head.reference == "" {
		return false
	}
	at, err := d.commitOf(ctx, d.base)
	isMoved := err == nil && head.base != "" && head.base != at
	return isMoved || head.reference != "refs/heads/"+d.headBranch()
}

// remoteHead is HEAD of a remote.
type remoteHead struct {
	reference string // the default branch, such as refs/heads/main; empty if it names none
	commit    string // empty if there is none
	base      string // the commit of the base; empty if there is none
	sha256    bool   // objects are named by SHA-256
}

// askHead asks the remote for its HEAD. The base also shows how objects are named, if HEAD
// leads to no commit.
func (m *Mirror) askHead(ctx context.Context) (head remoteHead, err error) {
	list := m.remoteGit(ctx, "ls-remote", "--symref", "--", m.remote.URL, "HEAD")
	if m.remote.Base != "" {
		list.Args = append(list.Args, "refs/heads/"+m.remote.Base)
	}
	out, err := m.outputWithin(list, gitcmd.NoLimit)
	if err != nil {
		return remoteHead{}, err
	}
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if len(words) == 3 && words[0] == "ref:" && words[2] == "HEAD" {
			head.reference = words[1]
		}
		if len(words) != 2 {
			continue
		}
		head.sha256 = len(words[0]) == sha256Length
		if words[1] == "HEAD" {
			head.commit = words[0]
		}
		if m.remote.Base == "" || words[1] != "HEAD" {
			head.base = words[0]
		}
	}
	return head, nil
}

// sha256Length is the length of the name of an object in a repository with SHA-256.
const sha256Length = 64

// setHead records the default branch, and creates the mirror if it is missing.
func (m writer) setHead(ctx context.Context, head string, sha256 bool) error {
	if !m.exists() {
		return m.create(head, sha256)
	}
	err := m.run(m.localGit(ctx, "symbolic-ref", "HEAD", head))
	return m.failed(host.CodeRepositoryUnavailable, "record the default branch", err)
}

// configOf is the configuration of a mirror. It does not contain the address, which may
// contain a password.
func configOf(sha256 bool) string {
	version := 0
	extensions := ""
	if sha256 {
		version = 1
		extensions = sha256Objects
	}
	return fmt.Sprintf("[core]\n\trepositoryformatversion = %d\n\tbare = true\n\thooksPath = /dev/null\n"+
		"[gc]\n\tauto = 0\n\tpruneExpire = never\n[maintenance]\n\tauto = false\n%s", version, extensions)
}

const sha256Objects = "[extensions]\n\tobjectformat = sha256\n"

// renewConfig gives an existing mirror its configuration again, before git reads it: git would
// start programs that a changed configuration names.
func (m *Mirror) renewConfig() error {
	path := filepath.Join(m.path, "config")
	known, err := files.ReadRegular(path, 64<<10)
	if err != nil && !files.Absent(err) {
		return m.renewFailed(err)
	}
	want := configOf(strings.Contains(string(known), sha256Objects))
	if string(known) != want {
		if err := durable.WriteFile(path, []byte(want), 0o600); err != nil {
			return m.renewFailed(err)
		}
	}
	for _, name := range []string{"commondir", "config.worktree"} { // they lead to other configurations
		err := os.Remove(filepath.Join(m.path, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return m.renewFailed(err)
		}
	}
	return nil
}

// renewFailed is the error of renewConfig.
func (m *Mirror) renewFailed(err error) error {
	return files.Failed(err, "renew the configuration of the mirror %s", m.path)
}

// create creates an empty mirror.
func (m writer) create(head string, sha256 bool) error {
	for _, dir := range []string{"", "objects", "refs"} {
		if err := files.OwnDir(filepath.Join(m.path, dir)); err != nil {
			return files.Failed(err, "create the mirror %s", m.path)
		}
	}
	config := []byte(configOf(sha256))
	if err := os.WriteFile(filepath.Join(m.path, "config"), config, 0o600); err != nil {
		return files.Failed(err, "create the mirror %s", m.path)
	}
	// last, because it tells that the mirror is there: see exists
	if err := os.WriteFile(filepath.Join(m.path, "HEAD"), []byte("ref: "+head+"\n"), 0o600); err != nil {
		return files.Failed(err, "create the mirror %s", m.path)
	}
	crash.At("repository.mirror.created")
	return nil
}
