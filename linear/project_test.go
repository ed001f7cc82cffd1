package linear_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/linear"
	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/reconcile"
)

func connect(t *testing.T, endpoint, key string) (reconcile.TrackerAccount, error) {
	t.Helper()
	return linear.Setup().Connect(t.Context(), endpoint, key, "")
}

func manyProjects(n int) lineartest.Seed {
	var seed lineartest.Seed
	for i := range n {
		seed.Projects = append(seed.Projects, lineartest.SeedProject{
			Name:   fmt.Sprintf("Project %d", i),
			SlugID: fmt.Sprintf("%012x", i),
		})
	}
	return seed
}

// All pages are read, up to 500 projects.
func TestProjects(t *testing.T) {
	for count, want := range map[int]struct {
		listed, requests int
	}{3: {3, 1}, 250: {250, 3}, 520: {500, 5}} {
		s := seeded(t, manyProjects(count))
		got := test.Must(connect(t, s.Endpoint(), s.Key()))
		test.Equal(
			t,
			fmt.Sprint("listed and requests of ", count),
			[]any{len(got.Projects), len(s.Log())},
			[]any{want.listed, want.requests},
		)
		last := reconcile.TrackerProject{
			ID:   got.Projects[0].ID,
			Name: fmt.Sprintf("Project %d", count-1),
			Slug: fmt.Sprintf("%012x", count-1),
			URL:  got.Projects[0].URL,
		}
		test.Equal(
			t,
			"first",
			[]any{got.Projects[0], got.User, got.Projects[0].URL != ""},
			[]any{last, "Robin Doe", true},
		)
	}
}

// A project on two pages is listed once, and a repeated cursor is an error.
func TestProjectsOnTwoPages(t *testing.T) {
	answers := []string{
		`{"data":{"viewer":{"name":"Robin"},"projects":{"nodes":[{"id":"1"},{"id":"2"}],` +
			`"pageInfo":{"hasNextPage":true,"endCursor":"c"}}}}`,
		`{"data":{"viewer":{"name":"Robin"},"projects":{"nodes":[{"id":"2"},{"id":"3"}],` +
			`"pageInfo":{"hasNextPage":false,"endCursor":"d"}}}}`,
	}
	next := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, answers[next%len(answers)])
		next++
	}))
	defer srv.Close()
	got, err := connect(t, srv.URL, "k")
	test.Equal(t, "error and number of projects", []any{err, len(got.Projects)}, []any{nil, 3})
	answers[1] = answers[0]
	next = 0
	wantCode(t, test.Err(connect(t, srv.URL, "k")), "linear_missing_end_cursor")
	answers[0] = `{"data":{"viewer":{"name":"Robin"}}}`
	next = 0
	wantCode(t, test.Err(connect(t, srv.URL, "k")), "linear_unknown_payload")
}

func TestProjectsRefusedKey(t *testing.T) {
	s := startLinear(t, lineartest.Config{})
	_, err := connect(t, s.Endpoint(), "lin_api_wrong")
	wantCode(t, err, "linear_api_status")
	if !linear.Setup().RefusedKey(err) {
		t.Errorf("%v is not a refusal of the key", err)
	}
	test.OK(t, s.Fail(lineartest.Failure{Kind: "status", Status: 503, Times: 1}))
	_, err = connect(t, s.Endpoint(), s.Key())
	wantCode(t, err, "linear_api_status")
	if linear.Setup().RefusedKey(err) {
		t.Errorf("%v counts as a refusal of the key", err)
	}
	wantCode(t, test.Err(connect(t, s.Endpoint(), " ")), "missing_tracker_api_key")
}

// init asks for a team as for a project.
func TestTeam(t *testing.T) {
	s := startLinear(t, lineartest.Config{})
	a := test.Must(connect(t, s.Endpoint(), s.Key()))
	got := test.Must(a.Team(t.Context(), " abc ", "bug"))
	test.Equal(t, "setting", got.Setting, "ABC")
	test.Equal(t, "name", got.Name, "Alphabet")
	test.Equal(t, "label", got.HasLabel, true)
	test.Equal(t, "first state", got.States[0].Name, "Backlog")
	e := wantCode(t, test.Err(a.Team(t.Context(), "ABD", "bug")), "tracker_project_not_found")
	test.Equal(t, "message", e.Message, `Linear has no team with the key "ABD"`)
}

