package cleanup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/runner/host/local/git"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"github.com/symphony-cron/symphony/state"
)

// space is a workspace that may be removed.
type space struct {
	IssueID    string `json:"issue_id"`
	Identifier string `json:"issue_identifier"`
	Path       string `json:"path"`
	Bytes      int64  `json:"bytes"`
	Why        string `json:"why"`               // it is not needed
	InUse      bool   `json:"in_use"`            // a process holds its lease
	Unsaved    string `json:"unsaved,omitempty"` // work that exists nowhere else
	root       *workspace.Root
	rec        workspace.Record
}

// remark is the size of the workspace and what speaks against its removal, in brackets.
func (s space) remark() string {
	text := "(" + term.BytesText(s.Bytes)
	if s.InUse {
		text += ", in use"
	}
	if s.Unsaved != "" {
		text += ", " + s.Unsaved
	}
	return text + ")"
}

// listSpaces returns the workspaces in a project's roots that belong to it or to a project that no longer exists.
func listSpaces(ctx context.Context, stateDir string, roots []string) (list []space, err error) {
	for _, path := range roots {
		root, found, err := workspace.FindRoot(path)
		if err == nil && !found {
			continue
		}
		var records []workspace.Record
		if err == nil {
			records, err = root.List()
		}
		if err != nil {
			return nil, err
		}
		for _, rec := range records {
			// A file that can't be examined may exist.
			if _, err := os.Stat(filepath.Join(rec.StateDir, "state.db")); rec.StateDir != stateDir && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
				continue
			}
			s := space{IssueID: rec.IssueID, Identifier: rec.Identifier, Path: rec.Path, Unsaved: git.Unsaved(ctx, rec.Path), root: root, rec: rec}
			if s.InUse, err = root.Held(rec.Key); err != nil {
				return nil, err
			}
			if s.Bytes, _, err = diskUsage(ctx, rec.Path); err != nil {
				return nil, err
			}
			list = append(list, s)
		}
	}
	return list, nil
}

// diskUsage returns the bytes that a path occupies; exists is false if there is no such path. Files that vanish or cannot
// be read meanwhile count as empty.
func diskUsage(ctx context.Context, path string) (size int64, exists bool, err error) {
	err = filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && at == path && !errors.Is(err, fs.ErrNotExist):
			return err
		case err != nil:
			return nil //nolint:nilerr // it vanished, or cannot be read
		}
		exists = true
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				size += st.Blocks * 512
			}
		}
		return nil
	})
	if err != nil {
		return size, exists, fmt.Errorf("size of %s: %w", path, err)
	}
	return size, exists, nil
}

// lockProject takes the lock of a project; passes wait as long as release has not been called.
func lockProject(ctx context.Context, w *term.Env, stateDir string) (release func() error, err error) {
	me := state.Holder{PID: os.Getpid(), Trigger: project.TriggerCommand, Since: w.Now()}
	release, holder, err := state.Acquire(ctx, stateDir, me, project.CommandPatience)
	if err == nil && holder != nil {
		err = project.LockedError(holder)
	}
	return release, err
}
