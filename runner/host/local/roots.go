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
	"github.com/symphony-cron/symphony/runner/host/local/files"
	"github.com/symphony-cron/symphony/runner/host/local/git"
	"github.com/symphony-cron/symphony/runner/host/local/repository"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
)

func (Machine) FreeBytes(_ context.Context, root string) (int64, error) {
	return workspace.FreeBytes(root)
}

func (Machine) Workspaces(_ context.Context, path string) (list []host.WorkspaceRecord, err error) {
	root, found, err := workspace.FindRoot(path)
	if err != nil || !found {
		return nil, err
	}
	records, err := root.List()
	for _, rec := range records {
		list = append(list, workspaceRecord(root, rec))
	}
	return list, err
}

func (Machine) Claimed(_ context.Context, path, stateDir string) (projects []string, found bool, err error) {
	root, found, err := workspace.FindRoot(path)
	if err != nil || !found {
		return nil, false, err
	}
	return slices.Sorted(maps.Values(root.Projects().Of(stateDir))), true, nil
}

func (Machine) Purge(ctx context.Context, t host.ProjectTrash) (answer host.PurgeAnswer, err error) {
	root, err := workspace.OpenRoot(t.Root)
	if err != nil {
		return answer, err
	}
	root.Trash = trash(t)
	return root.PurgeTrash(ctx, t.Now)
}

func (Machine) TrashDue(_ context.Context, t host.ProjectTrash) (bool, error) {
	root, found, err := workspace.FindRoot(t.Root)
	if err != nil || !found {
		return false, err
	}
	root.Trash = trash(t)
	expired, err := root.ExpiredTrash(t.Now)
	return len(expired) > 0, err
}

// trash returns how a project keeps removed workspaces.
func trash(t host.ProjectTrash) workspace.Trash {
	free, err := workspace.FreeBytes(t.Root)
	return workspace.Trash{
		Project: t.Project,
		Keep:    t.KeepRemoved,
		Short:   err == nil && free < t.MinFree,
	}
}

// workspaceRecord returns a record in the words of the port.
func workspaceRecord(root *workspace.Root, rec workspace.Record) host.WorkspaceRecord {
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
	return host.WorkspaceRecord{Workspace: space, StateDir: rec.StateDir, RunID: rec.RunID}
}

func (Machine) Inspect(ctx context.Context, r host.WorkspaceRequest) (answer host.InspectAnswer, err error) {
	info, err := os.Stat(r.Path)
	if files.Absent(err) || err == nil && !info.IsDir() {
		return answer, nil
	}
	if err != nil {
		return answer, files.Failed(err, "look at the workspace %s", r.Path)
	}
	answer.Exists = true
	inspect := func(clone git.Clone) error {
		g, commits, found, err := git.Inspect(ctx, r.Path, clone, r.Commits)
		answer.Commits = commits
		if found {
			answer.Git = &g
		}
		return err
	}
	if r.Commits > 0 || r.Hashed {
		err = withHashedClone(ctx, r, inspect)
	} else {
		known, _ := workspace.CloneOf(r.Path)
		err = inspect(known)
	}
	return answer, err
}

func (Machine) Diff(ctx context.Context, r host.WorkspaceRequest, w io.Writer) (found bool, err error) {
	if r.To != "" {
		return git.DiffEnds(ctx, r.Path, workspace.EndsDir(r.Path), r.From, r.To, w)
	}
	err = withHashedClone(ctx, r, func(clone git.Clone) (err error) {
		found, err = git.Diff(ctx, r.Path, clone, w)
		return err
	})
	return found, err
}

const hashFor = time.Minute // to hash the commits of a workspace

