package github

import (
	"github.com/symphony-cron/symphony/reconcile"
)

// Adapter returns GitHub as a tracker. It sends nothing.
func Adapter(o Options) (*reconcile.TrackerAdapter, error) {
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	return &reconcile.TrackerAdapter{
		Tracker:  c,
		Name:     "GitHub",
		Find:     c.Find,
		Comments: c.comments.read,
		Post:     c.comments.post,
		Edit:     c.comments.edit,
		Whoami:   c.whoami,
		Move:     c.Move,
		Verify:   c.Verify,
		Budget:   c.Budget,
		Tools:    c.Tools(o.ReadOnly, c.Move, c.comment),
		Secrets:  []string{c.Key},
	}, nil
}

// New returns a client for repositories. It checks the options, and sends nothing.
func New(o Options) (*Client, error) {
	c, err := connect(o)
	if err != nil {
		return nil, err
	}
	err = o.named().Check(
		"missing_tracker_project_slug",
		"write OWNER/NAME, as in the address https://github.com/OWNER/NAME",
	)
	if err != nil {
		return nil, err
	}
	if o.Project != "" {
		if _, _, _, err := boardAddress(o.Project); err != nil {
			return nil, err
		}
	}
	return c, nil
}
