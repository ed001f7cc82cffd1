package repository

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
)

// keptRefs is the directory of references to the newest commits of work on other machines, a
// reference for each issue. A machine may die with its workspaces, such as a container.
const keptRefs = "refs/kept/"

// keptRef is the reference for an issue, whose id may contain any character.
func keptRef(issue string) string {
	sum := sha256.Sum256([]byte(issue))
	return fmt.Sprintf("%s%x", keptRefs, sum[:16])
}

// kept returns the commit that is kept of an issue; empty for none.
func (m *Mirror) kept(ctx context.Context, issue string) (string, error) {
	if !m.exists() {
		return "", nil
	}
	// Unlike show-ref it succeeds if there is none, so that a fault is not taken for that.
	id, err := m.output(m.localGit(ctx, "for-each-ref", "--format=%(objectname)", keptRef(issue)))
	if err != nil {
		return "", fmt.Errorf("find the commit that %s keeps: %w", m.path, err)
	}
	return id, nil
}

// Keep implements host.Mirror.
func (m *Mirror) Keep(ctx context.Context, issue string, work host.Work) error {
	d := &delivery{Mirror: m, Work: work}
	if err := m.renewConfig(); err != nil {
		return err
	}
	if work.Commit == "" {
		return nil
	}
	kept, err := m.kept(ctx, issue)
	if err != nil {
		return m.keepFailed(ctx, "keep the commits of the workspace", err)
	}
	if kept == work.Commit {
		return nil
	}
	if !d.isComplete(ctx) {
		if err := d.copyCommits(ctx); err != nil {
			return m.keepFailed(ctx, "copy the commits of the workspace", err)
		}
	}
	crash.At("repository.keep.copied")
	err = d.record(ctx, keptRef(issue))
	return m.keepFailed(ctx, "keep the commits of the workspace", err)
}

// keepFailed is failed for Keep. It marks a fault of this machine as host.FaultHere.
func (m *Mirror) keepFailed(ctx context.Context, what string, err error) error {
	here := ctx.Err() == nil && isFaultHere(err)
	err = m.failed(host.CodeDeliveryFailed, what, ofSignal(ctx, err))
	if here {
		return host.FaultHere{Err: err}
	}
	return err
}

// isFaultHere reports whether an error is a fault of this machine, and not of the commits or
// of the machine that holds them. A bound of memory that git reached is no such fault: an
// agent can make commits that always reach it.
func isFaultHere(err error) bool {
	faults := []error{
		syscall.EROFS, syscall.EIO, syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM,
		exec.ErrNotFound,
	}
	is := func(fault error) bool { return errors.Is(err, fault) }
	if isDiskFull(err) || slices.ContainsFunc(faults, is) {
		return true
	}
	exit, ended := errors.AsType[*exec.ExitError](err)
	if !ended || errors.As(err, &gitcmd.LimitError{}) {
		return false // the other machine's message is only a text
	}
	signal := exit.Sys().(syscall.WaitStatus).Signal()
	return signal == syscall.SIGKILL || strings.Contains(host.GitOutput(err), "Too many open files")
}

// Forget implements host.Mirror. It waits for no other user of the mirror if nothing of the
// issue is kept.
func (m *Mirror) Forget(ctx context.Context, issue string) error {
	const what = "forget the commits of the workspace"
	kept, err := m.kept(ctx, issue)
	if err != nil {
		return m.failed(host.CodeDeliveryFailed, what, err)
	}
	if kept == "" {
		return nil
	}
	err = m.withLock(ctx, func(writer) error {
		return m.run(m.localGit(ctx, "update-ref", "-d", keptRef(issue)))
	})
	return m.failed(host.CodeDeliveryFailed, what, err)
}

// In returns the mirrors below a directory, whatever their remotes are: only for work without
// the remote.
func In(dir string, env []string) ([]*Mirror, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("find the mirrors: %w", err)
	}
	inherit := func(files ...*os.File) []*os.File { return files }
	var all []*Mirror
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".git") {
			path := filepath.Join(dir, e.Name())
			all = append(all, &Mirror{commands{path: path, env: env, inherit: inherit}})
		}
	}
	return all, nil
}

// maxListed is how many of the commits that it keeps a mirror lists.
const maxListed = 100

// Unsaved returns the commits that are kept of an issue. It omits commits on a branch or a tag
// of the remote, and commits below delivered, the commit that was pushed last for the issue: a
// forge may have squashed them, and deleted their branch. delivered is empty if nothing was
// pushed.
func (m *Mirror) Unsaved(ctx context.Context, issue, delivered string) (host.Kept, error) {
	commit, err := m.kept(ctx, issue)
	found := host.Kept{Mirror: m.path, Commit: commit}
	if err != nil || commit == "" {
		return found, err
	}
	pushed, err := m.signedCopy(ctx, commit)
	if err != nil {
		return found, err
	}
	if pushed == "" {
		pushed = commit
	}
	args := []string{
		"log", "--format=%h %s", fmt.Sprintf("--max-count=%d", maxListed),
		"--ignore-missing", // of delivered, which another mirror may have
		pushed, "--not", "--branches", "--tags",
	}
	if delivered != "" {
		args = append(args, delivered)
	}
	out, err := m.output(m.localGit(ctx, args...))
	if err != nil {
		return found, fmt.Errorf("list the commits that %s keeps: %w", m.path, err)
	}
	if out != "" {
		found.Commits = strings.Split(out, "\n")
	}
	return found, nil
}

// beginWithKept lets a clone begin at the commit that is kept of its issue, unless the chosen
// or the delivered commit contains it. The commit at which the clone begins is kept from then
// on, so that a workspace without any commit of its own is known, too.
func (m writer) beginWithKept(ctx context.Context, q host.CloneRequest, answer *host.CloneAnswer) error {
	kept, err := m.kept(ctx, q.Issue)
	if err != nil {
		return m.failed(host.CodeRepositoryUnavailable, "look for kept commits", ofSignal(ctx, err))
	}
	answer.Kept = kept
	if kept != "" {
		isOld, err := m.anyContains(ctx, []string{q.Delivered, answer.BaseCommit, answer.Commit}, kept)
		if err != nil {
			return m.failed(host.CodeRepositoryUnavailable, "look for kept commits", ofSignal(ctx, err))
		}
		if !isOld {
			answer.Commit = kept
		}
	}
	if answer.Commit == kept {
		return nil
	}
	err = m.run(m.localGit(ctx, "update-ref", keptRef(q.Issue), answer.Commit))
	return m.failed(host.CodeRepositoryUnavailable, "record where the clone begins", err)
}
