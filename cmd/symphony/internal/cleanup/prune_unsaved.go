package cleanup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

const (
	// gitBound is how long one question to git may take.
	gitBound = 5 * time.Second
	// mostRepositories are looked at in one workspace.
	mostRepositories = 50
)

// unsaved says what of a workspace is nowhere else: commits that no remote has, and changes that no commit has, of its
// repository and of those further down in it. It is empty where there is none. Where git does not say, that is said:
// nobody should lose work for it.
func unsaved(ctx context.Context, dir string, environ []string) string {
	list, unread := repositories(ctx, dir)
	var all []string
	for i, repo := range list {
		if i == mostRepositories {
			all = append(all, "more repositories than are looked at")
			break
		}
		text := unsavedIn(ctx, repo, dir, environ)
		if text != "" && repo != dir {
			rel, err := filepath.Rel(dir, repo)
			if err != nil {
				rel = repo
			}
			text = "in " + rel + " " + text
		}
		if text != "" {
			all = append(all, text)
		}
	}
	if unread {
		all = append(all, "folders that can't be read")
	}
	return strings.Join(all, ", ")
}

// repositories are the folders with a .git. No link is followed.
func repositories(ctx context.Context, dir string) (list []string, unread bool) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist):
			return nil // gone meanwhile
		case err != nil:
			unread = true
			return nil //nolint:nilerr // it is said, and the others are looked at
		case d.Name() != ".git" || path == dir:
			return nil
		}
		list = append(list, filepath.Dir(path))
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	return list, unread || err != nil
}

// unsavedIn says it of one repository in a workspace.
func unsavedIn(ctx context.Context, repo, workspace string, environ []string) string {
	var list []string
	refs := []string{"--branches", "--glob=refs/stash", "--not", "--remotes"}
	if branchesElsewhere(ctx, repo, workspace, environ) {
		refs = []string{"--not", "--branches", "--remotes"}
	}
	if _, err := gitAsk(ctx, repo, environ, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"); err == nil { // else there is no commit yet
		refs = append([]string{"HEAD"}, refs...)
	}
	count, err := gitAsk(ctx, repo, environ, append([]string{"rev-list", "--count"}, refs...)...)
	switch n, notNumber := strconv.Atoi(count); {
	case err != nil || notNumber != nil:
		list = append(list, "commits that git can't count")
	case n > 0:
		list = append(list, text.Plural(n, "commit")+" not on any remote")
	}
	// A submodule is a repository of its own here.
	changes, err := gitAsk(ctx, repo, environ, "status", "--porcelain", "--untracked-files=normal", "--ignore-submodules=all")
	switch {
	case err != nil:
		list = append(list, "changes that git can't list")
	case changes != "":
		list = append(list, text.Plural(strings.Count(changes, "\n")+1, "change")+" not committed")
	}
	return strings.Join(list, ", ")
}

// branchesElsewhere: of a linked worktree the branches stay where its main repository is, unless that lies in the workspace,
// too.
func branchesElsewhere(ctx context.Context, repo, workspace string, environ []string) bool {
	info, err := os.Lstat(filepath.Join(repo, ".git"))
	if err != nil || info.IsDir() {
		return false
	}
	common, err := gitAsk(ctx, repo, environ, "rev-parse", "--git-common-dir")
	if err != nil {
		return false
	}
	if !filepath.IsAbs(common) {
		common = filepath.Join(repo, common)
	}
	return !project.Within(project.Resolve(common), project.Resolve(workspace))
}

// repositoryVariables would have git look at another repository than it is asked about.
var repositoryVariables = []string{
	"GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
	"GIT_NAMESPACE", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE", "GIT_REPLACE_REF_BASE", "GIT_PREFIX",
}

// gitAsk asks git about a repository that an agent could write: nothing that it names is run, and nothing is fetched. A
// repository that is broken is not looked for further up.
func gitAsk(ctx context.Context, dir string, environ []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, gitBound)
	defer cancel()
	env := append(proc.Scrub(environ, repositoryVariables...),
		"GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C")
	settings := []string{"-C", dir, "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "protocol.allow=never"}
	filters, err := gitSays(ctx, env, "-C", dir, "config", "--name-only", "--get-regexp", `^filter\.`)
	var none *exec.ExitError
	if err != nil && (!errors.As(err, &none) || none.ExitCode() != 1) {
		return "", fmt.Errorf("git config: %w", err)
	}
	for name := range strings.Lines(filters) {
		if name = strings.TrimSpace(name); strings.HasSuffix(name, ".required") {
			settings = append(settings, "-c", name+"=false")
		} else {
			settings = append(settings, "-c", name+"=")
		}
	}
	out, err := gitSays(ctx, env, append(settings, args...)...)
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimRight(out, "\n"), nil
}

func gitSays(ctx context.Context, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env, cmd.WaitDelay = env, time.Second
	out, err := cmd.Output()
	return string(out), err
}
