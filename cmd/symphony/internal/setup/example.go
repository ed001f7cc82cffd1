package setup

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
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
	if err != nil {
		return nil, fmt.Errorf("examples: %w", err)
	}
	var out bytes.Buffer
	if err := t.ExecuteTemplate(&out, s.answers.Example+".md", s.answers); err != nil {
		return nil, fmt.Errorf("example %s: %w", s.answers.Example, err)
	}
	return out.Bytes(), s.verify(out.Bytes())
}

func (s *starter) verify(text []byte) error {
	source, err := workflow.NewSource(path.Base(s.p.Path), s.p.Path, text)
	if err != nil {
		return err
	}
	env := s.p.Environment(nil)
	env.KeyOptional = true
	cfg, err := workflow.Parse(source, env)
	if err != nil {
		return err
	}
	var wrong []string
	for _, w := range cfg.Warnings {
		wrong = append(wrong, w.String())
	}
	for _, problem := range cfg.Prompt.Check() {
		wrong = append(wrong, problem.String())
	}
	t := cfg.Policy
	lower := func(list []string) string { return strings.ToLower(strings.Join(list, "\n")) }
	if lower(t.ActiveStates) != lower(s.answers.Active) || lower(t.TerminalStates) != lower(s.answers.Terminal) ||
		lower(t.RequiredLabels) != lower(s.answers.Labels) {
		wrong = append(wrong, "the names of states or label do not come through")
	}
	if len(wrong) > 0 {
		return &reconcile.Error{
			Code: "invalid_config", Message: "these values can't stand in a workflow: " + strings.Join(wrong, "; "),
			Hint: "nothing is written; give it without braces, line breaks and quotes, or write WORKFLOW.md by hand",
		}
	}
	return nil
}

const (
	plainScalar = `^(https?://|~?/)?[A-Za-z][A-Za-z0-9 ._/-]*[A-Za-z0-9]$`
	// otherScalar is what some version of YAML does not read as a text.
	otherScalar = `(?i)^(true|false|yes|no|on|off|null|[0-9.+-].*)$`
)

// yamlScalar writes a text as YAML: plain if it is unambiguous, else in double quotes, in which the escapes of JSON mean the
// same.
func yamlScalar(text string) (string, error) {
	if regexp.MustCompile(plainScalar).MatchString(text) && !regexp.MustCompile(otherScalar).MatchString(text) {
		return text, nil
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(text)
	return strings.TrimSpace(out.String()), err
}

func yamlList(items []string) (string, error) {
	words := make([]string, len(items))
	for i, item := range items {
		word, err := yamlScalar(item)
		if err != nil {
			return "", err
		}
		words[i] = word
	}
	return "[" + strings.Join(words, ", ") + "]", nil
}

// shellWord quotes a word for the script of a hook, which a line break would end.
func shellWord(text string) (string, error) {
	if strings.ContainsFunc(text, term.Control) {
		return "", exit.Usage("init: control characters in %s", proc.ShellWord(text))
	}
	return term.ShellQuote(text), nil
}
