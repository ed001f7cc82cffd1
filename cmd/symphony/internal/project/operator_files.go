package project

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/state"
)

// OperatorFiles returns the files and directories of all projects of the account that a pass reads as its operator's, or writes:
// workflows, environment files, state directories, workspace roots, folders of issues, and the programs of trackers. Some need not
// exist. Of a workflow that can't be read, it is the whole directory.
//
// Agents in directories of the operator, which those of symphony mcp are, must not write them: the next pass would do what they say.
func OperatorFiles(ctx context.Context, w *term.Env) (list []string, err error) {
	projects, err := All(w)
	for _, p := range projects {
		list = append(list, p.StateDir)
		list = append(list, storedFiles(ctx, p.StateDir)...)
		if path := ownerOf(p.StateDir); path != "" {
			list = append(list, workflowFiles(New(w, path, p.StateDir))...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), err
}

// storedFiles are the workspace roots that a project has used. Of a state that can't be read there are none.
func storedFiles(ctx context.Context, stateDir string) []string {
	db, err := state.OpenReadOnly(ctx, stateDir)
	if err != nil {
		return nil
	}
	defer db.Close()
	roots, _ := RootsOf(ctx, db)
	return roots
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
	if cfg.Tracker.Folder != "" {
		list = append(list, cfg.Tracker.Folder)
	}
	for _, word := range cfg.Tracker.Command {
		_, value, _ := strings.Cut(word, "=") // of a flag
		for _, path := range []string{word, value} {
			if path != "" && Exists(absoluteIn(dir, path)) {
				list = append(list, absoluteIn(dir, path))
			}
		}
	}
	return list
}

func absoluteIn(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// LinkIn returns the first symlink in dir that leads to path, which need not exist; "" if there is none. real is the path without
// links. dir must have none.
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
		case text.PathInside(dir, next) || links == manyLinks:
			return next, next
		}
		links++
		rest = append(strings.Split(absoluteIn(real, target), "/"), rest...)
		real = "/"
	}
	return "", real
}
