package wiring

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
)

// repositoryFaults returns an error if repository.url is a directory of this machine from which
// no workspace can be cloned, such as one without a commit.
func repositoryFaults(ctx context.Context, p *Project, cfg *workflow.Config) []*reconcile.Error {
	dir := localRepository(cfg)
	if dir == "" {
		return nil
	}
	fault := misplacedRepository(p, cfg)
	if fault != nil {
		return []*reconcile.Error{fault}
	}
	message := ""
	hint := "run git init and git commit in it, or correct the path"
	switch {
	case !Exists(dir):
		what, remedy := paths.Missing(dir)
		message = what
		hint = cmp.Or(remedy, didYouMean(dir), "make the repository, or correct the path")
	case !isRepository(dir):
		message = "is no git repository"
	case lacksBranch(ctx, dir, p.Environ()) && hasCommit(ctx, dir, p.Environ()):
		message = "has no branch"
		hint = "git switch -c " + cmp.Or(cfg.Repository.Base, "main") + " in it makes one at its commit"
	case lacksBranch(ctx, dir, p.Environ()):
		message = "has no commit"
		hint = "push a first commit to it: agents begin at one"
		if existsAt(filepath.Join(dir, ".git")) {
			hint = "make a first commit in it, with git add and git commit: agents begin at one"
		}
	default:
		return baseFaults(ctx, p, cfg, dir)
	}
	return []*reconcile.Error{repositoryFault(p, cfg, message, hint)}
}

// localRepository returns the path of repository.url if workspaces are cloned from a path of this
// machine; empty if not, and if git finds the repository under that name with .git behind it.
func localRepository(cfg *workflow.Config) string {
	dir := cfg.Repository.URL
	isElsewhere := len(cfg.Policy.Hosts) > 0
	if !filepath.IsAbs(dir) || isElsewhere || Exists(dir+".git") {
		return ""
	}
	return dir
}

// misplacedRepository returns an error if repository.url names a folder inside of a repository,
// or a file that is none. Other faults may pass by themselves, such as a missing mount: these
// don't, so that a pass refuses them as check does.
func misplacedRepository(p *Project, cfg *workflow.Config) *reconcile.Error {
	dir := localRepository(cfg)
	if dir == "" || isRepository(dir) {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil //nolint:nilerr // such as a mount that is missing now
	}
	top := RepositoryAbove(dir)
	switch {
	case !info.IsDir() && top != "":
		return repositoryFault(p, cfg, "is a file, not a repository", "write "+top)
	case !info.IsDir():
		return repositoryFault(p, cfg, "is a file, not a repository", "write the path of a repository")
	case top != "":
		return repositoryFault(p, cfg, "is a folder in the repository "+top, "write "+top)
	}
	return nil
}

// repositoryFault is the error of a repository.url that is a path of this machine.
func repositoryFault(p *Project, cfg *workflow.Config, message, hint string) *reconcile.Error {
	message = fmt.Sprintf("%s: %s %s", keyAt(p, cfg, "repository.url"), cfg.Repository.URL, message)
	return reconcile.NewError(workflow.CodeInvalid, message, hint)
}

// isRepository reports whether git could clone from the path: it is the top of a repository, a
// bare repository, or a file that git reads as one.
func isRepository(path string) bool {
	return isGitFile(path) || existsAt(filepath.Join(path, ".git")) || existsAt(filepath.Join(path, "HEAD"))
}

// isGitFile reports whether git clones from a file: a bundle, or the .git file of a linked
// worktree.
func isGitFile(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	file, err := os.Open(path)
	if err != nil {
		return true // git says why it can't be read
	}
	defer file.Close()
	first := make([]byte, 16)
	n, _ := io.ReadFull(file, first)
	begins := func(words string) bool { return strings.HasPrefix(string(first[:n]), words) }
	return begins("gitdir: ") || begins("# v") && strings.Contains(string(first[:n]), "git bundle")
}

// baseFaults returns an error if a repository on this machine does not have the branch that
// repository.base names.
func baseFaults(ctx context.Context, p *Project, cfg *workflow.Config, dir string) []*reconcile.Error {
	base := cfg.Repository.Base
	if base == "" {
		return nil
	}
	branches, err := referencesOf(ctx, dir, p.Environ(), "--format=%(refname:lstrip=2)", "refs/heads")
	if err != nil || len(branches) == 0 || slices.Contains(branches, base) {
		return nil
	}
	hint := "write the name of a branch: git -C " + text.ShellQuote(dir) + " branch lists them"
	near := suggest.Near(base, branches)
	switch {
	case len(near) > 0:
		hint = "did you mean " + near[0] + "?"
	case len(branches) == 1:
		hint = "write " + branches[0]
	}
	message := fmt.Sprintf("%s: %s has no branch %q", keyAt(p, cfg, "repository.base"), dir, base)
	return []*reconcile.Error{reconcile.NewError(workflow.CodeInvalid, message, hint)}
}

// lacksBranch reports whether git finds no branch and no tag in a repository. If git can't read
// it, that is for symphony doctor to say.
func lacksBranch(ctx context.Context, dir string, env []string) bool {
	found, err := referencesOf(ctx, dir, env, "--count=1")
	return err == nil && len(found) == 0
}

// hasCommit reports whether a commit is checked out, as without a branch: git switch --detach.
func hasCommit(ctx context.Context, dir string, env []string) bool {
	_, err := gitcmd.Ask(ctx, dir, env, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	return err == nil
}

// referencesOf returns the words that git for-each-ref prints about a repository.
func referencesOf(ctx context.Context, dir string, env []string, args ...string) ([]string, error) {
	found, err := gitcmd.Ask(ctx, dir, env, append([]string{"for-each-ref"}, args...)...)
	if err != nil {
		return nil, err
	}
	return strings.Fields(found), nil // no name has blanks
}

// didYouMean names the directory beside a missing one that is named most like it; empty for
// none.
func didYouMean(missing string) string {
	dir := filepath.Dir(missing)
	near := suggest.Near(filepath.Base(missing), directoriesIn(dir))
	if len(near) == 0 {
		return ""
	}
	return "did you mean " + filepath.Join(dir, near[0]) + "?"
}
