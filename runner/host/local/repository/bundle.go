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

// Bundle implements host.Mirror. Of the commits in have it leaves out what this mirror has,
// too.
func (m *Mirror) Bundle(
	ctx context.Context,
	q host.CloneRequest,
	have []string,
) (answer host.BundleAnswer, made io.ReadCloser, err error) {
	defer func() { err = host.WithCode(err) }()
	var bundle *os.File
	err = m.withLock(ctx, func(w writer) (err error) {
		if answer.CloneAnswer, err = w.fetch(ctx, q.Branch, q.Delivered); err != nil {
			return err
		}
		if q.Issue != "" {
			if err := w.beginWithKept(ctx, q, &answer.CloneAnswer); err != nil {
				return err
			}
		}
		answer.Head = "refs/heads/" + m.headBranch()
		if bundle, err = m.temporary(); err == nil {
			err = m.writeBundle(ctx, q.Issue, have, bundle)
		}
		return m.failed(host.CodeRepositoryUnavailable, "bundle the mirror", err)
	})
	if err == nil {
		_, err = bundle.Seek(0, io.SeekStart)
	}
	if err != nil && bundle != nil {
		_ = bundle.Close()
	}
	return answer, bundle, err
}

// writeBundle writes a bundle of all branches and tags, and of what is kept of an issue,
// unless its id is empty. Unlike git bundle it includes those that are in tips already,
// because the other mirror has to know all of them.
func (m *Mirror) writeBundle(ctx context.Context, issue string, have []string, to io.Writer) error {
	list := []string{"for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags"}
	if issue != "" {
		list = append(list, keptRef(issue))
	}
	refs, err := m.output(m.localGit(ctx, list...))
	if err != nil {
		return err
	}
	if have, err = m.existing(ctx, "", have); err != nil {
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

// pack writes a pack of what the wanted objects lead to, without what the commits in have
// contain.
func (m *Mirror) pack(ctx context.Context, objects string, want, have []string, to io.Writer) error {
	cmd := m.packCommand(ctx, objects, want, have, "--stdout")
	cmd.Stdout = to
	return m.run(cmd)
}

// packCommand packs to the path with which the names of the files begin, or to --stdout.
// Besides the objects of the mirror it reads those in another directory, unless that is empty,
// with the mirror's configuration and without the indexes that git would not verify (see
// settings).
func (m *Mirror) packCommand(ctx context.Context, objects string, want, have []string, to string) *exec.Cmd {
	cmd := withObjects(
		m.localGit(ctx, "pack-objects", "--revs", "--quiet", "--no-use-bitmap-index", to),
		objects,
	)
	not := text.Map(have, func(id string) string { return "^" + id })
	cmd.Stdin = strings.NewReader(strings.Join(slices.Concat(want, not), "\n") + "\n")
	return cmd
}

// existing returns those of some commits that the mirror has, or a directory of objects.
func (m *Mirror) existing(ctx context.Context, objects string, ids []string) (have []string, err error) {
	look := withObjects(m.localGit(ctx, "cat-file", "--batch-check=%(objecttype) %(objectname)"), objects)
	look.Stdin = strings.NewReader(strings.Join(ids, "\n") + "\n")
	out, err := m.output(look)
	for line := range strings.Lines(out) {
		if id, found := strings.CutPrefix(strings.TrimSpace(line), "commit "); found {
			have = append(have, id)
		}
	}
	return have, err
}

// Tips returns the commits of all branches and tags. Without a mirror there are none.
func (m *Mirror) Tips(ctx context.Context) (tips []string, err error) {
	if !m.exists() {
		return nil, nil
	}
	if err := m.renewConfig(); err != nil {
		return nil, err
	}
	out, err := m.output(
		m.localGit(ctx, "for-each-ref", "--format=%(objecttype) %(objectname) %(*objecttype) %(*objectname)",
			"refs/heads", "refs/tags"),
	)
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if i := slices.Index(words, "commit"); i >= 0 {
			tips = append(tips, words[i+1])
		}
	}
	slices.Sort(tips)
	return slices.Compact(tips), err
}

// CloneBundle fills an empty workspace from a bundle, the file at a path. The mirror knows its
// remote only by the address.
func (m *Mirror) CloneBundle(
	ctx context.Context,
	workspace, branch string,
	from host.BundleAnswer,
	bundle string,
) error {
	_, err := clone{
		m,
		workspace,
		branch,
	}.fill(
		ctx,
		func(w writer) (host.CloneAnswer, error) { return w.fetchBundle(ctx, from, bundle) },
	)
	return err
}

// FetchBundle does what Fetch does with a bundle, or what Look does.
func (m *Mirror) FetchBundle(
	ctx context.Context, workspace string, q host.BundleRequest, bundle string,
) (host.FetchAnswer, error) {
	from := q.BundleAnswer
	// the JSON of the request has its own Branch and Delivered in place of these
	from.Branch = q.Branch
	from.Delivered = q.Delivered
	return m.refresh(ctx, workspace, q.Delivered, q.Look, func(w writer) (host.CloneAnswer, error) {
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

// MakePack writes a pack of the HEAD of a workspace, which must still be commit, without what
// those commits in have contain that this machine has. A mirror that is missing is made; the
// workspace may borrow the objects of another one.
func (m *Mirror) MakePack(ctx context.Context, workspace, commit string, have []string, to io.Writer) error {
	head, err := git.HeadOf(workspace)
	if err == nil && head.Commit != commit {
		err = fmt.Errorf("HEAD of %s is no longer %s", workspace, commit)
	}
	if err == nil && !m.exists() {
		err = m.withLock(
			ctx,
			func(w writer) error { return w.setHead(ctx, "refs/heads/main", len(commit) == sha256Length) },
		)
	}
	if err == nil {
		have, err = m.existing(ctx, head.Objects, have)
	}
	if err == nil {
		err = m.pack(ctx, head.Objects, []string{commit}, have, to)
	}
	return m.failed(host.CodeDeliveryFailed, "pack the commits of the workspace", err)
}

// temporary returns a file without a name, so that nothing is left if this process dies.
func (m *Mirror) temporary() (*os.File, error) {
	f, err := os.CreateTemp(filepath.Dir(m.path), "pack-")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}
