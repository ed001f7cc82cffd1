package linear_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/linear"
	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/reconcile"
)

func identifiers(issues []reconcile.Issue) []string {
	return test.Map(issues, func(i reconcile.Issue) string { return i.Identifier })
}

func TestCandidatesSelectAndNormalise(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 123e6, time.UTC)
	s := startLinear(t, lineartest.Config{Now: func() time.Time { return now }})
	blocker := add(t, s, lineartest.Issue{Title: "First", State: "In Progress", Project: "none"})
	want := add(t, s, lineartest.Issue{
		Title:       "Use " + s.Key(),
		Description: new("text"),
		State:       "Todo",
		Priority:    2,
		Labels:      []string{"Bug", "UI Work"},
		Assignee:    "me",
		BlockedBy:   []string{blocker.Identifier},
		Branch:      "own/branch",
	})
	add(t, s, lineartest.Issue{Title: "Done", State: "Done"})
	add(t, s, lineartest.Issue{Title: "Archived", State: "Todo", Archived: true})
	plain := add(t, s, lineartest.Issue{Title: "Plain", State: "In Progress"})
	c := newClient(t, s)

	got := test.Must(c.Candidates(t.Context(), []string{" todo ", "IN PROGRESS"}))
	if ids := identifiers(got); !slices.Equal(ids, []string{plain.Identifier, want.Identifier}) {
		t.Fatalf("candidates %v, want the newer one first and nothing of other projects or states", ids)
	}
	expect := reconcile.Issue{
		ID:          want.ID,
		Identifier:  want.Identifier,
		Title:       "Use [key]",
		Description: new("text"),
		Priority:    new(2),
		State:       "Todo",
		BranchName:  new("own/branch"),
		URL:         new(want.URL),
		Labels:      []string{"ui work", "bug"},
		BlockedBy: []reconcile.BlockerRef{{
			ID:         &blocker.ID,
			Identifier: &blocker.Identifier,
			State:      new("In Progress"),
		}},
		CreatedAt: &now,
		UpdatedAt: &now,
		Project:   "demo",
		Assignee: &reconcile.Assignee{
			ID:    got[1].Assignee.ID,
			Email: "robin@example.com",
			IsMe:  true,
		},
	}
	test.Equal(t, "normalised issue", got[1], expect)
	if got[0].Description != nil || got[0].Assignee != nil || got[0].Labels == nil ||
		got[0].BlockedBy == nil {
		t.Errorf("an issue without optional values: %+v", got[0])
	}
	if p := got[0].Priority; p == nil || *p != 0 {
		t.Errorf("no priority is %v, want Linear's 0", p)
	}
}

func TestLabelsAndBlockersAreNeverCut(t *testing.T) {
	s := startLinear(t, lineartest.Config{})
	var labels, blockers []string
	for i := range 125 {
		labels = append(labels, fmt.Sprintf("label %03d", i))
	}
	for range 35 {
		blockers = append(blockers, add(t, s, lineartest.Issue{Project: "none"}).Identifier)
	}
	add(t, s, lineartest.Issue{Labels: labels, BlockedBy: blockers})
	got, err := newClient(t, s).Candidates(t.Context(), []string{"Todo"})
	test.Equal(t, "error, and number of candidates", []any{err, len(got)}, []any{nil, 1})
	test.Equal(t, "labels", slices.Sorted(slices.Values(got[0].Labels)), labels)
	gotBlockers := test.Map(got[0].BlockedBy, func(b reconcile.BlockerRef) string { return *b.Identifier })
	slices.Sort(gotBlockers)
	slices.Sort(blockers)
	test.Equal(t, "blockers", gotBlockers, blockers)
	test.OK(t, s.Fail(lineartest.Failure{
		Kind:      lineartest.FailStatus,
		Operation: "SymphonyMoreLabels",
	}))
	wantCode(t, test.Err(newClient(t, s).Candidates(t.Context(), []string{"Todo"})), "linear_api_status")
}

