package agents

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/confine"
)

// findDir returns the directory with an absolute path. It must be readable.
func findDir(dir string) (paths.Place, error) {
	const hint = "give the absolute path of an existing directory"
	if !filepath.IsAbs(dir) {
		return paths.Place{}, reconcile.NewError(
			CodeInvalid,
			fmt.Sprintf("cwd %q is not an absolute path", dir),
			hint,
		)
	}
	place, err := paths.Find(dir)
	if errors.Is(err, paths.ErrProc) {
		return place, reconcile.NewError(
			CodeInvalid,
			"cwd: "+dir+" leads into /proc",
			"name the directory itself",
		)
	}
	if err == nil {
		err = readableDir(dir)
	}
	if err != nil {
		return place, reconcile.NewError(CodeInvalid, "cwd: "+err.Error(), hint+" that you may read")
	}
	return place, nil
}

func readableDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	err = unix.Access(dir, unix.R_OK|unix.X_OK)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

// refuseMadeLinks refuses a directory whose path has a symlink that one of the known agents
// may have made.
func refuseMadeLinks(place paths.Place, known []reconcile.Run) error {
	for _, run := range known {
		theirs, err := paths.Find(run.WorkspacePath)
		if err != nil && run.Outcome != "" {
			// the path is now a circle of links, or leads into /proc: no other links can be in
			// there
			continue
		}
		if err != nil {
			return fmt.Errorf("find the directory of agent %s: %w", run.Identifier, err)
		}
		for _, link := range place.Links {
			if link.Inside(theirs) && !link.Same(theirs) { // it can't replace its own directory
				return reconcile.NewError(
					CodeInvalid,
					fmt.Sprintf(
						"cwd: %s is a symlink, which agent %s may have made",
						link.Path,
						run.Identifier,
					),
					"name the directory to which it leads",
				)
			}
		}
	}
	return nil
}

// Errors that are wrapped by that of a directory in which a pass may run files: it is the
// directory of a project, or one that nobody has named.
var (
	errProject = errors.New("a directory of a project")
	errUnnamed = errors.New("a directory that nobody has named")
)

// ofProject is the error of a directory in a project, where an agent could change what passes
// run.
func ofProject(dir paths.Place, project string) error {
	return &reconcile.Error{
		Code:    CodeInvalid,
		Message: fmt.Sprintf("cwd: %s is in %s, where passes of a project run programs", dir.Path, project),
		Hint: "in a git repository with a commit, without shared, the agent gets a worktree; " +
			"else name a directory outside",
		Err: errProject,
	}
}

// mayRun is the error of a directory that no person has named, while passes run for the account:
// no program can know which files a hook, a shell's profile or git runs.
func mayRun(dir string) error {
	return &reconcile.Error{
		Code:    CodeInvalid,
		Message: "cwd: passes of a project may run files in " + dir,
		Hint:    "spawn another agent, with worktree: true or after your user's permission",
		Err:     errUnnamed,
	}
}

// couldChange is the error of a directory in which an agent could change a file of others: it
// belongs to symphony, to an agent or to a project, or the sandbox takes its path for a pattern.
func couldChange(dir paths.Place, path string) error {
	return reconcile.NewError(
		CodeInvalid,
		fmt.Sprintf("cwd: an agent in %s could change %s, which is not its own", dir.Path, path),
		"choose a directory that is neither inside nor around it",
	)
}

// outsideOthers refuses a directory that is a part of symphony, of the agents, of a repository's
// git directory, or of an issue's workspace.
func outsideOthers(p *wiring.Project, dir paths.Place) error {
	own, err := wiring.OwnPlaces(p.Env)
	if err != nil {
		return err
	}
	for _, place := range own {
		if paths.Meet(dir, place) {
			return couldChange(dir, place.Path)
		}
	}
	for _, name := range dir.Names() {
		if around := wiring.ThisMachine().GitAround(name); around != "" {
			return reconcile.NewError(
				CodeInvalid,
				fmt.Sprintf(
					"cwd: %s is in the git directory %s, from which git starts programs",
					dir.Path,
					around,
				),
				"name the work tree",
			)
		}
	}
	if wiring.AgentsWriteIn(p.Env, dir) {
		return reconcile.NewError(
			CodeInvalid,
			"cwd: "+dir.Path+" is in the workspace of an issue",
			"use symphony takeover there",
		)
	}
	return nil
}

