package setup

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/runner/host/local/proc"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// longestKey is far more than a key has. A longer file is not a key file.
const longestKey = 4096

// keyTries is how often a refused key may be typed again.
const keyTries = 3

// knownKey returns the key that is configured already, first that of the environment file: a schedule has no other.
func (s *starter) knownKey() string {
	return strings.TrimSpace(cmp.Or(s.p.EnvFile[workflow.APIKeyVar], s.w.Getenv(workflow.APIKeyVar)))
}

// findKey finds a key that the tracker accepts.
func (s *starter) findKey(ctx context.Context) error {
	key, err := s.givenKey()
	if err != nil {
		return err
	}
	if key != "" {
		return s.tryKey(ctx, key)
	}
	for try := 1; ; try++ {
		typed, err := term.AskLine(ctx, s.w, s.tracker.KeyQuestion+": ", true)
		if err != nil {
			return err
		}
		if typed = strings.TrimSpace(typed); typed == "" {
			return nothingChosen("key")
		}
		err = s.tryKey(ctx, typed)
		if !s.tracker.RefusedKey(err) || try == keyTries {
			return err
		}
		s.printError(err)
	}
}

// givenKey is the key of --key-file, or the one that is configured already; empty if there is none.
func (s *starter) givenKey() (string, error) {
	if s.options.KeyFile == "" {
		return s.knownKey(), nil
	}
	key, err := s.readKey(s.options.KeyFile)
	if err != nil {
		return "", err
	}
	if have := s.p.EnvFile[workflow.APIKeyVar]; have != "" && have != key {
		return "", &reconcile.Error{
			Code: "already_exists", Message: s.p.EnvPath() + " holds another key than --key-file",
			Hint: "change it there, or leave --key-file out to use the one that it holds",
		}
	}
	return key, nil
}

func (s *starter) readKey(path string) (string, error) {
	from := s.w.Stdin
	if path != "-" {
		file, err := os.Open(s.w.Absolute(path))
		if err != nil {
			return "", exit.Usage("init: --key-file: %s", err)
		}
		defer file.Close()
		from = file
	} else if s.interactive {
		return "", exit.Usage("init: --key-file - reads a pipe; on a terminal leave it out, and you are asked")
	}
	data, err := io.ReadAll(io.LimitReader(from, longestKey+1))
	if err != nil {
		return "", exit.Usage("init: --key-file %s: %s", path, err)
	}
	key := strings.TrimSpace(string(data))
	if key == "" || len(data) > longestKey {
		return "", exit.Usage("init: --key-file %s holds no key", path)
	}
	return key, nil
}

// tryKey asks the tracker for the user of the key. Its errors never hold the key.
func (s *starter) tryKey(ctx context.Context, key string) error {
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("'\"\\#$`", r) }) {
		return &reconcile.Error{
			Code: "missing_tracker_api_key", Message: "the key holds characters that no key of " + s.tracker.Name + "'s has",
			Hint: "copy it again; a file holds the key alone, without a name or quotes",
		}
	}
	account, err := s.tracker.Connect(ctx, s.answers.Endpoint, key)
	if err != nil {
		return err
	}
	s.key, s.account = key, account
	if s.interactive {
		fmt.Fprintf(s.w.Stderr, "It is the key of %s.\n", term.Visible(account.User))
	}
	return nil
}

// nothingChosen is the error after an empty answer.
func nothingChosen(what string) error {
	return &reconcile.Error{Code: "canceled", Message: "no " + what + " is given, nothing is written", Hint: "run symphony init again"}
}

// gitBound bounds a question to git about a local directory.
const gitBound = 10 * time.Second

// findRepository finds where workspaces get the code from.
func (s *starter) findRepository(ctx context.Context) error {
	what, ask := "Repository to clone", []string{"remote", "get-url", "origin"}
	if s.answers.Example == worktreeExample {
		what, ask = "Local repository to make worktrees of", []string{"rev-parse", "--show-toplevel"}
	}
	proposal := ""
	if s.interactive && s.options.Repository == "" {
		proposal = withoutPassword(s.git(ctx, filepath.Dir(s.p.Path), ask...))
	}
	return s.setValue(ctx, what, "--repository", s.options.Repository, proposal, func(text string) error {
		return s.setRepository(ctx, text)
	})
}

// git returns the output of git; empty for a directory that is no repository.
func (s *starter) git(ctx context.Context, dir string, args ...string) string {
	ctx, cancel := context.WithTimeout(ctx, gitBound)
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

// tokenLength distinguishes a token from the name of a user: GitHub and GitLab accept a token as the user of an address.
const tokenLength = 20

// withoutPassword removes a password from an address, and a token in place of the user.
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

// expand replaces a leading ~, as a shell does.
func (s *starter) expand(path string) string {
	if path == "~" || strings.HasPrefix(path, "~/") {
		return filepath.Join(s.w.Home, path[1:])
	}
	return path
}

// findRoot finds the directory of the workspaces: one that no other project uses and that the system does not clear.
func (s *starter) findRoot(context.Context) error {
	root := s.options.Root
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

// RootsFolder is the directory below the home directory in which init proposes roots.
const RootsFolder = "symphony"

// freeRoot returns ~/symphony/PROJECT, with a number if that exists.
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
