package wiring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"github.com/symphony-cron/symphony/state"
	"github.com/symphony-cron/symphony/tracker/file"
)

// RootsFolder is the directory below the home directory in which init proposes workspace
// roots.
const RootsFolder = "symphony"

// RootsKey names the list of workspace roots in the database.
const RootsKey = "workspace_roots"

// RootsOf returns the workspace roots that a project used, the current root first.
func RootsOf(ctx context.Context, db *state.DB) ([]string, error) {
	stored, known, err := db.Meta(ctx, RootsKey)
	if err != nil {
		return []string{}, fmt.Errorf("%s: %w", RootsKey, err)
	}
	roots := []string{}
	if !known {
		return roots, nil
	}
	if err := json.Unmarshal([]byte(stored), &roots); err != nil {
		return []string{}, fmt.Errorf("%s: %w", RootsKey, err)
	}
	return roots, nil
}

// TemporaryAbove returns the temporary directory that contains a path, empty for none. A home
// directory below /tmp is as permanent as the account itself, so /tmp is not temporary for
// /tmp/build/bin/symphony if HOME is /tmp/build. ~/tmp is, if TMPDIR names it.
func TemporaryAbove(path string, env *environ.Env) string {
	home := paths.Real(env.Home)
	for _, name := range []string{"/tmp", "/var/tmp", "/dev/shm", env.Getenv("TMPDIR")} {
		if name == "" {
			continue
		}
		temporary := paths.Real(name)
		if !paths.Inside(temporary, path) {
			continue
		}
		atHome := env.Home != "" && temporary != home && paths.Inside(temporary, home) &&
			paths.Inside(home, path)
		if !atHome {
			return name
		}
	}
	return ""
}

// CheckRoot returns why no run may start in the workspace root.
func CheckRoot(ctx context.Context, p *Project, cfg *workflow.Config) error {
	return rootFits(ctx, p, cfg, toCheck, nil)
}

// ClaimRoot is CheckRoot, and claims the root for the project, and a folder of issues for the
// account. warn receives a sentence if another state directory gave way.
func ClaimRoot(ctx context.Context, p *Project, cfg *workflow.Config, warn func(string)) error {
	return rootFits(ctx, p, cfg, toClaim, warn)
}

// Conflict returns why passes refuse the project although its workflow is valid: another project
// works in its workspace root, or another account on its issues. It is nil if none does.
func Conflict(p *Project, cfg *workflow.Config) *reconcile.Error {
	if conflict := otherAccount(p, cfg); conflict != nil {
		return conflict
	}
	if len(cfg.Policy.Hosts) > 0 {
		return nil
	}
	t := takeOver{p: p, cfg: cfg, to: toCheck}
	return conflictIn(t.claimRoot(context.Background(), paths.Real(cfg.Workspace.Root)))
}

// otherAccount is the part of Conflict about the account.
func otherAccount(p *Project, cfg *workflow.Config) *reconcile.Error {
	folder := paths.Real(cfg.Tracker.Folder)
	if cfg.Tracker.Folder == "" || !Exists(folder) {
		return nil
	}
	t := takeOver{p: p, cfg: cfg, to: toCheck}
	return conflictIn(t.claimFolder(context.Background(), folder))
}

// conflictIn returns err if it is a conflict. A pass tells any other fault.
func conflictIn(err error) *reconcile.Error {
	known, is := errors.AsType[*reconcile.Error](err)
	if !is || known.Code != workspace.CodeProjectConflict {
		return nil
	}
	return known
}

// intent is what a root is examined for.
type intent int

const (
	toCheck intent = iota // whether it could be claimed
	toClaim
)

