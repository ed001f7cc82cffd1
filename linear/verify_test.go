package linear_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/linear"
	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/reconcile"
)

func seeded(t *testing.T, seed lineartest.Seed) *lineartest.Server {
	t.Helper()
	s := startLinear(t, lineartest.Config{})
	check(t, s.Load(seed))
	return s
}

func TestVerify(t *testing.T) {
	s := seeded(t, lineartest.Seed{
		Teams: []lineartest.SeedTeam{
			{Key: "ABC", Name: "A"},
			{Key: "XYZ", Name: "X", States: []lineartest.SeedState{{Name: "Waiting", Type: "unstarted"}}},
		},
		Projects: []lineartest.SeedProject{{Name: "Demo", SlugID: "demo", Teams: []string{"ABC"}}},
	})
	c := newClient(t, s)
	got, err := c.Verify(t.Context(), reconcile.TrackerNames{
		States:   []string{"todo", "In Progres", "Waiting", "Nowhere at all"},
		Labels:   []string{"bug", "Featur", "zzz"},
		Assignee: "Robin@example.com",
	})
	check(t, err)
	equal(t, "requests", len(s.Log()), 1)
	want := reconcile.TrackerFindings{
		Project: reconcile.TrackerProject{ID: got.Project.ID, Name: "Demo", Slug: "demo", URL: got.Project.URL},
		User:    "Robin Doe",
		States: []reconcile.UnknownName{
			{Name: "In Progres", Nearest: []string{"In Progress"}},
			{Name: "Waiting", Nearest: []string{"Waiting"}}, // a state of another team
			{Name: "Nowhere at all", Nearest: []string{}},
		},
		Labels: []reconcile.UnknownName{{Name: "Featur", Nearest: []string{"Feature"}}, {Name: "zzz", Nearest: []string{}}},
	}
	equal(t, "read", got, want)
	if text := got.States[0].String(); text != `"In Progres" (did you mean "In Progress"?)` {
		t.Error(text)
	}
}

func TestVerifyAssignee(t *testing.T) {
	s := startLinear(t, lineartest.Config{})
	c := newClient(t, s)
	i := must(c.ByIdentifier(t.Context(), add(t, s, lineartest.Issue{Assignee: "me"}).Identifier))
	id := i.Assignee.ID
	for assignee, known := range map[string]bool{
		"": true, "me": true, "ME": true, "kim@example.com": true, id: true,
		"robyn@example.com": false, "stranger": false,
	} {
		got, err := c.Verify(t.Context(), reconcile.TrackerNames{Assignee: assignee})
		if err != nil || (got.Assignee == nil) != known {
			t.Errorf("assignee %q: %+v, %v", assignee, got.Assignee, err)
		}
	}
	got, err := c.Verify(t.Context(), reconcile.TrackerNames{Assignee: "robyn@example.com"})
	if err != nil || !slices.Equal(got.Assignee.Nearest, []string{"robin@example.com"}) {
		t.Errorf("%+v, %v", got.Assignee, err)
	}
}

func TestVerifyManyLabels(t *testing.T) {
	labels := make([]string, 240)
	for i := range labels {
		labels[i] = "label " + string(rune('a'+i/26)) + string(rune('a'+i%26))
	}
	s := seeded(t, lineartest.Seed{Labels: labels})
	got, err := newClient(t, s).Verify(t.Context(), reconcile.TrackerNames{Labels: []string{"LABEL aa", "label ii"}})
	if err != nil || len(got.Labels) != 0 {
		t.Errorf("labels beyond the first page are called unknown: %+v, %v", got.Labels, err)
	}
}

func TestVerifyNamesTheNearestProject(t *testing.T) {
	s := seeded(t, lineartest.Seed{Projects: []lineartest.SeedProject{
		{Name: "Web shop", SlugID: "1a2b3c4d5e6f"}, {Name: "Backend", SlugID: "ffffffffffff"},
	}})
	for slug, hint := range map[string]string{
		"1a2b3c4d5e6e": "do you mean one of these: 1a2b3c4d5e6f (Web shop)",
		"web-shop":     "do you mean one of these: 1a2b3c4d5e6f (Web shop)",
		"BACKEND":      "do you mean one of these: ffffffffffff (Backend)",
		"zzzzzzzz":     "projects that the key can see: ffffffffffff (Backend), 1a2b3c4d5e6f (Web shop)",
	} {
		c := newClient(t, s, func(o *linear.Options) { o.ProjectSlug = slug })
		_, err := c.Verify(t.Context(), reconcile.TrackerNames{States: []string{"Todo"}})
		if e := wantCode(t, err, "tracker_project_not_found"); e.Hint != hint || !strings.Contains(e.Message, slug) {
			t.Errorf("%s: %v, hint %q, want %q", slug, e, e.Hint, hint)
		}
	}
	_, err := answering(t, 200, `{"data":{"viewer":{},"named":{"nodes":[]},"projects":{"nodes":[]}}}`).
		Verify(t.Context(), reconcile.TrackerNames{})
	if e := wantCode(t, err, "tracker_project_not_found"); !strings.Contains(e.Hint, "no project at all") {
		t.Error(e.Hint)
	}
}

// ErrRejected is the error of a rejected query, not of a refused key, a rate limit or an outage.
func TestVerifyRejected(t *testing.T) {
	for body, rejected := range map[string]bool{
		`{"errors":[{"message":"Cannot query field","extensions":{"code":"GRAPHQL_VALIDATION_FAILED"}}]}`: true,
		`{"errors":[{"message":"no","extensions":{"code":"AUTHENTICATION_ERROR"}}]}`:                      false,
		`{"errors":[{"message":"slow","extensions":{"code":"RATELIMITED"}}]}`:                             false,
	} {
		for _, status := range []int{200, 400} {
			_, err := answering(t, status, body).Verify(t.Context(), reconcile.TrackerNames{States: []string{"Todo"}})
			if err == nil || errors.Is(err, reconcile.ErrRejected) != rejected {
				t.Errorf("HTTP %d %s: %v", status, body, err)
			}
		}
	}
	_, err := answering(t, 503, "").Verify(t.Context(), reconcile.TrackerNames{})
	if err == nil || errors.Is(err, reconcile.ErrRejected) {
		t.Error(err)
	}
}