// The states of all teams are in the order of a board, without duplicate names.
func TestProject(t *testing.T) {
	seed := lineartest.Seed{
		Teams: []lineartest.SeedTeam{
			{
				Key: "WEB",
				States: []lineartest.SeedState{{
					Name: "Done",
					Type: "completed",
				}, {
					Name: "Todo",
					Type: "unstarted",
				}, {
					Name: "Backlog",
					Type: "backlog",
				}},
			},
			{
				Key: "OPS",
				States: []lineartest.SeedState{{
					Name: "todo",
					Type: "unstarted",
				}, {
					Name: "Doing",
					Type: "started",
				}},
			},
		},
		Projects: []lineartest.SeedProject{{Name: "Shop", SlugID: "1a2b3c4d5e6f"}},
		Labels:   []string{"Symphony"},
	}
	s := seeded(t, seed)
	a := test.Must(connect(t, s.Endpoint(), s.Key()))
	got := test.Must(a.Project(t.Context(), "https://linear.app/acme/project/shop-1a2b3c4d5e6f", "symphony"))
	states := test.Map(got.States, func(st reconcile.TrackerState) string { return st.Name })
	test.Equal(t, "states", states, []string{"Backlog", "todo", "Doing", "Done"})
	test.Equal(t, "label and slug", []any{got.HasLabel, got.Slug}, []any{true, "1a2b3c4d5e6f"})
	st, ok := got.State("TODO")
	test.Equal(t, "the state TODO", []any{ok, st.Kind}, []any{true, reconcile.StateWaiting})
	if got, err := a.Project(t.Context(), "1a2b3c4d5e6f", "other"); err != nil || got.HasLabel {
		t.Errorf("a label that does not exist: %v, %v", got.HasLabel, err)
	}
	_, err := a.Project(t.Context(), "1a2b3c4d5e6e", "x")
	test.Contains(t, "the hint", wantCode(t, err, "tracker_project_not_found").Hint, "1a2b3c4d5e6f (Shop)")
	wantCode(t, test.Err(a.Project(t.Context(), "", "x")), "missing_tracker_project_slug")
}

func seeded(t *testing.T, seed lineartest.Seed) *lineartest.Server {
	t.Helper()
	s := startLinear(t, lineartest.Config{})
	test.OK(t, s.Load(seed))
	return s
}

func TestVerify(t *testing.T) {
	s := seeded(t, lineartest.Seed{
		Teams: []lineartest.SeedTeam{
			{Key: "ABC", Name: "A"},
			{
				Key:    "XYZ",
				Name:   "X",
				States: []lineartest.SeedState{{Name: "Waiting", Type: "unstarted"}},
			},
		},
		Projects: []lineartest.SeedProject{{Name: "Demo", SlugID: "demo", Teams: []string{"ABC"}}},
	})
	c := newClient(t, s)
	got, err := c.Verify(t.Context(), reconcile.TrackerNames{
		States:   []string{"todo", "In Progres", "Waiting", "Nowhere at all"},
		Labels:   []string{"bug", "Featur", "zzz"},
		Assignee: "Robin@example.com",
	})
	test.OK(t, err)
	test.Equal(t, "requests", len(s.Log()), 1)
	want := reconcile.TrackerFindings{
		Project: reconcile.TrackerProject{
			ID:   got.Project.ID,
			Name: "Demo",
			Slug: "demo",
			URL:  got.Project.URL,
		},
		User: "Robin Doe",
		States: []reconcile.UnknownName{
			{Name: "In Progres", Nearest: []string{"In Progress"}},
			{Name: "Waiting", Nearest: []string{"Waiting"}}, // a state of another team
			{Name: "Nowhere at all", Nearest: []string{}},
		},
		Labels: []reconcile.UnknownName{{
			Name:    "Featur",
			Nearest: []string{"Feature"},
		}, {
			Name:    "zzz",
			Nearest: []string{},
		}},
		OwnOperators: []string{},
	}
	test.Equal(t, "read", got, want)
	test.Equal(t, "unknown state", got.States[0].String(), `"In Progres" (did you mean "In Progress"?)`)
}

// The states are those of the team, whether or not there is a project.
func TestVerifyTeam(t *testing.T) {
	s := seeded(t, lineartest.Seed{
		Teams: []lineartest.SeedTeam{
			{Key: "WEB", Name: "Web"},
			{
				Key:    "OPS",
				Name:   "Operations",
				States: []lineartest.SeedState{{Name: "Waiting", Type: "unstarted"}},
			},
		},
		Projects: []lineartest.SeedProject{{Name: "Demo", SlugID: "demo"}},
	})
	names := reconcile.TrackerNames{States: []string{"Waiting", "Todo"}, Labels: []string{"Featur"}}
	for _, tc := range []struct{ project, place string }{{"", "Operations"}, {"demo", "Demo"}} {
		client := func(team string) *linear.Client {
			return newClient(t, s, func(o *linear.Options) {
				o.Team = team
				o.ProjectSlug = tc.project
			})
		}
		got := test.Must(client("ops").Verify(t.Context(), names))
		test.Equal(t, "place", got.Project.Name, tc.place)
		test.Equal(t, "user", got.User, "Robin Doe")
		test.Equal(t, "unknown states", got.States, []reconcile.UnknownName{{
			Name:    "Todo",
			Nearest: []string{"Todo"},
		}})
		test.Equal(t, "unknown labels", len(got.Labels), 1)

		e := wantCode(t, test.Err(client("WEX").Verify(t.Context(), names)), "tracker_project_not_found")
		test.Equal(
			t,
			"a team that does not exist",
			e.Message,
			`tracker.team: Linear has no team with the key "WEX"`,
		)
		test.Contains(t, "hint", e.Hint, "teams that the key can see: ", "WEB (Web)")
	}
}

