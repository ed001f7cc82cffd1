package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/git"
	"github.com/symphony-cron/symphony/runner/host/local/repository"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
)

func (Machine) Purge(ctx context.Context, r host.RootRequest) (answer host.PurgeAnswer, err error) {
	root, err := workspace.OpenRoot(r.Root)
	if err != nil {
		return answer, err
	}
	root.Trash = trash(r)
	return root.PurgeTrash(ctx, r.Now)
}

// trash returns how the project of a request keeps removed workspaces.
func trash(r host.RootRequest) workspace.Trash {
	free, err := workspace.FreeBytes(r.Root)
	return workspace.Trash{
		Project: r.Project,
		Keep:    r.KeepRemoved,
		Short:   err == nil && free < r.MinFree,
	}
}

func (Machine) Root(_ context.Context, r host.RootRequest) (answer host.RootAnswer, err error) {
	answer.FreeBytes = -1
	if free, err := workspace.FreeBytes(r.Root); err == nil {
		answer.FreeBytes = free
	}
	if !r.Records && !r.Trash && r.StateDir == "" {
		return answer, nil
	}
	root, found, err := workspace.FindRoot(r.Root)
	if answer.Found = found; err != nil || !found {
		return answer, err
	}
	if r.StateDir != "" {
		answer.Projects = slices.Sorted(maps.Values(root.Projects().Of(r.StateDir)))
	}
	if r.Records {
		var records []workspace.Record
		records, err = root.List()
		for _, rec := range records {
			space := reconcile.Workspace{
				IssueID:    rec.IssueID,
				Identifier: rec.Identifier,
				Key:        rec.Key,
				Root:       root.Path,
				Path:       rec.Path,
				Project:    rec.Project,
				Unsaved:    rec.Unsaved,
				UnsavedAt:  rec.UnsavedAt,
				KeptSince:  rec.KeptSince,
				Restored:   rec.Restored,
			}
			answer.Workspaces = append(answer.Workspaces, host.WorkspaceRecord{
				Workspace: space,
				StateDir:  rec.StateDir,
				RunID:     rec.RunID,
			})
		}
	}
	if r.Trash {
		root.Trash = trash(r)
		expired, trashErr := root.ExpiredTrash(r.Now)
		answer.TrashDue = len(expired) > 0
		err = errors.Join(err, trashErr)
	}
	return answer, err
}

func (Machine) Inspect(ctx context.Context, r host.WorkspaceRequest) (answer host.InspectAnswer, err error) {
	info, err := os.Stat(r.Path)
	if answer.Exists = err == nil && info.IsDir(); !answer.Exists {
		return answer, nil
	}
	err = withClone(ctx, r, r.Commits > 0, func(clone git.Clone) error {
		g, commits, found, err := git.Inspect(ctx, r.Path, clone, r.Commits)
		if answer.Commits = commits; found {
			answer.Git = &g
		}
		return err
	})
	return answer, err
}

func (Machine) Diff(ctx context.Context, r host.WorkspaceRequest, w io.Writer) (found bool, err error) {
	if r.To != "" {
		return git.DiffEnds(ctx, r.Path, workspace.EndsDir(r.Path), r.From, r.To, w)
	}
	err = withClone(ctx, r, true, func(clone git.Clone) (err error) {
		found, err = git.Diff(ctx, r.Path, clone, w)
		return err
	})
	return found, err
}

const hashFor = time.Minute // to hash the commits of a workspace

