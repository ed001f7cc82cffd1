package cleanup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/schedule"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// removal says what goes with a project.
type RemoveOptions struct{ Workspaces, Force, Yes bool }

// removeProject forgets one project of the account.
func RemoveProject(ctx context.Context, w *term.Env, path string, o RemoveOptions) error {
	row, err := projectAt(ctx, w, path)
	if err != nil {
		return err
	}
	if err := unused(ctx, w, row); err != nil {
		return err
	}
	row, spaces, err := lookOver(ctx, w, row, o)
	if err != nil {
		return err
	}
	if err := tellRemoval(w, row, spaces, o); err != nil {
		return err
	}
	if !o.Yes {
		if sure, err := Confirm(ctx, w, "Remove? [y]es, [N]o: "); err != nil || !sure {
			return err
		}
	}
	release, holder, err := state.Acquire(ctx, row.StateDir, state.Holder{PID: os.Getpid(), Trigger: project.TriggerCommand, Since: w.Now()}, project.CommandPatience)
	switch {
	case err != nil:
		return err
	case holder != nil:
		return project.LockedError(holder)
	}
	defer func() { _ = release() }() // its file is gone by then
	if err := unused(ctx, w, row); err != nil {
		return err // somebody has been quicker
	}
	if row, spaces, err = lookOver(ctx, w, row, o); err != nil {
		return err // who was asked may have worked there before answering
	}
	return takeAway(context.WithoutCancel(ctx), w, row, spaces, o)
}

// lookOver finds the workspaces of a project, and refuses where they may not go and shall.
func lookOver(ctx context.Context, w *term.Env, row project.State, o RemoveOptions) (project.State, []space, error) {
	row = project.ReadState(ctx, w, row.StateDir)
	// The runs go before the database: without them this is a removal that was cut off.
	if row.Error != nil && o.Workspaces && project.Exists(filepath.Join(row.StateDir, "runs")) {
		return row, nil, &reconcile.Error{
			Code: row.Error.Code, Message: row.Error.Message + "; where its workspaces are is not known",
			Hint: "mend it first (symphony doctor), or leave --workspaces out and remove them by hand",
		}
	}
	spaces, err := spacesOf(ctx, w, row)
	if err == nil && o.Workspaces {
		err = removable(spaces, o.Force)
	}
	return row, spaces, err
}

// projectAt finds the project that a path means: a workflow, its folder or a state directory.
func projectAt(ctx context.Context, w *term.Env, path string) (project.State, error) {
	rows, err := project.KnownProjects(ctx, w)
	if err != nil {
		return project.State{}, err
	}
	path = project.Resolve(w.Absolute(path))
	var meant []project.State
	for _, r := range rows {
		if path == project.Resolve(r.StateDir) {
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
		return project.State{}, exit.Usage("projects: remove: %s means several projects: give the state directory of one, %s", path, strings.Join(dirs, " or "))
	}
	if len(meant) == 1 {
		return meant[0], nil
	}
	// One that this account has not listed, or what a removal left that was cut off. Whatever else has such files is not ours.
	row := project.ReadState(ctx, w, path)
	listed, err := projectListed(w, path)
	if err != nil || listed || row.Error == nil && row.WorkflowPath != "" {
		return row, err
	}
	return project.State{}, &reconcile.Error{
		Code: "unknown_project", Message: path + " is no project of this account",
		Hint: "symphony projects lists them; give the WORKFLOW.md or the state directory",
	}
}

// isListed reports whether a folder is where the account has its state directories, or written down as one, and holds what
// symphony makes there, or nothing at all.
func projectListed(w *term.Env, dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 && !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return slices.Contains(stateFiles, e.Name()) }) {
		return false, nil //nolint:nilerr // nothing is there, or nothing that can be told to be ours
	}
	home := project.StateHome(w)
	elsewhere, err := state.RegisteredDirs(home)
	return filepath.Dir(dir) == project.Resolve(home) || slices.ContainsFunc(elsewhere, func(e string) bool { return project.Resolve(e) == dir }), err
}

// unused refuses a project of which something runs, or is about to.
func unused(ctx context.Context, w *term.Env, row project.State) error {
	p := &project.Project{Env: w, Path: row.WorkflowPath, StateDir: row.StateDir}
	which := "--state-dir " + term.ShellQuote(row.StateDir)
	if row.WorkflowPath != "" {
		which = "-w " + term.ShellQuote(row.WorkflowPath) + " " + which
	}
	if living := project.LivingRuns(p); len(living) > 0 {
		return &reconcile.Error{
			Code: "project_busy", Message: fmt.Sprintf("%s of %s: run %s", text.Plural(len(living), "living worker"), row.StateDir, strings.Join(living, ", ")),
			Hint: "end them first: symphony stop --all " + which,
		}
	}
	if project.Looping(row.StateDir) {
		return &reconcile.Error{
			Code: "project_busy", Message: "symphony tick --loop runs on " + row.StateDir, Hint: "end it first (SIGINT)",
		}
	}
	return unscheduled(ctx, w, p, which)
}

