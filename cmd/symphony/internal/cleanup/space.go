package cleanup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/git"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"github.com/symphony-cron/symphony/state"
)

// space is a workspace that may be removed.
type space struct {
	root *workspace.Root
	rec  workspace.Record
	size int64
	// inUse reports whether a process holds its lease.
	inUse bool
	// unsaved describes work that exists nowhere else, empty if there is none.
	unsaved string
}

// remark is the size of the workspace and what speaks against its removal, in brackets.
func (s space) remark() string {
	text := "(" + term.BytesText(s.size)
	if s.inUse {
		text += ", in use"
	}
	if s.unsaved != "" {
		text += ", " + s.unsaved
	}
	return text + ")"
}

// listSpaces returns the workspaces in a project's roots that belong to it or to a project that no longer exists.
func listSpaces(ctx context.Context, row project.Known) ([]space, error) {
	var list []space
	for _, path := range row.Roots {
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
			if rec.StateDir != row.StateDir && !isGone(filepath.Join(rec.StateDir, "state.db")) {
				continue
			}
			s := space{root: root, rec: rec, unsaved: git.Unsaved(ctx, rec.Path)}
			if s.inUse, err = root.Held(rec.Key); err != nil {
				return nil, err
			}
			if s.size, _, err = diskUsage(ctx, rec.Path); err != nil {
				return nil, err
			}
			list = append(list, s)
		}
	}
	return list, nil
}

// isGone reports whether a file certainly does not exist. A file that cannot be examined may exist.
func isGone(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
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

// Confirm asks a yes or no question on the terminal. Without a terminal it is an error: the command then needs --yes.
func Confirm(ctx context.Context, w *term.Env, prompt string) (bool, error) {
	if !w.OnTerminal() {
		return false, &reconcile.Error{
			Code: "not_a_terminal", Message: "the command asks before it goes on, and stdin is no terminal", Hint: "give --yes to go on without the question",
		}
	}
	answer, err := term.AskLine(ctx, w, prompt, false)
	if err != nil {
		return false, err
	}
	if yes := strings.ToLower(strings.TrimSpace(answer)); yes != "y" && yes != "yes" {
		fmt.Fprintln(w.Stderr, "symphony: nothing was changed")
		return false, nil
	}
	return true, nil
}
