// Package gitlab is the adapter to the issues of one or more projects on GitLab, on gitlab.com or
// on a server of one's own.
//
// Adapter returns the value that the rest of the program uses. docs/errors.md explains the
// codes of its errors.
//
// # Decisions
//
//   - Reads are not retried. The next pass is the retry.
//   - GitLab answers no conditional requests for lists. A pass asks for the changes since the pass
//     before, and once a day for all open issues: a renamed label leaves no trace in the changes.
//   - The list lacks the blockers of issues. They are read once after each change of an issue: a
//     new link is a change of both issues. Only paid tiers have links that block.
//   - Incidents, tasks and tickets are no issues for symphony.
//   - Redirects, which GitLab answers for a renamed project, are followed on the same host only.
package gitlab

import (
	"context"
	"errors"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/gitlabapi"
	"github.com/symphony-cron/symphony/internal/adapter/repoissue"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

// Options configure the adapter.
type Options struct {
	transport.Options          // Endpoint is https://HOST/api/v4
	Projects          []string // GROUP/PROJECT, GROUP/SUBGROUP/PROJECT, or the number of a project
	// StateLabels are the labels that are states; empty if issues are only opened or closed.
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
const listKey = "gitlab_issues"

const unknownPayload = "tracker_unknown_payload"

// stateOpen is the state of an open issue without a label that is a state, in GitLab's word.
const stateOpen = "opened"

var service = transport.Service{
	Name:          "GitLab",
	Prefix:        "tracker",
	Address:       "https://gitlab.com/api/v4",
	Paths:         true,
	Setting:       "tracker.endpoint",
	Header:        gitlabapi.Header,
	Secret:        "GitLab token",
	Word:          "token",
	SetKey:        "set GITLAB_TOKEN, or set tracker.api_key to the $VARIABLE that holds it",
	CheckKey:      "check the GitLab token, which must be valid: tokens end after a year at most",
	CheckEndpoint: "it is https://HOST/api/v4",
	Redirected:    "the token is not sent to another host or protocol",
	Strange: "the next pass asks again; if that does not help, " +
		"a proxy has changed GitLab's answer, or its API has changed",
	Limited:  "GitLab, or a proxy before it, accepts no more requests",
	Separate: "account",
}

// Adapter returns GitLab as a tracker. It sends nothing.
func Adapter(o Options) (*reconcile.TrackerAdapter, error) {
	c, err := connect(o)
	if err != nil {
		return nil, err
	}
	err = o.named().Check(
		"missing_tracker_project_slug",
		"write GROUP/PROJECT, as in the address https://gitlab.com/GROUP/PROJECT",
	)
	if err != nil {
		return nil, err
	}
	return &reconcile.TrackerAdapter{
		Tracker:      c,
		Name:         "GitLab",
		Find:         c.find,
		Comments:     c.comments,
		LastComments: c.lastComments,
		Post:         c.post,
		Edit:         c.edit,
		Whoami:       c.whoami,
		Move:         c.move,
		Create:       c.create,
		Verify:       c.verify,
		Budget:       c.api.Budget,
		Tools:        c.Tools(o.ReadOnly, c.move, c.post),
		Secrets:      []string{c.api.Key},
	}, nil
}

// client reads and changes the issues of projects. It is safe for concurrent use.
type client struct {
	api *gitlabapi.Client
	*repoissue.Names
	o          Options
	memory     repoissue.Memory[repoissue.Record]
	candidates repoissue.Candidates
}

// connect returns a client that did not check its projects.
func connect(o Options) (*client, error) {
	place := strings.Join(o.Projects, ", ")
	api, err := gitlabapi.Connect(service, o.Options, transport.Words{Token: "the token", Place: place})
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
		Prefix:         "GL",
		Repositories:   o.Projects,
		Groups:         true,
		Open:           stateOpen,
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
	return who.Names(), err
}

// within calls ask with the path of a project, and again if the project was renamed since: GitLab
// carries out nothing under an old name.
func (c *client) within(ctx context.Context, project string, ask func(path string) error) error {
	err := ask(gitlabapi.ProjectPath(c.Present(project)))
	_, moved := errors.AsType[*gitlabapi.Moved](err)
	if !moved {
		return err
	}
	found, err := c.api.Find(ctx, c.Present(project))
	if err != nil {
		return c.elsewhere(project, err)
	}
	c.Rename(project, found.Name)
	return c.elsewhere(project, ask(gitlabapi.ProjectPath(found.Name)))
}

// elsewhere returns the error of a project whose address leads to no project.
func (c *client) elsewhere(project string, err error) error {
	if _, moved := errors.AsType[*gitlabapi.Moved](err); moved {
		return c.api.Fail("tracker_api_status", "the address of the project "+project+" leads to no project")
	}
	return err
}

// do sends a request to a path of a project, and decodes the answer.
func do[T any](ctx context.Context, c *client, project, method, path string, body any) (v T, err error) {
	err = c.within(ctx, project, func(base string) error {
		var err error
		v, err = gitlabapi.Do[T](ctx, c.api, method, base+path, body)
		return err
	})
	return v, err
}
