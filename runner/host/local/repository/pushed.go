package repository

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
	"github.com/symphony-cron/symphony/runner/host/local/files"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// continued returns the commit of a branch on the remote, if it is the last delivery or
// descends from it, and the base does not contain it; empty if not.
func (m writer) continued(ctx context.Context, branch, base, delivered string) (string, error) {
	if delivered == "" {
		return "", nil
	}
	at, err := m.commitOf(ctx, branch)
	if err != nil || at == "" {
		return "", err
	}
	descends, err := m.contains(ctx, at, delivered)
	if err != nil || !descends {
		return "", err
	}
	isMerged, err := m.contains(ctx, base, at)
	if err != nil || isMerged {
		return "", err
	}
	return at, nil
}

// Unchanged reports whether a branch on the remote is still where symphony left it. It asks
// the remote only once, and changes nothing.
func (m *Mirror) Unchanged(ctx context.Context, branch, delivered string) (bool, error) {
	at, err := m.remoteCommit(ctx, branch)
	if err != nil {
		return false, m.failed(host.CodeRepositoryUnavailable, "look for pushes to "+branch, err)
	}
	if at != delivered || !m.remote.Team {
		return at == delivered, nil
	}
	return m.attempted(ctx, branch, at) // else another machine of the team has delivered it
}

// takePushed brings others' commits on the branch of a workspace into the workspace, and
// describes them. That is possible if the agent committed nothing since, and changed no file
// of the repository. While an agent is at work there, which could put links in the way of git,
// nothing is brought.
func (m *Mirror) takePushed(
	ctx context.Context, q refreshRequest, head git.Head, from host.CloneAnswer,
) (*host.Pushed, error) {
	p := &host.Pushed{Commit: from.Pushed}
	if err := m.describePushed(ctx, from, p); err != nil {
		return nil, err
	}
	contains := m.localGit(ctx, "merge-base", "--is-ancestor", from.Pushed, head.Commit)
	isTaken, err := m.says(withObjects(contains, head.Objects))
	if err != nil {
		return nil, err
	}
	if isTaken {
		p.Taken = true // by an earlier run, or by the agent
		return p, nil
	}
	if head.Branch != from.Branch {
		p.Why = "the workspace is on another branch"
		return p, nil
	}
	_, sparse := os.Lstat(filepath.Join(head.GitDir(), "info", "sparse-checkout"))
	if sparse == nil { // its index would be replaced by one of all files
		p.Why = "the workspace is a sparse checkout"
		return p, nil
	}
	isPushed, err := m.contains(ctx, from.Pushed, head.Commit)
	if err != nil {
		return nil, err
	}
	if !isPushed {
		p.Why = "the workspace has commits that were not pushed"
		return p, nil
	}
	changed, why := changesIn(ctx, q.workspace)
	if why != "" {
		p.Why = why
		return p, nil
	}
	if q.look {
		p.Why = "they came while you were at work"
		p.TakenWithoutAgent = !changed.tracked
		if changed.tracked {
			p.Why = uncommitted
		}
		return p, nil
	}
	why, err = m.fastForward(ctx, q.workspace, head, from, changed)
	if err != nil {
		return nil, err
	}
	p.Why = why
	p.Taken = why == ""
	return p, nil
}

// uncommitted is why a workspace stays as it is.
const uncommitted = "files in the workspace have changes that are not committed"

// changes are the files of a workspace that differ from HEAD.
type changes struct {
	list    []host.GitChange
	tracked bool // git tracks some of them
}

// changesIn lists the files of a workspace that differ from HEAD, or returns why that is not
// possible: the agent is told, and can merge itself.
func changesIn(ctx context.Context, workspace string) (c changes, why string) {
	status, _, ok, err := git.Inspect(ctx, workspace, git.Clone{}, 0)
	if err != nil || !ok {
		return c, "its files could not be compared with HEAD"
	}
	if status.Count > len(status.Changed) {
		return c, uncommitted
	}
	isTracked := func(c host.GitChange) bool { return c.Status != "?" }
	return changes{list: status.Changed, tracked: slices.ContainsFunc(status.Changed, isTracked)}, ""
}

