package setup

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
)

//go:embed examples/*.md examples/*.part
var exampleFiles embed.FS

const (
	pullRequestExample = "pull-request"
	reviewExample      = "review"
	planExample        = "plan"
)

// ExampleNames are the values of --example. The first is the default, and the second for a repository on a
// host that is known.
var ExampleNames = []string{"branch", pullRequestExample, reviewExample, planExample}

// answers fill in an example.
type answers struct {
	Tracker    string // the kind, such as linear
	Path       string // the folder of issues, for the kind file
	Example    string // a name in ExampleNames
	Agent      string // the kind, such as claude
	Model      string // of agents; empty for the agent's own
	Endpoint   string
	Email      string // of the account that has the token of Jira
	CloudID    string // of the site of Jira, for a token with scopes; else empty
	Project    string
	Team       string
	Repository string // an address, or a path from the workflow
	Base       string // the branch at which work begins
	Forge      string // the kind of the repository's host, such as github, if that is a guess; else empty
	Root       string // of the workspaces
	Labels     []string

	Active   []string // states
	Terminal []string
	Review   string // the state in which an issue is handed over
	// Waiting and Begun are the active states of issues that wait and of issues that have been
	// begun; empty for none.
	Waiting string
	Begun   string

	// Stacks are the languages and tools of the repository. The first stack is verified.
	Stacks []Stack
}

func (a answers) forgeKind() workflow.ForgeKind {
	return workflow.Repository{URL: a.Repository, Forge: a.Forge}.ForgeKind()
}

// TokenOfTracker reports whether the token of the tracker opens pull requests, too.
func (a answers) TokenOfTracker() bool {
	kind := a.forgeKind()
	return kind.Name == a.Tracker && !kind.Gh
}

// ForgeToken returns the variable with the token that opens pull requests; empty if that is the token
// of the tracker, or of gh.
func (a answers) ForgeToken() string {
	kind := a.forgeKind()
	if kind.Gh || a.TokenOfTracker() {
		return ""
	}
	return kind.TokenVars[0]
}

// OtherForges returns the values of repository.forge beside Forge.
func (a answers) OtherForges() string {
	isOther := func(name string) bool { return name != a.Forge }
	return strings.Join(text.Filter(workflow.ForgeNames(), isOther), ", ")
}

// findStates finds the active states, the states that end an issue, and the state in which an
// issue is handed over.
func (s *starter) findStates(ctx context.Context) error {
	for _, state := range s.project.States {
		if state.Kind == reconcile.StateEnded {
			s.answers.Terminal = append(s.answers.Terminal, state.Name)
		}
	}
	states := text.Filter(s.project.States, func(state reconcile.TrackerState) bool { return !s.isAfterReview(state) })
	active, handover := proposeStates(s.answers.Example, states)
	if len(active) == 0 {
		active, handover = proposeStates(s.answers.Example, s.project.States)
	}
	err := s.setValue(
		ctx,
		"Active states",
		"--active-states",
		s.options.ActiveStates,
		strings.Join(active, ", "),
		s.setActive,
	)
	if err != nil {
		return err
	}
	waits := s.answers.Waiting != "" && !strings.Contains(s.answers.Waiting, `"`)
	if s.answers.Example == planExample && (!waits || s.answers.Begun == "") {
		return exit.Usage("init: --example plan needs an active state of issues that wait, and one of issues that " +
			"are begun: give --active-states 'Todo, In Progress'")
	}
	if slices.Contains(s.answers.Active, handover) {
		handover = ""
	}
	what := "State for your review"
	if s.answers.Example == reviewExample {
		what = "State after the agent's review"
	}
	return s.setValue(ctx, what, "--review-state", s.options.ReviewState, handover, s.setReview)
}

// isAfterReview reports whether a flag names the state as the state of issues that a reviewing
// agent has looked at, such as Reviewed.
func (s *starter) isAfterReview(state reconcile.TrackerState) bool {
	chosen := strings.TrimSpace(s.options.ReviewState)
	return s.answers.Example == reviewExample && strings.EqualFold(state.Name, chosen)
}

// setReview sets the state in which an issue is handed over.
func (s *starter) setReview(_ context.Context, name string) error {
	state, err := s.state(name)
	if err != nil {
		return err
	}
	if slices.Contains(s.answers.Active, state.Name) {
		return exit.Usage(
			"init: the state %q is active: agents would work again on issues that were handed over",
			state.Name,
		)
	}
	if slices.Contains(s.answers.Terminal, state.Name) {
		return exit.Usage(
			"init: the state %q ends an issue: its workspace would be removed before your review",
			state.Name,
		)
	}
	s.answers.Review = state.Name
	return nil
}

