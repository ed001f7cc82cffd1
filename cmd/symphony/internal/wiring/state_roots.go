package wiring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	return rootFits(ctx, p, cfg, toCheck)
}

// ClaimRoot is CheckRoot, and claims the root for the project, and a folder of issues for the
// account.
func ClaimRoot(ctx context.Context, p *Project, cfg *workflow.Config) error {
	return rootFits(ctx, p, cfg, toClaim)
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
	return conflictIn(claimRoot(p, cfg, paths.Real(cfg.Workspace.Root), toCheck))
}

// otherAccount is the part of Conflict about the account.
func otherAccount(p *Project, cfg *workflow.Config) *reconcile.Error {
	folder := paths.Real(cfg.Tracker.Folder)
	if cfg.Tracker.Folder == "" || !Exists(folder) {
		return nil
	}
	return conflictIn(file.CheckClaim(folder, paths.Real(StateHome(p.Env)), p.Env.Now()))
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
func rootFits(ctx context.Context, p *Project, cfg *workflow.Config, to intent) error {
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
		if err := claimRoot(p, cfg, root, to); err != nil {
			return err
		}
	}
	if folder == "" || !Exists(folder) {
		return nil
	}
	account := paths.Real(StateHome(p.Env))
	if to == toCheck {
		return file.CheckClaim(folder, account, p.Env.Now())
	}
	return file.Claim(ctx, folder, account, p.Env.Now())
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

// claimRoot claims the workspace root for the project if that is the intent, or returns the
// reason why it can't.
func claimRoot(p *Project, cfg *workflow.Config, root string, to intent) error {
	var moved error
	refuse := func(project, stateDir string) error {
		moved = refuseMoved(p, cfg, project, stateDir)
		return moved
	}
	err := tryClaim(root, cfg.Policy.Project, p.StateDir, refuse, to)
	known, ok := errors.AsType[*reconcile.Error](err)
	if ok && known.Code == workspace.CodeProjectConflict && moved == nil {
		explainConflict(p, cfg, root, known)
	}
	return err
}

// explainConflict adds the next step if the workflow that works on the same project in the same
// workspace root is gone: it may be this one, moved.
func explainConflict(p *Project, cfg *workflow.Config, root string, e *reconcile.Error) {
	opened, isRoot, err := workspace.FindRoot(root)
	if err != nil || !isRoot {
		return
	}
	owner := ownerOf(opened.Projects().Others(p.StateDir)[cfg.Policy.Project])
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
