// Package setup writes a WORKFLOW.md and its environment file, and asks the operator for what no flag says.
package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// DefaultLabel is the label of issues that agents work on.
const DefaultLabel = "symphony"

// Options are the flags of init, empty if they were not given.
type Options struct {
	Example, KeyFile, Project, Repository, ActiveStates, ReviewState, Label, Root, Endpoint string
	// StateDirSet reports whether a flag named the state directory: later commands need it, too.
	StateDirSet bool
}

// starter is one init: the flags, the answers, and what will be written.
type starter struct {
	w           *term.Env
	p           *project.Project // of the workflow, which does not exist yet
	options     Options
	interactive bool // the operator can be asked
	key         string
	tracker     reconcile.TrackerSetup
	account     reconcile.TrackerAccount // what the key can see
	project     reconcile.TrackerBoard   // the chosen project
	answers     answers
}

// Run asks for what the options leave open, checks it with the tracker, and writes WORKFLOW.md and its environment file.
func Run(ctx context.Context, p *project.Project, o Options) error {
	w := p.Env
	s := &starter{
		w: w, p: p, tracker: project.TrackerSetup(), interactive: w.OnTerminal() && !w.JSON, options: o,
		answers: answers{
			Example: cmp.Or(o.Example, ExampleNames[0]), Endpoint: o.Endpoint,
			Labels: []string{strings.TrimSpace(cmp.Or(o.Label, DefaultLabel))},
		},
	}
	if err := s.check(); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{s.findKey, s.findProject, s.findStates, s.findRepository, s.findRoot} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	source, err := s.render()
	if err == nil {
		err = s.write(source)
	}
	if err == nil {
		s.report()
	}
	return err
}

// check refuses what is wrong before the first question.
func (s *starter) check() error {
	if name := s.answers.Example; !slices.Contains(ExampleNames, name) {
		return exit.Usage("init: there is no example %q%s; there are %s", name, text.DidYouMean(name, ExampleNames, "%q"), strings.Join(ExampleNames, ", "))
	}
	if err := s.p.Nested(); err != nil {
		return err
	}
	if info, err := os.Stat(filepath.Dir(s.p.Path)); err != nil || !info.IsDir() {
		return exit.Fault("init_failed", filepath.Dir(s.p.Path)+" is no directory", "make it, or name another place for the workflow")
	}
	if _, err := os.Lstat(s.p.Path); !errors.Is(err, fs.ErrNotExist) {
		return existing(s.p.Path, "nothing is written; symphony check tells whether it is right, -w FILE names another place")
	}
	if s.p.EnvErr != nil {
		return s.p.EnvErr
	}
	if s.hasEnvFile() && s.p.EnvFile[workflow.APIKeyVar] == "" {
		return existing(s.p.EnvPath(), "it holds no key, and nothing of it is changed: add a line "+workflow.APIKeyVar+"=… to it, then run symphony init again")
	}
	var missing []string
	for _, flag := range []struct{ name, value string }{
		{"--project", s.options.Project},
		{"--repository", s.options.Repository},
		{"--key-file", cmp.Or(s.options.KeyFile, s.knownKey())},
	} {
		if flag.value == "" && !s.interactive {
			missing = append(missing, flag.name)
		}
	}
	if missing != nil {
		return exit.Usage("init: without a terminal to ask on it needs %s", strings.Join(missing, ", "))
	}
	return nil
}

func existing(path, hint string) error {
	return exit.Fault("already_exists", path+" exists", hint)
}

func (s *starter) hasEnvFile() bool {
	_, err := os.Lstat(s.p.EnvPath())
	return err == nil
}

// ask asks one question. An empty answer is the proposal.
func (s *starter) ask(ctx context.Context, what, proposal string) (string, error) {
	prompt := what
	if proposal != "" {
		prompt += " [" + term.Visible(proposal) + "]"
	}
	line, err := term.AskLine(ctx, s.w, prompt+": ", false)
	return cmp.Or(strings.TrimSpace(line), proposal), err
}

