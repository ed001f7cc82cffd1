package wiring

import (
	"fmt"
	"path/filepath"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// misplacedRepository returns an error if repository.url names a folder inside of a repository on
// this machine. Other faults may pass by themselves, such as a missing mount: this doesn't, so that
// a pass refuses it as check does.
func misplacedRepository(p *Project, cfg *workflow.Config) *reconcile.Error {
	dir := cfg.Repository.URL
	isHere := filepath.IsAbs(dir) && len(cfg.Policy.Hosts) == 0 && !Exists(dir+".git")    // git tries that, too
	isTop := existsAt(filepath.Join(dir, ".git")) || existsAt(filepath.Join(dir, "HEAD")) // of a bare one
	if !isHere || isTop {
		return nil
	}
	isFolder := Exists(filepath.Join(dir, "."))
	if !isFolder {
		return nil
	}
	top := RepositoryAbove(dir)
	if top == "" {
		return nil
	}
	const message = "%s: %s is a folder in the repository %s"
	where := keyAt(p, cfg, "repository.url")
	return reconcile.NewError(workflow.CodeInvalid, fmt.Sprintf(message, where, dir, top), "write "+top)
}