// withClone calls use with what symphony knows of the clone in a workspace. With hashed, the
// objects are those that a delivery would push.
func withClone(ctx context.Context, r host.WorkspaceRequest, hashed bool, use func(git.Clone) error) error {
	known, mirrors := workspace.CloneOf(r.Path)
	_, statErr := os.Lstat(filepath.Join(r.Path, ".git"))
	if known.Origin.Commit == "" || !hashed || statErr != nil {
		return use(known)
	}
	limited, cancel := context.WithTimeout(ctx, hashFor)
	defer cancel()
	inherit := func(f ...*os.File) []*os.File { return f }
	m := repository.New(
		mirrors,
		host.Repository{URL: known.Origin.URL},
		[]string{"PATH=" + os.Getenv("PATH")},
		inherit,
	)
	using := false
	err := m.WithHashedClone(limited, r.Path, known.Origin, func(clone git.Clone) error {
		using = true
		if err := host.CheckCommit(clone.Commit, r.Commit); err != nil {
			return err
		}
		clone.Ignored = known.Ignored
		return use(clone)
	})
	if err != nil && !using && limited.Err() != nil && ctx.Err() == nil {
		err = &reconcile.Error{
			Code: host.CodeGitLimit,
			Message: "hash the commits of " + r.Path + ": git has not ended within " + text.Took(
				hashFor.Milliseconds(),
			),
			Hint: "try again when the machine is less busy; du -sh .git/objects in the workspace shows how much there is to hash",
			Err:  err,
		}
	}
	return err
}

// mostKept is how many bytes the ends of runs of a workspace take at most, before the next is
// kept. Then all earlier ones are removed.
const mostKept = 256 << 20

// keepEnd keeps what a workspace contains at the end of a run.
func keepEnd(ctx context.Context, path string) (*host.WorkEnd, error) {
	ends := workspace.EndsDir(path)
	if used, err := diskUsage(ctx, ends); err == nil && used > mostKept {
		if err := os.RemoveAll(ends); err != nil {
			return nil, err
		}
	}
	known, _ := workspace.CloneOf(path)
	return git.KeepEnd(ctx, path, known, ends)
}

func (Machine) TryRoot(_ context.Context, r host.RootRequest) error {
	return workspace.TryRoot(r.Root)
}

func (Machine) Examine(ctx context.Context, r host.ExamineRequest) (answer host.ExamineAnswer, err error) {
	root, _, err := workspace.FindRoot(r.Root)
	if err != nil {
		return answer, err
	}
	rec, found, err := root.Record(r.Key)
	if err != nil || !found { // it has been removed since
		return answer, err
	}
	answer.Unsaved.Work, answer.Unsaved.Items = root.Unsaved(ctx, rec)
	if answer.InUse, err = root.Held(r.Key); err == nil {
		answer.Bytes, err = diskUsage(ctx, rec.Path)
	}
	return answer, err
}

func (Machine) RemoveWorkspace(
	ctx context.Context,
	r host.RemovalRequest,
) (answer host.RemoveAnswer, err error) {
	root, owner, err := openOwned(r.PrepareRequest, "by-hand")
	if err != nil {
		return answer, err
	}
	return root.Remove(ctx, owner, r.Now, r.Discard)
}

func (Machine) ListTrash(ctx context.Context, r host.RootRequest) (list []host.Removed, err error) {
	root, found, err := workspace.FindRoot(r.Root)
	if err != nil || !found {
		return nil, err
	}
	root.Trash = trash(r)
	if list, err = root.Removed(ctx, r.Now, r.Project); err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].Bytes, err = diskUsage(ctx, list[i].Path); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (Machine) Restore(_ context.Context, r host.TrashRequest) (answer host.RestoreAnswer, err error) {
	root, err := workspace.OpenRoot(r.Root)
	if err == nil {
		answer.Path, err = root.Restore(r.Path)
	}
	return answer, err
}

func (Machine) DeleteTrash(ctx context.Context, r host.TrashRequest) error {
	root, err := workspace.OpenRoot(r.Root)
	if err != nil {
		return err
	}
	return root.DeleteTrash(ctx, r.Path)
}

func (Machine) Leave(ctx context.Context, r host.LeaveRequest) error {
	root, found, err := workspace.FindRoot(r.Root)
	if err == nil && found {
		err = root.Projects().Unclaim(r.StateDir)
	}
	if err == nil && found && r.Dissolve {
		err = root.Dissolve(ctx)
	}
	return err
}

// diskUsage returns the bytes that a path occupies on disk. Files that vanish or can't be read
// count as empty.
func diskUsage(ctx context.Context, path string) (size int64, err error) {
	err = filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && at == path && !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("size of %s: %w", path, err)
		case err != nil:
			return nil //nolint:nilerr // see above
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				size += st.Blocks * 512
			}
		}
		return nil
	})
	return size, err
}
