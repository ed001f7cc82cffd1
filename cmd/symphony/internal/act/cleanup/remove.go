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

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/schedule"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/state"
)

// RemoveOptions select things that RemoveProject removes beside the project, and how the
// operator is asked.
type RemoveOptions struct {
	Workspaces bool // remove its workspaces, too
	Force      bool // also workspaces with work that exists nowhere else
	// Confirm is asked before anything is removed. Its lines name everything that is removed
	// or kept, and its error is returned.
	Confirm func(ctx context.Context, lines []string) error
}

// accountsDir contains the files that the projects of the account share.
const accountsDir = "accounts"

// remover is a call of symphony projects remove.
type remover struct {
	w       *environ.Env
	options RemoveOptions
	row     ProjectRow
	spaces  []Space
	trash   []TrashRow // with unsaved work
}

// RemoveProject removes a project from the account: its state, its environment file and its
// entries in workspace roots; with Workspaces also its workspaces. An interrupted removal can
// be repeated.
func RemoveProject(ctx context.Context, w *environ.Env, path string, o RemoveOptions) (*RemovedJSON, error) {
	row, err := findProject(ctx, w, "remove", path)
	if err != nil {
		return nil, err
	}
	r := &remover{w: w, options: o, row: row}
	if err := r.check(ctx); err != nil {
		return nil, err
	}
	lines, err := r.announce()
	if err != nil {
		return nil, err
	}
	if err := o.Confirm(ctx, lines); err != nil {
		return nil, err
	}
	release, err := wiring.LockProject(ctx, w, row.StateDir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = release() }() // it fails if the lock file was removed
	announced := r.losses()
	if err := r.check(ctx); err != nil {
		return nil, err
	}
	same := func(a, b loss) bool { return a.Path == b.Path && a.work() == b.work() }
	if !slices.EqualFunc(announced, r.losses(), same) {
		return nil, reconcile.NewError(
			"unsaved_work",
			"the work that would be destroyed has changed since it was named",
			"repeat the command",
		)
	}
	return r.remove(context.WithoutCancel(ctx))
}

// findProject returns the project of a path, which is a workflow, its folder or a state
// directory. verb is the subcommand.
func findProject(ctx context.Context, w *environ.Env, verb, path string) (ProjectRow, error) {
	rows, err := Projects(ctx, w)
	if err != nil {
		return ProjectRow{}, err
	}
	path = paths.Real(w.Absolute(path))
	var meant []ProjectRow
	var dirs []string
	for _, r := range rows {
		if path == paths.Real(r.StateDir) {
			return r, nil
		}
		if r.WorkflowPath != "" && (path == r.WorkflowPath || path == filepath.Dir(r.WorkflowPath)) {
			meant = append(meant, r)
			dirs = append(dirs, r.StateDir)
		}
	}
	switch {
	case len(meant) == 1:
		return meant[0], nil
	case len(meant) > 1:
		return ProjectRow{}, exit.Usage(
			"projects: %s: %s has several projects; give the state directory of one: %s",
			verb,
			path,
			strings.Join(dirs, " or "),
		)
	}
	row := readState(ctx, w, path)
	if row.Error == nil && row.WorkflowPath != "" {
		return row, nil
	}
	ours, err := isLeft(w, path)
	if err != nil {
		return row, err
	}
	if ours {
		return row, nil
	}
	return row, reconcile.NewError(
		codeUnknown,
		path+" is not a project of this account",
		"give the WORKFLOW.md or the state directory of a project that symphony projects lists",
	)
}

// isLeft reports whether a directory, no longer listed, remains from an interrupted removal.
// Such a directory is where the account keeps state directories. It is empty, or contains at
// least one file that symphony makes there; a removal keeps other files beside it.
func isLeft(w *environ.Env, path string) (bool, error) {
	home := wiring.StateHome(w)
	registered, err := state.RegisteredDirs(home)
	if err != nil {
		return false, err
	}
	isPath := func(dir string) bool { return paths.Real(dir) == path }
	if filepath.Dir(path) != paths.Real(home) && !slices.ContainsFunc(registered, isPath) {
		return false, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return false, nil //nolint:nilerr // it is no directory
	}
	isOurs := func(e os.DirEntry) bool { return slices.Contains(stateFiles, e.Name()) }
	return len(entries) == 0 || slices.ContainsFunc(entries, isOurs), nil
}

