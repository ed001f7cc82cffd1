package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
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
// their projects, such as "web, api: no schedule" and "3 held (web 2, api 1)".
func Judge(all []Overview) Verdict {
	if len(all) == 1 && all[0].Error == nil {
		return all[0].Verdict()
	}
	levels := []Level{LevelOK, LevelNeedsPerson, LevelNotTicking}
	out := Verdict{Level: LevelOK}
	var reasons, brief, short namedReasons
	var sums sums
	for _, v := range all {
		own := v.Verdict()
		if slices.Index(levels, own.Level) > slices.Index(levels, out.Level) {
			out.Level = own.Level
		}
		sums.add(v.Project.Name, own.counts)
		reasons.add(v.Project.Name, own.sentences(own.Reasons))
		brief.add(v.Project.Name, own.sentences(own.Brief))
		short.add(v.Project.Name, own.short)
	}
	out.Reasons = append(reasons.lines(), sums.lines()...)
	if len(short.reasons) < len(brief.reasons) {
		brief = short
	}
	out.Brief = append(brief.lines(), sums.lines()...)
	return out
}

// sentences are the reasons that are no numbers.
func (v Verdict) sentences(reasons []string) []string {
	return text.Filter(reasons, func(reason string) bool { return !slices.Contains(v.numbers, reason) })
}

// sums are the counts of several projects.
type sums struct {
	total []count             // in the order in which a verdict has them
	names map[Status][]string // such as "web 2"
}

// add adds the counts of a project.
func (s *sums) add(name string, counts []count) {
	if s.names == nil {
		s.names = map[Status][]string{}
	}
	for _, c := range counts {
		s.names[c.of] = append(s.names[c.of], fmt.Sprintf("%s %d", name, c.n))
		known := slices.IndexFunc(s.total, func(t count) bool { return t.of == c.of })
		if known < 0 {
			s.total = append(s.total, c)
			continue
		}
		s.total[known].n += c.n
	}
}

// lines are the sums, the most important first, with the projects that have them.
func (s *sums) lines() (list []string) {
	order := slices.Concat([]Status{ofRequests, ofUnreadable}, StuckStatuses)
	slices.SortFunc(s.total, func(a, b count) int {
		return cmp.Compare(slices.Index(order, a.of), slices.Index(order, b.of))
	})
	for _, c := range s.total {
		list = append(list, fmt.Sprintf("%s (%s)", c, firstOf(s.names[c.of])))
	}
	return list
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
