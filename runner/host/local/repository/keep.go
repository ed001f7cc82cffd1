package repository

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
)

// keptRefs is the directory of references to the newest commits of work on other machines, one
// for each issue. A machine may die with its workspaces, such as a container.
const keptRefs = "refs/kept/"

// keptRef is the reference for an issue, whose id may contain any character.
func keptRef(issue string) string {
	sum := sha256.Sum256([]byte(issue))
	return fmt.Sprintf("%s%x", keptRefs, sum[:16])
}

// kept returns the commit that is kept of an issue; empty for none.
func (m *Mirror) kept(ctx context.Context, issue string) string {
	id, err := m.output(m.localGit(ctx, "show-ref", "--verify", "--hash", keptRef(issue)))
	if err != nil {
		return ""
	}
	return id
}

// Keep implements host.Mirror.
func (m *Mirror) Keep(ctx context.Context, issue string, work host.Work) error {
	d := &delivery{Mirror: m, Work: work}
	if err := m.renewConfig(); err != nil {
		return err
	}
	if work.Commit == "" || m.kept(ctx, issue) == work.Commit {
		return nil
	}
	if d.checkComplete(ctx, "") != nil {
		if err := d.copyCommits(ctx); err != nil {
			return m.failed(host.CodeDeliveryFailed, "copy the commits of the workspace", err)
		}
	}
	crash.At("repository.keep.copied")
	return m.failed(
		host.CodeDeliveryFailed,
		"keep the commits of the workspace",
		d.record(ctx, keptRef(issue)),
	)
}

// Forget implements host.Mirror.
func (m *Mirror) Forget(ctx context.Context, issue string) error {
	if !m.exists() {
		return nil
	}
	err := m.withLock(ctx, func(writer) error {
		return m.run(m.localGit(ctx, "update-ref", "-d", keptRef(issue)))
	})
	return m.failed(host.CodeDeliveryFailed, "forget the commits of the workspace", err)
}

// In returns the mirrors below a directory, whatever their remotes are: only for what is done
// without the remote.
func In(dir string, env []string) ([]*Mirror, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.git"))
	if err != nil {
		return nil, fmt.Errorf("find the mirrors in %s: %w", dir, err)
	}
	inherit := func(files ...*os.File) []*os.File { return files }
	return text.Map(paths, func(path string) *Mirror {
		return &Mirror{commands{path: path, env: env, inherit: inherit}}
	}), nil
}

// maxListed is how many of the commits that it keeps a mirror lists.
const maxListed = 100

// Unsaved returns the commits that are kept of an issue, without those on a branch or a tag of
// the remote.
func (m *Mirror) Unsaved(ctx context.Context, issue string) (host.Kept, error) {
	found := host.Kept{Mirror: m.path, Commit: m.kept(ctx, issue)}
	if found.Commit == "" {
		return found, nil
	}
	log := m.localGit(ctx, "log", "--format=%h %s", fmt.Sprintf("--max-count=%d", maxListed),
		found.Commit, "--not", "--branches", "--tags")
	out, err := m.output(log)
	if err != nil {
		return found, fmt.Errorf("list the commits that %s keeps: %w", m.path, err)
	}
	if out != "" {
		found.Commits = strings.Split(out, "\n")
	}
	return found, nil
}

// beginWithKept lets a clone begin at the commit that is kept of its issue, unless what was
// chosen or was delivered contains it. The commit at which the clone begins is kept from then
// on, so that a workspace without any commit of its own is known, too.
func (m writer) beginWithKept(ctx context.Context, q host.CloneRequest, answer *host.CloneAnswer) error {
	answer.Kept = m.kept(ctx, q.Issue)
	if answer.Kept != "" {
		delivered := q.Delivered != "" && m.contains(ctx, q.Delivered, answer.Kept)
		inBase := m.contains(ctx, answer.BaseCommit, answer.Kept)
		if !delivered && !inBase && !m.contains(ctx, answer.Commit, answer.Kept) {
			answer.Commit = answer.Kept
		}
	}
	if answer.Commit == answer.Kept {
		return nil
	}
	err := m.run(m.localGit(ctx, "update-ref", keptRef(q.Issue), answer.Commit))
	return m.failed(host.CodeRepositoryUnavailable, "record where the clone begins", err)
}