// setActive sets the active states, which are separated by commas.
func (s *starter) setActive(_ context.Context, text string) error {
	var names []string
	parts := map[string][]string{}
	for part := range strings.SplitSeq(text, ",") {
		name := strings.TrimSpace(part)
		if name == "" {
			continue
		}
		state, err := s.state(name)
		if err != nil {
			return err
		}
		if slices.Contains(s.answers.Terminal, state.Name) {
			return exit.Usage("init: the state %q ends an issue and can't be active", state.Name)
		}
		parts[partOf(state)] = append(parts[partOf(state)], state.Name)
		if !slices.Contains(names, state.Name) {
			names = append(names, state.Name)
		}
	}
	if len(names) == 0 {
		return exit.Usage("init: an active state is missing")
	}
	s.answers.Active = names
	s.answers.Waiting = first(parts["waiting"])
	s.answers.Begun = first(parts["begun"])
	return nil
}

// state finds a state of the project's teams, whatever the case of its letters.
func (s *starter) state(name string) (reconcile.TrackerState, error) {
	state, ok := s.project.State(name)
	if ok {
		return state, nil
	}
	names := text.Map(s.project.States, func(known reconcile.TrackerState) string { return known.Name })
	nearest := suggest.Near(name, names)
	// a label that does not exist is created when it is set, also one like a name that is only proposed
	if s.kind.forge.Name != "" {
		misspelt := suggest.Misspelt(name, names)
		if misspelt == "" {
			return reconcile.TrackerState{Name: name, Kind: reconcile.StateStarted}, nil
		}
		nearest = []string{misspelt}
	}
	return state, exit.Usage("init: the project has no state %s", reconcile.UnknownName{
		Name:    name,
		Nearest: nearest,
	})
}

// partOf is the meaning of a state for an agent: waiting, begun, rework or review. It follows
// from the state's kind, and for a started state from its name.
func partOf(s reconcile.TrackerState) string {
	name := strings.ToLower(s.Name)
	switch {
	case s.Kind != reconcile.StateStarted:
		return string(s.Kind)
	case strings.Contains(name, "review"):
		return "review"
	case strings.Contains(name, "rework"):
		return "rework"
	}
	return "begun"
}

// first is the first item of a list, empty if there is none.
func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// proposeStates proposes the active states and the state in which the agent hands an issue
// over. A reviewing agent works on issues in the review state, and hands them over to a person
// or back to the first agent.
func proposeStates(example string, states []reconcile.TrackerState) (active []string, handover string) {
	parts := map[string][]string{}
	for _, s := range states {
		parts[partOf(s)] = append(parts[partOf(s)], s.Name)
	}
	reviews := parts["review"]
	human := func(name string) bool { return strings.Contains(strings.ToLower(name), "human") }
	// the review by a person comes before that by agents
	at := slices.IndexFunc(reviews, human)
	if at > 0 {
		reviews[0], reviews[at] = reviews[at], reviews[0]
	}
	if example != reviewExample {
		active = append([]string{first(parts["waiting"]), first(parts["begun"])}, parts["rework"]...)
		return slices.DeleteFunc(active, func(name string) bool { return name == "" }), first(reviews)
	}
	if len(reviews) > 1 {
		return reviews[1:2], reviews[0]
	}
	return reviews, first(parts["begun"])
}

// findRepository finds the repository that workspaces get the code from.
func (s *starter) findRepository(ctx context.Context) error {
	proposal := ""
	if s.interactive && s.options.Repository == "" {
		proposal = workflow.WithoutPassword(s.git(ctx, filepath.Dir(s.p.Path), "remote", "get-url", "origin"))
	}
	return s.setValue(
		ctx,
		"Repository to clone",
		"--repository",
		s.options.Repository,
		proposal,
		s.setRepository,
	)
}

// git returns the output of git; empty for a directory that is no repository.
func (d dialog) git(ctx context.Context, dir string, args ...string) string {
	said, err := gitcmd.Ask(ctx, dir, d.w.Environ, args...)
	if err != nil {
		return ""
	}
	return said
}

