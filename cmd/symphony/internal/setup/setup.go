// Package setup writes a WORKFLOW.md and its environment file, and asks the operator for what no flag gives.
package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// DefaultLabel is the label of issues that agents work on.
const DefaultLabel = "symphony"

// Options are the flags of init, empty if they were not given.
type Options struct {
	Example, KeyFile, Project, Repository, ActiveStates, ReviewState, Label, Root, Endpoint string
	// StateDirSet says that a flag named the state directory, which later commands then need, too.
	StateDirSet bool
}

const keyTries = 3 // how often a key may be typed

// starter is one call of symphony init: the flags, the answers, and what will be written.
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
	if err != nil {
		return err
	}
	if err := s.write(source); err != nil {
		return err
	}
	s.report()
	return nil
}

// check finds what is wrong before the first question is asked.
func (s *starter) check() error {
	dir, name := filepath.Dir(s.p.Path), s.answers.Example
	info, dirErr := os.Stat(dir)
	switch nested := s.p.Nested(); {
	case !slices.Contains(ExampleNames, name):
		return exit.Usage("init: unknown example %q%s; there are %s", name, text.DidYouMean(name, ExampleNames, "%q"), strings.Join(ExampleNames, ", "))
	case nested != nil:
		return nested
	case dirErr != nil || !info.IsDir():
		return exit.Fault("init_failed", dir+" is not a directory", "create it, or name another place for the workflow")
	case exists(s.p.Path):
		return existing(s.p.Path, "nothing was written; check the file with symphony check, or name another place with -w FILE")
	case s.p.EnvErr != nil:
		return s.p.EnvErr
	case exists(s.p.EnvPath()) && s.p.EnvFile[workflow.APIKeyVar] == "":
		return existing(s.p.EnvPath(), "it contains no key and was not changed: add a line "+workflow.APIKeyVar+"=… to it, then run symphony init again")
	case s.interactive:
		return nil
	}
	var missing []string
	for _, flag := range [][2]string{
		{"--project", s.options.Project},
		{"--repository", s.options.Repository},
		{"--key-file or the variable " + workflow.APIKeyVar, cmp.Or(s.options.KeyFile, s.knownKey())},
	} {
		if flag[1] == "" {
			missing = append(missing, flag[0])
		}
	}
	if missing != nil {
		return exit.Usage("init: without a terminal, give %s", strings.Join(missing, ", "))
	}
	return nil
}

// exists reports whether there is anything at path, even a broken link.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func existing(path, hint string) error {
	return exit.Fault("already_exists", path+" exists", hint)
}

// ask asks one question. An empty answer accepts the proposal, or is an error if there is none. A key is not echoed.
func (s *starter) ask(ctx context.Context, question, what, proposal string) (string, error) {
	if proposal != "" {
		question += " [" + term.Visible(proposal) + "]"
	}
	line, err := term.AskLine(ctx, s.w, question+": ", what == "key")
	line = cmp.Or(strings.TrimSpace(line), proposal)
	if err == nil && line == "" {
		err = exit.Fault("canceled", "no "+what+" was given, so nothing was written", "run symphony init again")
	}
	return line, err
}

// setValue sets a value from its flag, asks until the answer is right, or takes the proposal.
func (s *starter) setValue(ctx context.Context, what, flag, given, proposal string, set func(context.Context, string) error) error {
	switch {
	case given != "":
		return set(ctx, given)
	case !s.interactive && proposal == "":
		return exit.Usage("init: the project's team has no state to propose: give %s", flag)
	case !s.interactive:
		return set(ctx, proposal)
	}
	for {
		answer, err := s.ask(ctx, what, strings.ToLower(what), proposal)
		if err != nil {
			return err
		}
		if err = set(ctx, answer); err == nil {
			return nil
		}
		s.printError(err)
	}
}

// printError prints what is wrong with an answer.
func (s *starter) printError(err error) {
	fmt.Fprintln(s.w.Stderr, term.Visible(exit.From(err).Message))
}

// knownKey returns the key that is already configured, preferably that of the environment file, the only one that a schedule has.
func (s *starter) knownKey() string {
	return strings.TrimSpace(cmp.Or(s.p.EnvFile[workflow.APIKeyVar], s.w.Getenv(workflow.APIKeyVar)))
}

