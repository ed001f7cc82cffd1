package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/git"
	"github.com/symphony-cron/symphony/runner/host/local/repository"
	"github.com/symphony-cron/symphony/runner/host/local/tree"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
)

func (r *run) Clone(ctx context.Context, q host.CloneRequest) (answer host.CloneAnswer, err error) {
	if err := r.Verify(ctx); err != nil {
		return answer, err
	}
	m := r.mirror(q.Repository, q.Env)
	clone := func(ctx context.Context) (host.CloneAnswer, error) {
		answer, err := m.Clone(ctx, r.space.Path, q.Branch, q.Delivered)
		if err != nil {
			return answer, err
		}
		return answer, r.space.SetOrigin(host.Origin{
			URL:    q.Repository.URL,
			Commit: answer.BaseCommit,
			Branch: answer.Base,
		})
	}
	return host.Within(ctx, q.Timeout, host.CodeRepositoryUnavailable, "the clone", clone)
}

func (r *run) Fetch(ctx context.Context, q host.CloneRequest) (answer host.FetchAnswer, err error) {
	if err := r.Verify(ctx); err != nil {
		return answer, err
	}
	m := r.mirror(q.Repository, q.Env)
	fetch := func(ctx context.Context) (host.FetchAnswer, error) {
		if q.Look {
			unchanged, err := m.Unchanged(ctx, q.Branch, q.Delivered)
			if err != nil || unchanged {
				return host.FetchAnswer{}, err
			}
		}
		answer, err := m.Fetch(ctx, r.space.Path, q.Branch, q.Delivered, q.Look)
		if err != nil {
			return answer, err
		}
		return r.recordBase(ctx, m, q.Repository.URL, answer)
	}
	return host.Within(ctx, q.Timeout, host.CodeRepositoryUnavailable, "the fetch", fetch)
}

// recordBase records the commit of the base that was fetched, with which the work is compared
// from now on, and what the base has dropped. If the workspace was cloned from another address,
// the record stays: that may be another repository.
func (r *run) recordBase(
	ctx context.Context, m *repository.Mirror, address string, answer host.FetchAnswer,
) (host.FetchAnswer, error) {
	origin := r.space.Origin()
	if origin.URL != address {
		return answer, nil
	}
	now, dropped, err := m.Compare(ctx, r.space.Path, origin, answer)
	answer.Dropped = dropped
	if err != nil || now == origin {
		return answer, err
	}
	return answer, r.space.SetOrigin(now)
}

func (r *run) Deliver(ctx context.Context, q host.DeliverRequest) (answer host.DeliverAnswer, err error) {
	defer func() { err = host.WithCode(err) }()
	if err := r.Verify(ctx); err != nil {
		return answer, err
	}
	m := r.mirror(q.Repository, q.Env)
	deliver := func(ctx context.Context) (host.DeliverAnswer, error) {
		answer, err := m.DeliverWorkspace(ctx, r.space.Path, r.space.Origin(), q)
		if err != nil || answer.Base == "" || q.Try {
			return answer, err
		}
		return answer, r.moveOrigin(q.Repository.URL, answer.BaseCommit)
	}
	return host.Within(ctx, q.Timeout, host.CodeDeliveryFailed, "the delivery", deliver)
}

// Keep implements host.Run: on this machine the workspace itself keeps its commits.
func (*run) Keep(context.Context, host.KeepRequest) (string, error) { return "", nil }

// Forget implements host.Run.
func (*run) Forget(context.Context, host.KeepRequest) error { return nil }

func (Machine) DeliverWorkspace(
	ctx context.Context,
	q host.WorkspaceDelivery,
) (answer host.WorkspaceDelivered, err error) {
	defer func() { err = host.WithCode(err) }()
	root, found, err := workspace.FindRoot(filepath.Dir(q.Path))
	if err != nil || !found {
		return answer, errors.Join(err, fmt.Errorf("%s is no workspace", q.Path))
	}
	rec, _, err := root.Record(filepath.Base(q.Path))
	if err != nil {
		return answer, err
	}
	mirrors := Mirrors{Dir: root.MirrorsDir(), RunID: q.RunID}
	to := q.Repository
	if to.URL == "" {
		to = host.Repository{URL: mirrors.mirror(q.Source, q.Env).OriginOf(ctx, q.Source.URL)}
	}
	if to.URL == "" {
		to = q.Source
	}
	m := mirrors.mirror(to, q.Env)
	answer.Address = m.Address()
	if q.DeliveredTo != answer.Address {
		q.Delivered = ""
	}
	deliver := func(ctx context.Context) (host.DeliverAnswer, error) {
		return m.DeliverWorkspace(ctx, q.Path, rec.Origin, q.DeliverRequest)
	}
	answer.DeliverAnswer, err = host.Within(
		ctx, q.Timeout, host.CodeDeliveryFailed, "the delivery", deliver,
	)
	return answer, err
}

