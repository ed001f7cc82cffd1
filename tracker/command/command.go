// Package command is the adapter to trackers that are an external program (tracker.kind:
// command). docs/trackers.md explains the program to its authors, and docs/tracker.schema.json
// describes its requests and answers.
//
// Each call of the adapter runs the program once: the verb is its last argument, the request
// is JSON on its standard input, the answer JSON on its standard output.
package command

import (
	"cmp"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Adapter returns the program as a tracker. It runs nothing.
func Adapter(o Options) (*reconcile.TrackerAdapter, error) {
	c := &client{Options: o}
	c.Timeout = cmp.Or(c.Timeout, timeout)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Redact == nil {
		c.Redact = func(s string) string { return s }
	}
	t := &reconcile.TrackerAdapter{Tracker: c, Name: "the tracker's program", Find: c.find}
	if o.Key != "" {
		t.Secrets = []string{o.Key}
	}
	if slices.Contains(o.Verbs, verbTool) {
		t.Tools = append(t.Tools, c.updateTool().Tool())
	}
	if slices.Contains(o.Verbs, verbComment) {
		t.Comments = c.comments
		t.Post = c.post
		t.Edit = c.edit
		t.Tools = append(t.Tools, c.commentTool().Tool())
	}
	if slices.Contains(o.Verbs, verbMove) {
		t.Move = c.move
	}
	return t, nil
}
