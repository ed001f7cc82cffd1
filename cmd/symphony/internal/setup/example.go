package setup

import (
	"bytes"
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"text/template"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile/workflow"
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

func knownExample(name string) error {
	if slices.Contains(ExampleNames, name) {
		return nil
	}
	return exit.Usage("init: there is no example %q%s; there are %s", name, text.DidYouMean(name, ExampleNames, "%q"), strings.Join(ExampleNames, ", "))
}

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
