package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Place is where a project is: its workflow file and its state directory.
type Place struct{ Workflow, StateDir string }

// source reads the views of the served projects. Each read also reads WORKFLOW.md again.
type source struct {
	env    *environ.Env
	places []Place // none: all projects of the account
	cache  *state.ClaimCache
}

// patience is how long a read may take.
const patience = 10 * time.Second

// overviews reads all projects, or only the project with the name.
func (s source) overviews(ctx context.Context, name string, o view.Options) ([]view.Overview, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	projects, err := s.named(ctx, name)
	if err != nil {
		return nil, err
	}
	o.Cache = s.cache
	all, err := view.ReadEach(ctx, projects, o)
	if err != nil {
		return nil, snapshotError(err)
	}
	return all, nil
}

// issue reads an issue of the project, or if name is empty of the project that knows it, with
// the last lines of its log. The tracker is not asked.
func (s source) issue(ctx context.Context, name, ref string, lines int) (detail.Issue, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	projects, err := s.named(ctx, name)
	if err != nil {
		return detail.Issue{}, err
	}
	if len(projects) == 0 {
		return detail.Issue{}, noProject()
	}
	var found []detail.Issue
	var missing, unreadable error
	for _, p := range projects {
		v, err := detail.Read(ctx, p.Project, ref, detail.Options{
			Offline: true,
			Name:    p.Name,
			Lines:   lines,
		})
		switch {
		case err == nil:
			found = append(found, v)
		case exit.From(err).Code == "issue_not_found":
			missing = err
		case len(projects) == 1 || p.HasState(): // a project without a pass knows no issue
			unreadable = snapshotError(err)
		}
	}
	if len(found) > 1 {
		return detail.Issue{}, reconcile.NewError(
			"ambiguous",
			ref+" is an issue of several projects",
			"add ?project= with the name of its project, such as "+found[0].Project.Name,
		)
	}
	if len(found) == 1 {
		return found[0], nil
	}
	if unreadable != nil {
		return detail.Issue{}, unreadable
	}
	if missing != nil {
		return detail.Issue{}, missing
	}
	return detail.Issue{}, reconcile.NewError("issue_not_found", "no project here has an issue "+ref,
		"the page / and GET /api/v1/state list the issues")
}

// target is the project of a request: the project that the address names, the server's only
// project, or the project with the issue.
func (s source) target(r *http.Request, issue string) (*wiring.Project, error) {
	return s.projectOf(r.Context(), cmp.Or(r.PathValue("project"), r.URL.Query().Get("project")), issue)
}

// projectOf is the project with the name, or the project with the issue.
func (s source) projectOf(ctx context.Context, name, issue string) (*wiring.Project, error) {
	named, err := s.named(ctx, name)
	if err != nil {
		if name != view.AgentsProject {
			return nil, err
		}
		theirs := agents.AsProject(s.env)
		if theirs == nil {
			return nil, err
		}
		return theirs, nil
	}
	if len(named) == 0 {
		return nil, noProject()
	}
	if len(named) == 1 {
		return named[0].Project, nil
	}
	if issue == "" {
		return nil, badRequest("the server has several projects: add ?project=NAME")
	}
	v, err := s.issue(ctx, "", issue, 0)
	if err != nil {
		return nil, err
	}
	return wiring.NewProject(s.env, v.Project.WorkflowPath, v.Project.StateDir), nil
}

// named are the projects, or only the project with the name if it is not empty.
func (s source) named(ctx context.Context, name string) ([]view.Named, error) {
	all, err := s.projects(ctx)
	if err != nil || name == "" {
		return all, err
	}
	i := slices.IndexFunc(all, func(p view.Named) bool { return p.Name == name })
	if i < 0 {
		names := text.Map(all, func(p view.Named) string { return p.Name })
		return nil, reconcile.NewError(
			"not_found",
			fmt.Sprintf("there is no project %q here", name),
			cmp.Or(suggest.Instead(name, names), makeProject)+s.more(),
		)
	}
	return all[i : i+1], nil
}

// ofAccount reports whether all projects of the account are served, because none are named.
func (s source) ofAccount() bool { return len(s.places) == 0 }

// more tells how the server gets more projects than those that its command line names.
func (s source) more() string {
	if s.ofAccount() {
		return ""
	}
	return "; symphony serve --project all serves every project of the account"
}

// projects opens the projects, each with the name by which addresses call it.
func (s source) projects(ctx context.Context) ([]view.Named, error) {
	if s.ofAccount() {
		all, err := wiring.AllProjects(s.env)
		if err != nil {
			return nil, snapshotError(err)
		}
		return view.Name(ctx, all), nil
	}
	var all []*wiring.Project
	for _, p := range s.places {
		all = append(all, wiring.NewProject(s.env, p.Workflow, p.StateDir))
	}
	return view.Name(ctx, all), nil
}

// makeProject is the next step where there is no project.
const makeProject = "symphony init makes one"

// noProject returns the error of a server without a project.
func noProject() error {
	return reconcile.NewError("not_found", "there is no project here", makeProject)
}

// snapshotError gives a read that failed the code of specification 13.7.
func snapshotError(err error) error {
	known := exit.From(err)
	code := "snapshot_unavailable"
	if errors.Is(err, context.DeadlineExceeded) {
		code = "snapshot_timeout"
	}
	return &reconcile.Error{Code: code, Message: known.Error(), Hint: known.Hint, Err: err}
}
