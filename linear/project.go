package linear

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/internal/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	projectPage = 100
	maxProjects = 500 // listed to choose from; other projects can be entered
)

// wireProject is the answer to the query for one project and the names in a workflow.
type wireProject struct {
	Viewer struct {
		wireUser
		ID string `json:"id"`
	} `json:"viewer"`
	Named list[struct {
		reconcile.TrackerProject
		Teams list[struct {
			States list[wireName] `json:"states"`
		}] `json:"teams"`
	}] `json:"named"`
	Projects    list[reconcile.TrackerProject] `json:"projects"`
	StatesAsked list[wireName]                 `json:"statesAsked"`
	LabelsAsked list[wireName]                 `json:"labelsAsked"`
	IssueLabels list[wireName]                 `json:"issueLabels"`
	Users       list[wireUser]                 `json:"users"`
}

// Setup returns what init needs to connect a project to Linear.
func Setup() reconcile.TrackerSetup {
	return reconcile.TrackerSetup{
		Name: "Linear", Endpoint: DefaultEndpoint,
		KeyQuestion: "Linear API key (Settings, Security & access, Personal API keys; it is not shown)",
		Connect: func(ctx context.Context, endpoint, key, source string) (reconcile.TrackerAccount, error) {
			c, err := connect(Options{Options: transport.Options{Endpoint: endpoint, Key: key, KeySource: source}})
			if err != nil {
				return reconcile.TrackerAccount{}, err
			}
			return c.account(ctx)
		},
		RefusedKey: service.RefusedKey,
	}
}

// account lists the projects that are visible to the key's user.
func (c *Client) account(ctx context.Context) (reconcile.TrackerAccount, error) {
	found := reconcile.TrackerAccount{Project: c.board}
	seen := map[string]bool{} // a project that changes between two requests may be on both pages
	vars := map[string]any{"first": projectPage}
	err := transport.Pages(c.Client, "projects", vars, func() (page list[reconcile.TrackerProject], err error) {
		data, err := ask[struct {
			Viewer   wireUser                       `json:"viewer"`
			Projects list[reconcile.TrackerProject] `json:"projects"`
		}](ctx, c, document("projects"), vars)
		if err != nil {
			return page, err
		}
		found.User = data.Viewer.Name
		for _, project := range data.Projects.Nodes {
			if !seen[project.ID] {
				seen[project.ID] = true
				found.Projects = append(found.Projects, project)
			}
		}
		page = data.Projects
		page.PageInfo.HasNextPage = page.PageInfo.HasNextPage && len(found.Projects) < maxProjects
		return page, nil
	})
	return found, err
}

// project reads a project and looks up names. The error has the code tracker_project_not_found if no project has one of the slug
// ids; its hint lists similar ones.
func (c *Client) project(ctx context.Context, slugs []string, withStates bool, names reconcile.TrackerNames) (*wireProject, error) {
	states, labels := text.Unique(names.States), text.Unique(names.Labels)
	data, err := ask[wireProject](ctx, c, document("project"), map[string]any{
		"slugs":      slugs,
		"withStates": withStates, "states": anyOf(states),
		"withLabels": len(labels) > 0, "labels": anyOf(labels),
		"withUsers": names.Assignee != "", "users": userFilter(names.Assignee),
	})
	if err == nil && len(data.Named.Nodes) == 0 {
		err = c.projectMissing(slugs, data.Projects.Nodes)
	}
	return data, err
}

// stateTypes are Linear's types of states in the order in which a team's board shows them.
var stateTypes = []string{"triage", "backlog", "unstarted", "started", "completed", "canceled", "duplicate"}

var stateKinds = map[string]reconcile.StateKind{
	"unstarted": reconcile.StateWaiting, "started": reconcile.StateStarted,
	"completed": reconcile.StateEnded, "canceled": reconcile.StateEnded, "duplicate": reconcile.StateEnded,
}

// board reads one project, given its slug id or URL.
func (c *Client) board(ctx context.Context, slug, label string) (reconcile.TrackerBoard, error) {
	var board reconcile.TrackerBoard
	slugs, err := projectSlugs(slug)
	if err != nil {
		return board, err
	}
	data, err := c.project(ctx, slugs, true, reconcile.TrackerNames{Labels: []string{label}})
	if err != nil {
		return board, err
	}
	node := data.Named.Nodes[0]
	board.TrackerProject, board.HasLabel = node.TrackerProject, len(data.LabelsAsked.Nodes) > 0
	board.Setting = setting(node.TrackerProject)
	var states []wireName
	for _, team := range node.Teams.Nodes {
		states = append(states, team.States.Nodes...)
	}
	// A position orders the states of one type only.
	slices.SortStableFunc(states, func(x, y wireName) int {
		return cmp.Or(slices.Index(stateTypes, x.Type)-slices.Index(stateTypes, y.Type), cmp.Compare(x.Position, y.Position))
	})
	for _, s := range states {
		if _, has := board.State(s.Name); !has {
			board.States = append(board.States, reconcile.TrackerState{Name: s.Name, Kind: stateKinds[s.Type]})
		}
	}
	return board, nil
}

