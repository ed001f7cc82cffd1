package jira

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/faulttest"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/tracker/jira/jiratest"
)

func idsOf(list []reconcile.Issue) []string {
	return text.Map(list, func(i reconcile.Issue) string { return i.Identifier })
}

// add makes an issue and returns its id.
func add(t *testing.T, s *jiratest.Server, n jiratest.Issue) string {
	t.Helper()
	n.Summary = "Work"
	id, _, err := s.Add(n)
	test.OK(t, err)
	return id
}

// errorOf returns an error of this program.
func errorOf(t *testing.T, err error) *reconcile.Error {
	t.Helper()
	e, is := errors.AsType[*reconcile.Error](err)
	if !is {
		t.Fatalf("error %v (%T)", err, err)
	}
	return e
}

// A token that has expired finds no issues and no reason. Neither a list nor a request by id looks
// as if the issues were gone, also if the token expires in the middle of a pass or of a run.
func TestExpiredToken(t *testing.T) {
	for _, told := range []bool{true, false} {
		s := newSite(t)
		id := add(t, s, jiratest.Issue{Status: "Todo"})
		a := test.Must(Adapter(optionsFor(s)))
		test.Equal(t, "issues", len(test.Must(a.ByIDs(t.Context(), []string{id}))), 1)
		s.Expire(true, told)
		found, err := a.ByIDs(t.Context(), []string{id})
		e := errorOf(t, err)
		if len(found) > 0 || errors.Is(err, reconcile.ErrGone) || !errors.Is(err, transport.ErrKey) {
			t.Errorf("by id: %v, %v", found, err)
		}
		test.Contains(t, "hint", e.Hint, "may have expired")
		_, err = a.Candidates(t.Context(), []string{"Todo"})
		if errors.Is(err, reconcile.ErrGone) || !errors.Is(err, transport.ErrKey) {
			t.Errorf("candidates: %v", err)
		}
		_, err = a.Comments(t.Context(), id, time.Time{})
		if errors.Is(err, reconcile.ErrGone) || !errors.Is(err, transport.ErrKey) {
			t.Errorf("comments: %v", err)
		}
	}
}

// An issue that Jira leaves out of an answer for a while is not gone: it is asked for alone.
func TestLeftOut(t *testing.T) {
	s := newSite(t)
	id := add(t, s, jiratest.Issue{Status: "Todo"})
	body := fmt.Sprintf(`{"issues": [], "issueErrors": [{"id": %q, "errorMessage": "Timed out."}]}`, id)
	s.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/bulkfetch") && faulttest.Answer(http.StatusOK, body)(w, r)
	})
	a := test.Must(Adapter(optionsFor(s)))
	found := test.Must(a.ByIDs(t.Context(), []string{id}))
	test.Equal(t, "state", found[id].State, "Todo")
}

// The states of candidates come from the database, whatever the index says.
func TestIndexLags(t *testing.T) {
	s := newSite(t)
	add(t, s, jiratest.Issue{Status: "Todo"})
	second := add(t, s, jiratest.Issue{Status: "Todo"})
	s.Lag(true)
	test.OK(t, s.Move(second, "Done"))
	a := test.Must(Adapter(optionsFor(s)))
	found := test.Must(a.Candidates(t.Context(), []string{"Todo"}))
	test.Equal(t, "candidates", idsOf(found), []string{"SHOP-1"})
}

// An issue that a person has just sent back is found, if the pass knows it. Jira takes 50 of them.
func TestExpectedIssues(t *testing.T) {
	s := newSite(t)
	sentBack := add(t, s, jiratest.Issue{Status: "Done"})
	s.Lag(true)
	test.OK(t, s.Move(sentBack, "Todo"))
	a := test.Must(Adapter(optionsFor(s)))
	found := test.Must(a.Candidates(t.Context(), []string{"Todo"}))
	test.Equal(t, "by the index", len(found), 0)
	ids := []string{"no id", sentBack}
	for n := range 60 {
		ids = append(ids, strconv.Itoa(n+1))
	}
	a.Expect(ids)
	found = test.Must(a.Candidates(t.Context(), []string{"Todo"}))
	test.Equal(t, "candidates", idsOf(found), []string{"SHOP-1"})
}