// setValue sets a value from its flag, asks until the answer is right, or takes the proposal.
func (s *starter) setValue(ctx context.Context, what, flag, given, proposal string, set func(string) error) error {
	switch {
	case given != "":
		return set(given)
	case !s.interactive && proposal == "":
		return exit.Usage("init: the project's team has nothing to propose: it needs %s", flag)
	case !s.interactive:
		return set(proposal)
	}
	for {
		answer, err := s.ask(ctx, what, proposal)
		if err == nil && answer == "" {
			err = nothingChosen(strings.ToLower(what))
		}
		if err != nil {
			return err
		}
		if err = set(answer); err == nil {
			return nil
		}
		s.printError(err)
	}
}

// nothingChosen is the error after an empty answer.
func nothingChosen(what string) error {
	return exit.Fault("canceled", "no "+what+" is given, nothing is written", "run symphony init again")
}

// printError prints what is wrong with an answer.
func (s *starter) printError(err error) {
	fmt.Fprintln(s.w.Stderr, term.Visible(exit.From(err).Message))
}

// write creates both files or none. An environment file that holds the key is not changed.
func (s *starter) write(source []byte) error {
	made := ""
	if path := s.p.EnvPath(); !s.hasEnvFile() {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return notWritten(err)
		}
		line := "# Read by every pass of " + s.p.Path + ", also of scheduled ones.\n" + workflow.APIKeyVar + "=" + s.key + "\n"
		if err := createFile(path, []byte(line), 0o600); err != nil {
			return err
		}
		made = path
	}
	err := createFile(s.p.Path, source, 0o644)
	if err != nil && made != "" {
		err = errors.Join(err, os.Remove(made))
	}
	return err
}

// createFile creates a file that does not exist, as a whole or not at all.
func createFile(path string, data []byte, mode fs.FileMode) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return existing(path, "nothing of it is changed")
	}
	if err != nil {
		return notWritten(err)
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return errors.Join(notWritten(err), os.Remove(path))
	}
	return nil
}

func notWritten(err error) error {
	if exit.From(err).Code != "internal" {
		return err // a full disk has a code of its own
	}
	return exit.Fault("init_failed", "nothing is written: "+err.Error(), "look at the permissions of the directory that is named")
}

// report prints what was written, what is left to do in the tracker, and the next commands.
func (s *starter) report() {
	w, flags := s.w, ""
	if s.p.Path != w.Absolute("WORKFLOW.md") {
		flags = " -w " + term.ShellQuote(s.p.Path)
	}
	if s.options.StateDirSet {
		flags += " --state-dir " + term.ShellQuote(s.p.StateDir)
	}
	issue := cmp.Or(s.project.IssuePrefix, "ABC") + "-1"
	next := []string{"symphony doctor" + flags, "symphony run " + issue + flags, "symphony schedule install" + flags}
	if w.JSON {
		w.PrintJSON(struct {
			Workflow    string   `json:"workflow"`
			EnvFile     string   `json:"environment_file"`
			Project     string   `json:"project_slug"`
			Root        string   `json:"workspace_root"`
			LabelExists bool     `json:"label_exists"`
			Next        []string `json:"next"`
		}{s.p.Path, s.p.EnvPath(), s.project.Slug, s.answers.Root, s.project.HasLabel, next})
		return
	}
	todo := "Set the label %q on an issue in %s, then:"
	if !s.project.HasLabel {
		todo = "Make the label %q in %s, set it on an issue, then:"
	}
	fmt.Fprintf(w.Stdout, "%s, for the project %s\n%s, with the key\n\n", term.Visible(s.p.Path), term.Visible(s.project.Name), term.Visible(s.p.EnvPath()))
	fmt.Fprintf(w.Stdout, todo+"\n\n  %s\n", term.Visible(s.answers.Labels[0]), s.tracker.Name, strings.Join(next, "\n  "))
}