// Verify looks up, in one request, the names that a workflow uses.
func (c *Client) Verify(ctx context.Context, names reconcile.TrackerNames) (reconcile.TrackerFindings, error) {
	slugs := c.slugIDs()
	if names.Assignee = strings.TrimSpace(names.Assignee); strings.EqualFold(names.Assignee, "me") {
		names.Assignee = ""
	}
	data, err := c.project(ctx, slugs, len(text.Unique(names.States)) > 0, names)
	if err != nil {
		return reconcile.TrackerFindings{}, err
	}
	found := reconcile.TrackerFindings{
		Project: data.Named.Nodes[0].TrackerProject, User: data.Viewer.Name, States: data.unknownStates(text.Unique(names.States)),
		Labels: transport.Unknown(text.Unique(names.Labels), namesOf(data.LabelsAsked), namesOf(data.IssueLabels)),
	}
	if names.Assignee != "" && len(data.Users.Nodes) == 0 {
		found.Assignee = &reconcile.UnknownName{Name: names.Assignee, Nearest: text.Nearest(names.Assignee, []string{data.Viewer.Email})}
	}
	found.OwnOperators = text.Filter(names.Operators, func(name string) bool {
		return reconcile.SameUser(name, data.Viewer.ID, data.Viewer.Email)
	})
	if slices.Contains(slugs, found.Project.Slug) {
		c.settleSlug(found.Project.Slug)
	}
	return found, nil
}

func namesOf(all list[wireName]) []string {
	return text.Map(all.Nodes, func(one wireName) string { return one.Name })
}

// unknownStates returns the states that no team of the project has. If not all of the teams' states were read, a state that
// exists anywhere in the workspace counts as known.
func (p *wireProject) unknownStates(asked []string) []reconcile.UnknownName {
	teams := p.Named.Nodes[0].Teams
	var existing []string
	cut := teams.PageInfo.HasNextPage
	for _, team := range teams.Nodes {
		existing = append(existing, namesOf(team.States)...)
		cut = cut || team.States.PageInfo.HasNextPage
	}
	if cut {
		existing = append(existing, namesOf(p.StatesAsked)...)
	}
	return transport.Unknown(asked, existing, append(existing, namesOf(p.StatesAsked)...))
}

// projectMissing returns the error for a project that does not exist. Its hint lists similar projects, or else the latest ones.
func (c *Client) projectMissing(slugs []string, existing []reconcile.TrackerProject) error {
	var all []string
	label := map[string]string{}
	for _, p := range existing {
		for _, key := range []string{p.Slug, p.Name} {
			all = append(all, key)
			label[key] = fmt.Sprintf("%s (%s)", p.Slug, p.Name)
		}
	}
	words := strings.ReplaceAll(slugs[len(slugs)-1], "-", " ")
	near := append(text.Nearest(slugs[0], all), text.Nearest(words, all)...)
	hint := "did you mean one of these: "
	if len(near) == 0 {
		near, hint = all, "projects that the key can see: "
	}
	shown := text.Unique(text.Map(near, func(n string) string { return label[n] }))
	hint += strings.Join(shown[:min(5, len(shown))], ", ")
	if len(shown) == 0 {
		hint = "the user of the key can see no project: check the key"
	}
	return reconcile.NewError("tracker_project_not_found",
		c.Scrub(fmt.Sprintf("Linear has no project with the slug id %q", slugs[0])), c.Scrub(hint))
}

// anyOf returns a filter for names that ignores case; nil for no names.
func anyOf(names []string) any {
	if len(names) == 0 {
		return nil
	}
	return map[string]any{"or": text.Map(names, func(n string) any {
		return map[string]any{"name": map[string]any{"eqIgnoreCase": strings.TrimSpace(n)}}
	})}
}

// userFilter returns a filter for a user's email or id. Linear rejects an email where it expects an id.
func userFilter(assignee string) any {
	switch {
	case assignee == "":
		return nil
	case strings.Contains(assignee, "@"):
		return map[string]any{"email": map[string]any{"eqIgnoreCase": assignee}}
	}
	return map[string]any{"id": map[string]any{"in": []string{assignee}}}
}

// setting returns the URL if the slug id can be read from it, because it ends in one of the usual form; otherwise the slug id.
func setting(p reconcile.TrackerProject) string {
	if _, ok := slugTail("x-" + p.Slug); ok && strings.HasSuffix(p.URL, "-"+p.Slug) {
		return p.URL
	}
	return p.Slug
}

// projectSlugs lists the possible slug ids, the most likely first. "web-1a2b3c4d5e6f" is ambiguous: it may be the slug id, or
// the part of a URL that ends in the slug id.
func projectSlugs(value string) ([]string, error) {
	value = strings.TrimSpace(value)
	if value == "" {
		return nil, reconcile.NewError("missing_tracker_project_slug", "tracker.project_slug is empty",
			"set it to the project's URL or to the id at the end of it")
	}
	if !strings.Contains(value, "://") {
		if tail, ok := slugTail(value); ok {
			return []string{value, tail}, nil
		}
		return []string{value}, nil
	}
	segment, ok := projectSegment(value)
	if !ok {
		return nil, reconcile.NewError("missing_tracker_project_slug", "tracker.project_slug is a URL, but not one of a project",
			"it looks like https://linear.app/TEAM/project/NAME-0123456789ab")
	}
	if i := strings.LastIndexByte(segment, '-'); i >= 0 && i+1 < len(segment) {
		return []string{segment[i+1:], segment}, nil
	}
	return []string{segment}, nil
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

// slugTail returns the last part of a URL segment if it looks like one of Linear's slug ids.
func slugTail(value string) (string, bool) {
	i := strings.LastIndexByte(value, '-')
	tail := value[i+1:]
	if i <= 0 || len(tail) != 12 || strings.Trim(tail, "0123456789abcdef") != "" {
		return "", false
	}
	return tail, true
}
