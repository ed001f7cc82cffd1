package wiring

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"github.com/symphony-cron/symphony/state"
)

// OpenForReading opens the database read-only. It refuses the state of another workflow and
// the state of a newer program. Without a workflow, the state directory alone names the project.
func OpenForReading(ctx context.Context, p *Project) (*state.DB, error) {
	db, err := state.OpenReadOnly(ctx, p.StateDir)
	if err != nil {
		return nil, NoState(p, err, FirstPass, reconcile.CommandFor("tick", ""))
	}
	if err := db.Newer(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if p.SourceErr == nil {
		if _, err := OwnerPath(ctx, p, db); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return db, nil
}

// FirstPass is the usual next step before the first pass, with the command tick.
const FirstPass = "run one with %s"

// NoState explains a missing database: no pass ran yet, or the workflow is missing, too. It
// returns other errors as they are. step is the next step before the first pass, such as
// FirstPass, which starts agents. It has a %s for each of the commands.
func NoState(p *Project, err error, step string, commands ...any) error {
	if !errors.Is(err, state.ErrNoState) {
		return err
	}
	if p.SourceErr != nil {
		return p.SourceErr
	}
	root := usedRoot(p)
	if root != "" {
		return reconcile.NewError(
			"state_corrupt",
			p.StateDir+" has no state.db, but its project has workspaces in "+root,
			"",
		).WithHint(
			"mount or restore it; if it is lost, %s makes a new one and continues in these workspaces",
			reconcile.CommandFor("tick", ""),
		).WithCause(err)
	}
	cfg, invalid := p.ConfigWithoutKey()
	if invalid == nil {
		if conflict := Conflict(p, cfg); conflict != nil { // whose runs are in a state of its own
			return conflict.WithCause(err)
		}
	}
	return reconcile.NewError(
		"no_state",
		"no pass has run yet for "+p.Path+" with the state directory "+p.StateDir,
		"",
	).WithHint(step+", or name the right project with -w and --state-dir", commands...).WithCause(err)
}

// BeforeFirstPass reports whether a database is missing because no pass has run yet. It is not so if
// it is lost, so that the project has workspaces already.
func BeforeFirstPass(err error) bool {
	return errors.Is(err, state.ErrNoState) && !state.NeedsRepair(err)
}

// usedRoot returns the workspace root of the workflow if a project with this state directory
// used it, otherwise an empty path.
func usedRoot(p *Project) string {
	cfg, err := p.ConfigWithoutKey()
	if err != nil {
		return ""
	}
	root, found, _ := workspace.FindRoot(cfg.Workspace.Root)
	if !found || len(root.Projects().Of(p.StateDir)) == 0 {
		return ""
	}
	return root.Path
}

// Keys of the database: the path of the workflow that owns it, the link by which the last pass
// reached it, and the path of the directory.
const (
	OwnerKey = "workflow_path"
	linkKey  = "workflow_link"
	placeKey = "state_dir"
)

// OwnerPath returns the workflow that the state directory belongs to. It refuses the state of
// another workflow that exists, because a pass would release everything that the other
// workflow claimed. If the workflow was moved, its state still belongs to it.
func OwnerPath(ctx context.Context, p *Project, db *state.DB) (path string, err error) {
	path, known, err := db.Meta(ctx, OwnerKey)
	if err != nil || !known || path == p.Path {
		return path, err
	}
	if p.SourceErr != nil {
		return path, p.SourceErr // the missing workflow does not own this directory
	}
	if !Exists(path) || SameFile(path, p.Path) {
		return path, nil
	}
	return path, reconcile.NewError(
		"state_conflict",
		fmt.Sprintf("the state directory %s belongs to %s, not to %s", p.StateDir, path, p.Path),
		"each workflow needs its own state directory: "+
			"leave out --state-dir and SYMPHONY_STATE_DIR, or name another directory",
	)
}

// OwnsState reports whether a missing workflow may own its state directory: another path than the one
// that is recorded there is probably no workflow, but a word that was meant as something else.
func (p *Project) OwnsState() bool {
	if !errors.Is(p.SourceErr, fs.ErrNotExist) {
		return true
	}
	owner := ownerOf(p.StateDir)
	return owner == "" || owner == p.Path
}

// OriginalPath returns the path that the state directory had at the last pass. It refuses a
// copy whose original exists: the workers hold their locks in the original, so that a pass on
// the copy would take them for dead.
func OriginalPath(ctx context.Context, p *Project, db *state.DB) (path string, err error) {
	path, known, err := db.Meta(ctx, placeKey)
	if err != nil || !known {
		return path, err
	}
	theirs := filepath.Join(path, "state.db")
	if !Exists(theirs) || SameFile(theirs, filepath.Join(p.StateDir, "state.db")) {
		return path, nil
	}
	return path, reconcile.NewError(
		"state_conflict",
		fmt.Sprintf("the state directory %s is a copy of %s, which still exists", p.StateDir, path),
		"use "+path+", or move it away while no worker is running",
	)
}

// TakeOwnership records that the state directory belongs to this workflow.
func TakeOwnership(ctx context.Context, p *Project, db *state.DB) error {
	place, err := OriginalPath(ctx, p, db)
	if err != nil {
		return err
	}
	if place != p.StateDir {
		if err := db.SetMeta(ctx, placeKey, p.StateDir); err != nil {
			return err
		}
	}
	path, err := OwnerPath(ctx, p, db)
	if err != nil || p.SourceErr != nil {
		return err
	}
	if path != p.Path {
		if err := db.SetMeta(ctx, OwnerKey, p.Path); err != nil {
			return err
		}
	}
	link, _, err := db.Meta(ctx, linkKey)
	if err != nil || p.Named == p.Path || p.Named == link {
		return err
	}
	return db.SetMeta(ctx, linkKey, p.Named)
}

// CommandPatience is how long an operator's command waits for the project lock.
const CommandPatience = 10 * time.Second

// LockProject takes the lock of a project, which keeps passes out until release is called.
func LockProject(ctx context.Context, w *environ.Env, stateDir string) (release func() error, err error) {
	me := state.Holder{Trigger: TriggerCommand, Since: w.Now()}
	release, holder, err := state.Acquire(ctx, stateDir, me, CommandPatience, false)
	if err != nil {
		return nil, err
	}
	if holder != nil {
		NameHolder(stateDir, holder)
		return nil, LockedError(holder)
	}
	return release, nil
}

// LockedError is the error of a command that could not get the project lock in time.
func LockedError(h *state.Holder) *reconcile.Error {
	if h.Name != "" {
		return reconcile.NewError("locked", "the lock of the project is held by "+h.Name,
			"a worker ends what its agent holds within 20 s: try again, or end that process")
	}
	return reconcile.NewError(
		"locked",
		"another pass holds the lock: "+h.String(),
		"try again when it has ended",
	)
}

// unlistedKey is set in the database of a project that RegisterProject leaves out.
const unlistedKey = "unlisted"

// KeepUnlisted keeps the project of a demo out of the lists of the account for good.
func KeepUnlisted(ctx context.Context, db *state.DB) error {
	return db.SetMeta(ctx, unlistedKey, "yes")
}

// IsUnlisted reports whether the project is a demo's, which needs no schedule.
func IsUnlisted(ctx context.Context, db *state.DB) (bool, error) {
	_, unlisted, err := db.Meta(ctx, unlistedKey)
	return unlisted, err
}

// RegisterProject records a state directory that is not in the default place, so that symphony
// projects finds it.
func RegisterProject(ctx context.Context, p *Project, db *state.DB) error {
	unlisted, err := IsUnlisted(context.WithoutCancel(ctx), db) // after a signal, too
	if err != nil || unlisted {
		return err
	}
	base, _ := p.Lookup("XDG_STATE_HOME")
	home := filepath.Dir(state.DefaultDir(base, p.Env.Home, p.Path))
	if filepath.Dir(p.StateDir) == home {
		return nil
	}
	return state.RegisterDir(home, p.StateDir)
}

// StateHome is the default place for the account's state directories.
func StateHome(w *environ.Env) string {
	return filepath.Dir(state.DefaultDir(w.Getenv("XDG_STATE_HOME"), w.Home, "/WORKFLOW.md"))
}

// AgentsDir is the state directory of agents without an issue, beside the projects' directories.
func AgentsDir(w *environ.Env) string { return state.AgentsDir(w.Getenv("XDG_STATE_HOME"), w.Home) }

// aside are the endings of state directories that were moved away to start over, as hints advise.
// Such a directory belongs to no project any more.
var aside = []string{".old", ".aside"}

// StateDirs lists the state directories of the account's projects.
func StateDirs(w *environ.Env) ([]string, error) {
	var named []string
	if dir := w.Getenv("SYMPHONY_STATE_DIR"); dir != "" {
		named = append(named, w.Absolute(dir))
	}
	return stateDirsOf(StateHome(w), named...)
}

// stateDirsOf lists the state directories of the account with a StateHome, and of those in more.
func stateDirsOf(base string, more ...string) ([]string, error) {
	dirs, err := state.RegisteredDirs(base)
	if err != nil {
		return nil, err
	}
	dirs = append(dirs, more...)
	entries, err := os.ReadDir(base)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the account's state directories: %w", err)
	}
	for _, e := range entries {
		dir := filepath.Join(base, e.Name())
		if !state.IsAgentsDir(dir) && !slices.Contains(aside, filepath.Ext(dir)) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return slices.DeleteFunc(slices.Compact(dirs), func(dir string) bool {
		// A directory without read permission is listed with its error.
		_, err := os.Stat(filepath.Join(dir, "state.db"))
		return err != nil && !errors.Is(err, fs.ErrPermission) && !Exists(filepath.Join(dir, "runs"))
	}), nil
}

// AllProjects opens all projects of the account.
func AllProjects(w *environ.Env) ([]*Project, error) {
	dirs, err := StateDirs(w)
	if err != nil {
		return nil, err
	}
	return text.Map(dirs, func(dir string) *Project {
		// A state directory contains no workflow: readers find the workflow that owns it.
		return NewProject(w, filepath.Join(dir, "WORKFLOW.md"), dir)
	}), nil
}
