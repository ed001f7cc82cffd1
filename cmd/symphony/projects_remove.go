package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/workspace"
	"github.com/symphony-cron/symphony/state"
)

// removal says what goes with a project.
type removal struct{ workspaces, force, yes bool }

// removeProject forgets one project of the account.
func (w *world) removeProject(ctx context.Context, path string, o removal) error {
	row, err := w.projectAt(ctx, path)
	if err != nil {
		return err
	}
	if err := w.unused(ctx, row); err != nil {
		return err
	}
	spaces, err := w.spacesOf(ctx, row)
	if err != nil {
		return err
	}
	if o.workspaces {
		if err := removable(spaces, o.force); err != nil {
			return err
		}
	}
	w.tellRemoval(row, spaces, o)
	if !o.yes {
		if sure, err := w.sure(ctx, "Remove? [y]es, [N]o: "); err != nil || !sure {
			return err
		}
	}
	release, holder, err := state.Acquire(ctx, row.StateDir, state.Holder{PID: os.Getpid(), Trigger: triggerCommand, Since: w.now()}, commandPatience)
	switch {
	case err != nil:
		return err
	case holder != nil:
		return lockedError(holder)
	}
	defer func() { _ = release() }() // its file is gone by then
	if err := w.unused(ctx, row); err != nil {
		return err // somebody has been quicker
	}
	return w.takeAway(context.WithoutCancel(ctx), row, spaces, o)
}

// projectAt finds the project that a path means: a workflow, its folder or a state directory.
func (w *world) projectAt(ctx context.Context, path string) (projectState, error) {
	rows, err := w.knownProjects(ctx)
	if err != nil {
		return projectState{}, err
	}
	path = resolve(w.absolute(path))
	for _, r := range rows {
		if path == r.WorkflowPath || path == resolve(r.StateDir) || r.WorkflowPath != "" && path == filepath.Dir(r.WorkflowPath) {
			return r, nil
		}
	}
	if exists(filepath.Join(path, "state.db")) || exists(filepath.Join(path, "lock")) { // or what a removal left that was cut off
		return w.projectState(ctx, path), nil
	}
	return projectState{}, &reconcile.Error{
		Code: "unknown_project", Message: path + " is no project of this account",
		Hint: "symphony projects lists them; give the WORKFLOW.md or the state directory",
	}
}

// unused refuses a project of which something runs, or is about to.
func (w *world) unused(ctx context.Context, row projectState) error {
	p := &project{w: w, path: row.WorkflowPath, stateDir: row.StateDir}
	which := "-w " + shellQuote(row.WorkflowPath) + " --state-dir " + shellQuote(row.StateDir)
	if living := p.living(); len(living) > 0 {
		return &reconcile.Error{
			Code: "project_busy", Message: fmt.Sprintf("%s of %s: run %s", plural(len(living), "living worker"), row.StateDir, strings.Join(living, ", ")),
			Hint: "end them first: symphony stop --all " + which,
		}
	}
	if looping(row.StateDir) {
		return &reconcile.Error{
			Code: "project_busy", Message: "symphony tick --loop runs on " + row.StateDir, Hint: "end it first (SIGINT)",
		}
	}
	return w.unscheduled(ctx, p, which)
}

// unscheduled refuses a project that a schedule of ours would begin anew, or a line that somebody has written into their
// crontab. Recent passes alone refuse nothing: they are those of the schedule that was removed a moment ago.
func (w *world) unscheduled(ctx context.Context, p *project, which string) error {
	there, err := p.installed(ctx)
	if err != nil {
		return err
	}
	if len(there.units) > 0 || there.line != "" {
		return &reconcile.Error{
			Code: "project_busy", Message: "a schedule runs passes on " + p.stateDir,
			Hint: "take it out first: symphony schedule remove " + which,
		}
	}
	if !w.hasCrontab() {
		return nil
	}
	text, err := w.crontab(ctx)
	if err != nil {
		return nil // an account may not have one
	}
	for line := range strings.Lines(text) {
		ours := p.path != "" && strings.Contains(line, p.path) || strings.Contains(line, p.stateDir)
		if ours && strings.Contains(line, "symphony") && !strings.HasPrefix(strings.TrimSpace(line), "#") {
			return &reconcile.Error{
				Code: "project_busy", Message: "a line of your crontab runs passes on " + p.stateDir + ": " + strings.TrimSpace(line),
				Hint: "take it out first: crontab -e",
			}
		}
	}
	return nil
}

