package setup

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/proc"
)

var fileKind = kind{
	name:    "file",
	check:   (*starter).checkFile,
	find:    []func(*starter, context.Context) error{(*starter).findFolder, (*starter).findStates},
	write:   (*starter).writeFolder,
	summary: (*starter).fileSummary,
}

// The folder of the issues, below the folder of the workflow: the folder of Backlog.md if it
// exists.
const (
	DefaultPath = "issues"
	backlogPath = "backlog/tasks"
)

// The first issue fits any repository, so that it can be run as it is.
const (
	firstTitle = "Write down how to build and test this project"
	firstText  = "Find out from the files how this project is built and tested. Write the commands into " +
		"CONTRIBUTING.md, in at most 20 lines,\n" +
		"with a sentence for each. If a file says it already, check that it is right, and correct only " +
		"what is wrong.\n"
)

func (s *starter) checkFile() error {
	s.interactive = false // there is nothing to ask
	for _, flag := range [][2]string{
		{"--key-file", s.options.KeyFile},
		{"--project", s.options.Project},
		{"--endpoint", s.options.Endpoint},
	} {
		if flag[1] != "" {
			return exit.Usage(
				"init: %s has no meaning with --tracker file, which needs no key and no network",
				flag[0],
			)
		}
	}
	dir := filepath.Dir(s.p.Path)
	s.answers.Path = filepath.Clean(s.expand(cmp.Or(s.options.Path, DefaultPath)))
	if s.options.Path == "" && exists(filepath.Join(dir, backlogPath)) {
		s.answers.Path = backlogPath
	}
	s.folder = s.answers.Path
	if !filepath.IsAbs(s.folder) {
		s.folder = filepath.Join(dir, s.folder)
	}
	info, err := os.Stat(s.folder)
	if err == nil && !info.IsDir() {
		return exit.Usage("init: --path: %s is a file: give a folder of its own for the issues, such as issues", s.folder)
	}
	if paths.SameDir(s.folder, dir) {
		return exit.Usage(
			"init: --path: %s would be read as an issue there: give a folder of its own for the issues, such as issues",
			filepath.Base(s.p.Path),
		)
	}
	return nil
}

// findFolder finds the repository in which the workflow is, and proposes states.
func (s *starter) findFolder(ctx context.Context) error {
	dir := filepath.Dir(s.p.Path)
	if s.options.Repository == "" {
		s.options.Repository = s.git(ctx, dir, "rev-parse", "--show-toplevel")
		foreign := s.foreign(ctx, dir)
		switch {
		case proc.LookPath("git", s.w.Environ) == "":
			return exit.Usage("init: git is missing: it is not in PATH; install it first")
		case foreign != "":
			return exit.Usage("init: %s", foreign)
		case s.options.Repository == "":
			return exit.Usage(
				"init: %s is in no work tree of git: run git init and git commit first, or give --repository",
				dir,
			)
		case s.git(ctx, dir, "rev-parse", "--verify", "HEAD") == "":
			return exit.Usage(
				"init: the repository %s has no commit, so that agents could not clone it: run git commit first",
				s.options.Repository,
			)
		}
		if s.answers.Example == pullRequestExample {
			s.options.Repository = cmp.Or(
				s.git(ctx, dir, "remote", "get-url", "origin"),
				s.options.Repository,
			)
		}
	}
	s.project.Name = strings.TrimSuffix(filepath.Base(s.options.Repository), ".git")
	s.project.States = slices.Clone(wiring.FolderStates(s.folder))
	if s.project.States == nil {
		waiting := waitingStates(wiring.WrittenStates(s.folder))
		s.project.States = plainStates(waiting)
		if s.options.ActiveStates == "" && s.answers.Example != reviewExample {
			s.options.ActiveStates = strings.Join(waiting, ", ") + ", In Progress"
		}
	}
	s.addStates()
	return nil
}

// waitingStates are the states of issues that wait in a folder that defines no states: To Do or
// Todo, as the issues there have it, or both.
func waitingStates(written []string) []string {
	usual := []string{"To Do", "Todo"}
	used := slices.DeleteFunc(slices.Clone(usual), func(name string) bool {
		isName := func(state string) bool { return reconcile.SameState(state, name) }
		return !slices.ContainsFunc(written, isName)
	})
	if len(used) == 0 {
		return usual[:1]
	}
	return used
}

