package linear

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	projectPage = 100
	maxProjects = 500 // listed to choose from; other projects can be entered
)

// wireNames are the answers about the names in a workflow.
type wireNames struct {
	Viewer struct {
		wireUser
		ID string `json:"id"`
	} `json:"viewer"`
	StatesAsked list[wireName] `json:"statesAsked"`
	LabelsAsked list[wireName] `json:"labelsAsked"`
	IssueLabels list[wireName] `json:"issueLabels"`
	Users       list[wireUser] `json:"users"`
}

// wireProject is the answer to the query for a project and the names in a workflow.
type wireProject struct {
	wireNames
	Named list[struct {
		reconcile.TrackerProject
		Teams list[struct {
			States list[wireName] `json:"states"`
		}] `json:"teams"`
	}] `json:"named"`
	Projects list[reconcile.TrackerProject] `json:"projects"`
}

// wireTeam is the answer to the query for a team and the names in a workflow.
type wireTeam struct {
	wireNames
	Named list[struct {
		ID     string         `json:"id"`
		Name   string         `json:"name"`
		Key    string         `json:"key"`
		States list[wireName] `json:"states"`
	}] `json:"named"`
	Teams list[struct {
		Name string `json:"name"`
		Key  string `json:"key"`
	}] `json:"teams"`
}

// place is a project or a team, with the names of a workflow that Linear found there.
type place struct {
	reconcile.TrackerProject
	states []wireName // of the team, or of the teams of the project
	cut    bool       // there are more states, which were not read
	names  wireNames
}

// Setup tells init how to connect a project to Linear.
func Setup() reconcile.TrackerSetup {
	return reconcile.TrackerSetup{
		Name:        "Linear",
		Endpoint:    DefaultEndpoint,
		KeyQuestion: "Linear API key (Settings, Security & access, Personal API keys; it is not shown)",
		Connect: func(ctx context.Context, endpoint, key, source string) (reconcile.TrackerAccount, error) {
			c, err := connect(Options{Options: transport.Options{
				Endpoint:  endpoint,
				Key:       key,
				KeySource: source,
			}})
			if err != nil {
				return reconcile.TrackerAccount{}, err
			}
			return c.account(ctx)
		},
		RefusedKey: transport.RefusedKey,
	}
}

// account lists the projects that are visible to the key's user.
func (c *Client) account(ctx context.Context) (reconcile.TrackerAccount, error) {
	found := reconcile.TrackerAccount{Project: c.projectBoard, Team: c.teamBoard}
	seen := map[string]bool{} // a project that changes between two requests may be on both pages
	vars := map[string]any{"first": projectPage}
	err := transport.Pages(c.Client, "projects", vars, func() (list[reconcile.TrackerProject], error) {
		data, err := ask[struct {
			Viewer   wireUser                       `json:"viewer"`
			Projects list[reconcile.TrackerProject] `json:"projects"`
		}](ctx, c, document("projects"), vars)
		if err != nil {
			return list[reconcile.TrackerProject]{}, err
		}
		found.User = data.Viewer.Name
		for _, project := range data.Projects.Nodes {
			if !seen[project.ID] {
				seen[project.ID] = true
				found.Projects = append(found.Projects, project)
			}
		}
		page := data.Projects
		page.PageInfo.HasNextPage = page.PageInfo.HasNextPage && len(found.Projects) < maxProjects
		return page, nil
	})
	return found, err
}

// project reads a project and looks up names. The code of the error is
// tracker_project_not_found if no project matches the slug ids.
func (c *Client) project(ctx context.Context, slugs []string, names reconcile.TrackerNames) (place, error) {
	vars := namesAsked(names)
	vars["slugs"] = slugs
	data, err := ask[wireProject](ctx, c, document("project", "names_asked"), vars)
	if err != nil {
		return place{}, err
	}
	if len(data.Named.Nodes) == 0 {
		return place{}, c.noPlace("project", "slug id", slugs[0], data.Projects.Nodes)
	}
	node := data.Named.Nodes[0]
	found := place{
		TrackerProject: node.TrackerProject,
		cut:            node.Teams.PageInfo.HasNextPage,
		names:          data.wireNames,
	}
	for _, team := range node.Teams.Nodes {
		found.states = append(found.states, team.States.Nodes...)
		found.cut = found.cut || team.States.PageInfo.HasNextPage
	}
	return found, nil
}

