package setup

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// gitPatience bounds a question to git about a local directory.
const gitPatience = 10 * time.Second

// findRepository settles where workspaces get the code from.
func (s *starter) findRepository(ctx context.Context) error {
	what, ask := "Repository to clone", []string{"remote", "get-url", "origin"}
	if s.answers.Example == worktreeExample {
		what, ask = "Local repository to make worktrees of", []string{"rev-parse", "--show-toplevel"}
	}
	proposal := ""
	if s.asking && s.options.repository == "" {
		proposal = withoutPassword(s.git(ctx, filepath.Dir(s.p.Path), ask...))
	}
	return s.settle(ctx, what, "--repository", s.options.repository, proposal, func(text string) error {
		return s.setRepository(ctx, text)
	})
}

// git asks git; a directory that is no repository has nothing to say.
func (s *starter) git(ctx context.Context, dir string, args ...string) string {
	ctx, cancel := context.WithTimeout(ctx, gitPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	cmd.Env = proc.Scrub(s.w.Environ, "GIT_DIR", "GIT_WORK_TREE")
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func (s *starter) setRepository(ctx context.Context, text string) error {
	text = s.expand(strings.TrimSpace(text))
	if withoutPassword(text) != text {
		return exit.Usage("init: the address of the repository holds a password, and would put it into the workflow: " +
			"leave it out, and let git's credential helper or an ssh key give it")
	}
	info, err := os.Stat(s.w.Absolute(text))
	isDir := err == nil && info.IsDir() && !strings.Contains(text, "://")
	if isDir {
		text = s.w.Absolute(text) // hooks run elsewhere
	}
	if s.answers.Example == worktreeExample && (!isDir || s.git(ctx, text, "rev-parse", "--git-dir") == "") {
		return exit.Usage("init: --example worktree wants the directory of a git repository, and %q is none", text)
	}
	if s.answers.Example == pullRequestExample && isDir {
		return exit.Usage("init: gh opens pull requests on GitHub: it wants the address there, and %q is a directory", text)
	}
	if !isDir && (!strings.Contains(text, ":") || strings.HasPrefix(text, "-")) {
		return exit.Usage("init: %q is neither the address of a repository nor a directory", text)
	}
	s.answers.Repository = text
	return nil
}

// tokenLength is what a user's name in an address does not have, and a token does: GitHub and GitLab take one in its place.
const tokenLength = 20

// withoutPassword takes a password out of an address, and a token that stands for the user.
func withoutPassword(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return address
	}
	if _, has := u.User.Password(); !has && (len(u.User.Username()) < tokenLength || u.Scheme == "ssh") {
		return address
	}
	u.User = nil
	return u.String()
}

// expand replaces a leading ~, which no shell has seen.
func (s *starter) expand(path string) string {
	if path == "~" || strings.HasPrefix(path, "~/") {
		return filepath.Join(s.w.Home, path[1:])
	}
	return path
}

// findRoot settles where workspaces are made: in a directory that no other project has, and that nobody clears.
func (s *starter) findRoot(context.Context) error {
	root := s.options.root
	if root == "" {
		root = s.freeRoot()
	} else if expanded := s.expand(root); !filepath.IsAbs(expanded) {
		root = s.w.Absolute(expanded)
	}
	s.answers.Root = root
	if temporary := project.TemporaryAbove(project.Resolve(s.w.Absolute(s.expand(root))), s.w.Getenv("TMPDIR")); temporary != "" {
		fmt.Fprintf(s.w.Stderr, "symphony: warning: the workspaces in %s lie below %s, which the system may clear; --root names another place\n",
			term.Visible(root), temporary)
	}
	return nil
}

// rootsFolder is where init proposes roots, below the home.
const RootsFolder = "symphony"

// freeRoot is ~/symphony/PROJECT, or the next of its name that is not there.
func (s *starter) freeRoot() string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(s.project.Name))
	if name = strings.Join(strings.FieldsFunc(name, func(r rune) bool { return r == '-' }), "-"); name == "" {
		name = s.project.Slug
	}
	free := name
	for n := 2; ; n++ {
		if _, err := os.Lstat(filepath.Join(s.w.Home, RootsFolder, free)); err != nil {
			return "~/" + RootsFolder + "/" + free
		}
		free = fmt.Sprintf("%s-%d", name, n)
	}
}
