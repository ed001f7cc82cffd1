// Package setup writes a WORKFLOW.md and its environment file, and asks the operator for
// everything that no flag gives.
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

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// DefaultLabel is the label of issues that agents work on.
const DefaultLabel = "symphony"

// Options are the flags of init, empty if they were not given.
type Options struct {
	Tracker      string
	Path         string
	Example      string
	Agent        string
	Model        string
	KeyFile      string
	Project      string
	Team         string
	Repository   string
	ActiveStates string
	ReviewState  string
	Label        string
	Root         string
	Endpoint     string
	Email        string
	// StateDirSet: the command named a state directory, and later commands must name it, too.
	StateDirSet bool
}

// kind contains the steps of init for a kind of tracker.
type kind struct {
	name string
	// forge is the service of the repositories with the issues; zero if it is none.
	forge workflow.ForgeKind
	// apiPath ends the address of the API of a server that may be at any host, such as /api/v1.
	apiPath string
	// groups: owners of repositories are groups, which may be in other groups.
	groups bool
	// suits reports whether the operator's folder or environment suggests it; nil for the kind
	// that is proposed otherwise.
	suits func(*starter, context.Context) bool
	// check reports faults before the first question is asked; may be nil.
	check func(*starter) error
	// find are the steps that find the project and its states, in order.
	find []func(*starter, context.Context) error
	// write writes the other files that the workflow needs. undo removes them again.
	write func(*starter, context.Context) (undo func() error, err error)
	// summary lists the files written and the steps left to do. more is its part of the JSON.
	summary func(*starter) (lines []string, more JSON)
}

// JSON is the output of init --json.
type JSON struct {
	Workflow      string `json:"workflow"`
	WorkspaceRoot string `json:"workspace_root"`
	Agent         string `json:"agent"` // its kind, such as claude
	// Path is the folder of the issues, for --tracker file.
	Path            string `json:"path,omitempty"`
	EnvironmentFile string `json:"environment_file,omitempty"`
	ProjectSlug     string `json:"project_slug,omitempty"` // of Linear; of Jira the key
	Team            string `json:"team,omitempty"`         // of Linear, its key
	Repository      string `json:"repository,omitempty"`   // of the issues on GitHub, Gitea or GitLab
	// the label that agents need exists in the tracker
	LabelExists *bool `json:"label_exists,omitempty"`
	// Verify is verify.command, if init knows how the repository is tested.
	Verify string `json:"verify,omitempty"`
	// Next are the commands to run next.
	Next []string `json:"next"`
}

// kinds are the kinds of trackers, in the order in which they are proposed; the first is the
// default, the last suits always.
var kinds = []kind{linearKind, githubKind, giteaKind, gitlabKind, jiraKind, fileKind}

// TrackerNames are the values of --tracker; the first is the default.
func TrackerNames() []string { return text.Map(kinds, func(k kind) string { return k.name }) }

// dialog asks the operator.
type dialog struct {
	w           *term.Env
	interactive bool // the operator can be asked
}

// starter is a call of symphony init: the flags, the answers, and the texts to write.
type starter struct {
	dialog
	p         *wiring.Project // of the workflow, which does not exist yet
	options   Options
	keys      keys
	key       string
	keyFromGh bool
	keyOfGh   bool // gh may have the key
	kind      kind
	tracker   reconcile.TrackerSetup
	account   reconcile.TrackerAccount // the things that the key can see
	project   reconcile.TrackerBoard   // the chosen project
	answers   answers
	clone     string          // a directory with the repository or a clone of it; empty for none
	written   *wiring.Project // with the workflow that will be written
	folder    string          // the absolute path of the issues, for --tracker file
	// of the issue that was written; empty if the folder already contained issues
	firstPath string
	first     string // the identifier of an issue in an active state; empty for none
	labelled  bool   // that issue carries the label
}

func nothing() error { return nil }

// Run asks for everything that the options leave open, checks it with the tracker, and writes
// WORKFLOW.md and the files that belong to it.
func Run(ctx context.Context, w *term.Env, p *wiring.Project, o Options) error {
	s := &starter{
		dialog:  dialog{w, w.OnTerminal() && !w.JSON},
		p:       p,
		options: o,
		answers: answers{Example: cmp.Or(o.Example, ExampleNames[0]), Endpoint: o.Endpoint},
	}
	if err := s.check(ctx); err != nil {
		return err
	}
	for _, step := range append(s.kind.find, (*starter).findRepository, (*starter).findRoot) {
		if err := step(s, ctx); err != nil {
			return withFlag(err)
		}
	}
	if s.clone != "" && s.answers.Example != reviewExample {
		s.answers.Stacks = s.stacks(ctx, s.clone)
	}
	source, err := s.render()
	if err != nil {
		return err
	}
	if err := s.write(ctx, source); err != nil {
		return err
	}
	s.report(ctx)
	return nil
}

