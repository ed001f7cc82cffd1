package project

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
	"github.com/symphony-cron/symphony/tracker/file"
)

// OperatorFiles returns the files and directories of all projects of the account that a pass reads as configuration, runs, or trusts:
// workflows, environment files, state directories, workspace roots, folders of issues and what is read beside them, the programs of
// trackers, the files that hooks and codex.command name, local repositories, codex homes. Some need not exist. Of a workflow that can't be
// read, it is the whole directory. A state that can't be read is an error.
//
// Agents in directories of the operator, which those of symphony mcp are, must not write them: the next pass would obey them.
func OperatorFiles(ctx context.Context, w *environ.Env) (list []string, err error) {
	projects, err := All(w)
	for _, p := range projects {
		list = append(list, p.StateDir)
		roots, workflow, failed := storedFiles(ctx, p.StateDir)
		if failed != nil {
			return nil, reconcile.NewError("state_unreadable",
				fmt.Sprintf("%s: could not find out which files of its project an agent could change: %v", p.StateDir, failed),
				"symphony doctor --state-dir "+text.ShellQuote(p.StateDir)+" shows what is wrong")
		}
		list = append(list, roots...)
		if workflow != "" {
			list = append(list, workflowFiles(New(w, workflow, p.StateDir))...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), err
}

// storedFiles are the workspace roots that a project has used, and its workflow.
func storedFiles(ctx context.Context, stateDir string) (roots []string, workflow string, err error) {
	db, err := state.OpenReadOnly(ctx, stateDir)
	if errors.Is(err, state.ErrNoState) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	defer db.Close()
	if roots, err = RootsOf(ctx, db); err == nil {
		workflow, _, err = db.Meta(ctx, OwnerKey)
	}
	return roots, workflow, err
}

// workflowFiles are a workflow and what it names.
func workflowFiles(p *Project) []string {
	list := []string{p.Path, p.EnvPath(), p.SharedEnvPath()}
	dir := filepath.Dir(p.Path)
	cfg, err := p.ConfigWithoutKey()
	switch {
	case err != nil && Exists(p.Path):
		return append(list, dir)
	case err != nil:
		return list
	}
	list = append(list, cfg.Workspace.Root)
	named := []string{cfg.Tracker.Folder, cfg.Tracker.CAFile, cfg.Monitor.MetricsFile, cfg.Codex.Home}
	list = append(list, text.Filter(named, func(path string) bool { return path != "" })...)
	if folder := cfg.Tracker.Folder; folder != "" {
		list = append(list, file.Beside(folder)...)
	}
	if url := cfg.Repository.URL; filepath.IsAbs(url) { // git runs the hooks of a local repository
		if git := filepath.Join(url, ".git"); Exists(git) {
			url = git
		}
		list = append(list, url)
	}
	if command := cfg.Tracker.Command; len(command) > 0 && strings.Contains(command[0], "/") {
		list = append(list, absoluteIn(dir, command[0]))
	}
	for _, word := range cfg.Tracker.Command {
		_, value, _ := strings.Cut(word, "=") // of a flag
		for _, path := range []string{word, value} {
			if path != "" && Exists(absoluteIn(dir, path)) {
				list = append(list, absoluteIn(dir, path))
			}
		}
	}
	return append(list, filesIn(p.Env.Home, cfg.Codex.Command, cfg.Hooks.AfterCreate, cfg.Hooks.BeforeRun, cfg.Hooks.AfterRun,
		cfg.Hooks.BeforeRemove, cfg.Hooks.OnAttention)...)
}

// filesIn returns the existing files that shell scripts name by an absolute path, or by one below home.
func filesIn(home string, scripts ...string) (list []string) {
	split := func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("\"'`=:;|&(){}<>", r) }
	for _, word := range strings.FieldsFunc(strings.Join(scripts, " "), split) {
		for _, prefix := range []string{"~/", "$HOME/"} {
			if rest, found := strings.CutPrefix(word, prefix); found {
				word = filepath.Join(home, rest)
			}
		}
		if info, err := os.Stat(word); err == nil && filepath.IsAbs(word) && info.Mode().IsRegular() {
			list = append(list, word)
		}
	}
	return list
}

// writableFit refuses agent.writable_roots in which agents could change what they must not: own, and the files of other projects.
func writableFit(ctx context.Context, p *Project, cfg *workflow.Config, own []string) error {
	if len(cfg.Agent.WritableRoots) == 0 {
		return nil
	}
	files, err := OperatorFiles(ctx, p.Env)
	if err != nil {
		return err
	}
	for _, written := range cfg.Agent.WritableRoots {
		dir := paths.Real(written)
		if paths.InProc(written) {
			return reconcile.NewError("invalid_config",
				p.Path+": agent.writable_roots: "+written+" leads into /proc, and from there perhaps elsewhere", "name the directory itself")
		}
		for _, path := range append(own, files...) {
			if path = paths.Real(path); paths.Overlap(dir, path) {
				return reconcile.NewError("invalid_config",
					fmt.Sprintf("%s: agent.writable_roots: %s would let an agent change %s, which a pass or codex obeys", p.Path, dir, path),
					"use a directory apart from workspaces, states, issues and codex homes")
			}
		}
	}
	return nil
}

func absoluteIn(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// LinkIn follows the symlinks of path, which need not exist, up to the first one in dir. link is that one, "" for none; real is then the
// path without links. dir itself must have none.
func LinkIn(dir, path string) (link, real string) {
	const manyLinks = 100
	rest := strings.Split(filepath.Clean(path), "/")
	real = "/"
	for links := 0; len(rest) > 0; {
		next := filepath.Join(real, rest[0])
		rest = rest[1:]
		target, err := os.Readlink(next)
		switch {
		case err != nil:
			real = next
			continue
		case paths.Inside(dir, next) || links == manyLinks:
			return next, next
		}
		links++
		rest = append(strings.Split(absoluteIn(real, target), "/"), rest...)
		real = "/"
	}
	return "", real
}
