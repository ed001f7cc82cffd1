package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// projectState is one project of the account as projects shows it.
type projectState struct {
	StateDir       string     `json:"state_dir"`
	WorkflowPath   string     `json:"workflow_path"`
	WorkflowExists bool       `json:"workflow_exists"`
	Schedule       bool       `json:"schedule_active"`
	Paused         bool       `json:"paused"`
	Running        int        `json:"running"`
	Retrying       int        `json:"retrying"`
	Held           int        `json:"held"`
	LastPass       *time.Time `json:"last_pass_at"`
	// Roots are the workspace roots that it has worked in, the present one first.
	Roots []string `json:"workspace_roots"`
	// Error says why the rest is not known.
	Error *term.ErrorJSON `json:"error"`
}

// knownProjects finds every project of the account: below the usual place of state directories, and those elsewhere that
// passes have written down there.
func knownProjects(ctx context.Context, w *term.Env) ([]projectState, error) {
	dirs, err := stateDirs(w)
	if err != nil {
		return nil, err
	}
	var rows []projectState
	for _, dir := range dirs {
		rows = append(rows, readProjectState(ctx, w, dir))
	}
	slices.SortFunc(rows, func(a, b projectState) int {
		return strings.Compare(a.WorkflowPath+"\x00"+a.StateDir, b.WorkflowPath+"\x00"+b.StateDir)
	})
	return rows, nil
}

// stateDirs lists the state directories of the account.
func stateDirs(w *term.Env) ([]string, error) {
	base := stateHome(w)
	entries, err := os.ReadDir(base)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the account's state directories: %w", err)
	}
	var dirs []string
	for _, e := range entries {
		dir := filepath.Join(base, e.Name())
		if e.IsDir() && (project.Exists(filepath.Join(dir, "state.db")) || project.Exists(filepath.Join(dir, "runs"))) {
			dirs = append(dirs, dir)
		}
	}
	elsewhere, err := state.Elsewhere(base)
	if err != nil {
		return nil, err
	}
	if named := w.Getenv("SYMPHONY_STATE_DIR"); named != "" {
		elsewhere = append(elsewhere, w.Absolute(named))
	}
	for _, dir := range elsewhere {
		// One that may not be looked into is listed, and says so.
		if _, err := os.Stat(filepath.Join(dir, "state.db")); (err == nil || errors.Is(err, fs.ErrPermission)) && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// stateHome is the folder of the account's state directories.
func stateHome(w *term.Env) string {
	return filepath.Dir(state.DefaultDir(w.Getenv("XDG_STATE_HOME"), w.Home, "/WORKFLOW.md"))
}

func readProjectState(ctx context.Context, w *term.Env, dir string) projectState {
	row := projectState{StateDir: dir, Roots: []string{}}
	if err := row.read(ctx, w); err != nil {
		e := exit.From(err)
		row.Error = new(term.ErrorOf(e))
	}
	return row
}

func (r *projectState) read(ctx context.Context, w *term.Env) (err error) {
	db, err := state.OpenReadOnly(ctx, r.StateDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if r.WorkflowPath, _, err = db.Meta(ctx, project.OwnerKey); err != nil {
		return err
	}
	r.WorkflowExists = r.WorkflowPath != "" && project.Exists(r.WorkflowPath)
	if r.Roots, err = rootsOf(ctx, db); err != nil {
		return err
	}
	rec, err := db.State(ctx)
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
	last, any, err := db.LastPass(ctx)
	if err != nil {
		return err
	}
	if any {
		at := last.StartedAt.UTC()
		r.LastPass = &at
	}
	r.Schedule, err = project.ScheduleAlive(ctx, db, w.Now())
	r.Schedule = r.Schedule || project.Looping(r.StateDir)
	return err
}

// rootsOf are the workspace roots that a project has worked in, the present one first.
func rootsOf(ctx context.Context, db *state.DB) ([]string, error) {
	roots := []string{}
	text, known, err := db.Meta(ctx, project.RootsKey)
	if err == nil && known {
		err = json.Unmarshal([]byte(text), &roots)
	}
	if err != nil {
		return []string{}, fmt.Errorf("%s: %w", project.RootsKey, err)
	}
	return roots, nil
}

// enlist writes a state directory down that is not at the usual place, so that projects finds it.
func enlist(p *project.Project) error {
	base, _ := p.Lookup("XDG_STATE_HOME")
	home := filepath.Dir(state.DefaultDir(base, p.Env.Home, p.Path))
	if filepath.Dir(p.StateDir) == home {
		return nil
	}
	return state.Enlist(home, p.StateDir)
}