// withFlag returns an error that names the flag of init in place of the key of a WORKFLOW.md, which
// does not exist yet.
func withFlag(err error) error {
	known, is := errors.AsType[*reconcile.Error](err)
	if !is {
		return err
	}
	named := *known
	named.Hint = strings.ReplaceAll(known.Hint, "tracker.endpoint", "--endpoint")
	return &named
}

// check reports faults before the first question is asked.
func (s *starter) check(ctx context.Context) error {
	dir := filepath.Dir(s.p.Path)
	name := s.answers.Example
	info, dirErr := os.Stat(dir)
	nested := s.p.Nested()
	switch {
	case !slices.Contains(ExampleNames, name):
		return exit.Usage("init: unknown example %q, %s", name, suggest.Instead(name, ExampleNames))
	case nested != nil:
		return nested
	case dirErr != nil || !info.IsDir():
		return reconcile.NewError(
			"failed",
			dir+" is not a directory",
			"create it, or name another place for the workflow",
		)
	case exists(s.p.Path):
		return existing(
			s.p.Path,
			"nothing was written; check the file with symphony check, or name another place with -w FILE",
		)
	case s.p.EnvErr != nil:
		return s.p.EnvErr
	}
	if s.options.Agent != "" {
		if err := checkAgentName(s.options.Agent); err != nil {
			return err
		}
	}
	what := "Tracker (" + strings.Join(TrackerNames(), ", ") + ")"
	proposal := s.proposeTracker(ctx)
	err := s.setValue(ctx, what, "--tracker", s.options.Tracker, proposal, s.setTracker)
	if err != nil {
		return err
	}
	if s.options.Team != "" && s.kind.name != linearKind.name {
		return exit.Usage("init: --team works only with --tracker linear")
	}
	label := strings.TrimSpace(s.options.Label)
	if s.keys.names != nil {
		if s.options.Path != "" {
			return exit.Usage("init: --path works only with --tracker file")
		}
		s.tracker, err = wiring.TrackerSetup(s.kind.name, "")
		if err != nil {
			return err
		}
		label = cmp.Or(label, DefaultLabel)
	}
	if label != "" {
		s.answers.Labels = []string{label}
	}
	if s.kind.check != nil {
		err = s.kind.check(s)
	}
	if err != nil {
		return err
	}
	return s.findAgent(ctx)
}

// proposeTracker proposes the tracker that the folder of the workflow, or a key, suggests. The
// folder of files needs neither.
func (s *starter) proposeTracker(ctx context.Context) string {
	if !s.interactive {
		return kinds[0].name
	}
	if s.options.Path != "" || exists(filepath.Join(filepath.Dir(s.p.Path), backlogPath)) {
		return fileKind.name
	}
	if s.options.Team != "" {
		return linearKind.name
	}
	suits := func(k kind) bool { return k.suits == nil || k.suits(s, ctx) }
	return text.First(kinds, suits).name
}

func (s *starter) setTracker(_ context.Context, name string) error {
	i := slices.Index(TrackerNames(), name)
	names := TrackerNames()
	if i < 0 {
		return exit.Usage("init: unknown tracker %q; there are %s; %s", name, strings.Join(names, ", "), workflow.OtherKind)
	}
	s.kind = kinds[i]
	s.answers.Tracker = name
	s.keys.p = s.p
	s.keys.names, s.keyOfGh = workflow.KeyVars(name)
	return nil
}

// missing returns an error for the flags without a value, which are needed where the operator
// can't be asked. Each flag is a pair of its name and its value.
func (d dialog) missing(flags ...[2]string) error {
	var names []string
	for _, flag := range flags {
		if flag[1] == "" {
			names = append(names, flag[0])
		}
	}
	if names == nil || d.interactive {
		return nil
	}
	return exit.Usage("init: without a terminal, give %s", strings.Join(names, ", "))
}

// exists reports whether there is anything at path, even a broken link.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func existing(path, hint string) error {
	return reconcile.NewError("already_exists", path+" exists", hint)
}

// ask asks a question. An empty line accepts the proposal, or is an error if there is none, as
// is the end of the input (Ctrl-D). A key is not echoed.
func (d dialog) ask(ctx context.Context, question, what, proposal string) (string, error) {
	if proposal != "" {
		question += " [" + text.Visible(proposal) + "]"
	}
	ask := term.AskLine
	if what == "key" {
		ask = term.AskSecret
	}
	line, err := ask(ctx, d.w, question+": ")
	if err != nil {
		return "", err
	}
	line = strings.TrimSpace(line)
	if line == "" && !d.w.InputEnded {
		line = proposal
	}
	if line == "" {
		return "", reconcile.NewError(
			"canceled",
			"no "+what+" was given, so nothing was written",
			"run symphony init again",
		)
	}
	return line, nil
}

