package repository

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// Bundle fetches from the remote, and returns a bundle of all branches and tags without what the commits in tips contain, as far as the
// mirror has them.
func (m *Mirror) Bundle(ctx context.Context, branch, delivered string, tips []string) (made host.Bundled, bundle *os.File, err error) {
	err = m.withLock(ctx, func() (err error) {
		if made.CloneAnswer, err = m.fetch(ctx, branch, delivered); err != nil {
			return err
		}
		made.Head = "refs/heads/" + m.headBranch()
		if bundle, err = m.temporary(); err == nil {
			err = m.writeBundle(ctx, tips, bundle)
		}
		if err != nil {
			err = m.failed(host.CodeRepositoryUnavailable, "bundle the mirror", err)
		}
		return err
	})
	if err == nil {
		_, err = bundle.Seek(0, io.SeekStart)
	}
	if err != nil && bundle != nil {
		_ = bundle.Close()
	}
	return made, bundle, err
}

// writeBundle writes a bundle of all references. Unlike git bundle it includes those that are in tips already, because the other mirror
// has to know all of them.
func (m *Mirror) writeBundle(ctx context.Context, tips []string, to io.Writer) error {
	refs, err := m.output(m.localGit(ctx, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags"))
	if err != nil {
		return err
	}
	have, err := m.known(ctx, tips)
	if err != nil {
		return err
	}
	var want []string
	for line := range strings.Lines(refs) {
		want = append(want, strings.Fields(line)[0])
	}
	header := "# v2 git bundle\n"
	if len(want[0]) == sha256Length {
		header = "# v3 git bundle\n@object-format=sha256\n"
	}
	for _, id := range have {
		header += "-" + id + "\n"
	}
	if _, err := io.WriteString(to, header+refs+"\n\n"); err != nil {
		return err
	}
	return m.pack(ctx, "", want, have, to)
}

// pack writes a pack of what the wanted objects lead to, without what the commits in have contain. Besides those of the mirror it reads the
// objects of a workspace, unless that is empty, with the mirror's configuration and without the indexes that git would not verify (see
// settings).
func (m *Mirror) pack(ctx context.Context, workspaceObjects string, want, have []string, to io.Writer) error {
	read := m.localGit(ctx, "pack-objects", "--revs", "--stdout", "--quiet", "--no-use-bitmap-index")
	if workspaceObjects != "" {
		read.Env = append(read.Env, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+quoted(workspaceObjects))
	}
	not := text.Map(have, func(id string) string { return "^" + id })
	read.Stdin, read.Stdout = strings.NewReader(strings.Join(slices.Concat(want, not), "\n")+"\n"), to
	return m.run(read)
}

// known returns those of some commits that the mirror has.
func (m *Mirror) known(ctx context.Context, ids []string) (have []string, err error) {
	look := m.localGit(ctx, "cat-file", "--batch-check=%(objecttype) %(objectname)")
	look.Stdin = strings.NewReader(strings.Join(ids, "\n") + "\n")
	out, err := m.output(look)
	for line := range strings.Lines(out) {
		if id, found := strings.CutPrefix(strings.TrimSpace(line), "commit "); found {
			have = append(have, id)
		}
	}
	return have, err
}

// Tips returns the commits of all branches and tags, none if there is no mirror.
func (m *Mirror) Tips(ctx context.Context) (tips []string, err error) {
	if !m.exists() {
		return nil, nil
	}
	if err := m.renewConfig(); err != nil {
		return nil, err
	}
	out, err := m.output(m.localGit(ctx, "for-each-ref", "--format=%(objecttype) %(objectname) %(*objecttype) %(*objectname)",
		"refs/heads", "refs/tags"))
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if i := slices.Index(words, "commit"); i >= 0 {
			tips = append(tips, words[i+1])
		}
	}
	slices.Sort(tips)
	return slices.Compact(tips), err
}

// CloneBundle fills an empty workspace from a bundle, the file at a path. The mirror knows its remote only by the address.
func (m *Mirror) CloneBundle(ctx context.Context, workspace, branch string, from host.Bundled, bundle string) error {
	_, err := m.fill(ctx, workspace, branch, func() (host.CloneAnswer, error) {
		if err := m.setHead(ctx, from.Head, len(from.Commit) == sha256Length); err != nil {
			return host.CloneAnswer{}, err
		}
		return from.CloneAnswer, m.fetchFrom(ctx, m.fileGit, bundle)
	})
	return err
}

// fileGit is localGit that may read files outside the mirror.
func (m *Mirror) fileGit(ctx context.Context, args ...string) *exec.Cmd {
	cmd := m.localGit(ctx, args...)
	cmd.Env = append(cmd.Env, "GIT_ALLOW_PROTOCOL=file")
	return cmd
}

// MakePack writes a pack of the HEAD of a workspace, which must still be commit, without what those commits contain that the mirror has.
func (m *Mirror) MakePack(ctx context.Context, workspace, commit string, have []string, to io.Writer) error {
	head, err := git.HeadOf(workspace)
	if err == nil && head.Commit != commit {
		err = fmt.Errorf("HEAD of %s is no longer %s", workspace, commit)
	}
	if err == nil {
		have, err = m.known(ctx, have)
	}
	if err == nil {
		err = m.pack(ctx, head.Objects, []string{commit}, have, to)
	}
	if err != nil {
		return m.failed(host.CodeDeliveryFailed, "pack the commits of the workspace", err)
	}
	return nil
}

// temporary returns a file without a name, so that nothing is left if this process dies.
func (m *Mirror) temporary() (*os.File, error) {
	f, err := os.CreateTemp(filepath.Dir(m.path), "pack-")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// incoming is the directory of objects that are not in the mirror yet.
func (m *Mirror) incoming() string { return m.path + ".incoming" }