// describePushed lists others' commits since the last delivery.
func (m *Mirror) describePushed(ctx context.Context, from host.CloneAnswer, p *host.Pushed) error {
	since := []string{from.Pushed, "^" + from.Delivered, "^" + from.BaseCommit, "--"}
	count, err := m.output(m.localGit(ctx, append([]string{"rev-list", "--count"}, since...)...))
	if err != nil {
		return err
	}
	p.Total, err = strconv.Atoi(count)
	if err != nil {
		return err
	}
	list := []string{"log", "-z", "--format=%an%x01%s", "--max-count=" + strconv.Itoa(host.MaxPushed)}
	commits, err := m.entries(m.localGit(ctx, append(list, since...)...))
	if err != nil {
		return err
	}
	for _, entry := range commits {
		author, subject, found := strings.Cut(entry, "\x01")
		if found {
			p.Commits = append(p.Commits, host.PushedCommit{Author: author, Subject: subject})
		}
	}
	slices.Reverse(p.Commits)
	return nil
}

// fastForward moves the workspace and its branch to a commit that contains HEAD. It returns
// why that is not possible, empty if it was done. Git works with a repository that no agent
// can write: neither settings nor hooks of the workspace take part. A worker that dies
// meanwhile leaves some files of the new commit below the old HEAD: the next fast-forward to
// that commit goes on from there.
func (m *Mirror) fastForward(
	ctx context.Context, workspace string, head git.Head, from host.CloneAnswer, changed changes,
) (why string, err error) {
	moved, err := m.movedSubmodules(ctx, head.Commit, from.Pushed)
	if err != nil {
		return "", err
	}
	for _, s := range moved {
		if why := m.submoduleWork(ctx, workspace, s); why != "" {
			return why, nil
		}
	}
	scratch, err := os.MkdirTemp(filepath.Dir(m.path), incomingPrefix)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	w := workTree{Mirror: m, dir: workspace, scratch: scratch}
	why, err = w.forward(ctx, head.Commit, from.Pushed, changed, moved)
	if err != nil || why != "" {
		return why, err
	}
	index, err := files.ReadRegular(filepath.Join(scratch, "index"), maxIndex)
	if err != nil {
		return "", err
	}
	crash.At("repository.forward.written")
	for _, s := range moved {
		if err := m.renewSubmodule(ctx, workspace, s); err != nil {
			return "", s.failed(err)
		}
	}
	// The branch comes last: once it is moved, no later fetch looks at files and submodules.
	return "", git.MoveBranch(workspace, from.Branch, from.Pushed, index)
}

// movedSubmodules lists the submodules with an address whose commits differ between two
// commits; none if submodules are left alone.
func (m *Mirror) movedSubmodules(ctx context.Context, head, pushed string) ([]submodule, error) {
	if !m.remote.Submodules {
		return nil, nil
	}
	moved, err := m.submodulesSince(ctx, head, pushed, "")
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(moved, func(s submodule) bool { return s.url == "" }), nil
}

// forward moves the files and the index from one commit to another. It returns why that is not
// possible, empty if it was done.
func (w workTree) forward(
	ctx context.Context,
	head, pushed string,
	changed changes,
	moved []submodule,
) (why string, err error) {
	if err := w.makeStore(w.scratch, len(pushed) == sha256Length); err != nil {
		return "", err
	}
	if err := w.readCommit(ctx, head); err != nil {
		return "", err
	}
	if len(changed.list) > 0 {
		interrupted, err := w.continues(ctx, changed.list, moved, head, pushed)
		if err != nil {
			return "", err
		}
		if changed.tracked && !interrupted {
			return uncommitted, nil
		}
	}
	if err := w.run(w.git(ctx, "read-tree", "-m", "-u", head, pushed)); err != nil {
		// Git looks before it writes. If it failed later, for instance at a filter, the files
		// go back.
		back := w.run(w.git(ctx, "read-tree", "--reset", "-u", head))
		return "git can't update the files: " + files.LastLine([]byte(errors.Join(err, back).Error())), nil
	}
	return "", nil
}

