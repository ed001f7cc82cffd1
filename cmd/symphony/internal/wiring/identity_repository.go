package wiring

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host"
)

// repositoryFaults returns an error if repository.url is a directory of this machine from which
// no workspace can be cloned, such as one without a commit.
func repositoryFaults(ctx context.Context, p *Project, cfg *workflow.Config) []*reconcile.Error {
	dir := cfg.Repository.URL
	isElsewhere := len(cfg.Policy.Hosts) > 0
	if !filepath.IsAbs(dir) || isElsewhere || Exists(dir+".git") { // which git tries, too
		return nil
	}
	message := ""
	hint := "run git init and git commit in it, or correct the path"
	top := RepositoryAbove(dir)
	switch {
	case !Exists(dir):
		message = "does not exist"
		hint = cmp.Or(didYouMean(dir), "make the repository, or correct the path")
	case !isRepository(dir) && top != "":
		message = "is a folder in the repository " + top
		hint = "write " + top
	case !isRepository(dir):
		message = "is no git repository"
	case lacksCommit(ctx, dir, p.Environ()):
		message = "has no commit"
		hint = "push a first commit to it: agents begin at one"
		if existsAt(filepath.Join(dir, ".git")) {
			hint = "make a first commit in it, with git add and git commit: agents begin at one"
		}
	default:
		return nil
	}
	const key = "repository.url"
	message = fmt.Sprintf("%s:%d: %s: %s %s", p.Path, cfg.Lines[key], key, dir, message)
	return []*reconcile.Error{reconcile.NewError(workflow.CodeInvalid, message, hint)}
}

// isRepository reports whether git could clone from the path: it is the top of a repository, a bare
// repository, or a file, such as a bundle.
func isRepository(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() || existsAt(filepath.Join(path, ".git")) || existsAt(filepath.Join(path, "HEAD"))
}

// lacksCommit reports whether git finds no branch and no tag in a repository. If git can't read
// it, that is for symphony doctor to say.
func lacksCommit(ctx context.Context, dir string, env []string) bool {
	cmd := exec.CommandContext(ctx, "git", "-C", dir, "for-each-ref", "--count=1")
	cmd.Env = host.Scrub(env, host.GitRepositoryVars...) // such as of a hook that runs check
	found, err := cmd.Output()
	return err == nil && len(found) == 0
}

// didYouMean names the directory beside a missing one that is named most like it; empty for
// none.
func didYouMean(missing string) string {
	dir := filepath.Dir(missing)
	near := text.Nearest(filepath.Base(missing), directoriesIn(dir))
	if len(near) == 0 {
		return ""
	}
	return "did you mean " + filepath.Join(dir, near[0]) + "?"
}
