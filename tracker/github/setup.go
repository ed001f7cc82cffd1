package github

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/githubapi"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/internal/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

// Setup returns what init needs to connect a project to GitHub. The projects are repositories, which init knows from git.
func Setup() reconcile.TrackerSetup {
	return reconcile.TrackerSetup{
		Name: "GitHub", Endpoint: DefaultEndpoint,
		KeyQuestion: "GitHub token that may read and write issues (Settings, Developer settings, Personal access tokens; it is not shown)",
		Connect: func(ctx context.Context, endpoint, token, source string) (reconcile.TrackerAccount, error) {
			o := Options{Options: transport.Options{Endpoint: endpoint, Key: token, KeySource: source}}
			c, err := connect(o)
			if err != nil {
				return reconcile.TrackerAccount{}, err
			}
			a, err := c.Do(ctx, http.MethodGet, "/user", nil, nil)
			if err != nil {
				return reconcile.TrackerAccount{}, err
			}
			user, err := githubapi.Decode[account](c.api, "account", a.Body)
			found := reconcile.TrackerAccount{User: user.Login}
			found.Project = func(ctx context.Context, repo, label string) (reconcile.TrackerBoard, error) {
				o.Repositories = []string{repo}
				c, err := connect(o)
				if err != nil {
					return reconcile.TrackerBoard{}, err
				}
				return c.proposal(ctx, repo, label)
			}
			return found, err
		},
		RefusedKey: service.RefusedKey,
	}
}

// proposal describes a repository to init: open and closed, and labels as the states between them. A label that does not exist is
// created when the agent sets it.
func (c *Client) proposal(ctx context.Context, repo, label string) (reconcile.TrackerBoard, error) {
	var user string
	project, labels, _, err := c.verifyRepository(ctx, repo, "", &user)
	if err != nil {
		return reconcile.TrackerBoard{}, err
	}
	with := func(word, otherwise string) reconcile.TrackerState {
		existing := text.First(labels, func(l string) bool { return strings.Contains(strings.ToLower(l), word) })
		return reconcile.TrackerState{Name: cmp.Or(existing, otherwise), Kind: reconcile.StateStarted}
	}
	board := reconcile.TrackerBoard{
		TrackerProject: project, Setting: project.Name,
		HasLabel: slices.ContainsFunc(labels, func(l string) bool { return strings.EqualFold(l, label) }),
		States: []reconcile.TrackerState{
			{Name: "open", Kind: reconcile.StateWaiting},
			with("progress", "In Progress"),
			with("review", "Human Review"),
			{Name: "closed", Kind: reconcile.StateEnded},
		},
	}
	for _, l := range labels {
		if _, known := board.State(l); !known {
			board.States = append(board.States, reconcile.TrackerState{Name: l})
		}
	}
	return board, nil
}