// check refuses a project that is in use, or whose workspaces must not be removed, and reads
// the project again. Recent passes are not a reason: they may belong to a schedule that was
// removed a moment ago.
func (r *remover) check(ctx context.Context) (err error) {
	p := &wiring.Project{Env: r.w, Path: r.row.WorkflowPath, StateDir: r.row.StateDir}
	flags := "--state-dir " + text.ShellQuote(p.StateDir)
	if p.Path != "" {
		flags = "-w " + text.ShellQuote(p.Path) + " " + flags
	}
	if err := refuseBusy(p, "stop them first: symphony stop --all "+flags); err != nil {
		return err
	}
	if what, hint := schedule.Running(ctx, p, flags); what != "" {
		return reconcile.NewError(codeBusy, what+" runs passes on "+p.StateDir, "remove it first: "+hint)
	}
	r.row = readState(ctx, r.w, r.row.StateDir)
	if err := r.row.refuseUnverified(); err != nil {
		return err
	}
	if r.options.Workspaces && r.spacesUnknown() {
		return reconcile.NewError(
			r.row.Error.Code,
			r.row.Error.Message+"; without the database its workspaces can't be found",
			"repair the database (symphony doctor), or leave out --workspaces",
		)
	}
	r.spaces, err = listSpaces(ctx, r.row.StateDir, r.row.Roots)
	if err != nil || !r.options.Workspaces {
		return err
	}
	for _, s := range r.spaces {
		if s.InUse {
			return reconcile.NewError(reconcile.CodeWorkspaceBusy, s.Path+" is in use by run "+s.rec.RunID,
				"stop the run first: symphony stop "+s.Identifier)
		}
		if s.Unsaved != "" && !r.options.Force {
			return unsavedError(s.loss)
		}
	}
	return r.checkTrash(ctx)
}

// checkTrash collects the project's things in the trash that exist nowhere else.
func (r *remover) checkTrash(ctx context.Context) error {
	r.trash = nil
	for _, path := range r.row.Roots {
		projects, _, err := wiring.ThisMachine().Claimed(ctx, path, r.row.StateDir)
		if err != nil {
			return err
		}
		for _, identity := range projects {
			rows, err := listTrash(ctx, host.ProjectTrash{
				Root:    path,
				Project: identity,
				Now:     r.w.Now(),
			})
			if err != nil {
				return err
			}
			for _, row := range rows {
				if row.Unsaved == nil {
					continue
				}
				if !r.options.Force && !row.Discarded {
					return unsavedError(row.loss)
				}
				r.trash = append(r.trash, row)
			}
		}
	}
	return nil
}

func unsavedError(l loss) error {
	return reconcile.NewError("unsaved_work", l.Path+" has "+l.Unsaved,
		"push it and run git fetch there, or discard it with --force")
}

// spacesUnknown reports whether only a broken database knows the workspaces. The run
// directories are removed before the database: without them this is the repetition of an
// interrupted removal.
func (r *remover) spacesUnknown() bool {
	return r.row.Error != nil && wiring.Exists(filepath.Join(r.row.StateDir, "runs"))
}

