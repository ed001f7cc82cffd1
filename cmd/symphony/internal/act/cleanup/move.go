package cleanup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/schedule"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// Codes of errors.
const (
	codeBusy     = "project_busy" // a worker or a schedule uses the project
	codeUnknown  = "not_found"
	codeNotMoved = "not_possible"
)

// MovedJSON is the output of projects move --json.
type MovedJSON struct {
	From            string `json:"from"` // the old path of WORKFLOW.md
	WorkflowPath    string `json:"workflow_path"`
	StateDir        string `json:"state_dir"`
	EnvironmentFile string `json:"environment_file"` // it need not exist
	// Schedule lists the changes of the schedule. Named tells which schedule runs passes and
	// still names the old path, with the next step.
	Schedule schedule.Changes `json:"-"`
	Named    string           `json:"-"`
}

// mover is a call of symphony projects move.
type mover struct {
	w        *environ.Env
	old, new string // the paths of WORKFLOW.md
	// the state directories, which are the same if the project's was named by the operator
	from, to string
}

// MoveProject adapts a project to the new path of its WORKFLOW.md, which the operator moved:
// it renames the state directory and environment file to match the path, and installs the
// schedule again. An interrupted move can be repeated. If only the schedule fails, MoveProject
// returns the moved files with the error.
func MoveProject(ctx context.Context, w *environ.Env, old, path string) (moved MovedJSON, err error) {
	m := &mover{w: w}
	if err := m.find(ctx, old, path); err != nil {
		return moved, err
	}
	if err := m.check(ctx); err != nil {
		return moved, err
	}
	release, err := wiring.LockProject(ctx, w, m.from)
	if err != nil {
		return moved, err
	}
	// it fails if the directory was moved, and then ends with this process
	defer func() { _ = release() }()
	if err := m.check(ctx); err != nil { // a pass may have started a worker
		return moved, err
	}
	if err := m.move(context.WithoutCancel(ctx)); err != nil {
		return moved, err
	}
	moved = MovedJSON{
		From:            m.old,
		WorkflowPath:    m.new,
		StateDir:        m.to,
		EnvironmentFile: envFile(m.w, m.to),
	}
	moved.Schedule, moved.Named, err = m.moveSchedule(ctx)
	return moved, err
}

// find finds the project. After an interrupted move it may have its new path already.
func (m *mover) find(ctx context.Context, old, path string) error {
	m.old = paths.Real(m.w.Absolute(old))
	m.new = paths.Real(m.w.Absolute(path))
	if info, err := os.Stat(m.new); err == nil && info.IsDir() {
		m.new = filepath.Join(m.new, "WORKFLOW.md")
	}
	if !wiring.Exists(m.new) {
		return reconcile.NewError(workflow.CodeMissingFile, "there is no "+m.new,
			"move WORKFLOW.md or its folder first")
	}
	row, err := findProject(ctx, m.w, "move", old)
	if row.WorkflowPath == m.new { // OLD names the state directory
		return exit.Usage("projects: move: %s is a project of %s already", row.StateDir, m.new)
	}
	switch {
	case err != nil && exit.From(err).Code == codeUnknown:
		return m.findMoved(ctx, err)
	case err != nil:
		return err
	case row.Error != nil:
		return row.Error
	case row.WorkflowPath == "":
		return reconcile.NewError(codeUnknown, "no pass has recorded the workflow of "+row.StateDir,
			"run symphony tick --state-dir "+text.ShellQuote(row.StateDir))
	case row.WorkflowExists && !wiring.SameFile(row.WorkflowPath, m.new):
		return reconcile.NewError(
			codeNotMoved,
			row.WorkflowPath+" still exists",
			"move it to "+m.new+" first; a copy is another project",
		)
	}
	m.old = row.WorkflowPath
	m.from = row.StateDir
	m.to = row.StateDir
	if m.from == m.defaultDir(m.old) {
		m.to = m.defaultDir(m.new)
	}
	return nil
}