// rootFits returns why no run may start in the workspace root, and claims it if that is the
// intent.
func rootFits(ctx context.Context, p *Project, cfg *workflow.Config, to intent, warn func(string)) error {
	t := takeOver{p: p, cfg: cfg, to: to, warn: warn}
	if fault := misplacedRepository(p, cfg); fault != nil {
		return fault
	}
	root := paths.Real(cfg.Workspace.Root)
	folder, err := issueFolder(p, cfg, root)
	if err != nil {
		return err
	}
	if err := agentsFit(ctx, p, cfg); err != nil {
		return err
	}
	if len(cfg.Policy.Hosts) == 0 { // otherwise workspaces are elsewhere
		if err := workspace.CheckLinks(cfg.Workspace.Root); err != nil {
			return err
		}
		if err := t.claimRoot(ctx, root); err != nil {
			return err
		}
	}
	if folder == "" || !Exists(folder) {
		return nil
	}
	return t.claimFolder(ctx, folder)
}

// agentsFit returns why no agent may start with these values of the workflow, wherever it works:
// the directories that it could write, and the way to its model.
func agentsFit(ctx context.Context, p *Project, cfg *workflow.Config) error {
	if fault := keyFault(p, cfg); fault != nil {
		return fault
	}
	_, err := WritableRoots(ctx, p, cfg)
	return err
}

// agentFaults is agentsFit for check, which leaves out what is no fault of the file, such as the
// state of another project that can't be read.
func agentFaults(ctx context.Context, p *Project, cfg *workflow.Config) []*reconcile.Error {
	faults := workflow.Faults(agentsFit(ctx, p, cfg))
	return text.Filter(faults, func(e *reconcile.Error) bool { return e.Code == workflow.CodeInvalid })
}

// issueFolder returns the folder of the issues without links, empty if the tracker is none. It
// refuses a folder that agents could write.
func issueFolder(p *Project, cfg *workflow.Config, root string) (string, error) {
	if cfg.Tracker.Folder == "" {
		return "", nil
	}
	issues, err := paths.Find(cfg.Tracker.Folder)
	if err != nil {
		return "", fmt.Errorf("find the folder of the issues: %w", err)
	}
	workspaces, err := paths.Find(root)
	if err != nil {
		return "", fmt.Errorf("find the workspace root: %w", err)
	}
	if paths.Meet(issues, workspaces) {
		return "", reconcile.NewError(
			"invalid_config",
			fmt.Sprintf(
				"%s: %s overlaps workspace.root %s, where agents write",
				keyAt(p, cfg, "tracker.provider.path"),
				issues.Path,
				root,
			),
			"keep the issues where agents cannot write",
		)
	}
	return issues.Path, nil
}

// takeOver claims what a project works on: its workspace root, and the folder of its issues.
type takeOver struct {
	p    *Project
	cfg  *workflow.Config
	to   intent
	warn func(string) // nil unless the intent is to claim
}

// claimRoot claims the workspace root for the project if that is the intent, or returns the
// reason why it can't.
func (t takeOver) claimRoot(ctx context.Context, root string) error {
	var moved error
	refuse := func(project, stateDir string) error {
		moved = refuseMoved(t.p, t.cfg, project, stateDir)
		return moved
	}
	err := tryClaim(root, t.cfg.Policy.Project, t.p.StateDir, refuse, t.to)
	known := conflictIn(err)
	if known == nil || moved != nil {
		return err
	}
	opened, isRoot, findErr := workspace.FindRoot(root)
	if findErr != nil || !isRoot {
		return err
	}
	other := opened.Projects().Others(t.p.StateDir)[t.cfg.Policy.Project]
	explainConflict(t.p, other, known)
	return t.instead(ctx, err, []string{other}, func() error {
		if err := opened.Projects().Unclaim(other); err != nil {
			return err
		}
		return tryClaim(root, t.cfg.Policy.Project, t.p.StateDir, refuse, t.to)
	})
}

