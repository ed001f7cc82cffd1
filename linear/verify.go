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

// VerifySpec is what a workflow says about the tracker and wants looked up. Empty parts are not asked for.
type VerifySpec struct {
	States   []string
	Labels   []string
	Assignee string // an email, an id, or "me"
}

// Verified is what Linear knows of a VerifySpec.
type Verified struct {
	Project ProjectRef `json:"project"`
	Viewer  User       `json:"viewer"` // whose key it is
	// UnknownStates exist in none of the project's teams, UnknownLabels nowhere in the workspace.
	UnknownStates []Unknown `json:"unknown_states"`
	UnknownLabels []Unknown `json:"unknown_labels"`
	// UnknownAssignee is nil where the assignee exists or none was asked for.
	UnknownAssignee *Unknown `json:"unknown_assignee"`
}

// ProjectRef names a project.
type ProjectRef struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	SlugID string `json:"slugId"`
	URL    string `json:"url"`
}

// User names a user.
type User struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Email string `json:"email"`
}

// Unknown is a name that does not exist, with up to three that do and resemble it.
type Unknown struct {
	Name    string   `json:"name"`
	Nearest []string `json:"nearest"`
}

// String words the warning: `"Tood" (did you mean "Todo"?)`.
func (u Unknown) String() string {
	if len(u.Nearest) == 0 {
		return fmt.Sprintf("%q", u.Name)
	}
	return fmt.Sprintf("%q (did you mean %q?)", u.Name, u.Nearest[0])
}

type named struct {
	Name   string `json:"name"`
	SlugID string `json:"slugId"`
}

type names struct {
	Nodes    []named  `json:"nodes"`
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
	Viewer User `json:"viewer"`
	Named  struct {
		Nodes []struct {
			ProjectRef
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
		Nodes []User `json:"nodes"`
	} `json:"users"`
}

// Verify looks up, in one request, whether what the workflow names exists. A project that does not is an error
// with the code tracker_project_not_found, whose hint names the nearest ones; unknown states, labels and an
// unknown assignee are reported for warnings (design: a pass, step 4).
func (c *Client) Verify(ctx context.Context, spec VerifySpec) (Verified, error) {
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
	var data verifyAnswer
	if err := c.query(ctx, verifyQuery, vars, &data); err != nil {
		return Verified{}, err
	}
	if len(data.Named.Nodes) == 0 {
		return Verified{}, c.projectMissing(slugs, data.Projects.Nodes)
	}
	v := Verified{
		Project: data.Named.Nodes[0].ProjectRef, Viewer: data.Viewer,
		UnknownStates: data.unknownStates(states),
		UnknownLabels: unknown(labels, data.LabelsAsked.list(), data.IssueLabels.list()),
	}
	if askUser && len(data.Users.Nodes) == 0 {
		v.UnknownAssignee = &Unknown{Name: assignee, Nearest: text.Nearest(assignee, []string{data.Viewer.Email})}
	}
	if slices.Contains(slugs, v.Project.SlugID) {
		c.settleSlug(v.Project.SlugID)
	}
	return v, nil
}

// unknownStates compares with the states of the project's teams. Where not all of those were read, a state that
// exists anywhere in the workspace is not called unknown.
func (a verifyAnswer) unknownStates(asked []string) []Unknown {
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

func unknown(asked, existing, suggest []string) []Unknown {
	list := []Unknown{}
	for _, name := range asked {
		same := func(e string) bool { return reconcile.NormalizeState(e) == reconcile.NormalizeState(name) }
		if !slices.ContainsFunc(existing, same) {
			list = append(list, Unknown{Name: name, Nearest: text.Nearest(name, suggest)})
		}
	}
	return list
}

func (c *Client) projectMissing(slugs []string, existing []named) error {
	var all []string
	label := map[string]string{}
	for _, p := range existing {
		for _, key := range []string{p.SlugID, p.Name} {
			if key != "" {
				all = append(all, key)
				label[key] = fmt.Sprintf("%s (%s)", p.SlugID, p.Name)
			}
		}
	}
	// Somebody who named no near miss is served best by the projects that were used last.
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
		Code:    "tracker_project_not_found",
		Message: c.scrub(fmt.Sprintf("Linear has no project with the slug id %q", slugs[0])),
		Hint:    c.scrub(hint),
	}
}

// anyOf is a filter by name without regard to case; nil for no names.
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

// userFilter does not compare ids with an email: Linear refuses ids that are none.
func userFilter(assignee string) any {
	switch {
	case assignee == "":
		return nil
	case strings.Contains(assignee, "@"):
		return map[string]any{"email": map[string]any{"eqIgnoreCase": assignee}}
	}
	return map[string]any{"id": map[string]any{"in": []string{assignee}}}
}