// Names that no status has are left out of the query, which would fail as a whole.
func TestUnknownStatus(t *testing.T) {
	s := newSite(t)
	add(t, s, jiratest.Issue{Status: "Todo"})
	o := optionsFor(s)
	var warnings []string
	o.Warn = func(w string) { warnings = append(warnings, w) }
	a := test.Must(Adapter(o))
	found := test.Must(a.Candidates(t.Context(), []string{"todo", "Nonsense"}))
	test.Equal(t, "candidates", idsOf(found), []string{"SHOP-1"})
	found = test.Must(a.Candidates(t.Context(), []string{"Nonsense"}))
	test.Equal(t, "no candidates", len(found), 0)
	test.Contains(t, "warning", fmt.Sprint(warnings), "no status of the project SHOP is called Nonsense: there are Backlog")
}

// The operator's condition cannot leave the project, and a wrong one is explained.
func TestCondition(t *testing.T) {
	s := newSite(t)
	add(t, s, jiratest.Issue{Status: "Todo", Labels: []string{"web"}})
	add(t, s, jiratest.Issue{Status: "Todo"})
	test.Must(s.AddElsewhere(jiratest.Issue{Summary: "Elsewhere", Status: "Todo"}))
	o := optionsFor(s)
	o.JQL = "labels = web OR project = OTHER"
	found := test.Must(test.Must(Adapter(o)).Candidates(t.Context(), []string{"Todo"}))
	test.Equal(t, "candidates", idsOf(found), []string{"SHOP-1"})

	o.JQL = "status = Nonsense"
	a := test.Must(Adapter(o))
	_, err := a.Candidates(t.Context(), []string{"Todo"})
	e := errorOf(t, err)
	test.Contains(t, "message", e.Message, "Jira answers 400: the value 'Nonsense' does not exist")
	test.Contains(t, "hint", e.Hint, "correct tracker.provider.jql")
	_, err = a.Verify(t.Context(), reconcile.TrackerNames{})
	test.Equal(t, "code of verify", errorOf(t, err).Code, "tracker_setting_invalid")
}

// A limit ends when Jira says it, in either of its ways, or else after a minute.
func TestEndOfLimit(t *testing.T) {
	for _, c := range []struct {
		header, value string
		want          time.Duration
	}{
		{"Retry-After", "90", 90 * time.Second},
		{"X-RateLimit-Reset", time.Now().Add(10 * time.Minute).UTC().Format(time.RFC3339), 10 * time.Minute},
		{"X-RateLimit-Reset", time.Now().Add(10 * time.Minute).UTC().Format("2006-01-02T15:04Z"), 10 * time.Minute},
		{"X-RateLimit-Reset", "soon", time.Minute},
		{"RateLimit-Reason", "jira-burst-based", time.Minute},
	} {
		s := newSite(t)
		s.Fail(faulttest.Answer(http.StatusTooManyRequests, "", c.header, c.value))
		began := time.Now()
		_, err := test.Must(Adapter(optionsFor(s))).Candidates(t.Context(), []string{"Todo"})
		var limited reconcile.Limited
		if !errors.As(err, &limited) {
			t.Fatal(err)
		}
		end := limited.ResetAt().Sub(began)
		if end < c.want-time.Minute || end > c.want+test.Patience() {
			t.Errorf("%s: %s: the limit ends in %v, want %v", c.header, c.value, end, c.want)
		}
	}
}

// A transition that asks for fields is not tried, and says which; a state to which there is no
// way names the others.
func TestTransitions(t *testing.T) {
	s := newSite(t)
	s.Required = map[string][]string{"Done": {"Resolution"}}
	id := add(t, s, jiratest.Issue{Status: "Todo"})
	a := test.Must(Adapter(optionsFor(s)))
	err := a.Move(t.Context(), id, "Done")
	e := errorOf(t, err)
	test.Equal(t, "code", e.Code, "jira_transition_fields")
	test.Contains(t, "message", e.Message, `the transition "Move to Done" to Done asks for Resolution`)
	e = errorOf(t, a.Move(t.Context(), id, "Nonsense"))
	test.Equal(t, "code", e.Code, reconcile.CodeNoState)
	test.Contains(t, "message", e.Message, `no transition leads from Todo to Nonsense; from there SHOP-1 can reach `, "In Progress")
}

