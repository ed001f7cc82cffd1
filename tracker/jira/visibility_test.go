package jira

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/faulttest"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/tracker/jira/jiratest"
)

// What people write for a role, or inside of a service project, reaches no agent by any way, and ends
// no hold: an agent might repeat it before everybody.
func TestRestrictedComments(t *testing.T) {
	for name, role := range map[string]string{"for a role": "Administrators", "internal": ""} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, func(*Options) {})
			noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			test.OK(t, d.Comment("SHOP-1", jiratest.Person, "In the open.", noon))
			test.OK(t, d.Comment("SHOP-1", jiratest.Person, "The password is swordfish.", noon.Add(time.Minute)))
			test.OK(t, d.Restrict("SHOP-1", role))
			list := test.Must(d.a.Comments(t.Context(), d.issue.ID, time.Time{}))
			test.Equal(t, "comments", test.Map(list, func(c reconcile.Comment) string { return c.Body }), []string{"In the open."})
			last := test.Must(d.a.LastComments(t.Context(), []string{d.issue.ID}))
			test.Equal(t, "the newest", last[d.issue.ID], noon)
			for _, path := range []string{"issue/SHOP-1/comment", "issue/SHOP-1"} {
				test.Lacks(t, path, d.call("GET", path, "").Text, "swordfish")
			}
			test.Contains(t, "the list", d.call("GET", "issue/SHOP-1/comment", "").Text, "In the open.")
			for id := 20001; id <= 20002; id++ {
				a := d.tool.Call(t.Context(), d.issue, arguments("GET", fmt.Sprint("issue/SHOP-1/comment/", id), ""))
				test.Equal(t, fmt.Sprint("reads ", id), a.Success, id == 20001)
				test.Lacks(t, "the comment", a.Text, "swordfish")
			}
		})
	}
}

// Comments are found in an answer wherever they are, also as HTML, and numbers stay as they are.
func TestRestrictedAnswers(t *testing.T) {
	d := newDesk(t, func(*Options) {})
	const hidden = `{"id": "7", "body": "swordfish", "visibility": {"type": "group", "value": "x"}}`
	const shown = `{"id": "8", "body": "open", "created": 12345678901234567890}`
	d.Fail(faulttest.Answer(http.StatusOK, `{"id": "1", "key": "SHOP-1",
		"fields": {"comment": {"comments": [`+hidden+`, `+shown+`]},
			"worklog": {"worklogs": [{"comment": "swordfish", "visibility": {"type": "role", "value": "x"}}]}},
		"renderedFields": {"comment": {"comments": [{"id": "7", "body": "<p>swordfish</p>"}]}}}`))
	text := d.call("GET", "issue/SHOP-1", "").Text
	test.Lacks(t, "the issue", text, "swordfish")
	test.Contains(t, "the issue", text, `"body":"open"`, "12345678901234567890")
}

// A comment that people have restricted since stays so when symphony or an agent changes its text.
func TestEditKeepsAudience(t *testing.T) {
	d := newDesk(t, func(*Options) {})
	ctx := t.Context()
	own := test.Must(d.a.Post(ctx, d.issue.ID, "May I?\n\n<!-- symphony:request RUN 1 -->"))
	test.OK(t, d.Restrict("SHOP-1", "Administrators"))
	want := test.Must(d.Visibility("SHOP-1"))
	test.Must(d.a.Edit(ctx, d.issue.ID, own.ID, "Approved.\n\n<!-- symphony:request RUN 1 -->"))
	test.Equal(t, "after symphony's change", test.Must(d.Visibility("SHOP-1")), want)
	found := test.Must(d.a.Comments(ctx, d.issue.ID, time.Time{}))
	test.Equal(t, "symphony still knows it", found[0].Own, true)

	made := d.call("POST", "issue/SHOP-1/comment", `{"body": "Done", "visibility": {"type": "role", "value": "Developers"}}`)
	id := made.Mutation.Created[0].ID
	test.OK(t, d.Restrict("SHOP-1", "Administrators"))
	for _, body := range []string{`{"body": "Really"}`, `{"body": "Really", "visibility": null}`} {
		d.call("PUT", "issue/SHOP-1/comment/"+id, body)
		test.Equal(t, "after the agent's change", test.Must(d.Visibility("SHOP-1")), want)
	}
}