// findKey finds a key that the tracker accepts: that of --key-file, the one that is already configured, or one that is typed. A
// refused key may be typed again.
func (s *starter) findKey(ctx context.Context) error {
	key := s.knownKey()
	source := s.p.KeySource(key, workflow.APIKeyVar)
	if s.options.KeyFile != "" {
		var err error
		source = "--key-file"
		if key, err = s.readKey(s.options.KeyFile); err != nil {
			return err
		}
		if have := s.p.EnvFile[workflow.APIKeyVar]; have != "" && have != key && exists(s.p.EnvPath()) {
			return exit.Fault("already_exists", s.p.EnvPath()+" contains another key than --key-file",
				"change it there, or leave out --key-file to use the one in the file")
		}
	}
	if key != "" {
		return s.tryKey(ctx, key, source)
	}
	for try := 1; ; try++ {
		typed, err := s.ask(ctx, s.tracker.KeyQuestion, "key", "")
		if err != nil {
			return err
		}
		if err = s.tryKey(ctx, typed, ""); !s.tracker.RefusedKey(err) || try == keyTries {
			return err
		}
		s.printError(err)
	}
}

func (s *starter) readKey(path string) (string, error) {
	var data []byte
	var err error
	switch {
	case path != "-":
		data, err = os.ReadFile(s.w.Absolute(path))
	case s.interactive:
		return "", exit.Usage("init: --key-file - reads from a pipe; on a terminal leave it out to be asked for the key")
	default:
		data, err = io.ReadAll(s.w.Stdin)
	}
	if err != nil {
		return "", exit.Usage("init: --key-file: %s", err)
	}
	key := strings.TrimSpace(string(data))
	if key == "" {
		return "", exit.Usage("init: --key-file %s contains no key", path)
	}
	return key, nil
}

// tryKey asks the tracker for the user of the key. Its errors never contain the key, but say that it comes from source.
func (s *starter) tryKey(ctx context.Context, key, source string) error {
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("'\"\\#$`", r) }) {
		return exit.Fault("missing_tracker_api_key", "the key contains characters that a key of "+s.tracker.Name+" can't contain",
			"copy it again; a key file contains nothing but the key, without a name or quotes")
	}
	account, err := s.tracker.Connect(ctx, s.answers.Endpoint, key, source)
	if err != nil {
		return err
	}
	s.key, s.account = key, account
	if s.interactive {
		fmt.Fprintf(s.w.Stderr, "This is the key of %s.\n", term.Visible(account.User))
	}
	return nil
}

// keyPath is the environment file that contains the key, or will contain it: that of all projects if it has this key.
func (s *starter) keyPath() string {
	if s.p.OwnEnv[workflow.APIKeyVar] == "" && s.p.SharedEnv[workflow.APIKeyVar] == s.key {
		return s.p.SharedEnvPath()
	}
	return s.p.EnvPath()
}

// write creates both files or none. It does not change an environment file that contains the key.
func (s *starter) write(source []byte) error {
	path := s.keyPath()
	hadEnv := exists(path)
	if exists(s.p.Path) {
		return existing(s.p.Path, "it was not changed; name another place with -w FILE")
	}
	if !hadEnv {
		line := "# Read by every pass of " + s.p.Path + ", also of scheduled ones.\n" + workflow.APIKeyVar + "=" + s.key + "\n"
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = durable.WriteFile(path, []byte(line), 0o600)
		}
		if err != nil {
			return notWritten(err)
		}
	}
	err := durable.WriteFile(s.p.Path, source, 0o644)
	if err == nil {
		return nil
	}
	if !hadEnv {
		err = errors.Join(err, os.Remove(path))
	}
	return notWritten(err)
}

func notWritten(err error) error {
	if exit.From(err).Code != "internal" {
		return err // a full disk has a code of its own
	}
	return exit.Fault("init_failed", "nothing was written: "+err.Error(), "check the permissions of that directory")
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
		w.PrintJSON(map[string]any{
			"workflow": s.p.Path, "environment_file": s.keyPath(), "project_slug": s.project.Slug, "workspace_root": s.answers.Root,
			"label_exists": s.project.HasLabel, "next": next,
		})
		return
	}
	todo := "Set the label %q on an issue in %s, then run:"
	if !s.project.HasLabel {
		todo = "Create the label %q in %s, set it on an issue, then run:"
	}
	fmt.Fprintf(w.Stdout, "wrote %s, for the project %s\nthe key is in %s\n\n",
		term.Visible(s.p.Path), term.Visible(s.project.Name), term.Visible(s.keyPath()))
	fmt.Fprintf(w.Stdout, todo+"\n\n  %s\n", term.Visible(s.answers.Labels[0]), s.tracker.Name, text.VisibleLines(strings.Join(next, "\n  ")))
}