// A blocker that Jira counts as done has ended, whatever the workflow calls terminal.
func TestEndedBlocker(t *testing.T) {
	s := newSite(t)
	blocker := add(t, s, jiratest.Issue{Status: "Canceled"})
	id := add(t, s, jiratest.Issue{Status: "Todo"})
	test.OK(t, s.Block(id, blocker))
	a := test.Must(Adapter(optionsFor(s)))
	refs := test.Must(a.ByIDs(t.Context(), []string{id}))[id].BlockedBy
	test.Equal(t, "blockers", []any{len(refs), *refs[0].Identifier, refs[0].Ended}, []any{1, "SHOP-1", true})
	test.Equal(t, "blockers of the blocker", len(test.Must(a.ByIDs(t.Context(), []string{blocker}))[blocker].BlockedBy), 0)
}

// A project that got another key is still the same one, and so are its issues. Jira finds it by the
// old key.
func TestRenamedProject(t *testing.T) {
	s := newSite(t)
	id := add(t, s, jiratest.Issue{Status: "Todo"})
	away := add(t, s, jiratest.Issue{Status: "Todo"})
	test.OK(t, s.MoveAway(away))
	s.RenameProject("STORE")
	o := optionsFor(s)
	var warnings []string
	o.Warn = func(w string) { warnings = append(warnings, w) }
	a := test.Must(Adapter(o))
	s.ClearLog()
	found := test.Must(a.ByIDs(t.Context(), []string{id, away}))
	test.Equal(t, "elsewhere", []bool{found[id].Elsewhere, found[away].Elsewhere}, []bool{false, true})
	test.Equal(t, "identifier", found[id].Identifier, "STORE-1")
	test.Must(a.ByIDs(t.Context(), []string{id, away}))
	asked := text.Filter(s.Log(), func(r string) bool { return strings.HasSuffix(r, "/project/SHOP") })
	test.Equal(t, "requests for the project", len(asked), 1)
	const want = "the project SHOP is now called STORE: correct tracker.provider.project_key while nothing runs"
	test.Equal(t, "warnings", warnings, []string{want})

	// everything else knows both keys
	test.Equal(t, "candidates", idsOf(test.Must(a.Candidates(t.Context(), []string{"Todo"}))), []string{"STORE-1"})
	for _, name := range []string{"SHOP-1", "STORE-1", "1"} {
		test.Equal(t, name, test.Must(a.Find(t.Context(), name)).ID, id)
	}
	made := test.Must(a.Create(t.Context(), reconcile.NewIssue{Title: "More"}))
	test.Equal(t, "made", made.Identifier, "STORE-3")

	// a query that refuses the old key says what to do, as doctor does
	s.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		body := `{"errorMessages": ["The value 'SHOP' does not exist for the field 'project'."]}`
		return strings.HasSuffix(r.URL.Path, "/search/jql") && faulttest.Answer(http.StatusBadRequest, body)(w, r)
	})
	_, err := test.Must(Adapter(optionsFor(s))).Candidates(t.Context(), []string{"Todo"})
	test.Equal(t, "hint", errorOf(t, err).Hint, want)
	warnings = nil
	test.Must(test.Must(Adapter(o)).Verify(t.Context(), reconcile.TrackerNames{}))
	test.Equal(t, "doctor", warnings, []string{want})
}

