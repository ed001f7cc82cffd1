package linear

import (
	"context"
	_ "embed" // the query
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

//go:embed query/verify.graphql
var verifyQuery string

type wireUser struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Email string `json:"email"`
}

type names struct {
	Nodes []struct {
		Name   string `json:"name"`
		SlugID string `json:"slugId"`
	} `json:"nodes"`
	PageInfo pageInfo `json:"pageInfo"`
}

func (n names) list() []string {
	list := make([]string, 0, len(n.Nodes))
	for _, x := range n.Nodes {
		list = append(list, x.Name)
	}
	return list
}

type verifyAnswer struct {
	Viewer wireUser `json:"viewer"`
	Named  struct {
		Nodes []struct {
			reconcile.TrackerProject
			Teams struct {
				Nodes []struct {
					States names `json:"states"`
				} `json:"nodes"`
				PageInfo pageInfo `json:"pageInfo"`
			} `json:"teams"`
		} `json:"nodes"`
	} `json:"named"`
	Projects    names `json:"projects"`
	StatesAsked names `json:"statesAsked"`
	LabelsAsked names `json:"labelsAsked"`
	IssueLabels names `json:"issueLabels"`
	Users       struct {
		Nodes []wireUser `json:"nodes"`
	} `json:"users"`
}

// Verify looks up, in one request, the names that a workflow uses. A project that does not exist is an error with the
// code tracker_project_not_found, whose hint names the nearest ones.
func (c *Client) Verify(ctx context.Context, spec reconcile.TrackerNames) (reconcile.TrackerFindings, error) {
	var found reconcile.TrackerFindings
	c.mu.Lock()
	slugs := c.slugs
	c.mu.Unlock()
	states, labels := unique(spec.States), unique(spec.Labels)
	assignee := strings.TrimSpace(spec.Assignee)
	askUser := assignee != "" && !strings.EqualFold(assignee, "me")
	vars := map[string]any{
		"slugs":      slugs,
		"withStates": len(states) > 0, "states": anyOf(states),
		"withLabels": len(labels) > 0, "labels": anyOf(labels),
		"withUsers": askUser, "users": userFilter(assignee),
	}
	data, err := ask[verifyAnswer](ctx, c, verifyQuery, vars)
	if err != nil {
		return found, err
	}
	if len(data.Named.Nodes) == 0 {
		return found, c.projectMissing(slugs, data.Projects)
	}
	found.Project, found.User = data.Named.Nodes[0].TrackerProject, data.Viewer.Name
	found.States = data.unknownStates(states)
	found.Labels = unknown(labels, data.LabelsAsked.list(), data.IssueLabels.list())
	if askUser && len(data.Users.Nodes) == 0 {
		found.Assignee = &reconcile.UnknownName{Name: assignee, Nearest: text.Nearest(assignee, []string{data.Viewer.Email})}
	}
	if slices.Contains(slugs, found.Project.Slug) {
		c.settleSlug(found.Project.Slug)
	}
	return found, nil
}

// unknownStates compares with the states of the project's teams. If not all of these were read, a state that exists
// anywhere in the workspace counts as known.
func (a verifyAnswer) unknownStates(asked []string) []reconcile.UnknownName {
	project := a.Named.Nodes[0]
	var existing []string
	cut := project.Teams.PageInfo.HasNextPage
	for _, team := range project.Teams.Nodes {
		existing = append(existing, team.States.list()...)
		cut = cut || team.States.PageInfo.HasNextPage
	}
	if cut {
		existing = append(existing, a.StatesAsked.list()...)
	}
	return unknown(asked, existing, append(existing, a.StatesAsked.list()...))
}

func unknown(asked, existing, suggest []string) []reconcile.UnknownName {
	list := []reconcile.UnknownName{}
	for _, name := range asked {
		same := func(e string) bool { return reconcile.NormalizeState(e) == reconcile.NormalizeState(name) }
		if !slices.ContainsFunc(existing, same) {
			list = append(list, reconcile.UnknownName{Name: name, Nearest: text.Nearest(name, suggest)})
		}
	}
	return list
}

// projectMissing is the error for a project that does not exist. Its hint names similar ones, else those used last.
func (c *Client) projectMissing(slugs []string, existing names) error {
	var all []string
	label := map[string]string{}
	for _, p := range existing.Nodes {
		for _, key := range []string{p.SlugID, p.Name} {
			if key != "" {
				all = append(all, key)
				label[key] = fmt.Sprintf("%s (%s)", p.SlugID, p.Name)
			}
		}
	}
	words := strings.ReplaceAll(slugs[len(slugs)-1], "-", " ")
	near := append(text.Nearest(slugs[0], all), text.Nearest(words, all)...)
	choice := "do you mean one of these: "
	if len(near) == 0 {
		near, choice = all, "projects that the key can see: "
	}
	var shown []string
	for _, n := range near {
		shown = append(shown, label[n])
	}
	shown = unique(shown)
	hint := "the user of the key sees no project at all: check the key"
	if len(shown) > 0 {
		hint = choice + strings.Join(shown[:min(5, len(shown))], ", ")
	}
	return &reconcile.Error{
		Code: "tracker_project_not_found", Class: reconcile.ClassWorkflow,
		Message: c.scrub(fmt.Sprintf("Linear has no project with the slug id %q", slugs[0])),
		Hint:    c.scrub(hint),
	}
}

// anyOf is a filter for names without regard to case; nil for no names.
func anyOf(names []string) any {
	if len(names) == 0 {
		return nil
	}
	or := make([]any, 0, len(names))
	for _, n := range names {
		or = append(or, map[string]any{"name": map[string]any{"eqIgnoreCase": strings.TrimSpace(n)}})
	}
	return map[string]any{"or": or}
}

// userFilter finds a user by email or id. Linear rejects an email as an id.
func userFilter(assignee string) any {
	switch {
	case assignee == "":
		return nil
	case strings.Contains(assignee, "@"):
		return map[string]any{"email": map[string]any{"eqIgnoreCase": assignee}}
	}
	return map[string]any{"id": map[string]any{"in": []string{assignee}}}
}
