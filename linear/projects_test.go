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
)

func newAccount(t *testing.T, endpoint, key string) *linear.Account {
	t.Helper()
	a, err := linear.NewAccount(linear.Options{Endpoint: endpoint, APIKey: key})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func manyProjects(n int) lineartest.Seed {
	var seed lineartest.Seed
	for i := range n {
		seed.Projects = append(seed.Projects, lineartest.SeedProject{Name: fmt.Sprintf("Project %d", i), SlugID: fmt.Sprintf("%012x", i)})
	}
	return seed
}

// All pages are read, and no more than somebody chooses from.
func TestProjects(t *testing.T) {
	for count, want := range map[int]struct {
		listed, requests int
		more             bool
	}{3: {3, 1, false}, 250: {250, 3, false}, 500: {500, 5, false}, 520: {500, 5, true}} {
		s := seeded(t, manyProjects(count))
		got, err := newAccount(t, s.Endpoint(), s.Key()).Projects(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(got.List) != want.listed || got.More != want.more || len(s.Log()) != want.requests {
			t.Errorf("%d projects: %d listed, more %v, %d requests", count, len(got.List), got.More, len(s.Log()))
		}
		last := linear.ProjectRef{ID: got.List[0].ID, Name: fmt.Sprintf("Project %d", count-1), SlugID: fmt.Sprintf("%012x", count-1), URL: got.List[0].URL}
		if diff := cmp.Diff(last, got.List[0]); diff != "" || got.Viewer.Name != "Robin Doe" || got.List[0].URL == "" {
			t.Errorf("first: %s, viewer %+v", diff, got.Viewer)
		}
	}
}

// A project that stands on two pages is listed once, and a cursor that comes again is an error.
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
	got, err := newAccount(t, srv.URL, "k").Projects(t.Context())
	if err != nil || len(got.List) != 3 {
		t.Errorf("%+v, %v", got.List, err)
	}
	answers[1], next = answers[0], 0
	_, err = newAccount(t, srv.URL, "k").Projects(t.Context())
	wantCode(t, err, "linear_missing_end_cursor")
	answers[0] = `{"data":{"viewer":{"name":"Robin"}}}`
	next = 0
	_, err = newAccount(t, srv.URL, "k").Projects(t.Context())
	wantCode(t, err, "linear_unknown_payload")
}

func TestProjectsRefusedKey(t *testing.T) {
	s := startLinear(t, lineartest.Config{})
	_, err := newAccount(t, s.Endpoint(), "lin_api_wrong").Projects(t.Context())
	if wantCode(t, err, "linear_api_status"); !linear.RefusedKey(err) {
		t.Errorf("%v is no refusal of the key", err)
	}
	if err := s.Fail(lineartest.Failure{Kind: "status", Status: 503, Times: 1}); err != nil {
		t.Fatal(err)
	}
	_, err = newAccount(t, s.Endpoint(), s.Key()).Projects(t.Context())
	if wantCode(t, err, "linear_api_status"); linear.RefusedKey(err) {
		t.Errorf("%v is taken for a refusal of the key", err)
	}
	_, err = linear.NewAccount(linear.Options{APIKey: " "})
	wantCode(t, err, "missing_tracker_api_key")
}

// The states of all teams stand in the order of a team's columns, those of one name once.
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
	a := newAccount(t, s.Endpoint(), s.Key())
	got, err := a.Project(t.Context(), "https://linear.app/acme/project/shop-1a2b3c4d5e6f", "symphony")
	if err != nil {
		t.Fatal(err)
	}
	var states []string
	for _, st := range got.States {
		states = append(states, st.Name)
	}
	if text := strings.Join(states, ","); text != "Backlog,todo,Doing,Done" || got.Team != "OPS" || !got.HasLabel || got.SlugID != "1a2b3c4d5e6f" {
		t.Errorf("%s, %+v", text, got)
	}
	if st, ok := got.State("TODO"); !ok || st.Type != "unstarted" {
		t.Errorf("TODO is %+v, %v", st, ok)
	}
	if text := got.Unknown("Doone").String(); text != `"Doone" (did you mean "Done"?)` {
		t.Error(text)
	}
	if got, err = a.Project(t.Context(), "1a2b3c4d5e6f", "other"); err != nil || got.HasLabel {
		t.Errorf("a label that there is not: %v, %v", got.HasLabel, err)
	}
	_, err = a.Project(t.Context(), "1a2b3c4d5e6e", "x")
	if e := wantCode(t, err, "tracker_project_not_found"); !strings.Contains(e.Hint, "1a2b3c4d5e6f (Shop)") {
		t.Error(e.Hint)
	}
	_, err = a.Project(t.Context(), "", "x")
	wantCode(t, err, "missing_tracker_project_slug")
}
