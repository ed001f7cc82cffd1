// Package gitea is the adapter to the issues of one or more repositories on Gitea 1.26 or later,
// or on Forgejo, which has its API.
//
// Adapter returns the value that the rest of the program uses. docs/errors.md explains the
// codes of its errors.
//
// # Decisions
//
//   - Reads are not retried. The next pass is the retry.
//   - Gitea answers no conditional requests. A pass asks for the changes since the pass before,
//     and once a day for all open issues: a renamed label leaves no trace in the changes.
//   - The list lacks the blockers of issues. They are read once after each change of an issue.
//   - Issues are never filtered by label on the server: for a label that it does not know it
//     returns all issues.
//   - Redirects, which Gitea answers for a renamed repository, are followed on the same host
//     only.
package gitea

import (
	"context"
	"errors"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/giteaapi"
	"github.com/symphony-cron/symphony/internal/adapter/repoissue"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

// Options configure the adapter.
type Options struct {
	transport.Options          // Endpoint is https://HOST/api/v1
	Repositories      []string // OWNER/NAME
	// StateLabels are the labels that are states; empty if issues are only open or closed.
	StateLabels []string
	// PriorityLabels are the labels of the priorities 1, 2 and so on.
	PriorityLabels []string
	// Assignee is the login, or "me", for which the workflow looks among several assignees of
	// an issue; may be empty.
	Assignee string
	// ReadOnly makes the agent's tools refuse every call.
	ReadOnly bool
	// Memory keeps the list of open issues between processes. Nil: every call reads all.
	Memory reconcile.TrackerMemory
}

// listKey is the key under which Memory stores the list of candidates.
const listKey = "gitea_issues"

const unknownPayload = "tracker_unknown_payload"

var service = transport.Service{
	Name:          "Gitea",
	Prefix:        "tracker",
	Paths:         true,
	Setting:       "tracker.endpoint",
	Header:        giteaapi.Header,
	Secret:        "Gitea token",
	Word:          "token",
	SetKey:        "set GITEA_TOKEN or FORGEJO_TOKEN, or set tracker.api_key to the $VARIABLE that holds it",
	CheckKey:      "check the Gitea token, which must be valid",
	CheckEndpoint: "it is https://HOST/api/v1",
	Redirected:    "the token is not sent to another host or protocol",
	Strange: "the next pass asks again; if that does not help, " +
		"a proxy has changed Gitea's answer, or its API has changed",
	Limited:  "Gitea, or a proxy before it, accepts no more requests",
	Separate: "account",
}

// Adapter returns Gitea as a tracker. It sends nothing.
func Adapter(o Options) (*reconcile.TrackerAdapter, error) {
	c, err := connect(o)
	if err != nil {
		return nil, err
	}
	err = o.named().Check(
		"missing_tracker_project_slug",
		"write OWNER/NAME, as in the address https://gitea.example.com/OWNER/NAME",
	)
	if err != nil {
		return nil, err
	}
	return &reconcile.TrackerAdapter{
		Tracker:      c,
		Name:         "Gitea",
		Find:         c.find,
		Comments:     c.comments,
		LastComments: c.lastComments,
		Post:         c.post,
		Edit:         c.edit,
		Whoami:       c.whoami,
		Move:         c.move,
		Create:       c.create,
		Verify:       c.verify,
		Tools:        c.Tools(o.ReadOnly, c.move, c.post),
		Secrets:      []string{c.api.Key},
	}, nil
}

// client reads and changes the issues of the repositories of a project. It is safe for
// concurrent use.
type client struct {
	api *giteaapi.Client
	*repoissue.Names
	o          Options
	memory     repoissue.Memory[repoissue.Record]
	candidates repoissue.Candidates
}

// connect returns a client that did not check its repositories.
func connect(o Options) (*client, error) {
	place := strings.Join(o.Repositories, ", ")
	api, err := giteaapi.Connect(service, o.Options, transport.Words{Token: "the token", Place: place})
	if err != nil {
		return nil, err
	}
	api.Words.Renew = api.CheckKey
	c := &client{
		api:    api,
		Names:  repoissue.NewNames(api.Client, o.named()),
		o:      o,
		memory: repoissue.Memory[repoissue.Record]{Store: o.Memory, Key: listKey, Warn: api.WarnOnce},
	}
	c.candidates = repoissue.Candidates{
		Names:    c.Names,
		Memory:   &c.memory,
		Now:      api.Now,
		Me:       c.me,
		List:     c.list,
		Show:     c.issue,
		Blockers: c.blockers,
	}
	return c, nil
}

// named are the settings on which the names of issues depend.
func (o Options) named() repoissue.Options {
	return repoissue.Options{
		Prefix:         "GT",
		Repositories:   o.Repositories,
		StateLabels:    o.StateLabels,
		PriorityLabels: o.PriorityLabels,
		Assignee:       o.Assignee,
	}
}

// me returns the login of the token's account if the workflow asks for it, and else nothing.
func (c *client) me(ctx context.Context) (string, error) {
	if !c.AsksForMe() {
		return "", nil
	}
	who, err := c.api.Me(ctx)
	return who.Login, err
}

// whoami implements reconcile.TrackerAdapter.
func (c *client) whoami(ctx context.Context) ([]string, error) {
	who, err := c.api.Me(ctx)
	return reconcile.UserNames(who.Login, who.ID), err
}

// within calls ask with the path of a repository, and again if the repository was renamed since:
// Gitea carries out nothing under an old name.
func (c *client) within(repo string, ask func(path string) error) error {
	const most = 3
	for n := 1; ; n++ {
		err := ask("/repos/" + c.Present(repo))
		moved, is := errors.AsType[*giteaapi.Moved](err)
		if !is {
			return err
		}
		if n == most {
			return c.api.Fail("tracker_api_status", "the address of the repository "+repo+" leads to no repository")
		}
		c.Rename(repo, moved.Name)
	}
}

// do sends a request to a path of a repository, and decodes the answer.
func do[T any](ctx context.Context, c *client, right, repo, method, path string, body any) (v T, err error) {
	err = c.within(repo, func(base string) error {
		var err error
		v, err = giteaapi.Do[T](ctx, c.api, right, method, base+path, body)
		return err
	})
	return v, err
}