// A record that lacks a required field is a malformed candidate, and an error if it was
// requested by id.
func TestMalformedRecords(t *testing.T) {
	for _, field := range []string{"id", "identifier", "title", "state", "inverseRelations", "project"} {
		t.Run(field, func(t *testing.T) {
			s := startLinear(t, lineartest.Config{})
			good := add(t, s, lineartest.Issue{})
			bad := add(t, s, lineartest.Issue{})
			c := newClient(t, s)
			f := lineartest.Failure{
				Kind:  lineartest.FailMalformed,
				Field: field,
				Issue: bad.ID,
				Times: 2,
			}
			if field == "inverseRelations" || field == "project" {
				f.Value = json.RawMessage(`"x"`)
			}
			test.OK(t, s.Fail(f))
			got, err := c.Candidates(t.Context(), []string{"Todo"})
			if err != nil || len(got) != 2 || got[1].Identifier != good.Identifier || got[1].Malformed != "" {
				t.Fatalf("candidates %+v, %v", got, err)
			}
			named := bad.ID
			if field == "id" {
				named = bad.Identifier
			}
			test.Equal(
				t,
				"the malformed issue",
				[]any{got[0].ID, got[0].Identifier != ""},
				[]any{named, true},
			)
			test.Contains(t, "the malformed issue", got[0].Malformed, field)
			_, err = c.ByIDs(t.Context(), []string{good.ID, bad.ID})
			test.Contains(t, "the error", wantCode(t, err, "linear_unknown_payload").Message, named)
		})
	}
}

// An unreadable later page of relations is an error, because without its blockers the issue
// could start.
func TestUnreadableLaterPageOfRelations(t *testing.T) {
	for _, relations := range []string{`7`, `null`, `{"nodes":null}`} {
		c := answering(
			t,
			200,
			`{"data":{"issues":{"nodes":[{"id":"i1","identifier":"ABC-1","title":"T","state":{"name":"Todo"},
			"inverseRelations":{"nodes":[],"pageInfo":{"hasNextPage":true,"endCursor":"r1"}}}]},"issue":{"inverseRelations":`+relations+`}}}`,
		)
		got, err := c.Candidates(t.Context(), []string{"Todo"})
		if err == nil {
			t.Fatalf("%s: candidates %+v", relations, got)
		}
		test.Contains(
			t,
			"the error",
			wantCode(t, err, "linear_unknown_payload").Message,
			"relations of ABC-1",
		)
	}
}

// A wrong type in an optional field makes that field null, with one warning.
func TestWrongTypesOfOptionalFields(t *testing.T) {
	for _, field := range []string{"description", "url", "branchName", "labels", "assignee"} {
		t.Run(field, func(t *testing.T) {
			s := startLinear(t, lineartest.Config{})
			issue := add(t, s, lineartest.Issue{
				Description: new("x"),
				Labels:      []string{"a"},
				Assignee:    "me",
			})
			var warnings []string
			c := newClient(
				t,
				s,
				func(o *linear.Options) { o.Warn = func(text string) { warnings = append(warnings, text) } },
			)
			wrong := lineartest.Failure{
				Kind:  lineartest.FailMalformed,
				Field: field,
				Value: json.RawMessage(`7`),
				Issue: issue.ID,
				Times: 2,
			}
			test.OK(t, s.Fail(wrong))
			for range 2 {
				got, err := c.Candidates(t.Context(), []string{"Todo"})
				if err != nil || len(got) != 1 || got[0].Malformed != "" {
					t.Fatalf("%+v, %v", got, err)
				}
				missing := map[string]bool{
					"description": got[0].Description == nil,
					"url":         got[0].URL == nil,
					"branchName":  got[0].BranchName == nil,
					"labels":      len(got[0].Labels) == 0,
					"assignee":    got[0].Assignee == nil,
				}
				for name, is := range missing {
					test.Equal(t, "is it missing: "+name, is, name == field)
				}
			}
			if len(warnings) != 1 || !strings.Contains(warnings[0], issue.Identifier) ||
				!strings.Contains(warnings[0], field) {
				t.Errorf("warnings %q", warnings)
			}
		})
	}
}