// An operator whose key symphony uses can't answer: his comments can't be told from those of
// agents.
func TestVerifyOperators(t *testing.T) {
	s := startLinear(t, lineartest.Config{})
	got := test.Must(
		newClient(
			t,
			s,
		).Verify(t.Context(), reconcile.TrackerNames{Operators: []string{"kim@example.com", "Robin@Example.com", ""}}),
	)
	test.Equal(t, "operators with the key", got.OwnOperators, []string{"Robin@Example.com"})
}

func TestVerifyAssignee(t *testing.T) {
	s := startLinear(t, lineartest.Config{})
	c := newClient(t, s)
	i := test.Must(c.ByIdentifier(t.Context(), add(t, s, lineartest.Issue{Assignee: "me"}).Identifier))
	id := i.Assignee.ID
	for assignee, known := range map[string]bool{
		"": true, "me": true, "ME": true, "kim@example.com": true, id: true,
		"robyn@example.com": false, "stranger": false,
	} {
		got, err := c.Verify(t.Context(), reconcile.TrackerNames{Assignee: assignee})
		test.Equal(t, "assignee "+assignee, []any{err, got.Assignee == nil}, []any{nil, known})
	}
	got, err := c.Verify(t.Context(), reconcile.TrackerNames{Assignee: "robyn@example.com"})
	test.Equal(
		t,
		"error and nearest users",
		[]any{err, got.Assignee.Nearest},
		[]any{nil, []string{"robin@example.com"}},
	)
}

func TestVerifyManyLabels(t *testing.T) {
	labels := make([]string, 240)
	for i := range labels {
		labels[i] = "label " + string(rune('a'+i/26)) + string(rune('a'+i%26))
	}
	s := seeded(t, lineartest.Seed{Labels: labels})
	got, err := newClient(
		t,
		s,
	).Verify(t.Context(), reconcile.TrackerNames{Labels: []string{"LABEL aa", "label ii"}})
	test.Equal(t, "labels beyond the first page are unknown", []any{err, len(got.Labels)}, []any{nil, 0})
}

func TestVerifyNamesProjects(t *testing.T) {
	s := seeded(t, lineartest.Seed{Projects: []lineartest.SeedProject{
		{Name: "Web shop", SlugID: "1a2b3c4d5e6f"}, {Name: "Backend", SlugID: "ffffffffffff"},
	}})
	c := newClient(t, s, func(o *linear.Options) { o.ProjectSlug = "zzzzzzzz" })
	_, err := c.Verify(t.Context(), reconcile.TrackerNames{States: []string{"Todo"}})
	e := wantCode(t, err, "tracker_project_not_found")
	test.Contains(t, "message", e.Message, "zzzzzzzz")
	test.Equal(t, "hint", e.Hint, "projects that the key can see: ffffffffffff (Backend), 1a2b3c4d5e6f (Web shop)")
	_, err = answering(t, 200, `{"data":{"viewer":{},"named":{"nodes":[]},"projects":{"nodes":[]}}}`).
		Verify(t.Context(), reconcile.TrackerNames{})
	test.Contains(t, "the hint", wantCode(t, err, "tracker_project_not_found").Hint, "can see no project")
}

// ErrRejected is the error of a rejected query, not of a refused key, a rate limit or an
// outage.
func TestVerifyRejected(t *testing.T) {
	for body, rejected := range map[string]bool{
		`{"errors":[{"message":"Cannot query field","extensions":{"code":"GRAPHQL_VALIDATION_FAILED"}}]}`: true,
		`{"errors":[{"message":"no","extensions":{"code":"AUTHENTICATION_ERROR"}}]}`:                      false,
		`{"errors":[{"message":"slow","extensions":{"code":"RATELIMITED"}}]}`:                             false,
	} {
		for _, status := range []int{200, 400} {
			_, err := answering(
				t,
				status,
				body,
			).Verify(t.Context(), reconcile.TrackerNames{States: []string{"Todo"}})
			test.Equal(
				t,
				fmt.Sprintf("HTTP %d %s", status, body),
				[]any{err != nil, errors.Is(err, reconcile.ErrRejected)},
				[]any{true, rejected},
			)
		}
	}
	_, err := answering(t, 503, "").Verify(t.Context(), reconcile.TrackerNames{})
	test.Equal(
		t,
		"an error, and whether it is a rejection",
		[]bool{err != nil, errors.Is(err, reconcile.ErrRejected)},
		[]bool{true, false},
	)
}

// The hint of a mistyped project names five, and says if there are more.
func TestHintNamesSomeProjects(t *testing.T) {
	for count, others := range map[int]bool{5: false, 6: true} {
		var projects []lineartest.SeedProject
		for n := range count {
			projects = append(projects, lineartest.SeedProject{Name: fmt.Sprint("Plan ", n), SlugID: fmt.Sprint("s", n)})
		}
		s := seeded(t, lineartest.Seed{Projects: projects})
		c := newClient(t, s, func(o *linear.Options) { o.ProjectSlug = "quite-another-word" })
		hint := wantCode(t, test.Err(c.Verify(t.Context(), reconcile.TrackerNames{})), "tracker_project_not_found").Hint
		test.Equal(t, hint, strings.HasSuffix(hint, " and others"), others)
	}
}