// moveOrigin records the address of the repository to which the workspace was delivered, if it
// was cloned from another address. If a person has taken what the base has dropped, base is its
// commit from which on that is looked for again.
func (r *run) moveOrigin(address, base string) error {
	before := r.space.Origin()
	origin := before
	if base != "" {
		origin.Base = base
		origin.Dropped = ""
	}
	origin.URL = address
	if before.URL == "" || origin == before {
		return nil
	}
	return r.space.SetOrigin(origin)
}

// mirror returns the mirror of a repository. Its git commands are marked as processes of the
// run. They do not use the caches and temporary files of the workspace, where an agent could
// have left a socket of a credential helper.
func (r *run) mirror(remote host.Repository, env []string) *repository.Mirror {
	env = slices.DeleteFunc(host.Scrub(env), func(entry string) bool {
		_, value, _ := strings.Cut(entry, "=")
		return paths.Inside(r.space.WorkDir(), value)
	})
	inherit := func(files ...*os.File) []*os.File {
		return tree.ExtraFiles(r.tree, append([]*os.File{r.space.Lease()}, files...)...)
	}
	return repository.New(r.space.MirrorsDir(), remote, append(env, host.RunMark+"="+r.id), inherit)
}

// Mirrors are the mirrors on this machine for a run on another machine. It implements
// host.Mirrors.
type Mirrors struct{ Dir, RunID string }

var (
	_ host.Mirrors         = Mirrors{}
	_ host.Mirror          = &repository.Mirror{}
	_ host.Claims          = &repository.Claims{}
	_ host.RepositorySteps = &run{}
)

// MirrorsOf returns the directory of the mirrors that the workspaces of a root share.
func MirrorsOf(root string) (string, error) {
	r, found, err := workspace.FindRoot(root)
	if err == nil && !found {
		err = fmt.Errorf("%s contains no workspaces", root)
	}
	if err != nil {
		return "", err
	}
	return r.MirrorsDir(), nil
}

// Mirror implements host.Mirrors. Its git commands are marked as processes of the run, so that
// they are found if its worker dies.
func (m Mirrors) Mirror(r host.Repository, env []string) host.Mirror { return m.mirror(r, env) }

func (m Mirrors) mirror(r host.Repository, env []string) *repository.Mirror {
	return repository.New(m.Dir, r, m.environ(env), inheritGiven)
}

// Claims implements host.Mirrors.
func (m Mirrors) Claims(r host.Repository, branch string, env []string) host.Claims {
	return repository.NewClaims(m.Dir, r, m.environ(env), inheritGiven, branch)
}

// environ is the environment of the mirrors' git commands.
func (m Mirrors) environ(env []string) []string {
	return append(host.Scrub(env), host.RunMark+"="+m.RunID)
}

// inheritGiven is which files a command inherits: none but those that it is given.
func inheritGiven(files ...*os.File) []*os.File { return files }

// Unsaved returns the commits that the mirrors keep of an issue and that were not delivered.
// delivered is the commit that was pushed last for it, empty for none.
func (m Mirrors) Unsaved(ctx context.Context, issue, delivered string, env []string) ([]host.Kept, error) {
	all, err := repository.In(m.Dir, env)
	if err != nil {
		return nil, err
	}
	list := []host.Kept{}
	for _, mirror := range all {
		found, err := mirror.Unsaved(ctx, issue, delivered)
		if err != nil {
			return nil, err
		}
		if len(found.Commits) > 0 {
			list = append(list, found)
		}
	}
	return list, nil
}

// Forget keeps the commits of an issue no longer.
func (m Mirrors) Forget(ctx context.Context, issue string, env []string) error {
	all, err := repository.In(m.Dir, env)
	if err != nil {
		return err
	}
	for _, mirror := range all {
		if err := mirror.Forget(ctx, issue); err != nil {
			return err
		}
	}
	return nil
}

// directory is the directory of a run.
type directory string