// findMoved finds the project by its new path: a pass with --state-dir recorded it, or a move
// was interrupted before the schedule was installed. Otherwise it returns err.
func (m *mover) findMoved(ctx context.Context, err error) error {
	if filepath.Ext(m.old) == "" { // the folder
		m.old = filepath.Join(m.old, filepath.Base(m.new))
	}
	oldDir := m.defaultDir(m.old)
	if readState(ctx, m.w, oldDir).WorkflowPath == m.new {
		m.from = oldDir
		m.to = m.defaultDir(m.new)
		return nil
	}
	moved, newErr := findProject(ctx, m.w, "move", m.new)
	if newErr != nil || !schedule.Installed(ctx, wiring.NewProject(m.w, m.old, "")) {
		return err
	}
	m.from = moved.StateDir
	m.to = moved.StateDir
	return nil
}

// defaultDir is the state directory of a workflow for which the operator names none.
func (m *mover) defaultDir(path string) string {
	return state.DefaultDir(m.w.Getenv("XDG_STATE_HOME"), m.w.Home, path)
}

// check refuses a project that is in use, and a new path that another project used.
func (m *mover) check(ctx context.Context) error {
	hint := "wait for them, or stop them: symphony stop --all --state-dir " +
		text.ShellQuote(m.from) + " -w " + text.ShellQuote(m.new)
	if err := refuseBusy(wiring.NewProject(m.w, m.new, m.from), hint); err != nil {
		return err
	}
	if err := readState(ctx, m.w, m.from).refuseUnverified(); err != nil {
		return err
	}
	from := envFile(m.w, m.from)
	to := envFile(m.w, m.to)
	if from != to && wiring.Exists(from) && wiring.Exists(to) {
		return reconcile.NewError(
			codeNotMoved,
			from+" and "+to+" both exist",
			"keep the right lines in the first and remove the second",
		)
	}
	return nil
}

// move does the moving. Each step can be repeated: the project is found by its old path until
// the last step.
func (m *mover) move(ctx context.Context) error {
	if m.from != m.to {
		if err := m.clear(ctx); err != nil {
			return err
		}
		err := os.Rename(envFile(m.w, m.from), envFile(m.w, m.to))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("move the environment file: %w", err)
		}
		if err := os.Rename(m.from, m.to); err != nil {
			return fmt.Errorf("move the state directory: %w", err)
		}
	}
	db, err := state.Open(ctx, m.to)
	if err != nil {
		return err
	}
	return errors.Join(wiring.GiveTo(ctx, db, m.old, m.new, m.from, m.to), db.Close())
}

// clear removes the state directory that passes made for the new path before they were
// refused. It keeps a directory with runs.
func (m *mover) clear(ctx context.Context) (err error) {
	if !wiring.Exists(m.to) {
		return nil
	}
	release, err := wiring.LockProject(ctx, m.w, m.to)
	if err != nil {
		return err
	}
	defer func() { _ = release() }() // it fails if the lock file was removed
	has, err := hasRuns(ctx, m.to)
	if err != nil {
		return err
	}
	if has {
		return reconcile.NewError(
			codeNotMoved,
			m.new+" has runs of its own, in "+m.to,
			"remove that project first: symphony projects remove "+text.ShellQuote(m.to),
		)
	}
	left, err := removeState(m.to)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return reconcile.NewError(
			codeNotMoved,
			m.to+" contains "+strings.Join(left, ", ")+", which symphony did not make",
			"move that away",
		)
	}
	return nil
}

// hasRuns reports whether a state directory contains runs. The database may be missing.
func hasRuns(ctx context.Context, stateDir string) (has bool, err error) {
	db, err := state.OpenReadOnly(ctx, stateDir)
	if errors.Is(err, state.ErrNoState) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.Newer(); err != nil {
		return false, err
	}
	runs, err := db.Runs.Recent(ctx, 1)
	return len(runs) > 0, err
}

// moveSchedule installs the schedule of the old path for the new path. named is a schedule
// that runs passes for the old path and was not written by schedule install.
func (m *mover) moveSchedule(ctx context.Context) (changes schedule.Changes, named string, err error) {
	stateDir := ""
	if m.to != m.defaultDir(m.new) {
		stateDir = m.to
	}
	old := wiring.NewProject(m.w, m.old, stateDir)
	changes, err = schedule.Move(ctx, old, wiring.NewProject(m.w, m.new, stateDir))
	if err != nil {
		return changes, "", err
	}
	old.StateDir = m.defaultDir(m.old)
	what, hint := schedule.Running(ctx, old, "")
	if what != "" {
		named = what + " still names " + m.old + ": " + hint
	}
	return changes, named, nil
}
