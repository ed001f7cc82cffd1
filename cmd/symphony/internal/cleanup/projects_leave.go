package cleanup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/setup"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
)

// leaveRoot lets go of what a root says of the project.
func leaveRoot(ctx context.Context, w *term.Env, path, stateDir string, dissolve, discard bool) error {
	root, found, err := workspace.FindRoot(path)
	if err != nil {
		return err
	}
	if found {
		if _, err := root.UnclaimProjects(stateDir); err != nil || !dissolve {
			return err
		}
		_, err = root.Dissolve(ctx, discard)
	} else if dissolve {
		_ = os.Remove(path) // the last step of a removal that was cut off; what is not empty stays
	}
	if dissolve && filepath.Dir(path) == project.Resolve(filepath.Join(w.Home, setup.RootsFolder)) {
		_ = os.Remove(filepath.Dir(path)) // the same: made by the first pass for the root that init proposes
	}
	return err
}

// removeEnvFile removes the environment file and the folder that init has made for it, unless another project has them.
func removeEnvFile(w *term.Env, row project.State) error {
	others, err := envSharers(w, row)
	if err != nil || len(others) > 0 {
		return err
	}
	path := envFileOf(w, row)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("environment file: %w", err)
	}
	_ = os.Remove(filepath.Dir(path)) // not while it holds something
	return nil
}

// leaveAccount takes away, with the last project, what the projects of the account have had in common.
func leaveAccount(w *term.Env) error {
	dirs, err := project.StateDirs(w)
	if err != nil || len(dirs) > 0 {
		return err
	}
	if err := os.RemoveAll(filepath.Join(project.StateHome(w), "accounts")); err != nil {
		return fmt.Errorf("what is known of codex accounts: %w", err)
	}
	_ = os.Remove(project.StateHome(w)) // not while it holds something
	return nil
}

// stateFiles are what symphony makes in a state directory, in the order in which it goes.
var stateFiles = []string{
	"runs", "attention.log", "attention.tree", "launch.lock", "loop.lock", "lock.waiter",
	"state.db.new", "state.db.new-wal", "state.db.new-shm", "state.db-wal", "state.db-shm", "state.db", "lock",
}

// removeState removes what is symphony's of a state directory, and names what else is in it.
func removeState(dir string) (left []string, err error) {
	for _, name := range stateFiles {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("state directory: %w", err)
		}
		crash.At("projects.remove.file")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if len(left) > 0 {
		return slices.Clip(left), nil
	}
	if err := os.Remove(dir); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	return nil, nil
}

// sure asks a person; without one the command has to be told.
func Confirm(ctx context.Context, w *term.Env, prompt string) (bool, error) {
	if !w.OnTerminal() {
		return false, &reconcile.Error{
			Code: "not_a_terminal", Message: "nobody is there to ask", Hint: "give --yes where you are sure",
		}
	}
	answer, err := term.AskLine(ctx, w, prompt, false)
	if err != nil {
		return false, err
	}
	if yes := strings.ToLower(strings.TrimSpace(answer)); yes != "y" && yes != "yes" {
		fmt.Fprintln(w.Stderr, "symphony: nothing is done")
		return false, nil
	}
	return true, nil
}