// Files in the directory of a run whose worker is on another machine.
const (
	bundleFile = "bundle"
	packFile   = "pack"
)

func (d directory) file(name string) string { return filepath.Join(string(d), name) }

func (r *run) ReadTips(ctx context.Context, q host.TipsRequest) (answer host.TipsAnswer, err error) {
	if err := r.Verify(ctx); err != nil {
		return answer, err
	}
	answer.Cloned = r.space.Origin()
	if q.Work {
		head, err := git.HeadOf(r.space.Path)
		if err != nil {
			return answer, reconcile.NewError(
				host.CodeDeliveryFailed,
				fmt.Sprintf("HEAD of %s: %v", r.space.Path, err),
				"look at it on the host",
			)
		}
		answer.Commit = head.Commit
	}
	answer.Tips, err = r.mirror(host.Repository{URL: q.Address}, r.machine.Account.Env).Tips(ctx)
	return answer, err
}

func (d directory) AddToBundle(_ context.Context, p host.Part) error {
	f, err := os.OpenFile(d.file(bundleFile), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(p.Data, p.Offset)
	return errors.Join(err, f.Close())
}

// bundle returns the path of the bundle that was added. It cuts off what a longer bundle of
// this run, such as that of the clone, has left behind it: git refuses a pack with more bytes.
func (d directory) bundle(size int64) (string, error) {
	path := d.file(bundleFile)
	if err := os.Truncate(path, size); err != nil {
		return "", fmt.Errorf("read the bundle: %w", err)
	}
	return path, nil
}

func (r *run) CloneBundle(ctx context.Context, q host.BundleRequest) (err error) {
	if err := r.Verify(ctx); err != nil {
		return err
	}
	bundle, err := r.bundle(q.Size)
	if err != nil {
		return err
	}
	m := r.mirror(host.Repository{URL: q.Address, Name: q.Name, Email: q.Email}, q.Env)
	if err := m.CloneBundle(ctx, r.space.Path, q.Branch, q.BundleAnswer, bundle); err != nil {
		return err
	}
	return r.space.SetOrigin(host.Origin{URL: q.Address, Commit: q.BaseCommit, Branch: q.Base})
}

func (r *run) FetchBundle(ctx context.Context, q host.BundleRequest) (answer host.FetchAnswer, err error) {
	if err := r.Verify(ctx); err != nil {
		return answer, err
	}
	bundle, err := r.bundle(q.Size)
	if err != nil {
		return answer, err
	}
	m := r.mirror(host.Repository{URL: q.Address}, q.Env)
	answer, err = m.FetchBundle(ctx, r.space.Path, q, bundle)
	if err != nil {
		return answer, err
	}
	return r.recordBase(ctx, m, q.Address, answer)
}

// removeParts removes the leftovers of clones and deliveries in the directory of the run.
func (d directory) removeParts() (err error) {
	for _, name := range []string{bundleFile, packFile} {
		if removed := os.Remove(d.file(name)); !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	return err
}

func (r *run) MakePack(ctx context.Context, q host.PackRequest) (answer host.PackAnswer, err error) {
	if err := r.Verify(ctx); err != nil {
		return answer, err
	}
	f, err := os.OpenFile(r.file(packFile), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return answer, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	m := r.mirror(host.Repository{URL: q.Address}, r.machine.Account.Env)
	if err := m.MakePack(ctx, r.space.Path, r.space.Origin(), q.Commit, q.Have, f); err != nil {
		return answer, err
	}
	answer.Size, err = f.Seek(0, io.SeekEnd)
	return answer, err
}

func (d directory) ReadPack(_ context.Context, offset int64) (p host.Part, err error) {
	f, err := os.Open(d.file(packFile))
	if err != nil {
		return p, err
	}
	defer f.Close()
	p = host.Part{Offset: offset, Data: make([]byte, host.PartSize)}
	n, err := f.ReadAt(p.Data, offset)
	p.Data = p.Data[:n]
	if errors.Is(err, io.EOF) {
		return p, nil
	}
	return p, err
}

func (r *run) RecordDelivered(ctx context.Context, q host.DeliveredRequest) error {
	if err := r.Verify(ctx); err != nil {
		return err
	}
	// if this fails, the workspace is kept as unsaved
	_ = git.SetRemoteBranch(r.space.Path, q.Branch, q.Commit)
	return r.moveOrigin(q.Address, q.BaseCommit)
}
