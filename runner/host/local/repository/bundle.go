package repository

import (
	"context"
	"errors"
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

// Bundle implements host.Mirror. It leaves out the commits of have that this mirror also
// contains.
func (m *Mirror) Bundle(
	ctx context.Context,
	q host.CloneRequest,
	have []string,
) (answer host.BundleAnswer, made io.ReadCloser, err error) {
	defer func() { err = host.WithCode(err) }()
	var bundle *os.File
	err = m.withLock(ctx, func(w writer) (err error) {
		answer.CloneAnswer, err = w.fetch(ctx, q.Branch, q.Delivered)
		if err != nil {
			return err
		}
		if q.Issue != "" {
			if err := w.beginWithKept(ctx, q, &answer.CloneAnswer); err != nil {
				return err
			}
		}
		answer.Head = "refs/heads/" + m.headBranch()
		bundle, err = m.makeBundle(ctx, q.Issue, have)
		return m.failed(host.CodeRepositoryUnavailable, "bundle the mirror", err)
	})
	if err != nil {
		if bundle != nil {
			_ = bundle.Close()
		}
		return answer, nil, err
	}
	return answer, bundle, nil
}

// makeBundle returns a bundle in a file without a name. See writeBundle.
func (m *Mirror) makeBundle(ctx context.Context, issue string, have []string) (*os.File, error) {
	bundle, err := m.temporary()
	if err != nil {
		return nil, err
	}
	if err := m.writeBundle(ctx, issue, have, bundle); err != nil {
		return nil, errors.Join(err, bundle.Close())
	}
	if _, err := bundle.Seek(0, io.SeekStart); err != nil {
		return nil, errors.Join(err, bundle.Close())
	}
	return bundle, nil
}

// writeBundle writes a bundle of all branches and tags, and of the commits that are kept of an
// issue, unless its id is empty. Unlike git bundle it includes references that are in tips
// already, because the other mirror must know all of them.
func (m *Mirror) writeBundle(ctx context.Context, issue string, have []string, to io.Writer) error {
	list := []string{"for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags"}
	if issue != "" {
		list = append(list, keptRef(issue))
	}
	refs, err := m.output(m.localGit(ctx, list...))
	if err != nil {
		return err
	}
	have, err = m.existing(ctx, "", have)
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

// pack writes a pack of everything that the wanted objects lead to, without the contents of
// the commits in have.
func (m *Mirror) pack(ctx context.Context, objects string, want, have []string, to io.Writer) error {
	cmd := m.packCommand(ctx, objects, want, have, "--stdout")
	cmd.Stdout = to
	return m.run(cmd)
}

// packCommand packs to the path with which the names of the files begin, or to --stdout.
// Besides the objects of the mirror it reads the objects in another directory, unless that is
// empty, with the mirror's configuration and without the indexes that git would not verify
// (see settings).
func (m *Mirror) packCommand(ctx context.Context, objects string, want, have []string, to string) *exec.Cmd {
	pack := m.localGit(ctx, "pack-objects", "--revs", "--quiet", "--no-use-bitmap-index", to)
	cmd := withObjects(pack, objects)
	not := text.Map(have, func(id string) string { return "^" + id })
	cmd.Stdin = strings.NewReader(strings.Join(slices.Concat(want, not), "\n") + "\n")
	return cmd
}

// existing returns the commits that are in the mirror or in a directory of objects.
func (m *Mirror) existing(ctx context.Context, objects string, ids []string) (have []string, err error) {
	look := withObjects(m.localGit(ctx, "cat-file", "--batch-check=%(objecttype) %(objectname)"), objects)
	look.Stdin = strings.NewReader(strings.Join(ids, "\n") + "\n")
	out, err := m.output(look)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(out) {
		if id, found := strings.CutPrefix(strings.TrimSpace(line), "commit "); found {
			have = append(have, id)
		}
	}
	return have, nil
}

// Tips returns the commits of all branches and tags. Without a mirror there are none.
func (m *Mirror) Tips(ctx context.Context) (tips []string, err error) {
	if !m.exists() {
		return nil, nil
	}
	if err := m.renewConfig(); err != nil {
		return nil, err
	}
	const format = "--format=%(objecttype) %(objectname) %(*objecttype) %(*objectname)"
	out, err := m.output(m.localGit(ctx, "for-each-ref", format, "refs/heads", "refs/tags"))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if i := slices.Index(words, "commit"); i >= 0 {
			tips = append(tips, words[i+1])
		}
	}
	slices.Sort(tips)
	return slices.Compact(tips), nil
}

// CloneBundle fills an empty workspace from a bundle, the file at a path. The mirror knows its
// remote only by the address.
func (m *Mirror) CloneBundle(
	ctx context.Context,
	workspace, branch string,
	from host.BundleAnswer,
	bundle string,
) error {
	c := clone{Mirror: m, workspace: workspace, branch: branch}
	_, err := c.fill(ctx, func(w writer) (host.CloneAnswer, error) { return w.fetchBundle(ctx, from, bundle) })
	return err
}

// FetchBundle does the work of Fetch with a bundle.
func (m *Mirror) FetchBundle(
	ctx context.Context, workspace string, q host.BundleRequest, bundle string,
) (host.FetchAnswer, error) {
	from := q.BundleAnswer
	// the JSON of the request contains its own Branch and Delivered in place of these
	from.Branch = q.Branch
	from.Delivered = q.Delivered
	to := refreshRequest{workspace: workspace, delivered: q.Delivered, look: q.Look}
	return m.refresh(ctx, to, func(w writer) (host.CloneAnswer, error) {
		return w.fetchBundle(ctx, from, bundle)
	})
}

func (m writer) fetchBundle(
	ctx context.Context,
	from host.BundleAnswer,
	bundle string,
) (host.CloneAnswer, error) {
	if err := m.setHead(ctx, from.Head, len(from.Commit) == sha256Length); err != nil {
		return from.CloneAnswer, err
	}
	return from.CloneAnswer, m.fetchFrom(ctx, m.fileGit, bundle, keptRefs+"*")
}

// MakePack writes a pack of the HEAD of a workspace, which must still be commit, without the
// contents of commits in have that this machine knows. A missing mirror is made; the workspace
// may borrow the objects of another mirror. cloned is where symphony cloned it from.
func (m *Mirror) MakePack(
	ctx context.Context,
	workspace string,
	cloned host.Origin,
	commit string,
	have []string,
	to io.Writer,
) (err error) {
	failed := func(err error) error {
		return m.failed(host.CodeDeliveryFailed, "pack the commits of the workspace", err)
	}
	head, err := git.HeadOf(workspace)
	if err != nil {
		return failed(err)
	}
	if head.Commit != commit {
		return failed(fmt.Errorf("HEAD of %s is no longer %s", workspace, commit))
	}
	if !m.exists() {
		err := m.withLock(ctx, func(w writer) error {
			return w.setHead(ctx, "refs/heads/main", len(commit) == sha256Length)
		})
		if err != nil {
			return failed(err)
		}
	}
	objects, err := m.takeObjects(workspace, cloned)
	if err != nil {
		return failed(err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(objects)) }()
	have, err = m.existing(ctx, objects, have)
	if err != nil {
		return failed(err)
	}
	return failed(m.pack(ctx, objects, []string{commit}, have, to))
}

// temporary returns a file without a name, so that nothing is left if this process dies.
func (m *Mirror) temporary() (*os.File, error) {
	f, err := os.CreateTemp(filepath.Dir(m.path), "pack-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
