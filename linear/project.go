package linear

import (
	"cmp"
	"context"
	_ "embed" // the queries
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
)

//go:embed query/projects.graphql
var projectsQuery string

//go:embed query/project.graphql
var projectQuery string

const (
	projectPage = 100
	maxProjects = 500 // listed for a choice; other projects can still be named
)

// Setup is what init needs to connect a project to Linear.
func Setup() reconcile.TrackerSetup {
	return reconcile.TrackerSetup{
		Name: "Linear", Endpoint: DefaultEndpoint,
		KeyQuestion: "Linear API key (Settings, Security & access, Personal API keys; it is not shown)",
		Connect: func(ctx context.Context, endpoint, key string) (reconcile.TrackerAccount, error) {
			c, err := connect(Options{Endpoint: endpoint, APIKey: key})
			if err != nil {
				return reconcile.TrackerAccount{}, err
			}
			return c.account(ctx)
		},
		RefusedKey: func(err error) bool {
			var known *reconcile.Error
			return errors.As(err, &known) && (known.Hint == keyHint || known.Code == "missing_tracker_api_key")
		},
	}
}

// account lists the projects that the key's user sees.
func (c *Client) account(ctx context.Context) (reconcile.TrackerAccount, error) {
	found := reconcile.TrackerAccount{Project: c.project}
	vars := map[string]any{"first": projectPage}
	seen := map[string]bool{} // a project that changes between two requests may be on both pages
	err := c.pages("projects", func(after string) (*pageInfo, error) {
		data, err := ask[struct {
			Viewer   wireUser `json:"viewer"`
			Projects struct {
				Nodes    *[]reconcile.TrackerProject `json:"nodes"`
				PageInfo *pageInfo                   `json:"pageInfo"`
			} `json:"projects"`
		}](ctx, c, projectsQuery, page(vars, after))
		if err != nil {
			return nil, err
		}
		if data.Projects.Nodes == nil {
			return nil, c.fail("linear_unknown_payload", "the answer holds no list of projects", "")
		}
		found.User = data.Viewer.Name
		for _, project := range *data.Projects.Nodes {
			if !seen[project.ID] {
				seen[project.ID] = true
				found.Projects = append(found.Projects, project)
			}
		}
		info := data.Projects.PageInfo
		if found.More = len(found.Projects) >= maxProjects && info != nil && info.HasNextPage; found.More {
			info = nil
		}
		return info, nil
	})
	return found, err
}

type wireState struct {
	Name     string  `json:"name"`
	Type     string  `json:"type"`
	Position float64 `json:"position"`
}

// stateTypes are Linear's types of states in the order in which a team's board shows them.
var stateTypes = []string{"triage", "backlog", "unstarted", "started", "completed", "canceled", "duplicate"}

var stateKinds = map[string]reconcile.StateKind{
	"unstarted": reconcile.StateWaiting, "started": reconcile.StateStarted,
	"completed": reconcile.StateEnded, "canceled": reconcile.StateEnded, "duplicate": reconcile.StateEnded,
}

// project reads one project, named by its slug id or URL. The error has the code tracker_project_not_found where there
// is none; its hint names the nearest.
func (c *Client) project(ctx context.Context, slug, label string) (reconcile.TrackerBoard, error) {
	var board reconcile.TrackerBoard
	slugs, err := projectSlugs(slug)
	if err != nil {
		return board, err
	}
	data, err := ask[struct {
		Named struct {
			Nodes []struct {
				reconcile.TrackerProject
				Teams struct {
					Nodes []struct {
						Key    string `json:"key"`
						States struct {
							Nodes []wireState `json:"nodes"`
						} `json:"states"`
					} `json:"nodes"`
				} `json:"teams"`
			} `json:"nodes"`
		} `json:"named"`
		Projects    names `json:"projects"`
		IssueLabels names `json:"issueLabels"`
	}](ctx, c, projectQuery, map[string]any{"slugs": slugs, "labels": anyOf([]string{label})})
	if err != nil {
		return board, err
	}
	if len(data.Named.Nodes) == 0 {
		return board, c.projectMissing(slugs, data.Projects)
	}
	node := data.Named.Nodes[0]
	board.TrackerProject, board.HasLabel = node.TrackerProject, len(data.IssueLabels.Nodes) > 0
	board.Setting = setting(node.TrackerProject)
	var states []wireState
	for i, team := range node.Teams.Nodes {
		if i == 0 {
			board.IssuePrefix = team.Key
		}
		states = append(states, team.States.Nodes...)
	}
	// Linear counts positions within a type.
	slices.SortStableFunc(states, func(x, y wireState) int {
		return cmp.Or(slices.Index(stateTypes, x.Type)-slices.Index(stateTypes, y.Type), cmp.Compare(x.Position, y.Position))
	})
	for _, s := range states {
		if _, has := board.State(s.Name); !has {
			board.States = append(board.States, reconcile.TrackerState{Name: s.Name, Kind: stateKinds[s.Type]})
		}
	}
	return board, nil
}

// setting is the URL if it ends in a slug id of the usual form, so that the slug id can be read from it.
func setting(p reconcile.TrackerProject) string {
	if _, ok := slugTail("x-" + p.Slug); ok && strings.HasSuffix(p.URL, "-"+p.Slug) {
		return p.URL
	}
	return p.Slug
}

// ProjectSlug is the slug id in a value of tracker.project_slug: the value itself, or the last part of a project's URL.
func ProjectSlug(value string) (string, error) {
	slugs, err := projectSlugs(value)
	if err != nil {
		return "", err
	}
	return slugs[0], nil
}

// projectSlugs lists what the slug id may be, the most likely first. "web-1a2b3c4d5e6f" is ambiguous: the slug id, or
// a part of a URL that ends in the slug id.
func projectSlugs(value string) ([]string, error) {
	value = strings.TrimSpace(value)
	if value == "" {
		return nil, &reconcile.Error{
			Code: "missing_tracker_project_slug", Message: "tracker.project_slug is empty",
			Hint: "set it to the project's URL or to the id at the end of it",
		}
	}
	if !strings.Contains(value, "://") {
		if tail, ok := slugTail(value); ok {
			return []string{value, tail}, nil
		}
		return []string{value}, nil
	}
	segment, ok := projectSegment(value)
	if !ok {
		return nil, &reconcile.Error{
			Code: "missing_tracker_project_slug", Message: "tracker.project_slug is a URL, but not one of a project",
			Hint: "it looks like https://linear.app/TEAM/project/NAME-0123456789ab",
		}
	}
	if i := strings.LastIndexByte(segment, '-'); i >= 0 && i+1 < len(segment) {
		return []string{segment[i+1:], segment}, nil
	}
	return []string{segment}, nil
}

// ours reports whether a slug id may be that of the client's project.
func (c *Client) ours(slug string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.slugs, slug)
}

func projectSegment(value string) (string, bool) {
	u, err := url.Parse(value)
	if err != nil {
		return "", false
	}
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	for i, p := range parts {
		if (p == "project" || p == "projects") && i+1 < len(parts) && parts[i+1] != "" {
			return parts[i+1], true
		}
	}
	return "", false
}

// slugTail is the last part of a URL segment if it looks like a slug id of Linear.
func slugTail(value string) (string, bool) {
	i := strings.LastIndexByte(value, '-')
	tail := value[i+1:]
	if i <= 0 || len(tail) != 12 || strings.Trim(tail, "0123456789abcdef") != "" {
		return "", false
	}
	return tail, true
}
