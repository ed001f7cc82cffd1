package lineartest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestMutations(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := started(t, Config{Now: func() time.Time { return now }})
	i := must(s.AddIssue(Issue{Title: "One", Description: new(string)}))
	stateID := func(name string) string {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.w.teams[0].state(name).id
	}
	now = now.Add(time.Minute)
	r := ask(t, s, `mutation($in: IssueUpdateInput!) { issueUpdate(id: "ABC-1", input: $in) { success issue { title state { name } priority description } } }`,
		map[string]any{"in": map[string]any{"stateId": stateID("In Progress"), "title": "Two", "priority": 1, "description": nil}})
	wantBody(t, r, `{"data":{"issueUpdate":{"success":true,"issue":{"title":"Two","state":{"name":"In Progress"},"priority":1,"description":null}}}}`)
	r = ask(t, s, `mutation { commentCreate(input: {issueId: "`+i.ID+`", body: "hello"}) { success comment { body user { email } issue { identifier } } } }`, nil)
	wantBody(t, r, `{"data":{"commentCreate":{"success":true,"comment":{"body":"hello","user":{"email":"robin@example.com"},"issue":{"identifier":"ABC-1"}}}}}`)
	r = ask(t, s, `mutation { a: attachmentLinkURL(issueId: "ABC-1", url: "https://x.invalid/1") { attachment { title } } b: attachmentLinkURL(issueId: "ABC-1", url: "https://x.invalid/1", title: "PR") { attachment { title } } }`, nil)
	wantBody(t, r, `{"data":{"a":{"attachment":{"title":"https://x.invalid/1"}},"b":{"attachment":{"title":"PR"}}}}`)

	got := must(s.Issue("ABC-1"))
	if got.State != "In Progress" || got.Title != "Two" || got.Priority != 1 || got.Description != nil || !got.UpdatedAt.Equal(now) || len(got.Comments) != 1 {
		t.Errorf("%+v", got)
	}
	var fields []string
	for _, c := range must(s.History("ABC-1")) {
		fields = append(fields, c.Field+":"+c.From+">"+c.To)
		if !c.At.Equal(now) {
			t.Errorf("%+v happened at %v", c, now)
		}
	}
	if want := "title:One>Two priority:0>1 state:Todo>In Progress comment:>hello attachment:>https://x.invalid/1"; strings.Join(fields, " ") != want {
		t.Errorf("history %q, want %q", fields, want)
	}
	if m := s.Mutations(); len(m) != 3 || m[0].Fields[0] != "issueUpdate" || m[0].Status != 200 || !m[0].At.Equal(now) {
		t.Errorf("log of mutations: %+v", m)
	}
}

func TestMutationsOfLabelsRelationsAndMore(t *testing.T) {
	s := started(t, Config{})
	must(s.AddIssue(Issue{Title: "One", Assignee: "me"}))
	must(s.AddIssue(Issue{Title: "Two"}))
	label := func(name string) string { s.mu.Lock(); defer s.mu.Unlock(); return s.w.label(name).id }
	run := func(query, want string) {
		t.Helper()
		r := ask(t, s, "mutation { "+query+" }", nil)
		if !strings.Contains(r.body, want) {
			t.Errorf("%s: %s, want %s", query, r.body, want)
		}
	}
	run(`issueLabelCreate(input: {name: "New"}) { issueLabel { name } }`, `"New"`)
	run(`issueLabelCreate(input: {name: "new"}) { issueLabel { name } }`, `not taken`)
	run(`issueAddLabel(id: "ABC-1", labelId: "`+label("Bug")+`") { issue { labels { nodes { name } } } }`, `[{"name":"Bug"}]`)
	run(`issueUpdate(id: "ABC-1", input: {addedLabelIds: ["`+label("New")+`"], removedLabelIds: ["`+label("Bug")+`"]}) { issue { labels { nodes { name } } } }`, `[{"name":"New"}]`)
	run(`issueRemoveLabel(id: "ABC-1", labelId: "`+label("New")+`") { issue { labelIds } }`, `"labelIds":[]`)
	run(`issueRelationCreate(input: {issueId: "ABC-2", relatedIssueId: "ABC-1", type: blocks}) { issueRelation { type } }`, `"blocks"`)
	run(`issueRelationCreate(input: {issueId: "ABC-1", relatedIssueId: "ABC-1", type: related}) { success }`, `itself`)
	run(`issueUpdate(id: "ABC-1", input: {assigneeId: null, projectId: null}) { issue { assignee { id } project { id } } }`, `"assignee":null,"project":null`)
	run(`issueArchive(id: "ABC-1") { success entity { archivedAt } }`, `"archivedAt":"2`)
	run(`issueUnarchive(id: "ABC-1") { entity { archivedAt } }`, `"archivedAt":null`)
	run(`issueCreate(input: {teamId: "ABC", title: "Three", labelIds: ["`+label("Bug")+`"]}) { issue { identifier state { name } project { id } } }`, `{"identifier":"ABC-3","state":{"name":"Todo"},"project":null}`)
	run(`issueCreate(input: {teamId: "ABC", title: " "}) { success }`, `title must not be empty`)
	run(`issueCreate(input: {teamId: "ABC", title: "x", stateId: "none"}) { success }`, `Entity not found: WorkflowState`)
	run(`issueUpdate(id: "ABC-77", input: {title: "x"}) { success }`, `Entity not found: Issue`)
	run(`issueUpdate(id: "ABC-1", input: {title: "x", priority: 9}) { success }`, `priority must be`)
	run(`issueUpdate(id: "ABC-1", input: {nonsense: 1}) { success }`, `nonsense`)
	run(`commentCreate(input: {issueId: "ABC-1", body: ""}) { success }`, `body must not be empty`)
	c := must(s.Comment("ABC-1", "kim@example.com", "old"))
	run(`commentUpdate(id: "`+c.ID+`", input: {body: "new"}) { comment { body editedAt } }`, `"body":"new","editedAt":"2`)
	run(`commentDelete(id: "`+c.ID+`") { success }`, `true`)
	got := must(s.Issue("ABC-1"))
	if got.Title != "One" || len(got.Comments) != 0 || len(got.BlockedBy) != 1 || got.Project != "none" || got.Assignee != "" {
		t.Errorf("%+v", got)
	}
	if n := len(s.Issues()); n != 3 {
		t.Errorf("%d issues: a failed create left one behind", n)
	}
}

