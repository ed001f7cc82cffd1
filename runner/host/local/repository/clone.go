package repository

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
	"github.com/symphony-cron/symphony/runner/host/local/files"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// Clone fills an empty workspace as host.CloneRequest describes.
func (m *Mirror) Clone(ctx context.Context, workspace, branch, delivered string) (host.CloneAnswer, error) {
	c := clone{Mirror: m, workspace: workspace, branch: branch}
	return c.fill(ctx, func(w writer) (host.CloneAnswer, error) { return w.fetch(ctx, branch, delivered) })
}

// clone fills an empty workspace, and sets it up for work on a branch.
type clone struct {
	*Mirror
	workspace, branch string
}

// fill makes the clone after update, which brings the objects that it needs into the mirror.
func (c clone) fill(
	ctx context.Context,
	update func(writer) (host.CloneAnswer, error),
) (answer host.CloneAnswer, err error) {
	err = c.withLock(ctx, func(w writer) (err error) {
		answer, err = update(w)
		if err != nil {
			return err
		}
		return c.copyMirror(ctx)
	})
	if err != nil {
		return answer, err
	}
	crash.At("repository.clone.copied")
	return answer, c.checkOut(ctx, answer)
}

// fetch updates the mirror, and chooses the commit to check out.
func (m writer) fetch(ctx context.Context, branch, delivered string) (answer host.CloneAnswer, err error) {
	answer.Base, err = m.update(ctx)
	if err != nil {
		return answer, err
	}
	// first, because the branch that is checked out there may be the default branch
	if m.remote.Pushes {
		if err := m.checkNotCheckedOut(ctx, branch); err != nil {
			return answer, err
		}
	}
	if err := m.checkBranch(ctx, branch, answer.Base); err != nil {
		return answer, err
	}
	if m.remote.Pushes {
		if err := m.checkFreeName(ctx, branch); err != nil {
			return answer, err
		}
	}
	err = m.begin(ctx, branch, delivered, &answer)
	return answer, m.failed(host.CodeRepositoryUnavailable, "look for the last delivery", ofSignal(ctx, err))
}

// begin chooses the commit at which work on a branch begins, and looks for commits that others
// pushed there.
func (m writer) begin(ctx context.Context, branch, delivered string, answer *host.CloneAnswer) (err error) {
	answer.BaseCommit, err = m.commitOf(ctx, answer.Base)
	if err != nil {
		return err
	}
	answer.Commit = answer.BaseCommit
	if delivered == "" && m.remote.Pushes && !m.remote.Team {
		answer.InTheWay, err = m.madeByOthers(ctx, branch)
		return err
	}
	if delivered == "" && m.remote.Pushes {
		answer.Found, err = m.find(ctx, branch)
		if err != nil || answer.Found == nil {
			return err
		}
		delivered = answer.Found.Commit
	}
	at, err := m.continued(ctx, branch, answer.BaseCommit, delivered)
	if err != nil || at == "" {
		return err
	}
	answer.Commit = at
	isOurs, err := m.attempted(ctx, branch, at)
	if err != nil || isOurs {
		return err
	}
	if at == delivered {
		if !m.remote.Team {
			return nil
		}
		delivered = answer.BaseCommit // by another machine: an older workspace here lacks it
	}
	answer.Pushed = at
	answer.Branch = branch
	answer.Delivered = delivered
	return nil
}

// madeByOthers returns the commit of a branch that exists on the remote before symphony has pushed
// to it; empty if there is none.
func (m writer) madeByOthers(ctx context.Context, branch string) (string, error) {
	at, err := m.commitOf(ctx, branch)
	if err != nil || at == "" {
		return "", err
	}
	isOurs, err := m.attempted(ctx, branch, at)
	if err != nil || isOurs {
		return "", err
	}
	return at, nil
}