// withHashedClone calls use with symphony's knowledge of the clone in a workspace, of which a
// delivery would push the same objects.
func withHashedClone(ctx context.Context, r host.WorkspaceRequest, use func(git.Clone) error) error {
	known, mirrors := workspace.CloneOf(r.Path)
	_, statErr := os.Lstat(filepath.Join(r.Path, ".git"))
	if known.Origin.Commit == "" || statErr != nil {
		return use(known)
	}
	limited, cancel := context.WithTimeout(ctx, hashFor)
	defer cancel()
	inherit := func(f ...*os.File) []*os.File { return f }
	env := []string{"PATH=" + os.Getenv("PATH")}
	m := repository.New(mirrors, host.Repository{URL: known.Origin.URL}, env, inherit)
	_, mirrorErr := os.Lstat(m.Path())
	if files.Absent(mirrorErr) {
		// The repository was moved. The first delivery makes the mirror of its new address.
		return use(known)
	}
	using := false
	err := m.WithHashedClone(limited, r.Path, known, func(clone git.Clone) error {
		using = true
		if err := host.CheckCommit(clone.Commit, r.Commit); err != nil {
			return err
		}
		return use(clone)
	})
	if err != nil && !using && limited.Err() != nil && ctx.Err() == nil {
		took := text.Took(hashFor.Milliseconds())
		return &reconcile.Error{
			Code:    host.CodeGitLimit,
			Message: "hash the commits of " + r.Path + ": git has not ended within " + took,
			Hint:    "try again when the machine is less busy",
			Err:     err,
		}
	}
	return err
}

// mostKept is how many bytes the ends of runs of a workspace take at most, before the next is
// kept. Then all earlier ones are removed.
const mostKept = 256 << 20

// keepEnd keeps the contents of a workspace at the end of a run.
func keepEnd(ctx context.Context, path string) (*host.WorkEnd, error) {
	ends := workspace.EndsDir(path)
	used, err := diskUsage(ctx, ends)
	if err == nil && used > mostKept {
		if err := os.RemoveAll(ends); err != nil {
			return nil, err
		}
	}
	known, _ := workspace.CloneOf(path)
	return git.KeepEnd(ctx, path, known, ends)
}

func (Machine) Examine(ctx context.Context, r host.ExamineRequest) (answer host.ExamineAnswer, err error) {
	root, _, err := workspace.FindRoot(r.Root)
	if err != nil {
		return answer, err
	}
	rec, found, err := root.Record(r.Key)
	if err != nil || !found { // it was removed since
		return answer, err
	}
	answer.Unsaved.Work, answer.Unsaved.Items = root.Unsaved(ctx, rec)
	answer.InUse, err = root.Held(r.Key)
	if err != nil {
		return answer, err
	}
	answer.Bytes, err = diskUsage(ctx, rec.Path)
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

func (Machine) ListTrash(ctx context.Context, t host.ProjectTrash) (list []host.Removed, err error) {
	root, found, err := workspace.FindRoot(t.Root)
	if err != nil || !found {
		return nil, err
	}
	root.Trash = trash(t)
	list, err = root.Removed(ctx, t.Now, t.Project)
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i].Bytes, err = diskUsage(ctx, list[i].Path)
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (Machine) Restore(_ context.Context, r host.TrashRequest) (answer host.RestoreAnswer, err error) {
	root, err := workspace.OpenRoot(r.Root)
	if err != nil {
		return answer, err
	}
	answer.Path, err = root.Restore(r.Path)
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
	if err != nil || !found {
		return err
	}
	if err := root.Projects().Unclaim(r.StateDir); err != nil {
		return err
	}
	if !r.Dissolve {
		return nil
	}
	return root.Dissolve(ctx)
}

// diskUsage returns the bytes that a path occupies on disk. Files that vanish or can't be read
// count as empty.
func diskUsage(ctx context.Context, path string) (size int64, err error) {
	err = filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && at == path && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("size of %s: %w", path, err)
		}
		if err != nil {
			return nil //nolint:nilerr // see above
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // see above
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			size += st.Blocks * 512
		}
		return nil
	})
	return size, err
}
