package linear_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/symphony-cron/symphony/linear"
	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/reconcile"
)

func connect(t *testing.T, endpoint, key string) (reconcile.TrackerAccount, error) {
	t.Helper()
	return linear.Setup().Connect(t.Context(), endpoint, key)
}

func manyProjects(n int) lineartest.Seed {
	var seed lineartest.Seed
	for i := range n {
		seed.Projects = append(seed.Projects, lineartest.SeedProject{Name: fmt.Sprintf("Project %d", i), SlugID: fmt.Sprintf("%012x", i)})
	}
	return seed
}

// All pages are read, up to 500 projects.
func TestProjects(t *testing.T) {
	for count, want := range map[int]struct {
		listed, requests int
		more             bool
	}{3: {3, 1, false}, 250: {250, 3, false}, 500: {500, 5, false}, 520: {500, 5, true}} {
		s := seeded(t, manyProjects(count))
		got := must(connect(t, s.Endpoint(), s.Key()))
		if len(got.Projects) != want.listed || got.More != want.more || len(s.Log()) != want.requests {
			t.Errorf("%d projects: %d listed, more %v, %d requests", count, len(got.Projects), got.More, len(s.Log()))
		}
		last := reconcile.TrackerProject{ID: got.Projects[0].ID, Name: fmt.Sprintf("Project %d", count-1), Slug: fmt.Sprintf("%012x", count-1), URL: got.Projects[0].URL}
		if diff := cmp.Diff(last, got.Projects[0]); diff != "" || got.User != "Robin Doe" || got.Projects[0].URL == "" {
			t.Errorf("first: %s, viewer %+v", diff, got.User)
		}
	}
}

// A project on two pages is listed once; a repeated cursor is an error.
func TestProjectsThatMove(t *testing.T) {
	answers := []string{
		`{"data":{"viewer":{"name":"Robin"},"projects":{"nodes":[{"id":"1"},{"id":"2"}],"pageInfo":{"hasNextPage":true,"endCursor":"c"}}}}`,
		`{"data":{"viewer":{"name":"Robin"},"projects":{"nodes":[{"id":"2"},{"id":"3"}],"pageInfo":{"hasNextPage":false,"endCursor":"d"}}}}`,
	}
	next := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, answers[next%len(answers)])
		next++
	}))
	defer srv.Close()
	got, err := connect(t, srv.URL, "k")
	if err != nil || len(got.Projects) != 3 {
		t.Errorf("%+v, %v", got.Projects, err)
	}
	answers[1], next = answers[0], 0
	_, err = connect(t, srv.URL, "k")
	wantCode(t, err, "linear_missing_end_cursor")
	answers[0] = `{"data":{"viewer":{"name":"Robin"}}}`
	next = 0
	_, err = connect(t, srv.URL, "k")
	wantCode(t, err, "linear_unknown_payload")
}

func TestProjectsRefusedKey(t *testing.T) {
	s := startLinear(t, lineartest.Config{})
	_, err := connect(t, s.Endpoint(), "lin_api_wrong")
	if wantCode(t, err, "linear_api_status"); !linear.Setup().RefusedKey(err) {
		t.Errorf("%v is no refusal of the key", err)
	}
	check(t, s.Fail(lineartest.Failure{Kind: "status", Status: 503, Times: 1}))
	_, err = connect(t, s.Endpoint(), s.Key())
	if wantCode(t, err, "linear_api_status"); linear.Setup().RefusedKey(err) {
		t.Errorf("%v is taken for a refusal of the key", err)
	}
	_, err = connect(t, s.Endpoint(), " ")
	wantCode(t, err, "missing_tracker_api_key")
}

// The states of all teams are in the order of a board, each name once.
func TestProject(t *testing.T) {
	seed := lineartest.Seed{
		Teams: []lineartest.SeedTeam{
			{Key: "WEB", States: []lineartest.SeedState{{Name: "Done", Type: "completed"}, {Name: "Todo", Type: "unstarted"}, {Name: "Backlog", Type: "backlog"}}},
			{Key: "OPS", States: []lineartest.SeedState{{Name: "todo", Type: "unstarted"}, {Name: "Doing", Type: "started"}}},
		},
		Projects: []lineartest.SeedProject{{Name: "Shop", SlugID: "1a2b3c4d5e6f"}},
		Labels:   []string{"Symphony"},
	}
	s := seeded(t, seed)
	a := must(connect(t, s.Endpoint(), s.Key()))
	got := must(a.Project(t.Context(), "https://linear.app/acme/project/shop-1a2b3c4d5e6f", "symphony"))
	var states []string
	for _, st := range got.States {
		states = append(states, st.Name)
	}
	if text := strings.Join(states, ","); text != "Backlog,todo,Doing,Done" || got.IssuePrefix != "OPS" || !got.HasLabel || got.Slug != "1a2b3c4d5e6f" {
		t.Errorf("%s, %+v", text, got)
	}
	if st, ok := got.State("TODO"); !ok || st.Kind != reconcile.StateWaiting {
		t.Errorf("TODO is %+v, %v", st, ok)
	}
	if got, err := a.Project(t.Context(), "1a2b3c4d5e6f", "other"); err != nil || got.HasLabel {
		t.Errorf("a label that there is not: %v, %v", got.HasLabel, err)
	}
	_, err := a.Project(t.Context(), "1a2b3c4d5e6e", "x")
	if e := wantCode(t, err, "tracker_project_not_found"); !strings.Contains(e.Hint, "1a2b3c4d5e6f (Shop)") {
		t.Error(e.Hint)
	}
	_, err = a.Project(t.Context(), "", "x")
	wantCode(t, err, "missing_tracker_project_slug")
}