// find returns a branch of a team that exists on the remote although no delivery to it is known; nil if
// there is none. Whoever has made it, the workspace may lack its commits: what this
// machine pushed there itself, before its claim and its workspace were gone, counts as another machine's
// from now on.
func (m writer) find(ctx context.Context, branch string) (*host.FoundBranch, error) {
	at, err := m.commitOf(ctx, branch)
	if err != nil || at == "" {
		return nil, err
	}
	found := &host.FoundBranch{Commit: at}
	isOurs, err := m.attempted(ctx, branch, at)
	if err != nil {
		return nil, err
	}
	if isOurs {
		return found, m.run(m.localGit(ctx, "update-ref", "-d", attempts+branch+"/"+at))
	}
	author, err := m.output(m.localGit(ctx, "log", "-1", "--format=%an <%ae>", at, "--"))
	found.Origin = text.Visible(text.Short(author, 200))
	return found, err
}

// checkBranch returns an error for a branch that work is never pushed to.
func (m *Mirror) checkBranch(ctx context.Context, branch, base string) error {
	valid, err := git.IsBranchName(ctx, branch)
	if err != nil {
		return m.failed(host.CodeRepositoryUnavailable, "check the name of the branch", err)
	}
	why := "it is the base, or the default branch of the remote"
	switch {
	case !valid:
		why = "git does not take this name for a branch"
	case branch != base && branch != m.headBranch():
		return nil
	}
	return reconcile.NewError(
		host.CodeInvalidBranch,
		fmt.Sprintf("repository.branch gives %q: %s", branch, why),
		"correct repository.branch, with issue.identifier in it",
	)
}

// copyMirror makes the workspace a clone of the mirror, without a work tree.
func (c clone) copyMirror(ctx context.Context) error {
	clone := []string{
		"clone", "--quiet", "--shared", "--no-checkout", "--template=", "--origin=origin",
		"--", c.path, c.workspace,
	}
	fromMirror := c.command(ctx, gitcmd.Nobody, clone...)
	fromMirror.Env = append(fromMirror.Env, "GIT_ALLOW_PROTOCOL=file")
	if err := c.run(fromMirror); err != nil {
		return c.failed(host.CodeRepositoryUnavailable, "clone the mirror", ofSignal(ctx, err))
	}
	// scripts that write there rely on git's template
	for _, dir := range []string{"info", "hooks"} {
		if err := os.Mkdir(filepath.Join(c.workspace, ".git", dir), 0o755); err != nil {
			return files.Failed(err, "clone the mirror")
		}
	}
	return nil
}

// checkOut sets the clone up for work on a branch.
func (c clone) checkOut(ctx context.Context, from host.CloneAnswer) error {
	failed := func(err error) error {
		return c.failed(host.CodeRepositoryUnavailable, "check out "+c.branch, err)
	}
	if err := c.configure(ctx, c.workspace); err != nil {
		return failed(err)
	}
	if err := c.checkIdentity(ctx); err != nil {
		return err
	}
	err := c.runGit(
		ctx, gitcmd.Nobody, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/"+from.Base,
	)
	if err != nil {
		return failed(err)
	}
	// With the operator's configuration, because it contains the filters of Git LFS.
	err = c.runGit(ctx, gitcmd.Operator, "checkout", "--quiet", "--no-track", "-B", c.branch, from.Commit)
	if err != nil || !c.remote.Submodules {
		return failed(err)
	}
	err = c.addSubmodules(ctx, c.workspace, filepath.Join(c.workspace, ".git"), from.Commit, "", 0)
	return failed(ofSignal(ctx, err))
}

// configure gives a clone its settings. A commit of an agent must not wait for a key of the operator,
// which it could not use.
func (m *Mirror) configure(ctx context.Context, dir string) error {
	settings := [][2]string{
		{"remote.origin.url", m.Address()},
		{"commit.gpgSign", "false"},
		{"tag.gpgSign", "false"},
		{"user.name", m.remote.Name},
		{"user.email", m.remote.Email},
	}
	for _, s := range settings {
		if s[1] == "" {
			continue
		}
		if err := m.run(m.gitIn(ctx, dir, gitcmd.Nobody, "config", s[0], s[1])); err != nil {
			return ofSignal(ctx, err)
		}
	}
	return nil
}

