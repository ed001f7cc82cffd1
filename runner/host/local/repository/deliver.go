package repository

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// Deliver pushes HEAD of a workspace as host.DeliverRequest describes. It overwrites the branch only if it is where symphony has left
// it, or where replaceable allows it.
func (m *Mirror) Deliver(ctx context.Context, workspace, branch, delivered string) (answer host.DeliverAnswer, err error) {
	head, err := git.HeadOf(workspace)
	if err != nil {
		return answer, m.failed(host.CodeDeliveryFailed, "read HEAD of "+workspace, err)
	}
	answer.Commit = head.Commit
	if answer.Base, err = m.receive(ctx, head, branch); err != nil {
		return answer, err
	}
	if answer.Commits, err = m.count(ctx, head.Commit, answer.Base, branch, delivered); err != nil || answer.Commits == 0 {
		return answer, err
	}
	crash.At("repository.deliver.copied")
	if err := m.push(ctx, head.Commit, answer.Base, branch, delivered); err != nil {
		return answer, err
	}
	crash.At("repository.deliver.pushed")
	m.recordPush(ctx, head.Commit, branch)
	// If this fails, the workspace is kept as unsaved.
	_ = git.SetRemoteBranch(workspace, branch, head.Commit)
	return answer, nil
}

// Contains returns an error unless the remote has the commit of another address from which a workspace was cloned: else that was another
// repository, and a push would bring its whole history here. An empty address is not known, and no reason to refuse.
func (m *Mirror) Contains(ctx context.Context, cloned, commit string) error {
	if cloned == "" {
		return nil
	}
	has := func() bool {
		out, err := m.output(m.localGit(ctx, "for-each-ref", "--count=1", "--contains="+commit))
		return err == nil && out != ""
	}
	if commit != "" && m.exists() && m.renewConfig() == nil && has() {
		return nil
	}
	err := m.withLock(ctx, func() error {
		_, err := m.update(ctx)
		return err
	})
	if err != nil || commit != "" && has() {
		return err
	}
	return reconcile.NewError(host.CodeRepositoryChanged,
		fmt.Sprintf("the workspace was cloned from %s, and %s is another repository", cloned, m.address()),
		"set repository.url back to deliver its commits there; or push them to the new repository yourself, with what they build on")
}

// receive brings HEAD of a workspace with its history into the mirror, and returns the name of the base. It creates the mirror if
// it is missing.
func (m *Mirror) receive(ctx context.Context, head git.Head, branch string) (base string, err error) {
	if m.exists() {
		if err := m.renewConfig(); err != nil {
			return "", err
		}
		base, err = m.base(ctx)
	}
	if base == "" {
		err = m.withLock(ctx, func() (err error) {
			base, err = m.update(ctx)
			return err
		})
	}
	if err == nil {
		err = m.mayDeliver(ctx, branch, base)
	}
	if err != nil || head.Commit == "" || m.complete(ctx, head.Commit) == nil {
		return base, err
	}
	if err = m.copyCommits(ctx, head); err == nil {
		err = m.complete(ctx, head.Commit)
	}
	if err != nil {
		return "", m.failed(host.CodeDeliveryFailed, "copy the commits of the workspace", err)
	}
	return base, nil
}

// complete returns an error if the mirror lacks a commit or anything in its history. What its branches and tags contain is not
// checked again.
func (m *Mirror) complete(ctx context.Context, commit string) error {
	return m.run(m.localGit(ctx, "rev-list", "--objects", "--quiet", commit, "--not", "--all"))
}

// copyCommits copies a commit of a workspace, and what the mirror lacks of its history, into the mirror. Git reads the workspace's
// objects with the mirror's configuration and without the indexes that it would not verify (see settings). An agent can make it wait,
// with a pipe in the place of an object, so the lock is not held meanwhile.
func (m *Mirror) copyCommits(ctx context.Context, head git.Head) error {
	pack, err := os.CreateTemp(filepath.Dir(m.path), "pack-")
	if err != nil {
		return err
	}
	defer pack.Close()
	if err := os.Remove(pack.Name()); err != nil { // so that nothing is left if this process dies
		return err
	}
	have, err := m.output(m.localGit(ctx, "for-each-ref", "--format=^%(objectname)"))
	if err != nil {
		return err
	}
	read := m.localGit(ctx, "pack-objects", "--revs", "--stdout", "--quiet", "--no-use-bitmap-index")
	read.Env = append(read.Env, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+quoted(head.Objects))
	read.Stdin, read.Stdout = strings.NewReader(head.Commit+"\n"+have+"\n"), pack
	if err := m.run(read); err != nil {
		return err
	}
	if _, err := pack.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return m.withLock(ctx, func() error {
		index := m.localGit(ctx, "index-pack", "--stdin")
		index.Stdin = pack
		return m.run(index)
	})
}