func TestNormalisationOfUnusualValues(t *testing.T) {
	node := func(extra string) string {
		return `{"id":"i1","identifier":"ABC-1","title":"T","state":{"name":" Todo "}` + extra + `}`
	}
	zone := time.Date(2026, 3, 1, 10, 0, 0, 5e8, time.UTC)
	for name, tc := range map[string]struct {
		extra string
		want  func(*reconcile.Issue)
	}{
		"nothing more":         {``, func(*reconcile.Issue) {}},
		"whole float":          {`,"priority":3.0`, func(i *reconcile.Issue) { i.Priority = new(3) }},
		"fraction":             {`,"priority":2.5`, func(*reconcile.Issue) {}},
		"priority as a string": {`,"priority":"2"`, func(*reconcile.Issue) {}},
		"priority null":        {`,"priority":null`, func(*reconcile.Issue) {}},
		"priority huge":        {`,"priority":1e300`, func(*reconcile.Issue) {}},
		"priority object":      {`,"priority":{}`, func(*reconcile.Issue) {}},
		"null description":     {`,"description":null`, func(*reconcile.Issue) {}},
		"empty description":    {`,"description":""`, func(i *reconcile.Issue) { i.Description = new("") }},
		"zone": {
			`,"createdAt":"2026-03-01T12:00:00.5+02:00"`,
			func(i *reconcile.Issue) { i.CreatedAt = &zone },
		},
		"zone without colon": {
			`,"updatedAt":"2026-03-01T12:00:00.5+0200"`,
			func(i *reconcile.Issue) { i.UpdatedAt = &zone },
		},
		"no time": {`,"createdAt":"yesterday"`, func(*reconcile.Issue) {}},
		"labels": {
			`,"labels":{"nodes":[{"name":" ÄRGER "},{"name":"bug"},{"name":"Bug"},{"name":""}]}`,
			func(i *reconcile.Issue) { i.Labels = []string{"ärger", "bug"} },
		},
		"relations": {
			`,"inverseRelations":{"nodes":[{"type":"related","issue":{"id":"x"}},{"type":"blocks",` +
				`"issue":{"id":"b","identifier":"B-1","state":null}},{"type":"blocks","issue":null}]}`,
			func(i *reconcile.Issue) {
				i.BlockedBy = []reconcile.BlockerRef{{ID: new("b"), Identifier: new("B-1")}, {}}
			},
		},
		"project": {`,"project":{"slugId":"demo"}`, func(i *reconcile.Issue) {
			i.Project = "demo"
			i.Elsewhere = false
		}},
		"another": {`,"project":{"slugId":"other"}`, func(i *reconcile.Issue) { i.Project = "other" }},
	} {
		t.Run(name, func(t *testing.T) {
			want := reconcile.Issue{
				ID:         "i1",
				Identifier: "ABC-1",
				Title:      "T",
				State:      "Todo",
				Labels:     []string{},
				BlockedBy:  []reconcile.BlockerRef{},
				Elsewhere:  true, // it has no project
			}
			tc.want(&want)
			c := answering(t, 200, `{"data":{"issues":{"nodes":[`+node(tc.extra)+`]}}}`)
			test.Equal(t, "read", test.Must(c.ByIDs(t.Context(), []string{"i1"}))["i1"], want)
		})
	}
}

// The description of the issue's project is read if a prompt names it, of candidates and by
// id.
func TestProjectDescription(t *testing.T) {
	s := seeded(t, lineartest.Seed{Projects: []lineartest.SeedProject{
		{
			Name:        "Demo",
			SlugID:      "demo",
			Description: "A shop with one shelf.",
		}, {
			Name:   "Second",
			SlugID: "second",
		},
	}})
	inProject := add(t, s, lineartest.Issue{}).ID
	undescribed := add(t, s, lineartest.Issue{Project: "second"}).ID
	without := add(t, s, lineartest.Issue{Project: "none"}).ID
	asking := newClient(t, s, func(o *linear.Options) { o.ProjectDescription = true })
	candidates := test.Must(asking.Candidates(t.Context(), []string{"Todo"}))
	found := test.Must(asking.ByIDs(t.Context(), []string{inProject, undescribed, without}))
	unasked := test.Must(newClient(t, s).ByIDs(t.Context(), []string{inProject}))
	const text = "A shop with one shelf."
	test.Equal(t, "of a candidate", candidates[0].ProjectDescription, new(text))
	test.Equal(t, "by id", found[inProject].ProjectDescription, new(text))
	test.Equal(t, "of a project without one", found[undescribed].ProjectDescription, nil)
	test.Equal(t, "without a project", found[without].ProjectDescription, nil)
	test.Equal(t, "not asked for", unasked[inProject].ProjectDescription, nil)
}