// runGit runs git in the clone.
func (c clone) runGit(ctx context.Context, trust gitcmd.Trust, args ...string) error {
	return ofSignal(ctx, c.run(c.gitIn(ctx, c.workspace, trust, args...)))
}

// checkIdentity returns an error if git knows no name or address for the agent's commits.
func (c clone) checkIdentity(ctx context.Context) error {
	err := c.runGit(ctx, gitcmd.Operator, "var", "GIT_COMMITTER_IDENT")
	if errors.As(err, &killedError{}) {
		return c.failed(host.CodeRepositoryUnavailable, "check out "+c.branch, err)
	}
	if err != nil {
		return &reconcile.Error{
			Code:    host.CodeNoIdentity,
			Message: "the agent's commits would have no author: " + err.Error(),
			Err:     err,
			Hint:    "set repository.git_name and repository.git_email, or git config --global user.name and user.email",
		}
	}
	return nil
}

// Fetch updates the mirror and the remote references of a workspace, and compares the base
// with HEAD. The workspace borrows the objects. Commits that others pushed on top of the
// delivered commit of a branch are brought into the workspace, where that is possible; not with
// look, which is for while an agent is at work there.
func (m *Mirror) Fetch(
	ctx context.Context, workspace, branch, delivered string, look bool,
) (host.FetchAnswer, error) {
	q := refreshRequest{workspace: workspace, delivered: delivered, look: look}
	return m.refresh(ctx, q, func(w writer) (host.CloneAnswer, error) {
		return w.fetch(ctx, branch, delivered)
	})
}

// refreshRequest is the input of refresh.
type refreshRequest struct {
	workspace string
	delivered string // the commit that was delivered last, empty if there is none
	look      bool   // an agent is at work there: only remote references change
}

// refresh is Fetch after update, which brings the new commits into the mirror.
func (m *Mirror) refresh(
	ctx context.Context, q refreshRequest, update func(writer) (host.CloneAnswer, error),
) (host.FetchAnswer, error) {
	workspace, err := filepath.EvalSymlinks(q.workspace)
	if err != nil {
		return host.FetchAnswer{}, m.failed(host.CodeRepositoryUnavailable, "fetch", err)
	}
	q.workspace = workspace
	failed := func(err error) error {
		return m.failed(host.CodeRepositoryUnavailable, "fetch into "+workspace, err)
	}
	head, err := git.HeadOf(workspace)
	if errors.Is(err, git.ErrNoRepository) && m.remote.Pushes {
		return host.FetchAnswer{}, reconcile.NewError(
			host.CodeWorkspaceBroken, fmt.Sprintf("fetch into %s: %v", workspace, err), "",
		)
	}
	if err != nil {
		return host.FetchAnswer{}, failed(err)
	}
	if err := m.checkBorrower(head.Objects); err != nil {
		return host.FetchAnswer{}, failed(err)
	}
	from, branches, err := m.updated(ctx, update)
	if err != nil {
		return host.FetchAnswer{}, err
	}
	crash.At("repository.fetch.fetched")
	if err := setRemoteBranches(workspace, head, branches, from.Base); err != nil {
		return host.FetchAnswer{}, failed(err)
	}
	answer, err := m.bringIn(ctx, q, head, from)
	return answer, failed(err)
}

// updated updates the mirror. It returns its branches after that, in lines with a commit and a
// name each.
func (m *Mirror) updated(
	ctx context.Context, update func(writer) (host.CloneAnswer, error),
) (from host.CloneAnswer, branches string, err error) {
	err = m.withLock(ctx, func(w writer) (err error) {
		from, err = update(w)
		if err != nil {
			return err
		}
		branches, err = m.output(
			m.localGit(ctx, "for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", "refs/heads"),
		)
		return err
	})
	return from, branches, err
}