func TestSeedFile(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) string {
		t.Helper()
		path := filepath.Join(dir, "seed.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	seed, err := ReadSeed(write(`{"teams":[{"key":"WEB"}],"projects":[{"name":"Site","slugId":"abc"}],
		"issues":[{"title":"A","blockedBy":["WEB-2"],"labels":["x"],"comments":[{"body":"c"}]},{"title":"B","createdAt":"2026-01-02T03:04:05Z"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{})
	if err := s.Load(seed); err != nil {
		t.Fatal(err)
	}
	a, b := must(s.Issue("WEB-1")), must(s.Issue("WEB-2"))
	if len(a.BlockedBy) != 1 || a.BlockedBy[0] != "WEB-2" || a.Project != "abc" || len(a.Comments) != 1 || a.State != "Todo" ||
		!b.CreatedAt.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
		t.Errorf("%+v\n%+v", a, b)
	}
	if h := must(s.History("WEB-1")); len(h) != 0 {
		t.Errorf("a seeded issue has a history: %+v", h)
	}
	for _, bad := range []string{`{"nonsense":1}`, `{`} {
		if _, err := ReadSeed(write(bad)); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	for _, bad := range []Seed{
		{Issues: []Issue{{}}},
		{Issues: []Issue{{Title: "x", State: "nope"}}},
		{Issues: []Issue{{Title: "x", BlockedBy: []string{"X-1"}}}},
		{Teams: []SeedTeam{{}}},
		{Projects: []SeedProject{{Name: "x", Teams: []string{"NO"}}}},
		{Issues: []Issue{{Title: "x", Identifier: "ABC"}}},
		{Issues: []Issue{{Title: "x", Identifier: "ABC-1"}, {Title: "y", Identifier: "ABC-1"}}},
	} {
		if err := s.Load(bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	if len(s.Issues()) != 2 {
		t.Error("a wrong seed changed the workspace")
	}
}

func TestEditChangesAllOrNothing(t *testing.T) {
	s := New(Config{})
	must(s.AddIssue(Issue{Title: "One"}))
	if err := s.Edit("ABC-1", func(i *Issue) { i.Title, i.State = "Two", "nowhere" }); err == nil {
		t.Error("an unknown state is accepted")
	}
	if i := must(s.Issue("ABC-1")); i.Title != "One" {
		t.Errorf("%+v", i)
	}
	if err := s.Move("ABC-9", "Done"); err == nil {
		t.Error("an unknown issue moves")
	}
	if err := s.Remove("ABC-1"); err != nil || len(s.Issues()) != 0 {
		t.Error(err)
	}
}

func TestConcurrentUse(t *testing.T) {
	s := started(t, Config{})
	must(s.AddIssue(Issue{Title: "One"}))
	var wg sync.WaitGroup
	for n := range 6 {
		wg.Go(func() {
			for i := range 10 {
				r, err := post(t.Context(), s.Endpoint(), s.Key(), map[string]any{
					"query": `mutation($t: String) { issueUpdate(id: "ABC-1", input: {title: $t}) { issue { title } } }`, "variables": map[string]any{"t": fmt.Sprint(n, i)},
				})
				if err != nil || !strings.Contains(r.body, fmt.Sprint(n, i)) {
					t.Error(r.body, err)
				}
				if err := s.Move("ABC-1", []string{"Todo", "Done"}[i%2]); err != nil {
					t.Error(err)
				}
				s.Log()
				if _, err := s.History("ABC-1"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(s.Mutations()); n != 60 {
		t.Errorf("%d mutations in the log", n)
	}
}
