package linear_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/reconcile"
)

// The history of an issue says who set its labels. A label with which it was made, and one
// that a bulk change has put there, are set by nobody.
func TestLabelsSet(t *testing.T) {
	now := testNow
	s := startLinear(t, lineartest.Config{Now: func() time.Time { return now }})
	c := newClient(t, s)
	i := add(t, s, lineartest.Issue{Labels: []string{"Made"}})
	label := func(by string, labels ...string) time.Time {
		now = now.Add(time.Minute)
		test.OK(t, s.Edit(i.Identifier, func(i *lineartest.Issue) {
			i.Labels = labels
			i.LabeledBy = by
		}))
		return now
	}
	read := func() map[string]reconcile.LabelSet {
		t.Helper()
		found := map[string]reconcile.LabelSet{}
		for _, set := range test.Must(c.LabelsSet(t.Context(), i.ID)) {
			found[set.Label] = set
		}
		return found
	}
	kims := label("kim@example.com", "Made", "Wide", "Bug")
	own := label("", "Made", "Wide", "Bug", "Feature")
	got := read()
	wide := got["wide"]
	test.Equal(t, "made", got["made"], reconcile.LabelSet{Label: "made"})
	test.Equal(t, "wide", []any{wide.By, wide.ByIDs[1], wide.Own, wide.At, wide.ChangedAt},
		[]any{"Kim Poe", "kim@example.com", false, kims, time.Time{}})
	test.Equal(t, "feature", []any{got["feature"].Own, got["feature"].At}, []any{true, own})

	// Removed and set again by an agent; renamed.
	label("", "Made", "Bug")
	label("", "Made", "Bug", "Wide")
	now = now.Add(time.Minute)
	test.OK(t, s.RenameLabel("Bug", "Free"))
	got = read()
	test.Equal(t, "set again", []any{got["wide"].Own, got["wide"].By}, []any{true, "Robin Doe"})
	test.Equal(
		t,
		"renamed",
		[]any{got["free"].By, got["free"].At, got["free"].ChangedAt},
		[]any{"Kim Poe", kims, now},
	)
	if _, there := got["bug"]; there {
		t.Error("the renamed label is still there")
	}
	wantCode(t, test.Err(c.LabelsSet(t.Context(), "nothing")), "issue_not_found")

	// A long history has several pages.
	for n := range 130 {
		label("", append([]string{"Free"}, []string{"Feature"}[:n%2]...)...)
	}
	test.Equal(t, "far back", read()["free"].By, "Kim Poe")
}

// Linear adds what a user changes to the user's last entry. Where entries of several users
// overlap, the label is set by nobody.
func TestLabelsOfOverlappingChanges(t *testing.T) {
	entry := func(who, created, updated, change string) string {
		actor := fmt.Sprintf(
			`{"id": %q, "name": %q, "email": "%s@example.com", "isMe": %t}`,
			who,
			who,
			who,
			who == "own",
		)
		bot := "null"
		switch who {
		case "bot":
			bot = `{"name": "Slack"}`
		case "nobody":
			actor = "null"
		}
		at := func(minute string) string { return "2026-03-01T12:" + minute + ":00.000Z" }
		return fmt.Sprintf(
			`{%s, "createdAt": %q, "updatedAt": %q, "actor": %s, "botActor": %s}`,
			change,
			at(created),
			at(updated),
			actor,
			bot,
		)
	}
	const adds, removes = `"addedLabelIds": ["l1"]`, `"removedLabelIds": ["l1"]`
	for name, c := range map[string]struct {
		history, updated, by string
	}{
		"one": {entry("kim", "05", "05", adds), "2026-03-01T10:00:00.000Z", "kim"},
		"agent before": {
			entry("own", "01", "04", adds) + "," + entry("kim", "05", "05", adds),
			"2026-03-01T10:00:00.000Z",
			"kim",
		},
		"agent after": {
			entry("kim", "05", "05", adds) + "," + entry("own", "06", "06", adds),
			"2026-03-01T10:00:00.000Z",
			"own",
		},
		"agent perhaps after": {
			entry("own", "01", "07", adds) + "," + entry("kim", "05", "05", adds),
			"2026-03-01T10:00:00.000Z",
			"",
		},
		"agent at the same time": {
			entry("kim", "05", "05", adds) + "," + entry("own", "05", "05", adds),
			"2026-03-01T10:00:00.000Z",
			"",
		},
		"removed, and there": {
			entry("kim", "05", "05", adds) + "," + entry("kim", "06", "06", removes),
			"2026-03-01T10:00:00.000Z",
			"",
		},
		"a bot in kim's name": {entry("bot", "05", "05", adds), "2026-03-01T10:00:00.000Z", "Slack"},
		"an automation":       {entry("nobody", "05", "05", adds), "2026-03-01T10:00:00.000Z", ""},
		"an automation, of unknown end": {
			strings.Replace(entry("nobody", "05", "05", adds), `"updatedAt"`, `"was"`, 1),
			"2026-03-01T10:00:00.000Z",
			"",
		},
		"another label": {
			entry("kim", "05", "05", `"addedLabelIds": ["l2"]`),
			"2026-03-01T10:00:00.000Z",
			"",
		},
		"renamed at unknown time": {entry("kim", "05", "05", adds), "", ""},
	} {
		client := answering(t, 200, `{"data": {"issue": {
			"labels": {"nodes": [{"id": "l1", "name": "Wide", "createdAt": "2026-03-01T10:00:00.000Z", "updatedAt": "`+c.updated+`"}]},
			"history": {"nodes": [`+c.history+`], "pageInfo": {"hasNextPage": false}}}}}`)
		got := test.Must(client.LabelsSet(t.Context(), "i"))
		test.Equal(t, name, []any{got[0].By, got[0].Own}, []any{c.by, c.by == "own"})
		if c.by == "Slack" && got[0].NotByOperator([]string{"kim@example.com", "Slack"}) == "" {
			t.Error("a program counts as an operator")
		}
	}
}

// A label that is set while the pages of the history are read has its change on none of them.
// Nobody counts as its author, also not the person who set it long ago.
func TestLabelSetBetweenPages(t *testing.T) {
	const label = `{"id": %q, "name": %[1]q, "createdAt": "2026-03-01T10:00:00.000Z", ` +
		`"updatedAt": "2026-03-01T10:00:00.000Z"}`
	const change = `{"addedLabelIds": [%q], "createdAt": "2026-03-01T12:00:00.000Z", ` +
		`"updatedAt": "2026-03-01T12:00:00.000Z", "actor": {"id": "k", "name": "kim"}}`
	const answer = `{"data": {"issue": {"labels": {"nodes": [%s]}, ` +
		`"history": {"nodes": [%s], "pageInfo": {"hasNextPage": %t, "endCursor": "c"}}}}}`
	bug := fmt.Sprintf(label, "bug")
	wide := fmt.Sprintf(label, "wide")
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		page := fmt.Sprintf(answer, bug, fmt.Sprintf(change, "bug"), true)
		if strings.Contains(string(body), `"after":"c"`) {
			page = fmt.Sprintf(answer, bug+","+wide, fmt.Sprintf(change, "wide"), false)
		}
		_, _ = io.WriteString(w, page)
	}))
	t.Cleanup(srv.Close)
	sets := test.Must(clientOf(srv.URL).LabelsSet(t.Context(), "i"))
	test.Equal(t, "labels", test.Map(sets, func(l reconcile.LabelSet) string { return l.Label + " " + l.By }),
		[]string{"bug kim"})
}