// bringIn brings what the mirror has now into a workspace, as far as the request allows that,
// and compares the workspace with the base.
func (m *Mirror) bringIn(
	ctx context.Context, q refreshRequest, head git.Head, from host.CloneAnswer,
) (answer host.FetchAnswer, err error) {
	answer.Base = from.Base
	answer.Commit = from.BaseCommit
	answer.Found = from.Found
	if head.Commit == "" {
		return answer, nil
	}
	if !q.look {
		isCopy, err := m.isCopy(ctx, head, q.delivered)
		if err != nil {
			return answer, err
		}
		if isCopy {
			if err := git.MoveHead(q.workspace, head.Commit, q.delivered); err != nil {
				return answer, err
			}
			head.Commit = q.delivered
		}
		if err := m.fetchSubmodules(ctx, q.workspace, head, from); err != nil {
			return answer, err
		}
	}
	if from.Pushed != "" {
		answer.Pushed, err = m.takePushed(ctx, q, head, from)
		if err != nil {
			return answer, err
		}
		if answer.Pushed.Taken {
			head, err = git.HeadOf(q.workspace)
			if err != nil {
				return answer, err
			}
		}
	}
	// the objects of the workspace may be false
	behind := m.localGit(ctx, "rev-list", "--count", answer.Commit, "^"+head.Commit)
	count, err := m.output(withObjects(behind, head.Objects))
	if err != nil {
		return answer, err
	}
	answer.Behind, err = strconv.Atoi(count)
	return answer, err
}

// setRemoteBranches records in a workspace where the branches of the remote are, and its
// default branch. branches is a list of lines, a commit and a branch name in each.
func setRemoteBranches(workspace string, head git.Head, branches, base string) error {
	set := func(name, content string) error {
		if head.References["refs/remotes/origin/"+name] == content {
			return nil
		}
		return git.SetRemoteBranch(workspace, name, content)
	}
	for line := range strings.Lines(branches) {
		commit, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		err := set(name, commit)
		// another branch may be in the way, as a is for a/b if the remote deleted a
		if err != nil && name == base {
			return err
		}
	}
	return set("HEAD", "ref: refs/remotes/origin/"+base)
}

// isCopy reports whether the last delivery is a signed copy of HEAD, at which the workspace
// stayed: its delivery was interrupted, or it is not on the machine that signs. A copy equals
// its original except for the parents and the signature. A commit with only the same files is
// the agent's own, for example its work in fewer commits or with another message.
func (m *Mirror) isCopy(ctx context.Context, head git.Head, delivered string) (bool, error) {
	if delivered == "" || head.Commit == "" || head.Commit == delivered {
		return false, nil
	}
	const fields = "--format=%T%n%an <%ae> %at%n%cn <%ce> %ct%n%B"
	show := m.localGit(ctx, "log", "-z", "--no-walk=unsorted", fields, head.Commit, delivered, "--")
	shown, err := m.output(withObjects(show, head.Objects))
	if gitcmd.Exited(err) { // the mirror lacks the delivery
		return false, nil
	}
	if err != nil {
		return false, err
	}
	one, other, _ := strings.Cut(strings.TrimSuffix(shown, "\x00"), "\x00")
	if strings.TrimSpace(one) != strings.TrimSpace(other) {
		return false, nil
	}
	contains := m.localGit(ctx, "merge-base", "--is-ancestor", delivered, head.Commit)
	isBefore, err := m.says(withObjects(contains, head.Objects))
	return err == nil && !isBefore, err
}

// checkBorrower returns an error unless the mirror lends its objects to a workspace with a
// directory of objects.
func (m *Mirror) checkBorrower(objects string) error {
	list, err := files.ReadRegular(filepath.Join(objects, "info", "alternates"), 64<<10)
	lends := func(path string) bool { return paths.SameDir(path, filepath.Join(m.path, "objects")) }
	if err != nil || !slices.ContainsFunc(strings.Split(string(list), "\n"), lends) {
		return errors.New("it does not use the objects of the mirror " + m.path)
	}
	return nil
}