// A team has its issues of every project and of none. With a project it has only those of the
// project.
func TestIssuesOfATeam(t *testing.T) {
	s := seeded(t, lineartest.Seed{
		Teams: []lineartest.SeedTeam{{
			Key:  "WEB",
			Name: "Web",
		}, {
			Key:  "OPS",
			Name: "Operations",
		}},
		Projects: []lineartest.SeedProject{{
			Name:   "Demo",
			SlugID: "demo",
		}, {
			Name:   "Second",
			SlugID: "second",
		}},
	})
	ids := map[string]string{}
	for identifier, project := range map[string]string{
		"WEB-1": "demo",
		"WEB-2": "none",
		"WEB-3": "second",
		"OPS-1": "demo",
		"OPS-2": "none",
	} {
		ids[identifier] = add(t, s, lineartest.Issue{Identifier: identifier, Project: project}).ID
	}
	for name, tc := range map[string]struct{ team, project, want string }{
		"team":             {"WEB", "", "WEB-1 WEB-2 WEB-3"},
		"in lower case":    {"web", "", "WEB-1 WEB-2 WEB-3"},
		"another team":     {"OPS", "", "OPS-1 OPS-2"},
		"project":          {"", "demo", "OPS-1 WEB-1"},
		"team and project": {"WEB", "demo", "WEB-1"},
		"none of both":     {"OPS", "second", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, s, func(o *linear.Options) {
				o.Team = tc.team
				o.ProjectSlug = tc.project
			})
			var candidates, here []string
			for _, i := range test.Must(c.Candidates(t.Context(), []string{"todo"})) {
				candidates = append(candidates, i.Identifier)
			}
			for _, i := range test.Must(c.ByIDs(t.Context(), slices.Collect(maps.Values(ids)))) {
				if !i.Elsewhere {
					here = append(here, i.Identifier)
				}
			}
			slices.Sort(candidates)
			slices.Sort(here)
			test.Equal(t, "candidates", strings.Join(candidates, " "), tc.want)
			test.Equal(t, "by id", strings.Join(here, " "), tc.want)
		})
	}
}

func TestByIdentifier(t *testing.T) {
	s := startLinear(t, lineartest.Config{})
	want := add(t, s, lineartest.Issue{Identifier: "ABC-7", Labels: []string{"Bug"}})
	c := newClient(t, s)
	for _, name := range []string{
		"ABC-7",
		" abc-7 ",
		want.ID,
		want.URL,
		"https://linear.invalid/example/issue/ABC-7/old-title?x=1#comment-1",
	} {
		got, err := c.ByIdentifier(t.Context(), name)
		test.Equal(
			t,
			"ByIdentifier of "+name,
			[]any{err, got.ID, got.Labels},
			[]any{nil, want.ID, []string{"bug"}},
		)
	}
	for _, name := range []string{
		"ABC-8",
		"",
		"nonsense",
		"https://linear.invalid/another/issue/ABC-7",
		"https://linear.invalid/example",
	} {
		wantCode(t, test.Err(c.ByIdentifier(t.Context(), name)), "issue_not_found")
	}
	body := `{"errors":[{"message":"Entity not found: Issue","extensions":{"code":"INPUT_ERROR"}}],"data":null}`
	for _, status := range []int{200, 400} {
		wantCode(t, test.Err(answering(t, status, body).ByIdentifier(t.Context(), "X-1")), "issue_not_found")
	}
	wantCode(
		t,
		test.Err(answering(t, 200, `{"data":{"issue":null}}`).ByIdentifier(t.Context(), "X-1")),
		"issue_not_found",
	)
	wantCode(
		t,
		test.Err(answering(t, 200, `{"data":{"issue":{"id":"x"}}}`).ByIdentifier(t.Context(), "X-1")),
		"linear_unknown_payload",
	)
}

// An answer of a proxy does not mean that an issue is gone: only Linear's own refusal of the
// question about archived issues does.
func TestArchivedIssuesAreNotAnswered(t *testing.T) {
	const unknown = `{"errors": [{"message": "Unknown argument", "extensions": {"code": "GRAPHQL_VALIDATION_FAILED"}}]}`
	for answer, isGone := range map[string]bool{unknown: true, "": false, "<html>Bad Request</html>": false} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			if strings.Contains(string(body), "SymphonyArchivedIssues") {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, answer)
				return
			}
			_, _ = io.WriteString(w, `{"data": {"issues": {"nodes": []}}}`)
		}))
		t.Cleanup(srv.Close)
		found, err := clientOf(srv.URL).ByIDs(t.Context(), []string{"x"})
		test.Equal(t, "gone after "+answer, []any{len(found), err == nil}, []any{0, isGone})
	}
}

func TestSlugCopiedFromURL(t *testing.T) {
	const id = "1a2b3c4d5e6f"
	s := seeded(t, lineartest.Seed{
		Projects: []lineartest.SeedProject{{Name: "Web", SlugID: id}},
		Issues:   []lineartest.Issue{{Title: "T"}},
	})
	for _, slug := range []string{id, "web-" + id, "https://linear.app/x/project/web-" + id + "/issues"} {
		c := newClient(t, s, func(o *linear.Options) { o.ProjectSlug = slug })
		for range 2 {
			test.Equal(t, slug+": candidates", len(test.Must(c.Candidates(t.Context(), []string{"Todo"}))), 1)
		}
		test.Equal(
			t,
			slug+": verified",
			test.Must(c.Verify(t.Context(), reconcile.TrackerNames{})).Project.Slug,
			id,
		)
	}
}