// unscheduled refuses a project that a schedule of ours would begin anew, or a line that somebody has written into their
// crontab. Recent passes alone refuse nothing: they are those of the schedule that was removed a moment ago.
func unscheduled(ctx context.Context, w *term.Env, p *project.Project, which string) error {
	there, err := schedule.FindInstalled(ctx, p)
	if err != nil {
		return err
	}
	if len(there.Units) > 0 || there.Line != "" {
		return &reconcile.Error{
			Code: "project_busy", Message: "a schedule runs passes on " + p.StateDir,
			Hint: "take it out first: symphony schedule remove " + which,
		}
	}
	if !schedule.HasCrontab(w) {
		return nil
	}
	text, err := schedule.Crontab(ctx, w)
	if err != nil {
		return nil // an account may not have one
	}
	for line := range strings.Lines(text) {
		ours := p.Path != "" && strings.Contains(line, p.Path) || strings.Contains(line, p.StateDir)
		if ours && strings.Contains(line, "symphony") && !strings.HasPrefix(strings.TrimSpace(line), "#") {
			return &reconcile.Error{
				Code: "project_busy", Message: "a line of your crontab runs passes on " + p.StateDir + ": " + strings.TrimSpace(line),
				Hint: "take it out first: crontab -e",
			}
		}
	}
	return nil
}

// tellRemoval says what goes and what stays.
func tellRemoval(w *term.Env, row project.State, spaces []space, o RemoveOptions) error {
	out := w.Stdout
	if w.JSON {
		out = w.Stderr
	}
	fmt.Fprintln(out, term.Visible("goes   "+row.StateDir))
	if env := envFileOf(w, row); project.Exists(env) {
		others, err := envSharers(w, row)
		switch {
		case err != nil:
			return err
		case len(others) > 0:
			fmt.Fprintln(out, term.Visible("stays  "+env+", which "+strings.Join(others, ", ")+" has, too"))
		default:
			fmt.Fprintln(out, term.Visible("goes   "+env))
		}
	}
	for _, s := range spaces {
		word := "stays "
		if o.Workspaces {
			word = "goes  "
		}
		fmt.Fprintln(out, term.Visible(word+" "+s.rec.Path+s.remark()))
	}
	if row.Error != nil && project.Exists(filepath.Join(row.StateDir, "runs")) {
		fmt.Fprintln(out, term.Visible("stays  what its workspace roots hold, which can't be known: "+row.Error.Message))
	}
	if row.WorkflowExists {
		fmt.Fprintln(out, term.Visible("stays  "+row.WorkflowPath))
	}
	fmt.Fprintln(out, "stays  what codex keeps of its threads, in its own home")
	return nil
}

func envFileOf(w *term.Env, row project.State) string {
	return workflow.EnvFilePath(w.Getenv("XDG_CONFIG_HOME"), w.Home, filepath.Base(row.StateDir))
}

// envSharers are other state directories of the same name: the environment file is theirs as well.
func envSharers(w *term.Env, row project.State) ([]string, error) {
	dirs, err := project.StateDirs(w)
	return slices.DeleteFunc(dirs, func(dir string) bool {
		return dir == row.StateDir || filepath.Base(dir) != filepath.Base(row.StateDir)
	}), err
}

// takeAway removes a project, its database last: cut off in the middle, the rest is still known by it and the command
// can be repeated.
func takeAway(ctx context.Context, w *term.Env, row project.State, spaces []space, o RemoveOptions) error {
	if o.Workspaces {
		for _, s := range spaces {
			if err := s.delete(ctx, w.Now()); err != nil {
				return project.WorkspaceError(err)
			}
		}
	}
	for _, path := range row.Roots {
		if err := leaveRoot(ctx, w, path, row.StateDir, o.Workspaces, o.Force); err != nil {
			return project.WorkspaceError(err)
		}
	}
	crash.At("projects.remove.roots")
	if err := removeEnvFile(w, row); err != nil {
		return err
	}
	left, err := removeState(row.StateDir)
	if err != nil {
		return err
	}
	if err := state.UnregisterDirs(project.StateHome(w)); err != nil {
		return err
	}
	if err := leaveAccount(w); err != nil {
		return err
	}
	if w.JSON {
		w.PrintJSON(map[string]any{"removed": row.StateDir, "left": append([]string{}, left...)})
		return nil
	}
	for _, name := range left {
		fmt.Fprintln(w.Stdout, term.Visible("stays  "+filepath.Join(row.StateDir, name)+", which is not symphony's"))
	}
	fmt.Fprintln(w.Stdout, term.Visible("removed "+row.StateDir))
	return nil
}
