package project

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Known is one project of the account, as the command projects lists it.
type Known struct {
	StateDir       string     `json:"state_dir"`
	WorkflowPath   string     `json:"workflow_path"`
	WorkflowExists bool       `json:"workflow_exists"`
	Schedule       bool       `json:"schedule_active"`
	Paused         bool       `json:"paused"`
	Running        int        `json:"running"`
	Retrying       int        `json:"retrying"`
	Held           int        `json:"held"`
	LastPass       *time.Time `json:"last_pass_at"`
	// Roots are the workspace roots that the project has used, the present one first.
	Roots []string `json:"workspace_roots"`
	// Error says why the database can't be read.
	Error *reconcile.Error `json:"error"`
}

// KnownProjects finds every project of the account: below the usual folder of state directories, and those elsewhere that
// passes have registered.
func KnownProjects(ctx context.Context, w *term.Env) ([]Known, error) {
	dirs, err := StateDirs(w)
	if err != nil {
		return nil, err
	}
	var rows []Known
	for _, dir := range dirs {
		rows = append(rows, ReadState(ctx, w, dir))
	}
	slices.SortFunc(rows, func(a, b Known) int {
		return strings.Compare(a.WorkflowPath+"\x00"+a.StateDir, b.WorkflowPath+"\x00"+b.StateDir)
	})
	return rows, nil
}

// StateDirs lists the state directories of the account.
func StateDirs(w *term.Env) ([]string, error) {
	base := StateHome(w)
	entries, err := os.ReadDir(base)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the account's state directories: %w", err)
	}
	var dirs []string
	for _, e := range entries {
		dir := filepath.Join(base, e.Name())
		if e.IsDir() && (Exists(filepath.Join(dir, "state.db")) || Exists(filepath.Join(dir, "runs"))) {
			dirs = append(dirs, dir)
		}
	}
	elsewhere, err := state.RegisteredDirs(base)
	if err != nil {
		return nil, err
	}
	if named := w.Getenv("SYMPHONY_STATE_DIR"); named != "" {
		elsewhere = append(elsewhere, w.Absolute(named))
	}
	for _, dir := range elsewhere {
		// A directory without permission to look into is listed with its error.
		if _, err := os.Stat(filepath.Join(dir, "state.db")); (err == nil || errors.Is(err, fs.ErrPermission)) && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// StateHome is the folder of the account's state directories.
func StateHome(w *term.Env) string {
	return filepath.Dir(state.DefaultDir(w.Getenv("XDG_STATE_HOME"), w.Home, "/WORKFLOW.md"))
}

// ReadState reads the state of one project. Its Error says what can't be read.
func ReadState(ctx context.Context, w *term.Env, dir string) Known {
	row := Known{StateDir: dir, Roots: []string{}}
	if err := row.read(ctx, w); err != nil {
		row.Error = exit.From(err)
	}
	return row
}

func (r *Known) read(ctx context.Context, w *term.Env) (err error) {
	db, err := state.OpenReadOnly(ctx, r.StateDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if r.WorkflowPath, _, err = db.Meta(ctx, OwnerKey); err != nil {
		return err
	}
	r.WorkflowExists = r.WorkflowPath != "" && Exists(r.WorkflowPath)
	if r.Roots, err = RootsOf(ctx, db); err != nil {
		return err
	}
	rec, err := db.Store.State(ctx)
	if err != nil {
		return err
	}
	r.Paused = rec.Paused
	for _, c := range rec.Claims {
		switch c.Status {
		case reconcile.Running:
			r.Running++
		case reconcile.Held:
			r.Held++
		default:
			r.Retrying++
		}
	}
	last, err := LastPass(ctx, db)
	if err != nil {
		return err
	}
	if last != nil {
		r.LastPass = &last.StartedAt
	}
	r.Schedule, err = ScheduleAlive(ctx, db, w.Now())
	r.Schedule = r.Schedule || Looping(r.StateDir)
	return err
}

// Register records a state directory at an unusual place, so that KnownProjects finds it.
func Register(p *Project) error {
	base, _ := p.Lookup("XDG_STATE_HOME")
	home := filepath.Dir(state.DefaultDir(base, p.Env.Home, p.Path))
	if filepath.Dir(p.StateDir) == home {
		return nil
	}
	return state.RegisterDir(home, p.StateDir)
}