// announce returns lines about everything that is removed or kept.
func (r *remover) announce() (lines []string, err error) {
	line := func(verb, what string) { lines = append(lines, fmt.Sprintf("%-6s %s", verb, what)) }
	line("remove", r.row.StateDir)
	env := envFile(r.w, r.row.StateDir)
	if wiring.Exists(env) {
		others, err := r.sharers()
		if err != nil {
			return nil, err
		}
		if len(others) > 0 {
			line("keep", env+", also used by "+strings.Join(others, ", "))
		} else {
			line("remove", env)
		}
	}
	verb := "keep"
	if r.options.Workspaces {
		verb = "remove"
	}
	for _, s := range r.spaces {
		line(verb, s.Path+" "+s.Remark())
	}
	for _, s := range r.row.there {
		line("keep", s.Where()+", which only its host can remove")
	}
	for _, l := range r.losses() {
		lines = append(lines, strings.Split(strings.TrimSuffix(l.Lines("DESTROY"), "\n"), "\n")...)
	}
	mirrors := filepath.Join(r.row.StateDir, mirrorsName)
	if wiring.Exists(mirrors) {
		line("keep", mirrors+", "+WhyLeft(mirrorsName))
	}
	if r.spacesUnknown() {
		line("keep", "its workspaces, which can't be found: "+r.row.Error.Message)
	}
	if r.row.WorkflowExists {
		line("keep", r.row.WorkflowPath)
	}
	last, err := r.last()
	if err != nil {
		return nil, err
	}
	accounts := filepath.Join(wiring.StateHome(r.w), accountsDir)
	if last && wiring.Exists(accounts) {
		line("remove", accounts+", with the threads of agents")
	}
	return lines, nil
}

// last reports whether no other project and no agents without an issue use the files that the
// projects of the account share.
func (r *remover) last() (bool, error) {
	others, err := wiring.StateDirs(r.w)
	if err != nil {
		return false, err
	}
	agents := wiring.AgentsDir(r.w)
	if wiring.Exists(agents) {
		others = append(others, agents)
	}
	isOther := func(dir string) bool { return dir != r.row.StateDir }
	return !slices.ContainsFunc(others, isOther), nil
}

// losses lists the work that exists nowhere else and is destroyed.
func (r *remover) losses() []loss {
	list := []loss{} // in JSON an empty list
	for _, s := range r.spaces {
		if r.options.Workspaces && s.Unsaved != "" {
			list = append(list, s.loss)
		}
	}
	for _, row := range r.trash {
		list = append(list, row.loss)
	}
	return list
}

// remove removes the project, its database last: until then an interrupted removal can be
// repeated.
func (r *remover) remove(ctx context.Context) (*RemovedJSON, error) {
	if r.options.Workspaces {
		if err := r.removeWorkspaces(ctx); err != nil {
			return nil, err
		}
	}
	for _, path := range r.row.Roots {
		if err := r.leaveRoot(ctx, path); err != nil {
			return nil, err
		}
	}
	crash.At("projects.remove.roots")
	if err := r.removeEnvFile(); err != nil {
		return nil, err
	}
	left, err := removeState(r.row.StateDir)
	if err != nil {
		return nil, err
	}
	home := wiring.StateHome(r.w)
	if err := state.UnregisterDirs(home); err != nil {
		return nil, err
	}
	last, err := r.last()
	if err != nil {
		return nil, err
	}
	if last {
		err := os.RemoveAll(filepath.Join(home, accountsDir))
		_ = os.Remove(home) // fails unless it is empty
		if err != nil {
			return nil, err
		}
	}
	return &RemovedJSON{r.row.StateDir, left, r.losses()}, nil
}