// teamPlace reads a team, given its key, and looks up names. Its error is as in project.
func (c *Client) teamPlace(ctx context.Context, key string, names reconcile.TrackerNames) (place, error) {
	vars := namesAsked(names)
	vars["key"] = key
	data, err := ask[wireTeam](ctx, c, document("team", "names_asked"), vars)
	if err != nil {
		return place{}, err
	}
	if len(data.Named.Nodes) == 0 {
		var existing []reconcile.TrackerProject
		for _, t := range data.Teams.Nodes {
			existing = append(existing, reconcile.TrackerProject{Slug: t.Key, Name: t.Name})
		}
		return place{}, c.noPlace("team", "key", key, existing)
	}
	node := data.Named.Nodes[0]
	return place{
		TrackerProject: reconcile.TrackerProject{ID: node.ID, Name: node.Name, Slug: node.Key},
		states:         node.States.Nodes,
		cut:            node.States.PageInfo.HasNextPage,
		names:          data.wireNames,
	}, nil
}

// namesAsked returns the variables of the fragment NamesAsked.
func namesAsked(names reconcile.TrackerNames) map[string]any {
	states := text.Unique(names.States)
	labels := text.Unique(names.Labels)
	return map[string]any{
		"withStates": len(states) > 0,
		"states":     anyOf(states),
		"withLabels": len(labels) > 0,
		"labels":     anyOf(labels),
		"withUsers":  names.Assignee != "",
		"users":      userFilter(names.Assignee),
	}
}

// stateTypes are Linear's types of states in the order in which a team's board shows them.
var stateTypes = []string{"triage", "backlog", "unstarted", "started", "completed", "canceled", "duplicate"}

var stateKinds = map[string]reconcile.StateKind{
	"unstarted": reconcile.StateWaiting,
	"started":   reconcile.StateStarted,
	"completed": reconcile.StateEnded,
	"canceled":  reconcile.StateEnded,
	"duplicate": reconcile.StateEnded,
}

// projectBoard reads a project, given its slug id or URL.
func (c *Client) projectBoard(ctx context.Context, slug, label string) (reconcile.TrackerBoard, error) {
	slugs, err := projectSlugs(slug)
	if err != nil {
		return reconcile.TrackerBoard{}, err
	}
	found, err := c.project(ctx, slugs, boardNames(label))
	if err != nil {
		return reconcile.TrackerBoard{}, err
	}
	board := found.board()
	board.Setting = setting(found.TrackerProject)
	return board, nil
}

// teamBoard reads a team, given its key.
func (c *Client) teamBoard(ctx context.Context, key, label string) (reconcile.TrackerBoard, error) {
	found, err := c.teamPlace(ctx, strings.ToUpper(strings.TrimSpace(key)), boardNames(label))
	if err != nil {
		return reconcile.TrackerBoard{}, err
	}
	board := found.board()
	board.Setting = found.Slug
	return board, nil
}

// boardNames are the names to look up for a board: a label, and a state, so that the states
// are read.
func boardNames(label string) reconcile.TrackerNames {
	return reconcile.TrackerNames{States: []string{"Todo"}, Labels: []string{label}}
}

// board returns the facts that init needs, without the setting.
func (p place) board() reconcile.TrackerBoard {
	board := reconcile.TrackerBoard{
		TrackerProject: p.TrackerProject,
		HasLabel:       len(p.names.LabelsAsked.Nodes) > 0,
	}
	// Positions order only states of the same type.
	slices.SortStableFunc(p.states, func(x, y wireName) int {
		return cmp.Or(
			slices.Index(stateTypes, x.Type)-slices.Index(stateTypes, y.Type),
			cmp.Compare(x.Position, y.Position),
		)
	})
	for _, s := range p.states {
		if _, has := board.State(s.Name); !has {
			board.States = append(board.States, reconcile.TrackerState{
				Name: s.Name,
				Kind: stateKinds[s.Type],
			})
		}
	}
	return board
}

// Verify looks up the names that a workflow uses, with a request for the project and a request
// for the team.
func (c *Client) Verify(
	ctx context.Context,
	names reconcile.TrackerNames,
) (reconcile.TrackerFindings, error) {
	names.Assignee = strings.TrimSpace(names.Assignee)
	if strings.EqualFold(names.Assignee, "me") {
		names.Assignee = ""
	}
	in, err := c.verifyPlace(ctx, names)
	if err != nil {
		return reconcile.TrackerFindings{}, err
	}
	viewer := in.names.Viewer
	found := reconcile.TrackerFindings{
		Project: in.TrackerProject,
		User:    viewer.Name,
		States:  in.unknownStates(text.Unique(names.States)),
		Labels: transport.Unknown(
			text.Unique(names.Labels),
			namesOf(in.names.LabelsAsked),
			namesOf(in.names.IssueLabels),
		),
	}
	if names.Assignee != "" && len(in.names.Users.Nodes) == 0 {
		found.Assignee = &reconcile.UnknownName{
			Name:    names.Assignee,
			Nearest: suggest.Near(names.Assignee, []string{viewer.Email}),
		}
	}
	found.OwnOperators = text.Filter(names.Operators, func(name string) bool {
		return reconcile.SameUser(name, viewer.ID, viewer.Email)
	})
	return found, nil
}

