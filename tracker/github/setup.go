package github

import (
	"context"
	"net/http"

	"github.com/symphony-cron/symphony/internal/adapter/githubapi"
	"github.com/symphony-cron/symphony/internal/adapter/repoissue"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

// Setup returns everything that init needs to connect a project to GitHub. The projects are
// repositories, which init knows from git.
func Setup() reconcile.TrackerSetup {
	return reconcile.TrackerSetup{
		Name:     "GitHub",
		Endpoint: DefaultEndpoint,
		KeyQuestion: "GitHub token that may read and write issues " +
			"(Settings, Developer settings, Personal access tokens; it is not shown)",
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
	a, err := c.Do(ctx, http.MethodGet, "/user", nil, nil)
	if err != nil {
		return reconcile.TrackerAccount{}, err
	}
	user, err := githubapi.Decode[account](c.api, "account", a.Body)
	if err != nil {
		return reconcile.TrackerAccount{}, err
	}
	return reconcile.TrackerAccount{
		User: user.Login,
		Project: func(ctx context.Context, repo, label string) (reconcile.TrackerBoard, error) {
			c, err := connect(Options{Options: o, Repositories: []string{repo}})
			if err != nil {
				return reconcile.TrackerBoard{}, err
			}
			return c.proposal(ctx, repo, label)
		},
	}, nil
}

// proposal describes a repository to init.
func (c *Client) proposal(ctx context.Context, repo, label string) (reconcile.TrackerBoard, error) {
	found, err := c.verifyRepository(ctx, repo, "")
	if err != nil {
		return reconcile.TrackerBoard{}, err
	}
	return repoissue.Proposal(found.project, "open", found.labels, label), nil
}
