package wiring

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
)

// Advice is what is not wrong about a setting, but better otherwise, and what to do.
type Advice struct{ Message, Hint string }

// RootAdvice is about a workspace root in a git repository, and about one that another project
// has, whose issues may have the same names. A repository around the home directory counts only
// for doctor: those who keep their settings in one know it.
func RootAdvice(p *Project, cfg *workflow.Config, forDoctor bool) (list []Advice) {
	if len(cfg.Policy.Hosts) > 0 { // workspaces are elsewhere
		return nil
	}
	root := paths.Real(cfg.Workspace.Root)
	top := RepositoryAbove(root)
	if top != "" && (forDoctor || !paths.Inside(top, paths.Real(p.Env.Home))) {
		list = append(list, Advice{
			root + " is in the git repository " + top + ": there its files look untracked, " +
				"and what an agent runs may take that repository for its own",
			"set workspace.root to a directory outside, such as ~/" + RootsFolder + "/" + filepath.Base(top),
		})
	}
	if other := sharesRoot(p, cfg, root); other != "" {
		list = append(list, Advice{
			root + " has the workspaces of " + other + ", whose issues may have the same names: their runs would be held",
			"give each project its own workspace.root, such as ~/" + RootsFolder + "/" + filepath.Base(filepath.Dir(p.Path)),
		})
	}
	return list
}

// sharesRoot returns the workflow of another project in a root, if both have their issues in
// trackers of a kind that counts the issues of each project from 1; empty if there is none.
func sharesRoot(p *Project, cfg *workflow.Config, root string) string {
	if !workflow.CountsByProject(cfg.Tracker.Kind) {
		return ""
	}
	opened, ok, err := workspace.FindRoot(root)
	if err != nil || !ok {
		return ""
	}
	kind, _, _ := strings.Cut(cfg.Policy.Project, " ")
	var found []string
	for project, stateDir := range opened.Projects().Others(p.StateDir) {
		otherKind, _, _ := strings.Cut(project, " ")
		owner := ownerOf(stateDir)
		if otherKind == kind && project != cfg.Policy.Project && owner != p.Path && Exists(owner) {
			found = append(found, owner)
		}
	}
	slices.Sort(found)
	return strings.Join(found, ", ")
}