func TestCommentsSince(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 3, 1, 12, minute, 0, 123e6, time.UTC) }
	s := startLinear(t, lineartest.Config{})
	i := add(t, s, lineartest.Issue{Comments: []lineartest.Comment{
		{ID: "c1", Author: "kim@example.com", Body: "old", CreatedAt: at(1)},
		{ID: "c2", Body: "a *new* one", CreatedAt: at(3)},
		{ID: "c3", Bot: "GitHub", Body: "merged", CreatedAt: at(5)},
		{ID: "c4", Author: "kim@example.com", Body: "last", CreatedAt: at(4), EditedAt: at(6)},
	}})
	me := test.Must(
		newClient(t, s).ByIdentifier(t.Context(), add(t, s, lineartest.Issue{Assignee: "me"}).Identifier),
	).Assignee.ID
	kim := test.Must(
		newClient(
			t,
			s,
		).ByIdentifier(t.Context(), add(t, s, lineartest.Issue{Assignee: "kim@example.com"}).Identifier),
	).Assignee.ID
	add(t, s, lineartest.Issue{Comments: []lineartest.Comment{{
		Body:      "of another issue",
		CreatedAt: at(6),
	}}})
	got := test.Must(newClient(t, s).Comments(t.Context(), i.ID, at(1)))
	want := []reconcile.Comment{
		{
			ID:        "c3",
			Author:    "GitHub",
			AuthorIDs: []string{},
			Own:       true,
			Body:      "merged",
			CreatedAt: at(5),
		},
		{
			ID:        "c4",
			Author:    "Kim Poe",
			AuthorIDs: []string{kim, "kim@example.com"},
			Edited:    true,
			Body:      "last",
			CreatedAt: at(4),
		},
		{
			ID:        "c2",
			Author:    "Robin Doe",
			AuthorIDs: []string{me, "robin@example.com"},
			Own:       true,
			Body:      "a *new* one",
			CreatedAt: at(3),
		},
	}
	test.Equal(t, "comments after the first", got, want)
}

func TestRefusedEdit(t *testing.T) {
	_, err := answering(
		t,
		200,
		`{"data": {"commentUpdate": {"success": false}}}`,
	).Edit(t.Context(), "x", "y", "z")
	test.Equal(t, "a refused edit is an error", err != nil, true)
}

func TestCommentsFollowPagesToTheirBound(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for n, want := range map[int]int{0: 0, 120: 120, 230: 200} {
		s := startLinear(t, lineartest.Config{})
		i := lineartest.Issue{}
		for k := range n {
			i.Comments = append(i.Comments, lineartest.Comment{
				Body:      fmt.Sprint(k),
				CreatedAt: began.Add(time.Duration(k) * time.Second),
			})
		}
		var newest []string
		for k := range want {
			newest = append(newest, fmt.Sprint(n-1-k))
		}
		list := test.Must(newClient(t, s).Comments(t.Context(), add(t, s, i).ID, began.Add(-time.Hour)))
		got := test.Map(list, func(c reconcile.Comment) string { return c.Body })
		test.Equal(t, fmt.Sprint("newest of ", n), got, newest)
	}
}

func TestCommentsThatCannotBeRead(t *testing.T) {
	s := startLinear(t, lineartest.Config{})
	wantCode(t, test.Err(newClient(t, s).Comments(t.Context(), "ABC-7", time.Time{})), "issue_not_found")
	for body, want := range map[string]string{
		`{"data": {"issue": null}}`:                                                                         "no list of comments",
		`{"data": {"issue": {"comments": {"nodes": null}}}}`:                                                "no list of comments",
		`{"data": {"issue": {"comments": {"nodes": [{"id": "c"}]}}}}`:                                       "no id or no time",
		`{"data": {"issue": {"comments": {"nodes": [{"createdAt": "2026-03-01T12:00:00Z"}]}}}}`:             "no id or no time",
		`{"data": {"issue": {"comments": {"nodes": [], "pageInfo": {"hasNextPage": true}}}}}`:               "no cursor",
		`{"errors": [{"message": "broken", "extensions": {"code": "INTERNAL_SERVER_ERROR"}}], "data":null}`: "broken",
	} {
		err := test.Err(answering(t, 200, body).Comments(t.Context(), "x", time.Time{}))
		test.Contains(t, body, fmt.Sprint(err), want)
	}
}