// leaveRoot removes the project's entries in a workspace root, and with Workspaces the root, if
// nothing else is in it.
func (r *remover) leaveRoot(ctx context.Context, path string) error {
	machine := wiring.ThisMachine()
	projects, found, err := machine.Claimed(ctx, path, r.row.StateDir)
	if err != nil {
		return err
	}
	var faults []error
	for _, identity := range projects {
		faults = append(faults, wiring.UnclaimFolder(r.w, identity))
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	err = machine.Leave(ctx, host.LeaveRequest{
		Root:     path,
		StateDir: r.row.StateDir,
		Dissolve: r.options.Workspaces,
	})
	if err != nil || !r.options.Workspaces {
		return err
	}
	if !found {
		// the last step of an interrupted removal; it fails unless the folder is empty
		_ = os.Remove(path)
	}
	proposed := paths.Real(filepath.Join(r.w.Home, wiring.RootsFolder)) // by init
	if filepath.Dir(path) == proposed {
		_ = os.Remove(proposed) // fails unless it is empty
	}
	return nil
}

// removeEnvFile removes the project's environment file, unless other projects read it.
func (r *remover) removeEnvFile() error {
	others, err := r.sharers()
	if err != nil || len(others) > 0 {
		return err
	}
	env := envFile(r.w, r.row.StateDir)
	if err := os.Remove(env); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = os.Remove(filepath.Dir(env)) // fails unless it is empty
	return nil
}

// removeWorkspaces deletes the workspaces of the project, also in the trash.
func (r *remover) removeWorkspaces(ctx context.Context) error {
	for _, s := range r.spaces {
		if err := r.removeWorkspace(ctx, s); err != nil {
			return err
		}
	}
	for _, row := range r.trash {
		err := wiring.ThisMachine().DeleteTrash(ctx, host.TrashRequest{
			Root: row.root,
			Path: row.Path,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// removeWorkspace deletes a workspace, unless it contains unsaved work that was not announced.
func (r *remover) removeWorkspace(ctx context.Context, s Space) error {
	answer, err := wiring.ThisMachine().RemoveWorkspace(ctx, host.RemovalRequest{
		PrepareRequest: host.PrepareRequest{
			Root: s.rec.Root,
			Issue: host.Issue{
				ID:         s.IssueID,
				Identifier: s.Identifier,
				Project:    s.rec.Project,
				StateDir:   s.rec.StateDir,
			},
		},
		Now:     r.w.Now(),
		Discard: s.Unsaved != "",
	})
	if err != nil {
		return err
	}
	if answer.Unsaved != "" {
		return unsavedError(loss{Path: s.Path, Unsaved: answer.Unsaved})
	}
	if answer.Trash == "" {
		return nil
	}
	return wiring.ThisMachine().DeleteTrash(ctx, host.TrashRequest{
		Root: s.rec.Root,
		Path: answer.Trash,
	})
}

// RemovedJSON is the output of projects remove --json.
type RemovedJSON struct {
	Removed   string   `json:"removed"`   // the state directory
	Left      []string `json:"left"`      // names in it that are kept: see WhyLeft
	Destroyed []loss   `json:"destroyed"` // work that existed nowhere else
}

func envFile(w *environ.Env, stateDir string) string {
	return workflow.EnvFilePath(w.Getenv("XDG_CONFIG_HOME"), w.Home, filepath.Base(stateDir))
}

// sharers returns the other state directories of the same name, whose projects read the same
// environment file.
func (r *remover) sharers() ([]string, error) {
	dirs, err := wiring.StateDirs(r.w)
	if err != nil {
		return nil, err
	}
	return text.Filter(dirs, func(dir string) bool {
		return dir != r.row.StateDir && filepath.Base(dir) == filepath.Base(r.row.StateDir)
	}), nil
}

// stateFiles lists the files that symphony makes in a state directory, in the order of
// removal.
var stateFiles = []string{
	"runs",
	"homes",
	"restoring",
	"asked",
	"attention.log",
	"attention.tree",
	"launch.lock",
	"loop.lock",
	"lock.waiter",
	"state.db.new",
	"state.db.new-wal",
	"state.db.new-shm",
	"state.db-wal",
	"state.db-shm",
	"state.db",
	"lock",
}

// mirrorsName is the directory with the commits that were copied from other machines. A removal
// keeps it, because some of them may exist nowhere else.
const mirrorsName = "mirrors"

// WhyLeft is what a removal keeps with a name in a state directory, and why, as the end of a
// sentence.
func WhyLeft(name string) string {
	if name == mirrorsName {
		return "commits from other machines, which may exist nowhere else"
	}
	return "which symphony did not make"
}

// removeState removes symphony's files from a state directory, and the directory unless
// something else is in it.
func removeState(dir string) (left []string, err error) {
	left = []string{}
	for _, name := range stateFiles {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return left, err
		}
		crash.At("projects.remove.file")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return left, err
	}
	if len(entries) == 0 {
		return left, os.Remove(dir)
	}
	return text.Map(entries, os.DirEntry.Name), nil
}
