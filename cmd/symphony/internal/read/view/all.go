package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
)

// Named is a project with a name that is unique in a list: the name of its folder, with a
// number behind it if another folder is called the same, for example web and web-2.
type Named struct {
	*wiring.Project
	Name string
}

// Name gives projects names, in the order of their paths. Where only the state directory is
// known, it finds the workflow.
func Name(ctx context.Context, projects []*wiring.Project) []Named {
	var list []Named
	for _, p := range projects {
		p = withWorkflow(ctx, p)
		list = append(list, Named{p, newProjectRow(p.Path, p.StateDir).Name})
	}
	slices.SortStableFunc(list, func(a, b Named) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.StateDir, b.StateDir))
	})
	for i, name := range unique(list) {
		list[i].Name = name
	}
	return list
}

// withWorkflow returns the project with the workflow that owns its state directory, where only
// that is known. If the directory can't be read, reading the project reports why.
func withWorkflow(ctx context.Context, p *wiring.Project) *wiring.Project {
	if p.SourceErr == nil {
		return p
	}
	db, err := wiring.OpenForReading(ctx, p)
	if err != nil {
		return p
	}
	defer db.Close()
	return ownerOf(ctx, p, db)
}

func unique(list []Named) (names []string) {
	for _, p := range list {
		name := p.Name
		for n := 2; slices.Contains(names, name); n++ {
			name = fmt.Sprintf("%s-%d", p.Name, n)
		}
		names = append(names, name)
	}
	return names
}

// ReadAll reads the overviews of all projects of the account as ReadEach does.
func ReadAll(ctx context.Context, w *environ.Env, o Options) ([]Overview, error) {
	projects, err := wiring.AllProjects(w)
	if err != nil {
		return nil, err
	}
	return ReadEach(ctx, Name(ctx, projects), o)
}

// ReadEach reads the overviews of projects, sorted by the paths of their workflows. For a
// project that can't be read, Error is set.
func ReadEach(ctx context.Context, projects []Named, o Options) ([]Overview, error) {
	all := []Overview{}
	for _, p := range projects {
		o.Name = p.Name
		v, err := Read(ctx, p.Project, o)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			v = unreadable(p, err)
		}
		all = append(all, v)
	}
	slices.SortStableFunc(all, func(a, b Overview) int {
		return cmp.Or(
			cmp.Compare(a.Project.WorkflowPath, b.Project.WorkflowPath),
			cmp.Compare(a.Project.StateDir, b.Project.StateDir),
		)
	})
	return all, nil
}

// unreadable is the overview of a project that can't be read.
func unreadable(p Named, err error) Overview {
	row := ProjectRow{Name: p.Name, StateDir: p.StateDir}
	if p.SourceErr == nil {
		row.WorkflowPath = p.Path
	}
	v := Overview{
		GeneratedAt: p.Env.Now().UTC(),
		Project:     row,
		Error:       exit.From(err),
	}.confine(nil)
	v.SetObstacles(nil)
	return v
}

// Judge joins the verdicts of several projects: the worst level, and the reasons with the names of
// their projects, such as "web, api: no schedule is active".
func Judge(all []Overview) Verdict {
	if len(all) == 1 && all[0].Error == nil {
		return all[0].Verdict()
	}
	var out Verdict
	var reasons, brief namedReasons
	for _, level := range []Level{LevelNotTicking, LevelNeedsPerson, LevelOK} { // the worst first
		for _, v := range all {
			own := v.Verdict()
			if own.Level != level {
				continue
			}
			out.Level = cmp.Or(out.Level, level)
			reasons.add(v.Project.Name, own.Reasons)
			brief.add(v.Project.Name, own.Brief)
		}
	}
	out.Level = cmp.Or(out.Level, LevelOK)
	out.Reasons = reasons.lines()
	out.Brief = brief.lines()
	return out
}

// namedReasons are reasons with the names of the projects that have them.
type namedReasons struct {
	reasons []string // each once, in the order of their first projects
	names   map[string][]string
}

// add adds the reasons of a project.
func (n *namedReasons) add(name string, reasons []string) {
	if n.names == nil {
		n.names = map[string][]string{}
	}
	for _, reason := range reasons {
		if n.names[reason] == nil {
			n.reasons = append(n.reasons, reason)
		}
		n.names[reason] = append(n.names[reason], name)
	}
}

// lines are the reasons behind the names of their projects.
func (n *namedReasons) lines() []string {
	lines := []string{}
	for _, reason := range n.reasons {
		lines = append(lines, firstOf(n.names[reason])+": "+reason)
	}
	return lines
}
