package main

import (
	"cmp"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/urfave/cli/v2"
)

// onProject is the action of a command about a project. It reads the named arguments and the
// workflow that may follow them.
func onProject(
	w *term.Env,
	names []string,
	do func(c *cli.Context, p *wiring.Project, args []string) error,
) cli.ActionFunc {
	return func(c *cli.Context) error {
		w.Verbose = c.Bool("verbose")
		if err := onlyOne(c, "verbose", "json"); err != nil {
			return err
		}
		args, positional, err := arguments(w, c, names...)
		if err != nil {
			return err
		}
		p, err := openProject(w, c, positional)
		if err != nil {
			return err
		}
		return do(c, p, args)
	}
}

// onlyReads are the commands that answer in an issue's workspace, too: they use the workflow of
// its project, and not the agent's copy in the workspace.
var onlyReads = []string{"show", "ps", "diff", "logs"}

// openProject finds the workflow (specification 5.1), its state directory and its environment
// file. It does not fail if the workflow can't be read, because some commands work without it,
// but if an agent could have written it.
func openProject(w *term.Env, c *cli.Context, positional string) (*wiring.Project, error) {
	if c.IsSet("workflow") && positional != "" {
		return nil, exit.Usage(
			"%s: the workflow is given twice, with -w and as %q",
			c.Command.Name,
			positional,
		)
	}
	if len(workflows(c)) > 1 {
		return nil, exit.Usage("%s: -w is given twice, and the command is about one project", c.Command.Name)
	}
	path := cmp.Or(c.String("workflow"), positional)
	isNamed := path != ""
	stateDir := cmp.Or(c.String("state-dir"), w.Getenv("SYMPHONY_STATE_DIR"))
	if !isNamed {
		path = w.Getenv("SYMPHONY_WORKFLOW")
		if path != "" && c.Command.Name != "init" && !wiring.Exists(w.Absolute(path)) {
			w.Note(slog.LevelWarn, "the variable SYMPHONY_WORKFLOW names "+path+", which does not exist")
		}
		if path == "" && c.Command.Name != "init" {
			path, stateDir = findProject(w, c.Command.Name, stateDir)
		}
		if path != "" && filepath.Dir(w.Absolute(path)) != w.Dir && !w.Piped() && !w.JSON {
			w.Note(slog.LevelInfo, "using "+path)
		}
	}
	path = cmp.Or(path, "WORKFLOW.md")
	p, err := openAt(w, path, stateDir)
	if err != nil {
		return nil, err
	}
	looksItself := c.Command.Name == "init" || c.Command.Name == "tick"
	if isNamed && !looksItself && stateDir != "" && !p.OwnsState() {
		return nil, p.SourceErr
	}
	return p, nil
}

// isDirectory reports whether a path is that of a directory.
func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// openAt opens the project of the workflow at a path. A directory stands for the WORKFLOW.md in it.
func openAt(w *term.Env, path, stateDir string) (*wiring.Project, error) {
	if strings.HasSuffix(path, "/") || isDirectory(w.Absolute(path)) {
		path = filepath.Join(path, "WORKFLOW.md")
	}
	p := wiring.NewProject(w.Environment(), path, stateDir)
	if p.Foreign() != nil {
		return nil, p.Nested() // which also knows whether an agent calls
	}
	return p, nil
}

// findProject returns the workflow around the working directory, empty for none, and its state
// directory if that is neither the given nor the default directory.
func findProject(w *term.Env, command, stateDir string) (path, dir string) {
	if stateDir == "" && slices.Contains(onlyReads, command) {
		path, dir = wiring.OfWorkspace(w.Environment(), w.Dir)
	}
	if path != "" {
		return path, dir
	}
	return wiring.FindWorkflow(w.Environment()), stateDir
}

// openProjects opens the projects of the workflows that are given as arguments, or with several
// -w, or the project that openProject finds.
func openProjects(w *term.Env, c *cli.Context) (list []*wiring.Project, err error) {
	paths := append(workflows(c), c.Args().Slice()...)
	if len(paths) < 2 {
		p, err := openProject(w, c, strings.Join(c.Args().Slice(), ""))
		if err != nil {
			return nil, err
		}
		return []*wiring.Project{p}, nil
	}
	return openEach(w, c, paths)
}

// openEach opens the projects of several workflows.
func openEach(w *term.Env, c *cli.Context, paths []string) (list []*wiring.Project, err error) {
	if c.IsSet("state-dir") || w.Getenv("SYMPHONY_STATE_DIR") != "" {
		return nil, exit.Usage(
			"%s: several workflows cannot share a state directory: leave out --state-dir and SYMPHONY_STATE_DIR",
			c.Command.Name,
		)
	}
	for _, path := range paths {
		p, err := openAt(w, path, "")
		if err != nil {
			return nil, err
		}
		sameState := func(other *wiring.Project) bool { return other.StateDir == p.StateDir }
		if slices.ContainsFunc(list, sameState) {
			return nil, exit.Usage("%s: the workflow %s is given twice", c.Command.Name, p.Path)
		}
		if p.SourceErr != nil && !p.HasState() { // its path is probably misspelt
			return nil, p.SourceErr
		}
		list = append(list, p)
	}
	return list, nil
}

// namesSeveral reports whether a command line is about several projects, however many there
// are: with --project all or with -w more than once.
func namesSeveral(c *cli.Context) bool {
	_, takesSeveral := flagOf(c.Command, allProjects).(allProjectsFlag)
	if !takesSeveral {
		return false
	}
	return c.IsSet(allProjects) || len(workflows(c)) > 1
}

// chosenProjects opens the projects of a command that takes several: every project of the
// account, the projects of each -w, or the project that openProject finds.
func chosenProjects(w *term.Env, c *cli.Context, positional string) ([]view.Named, error) {
	if !namesSeveral(c) {
		p, err := openProject(w, c, positional)
		if err != nil {
			return nil, err
		}
		return []view.Named{{Project: p, Name: p.Name()}}, nil
	}
	if c.IsSet(allProjects) {
		if err := checkAllProjects(c, positional); err != nil {
			return nil, err
		}
		all, err := wiring.AllProjects(w.Environment())
		if err != nil {
			return nil, err
		}
		return view.Name(c.Context, all), nil
	}
	if positional != "" {
		return nil, besideSeveral(c, positional)
	}
	list, err := openEach(w, c, workflows(c))
	if err != nil {
		return nil, err
	}
	return view.Name(c.Context, list), nil
}

// checkAllProjects refuses --project with another word than all, and beside flags and arguments
// that name a project.
func checkAllProjects(c *cli.Context, positional string) error {
	name := c.Command.Name
	switch {
	case c.String(allProjects) != "all":
		return exit.Usage("%s: --project takes only the word all; -w FILE names one project", name)
	case positional != "":
		return besideSeveral(c, positional)
	case c.IsSet("workflow") || c.IsSet("state-dir"):
		return exit.Usage("%s: --project all is every project: leave out -w and --state-dir", name)
	}
	return nil
}

func besideSeveral(c *cli.Context, positional string) error {
	return exit.Usage("%s: %q beside several projects: name each workflow with -w", c.Command.Name, positional)
}