// claimFolder does the same with a folder of issues, for the account.
func (t takeOver) claimFolder(ctx context.Context, folder string) error {
	account := paths.Real(StateHome(t.p.Env))
	claim := func() error {
		if t.to == toCheck {
			return file.CheckClaim(folder, account, t.p.Env.Now())
		}
		return file.Claim(ctx, folder, account, t.p.Env.Now())
	}
	err := claim()
	if conflictIn(err) == nil {
		return err
	}
	other := file.Claimant(folder)
	dirs, findErr := stateDirsOf(other)
	if findErr != nil {
		return err
	}
	return t.instead(ctx, err, dirs, func() error {
		if err := file.Unclaim(folder, other); err != nil {
			return err
		}
		return claim()
	})
}

// instead claims in spite of a conflict with the state directories of others, if one of them is of
// the same workflow, and none is in use: a pass that ran once with another HOME left it. The passes of
// the others are kept out meanwhile.
func (t takeOver) instead(ctx context.Context, conflict error, others []string, claim func() error) error {
	isOwn := func(dir string) bool { return ownerOf(dir) == t.p.Path }
	isUsed := func(dir string) bool { return t.isUsed(ctx, dir) }
	if !slices.ContainsFunc(others, isOwn) || slices.ContainsFunc(others, isUsed) {
		return conflict
	}
	if t.to == toCheck {
		return nil
	}
	for _, dir := range others {
		me := state.Holder{Trigger: TriggerCommand, Since: t.p.Env.Now()}
		release, held, err := state.Acquire(ctx, dir, me, 0, false)
		if err != nil || held != nil {
			return conflict
		}
		defer func() { _ = release() }()
		if t.isUsed(ctx, dir) {
			return conflict
		}
	}
	t.warn("another state directory of this project, " + strings.Join(others, ", ") + ", has no work and gives way; " +
		"if its passes go on, let one HOME or XDG_STATE_HOME run them all")
	return claim()
}

// isUsed reports whether a state directory has claimed issues of the project's tracker, has live
// workers, or has had some where this project had none: a pass with a wrong HOME takes nothing from
// one that only has no issues at the moment. It is true if that can't be read.
func (t takeOver) isUsed(ctx context.Context, stateDir string) bool {
	db, err := state.OpenReadOnly(ctx, stateDir)
	if err != nil {
		return true
	}
	defer db.Close()
	claims, err := db.Views.Claims(ctx)
	tracker := trackerOf(t.cfg.Policy.Project)
	isSame := func(c reconcile.Claim) bool { return trackerOf(c.Project) == tracker }
	if err != nil || slices.ContainsFunc(claims, isSame) || len(LivingRuns(&Project{StateDir: stateDir})) > 0 {
		return true
	}
	return newestRunID(db) != "" && !t.hasRun(ctx)
}

// hasRun reports whether the project ever had a run.
func (t takeOver) hasRun(ctx context.Context) bool {
	db, err := state.OpenReadOnly(ctx, t.p.StateDir)
	if err != nil {
		return false
	}
	defer db.Close()
	return newestRunID(db) != ""
}

// explainConflict adds the next step if the workflow that works on the same project in the same
// workspace root is gone: it may be this one, moved.
func explainConflict(p *Project, stateDir string, e *reconcile.Error) {
	owner := ownerOf(stateDir)
	if owner != "" && owner != p.Path && !Exists(owner) {
		e.Hint += "; " + MoveHint(owner, p.Path)
	}
}

func tryClaim(
	root, project, stateDir string,
	refuse func(project, stateDir string) error,
	to intent,
) error {
	if to == toCheck {
		return workspace.CheckRoot(root, project, stateDir, refuse)
	}
	opened, err := workspace.OpenRoot(root)
	if err != nil {
		return err
	}
	return opened.Projects().Claim(project, stateDir, refuse)
}

// UnclaimFolder gives up the account's claim on a folder of issues, if identity
// (Policy.Project) names a folder. The next pass of another project with this folder renews
// the claim.
func UnclaimFolder(w *environ.Env, identity string) error {
	folder, is := strings.CutPrefix(identity, "file ")
	if !is {
		return nil
	}
	return file.Unclaim(paths.Real(folder), paths.Real(StateHome(w)))
}
