package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/reconcile/workflow"
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
	row, spaces, err := w.lookOver(ctx, row, o)
	if err != nil {
		return err
	}
	if err := w.tellRemoval(row, spaces, o); err != nil {
		return err
	}
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
	if row, spaces, err = w.lookOver(ctx, row, o); err != nil {
		return err // who was asked may have worked there before answering
	}
	return w.takeAway(context.WithoutCancel(ctx), row, spaces, o)
}

// lookOver finds the workspaces of a project, and refuses where they may not go and shall.
func (w *world) lookOver(ctx context.Context, row projectState, o removal) (projectState, []space, error) {
	row = w.projectState(ctx, row.StateDir)
	// The runs go before the database: without them this is a removal that was cut off.
	if row.Error != nil && o.workspaces && exists(filepath.Join(row.StateDir, "runs")) {
		return row, nil, &reconcile.Error{
			Code: row.Error.Code, Message: row.Error.Message + "; where its workspaces are is not known",
			Hint: "mend it first (symphony doctor), or leave --workspaces out and remove them by hand",
		}
	}
	spaces, err := w.spacesOf(ctx, row)
	if err == nil && o.workspaces {
		err = removable(spaces, o.force)
	}
	return row, spaces, err
}

// projectAt finds the project that a path means: a workflow, its folder or a state directory.
func (w *world) projectAt(ctx context.Context, path string) (projectState, error) {
	rows, err := w.knownProjects(ctx)
	if err != nil {
		return projectState{}, err
	}
	path = resolve(w.absolute(path))
	var meant []projectState
	for _, r := range rows {
		if path == resolve(r.StateDir) {
			return r, nil
		}
		if path == r.WorkflowPath || r.WorkflowPath != "" && path == filepath.Dir(r.WorkflowPath) {
			meant = append(meant, r)
		}
	}
	if len(meant) > 1 {
		var dirs []string
		for _, r := range meant {
			dirs = append(dirs, r.StateDir)
		}
		return projectState{}, usageError("projects: remove: %s means several projects: give the state directory of one, %s", path, strings.Join(dirs, " or "))
	}
	if len(meant) == 1 {
		return meant[0], nil
	}
	// One that this account has not listed, or what a removal left that was cut off. Whatever else has such files is not ours.
	row := w.projectState(ctx, path)
	listed, err := w.isListed(path)
	if err != nil || listed || row.Error == nil && row.WorkflowPath != "" {
		return row, err
	}
	return projectState{}, &reconcile.Error{
		Code: "unknown_project", Message: path + " is no project of this account",
		Hint: "symphony projects lists them; give the WORKFLOW.md or the state directory",
	}
}

// isListed reports whether a folder is where the account has its state directories, or written down as one, and holds what
// symphony makes there, or nothing at all.
func (w *world) isListed(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 && !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return slices.Contains(stateFiles, e.Name()) }) {
		return false, nil //nolint:nilerr // nothing is there, or nothing that can be told to be ours
	}
	home := w.stateHome()
	elsewhere, err := state.Elsewhere(home)
	return filepath.Dir(dir) == resolve(home) || slices.ContainsFunc(elsewhere, func(e string) bool { return resolve(e) == dir }), err
}

// unused refuses a project of which something runs, or is about to.
func (w *world) unused(ctx context.Context, row projectState) error {
	p := &project{w: w, path: row.WorkflowPath, stateDir: row.StateDir}
	which := "--state-dir " + shellQuote(row.StateDir)
	if row.WorkflowPath != "" {
		which = "-w " + shellQuote(row.WorkflowPath) + " " + which
	}
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
func (w *world) tellRemoval(row projectState, spaces []space, o removal) error {
	out := w.stdout
	if w.json {
		out = w.stderr
	}
	fmt.Fprintln(out, visible("goes   "+row.StateDir))
	if env := w.envFileOf(row); exists(env) {
		others, err := w.envSharers(row)
		switch {
		case err != nil:
			return err
		case len(others) > 0:
			fmt.Fprintln(out, visible("stays  "+env+", which "+strings.Join(others, ", ")+" has, too"))
		default:
			fmt.Fprintln(out, visible("goes   "+env))
		}
	}
	for _, s := range spaces {
		word := "stays "
		if o.workspaces {
			word = "goes  "
		}
		fmt.Fprintln(out, visible(word+" "+s.rec.Path+s.remark()))
	}
	if row.Error != nil && exists(filepath.Join(row.StateDir, "runs")) {
		fmt.Fprintln(out, visible("stays  what its workspace roots hold, which can't be known: "+row.Error.Message))
	}
	if row.WorkflowExists {
		fmt.Fprintln(out, visible("stays  "+row.WorkflowPath))
	}
	fmt.Fprintln(out, "stays  what codex keeps of its threads, in its own home")
	return nil
}

func (w *world) envFileOf(row projectState) string {
	return workflow.EnvFilePath(w.getenv("XDG_CONFIG_HOME"), w.home, filepath.Base(row.StateDir))
}

// envSharers are other state directories of the same name: the environment file is theirs as well.
func (w *world) envSharers(row projectState) ([]string, error) {
	dirs, err := w.stateDirs()
	return slices.DeleteFunc(dirs, func(dir string) bool {
		return dir == row.StateDir || filepath.Base(dir) != filepath.Base(row.StateDir)
	}), err
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
		if err := w.leaveRoot(ctx, path, row.StateDir, o.workspaces); err != nil {
			return workspaceError(err)
		}
	}
	crash.At("projects.remove.roots")
	if err := w.removeEnvFile(row); err != nil {
		return err
	}
	crash.At("projects.remove.env")
	left, err := removeState(row.StateDir)
	if err != nil {
		return err
	}
	if err := state.Delist(w.stateHome()); err != nil {
		return err
	}
	if err := w.leaveAccount(); err != nil {
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