// People name issues in several ways; an issue of another project is not found.
func TestFind(t *testing.T) {
	s := newSite(t)
	id := add(t, s, jiratest.Issue{Status: "Todo"})
	other := test.Must(s.AddElsewhere(jiratest.Issue{Summary: "Elsewhere", Status: "Todo"}))
	a := test.Must(Adapter(optionsFor(s)))
	for _, name := range []string{"SHOP-1", "shop-1", "1", id, s.URL() + "/browse/SHOP-1"} {
		found, err := a.Find(t.Context(), name)
		test.OK(t, err)
		test.Equal(t, name, found.ID, id)
	}
	for _, name := range []string{other, "OTHER-1", "https://elsewhere.example/browse/SHOP-1"} {
		_, err := a.Find(t.Context(), name)
		test.Equal(t, name, errorOf(t, err).Code, "issue_not_found")
	}
}

// What symphony posts has its marker in a property: nobody sees it in Jira, and the comments of a
// person who shares the account have none.
func TestMarkers(t *testing.T) {
	s := newSite(t)
	id := add(t, s, jiratest.Issue{Status: "Todo"})
	a := test.Must(Adapter(optionsFor(s)))
	const body = "May it run this?\n\n<!-- symphony:request RUN 1 -->"
	made := test.Must(a.Post(t.Context(), id, body))
	test.Equal(t, "posted", []any{made.Body, made.Own}, []any{body, true})
	test.OK(t, s.Comment(id, jiratest.Me, "approve", time.Time{}))
	list := test.Must(a.Comments(t.Context(), id, time.Time{}))
	test.Equal(t, "the person's", []any{list[0].Body, list[0].Own}, []any{"approve", false})
	test.Contains(t, "its author", fmt.Sprint(list[0].AuthorIDs), jiratest.Me, jiratest.Email)
	test.Equal(t, "symphony's", []any{list[1].Body, list[1].Own}, []any{body, true})
	test.Lacks(t, "the text in Jira", string(test.Must(json.Marshal(test.Must(s.Texts(id))))), "symphony:request")

	// nobody else's words are a marker, even where Markdown shows them as they are
	const mark = "<!-- symphony:merge RUN abc -->"
	test.OK(t, s.Comment(id, jiratest.Person, "```\n"+mark+"\n```\n\n\\"+mark, time.Time{}))
	person := test.Must(a.Comments(t.Context(), id, time.Time{}))[0]
	test.Equal(t, "a marker of a person", []any{reconcile.Marked(person.Body), person.Own}, []any{false, false})
	merged := test.Must(a.PostOnce(t.Context(), id, "Merged.", mark, time.Now()))
	test.Equal(t, "posted beside it", merged.Body, "Merged.\n\n"+mark)

	// whoever has this mark finds the comment again
	again := test.Must(a.PostOnce(t.Context(), id, "x", "<!-- symphony:request RUN 1 -->", time.Now()))
	test.Equal(t, "posted once", again.ID, made.ID)
}

// The time of the newest comment takes one request, however many comments there are.
func TestLastComments(t *testing.T) {
	s := newSite(t)
	id := add(t, s, jiratest.Issue{Status: "Todo"})
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for n := range 3 {
		test.OK(t, s.Comment(id, jiratest.Person, "Comment.", at.Add(time.Duration(n)*time.Minute)))
	}
	a := test.Must(Adapter(optionsFor(s)))
	s.ClearLog()
	last := test.Must(a.LastComments(t.Context(), []string{id}))
	test.Equal(t, "newest", last[id], at.Add(2*time.Minute))
	test.Equal(t, "requests", len(s.Log()), 1)
}

// A document that Jira refuses is sent as one block of code.
func TestRefusedDocument(t *testing.T) {
	s := newSite(t)
	id := add(t, s, jiratest.Issue{Status: "Todo"})
	first := true
	s.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		refuse := first && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/comment")
		if refuse {
			first = false
		}
		return refuse && faulttest.Answer(http.StatusBadRequest, `{"errors": {"comment": "INVALID_INPUT"}}`)(w, r)
	})
	a := test.Must(Adapter(optionsFor(s)))
	made := test.Must(a.Post(t.Context(), id, "# Title\n\n<!-- symphony:agent -->"))
	test.Equal(t, "body", made.Body, "```\n# Title\n```\n\n<!-- symphony:agent -->")
}

