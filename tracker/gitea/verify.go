package gitea

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/giteaapi"
	"github.com/symphony-cron/symphony/internal/adapter/repoissue"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

func ownerOf(repo string) string {
	owner, _, _ := strings.Cut(repo, "/")
	return owner
}

// verify checks that repositories, states, labels and assignee exist. It warns about an account
// that can't write.
func (c *client) verify(ctx context.Context, names reconcile.TrackerNames) (reconcile.TrackerFindings, error) {
	var found reconcile.TrackerFindings
	viewer, err := c.api.Me(ctx)
	if err != nil {
		return found, err
	}
	found.User = viewer.Login
	found.OwnOperators = text.Filter(names.Operators, func(name string) bool {
		return reconcile.SameUser(name, reconcile.UserNames(viewer.Login, viewer.ID)...)
	})
	assignee := names.Assignee
	if strings.EqualFold(assignee, "me") {
		assignee = ""
	}
	var labels, logins []string
	for i, repo := range c.o.Repositories {
		project, there, err := c.verifyRepository(ctx, repo, &found)
		if err != nil {
			return found, err
		}
		if i == 0 {
			found.Project = project
		}
		labels = append(labels, there...)
		if assignee == "" {
			continue
		}
		users, err := do[[]giteaapi.Account](
			ctx, c, giteaapi.ReadRepository, repo, http.MethodGet, "/assignees", nil,
		)
		if err != nil {
			return found, err
		}
		logins = append(logins, text.Map(users, func(a giteaapi.Account) string { return a.Login })...)
	}
	found.States = c.Misspelt(labels)
	found.Labels = transport.Unknown(names.Labels, labels, labels)
	unknown := transport.Unknown([]string{assignee}, logins, append(logins, found.User))
	if len(unknown) > 0 {
		found.Assignee = &unknown[0]
	}
	return found, nil
}

// verifyRepository reads a repository with the names of its labels. It notes in found
// what its user may not change.
func (c *client) verifyRepository(
	ctx context.Context,
	repo string,
	found *reconcile.TrackerFindings,
) (reconcile.TrackerProject, []string, error) {
	r, err := c.repository(ctx, repo)
	if err != nil {
		return reconcile.TrackerProject{}, nil, err
	}
	if !r.HasIssues {
		return reconcile.TrackerProject{}, nil, c.NoRepository(repo, "its issues are disabled")
	}
	found.Denied = cmp.Or(found.Denied, c.CheckRights(r.Name, found.User, r.Archived, r.Permissions.Push))
	labels, err := c.labels(ctx, repo)
	project := reconcile.TrackerProject{
		ID:   strconv.FormatInt(r.ID, 10),
		Name: r.Name,
		Slug: repo,
		URL:  r.URL,
	}
	return project, text.Map(labels, func(l label) string { return l.Name }), err
}

// Setup returns everything that init needs to connect a project to Gitea. The projects are
// repositories, which init knows from git.
func Setup() reconcile.TrackerSetup {
	return reconcile.TrackerSetup{
		Name: "Gitea",
		KeyQuestion: "Gitea token with the scopes write:issue, read:user and write:repository " +
			"(Settings, Applications; it is not shown)",
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
		Project: func(ctx context.Context, repo, label string) (reconcile.TrackerBoard, error) {
			c, err := connect(Options{Options: o, Repositories: []string{repo}})
			if err != nil {
				return reconcile.TrackerBoard{}, err
			}
			project, labels, err := c.verifyRepository(ctx, repo, &reconcile.TrackerFindings{})
			if err != nil {
				return reconcile.TrackerBoard{}, err
			}
			return repoissue.Proposal(project, "open", labels, label), nil
		},
	}, nil
}