// continues reports whether a fast-forward continues an interrupted fast-forward to the same
// commit: every difference from HEAD in the work tree comes from that fast-forward, and each
// file is as it is in either commit. Then the index gets the files as they are; otherwise it
// stays as it is. The submodules that move were examined before, and keep their commits in the
// index.
func (w workTree) continues(
	ctx context.Context,
	changed []host.GitChange,
	moved []submodule,
	head, pushed string,
) (bool, error) {
	written, err := w.filesSince(ctx, head, pushed)
	if err != nil {
		return false, err
	}
	moves := slices.Clone(written)
	for _, s := range moved {
		moves = append(moves, s.path)
	}
	for _, c := range changed {
		if c.Status != "?" && !slices.Contains(moves, c.Path) {
			return false, nil
		}
	}
	if !slices.ContainsFunc(changed, func(c host.GitChange) bool { return slices.Contains(moves, c.Path) }) {
		return false, nil
	}
	present := w.git(ctx, "update-index", "-z", "--add", "--remove", "--stdin")
	present.Stdin = strings.NewReader(strings.Join(written, "\x00"))
	if err := w.run(present); err != nil { // for instance a directory where a file was
		return false, w.readCommit(ctx, head)
	}
	others, err := w.differsFromBoth(ctx, head, pushed)
	if err != nil {
		return false, err
	}
	if others {
		return false, w.readCommit(ctx, head)
	}
	return true, nil
}

// filesSince lists the paths that differ between two commits and are a submodule in neither.
func (w workTree) filesSince(ctx context.Context, head, pushed string) (list []string, err error) {
	cmd := w.git(ctx, "diff-tree", "-r", "-z", "--raw", "--no-renames", head, pushed, "--")
	var modes []string // before a path: :100644 100644 OLD NEW M
	cmd.Stdout = git.EachEntry(func(entry string) {
		if modes == nil {
			modes = strings.Fields(entry)
			return
		}
		if modes[0] != ":160000" && modes[1] != "160000" {
			list = append(list, entry)
		}
		modes = nil
	})
	err = w.run(cmd)
	return list, err
}

// differsFromBoth reports whether a file in the index is as it is in neither of two commits.
func (w workTree) differsFromBoth(ctx context.Context, one, other string) (bool, error) {
	differ := func(commit string) ([]string, error) {
		return w.entries(w.git(ctx, "diff-index", "--cached", "-z", "--name-only", "--no-renames", commit, "--"))
	}
	fromOne, err := differ(one)
	if err != nil {
		return false, err
	}
	fromOther, err := differ(other)
	if err != nil {
		return false, err
	}
	fromBoth := func(name string) bool { return slices.Contains(fromOther, name) }
	return slices.ContainsFunc(fromOne, fromBoth), nil
}

const maxIndex = 512 << 20 // bytes

// workTree is a work tree with a git directory of its own below the mirrors, which reads the
// mirror's objects.
type workTree struct {
	*Mirror
	dir, scratch string
}

// readCommit fills the index with a commit. Git then knows which files of the work tree are as
// in the commit, and writes none of them anew.
func (w workTree) readCommit(ctx context.Context, commit string) error {
	if err := w.run(w.git(ctx, "read-tree", commit)); err != nil {
		return err
	}
	_ = w.run(w.git(ctx, "update-index", "-q", "--refresh")) // it fails if a file differs
	return nil
}

// git is git with the operator's configuration, because that contains the filters of Git LFS.
func (w workTree) git(ctx context.Context, args ...string) *exec.Cmd {
	return withDir(w.commandAt(ctx, w.dir, gitcmd.Operator, args...), w.scratch, w.dir)
}