// tellRemoval says what goes and what stays.
func (w *world) tellRemoval(row projectState, spaces []space, o removal) {
	out := w.stdout
	if w.json {
		out = w.stderr
	}
	fmt.Fprintln(out, visible("goes   "+row.StateDir))
	if env := w.envFileOf(row); exists(env) {
		fmt.Fprintln(out, visible("goes   "+env))
	}
	for _, s := range spaces {
		word := "stays "
		if o.workspaces {
			word = "goes  "
		}
		fmt.Fprintln(out, visible(word+" "+s.rec.Path+s.remark()))
	}
	if row.WorkflowExists {
		fmt.Fprintln(out, visible("stays  "+row.WorkflowPath))
	}
	fmt.Fprintln(out, "stays  what codex keeps of its threads, in its own home")
}

func (w *world) envFileOf(row projectState) string {
	return workflow.EnvFilePath(w.getenv("XDG_CONFIG_HOME"), w.home, filepath.Base(row.StateDir))
}

// takeAway removes a project, its database last: cut off in the middle, the rest is still known by it and the command
// can be repeated.
func (w *world) takeAway(ctx context.Context, row projectState, spaces []space, o removal) error {
	if o.workspaces {
		for _, s := range spaces {
			if err := s.delete(ctx, w.now()); err != nil {
				return workspaceError(err)
			}
		}
	}
	for _, path := range row.Roots {
		if err := leaveRoot(ctx, path, row.StateDir, o.workspaces); err != nil {
			return workspaceError(err)
		}
	}
	crash.At("projects.remove.roots")
	if err := os.Remove(w.envFileOf(row)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("environment file: %w", err)
	}
	crash.At("projects.remove.env")
	left, err := removeState(row.StateDir)
	if err != nil {
		return err
	}
	if err := state.Delist(w.stateHome()); err != nil {
		return err
	}
	if w.json {
		w.printJSON(map[string]any{"removed": row.StateDir, "left": append([]string{}, left...)})
		return nil
	}
	for _, name := range left {
		fmt.Fprintln(w.stdout, visible("stays  "+filepath.Join(row.StateDir, name)+", which is not symphony's"))
	}
	fmt.Fprintln(w.stdout, visible("removed "+row.StateDir))
	return nil
}

// leaveRoot lets go of what a root says of the project.
func leaveRoot(ctx context.Context, path, stateDir string, dissolve bool) error {
	root, found, err := workspace.FindRoot(path)
	if err == nil && !found && dissolve {
		_ = os.Remove(path) // the last step of a removal that was cut off; what is not empty stays
	}
	if err != nil || !found {
		return err
	}
	if _, err := root.UnclaimProjects(stateDir); err != nil || !dissolve {
		return err
	}
	_, err = root.Dissolve(ctx)
	return err
}

// stateFiles are what symphony makes in a state directory, in the order in which it goes.
var stateFiles = []string{
	"runs", "codex-check", "attention.log", "attention.tree", "launch.lock", "loop.lock", "lock.waiter",
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
func (w *world) sure(ctx context.Context, prompt string) (bool, error) {
	if !w.onTerminal() {
		return false, &reconcile.Error{
			Code: "not_a_terminal", Message: "nobody is there to ask", Hint: "give --yes where you are sure",
		}
	}
	answer, err := w.askLine(ctx, prompt, false)
	if err != nil {
		return false, err
	}
	if yes := strings.ToLower(strings.TrimSpace(answer)); yes != "y" && yes != "yes" {
		fmt.Fprintln(w.stderr, "symphony: nothing is done")
		return false, nil
	}
	return true, nil
}
