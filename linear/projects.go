package linear

import (
	"cmp"
	"context"
	_ "embed" // the queries
	"errors"
	"slices"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

//go:embed query/projects.graphql
var projectsQuery string

//go:embed query/project.graphql
var projectQuery string

const (
	projectPage = 100
	// maxProjects is more than anybody chooses from a list. Whoever has more names the project.
	maxProjects = 500
)

// Account looks around in a workspace of Linear before there is a project: for choosing one.
type Account struct{ c *Client }

// NewAccount checks the options as New does. A project is not needed, and not looked at.
func NewAccount(o Options) (*Account, error) {
	c, err := connect(o)
	if err != nil {
		return nil, err
	}
	return &Account{c}, nil
}

// Projects are what the key's user sees, the one that was changed last first.
type Projects struct {
	Viewer User
	List   []ProjectRef
	More   bool // there are more than the 500 listed
}

// Projects lists the projects, and says whose key it is.
func (a *Account) Projects(ctx context.Context) (Projects, error) {
	var found Projects
	vars := map[string]any{"first": projectPage}
	p := pager{c: a.c, what: "projects"}
	seen := map[string]bool{}
	for {
		var data struct {
			Viewer   User `json:"viewer"`
			Projects struct {
				Nodes    *[]ProjectRef `json:"nodes"`
				PageInfo *pageInfo     `json:"pageInfo"`
			} `json:"projects"`
		}
		if err := a.c.query(ctx, projectsQuery, vars, &data); err != nil {
			return Projects{}, err
		}
		if data.Projects.Nodes == nil {
			return Projects{}, a.c.fail("linear_unknown_payload", "the answer holds no list of projects", "")
		}
		found.Viewer = data.Viewer
		for _, ref := range *data.Projects.Nodes {
			// One changed while the pages were read may stand on two of them.
			if !seen[ref.ID] {
				seen[ref.ID] = true
				found.List = append(found.List, ref)
			}
		}
		after, err := p.next(data.Projects.PageInfo)
		if err != nil || after == "" {
			return found, err
		}
		if len(found.List) >= maxProjects {
			found.More = true
			return found, nil
		}
		vars["after"] = after
	}
}

// Project is what a workflow has to know of a project.
type Project struct {
	ProjectRef
	Team   string  // the key of its first team
	States []State // of all of its teams, in the order of a team's columns, each name once
	// HasLabel says whether the workspace has the label that was asked about.
	HasLabel bool
}

// State is a workflow state. Type is one of Linear's: triage, backlog, unstarted, started, completed, canceled, duplicate.
type State struct {
	Name     string  `json:"name"`
	Type     string  `json:"type"`
	Position float64 `json:"position"`
}

// Project reads one project, named by its slug id or its URL. The error has the code tracker_project_not_found where
// there is none; its hint names the nearest.
func (a *Account) Project(ctx context.Context, slug, label string) (Project, error) {
	slugs, err := projectSlugs(slug)
	if err != nil {
		return Project{}, err
	}
	var data struct {
		Named struct {
			Nodes []struct {
				ProjectRef
				Teams struct {
					Nodes []struct {
						Key    string `json:"key"`
						States struct {
							Nodes []State `json:"nodes"`
						} `json:"states"`
					} `json:"nodes"`
				} `json:"teams"`
			} `json:"nodes"`
		} `json:"named"`
		Projects    names `json:"projects"`
		IssueLabels names `json:"issueLabels"`
	}
	vars := map[string]any{"slugs": slugs, "labels": anyOf([]string{label})}
	if err := a.c.query(ctx, projectQuery, vars, &data); err != nil {
		return Project{}, err
	}
	if len(data.Named.Nodes) == 0 {
		return Project{}, a.c.projectMissing(slugs, data.Projects.Nodes)
	}
	node := data.Named.Nodes[0]
	p := Project{ProjectRef: node.ProjectRef, HasLabel: len(data.IssueLabels.Nodes) > 0}
	var all []State
	for i, team := range node.Teams.Nodes {
		if i == 0 {
			p.Team = team.Key
		}
		all = append(all, team.States.Nodes...)
	}
	slices.SortStableFunc(all, func(x, y State) int { return cmp.Or(rank(x)-rank(y), cmp.Compare(x.Position, y.Position)) })
	for _, s := range all {
		p.add(s)
	}
	return p, nil
}

// add takes over a state unless another team has one of that name: symphony tells states by their names.
func (p *Project) add(s State) {
	if _, have := p.State(s.Name); !have {
		p.States = append(p.States, s)
	}
}

// rank is the place of a state's type on the way through a team: Linear counts positions within a type.
func rank(s State) int {
	return slices.Index([]string{"triage", "backlog", "unstarted", "started", "completed", "canceled", "duplicate"}, s.Type)
}

// State finds a state by its name, without regard to case.
func (p *Project) State(name string) (State, bool) {
	same := func(have State) bool { return reconcile.NormalizeState(have.Name) == reconcile.NormalizeState(name) }
	if i := slices.IndexFunc(p.States, same); i >= 0 {
		return p.States[i], true
	}
	return State{}, false
}

// Unknown is a state that the project does not have, with those that resemble it.
func (p *Project) Unknown(state string) Unknown {
	existing := make([]string, 0, len(p.States))
	for _, s := range p.States {
		existing = append(existing, s.Name)
	}
	return Unknown{Name: state, Nearest: text.Nearest(state, existing)}
}

// RefusedKey reports whether an error is Linear's refusal of the key, which another key may mend.
func RefusedKey(err error) bool {
	var known *reconcile.Error
	return errors.As(err, &known) && known.Hint == keyHint
}
