package github

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
)

// Adapter returns GitHub as a tracker. It sends nothing.
func Adapter(o Options) (*reconcile.TrackerAdapter, error) {
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	return &reconcile.TrackerAdapter{
		Tracker:   c,
		Name:      "GitHub",
		Find:      c.Find,
		Comments:  c.comments.read,
		Post:      c.comments.post,
		Edit:      c.comments.edit,
		Move:      c.Move,
		Verify:    c.Verify,
		LabelsSet: c.LabelsSet,
		Budget:    c.Budget,
		Tools:     []reconcile.AgentTool{Tool(c)},
		Secrets:   []string{c.Key},
	}, nil
}

// New returns a client for repositories. It checks the options, and sends nothing.
func New(o Options) (*Client, error) {
	c, err := connect(o)
	if err != nil {
		return nil, err
	}
	for _, repo := range o.Repositories {
		owner, name, _ := strings.Cut(repo, "/")
		if url.PathEscape(owner) != owner || url.PathEscape(name) != name || owner == "" ||
			strings.Trim(name, ".") == "" {
			return nil, noName(fmt.Sprintf("%q is not the name of a repository", repo))
		}
	}
	if len(o.Repositories) == 0 {
		return nil, noName("no repository is named")
	}
	if o.Project != "" {
		if _, _, _, err := boardAddress(o.Project); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func noName(message string) error {
	return reconcile.NewError(
		"missing_github_repo",
		message,
		"write OWNER/NAME, as in the address https://github.com/OWNER/NAME",
	)
}