// setValue sets a value from its flag, asks until the answer is right, or takes the proposal.
func (d dialog) setValue(
	ctx context.Context,
	what, flag, given, proposal string,
	set func(context.Context, string) error,
) error {
	if given != "" {
		return set(ctx, given)
	}
	if !d.interactive {
		if proposal == "" {
			return exit.Usage("init: there is nothing to propose for it: give %s", flag)
		}
		return set(ctx, proposal)
	}
	for {
		answer, err := d.ask(ctx, what, strings.ToLower(what), proposal)
		if err != nil {
			return err
		}
		wrong := set(ctx, answer)
		if wrong == nil {
			return nil
		}
		d.printError(wrong)
	}
}

// printError prints the fault of an answer.
func (d dialog) printError(err error) {
	fmt.Fprintln(d.w.Stderr, text.Visible(exit.From(err).Message))
}

// write creates the workflow and the files that belong to it, or nothing.
func (s *starter) write(ctx context.Context, source []byte) error {
	if exists(s.p.Path) {
		return existing(s.p.Path, "it was not changed; name another place with -w FILE")
	}
	undo, err := s.kind.write(s, ctx)
	if err != nil {
		return notWritten(err, undo())
	}
	if err := durable.WriteFile(s.p.Path, source, 0o644); err != nil {
		return notWritten(err, undo())
	}
	return nil
}

// notWritten explains an error of the file system, unless it already carries a code, as for a
// full disk. left is the error because of which files that were written could not be removed.
func notWritten(err, left error) error {
	if exit.From(err).Code != "internal" {
		return errors.Join(err, left)
	}
	message := "nothing was written: " + err.Error()
	if left != nil {
		message = err.Error() + "; some files are left: " + left.Error()
	}
	return reconcile.NewError("failed", message, "check the permissions of this directory, and run init again")
}

// report prints the files written, the steps left to do in the tracker, and the next commands.
func (s *starter) report(ctx context.Context) {
	w := s.w
	flags := ""
	if s.p.Path != w.Absolute("WORKFLOW.md") {
		flags = " -w " + text.ShellQuote(s.p.Path)
	}
	if s.options.StateDirSet {
		flags += " --state-dir " + text.ShellQuote(s.p.StateDir)
	}
	s.findIssue(ctx)
	lines, all := s.kind.summary(s)
	lines = slices.Insert(lines, 1, s.agentSummary()...)
	next := []string{
		"symphony doctor" + flags,
		"symphony run " + cmp.Or(s.first, "ISSUE") + flags,
		"symphony schedule install" + flags,
	}
	now := next[:2]
	later := next[2]
	if len(s.answers.Stacks) > 0 {
		found := s.answers.Stacks[0]
		const line = "found %s (%s): before an issue is handed over, symphony runs %s"
		lines = slices.Insert(lines, 1, fmt.Sprintf(line, found.Name, found.Files[0], found.Verify))
		all.Verify = found.Verify
	}
	if w.JSON {
		all.Workflow = s.p.Path
		all.WorkspaceRoot = s.answers.Root
		all.Agent = s.answers.Agent
		all.Next = next
		w.PrintJSON(all)
		return
	}
	for _, line := range lines {
		fmt.Fprintln(w.Stdout, text.Visible(line))
	}
	fmt.Fprintf(w.Stdout, "\n  %s\n", text.VisibleLines(strings.Join(now, "\n  ")))
	fmt.Fprintf(w.Stdout, "\nWhen that has worked, let a schedule start runs:\n\n  %s\n", text.Visible(later))
}

// findIssue finds the issue to run first, preferably an issue with the label. Without an
// answer of the tracker there is none.
func (s *starter) findIssue(ctx context.Context) {
	written := wiring.NewProject(s.w.Environment(), s.p.Path, s.p.StateDir)
	cfg, err := written.Config()
	if err != nil {
		return
	}
	tracker, err := wiring.NewTracker(written, cfg, wiring.TrackerOptions{})
	if err != nil {
		return
	}
	issues, _ := tracker.Candidates(ctx, cfg.Policy.ActiveStates)
	slices.SortStableFunc(issues, reconcile.CompareIssues)
	for _, issue := range issues {
		labelled := cfg.Policy.Labelled(issue)
		if issue.Malformed == "" && (s.first == "" || labelled && !s.labelled) {
			s.first = issue.Identifier
			s.labelled = labelled
		}
	}
}

// labelTask explains how an issue gets the label that agents need. where is the tracker or a
// part of it.
func (s *starter) labelTask(where string) string {
	label := s.answers.Labels[0]
	issue := cmp.Or(s.first, "an issue")
	switch {
	case s.labelled:
		return "Next:"
	case !s.project.HasLabel:
		return fmt.Sprintf("Create the label %q in %s, set it on %s, then run:", label, where, issue)
	}
	return fmt.Sprintf("Set the label %q on %s in %s, then run:", label, issue, where)
}