// plainStates are the states of a folder that defines none.
func plainStates(waiting []string) (list []reconcile.TrackerState) {
	for _, of := range []struct {
		kind  reconcile.StateKind
		names []string
	}{
		{reconcile.StateWaiting, waiting},
		{reconcile.StateStarted, []string{"In Progress"}},
		{reconcile.StateEnded, []string{"Done", "Closed", "Canceled", "Cancelled", "Duplicate"}},
	} {
		for _, name := range of.names {
			list = append(list, reconcile.TrackerState{Name: name, Kind: of.kind})
		}
	}
	return list
}

// addStates adds the states that flags name, because an issue in a file can have any state, and
// a state for review if there is none, or none but the one that comes after it. Issues wait in the first active state.
func (s *starter) addStates() {
	kind := reconcile.StateWaiting
	for name := range strings.SplitSeq(s.options.ActiveStates, ",") {
		s.addState(name, kind)
		kind = reconcile.StateStarted
	}
	s.addState(s.options.ReviewState, reconcile.StateStarted)
	isReview := func(state reconcile.TrackerState) bool {
		return partOf(state) == "review" && !s.isAfterReview(state)
	}
	if !slices.ContainsFunc(s.project.States, isReview) {
		s.addState("Human Review", reconcile.StateStarted)
	}
}

// addState adds a state, unless it is known.
func (s *starter) addState(name string, kind reconcile.StateKind) {
	name = strings.TrimSpace(name)
	_, known := s.project.State(name)
	if known || name == "" {
		return
	}
	s.project.States = append(s.project.States, reconcile.TrackerState{Name: name, Kind: kind})
}

// writeFolder creates the folder, if it is missing. Into an empty one it writes a first issue,
// unless the agent is a reviewer, which writes nothing.
func (s *starter) writeFolder(ctx context.Context) (undo func() error, err error) {
	cfg, err := s.written.Config()
	if err != nil {
		return nothing, err
	}
	dir := s.folder
	made := !exists(s.folder)
	undo = func() error {
		switch {
		case made:
			return os.RemoveAll(dir)
		case s.firstPath != "":
			return os.Remove(s.firstPath)
		}
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nothing, err
	}
	tracker, err := wiring.NewTracker(s.written, cfg, wiring.TrackerOptions{})
	if err != nil {
		return undo, err
	}
	// the pattern is valid
	files, _ := filepath.Glob(filepath.Join(dir, "*.md"))
	// A reviewer could not do what the first issue asks for: it writes nothing.
	if len(files) == 0 && s.answers.Example != reviewExample {
		issue, err := tracker.Create(ctx, reconcile.NewIssue{
			Title:  firstTitle,
			Body:   firstText,
			State:  s.answers.Active[0],
			Labels: s.answers.Labels,
		})
		if err != nil {
			return undo, err
		}
		s.firstPath = issue.File()
	}
	return undo, nil
}

func (s *starter) fileSummary() (lines []string, more JSON) {
	lines = []string{"wrote " + s.p.Path, "the issues are in " + s.folder}
	if s.firstPath != "" {
		lines[1] = "wrote " + s.firstPath
	}
	defined := reconcile.TrackerBoard{States: wiring.FolderStates(s.folder)}
	for _, name := range append(slices.Clone(s.answers.Active), s.answers.Review) {
		if _, known := defined.State(name); !known && defined.States != nil {
			lines = append(
				lines,
				fmt.Sprintf(
					"%q is not yet a status of Backlog.md: add it to statuses in its configuration, so "+
						"backlog can set it",
					name,
				),
			)
		}
	}
	if s.firstPath != "" {
		const line = "%s asks an agent to write CONTRIBUTING.md; keep it, or replace its text by what you want done"
		lines = append(lines, fmt.Sprintf(line, s.first))
	}
	return append(lines, "", "Next:"), JSON{Path: s.answers.Path}
}
