package setup

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host"
	"gopkg.in/yaml.v3"
)

//go:embed examples/*.md examples/*.part
var exampleFiles embed.FS

const (
	pullRequestExample = "pull-request"
	worktreeExample    = "worktree"
	reviewExample      = "review"
)

// ExampleNames are the ready workflows; the first is the default.
var ExampleNames = []string{"branch", pullRequestExample, worktreeExample, reviewExample}

// answers fill in an example.
type answers struct {
	Example, Endpoint, Project, Repository, Root, Review string
	Active, Terminal, Labels                             []string
	// Waiting and Begun are the active states of work that waits and of work that has begun, if there are any.
	Waiting, Begun string
}

// render fills in an example and checks the result as symphony check does: a name with a brace or a line break must not
// become part of the template or of a hook.
func (s *starter) render() ([]byte, error) {
	// Double square brackets: the workflow's own template and its shell scripts use all others.
	t := template.New("").Delims("[[", "]]").Funcs(template.FuncMap{"yaml": yamlScalar, "list": yamlList, "sh": shellWord})
	t, err := t.ParseFS(exampleFiles, "examples/*")
	var out bytes.Buffer
	if err == nil {
		err = t.ExecuteTemplate(&out, s.answers.Example+".md", s.answers)
	}
	if err != nil {
		return nil, fmt.Errorf("example %s: %w", s.answers.Example, err)
	}
	written := *s.p
	written.Source, written.SourceErr = workflow.NewSource(path.Base(s.p.Path), s.p.Path, out.Bytes())
	report, cfg := project.CheckResult(&written)
	wrong := report.Warnings
	for _, e := range report.Errors {
		wrong = append(wrong, e.Message)
	}
	if cfg != nil {
		for _, names := range [][2][]string{
			{cfg.Policy.ActiveStates, s.answers.Active}, {cfg.Policy.TerminalStates, s.answers.Terminal}, {cfg.Policy.RequiredLabels, s.answers.Labels},
		} {
			if !slices.EqualFunc(names[0], names[1], strings.EqualFold) {
				wrong = append(wrong, "the names of states or label do not come through")
			}
		}
	}
	if len(wrong) > 0 {
		return nil, exit.Fault("invalid_config", "these values can't stand in a workflow: "+strings.Join(wrong, "; "),
			"nothing is written; give it without braces, line breaks and quotes, or write WORKFLOW.md by hand")
	}
	return out.Bytes(), nil
}

// yamlScalar writes a text as YAML in one line, with quotes where it needs them.
func yamlScalar(text string) (string, error) {
	list, err := yamlList([]string{text})
	return strings.TrimSuffix(strings.TrimPrefix(list, "["), "]"), err
}

func yamlList(items []string) (string, error) {
	var list yaml.Node
	if err := list.Encode(items); err != nil {
		return "", err
	}
	list.Style = yaml.FlowStyle
	for _, item := range list.Content {
		if item.Style != 0 || strings.Contains(item.Value, "\n") {
			item.Style = yaml.DoubleQuotedStyle
		}
	}
	out, err := yaml.Marshal(&list)
	return strings.TrimSpace(string(out)), err
}

// shellWord quotes a word for the script of a hook, which a line break would end.
func shellWord(text string) (string, error) {
	if strings.ContainsFunc(text, term.Control) {
		return "", exit.Usage("init: control characters in %q", text)
	}
	return term.ShellQuote(text), nil
}

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

// gitBound bounds a question to git about a local directory.
const gitBound = 10 * time.Second

// git returns the output of git; empty for a directory that is no repository.
func (s *starter) git(ctx context.Context, dir string, args ...string) string {
	ctx, cancel := context.WithTimeout(ctx, gitBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	cmd.Env = host.Scrub(s.w.Environ, "GIT_DIR", "GIT_WORK_TREE")
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func (s *starter) setRepository(ctx context.Context, text string) error {
	text = s.expand(strings.TrimSpace(text))
	info, err := os.Stat(s.w.Absolute(text))
	isDir := err == nil && info.IsDir() && !strings.Contains(text, "://")
	if isDir {
		text = s.w.Absolute(text) // hooks run elsewhere
	}
	switch {
	case withoutPassword(text) != text:
		return exit.Usage("init: the address of the repository holds a password, and would put it into the workflow: " +
			"leave it out, and let git's credential helper or an ssh key give it")
	case s.answers.Example == worktreeExample && (!isDir || s.git(ctx, text, "rev-parse", "--git-dir") == ""):
		return exit.Usage("init: --example worktree wants the directory of a git repository, and %q is none", text)
	case s.answers.Example == pullRequestExample && isDir:
		return exit.Usage("init: gh opens pull requests on GitHub: it wants the address there, and %q is a directory", text)
	case !isDir && (!strings.Contains(text, ":") || strings.HasPrefix(text, "-")):
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

// RootsFolder is the directory below the home directory in which init proposes roots.
const RootsFolder = "symphony"

// findRoot finds the directory of the workspaces: ~/symphony/PROJECT, with a number if that exists, unless a flag names one. It
// warns about one that the system clears.
func (s *starter) findRoot(context.Context) error {
	root := s.options.Root
	if root == "" {
		other := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }
		name := strings.Join(strings.FieldsFunc(strings.ToLower(s.project.Name), other), "-")
		if name == "" {
			name = s.project.Slug
		}
		root = "~/" + RootsFolder + "/" + name
		for n := 2; project.Exists(s.expand(root)); n++ {
			root = fmt.Sprintf("~/%s/%s-%d", RootsFolder, name, n)
		}
	} else if expanded := s.expand(root); !filepath.IsAbs(expanded) {
		root = s.w.Absolute(expanded)
	}
	s.answers.Root = root
	if temporary := project.TemporaryAbove(project.Resolve(s.expand(root)), s.w.Getenv("TMPDIR")); temporary != "" {
		s.w.Note(slog.LevelWarn, fmt.Sprintf("the workspaces in %s lie below %s, which the system may clear; --root names another place", root, temporary))
	}
	return nil
}
