package github

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/tracker/github/githubtest"
	"github.com/symphony-cron/symphony/tracker/github/githubtest/openapi"
)

// The timeline of an issue says who set its labels; a renamed label keeps its id.
func TestLabelsSet(t *testing.T) {
	now := testNow
	s := &githubtest.Server{
		Repository: testRepo,
		Tokens:     []string{testToken},
		Errorf:     t.Errorf,
		Check:      openapi.Check,
	}
	s.Now = func() time.Time { return now }
	s.Start()
	t.Cleanup(s.Close)
	c := clientOf(t, s.URL(), ofTestRepo)
	label := func(by string, labels ...string) time.Time {
		now = now.Add(time.Minute)
		test.OK(t, s.Edit("#1", func(i *githubtest.Issue) {
			i.Labels = labels
			i.LabeledBy = by
		}))
		return now
	}
	read := func() map[string]reconcile.LabelSet {
		t.Helper()
		found := map[string]reconcile.LabelSet{}
		for _, set := range test.Must(c.LabelsSet(t.Context(), "1")) {
			found[set.Label] = set
		}
		return found
	}
	test.Must(s.AddIssue(githubtest.Issue{
		Title:     "Some work",
		Labels:    []string{"bug"},
		LabeledBy: "kim",
	}))
	kims := label("kim", "bug", "Wide", "enhancement")
	label("", "bug", "Wide", "enhancement", "own")
	label("kim[bot]", "bug", "Wide", "enhancement", "own", "apps")
	got := read()
	wide := reconcile.LabelSet{Label: "wide", By: "kim", ByIDs: []string{"kim", "id:2"}, At: kims}
	test.Equal(t, "wide", got["wide"], wide)
	test.Equal(t, "made with it", []any{got["bug"].By, got["bug"].At}, []any{"kim", testNow})
	test.Equal(t, "own", []any{got["own"].By, got["own"].Own}, []any{"ann", true})
	test.Equal(t, "a bot", got["apps"].ByIDs, []string{"kim[bot]"})

	// Removed and set again by an agent; renamed.
	label("", "bug", "enhancement")
	label("", "bug", "enhancement", "Wide")
	now = now.Add(time.Minute)
	test.OK(t, s.RenameLabel("enhancement", "free"))
	got = read()
	test.Equal(t, "set again", []any{got["wide"].By, got["wide"].Own}, []any{"ann", true})
	test.Equal(
		t,
		"renamed",
		[]any{got["free"].By, got["free"].At, got["free"].ChangedAt},
		[]any{"kim", kims, now},
	)

	// A long timeline has several pages, of which the last are read.
	for n := range 230 {
		label("", append([]string{"free"}, []string{"own"}[:n%2]...)...)
	}
	test.Equal(t, "two pages back", read()["free"].By, "kim")
	for n := range 900 {
		label("", append([]string{"free"}, []string{"own"}[:n%2]...)...)
	}
	test.Equal(t, "too far back", read()["free"].By, "")

	for _, id := range []string{"2", "x"} {
		wantCode(t, test.Err(c.LabelsSet(t.Context(), id)), "issue_not_found")
	}
}

// A label that is set while the pages of the timeline are read has its event on none of them. It
// is nobody's, and not the person's who set it long ago.
func TestLabelSetBetweenPages(t *testing.T) {
	const answer = `{"data": {"viewer": {"login": "ann"}, "repository": {"issue": {
		"labels": {"nodes": [%s]},
		"timelineItems": {"nodes": [%s], "pageInfo": {"hasPreviousPage": true, "startCursor": "c"}}}}}}`
	const bug, wide = `{"id": "l1", "name": "bug"}`, `{"id": "l2", "name": "wide"}`
	event := func(label string) string {
		return fmt.Sprintf(`{"createdAt": "2026-03-01T12:00:00Z", "label": {"id": %q},
			"actor": {"__typename": "User", "login": "kim", "databaseId": 5}}`, label)
	}
	s := &recorder{answers: []recorded{
		{200, fmt.Sprintf(answer, bug, event("l1")), ""},
		{200, strings.Replace(fmt.Sprintf(answer, bug+","+wide, event("l2")), "true", "false", 1), ""},
	}}
	sets := test.Must(clientOf(t, serving(t, s.ServeHTTP), ofTestRepo).LabelsSet(t.Context(), "12"))
	test.Equal(t, "labels", text.Map(sets, func(l reconcile.LabelSet) string { return l.Label + " " + l.By }),
		[]string{"bug kim"})
}

func ofTestRepo(o *Options) { o.Repositories = []string{testRepo} }

// Accounts that are no users have none of the names by which an operator is known.
func TestWhoSetsLabels(t *testing.T) {
	const answer = `{"data": {"viewer": {"login": "helper[bot]"}, "repository": {"issue": {
		"labels": {"nodes": [{"id": "l1", "name": "wide", "createdAt": %s, "updatedAt": %s}]},
		"timelineItems": {"nodes": [{"createdAt": "2026-03-01T12:00:00Z", "label": {"id": "l1"}, "actor": %s}],
			"pageInfo": {"hasPreviousPage": false}}}}}}`
	const made, later = `"2026-03-01T10:00:00Z"`, `"2026-03-01T13:00:00Z"`
	for name, c := range map[string]struct {
		created, updated, actor string
		counts                  bool
	}{
		"a user":              {made, made, `{"__typename": "User", "login": "kim", "databaseId": 5}`, true},
		"never changed":       {made, "null", `{"__typename": "User", "login": "kim", "databaseId": 5}`, true},
		"changed":             {made, later, `{"__typename": "User", "login": "kim", "databaseId": 5}`, false},
		"changed, old server": {"null", later, `{"__typename": "User", "login": "kim", "databaseId": 5}`, false},
		"an imported account": {made, made, `{"__typename": "Mannequin", "login": "kim"}`, false},
		"an app":              {made, made, `{"__typename": "Bot", "login": "kim"}`, false},
		"symphony's app":      {made, made, `{"__typename": "Bot", "login": "helper"}`, false},
		"a deleted account":   {made, made, `null`, false},
	} {
		s := &recorder{answers: []recorded{{200, fmt.Sprintf(answer, c.created, c.updated, c.actor), ""}}}
		got := test.Must(clientOf(t, serving(t, s.ServeHTTP), ofTestRepo).LabelsSet(t.Context(), "12"))
		test.Equal(t, name, got[0].NotByOperator([]string{"kim", "id:5", "helper[bot]"}) == "", c.counts)
	}
	s := &recorder{
		answers: []recorded{{200, `{"data": {"viewer": null, "repository": {"issue": {"labels": {"nodes": []},
		"timelineItems": {"nodes": []}}}}}`, ""}},
	}
	wantCode(
		t,
		test.Err(clientOf(t, serving(t, s.ServeHTTP), ofTestRepo).LabelsSet(t.Context(), "12")),
		"github_unknown_payload",
	)
}
