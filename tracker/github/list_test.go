package github

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/repoissue"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/tracker/github/githubtest"
	"github.com/symphony-cron/symphony/tracker/github/githubtest/openapi"
	"github.com/symphony-cron/symphony/tracker/trackertest"
)

const testRepo = "acme/web-shop"

// scene is a GitHub, its clock, and a project on it.
type scene struct {
	*githubtest.Server
	t      *testing.T
	now    time.Time
	memory *trackertest.Memory
	warned []string
	change []func(*Options)
}

func newScene(t *testing.T, change ...func(*Options)) *scene {
	s := &scene{t: t, now: testNow, memory: &trackertest.Memory{}, change: change}
	s.Server = &githubtest.Server{
		Repository: testRepo,
		Tokens:     []string{testToken},
		Errorf:     t.Errorf,
		Check:      openapi.Check,
		Now:        func() time.Time { return s.now },
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// client returns a new client of the project, as another process has it.
func (s *scene) client(change ...func(*Options)) *Client {
	s.t.Helper()
	o := Options{
		Options: transport.Options{
			Endpoint: s.URL(),
			Key:      testToken,
			Now:      func() time.Time { return s.now },
			Warn:     func(text string) { s.warned = append(s.warned, text) },
		},
		Repositories:   []string{testRepo},
		PriorityLabels: []string{"P0", "P1", "P2", "P3"},
		Memory:         s.memory,
	}
	for _, f := range append(slices.Clone(s.change), change...) {
		f(&o)
	}
	return test.Must(New(o))
}

func (s *scene) add(i githubtest.Issue) githubtest.Issue {
	s.t.Helper()
	s.now = s.now.Add(time.Second)
	i.Title = strings.TrimSpace(i.Title + " issue")
	return test.Must(s.AddIssue(i))
}

// later lets a minute pass, after which every change has another time than before.
func (s *scene) later() { s.now = s.now.Add(time.Minute) }

// candidates returns the ids of the candidates that a new process gets, and how many requests
// that took.
func (s *scene) candidates(states ...string) (ids []string, requests int) {
	s.t.Helper()
	s.ClearLog()
	if states == nil {
		states = []string{"open"}
	}
	for _, i := range test.Must(s.client().Candidates(s.t.Context(), states)) {
		ids = append(ids, i.ID)
	}
	return ids, len(s.Log())
}

func (s *scene) want(what string, ids ...string) {
	s.t.Helper()
	got, _ := s.candidates()
	if !slices.Equal(got, ids) {
		s.t.Errorf("%s: candidates %q, want %q", what, got, ids)
	}
}

// An idle pass is one request, which is answered 304, and writes nothing.
func TestIdlePassIsOneConditionalRequest(t *testing.T) {
	s := newScene(t)
	s.add(githubtest.Issue{Labels: []string{"bug"}})
	s.add(githubtest.Issue{State: "closed"})
	test.Must(s.AddPull(githubtest.Pull{
		Title:  "A pull request",
		Branch: "b",
		Base:   "main",
		From:   testToken,
	}))
	s.want("first", "1")
	writes := s.memory.Writes
	for range 3 {
		s.later()
		s.want("idle", "1")
		if log := s.Log(); len(log) != 1 || log[0].Status != 304 || !log[0].Conditional {
			t.Errorf("requests of an idle pass: %v", log)
		}
	}
	test.Equal(t, "writes of idle passes", s.memory.Writes, writes)
	for key, value := range s.memory.Values {
		test.Lacks(t, key, value, testToken)
	}
}

// What has changed since the last pass is merged into the list, by one request while the
// changes are on one page.
func TestChangesAreMerged(t *testing.T) {
	s := newScene(t)
	s.add(githubtest.Issue{})
	s.add(githubtest.Issue{})
	s.want("first", "2", "1")
	for _, step := range []struct {
		what   string
		change func()
		want   []string
	}{
		{"closed", func() { test.OK(t, s.Move("1", "closed")) }, []string{"2"}},
		{"reopened", func() { test.OK(t, s.Move("1", "open")) }, []string{"2", "1"}},
		{"new", func() { s.add(githubtest.Issue{}) }, []string{"3", "2", "1"}},
		{"commented", func() { test.Must(s.Comment("2", "", "Hello.")) }, []string{"3", "2", "1"}},
	} {
		s.later()
		step.change()
		ids, requests := s.candidates()
		test.Equal(t, step.what+": ids and requests", []any{ids, requests}, []any{step.want, 1})
	}
	s.later()
	test.OK(t, s.Edit("2", func(i *githubtest.Issue) {
		i.Title = "New"
		i.Body = "Text."
		i.Labels = []string{"P1", "Bug"}
	}))
	issues := test.Must(s.client().Candidates(t.Context(), []string{"open"}))
	i := issues[1]
	test.Equal(
		t,
		"the edited issue",
		[]any{i.Title, *i.Description, *i.Priority, i.Labels},
		[]any{"New", "Text.", 2, []string{"bug", "p1"}},
	)
}

// More issues than one page has are read by pages; an incomplete list is never used, whatever
// the clock of this machine shows.
func TestPages(t *testing.T) {
	var s *scene
	s = newScene(t, func(o *Options) { o.Now = func() time.Time { return s.now.Add(-time.Hour) } })
	var want []string
	for n := range 250 {
		s.add(githubtest.Issue{})
		want = append([]string{fmt.Sprint(n + 1)}, want...)
	}
	s.want("first", want...)
	s.want("idle", want...)
	test.Equal(t, "requests when idle", len(s.Log()), 1)
	s.later()
	for n := range 150 { // more changes than the list shows, the oldest of them a new issue
		if n == 0 {
			s.add(githubtest.Issue{})
		}
		test.OK(t, s.Move(fmt.Sprint(n+1), "closed"))
		s.now = s.now.Add(time.Second)
	}
	s.want("after many changes", append([]string{"251"}, want[:100]...)...)
}

// A change while the pages are read is seen by this pass or the next.
func TestChangeBetweenPages(t *testing.T) {
	s := newScene(t)
	for range 150 {
		s.add(githubtest.Issue{})
	}
	s.later()
	before := &hook{http.DefaultTransport, 0, func() {
		test.OK(t, s.Move("1", "closed"))
		test.OK(t, s.Move("150", "closed"))
		test.OK(t, s.Edit("70", func(i *githubtest.Issue) { i.Title = "Changed" }))
		s.add(githubtest.Issue{})
	}}
	c := s.client(func(o *Options) { o.Transport = before })
	test.Must(c.Candidates(t.Context(), []string{"open"}))
	ids, _ := s.candidates()
	if len(ids) != 149 || ids[0] != "151" || slices.Contains(ids, "1") || slices.Contains(ids, "150") {
		t.Errorf("%d candidates: %q", len(ids), ids)
	}
	for _, i := range test.Must(s.client().Candidates(t.Context(), []string{"open"})) {
		test.Equal(t, "is issue "+i.ID+" changed", i.Title == "Changed", i.ID == "70")
	}
}

// States are labels: of an open issue the first in the order of the workflow, without regard
// to case.
func TestStateLabels(t *testing.T) {
	s := newScene(t, func(o *Options) { o.StateLabels = []string{"Todo", "In Progress", "Human Review"} })
	for _, i := range []githubtest.Issue{
		{Labels: []string{"todo"}},
		{Labels: []string{"human review", "IN PROGRESS"}},
		{Labels: []string{"bug"}},
		{Labels: []string{"Todo"}, State: "closed"},
		{Labels: []string{"Human Review"}},
	} {
		s.add(i)
	}
	for range 2 {
		ids, _ := s.candidates(" TODO ", "in progress")
		test.Equal(t, "candidates", ids, []string{"2", "1"})
	}
	ids, _ := s.candidates("closed", "open")
	test.Equal(t, "closed or open", ids, []string{"4", "3"})
	found := test.Must(s.client().ByIDs(t.Context(), []string{"1", "2", "3", "4", "5"}))
	for id, want := range map[string]string{
		"1": "Todo",
		"2": "In Progress",
		"3": "open",
		"4": "closed",
		"5": "Human Review",
	} {
		test.Equal(t, "state of "+id, found[id].State, want)
	}
}

// Other states, or another repository, are another list.
func TestListOfOtherSettingsIsDiscarded(t *testing.T) {
	s := newScene(t)
	s.add(githubtest.Issue{Labels: []string{"Todo"}})
	s.want("first", "1")
	labelled := func(o *Options) { o.StateLabels = []string{"Todo"} }
	got := test.Must(s.client(labelled).Candidates(t.Context(), []string{"Todo"}))
	if len(got) != 1 || got[0].State != "Todo" {
		t.Errorf("with other settings: %+v", got)
	}
	for _, stored := range []string{
		"",
		"x",
		"null",
		"{}",
		"[]",
		`{"for":"x"}`,
		`{"for":"x","repos":{"acme/web-shop":null}}`,
		`{"repos":{},"more":1}`,
	} {
		s.memory.Values[listKey] = stored
		s.want("after "+stored, "1")
	}
	s.now = s.now.Add(listLongest + time.Second)
	s.want("a day later", "1")
	test.Equal(t, "status a day later", s.Log()[0].Status, 200)
}

// A list that is too large for the database is read anew by every pass.
func TestLargeListIsNotStored(t *testing.T) {
	s := newScene(t)
	s.add(githubtest.Issue{})
	s.want("first", "1")
	for range repoissue.LargestList>>20 + 1 {
		s.add(githubtest.Issue{Body: strings.Repeat("x", 1<<20)})
	}
	for range 2 {
		ids, _ := s.candidates()
		test.Equal(
			t,
			"number of candidates, and stored list",
			[]any{len(ids), s.memory.Values[listKey]},
			[]any{repoissue.LargestList>>20 + 2, ""},
		)
	}
}

// An issue that is gone is dropped from the list.
func TestGoneIsDropped(t *testing.T) {
	s := newScene(t)
	for range 3 {
		s.add(githubtest.Issue{})
	}
	s.want("first", "3", "2", "1")
	writes := s.memory.Writes
	test.OK(t, s.Delete("2"))
	found := test.Must(
		s.client().ByIDs(t.Context(), []string{"1", "2", "99", "x", "", "0", "acme/web-shop#1"}),
	)
	test.Equal(t, "found", []any{len(found), found["1"].ID}, []any{1, "1"})
	test.Equal(t, "writes", s.memory.Writes, writes+1)
	s.want("afterwards", "3", "1")
}

func TestBlockers(t *testing.T) {
	s := newScene(t)
	s.AddRepository("acme/api")
	for range 3 {
		s.add(githubtest.Issue{})
	}
	far := s.add(githubtest.Issue{Repository: "acme/api"})
	s.later()
	test.OK(t, s.Block("3", "1", far.Ref()))
	for range perPage { // the blocked issue is not among the latest changes
		s.add(githubtest.Issue{})
	}
	blockers := func() (text []string) {
		for _, i := range test.Must(s.client().Candidates(t.Context(), []string{"open"})) {
			for _, b := range i.BlockedBy {
				text = append(text, fmt.Sprint(i.ID, " by ", *b.ID, " ", *b.Identifier, " ", *b.State))
			}
		}
		return text
	}
	test.Equal(t, "blockers", blockers(), []string{"3 by 1 GH-1 open", "3 by acme/api#1 acme/api#1 open"})
	test.Equal(
		t,
		"blockers, from memory",
		blockers(),
		[]string{"3 by 1 GH-1 open", "3 by acme/api#1 acme/api#1 open"},
	)
	// The change of a blocker in another repository is seen too.
	test.OK(t, s.Move(far.Ref(), "closed"))
	test.Equal(
		t,
		"after the end of one",
		blockers(),
		[]string{"3 by 1 GH-1 open", "3 by acme/api#1 acme/api#1 closed"},
	)
	s.later()
	test.OK(t, s.Move("1", "closed"))
	test.Equal(
		t,
		"after the end of both",
		blockers(),
		[]string{"3 by 1 GH-1 closed", "3 by acme/api#1 acme/api#1 closed"},
	)
	s.ClearLog()
	blockers()
	test.Equal(t, "requests of an idle pass", len(s.Log()), 1)
}

// With several repositories ids contain the repository.
func TestSeveralRepositories(t *testing.T) {
	s := newScene(t, func(o *Options) { o.Repositories = []string{testRepo, "acme/api"} })
	s.AddRepository("acme/api")
	s.add(githubtest.Issue{})
	s.add(githubtest.Issue{Repository: "acme/api", Labels: []string{"p0"}})
	s.want("first", "acme/api#1", "acme/web-shop#1")
	s.want("idle", "acme/api#1", "acme/web-shop#1")
	test.Equal(t, "requests when idle", len(s.Log()), 2)
	found := test.Must(s.client().ByIDs(t.Context(), []string{"acme/api#1", "acme/web-shop#1", "1"}))
	if i := found["acme/api#1"]; len(found) != 2 || i.Identifier != "api-1" || i.Project != "acme/api" ||
		i.NativeRef["repo"] != "acme/api" ||
		*i.Priority != 1 {
		t.Errorf("found %+v", found)
	}
	for _, name := range []string{"api-1", "API-1", "acme/api#1", "https://github.com/acme/api/issues/1"} {
		test.Equal(t, name, test.Must(s.client().Find(t.Context(), name)).ID, "acme/api#1")
	}
	wantCode(t, test.Err(s.client().Find(t.Context(), "1")), "issue_not_found")
}

func TestFind(t *testing.T) {
	s := newScene(t)
	s.add(githubtest.Issue{})
	test.Must(s.AddPull(githubtest.Pull{
		Title:  "A pull request",
		Branch: "b",
		Base:   "main",
		From:   testToken,
	}))
	for _, name := range []string{
		"1",
		" gh-1 ",
		"GH-1",
		"#1",
		"web-shop-1",
		"acme/web-shop#1",
		"https://github.com/Acme/Web-Shop/issues/1",
		"https://github.com/acme/web-shop/issues/1#issuecomment-5",
	} {
		i, err := s.client().Find(t.Context(), name)
		test.Equal(
			t,
			name+": error, id and identifier",
			[]any{err, i.ID, i.Identifier},
			[]any{nil, "1", "GH-1"},
		)
	}
	for _, name := range []string{
		"",
		"2",
		"99",
		"x-1",
		"GH-",
		"acme/api#1",
		"https://github.com/acme/web-shop/pull/2",
		"00000000-0000-4000-8000-000000000000",
	} {
		wantCode(t, test.Err(s.client().Find(t.Context(), name)), "issue_not_found")
	}
}

// An issue that is named twice is read once.
func TestByIDsReadsOnce(t *testing.T) {
	s := newScene(t)
	s.add(githubtest.Issue{})
	found := test.Must(s.client().ByIDs(t.Context(), slices.Repeat([]string{"1"}, batch+1)))
	test.Equal(t, "issues and requests", []int{len(found), len(s.Log())}, []int{1, 1})
}

func TestRenamedRepository(t *testing.T) {
	s := newScene(t)
	s.add(githubtest.Issue{})
	s.want("first", "1")
	test.OK(t, s.Rename(testRepo, "acme/shop"))
	s.later()
	test.Must(s.Comment("1", "", "Hello."))
	s.want("renamed", "1")
	if len(s.warned) != 1 || !strings.Contains(s.warned[0], "acme/web-shop is now called acme/shop") {
		t.Errorf("warnings %q", s.warned)
	}
	s.want("idle", "1")
	if log := s.Log(); len(log) != 1 || log[0].Status != 304 {
		t.Errorf("afterwards: %v", log)
	}
	issues := test.Must(s.client().Candidates(t.Context(), []string{"open"}))
	test.Equal(t, "repository for prompts", issues[0].NativeRef["repo"], any("acme/shop"))
	test.Equal(t, "project", issues[0].Project, testRepo)

	test.OK(t, s.Rename("acme/shop", testRepo))
	s.later()
	test.Must(s.Comment("1", "", "Hello again."))
	s.want("with its old name", "1")
	issues = test.Must(s.client().Candidates(t.Context(), []string{"open"}))
	test.Equal(t, "repository for prompts", issues[0].NativeRef["repo"], any(testRepo))
}

// Without the login of the token's account no issue would be assigned to it.
func TestAnswerWithoutLogin(t *testing.T) {
	s := &recorder{answers: slices.Repeat([]recorded{{200, `{"data": {"viewer": null, "repository": {"nameWithOwner": ` +
		`"acme/web-shop", "issues": {"nodes": []}}}}`, ""}}, 2)}
	change := func(o *Options) {
		o.Repositories = []string{testRepo}
		o.Assignee = "me"
	}
	c := clientOf(t, serving(t, s.ServeHTTP), change)
	wantCode(t, test.Err(c.Candidates(t.Context(), []string{"open"})), "tracker_unknown_payload")
	s.answers = []recorded{{200, `{"data": {"r0": {"nameWithOwner": "acme/web-shop", "i0": null}}}`, ""}}
	wantCode(t, test.Err(c.ByIDs(t.Context(), []string{"12"})), "tracker_unknown_payload")
}

// A board without the field of the columns has none of the states.
func TestBoardWithoutField(t *testing.T) {
	s := &recorder{answers: []recorded{{200, `{"data": {"owner": {"projectV2": {"id": "P", "fields": {"nodes": [` +
		`{"databaseId": 1, "name": "Stage"}]}}}}}`, ""}}}
	c := clientOf(t, serving(t, s.ServeHTTP), func(o *Options) {
		o.Project = "https://github.com/orgs/acme/projects/4"
	})
	known := wantCode(t, test.Err(c.columns(t.Context())), "tracker_project_not_found")
	test.Equal(t, "the hint", known.Hint, "add a field Status of the type single select to the project")
}