// quoted returns a path as an entry of a list of git.
func quoted(path string) string {
	if strings.ContainsAny(path, `:"`) {
		path = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(path) + `"`
	}
	return path
}

// count counts the commits of a commit's history that neither the base nor what was delivered last contains. What was delivered to
// another address of the repository counts as new, because this one may be another repository.
func (m *Mirror) count(ctx context.Context, commit, base, branch, delivered string) (n int, err error) {
	if commit == "" {
		return 0, nil
	}
	args := []string{"rev-list", "--count", commit, "^refs/heads/" + base}
	if m.attempted(ctx, delivered, branch) {
		args = append(args, "^"+delivered)
	}
	out, err := m.output(m.localGit(ctx, append(args, "--")...))
	if err == nil {
		n, err = strconv.Atoi(out)
	}
	if err != nil {
		return 0, m.failed(host.CodeDeliveryFailed, "count the commits", err)
	}
	return n, nil
}

// push pushes a commit to the branch, and makes sure that it is there, whatever git push reports.
func (m *Mirror) push(ctx context.Context, commit, base, branch, delivered string) error {
	expected := delivered
	if err := m.recordAttempt(ctx, commit, branch); err != nil {
		return m.failed(host.CodeDeliveryFailed, "record the push to "+branch, err)
	}
	for range 2 {
		pushErr := m.run(m.pushCommand(ctx, commit, branch, expected))
		at, err := m.remoteCommit(ctx, branch)
		switch {
		case err != nil:
			return m.failed(host.CodeDeliveryFailed, "", cmp.Or(pushErr, err))
		case at == commit:
			return nil
		case pushErr == nil:
			return m.failed(host.CodeDeliveryFailed, "", fmt.Errorf("the remote accepted the push, but has no branch %s", branch))
		case at == expected:
			return m.failed(host.CodeDeliveryFailed, "", pushErr)
		case !m.replaceable(ctx, at, commit, base, branch, delivered):
			return m.conflict(branch, at)
		}
		expected = at
	}
	return m.conflict(branch, expected)
}

// replaceable reports whether a commit may replace what is on the branch instead of the last delivery.
func (m *Mirror) replaceable(ctx context.Context, at, commit, base, branch, delivered string) bool {
	switch {
	case at == "": // the branch was deleted, for instance after it was merged
		return true
	case delivered == "" && !m.attempted(ctx, at, branch): // it was there before the first delivery: an agent can build on any branch
		return false
	case m.contains(ctx, "refs/heads/"+base, at), m.contains(ctx, delivered, at): // someone has made the branch, or moved it back
		return false
	}
	return m.contains(ctx, commit, at) // the answer to an earlier push was lost, or the work includes that of someone else
}

// attempts is the directory of references to all commits that were to be pushed to a branch, in a directory for each branch.
const attempts = "refs/symphony/"

// recordAttempt records that a commit is going to be pushed to a branch.
func (m *Mirror) recordAttempt(ctx context.Context, commit, branch string) error {
	return m.withLock(ctx, func() error { return m.run(m.localGit(ctx, "update-ref", attempts+branch+"/"+commit, commit)) })
}

// attempted reports whether a commit may have been pushed to a branch from here.
func (m *Mirror) attempted(ctx context.Context, commit, branch string) bool {
	return m.run(m.localGit(ctx, "show-ref", "--verify", "--quiet", attempts+branch+"/"+commit)) == nil
}

func (m *Mirror) conflict(branch, at string) error {
	return m.failed(host.CodeDeliveryConflict, "",
		fmt.Errorf("someone else has made or changed the branch %s: it is at %.12s", branch, at))
}

// pushCommand is git push of a commit to a branch that must be at the expected commit; empty if it must not exist.
func (m *Mirror) pushCommand(ctx context.Context, commit, branch, expected string) *exec.Cmd {
	ref := "refs/heads/" + branch
	return m.remoteGit(ctx, "push", "--quiet", "--no-verify", "--no-follow-tags", "--recurse-submodules=no",
		"--force-with-lease="+ref+":"+expected, "--", m.remote.URL, commit+":"+ref)
}

// remoteCommit asks the remote for the commit of a branch, empty if there is none.
func (m *Mirror) remoteCommit(ctx context.Context, branch string) (string, error) {
	out, err := m.output(m.remoteGit(ctx, "ls-remote", "--", m.remote.URL, "refs/heads/"+branch))
	for line := range strings.Lines(out) {
		if id, name, _ := strings.Cut(strings.TrimSpace(line), "\t"); name == "refs/heads/"+branch {
			return id, err
		}
	}
	return "", err
}

// recordPush sets the branch in the mirror as a fetch would. If that fails, the next fetch does it.
func (m *Mirror) recordPush(ctx context.Context, commit, branch string) {
	_ = m.withLock(ctx, func() error { return m.run(m.localGit(ctx, "update-ref", "refs/heads/"+branch, commit)) })
}