// directoryFree refuses a directory in which a live agent works, unless it is shared. It also
// refuses a directory inside or around a live agent's, because either agent could replace the
// other's directory by a link.
func (a *Agents) directoryFree(ctx context.Context, s Settings) error {
	dir, err := paths.Find(s.Cwd)
	if err != nil {
		return fmt.Errorf("find the directory: %w", err)
	}
	known, err := a.DB.Clients.FreeAgents(ctx)
	if err != nil {
		return err
	}
	for _, run := range known {
		// that it lives already is another error
		if run.Outcome != "" || strings.EqualFold(run.IssueID, s.ID) {
			continue
		}
		theirs, err := paths.Find(run.WorkspacePath)
		if err != nil {
			return fmt.Errorf("find the directory of agent %s: %w", run.Identifier, err)
		}
		same := dir.Same(theirs)
		if same && s.Shared || !paths.Meet(dir, theirs) {
			continue
		}
		conflict := reconcile.NewError(
			CodeConflict,
			fmt.Sprintf("agent %s works in %s already", run.Identifier, run.WorkspacePath),
			"choose a directory that is neither inside nor around it",
		)
		if same {
			conflict.Hint = "set worktree: true or shared: true, or name another cwd"
		}
		return conflict
	}
	return nil
}

// guarded returns paths below the directory of an agent that belong to the operators of
// projects, or from which the account's programs are started, by names below that directory
// without symlinks. It adds the WORKFLOW.md of the directory, and the file HEAD that would
// make the directory itself a repository. Some paths need not exist. isNamed: a person named the
// directory. Error: CodeInvalid if the directory is within such a path, or if the sandbox could
// not protect a path. If nothing else is wrong, it is mayRun for a directory without a name while
// the account has a project.
func guarded(ctx context.Context, w *environ.Env, dir paths.Place, isNamed bool) ([]string, error) {
	files, err := wiring.OperatorFiles(ctx, w)
	if err != nil {
		return nil, err
	}
	if confine.IsPattern(dir.Path) {
		return nil, reconcile.NewError(
			CodeInvalid,
			fmt.Sprintf(
				"cwd: %s has one of *?[]{} in its path, as a pattern has",
				dir.Path,
			),
			"choose another directory",
		)
	}
	list, err := ownNames(w, dir)
	if err != nil {
		return nil, err
	}
	obeyed, err := wiring.ObeyedPlaces(w)
	if err != nil {
		return nil, err
	}
	for _, place := range obeyed {
		if !dir.Inside(place) {
			files = append(files, wiring.Guarded{Place: place})
		}
	}
	for _, one := range files {
		below, err := pathsBelow(dir, one)
		if err != nil {
			return nil, err
		}
		list = append(list, below...)
	}
	isWorkflow := func(one wiring.Guarded) bool { return one.Workflow }
	if !isNamed && slices.ContainsFunc(files, isWorkflow) {
		return nil, mayRun(dir.Path)
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// ownNames returns the paths in a directory that would make it a project or a repository.
func ownNames(w *environ.Env, dir paths.Place) (list []string, err error) {
	worktrees, err := paths.Find(wiring.WorktreesDir(w))
	if err != nil {
		return nil, fmt.Errorf("find the worktrees: %w", err)
	}
	if !dir.Inside(worktrees) { // a workflow in a worktree is never obeyed
		list = append(list, filepath.Join(dir.Path, "WORKFLOW.md"))
	}
	if !wiring.Exists(filepath.Join(dir.Path, ".git")) {
		list = append(list, filepath.Join(dir.Path, "HEAD"))
	}
	return list, nil
}

// pathsBelow returns the paths by which a guarded file is reached below a directory. Its error
// is CodeInvalid if an agent in the directory could change the file nevertheless.
func pathsBelow(dir paths.Place, file wiring.Guarded) (list []string, err error) {
	if dir.Inside(file.Place) && file.Project {
		return nil, ofProject(dir, file.Path)
	}
	if dir.Inside(file.Place) {
		return nil, couldChange(dir, file.Path)
	}
	for _, link := range file.Links {
		if link.Inside(dir) {
			return nil, couldChange(dir, link.Path)
		}
	}
	for _, name := range file.Below(dir) {
		path := filepath.Join(dir.Path, name)
		if confine.IsPattern(path) {
			return nil, couldChange(dir, path)
		}
		list = append(list, path)
	}
	return list, nil
}

// stillGuarded is guarded for an agent that works in a directory already. The directory must
// not have been replaced by a link.
func (s Settings) stillGuarded(ctx context.Context, w *environ.Env, dir string) ([]string, error) {
	place, err := paths.Find(dir)
	if err != nil {
		return nil, fmt.Errorf("find the directory of the agent: %w", err)
	}
	if place.Path != dir {
		return nil, reconcile.NewError(
			CodeInvalid,
			fmt.Sprintf("cwd: %s leads to %s now", dir, place.Path),
			"spawn another agent there",
		)
	}
	return guarded(ctx, w, place, s.Named || s.Worktree != nil || s.Permission != nil)
}