// foreign is the next step if git refuses the repository of a directory because another account
// owns it; empty if it does not.
func (d dialog) foreign(ctx context.Context, dir string) string {
	_, err := gitcmd.Ask(ctx, dir, d.w.Environ, "rev-parse", "--git-dir")
	return host.GitHint(host.GitOutput(err))
}

// setRepository sets the repository, and the branch at which work begins in a directory. A
// repository that is refused leaves nothing behind: the operator may name another one.
func (s *starter) setRepository(ctx context.Context, address string) error {
	address = s.expand(strings.TrimSpace(address))
	info, err := os.Stat(s.w.Absolute(address))
	isDir := err == nil && info.IsDir() && !strings.Contains(address, "://")
	base := ""
	foreign := ""
	if isDir {
		address = s.w.Absolute(address) // hooks run elsewhere
		head := s.git(ctx, address, "symbolic-ref", "--quiet", "HEAD")
		base = strings.TrimPrefix(head, "refs/heads/")
		foreign = s.foreign(ctx, address)
		if base == "" {
			base = s.usualBranch(ctx, address)
		}
	}
	switch {
	case strings.ContainsFunc(address, text.Control):
		return exit.Usage("init: %q contains control characters", address)
	case workflow.WithoutPassword(address) != address:
		return exit.Usage(
			"init: the address of the repository contains a password, which would be stored in the workflow: " +
				"leave it out, and use git's credential helper or an ssh key",
		)
	case s.answers.Example == pullRequestExample && isDir:
		return exit.Usage(
			"init: --example pull-request needs the address of the repository on a forge (%s), and %q is a directory",
			strings.Join(workflow.ForgeNames(), ", "),
			address,
		)
	case foreign != "":
		return exit.Usage("init: %s", foreign)
	case isDir && s.git(ctx, address, "ls-remote", address) == "":
		return exit.Usage(
			"init: %q is not the top of a git repository with a commit that this account may read: "+
				"run git init and git commit there",
			address,
		)
	case isDir && base == "":
		return exit.Usage(
			"init: %s has no branch at which agents could begin: run git switch -c main there first", address,
		)
	case !isDir && (!strings.Contains(address, ":") || strings.HasPrefix(address, "-")):
		return exit.Usage(
			"init: %q is neither a directory nor the address of a repository, such as https://HOST/acme/web",
			address,
		)
	}
	s.answers.Repository = address
	own := filepath.Dir(s.p.Path)
	if !isDir && s.kind.forge.Name == "" {
		s.answers.Forge = workflow.GuessedForge(address)
	}
	if !isDir {
		if s.options.Example == "" && workflow.GuessedForge(address) == "" {
			s.answers.Example = pullRequestExample
		}
		if workflow.WithoutPassword(s.git(ctx, own, "remote", "get-url", "origin")) == address {
			s.clone = own
		}
		return nil
	}
	s.answers.Base = base
	s.clone = address
	top := paths.Real(address)
	dir := paths.Real(own)
	if s.answers.Example == reviewExample || !paths.Inside(top, dir) {
		return nil
	}
	relative, err := filepath.Rel(dir, top)
	if err == nil {
		s.answers.Repository = relative // it moves with the workflow
	}
	return nil
}

// usualBranch returns the branch at which work begins if none is checked out: main, master, or
// else the first of the repository; empty if it has none.
func (s *starter) usualBranch(ctx context.Context, dir string) string {
	list := s.git(ctx, dir, "for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads")
	branches := strings.Fields(list)
	for _, usual := range []string{"main", "master"} {
		if slices.Contains(branches, usual) {
			return usual
		}
	}
	return first(branches)
}

// expand replaces a leading ~, as a shell does.
func (d dialog) expand(path string) string {
	if path == "~" || strings.HasPrefix(path, "~/") {
		return filepath.Join(d.w.Home, path[1:])
	}
	return path
}

// findRoot sets the directory for workspaces: the value of the flag, or ~/symphony/PROJECT. It
// warns about a temporary directory.
func (s *starter) findRoot(context.Context) error {
	root := s.options.Root
	if root == "" {
		root = s.proposeRoot()
	} else if !filepath.IsAbs(s.expand(root)) {
		root = s.w.Absolute(s.expand(root))
	}
	s.answers.Root = root
	temporary := wiring.TemporaryAbove(paths.Real(s.expand(root)), &s.w.Env)
	if temporary != "" {
		const warning = "the workspace root %s is below %s, which the system may clear; " +
			"name another directory with --root"
		s.w.Note(slog.LevelWarn, fmt.Sprintf(warning, root, temporary))
	}
	return nil
}