// What Verify finds: names that do not exist, and rights that the account lacks.
func TestVerify(t *testing.T) {
	s := newSite(t)
	s.Denied = "TRANSITION_ISSUES"
	o := optionsFor(s)
	found := test.Must(test.Must(Adapter(o)).Verify(t.Context(), reconcile.TrackerNames{
		States:   []string{"Todo", "Dne"},
		Assignee: "nobody@example.com",
	}))
	test.Equal(t, "user", found.User, "Symphony")
	test.Equal(t, "project", found.Project.Name, "Web Shop")
	test.Equal(t, "states", fmt.Sprint(found.States), `["Dne" (did you mean "Done"?)]`)
	test.Equal(t, "assignee", found.Assignee.Name, "nobody@example.com")
	want := "Symphony lacks permissions in the project SHOP: Transition Issues"
	test.Equal(t, "denied", found.Denied.Message, want)
}

// A token with scopes is sent to the gateway of Atlassian; addresses for people stay those of the
// site.
func TestCloudID(t *testing.T) {
	s := newSite(t)
	o := optionsFor(s)
	o.CloudID = "11223344-a1b2-3b33-c444-def123456789"
	c := test.Must(connect(o))
	test.Equal(t, "endpoint", c.api.Endpoint, gateway+o.CloudID)
	test.Equal(t, "site", c.site, s.URL())
}

// A token with scopes, which the site refuses, is tried with the id of the site, which the site
// tells everybody.
func TestSetupByCloudID(t *testing.T) {
	s := newSite(t)
	const id = "11223344-a1b2-3b33-c444-def123456789"
	s.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/_edge/tenant_info" {
			return faulttest.Answer(http.StatusOK, `{"cloudId": "`+id+`"}`)(w, r)
		}
		below, gated := strings.CutPrefix(r.URL.Path, "/gateway/"+id)
		r.URL.Path = below
		return !gated && faulttest.Answer(http.StatusUnauthorized, `{"message": "No."}`)(w, r)
	})
	o := optionsFor(s)
	o.Project = ""
	o.gateway = s.URL() + "/gateway/"
	account := test.Must(setupAccount(t.Context(), o))
	test.Equal(t, "account", []any{account.User, account.CloudID, len(account.Projects)}, []any{"Symphony", id, 2})
	board := test.Must(account.Project(t.Context(), "shop", ""))
	test.Equal(t, "project", []any{board.Setting, board.URL}, []any{"SHOP", s.URL() + "/browse/SHOP"})

	o.Key = "another-token-0123456789"
	_, err := setupAccount(t.Context(), o)
	if !errors.Is(err, transport.ErrKey) {
		t.Errorf("a wrong token: %v", err)
	}
}

// Answers that Jira should never give are errors, and the lists end.
func TestStrangeAnswers(t *testing.T) {
	for name, answers := range map[string]map[string]string{
		"no list":         {"/search/jql": `{}`},
		"no id":           {"/search/jql": `{"issues": [{"key": "SHOP-1"}]}`},
		"repeated page":   {"/search/jql": `{"issues": [{"id": "10001"}], "nextPageToken": "x"}`},
		"no statuses":     {"/statuses": `[]`},
		"null":            {"/statuses": `null`},
		"another issue":   {"/bulkfetch": `{"issues": [{"id": "77", "key": "SHOP-77"}]}`},
		"no list by id":   {"/bulkfetch": `{"issueErrors": []}`},
		"nobody's token":  {"/myself": `{}`},
		"another service": {"/myself": `{"login": "ann"}`},
	} {
		s := newSite(t)
		add(t, s, jiratest.Issue{Status: "Todo"})
		s.Fail(func(w http.ResponseWriter, r *http.Request) bool {
			for path, body := range answers {
				if strings.HasSuffix(r.URL.Path, path) {
					return faulttest.Answer(http.StatusOK, body)(w, r)
				}
			}
			return false
		})
		found, err := test.Must(Adapter(optionsFor(s))).Candidates(t.Context(), []string{"Todo"})
		if len(found) > 0 || errorOf(t, err).Code != unknownPayload {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}