// verifyPlace reads the project and the team. With both it returns the project with the states
// of the team.
func (c *Client) verifyPlace(ctx context.Context, names reconcile.TrackerNames) (place, error) {
	slugs := c.slugIDs()
	if len(slugs) == 0 {
		return c.verifyTeam(ctx, names)
	}
	project, err := c.project(ctx, slugs, names)
	if err != nil {
		return place{}, err
	}
	if slices.Contains(slugs, project.Slug) {
		c.settleSlug(project.Slug)
	}
	if c.team == "" {
		return project, nil
	}
	team, err := c.verifyTeam(ctx, names)
	if err != nil {
		return place{}, err
	}
	project.states = team.states
	project.cut = team.cut
	return project, nil
}

// verifyTeam reads the team of the workflow.
func (c *Client) verifyTeam(ctx context.Context, names reconcile.TrackerNames) (place, error) {
	team, err := c.teamPlace(ctx, c.team, names)
	if err != nil {
		known, isKnown := errors.AsType[*reconcile.Error](err)
		if isKnown && known.Code == "tracker_project_not_found" {
			known.Message = "tracker.team: " + known.Message
		}
		return place{}, err
	}
	return team, nil
}

func namesOf(all list[wireName]) []string {
	return text.Map(all.Nodes, func(one wireName) string { return one.Name })
}

// unknownStates returns the states that the place does not have. If not all of its states were
// read, a state that exists anywhere in the workspace counts as known.
func (p place) unknownStates(asked []string) []reconcile.UnknownName {
	var existing []string
	for _, state := range p.states {
		existing = append(existing, state.Name)
	}
	anywhere := namesOf(p.names.StatesAsked)
	if p.cut {
		existing = append(existing, anywhere...)
	}
	return transport.Unknown(asked, existing, slices.Concat(existing, anywhere))
}

// noPlace returns the error for a project or team that does not exist. what is "project" or
// "team", and asked the requested slug id or key (called). Its hint lists the latest ones.
func (c *Client) noPlace(what, called, asked string, existing []reconcile.TrackerProject) error {
	const most = 5
	shown := text.Map(existing, func(p reconcile.TrackerProject) string { return p.Slug + " (" + p.Name + ")" })
	hint := what + "s that the key can see: " + strings.Join(shown[:min(most, len(shown))], ", ")
	if len(shown) > most {
		hint += " and others"
	}
	if len(shown) == 0 {
		hint = "the user of the key can see no " + what + ": check the key"
	}
	return reconcile.NewError(
		"tracker_project_not_found",
		c.Scrub(fmt.Sprintf("Linear has no %s with the %s %q", what, called, asked)),
		c.Scrub(hint),
	)
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

// userFilter returns a filter for a user's email or id. Linear rejects an email where it
// expects an id.
func userFilter(assignee string) any {
	switch {
	case assignee == "":
		return nil
	case strings.Contains(assignee, "@"):
		return map[string]any{"email": map[string]any{"eqIgnoreCase": assignee}}
	}
	return map[string]any{"id": map[string]any{"in": []string{assignee}}}
}

// setting returns the URL if it ends in a slug id of the usual form, so that the slug id can
// be read from it; otherwise the slug id.
func setting(p reconcile.TrackerProject) string {
	if _, ok := slugTail("x-" + p.Slug); ok && strings.HasSuffix(p.URL, "-"+p.Slug) {
		return p.URL
	}
	return p.Slug
}

// projectSlugs lists the possible slug ids, the most likely first. "web-1a2b3c4d5e6f" is
// ambiguous: it may be the slug id, or the part of a URL that ends in the slug id.
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
		return nil, reconcile.NewError(
			"missing_tracker_project_slug",
			"tracker.project_slug is a URL, but not one of a project",
			"it looks like https://linear.app/TEAM/project/NAME-0123456789ab",
		)
	}
	if i := strings.LastIndexByte(segment, '-'); i >= 0 && i+1 < len(segment) {
		return []string{segment[i+1:], segment}, nil
	}
	return []string{segment}, nil
}

// projectSegment returns the part after /project/ in the path of a URL.
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

// slugTail returns the last part of a URL segment if it looks like a slug id of Linear.
func slugTail(value string) (string, bool) {
	i := strings.LastIndexByte(value, '-')
	tail := value[i+1:]
	if i <= 0 || len(tail) != 12 || strings.Trim(tail, "0123456789abcdef") != "" {
		return "", false
	}
	return tail, true
}
