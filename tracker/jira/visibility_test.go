package jira

import (
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/tracker/jira/jiratest"
)

// desk is a project with the issue SHOP-1.
type desk struct {
	*jiratest.Server
	a     *reconcile.TrackerAdapter
	issue reconcile.Issue
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{Server: newSite(t)}
	id := add(t, d.Server, jiratest.Issue{Status: "Todo"})
	d.a = test.Must(Adapter(optionsFor(d.Server)))
	d.issue = test.Must(d.a.ByIDs(t.Context(), []string{id}))[id]
	return d
}

// What people write for a role, or inside of a service project, reaches no agent, and ends no
// hold: an agent might repeat it before everybody.
func TestRestrictedComments(t *testing.T) {
	for name, role := range map[string]string{"for a role": "Administrators", "internal": ""} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			test.OK(t, d.Comment("SHOP-1", jiratest.Person, "In the open.", noon))
			test.OK(t, d.Comment("SHOP-1", jiratest.Person, "The password is swordfish.", noon.Add(time.Minute)))
			test.OK(t, d.Restrict("SHOP-1", role))
			list := test.Must(d.a.Comments(t.Context(), d.issue.ID, time.Time{}))
			test.Equal(t, "comments", test.Map(list, func(c reconcile.Comment) string { return c.Body }), []string{"In the open."})
			last := test.Must(d.a.LastComments(t.Context(), []string{d.issue.ID}))
			test.Equal(t, "the newest", last[d.issue.ID], noon)
		})
	}
}

// A comment that people have restricted since stays so when symphony changes its text.
func TestEditKeepsAudience(t *testing.T) {
	d := newDesk(t)
	ctx := t.Context()
	own := test.Must(d.a.Post(ctx, d.issue.ID, "May I?\n\n<!-- symphony:request RUN 1 -->"))
	test.OK(t, d.Restrict("SHOP-1", "Administrators"))
	want := test.Must(d.Visibility("SHOP-1"))
	test.Must(d.a.Edit(ctx, d.issue.ID, own.ID, "Approved.\n\n<!-- symphony:request RUN 1 -->"))
	test.Equal(t, "after the change", test.Must(d.Visibility("SHOP-1")), want)
	found := test.Must(d.a.Comments(ctx, d.issue.ID, time.Time{}))
	test.Equal(t, "symphony still knows it", found[0].Own, true)
}