// proposeRoot returns ~/symphony/PROJECT, with a number if that belongs to another project.
func (s *starter) proposeRoot() string {
	other := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }
	name := strings.Join(strings.FieldsFunc(strings.ToLower(s.project.Name), other), "-")
	name = cmp.Or(name, s.project.Slug, "project") // of a folder called 店, the letters say nothing
	root := "~/" + wiring.RootsFolder + "/" + name
	for n := 2; wiring.Exists(s.expand(root)) || s.namedNear(root); n++ {
		root = fmt.Sprintf("~/%s/%s-%d", wiring.RootsFolder, name, n)
	}
	return root
}

// namedNear reports whether the WORKFLOW.md in this folder, beside the one that is written, or in
// a folder around it names the root. No pass of it need have run yet, so that the root need not
// exist.
func (s *starter) namedNear(root string) bool {
	line := "\n  root: " + root + "\n"
	for dir := filepath.Dir(s.p.Path); ; dir = filepath.Dir(dir) {
		content, err := os.ReadFile(filepath.Join(dir, "WORKFLOW.md"))
		if err == nil && strings.Contains(string(content), line) {
			return true
		}
		if filepath.Dir(dir) == dir {
			return false
		}
	}
}

// render fills in an example and checks the result as symphony check does: a name with a brace
// or a line break must not become part of the template.
func (s *starter) render() ([]byte, error) {
	// Double square brackets: the workflow's own template and its shell scripts use all
	// others.
	var t *template.Template
	// part renders a template of KIND.part: settings are the keys below tracker, move tells
	// the agent how to move its issue.
	part := func(name string, a answers) (string, error) {
		var own bytes.Buffer
		err := t.ExecuteTemplate(&own, a.Tracker+"-"+name, a)
		return own.String(), err
	}
	t = template.New("").Delims("[[", "]]").Funcs(template.FuncMap{
		"yaml": yamlScalar,
		"list": yamlList,
		"sh":   text.ShellQuote,
		"part": part,
	})
	t, err := t.ParseFS(exampleFiles, "examples/*")
	if err != nil {
		return nil, fmt.Errorf("example %s: %w", s.answers.Example, err)
	}
	var out bytes.Buffer
	if err := t.ExecuteTemplate(&out, s.answers.Example+".md", s.answers); err != nil {
		return nil, fmt.Errorf("example %s: %w", s.answers.Example, err)
	}
	written := *s.p
	s.written = &written
	written.Source, written.SourceErr = workflow.NewSource(path.Base(s.p.Path), s.p.Path, out.Bytes())
	report, _ := wiring.CheckResult(&written)
	if err := refusedFlag(report.Errors); err != nil {
		return nil, err
	}
	wrong := report.Warnings
	for _, e := range report.Errors {
		wrong = append(wrong, e.Message)
	}
	if len(wrong) > 0 {
		return nil, reconcile.NewError(
			"invalid_config",
			"WORKFLOW.md would be invalid with these values: "+strings.Join(wrong, "; "),
			"nothing was written; leave out braces, line breaks and quotes, or write WORKFLOW.md yourself",
		)
	}
	return out.Bytes(), nil
}

// refusedFlag is the error of a flag whose value check refuses, such as a root that is the
// project's own folder. One reason is enough: the root comes first, because the folder of the
// issues may only be refused for its sake.
func refusedFlag(faults []*reconcile.Error) error {
	for _, of := range []struct{ key, flag string }{
		{"workspace.root", "--root"},
		{"tracker.provider.path", "--path"},
	} {
		for _, e := range faults {
			_, reason, isOf := strings.Cut(e.Message, ": "+of.key+": ")
			if isOf {
				return reconcile.NewError(
					e.Code,
					of.flag+": "+reason,
					"nothing was written; give another "+of.flag+": "+e.Hint,
				)
			}
		}
	}
	return nil
}

// yamlScalar writes a text as YAML in a single line, with quotes where it needs them.
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
		if item.Style != 0 || strings.ContainsAny(item.Value, "\n#") {
			item.Style = yaml.DoubleQuotedStyle
		}
	}
	out, err := yaml.Marshal(&list)
	return strings.TrimSpace(string(out)), err
}
