// Package github is the adapter to the issues of one or more repositories on GitHub. It reads
// issues for passes and workers.
//
// Adapter returns the value that the rest of the program uses. docs/errors.md explains the
// codes of its errors.
//
// # Decisions
//
//   - Reads are not retried. The next pass is the retry.
//   - The end of a limit is stored in the project's database. Until then no process of the
//     project makes a request.
//   - Redirects, which GitHub answers for a renamed repository, are followed on the same host
//     only.
package github

import (
	"github.com/symphony-cron/symphony/internal/adapter/githubapi"
	"github.com/symphony-cron/symphony/internal/adapter/repoissue"
)

// Client reads the issues of the repositories of a project. It is safe for concurrent use.
type Client struct {
	*requests
	*names
	comments comments
	o        Options
	memory   repoissue.Memory[record]
}

// connect returns a client that did not check its repositories yet.
func connect(o Options) (*Client, error) {
	api, err := githubapi.Connect(service, o.Options, o.Memory)
	if err != nil {
		return nil, err
	}
	r := &requests{Client: api}
	n := &names{Names: repoissue.NewNames(api.Client, o.named()), api: api.Client, o: o}
	return &Client{
		requests: r,
		names:    n,
		comments: comments{r, n},
		o:        o,
		memory:   repoissue.Memory[record]{Store: o.Memory, Key: listKey, Warn: api.WarnOnce},
	}, nil
}

// me returns the login of the token's account if the workflow asks for it, and else nothing.
func (c *Client) me(viewer account) (string, error) {
	if !c.AsksForMe() {
		return "", nil
	}
	return c.loginOf(viewer)
}

// loginOf returns the login of the token's account. An answer without it is an error: nothing would be
// the account's.
func (c *Client) loginOf(viewer account) (string, error) {
	if viewer.Login == "" {
		return "", c.Fail("tracker_unknown_payload", "the answer does not say whose the token is")
	}
	return viewer.Login, nil
}

// listKey is the key under which Memory stores the list of candidates.
const listKey = "github_issues"

// named are the settings on which the names of issues depend.
func (o Options) named() repoissue.Options {
	return repoissue.Options{
		Prefix:         "GH",
		Repositories:   o.Repositories,
		StateLabels:    o.StateLabels,
		PriorityLabels: o.PriorityLabels,
		Assignee:       o.Assignee,
		Board:          o.Project != "",
	}
}
