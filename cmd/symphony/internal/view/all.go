package view

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
)

// ReadAll reads the overviews of all projects of the account, sorted by the paths of their workflows. A project that can't be read
// has an Error.
func ReadAll(ctx context.Context, w *term.Env, o Options) ([]Overview, error) {
	dirs, err := project.StateDirs(w)
	if err != nil {
		return nil, err
	}
	all := []Overview{}
	for _, dir := range dirs {
		// The state directory has no workflow in it: Read finds the one that owns the directory.
		p := project.New(w, filepath.Join(dir, "WORKFLOW.md"), dir)
		v, err := Read(ctx, p, o)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			v = Overview{GeneratedAt: w.Now().UTC(), Project: ProjectRow{StateDir: dir}, Error: exit.From(err)}.confine(nil)
		}
		all = append(all, v)
	}
	slices.SortStableFunc(all, func(a, b Overview) int {
		return cmp.Or(cmp.Compare(a.Project.WorkflowPath, b.Project.WorkflowPath), cmp.Compare(a.Project.StateDir, b.Project.StateDir))
	})
	return all, nil
}

// Judge joins the verdicts of several projects: the worst level, and the reasons with the names of their projects.
func Judge(all []Overview) Verdict {
	if len(all) == 1 && all[0].Error == nil {
		return all[0].Verdict()
	}
	levels := []Level{LevelWell, LevelNeedsPerson, LevelNotTicking}
	out := Verdict{Level: LevelWell, Reasons: []string{}}
	for _, v := range all {
		own := v.Verdict()
		if slices.Index(levels, own.Level) > slices.Index(levels, out.Level) {
			out.Level = own.Level
		}
		name := v.Project.Name() + ": "
		for _, reason := range own.Reasons {
			out.Reasons = append(out.Reasons, name+reason)
		}
		for _, reason := range own.Brief {
			out.Brief = append(out.Brief, name+reason)
		}
	}
	return out
}
