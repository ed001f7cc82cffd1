package gitlab

import (
	"cmp"
	"context"
	"net/url"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/gitlabapi"
	"github.com/symphony-cron/symphony/internal/adapter/repoissue"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// verify checks that projects, states, labels and assignee exist. It warns about an account that
// can't change issues.
func (c *client) verify(ctx context.Context, names reconcile.TrackerNames) (reconcile.TrackerFindings, error) {
	var found reconcile.TrackerFindings
	viewer, err := c.api.Me(ctx)
	if err != nil {
		return found, err
	}
	found.User = viewer.Login
	found.OwnOperators = text.Filter(names.Operators, func(name string) bool {
		return reconcile.SameUser(name, viewer.Names()...)
	})
	var labels []string
	for i, name := range c.o.Projects {
		project, there, err := c.verifyProject(ctx, name, &found)
		if err != nil {
			return found, err
		}
		if i == 0 {
			found.Project = project
		}
		labels = append(labels, there...)
	}
	found.States = c.Misspelt(labels)
	found.Labels = transport.Unknown(names.Labels, labels, labels)
	if names.Assignee == "" || strings.EqualFold(names.Assignee, "me") {
		return found, nil
	}
	query := url.Values{"username": {names.Assignee}}
	users, err := gitlabapi.Get[[]gitlabapi.Account](ctx, c.api, "/users", query)
	if err != nil {
		return found, err
	}
	if len(users) == 0 {
		found.Assignee = &reconcile.UnknownName{
			Name:    names.Assignee,
			Nearest: suggest.Near(names.Assignee, []string{found.User}),
		}
	}
	return found, nil
}

// verifyProject reads a project with the names of its labels. It notes in found
// what its user may not change.
func (c *client) verifyProject(
	ctx context.Context,
	name string,
	found *reconcile.TrackerFindings,
) (reconcile.TrackerProject, []string, error) {
	p, err := c.project(ctx, name)
	if err != nil {
		return reconcile.TrackerProject{}, nil, err
	}
	found.Denied = cmp.Or(found.Denied, c.CheckRights(p.Name, found.User, p.Archived, p.Level() >= gitlabapi.Planner))
	labels, err := c.labels(ctx, name, "")
	project := reconcile.TrackerProject{
		ID:   strconv.FormatInt(p.ID, 10),
		Name: p.Name,
		Slug: name,
		URL:  p.URL,
	}
	return project, text.Map(labels, func(l label) string { return l.Name }), err
}

// Setup returns everything that init needs to connect a project to GitLab. The projects are
// known to init from git.
func Setup() reconcile.TrackerSetup {
	return reconcile.TrackerSetup{
		Name:     "GitLab",
		Endpoint: service.Address,
		KeyQuestion: "GitLab token with the scope api and the role Developer " +
			"(of the project: Settings, Access tokens; it is not shown)",
		Connect: func(ctx context.Context, endpoint, token, source string) (reconcile.TrackerAccount, error) {
			return setupAccount(ctx, transport.Options{Endpoint: endpoint, Key: token, KeySource: source})
		},
		RefusedKey: transport.RefusedKey,
	}
}

// setupAccount finds out whose token it is.
func setupAccount(ctx context.Context, o transport.Options) (reconcile.TrackerAccount, error) {
	c, err := connect(Options{Options: o})
	if err != nil {
		return reconcile.TrackerAccount{}, err
	}
	viewer, err := c.api.Me(ctx)
	if err != nil {
		return reconcile.TrackerAccount{}, err
	}
	return reconcile.TrackerAccount{
		User: viewer.Login,
		Project: func(ctx context.Context, name, label string) (reconcile.TrackerBoard, error) {
			c, err := connect(Options{Options: o, Projects: []string{name}})
			if err != nil {
				return reconcile.TrackerBoard{}, err
			}
			project, labels, err := c.verifyProject(ctx, name, &reconcile.TrackerFindings{})
			if err != nil {
				return reconcile.TrackerBoard{}, err
			}
			return repoissue.Proposal(project, stateOpen, labels, label), nil
		},
	}, nil
}
