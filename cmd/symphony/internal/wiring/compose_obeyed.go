package wiring

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// obeyedInRepository returns the paths of the files in the operator's repository that decide what
// symphony runs outside the sandbox: WORKFLOW.md, such as ops/WORKFLOW.md, and the programs,
// scripts and certificates that it names. If a link leads to one of them, it returns the link and
// the file, because a change of either is a change of what a pass reads.
func obeyedInRepository(p *Project, cfg *workflow.Config) (list []string) {
	add := func(path string) {
		for _, name := range pathsInRepository(path) {
			if !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	add(p.Path)
	for _, named := range cfg.Named() {
		for _, path := range p.namedFiles(named) {
			// The folder of issues and the root of workspaces are no programs.
			isRoot := path == cfg.Workspace.Root // which may be missing
			info, err := os.Stat(path)
			if !isRoot && (err != nil || !info.IsDir()) {
				add(path)
			}
		}
	}
	return list
}

// pathsInRepository returns the paths of a file in the operator's repository around it, and of
// all links on the way to it. It is empty if none of them lies in a repository.
func pathsInRepository(file string) (list []string) {
	place, err := paths.Find(file)
	if err != nil {
		return relativeToRepository(file)
	}
	for _, link := range place.Links {
		list = append(list, relativeToRepository(link.Path)...)
	}
	return append(list, relativeToRepository(place.Path)...)
}

// relativeToRepository returns the path of a file in the repository around it, as git spells
// it; none if it lies in no repository.
func relativeToRepository(file string) []string {
	top := RepositoryAbove(filepath.Dir(file))
	if top == "" {
		return nil
	}
	name, err := filepath.Rel(top, file)
	if err != nil {
		return nil
	}
	return []string{filepath.ToSlash(name)}
}
