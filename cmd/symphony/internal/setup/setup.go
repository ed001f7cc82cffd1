package setup

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
)

const DefaultLabel = "symphony"

// starter is one init: what was given, what was asked, and what will be written.
type starter struct {
	w       *term.Env
	p       *project.Project // of the workflow that is not there yet
	options initOptions
	asking  bool // there is a person to ask
	key     string
	tracker reconcile.TrackerSetup
	account reconcile.TrackerAccount // what the key sees
	project reconcile.TrackerBoard   // the chosen project
	answers answers
}

// initOptions are the flags, empty where they were not given.
type initOptions struct {
	keyFile, project, repository, active, review, root string
	// place are the flags that later commands need to find workflow and state.
	place string
}

// Options are the flags of init, empty where they were not given.
type Options struct {
	Example, KeyFile, Project, Repository, ActiveStates, ReviewState, Label, Root, Endpoint string
	// StateDirSet reports whether the state directory was named by a flag, so that later commands need it too.
	StateDirSet bool
}

// Run asks for what the options leave open, checks it with the tracker, and writes WORKFLOW.md and its environment file.
func Run(ctx context.Context, p *project.Project, o Options) error {
	w := p.Env
	s := &starter{
		w: w, p: p, tracker: project.TrackerSetup(), asking: w.OnTerminal() && !w.JSON,
		options: initOptions{
			keyFile: o.KeyFile, project: o.Project, repository: o.Repository,
			active: o.ActiveStates, review: o.ReviewState, root: o.Root,
		},
		answers: answers{
			Example: cmp.Or(o.Example, ExampleNames[0]), Endpoint: o.Endpoint,
			Labels: []string{strings.TrimSpace(cmp.Or(o.Label, DefaultLabel))},
		},
	}
	if p.Path != w.Absolute("WORKFLOW.md") {
		s.options.place = " -w " + term.ShellQuote(p.Path)
	}
	if o.StateDirSet {
		s.options.place += " --state-dir " + term.ShellQuote(p.StateDir)
	}
	if err := s.refuse(); err != nil {
		return err
	}
	return s.run(ctx)
}

// refuse looks at all that can be known to be wrong before anybody is asked anything.
func (s *starter) refuse() error {
	if err := knownExample(s.answers.Example); err != nil {
		return err
	}
	if err := s.p.Nested(); err != nil {
		return err
	}
	if err := s.free(); err != nil {
		return err
	}
	if s.asking {
		return nil
	}
	var missing []string
	if s.options.project == "" {
		missing = append(missing, "--project")
	}
	if s.options.repository == "" {
		missing = append(missing, "--repository")
	}
	if s.options.keyFile == "" && s.knownKey() == "" {
		missing = append(missing, "--key-file")
	}
	if len(missing) > 0 {
		return exit.Usage("init: without a terminal to ask on it needs %s", strings.Join(missing, ", "))
	}
	return nil
}

func (s *starter) run(ctx context.Context) error {
	steps := []func(context.Context) error{s.findKey, s.findProject, s.findStates, s.findRepository, s.findRoot}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	text, err := s.render()
	if err != nil {
		return err
	}
	if err := s.write(text); err != nil {
		return err
	}
	s.report()
	return nil
}

// report says what was written, what is still to be done in Linear, and the next commands.
func (s *starter) report() {
	w, next := s.w, s.next()
	if w.JSON {
		w.PrintJSON(initJSON{s.p.Path, s.p.EnvPath(), s.project.Slug, s.answers.Root, s.project.HasLabel, next})
		return
	}
	fmt.Fprintf(w.Stdout, "%s, for the project %s\n", term.Visible(s.p.Path), term.Visible(s.project.Name))
	fmt.Fprintf(w.Stdout, "%s, with the key\n\n", term.Visible(s.p.EnvPath()))
	label := term.Visible(s.answers.Labels[0])
	if s.project.HasLabel {
		fmt.Fprintf(w.Stdout, "Set the label %q on an issue in Linear, then:\n\n", label)
	} else {
		fmt.Fprintf(w.Stdout, "Make the label %q in Linear, set it on an issue, then:\n\n", label)
	}
	for _, command := range next {
		fmt.Fprintln(w.Stdout, "  "+command)
	}
}

type initJSON struct {
	Workflow    string   `json:"workflow"`
	EnvFile     string   `json:"environment_file"`
	Project     string   `json:"project_slug"`
	Root        string   `json:"workspace_root"`
	LabelExists bool     `json:"label_exists"`
	Next        []string `json:"next"`
}

// next are the commands that lead from here to a scheduled system.
func (s *starter) next() []string {
	issue := cmp.Or(s.project.IssuePrefix, "ABC") + "-1"
	place := s.options.place
	return []string{"symphony doctor" + place, "symphony run " + issue + place, "symphony schedule install" + place}
}

// ask puts one question; an empty answer is the proposal.
func (s *starter) ask(ctx context.Context, what, proposal string) (string, error) {
	prompt := what
	if proposal != "" {
		prompt += " [" + term.Visible(proposal) + "]"
	}
	line, err := term.AskLine(ctx, s.w, prompt+": ", false)
	return cmp.Or(strings.TrimSpace(line), proposal), err
}

// say tells the person at the terminal what was wrong with an answer.
func (s *starter) say(err error) { fmt.Fprintln(s.w.Stderr, term.Visible(exit.From(err).Message)) }
