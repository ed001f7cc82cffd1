package github

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/tracker/github/githubtest"
)

// byBranch makes the adapter look for the pull request of symphony/IDENTIFIER.
func byBranch(o *Options) {
	o.Branch = func(i reconcile.Issue) string { return "symphony/" + i.Identifier }
}

// The pull request of an issue's branch comes with the issue, without a request of its own.
func TestPullRequests(t *testing.T) {
	for name, tc := range map[string]struct {
		pulls []githubtest.Pull
		want  *reconcile.PullRequest
	}{
		"none":  {nil, nil},
		"plain": {[]githubtest.Pull{{}}, &reconcile.PullRequest{State: "open"}},
		"draft": {[]githubtest.Pull{{
			Draft:  true,
			Checks: "PENDING",
		}}, &reconcile.PullRequest{
			State:  "draft",
			Checks: "pending",
		}},
		"approved": {
			[]githubtest.Pull{{Review: "APPROVED", Checks: "SUCCESS"}},
			&reconcile.PullRequest{State: "open", Checks: "passed", Review: "approved"},
		},
		"changes": {
			[]githubtest.Pull{{Review: "CHANGES_REQUESTED", Checks: "FAILURE"}},
			&reconcile.PullRequest{State: "open", Checks: "failed", Review: "changes_requested"},
		},
		"waiting": {
			[]githubtest.Pull{{Review: "REVIEW_REQUIRED", Checks: "EXPECTED"}},
			&reconcile.PullRequest{State: "open", Checks: "pending", Review: "required"},
		},
		"broken": {[]githubtest.Pull{{Checks: "ERROR"}}, &reconcile.PullRequest{
			State:  "open",
			Checks: "failed",
		}},
		"merged": {[]githubtest.Pull{{
			State:  "closed",
			Merged: true,
		}}, &reconcile.PullRequest{State: "merged"}},
		"newest": {[]githubtest.Pull{{State: "closed"}, {Checks: "SUCCESS"}}, &reconcile.PullRequest{
			State:  "open",
			Checks: "passed",
		}},
		"closed": {[]githubtest.Pull{{State: "closed"}}, &reconcile.PullRequest{State: "closed"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, byBranch)
			s.add(githubtest.Issue{})
			s.add(githubtest.Issue{})
			number := 0
			for _, p := range tc.pulls {
				s.later()
				p.Title = "Work"
				p.Branch = "symphony/GH-1"
				p.Base = "main"
				p.From = testToken
				number = test.Must(s.AddPull(p))
			}
			if tc.want != nil {
				tc.want.URL = fmt.Sprint("https://github.com/acme/web-shop/pull/", number)
			}
			s.ClearLog()
			found := test.Must(s.client().ByIDs(t.Context(), []string{"1", "2"}))
			test.Equal(t, "pull request", found["1"].PullRequest, tc.want)
			test.Equal(t, "of the other issue", found["2"].PullRequest, nil)
			test.Equal(t, "requests", len(s.Log()), 1)
		})
	}
}

// The repository's own pull request is found below newer ones that forks have of a branch of that name.
func TestPullRequestBelowForks(t *testing.T) {
	s := newScene(t, byBranch)
	s.add(githubtest.Issue{})
	s.add(githubtest.Issue{})
	pull := githubtest.Pull{
		Title:  "Work",
		Branch: "symphony/GH-1",
		Base:   "main",
		From:   testToken,
	}
	own := test.Must(s.AddPull(pull))
	pull.Foreign = true
	for range 7 {
		s.later()
		test.Must(s.AddPull(pull))
	}
	s.ClearLog()
	found := test.Must(s.client().ByIDs(t.Context(), []string{"1", "2"}))
	test.Equal(t, "issues", len(found), 2)
	test.Equal(t, "pull request", found["1"].PullRequest, &reconcile.PullRequest{
		URL:   fmt.Sprint("https://github.com/acme/web-shop/pull/", own),
		State: "open",
	})
	test.Equal(t, "requests", len(s.Log()), 1)
}

// answered returns the client's reading of one answer to the request for issue 1.
func answered(
	t *testing.T,
	body string,
	change ...func(*Options),
) (map[string]reconcile.Issue, []string, error) {
	var warned []string
	c := clientOf(
		t,
		serving(t, (&recorder{answers: []recorded{{200, body, ""}}}).ServeHTTP),
		append(change, func(o *Options) {
			o.Repositories = []string{testRepo}
			o.Warn = func(text string) { warned = append(warned, text) }
		})...)
	found, err := c.ByIDs(t.Context(), []string{"1"})
	return found, warned, err
}

const plainIssue = `"number":1,"title":"T","state":"OPEN","updatedAt":"2026-03-01T12:00:00Z"`

// A token that may not read pull requests or checks still reads issues.
func TestUnreadablePullRequests(t *testing.T) {
	for name, body := range map[string]string{
		"checks": `{"data":{"r0":{"i0":{` + plainIssue + `},"p0":{"nodes":[{"url":"u","state":"OPEN","commits":{"nodes":[{"commit":
			{"statusCheckRollup":null}}]}}]}}},"errors":[{"type":"FORBIDDEN","path":["r0","p0","nodes",0,"commits","nodes",0,"commit",
			"statusCheckRollup"],"message":"Resource not accessible by personal access token"}]}`,
		"all": `{"data":{"r0":{"i0":{` + plainIssue + `},"p0":null}},"errors":[{"type":"FORBIDDEN",` +
			`"path":["r0","p0"],"message":"Resource not accessible"}]}`,
	} {
		found, warned, err := answered(t, body, byBranch)
		if err != nil || found["1"].Title != "T" || (found["1"].PullRequest != nil) != (name == "checks") {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
		if len(warned) != 1 || !strings.Contains(warned[0], "not accessible") {
			t.Errorf("%s: warnings %q", name, warned)
		}
	}
	_, _, err := answered(
		t,
		`{"data":{"r0":{"i0":null}},"errors":[{"type":"FORBIDDEN","path":["r0","i0"],"message":"no"}]}`,
		byBranch,
	)
	wantCode(t, err, "tracker_graphql_errors")
}

// Only an explicit answer counts as one that an issue is gone.
func TestIssueThatIsNotInTheAnswer(t *testing.T) {
	const gone = `"errors":[{"type":"NOT_FOUND","path":["r0","i0"],"message":"Could not resolve to ` +
		`an Issue with the number of 1."}]`
	found, _, err := answered(t, `{"data":{"r0":{"i0":null}},`+gone+`}`)
	test.Equal(t, "gone", []any{err, len(found)}, []any{nil, 0})
	for body, code := range map[string]string{
		`{"data":{"r0":{"i0":null}}}`: "tracker_unknown_payload",
		`{"data":{"r0":{}}}`:          "tracker_unknown_payload",
		`{"data":{}}`:                 "tracker_unknown_payload",
		`{"data":{"r0":{"i0":{"number":2,"title":"T","state":"OPEN"}}}}`:  "tracker_unknown_payload",
		`{"data":{"r0":{"i0":{"number":1,"title":" ","state":"OPEN"}}}}`:  "tracker_unknown_payload",
		`{"data":{"r0":{"i0":{"number":1,"title":"T","state":"OTHER"}}}}`: "tracker_unknown_payload",
		`{"data":{"r0":{"i0":{` + plainIssue + `,"labels":7}}}}`:          "tracker_unknown_payload",
		`{"data":{"r0":[]}}`: "tracker_unknown_payload",
		`{"data":{"r0":null},"errors":[{"type":"NOT_FOUND","path":["r0"],"message":"Could not resolve to a Repository"}]}`: "tracker_project_not_found",
		`{"data":null,"errors":[{"type":"NOT_FOUND","path":["r0","i0"],"message":"gone"}]}`:                                "tracker_graphql_errors",
	} {
		found, _, err := answered(t, body)
		wantCode(t, err, code)
		if len(found) > 0 {
			t.Errorf("%s: %+v", body, found)
		}
	}
}

func TestUnusualValues(t *testing.T) {
	for extra, want := range map[string]func(*reconcile.Issue){
		``:                              func(*reconcile.Issue) {},
		`,"fullDatabaseId":"123456789"`: func(i *reconcile.Issue) { i.NativeRef["id"] = int64(123456789) },
		`,"fullDatabaseId":5`:           func(i *reconcile.Issue) { i.NativeRef["id"] = int64(5) },
		`,"body":"Text ` + testToken + `"`: func(i *reconcile.Issue) {
			i.Description = new("Text [token]")
		},
		`,"labels":{"nodes":[{"name":" ÄRGER "},{"name":"bug"},{"name":"Bug"},{"name":""},{"name":"p3"},{"name":"P2"}]}`: func(i *reconcile.Issue) {
			i.Labels = []string{"bug", "p2", "p3", "ärger"}
			i.Priority = new(3)
		},
		`,"assignees":{"nodes":[{"login":"kim"},{"login":"Ann"}]}`: func(i *reconcile.Issue) { i.Assignee = &reconcile.Assignee{ID: "Ann"} },
		`,"blockedBy":null,"comments":null,"url":null`:             func(*reconcile.Issue) {},
	} {
		issue := reconcile.Issue{
			ID:         "1",
			Identifier: "GH-1",
			Title:      "T",
			State:      "open",
			Labels:     []string{},
			BlockedBy:  []reconcile.BlockerRef{},
			Project:    testRepo,
			UpdatedAt:  &testNow,
			NativeRef: map[string]any{
				"id":      int64(0),
				"node_id": "",
				"number":  1,
				"repo":    testRepo,
			},
		}
		want(&issue)
		found, _, err := answered(
			t,
			`{"data":{"r0":{"i0":{`+plainIssue+extra+`}}}}`,
			func(o *Options) { o.PriorityLabels = []string{"P0", "P1", "P2", "P3"} },
		)
		test.OK(t, err)
		test.Equal(t, extra, found["1"], issue)
	}
}

// Of several assignees the one counts that the workflow names.
func TestAssignees(t *testing.T) {
	for _, tc := range []struct {
		wanted, id string
		isMe       bool
	}{{"", "ann", false}, {"KIM", "KIM", false}, {"me", "ann", true}} {
		s := newScene(t, func(o *Options) { o.Assignee = tc.wanted })
		s.add(githubtest.Issue{Assignees: []string{"ann", "kim"}})
		s.add(githubtest.Issue{Assignees: []string{"kim"}})
		for range 2 { // once from Memory
			listed := test.Must(s.client().Candidates(t.Context(), []string{"open"}))
			read := test.Must(s.client().ByIDs(t.Context(), []string{"1", "2"}))
			for _, i := range []reconcile.Issue{listed[1], read["1"]} {
				test.Equal(t, "assignee for "+tc.wanted, i.Assignee, &reconcile.Assignee{
					ID:   tc.id,
					IsMe: tc.isMe,
				})
			}
			test.Equal(
				t,
				"the only one for "+tc.wanted,
				reconcile.Policy{Assignee: tc.wanted}.Ours(listed[0]),
				tc.wanted != "me",
			)
		}
	}
}

// A malformed record is reported by every pass, until it is well again.
func TestMalformedRecords(t *testing.T) {
	for _, f := range []githubtest.Failure{
		{Field: "title"},
		{Field: "title", Value: json.RawMessage(`7`)},
		{Field: "state", Value: json.RawMessage(`"half open"`)},
		{Field: "labels", Value: json.RawMessage(`"x"`)},
		{Field: "updated_at", Value: json.RawMessage(`"yesterday"`)},
		{Field: "number", Value: json.RawMessage(`"one"`)},
	} {
		s := newScene(t)
		s.add(githubtest.Issue{})
		s.add(githubtest.Issue{})
		f.Kind = githubtest.FailMalformed
		f.Issue = 1
		f.Times = -1
		test.OK(t, s.Fail(f))
		for range 2 {
			issues := test.Must(s.client().Candidates(t.Context(), []string{"open"}))
			if len(issues) != 2 || issues[0].ID != "2" || issues[0].Malformed != "" ||
				issues[1].Malformed == "" {
				t.Errorf("%s %s: %+v", f.Field, f.Value, issues)
			}
			if id := issues[1].ID; id != "1" && f.Field != "number" {
				t.Errorf("%s: the record is called %q", f.Field, id)
			}
		}
		s.ClearFailures()
		s.later()
		test.OK(t, s.Edit("1", func(i *githubtest.Issue) { i.Title = "Well" }))
		s.want("after the end of "+f.Field, "2", "1")
	}
}

// The pull request that keeps an issue from being begun: an open one of another account, of
// any repository, by GitHub's own link.
func TestOtherPull(t *testing.T) {
	const url = "https://github.com/acme/"
	for what, row := range map[string]struct {
		pull githubtest.Pull
		want *reconcile.OtherPull
	}{
		"of the token's account": {githubtest.Pull{}, nil},
		"of the issue's branch, by another": {githubtest.Pull{
			Author: "gh-user",
			Branch: "symphony/GH-1",
		}, nil},
		"closed": {githubtest.Pull{
			Author: "ada",
			State:  "closed",
		}, nil},
		"of another issue": {githubtest.Pull{
			Author: "ada",
			Closes: []string{testRepo + "#2"},
		}, nil},
		"of a person": {githubtest.Pull{Author: "ada"}, &reconcile.OtherPull{
			URL:    url + "web-shop/pull/3",
			Author: "ada",
		}},
		"of another repository": {githubtest.Pull{
			Author:     "ada",
			Repository: "acme/api",
		}, &reconcile.OtherPull{
			URL:    url + "api/pull/1",
			Author: "ada",
		}},
		"of a fork with a branch of that name": {githubtest.Pull{
			Author:  "eve",
			Branch:  "symphony/GH-1",
			Foreign: true,
		}, &reconcile.OtherPull{
			URL:    url + "web-shop/pull/3",
			Author: "eve",
		}},
		"of an app": {githubtest.Pull{
			Author: "helper",
			Bot:    true,
			Draft:  true,
		}, &reconcile.OtherPull{
			URL:    url + "web-shop/pull/3",
			Author: "helper[bot]",
		}},
		"of a deleted account": {githubtest.Pull{Author: "ghost"}, &reconcile.OtherPull{
			URL:    url + "web-shop/pull/3",
			Author: "ghost",
		}},
	} {
		t.Run(what, func(t *testing.T) {
			s := newScene(t, byBranch)
			s.AddRepository("acme/api")
			s.add(githubtest.Issue{})
			s.add(githubtest.Issue{})
			p := row.pull
			p.Title = "Work"
			p.Base = "main"
			p.Branch = cmp.Or(p.Branch, "b")
			if p.Closes == nil {
				p.Closes = []string{testRepo + "#1"}
			}
			test.Must(s.AddPull(p))
			s.ClearLog()
			test.Equal(
				t,
				"pull request",
				test.Must(s.client().ByIDs(t.Context(), []string{"1"}))["1"].OtherPull,
				row.want,
			)
			test.Equal(t, "requests", len(s.Log()), 1)
			// The list in Memory lacks pull requests; that of a process without one does not.
			remembered := test.Must(s.client().Candidates(t.Context(), []string{"open"}))[1]
			test.Equal(t, "is it unread", remembered.OtherPull == nil && remembered.PullsUnread, true)
			listed := test.Must(s.client(func(o *Options) { o.Memory = nil }).Candidates(t.Context(), []string{"open"}))[1]
			test.Equal(
				t,
				"in the whole list",
				[]any{listed.OtherPull, listed.PullsUnread},
				[]any{row.want, false},
			)
		})
	}
}

// A token that may not read the pull requests that close an issue still reads issues.
func TestUnreadableOtherPulls(t *testing.T) {
	s := newScene(t)
	s.NoPulls = true
	s.add(githubtest.Issue{})
	test.Must(s.AddPull(githubtest.Pull{
		Title:  "Work",
		Branch: "b",
		Base:   "main",
		Author: "ada",
		Closes: []string{testRepo + "#1"},
	}))
	found := test.Must(s.client().ByIDs(t.Context(), []string{"1"}))
	listed := test.Must(
		s.client(func(o *Options) { o.Memory = nil }).Candidates(t.Context(), []string{"open"}),
	)
	test.Equal(
		t,
		"issues",
		[]any{found["1"].Title, found["1"].OtherPull == nil, len(listed)},
		[]any{"issue", true, 1},
	)
	if len(s.warned) != 2 || !strings.Contains(s.warned[0], "not accessible") {
		t.Errorf("warnings %q", s.warned)
	}
}

// The state is the column of the board. Issues that are not there are elsewhere.
func TestBoard(t *testing.T) {
	s := newScene(t, func(o *Options) { o.Project = "https://github.com/orgs/acme/projects/4/views/1" })
	s.SetBoard(githubtest.Board{
		Owner:   "acme",
		Number:  4,
		Title:   "Work",
		Columns: []string{"Todo", "In Progress"},
	})
	for _, column := range []string{"Todo", "In Progress", "", "Todo", "Todo", "Todo"} {
		i := s.add(githubtest.Issue{})
		test.OK(t, s.Place(i.Ref(), column))
	}
	test.OK(t, s.Move("4", "closed"))
	test.OK(t, s.Archive("5"))
	test.OK(t, s.Unplace("6"))
	s.AddRepository("acme/api")
	far := s.add(githubtest.Issue{Repository: "acme/api"})
	test.OK(t, s.Place(far.Ref(), "Todo"))
	for _, step := range []struct{ states, want []string }{
		{[]string{"todo", "IN PROGRESS"}, []string{"2", "1"}},
		{[]string{"open"}, []string{"3"}},
		{[]string{"closed"}, []string{"4"}},
	} {
		ids, requests := s.candidates(step.states...)
		test.Equal(
			t,
			fmt.Sprintf("%q: ids and requests", step.states),
			[]any{ids, requests},
			[]any{step.want, 1},
		)
	}
	found := test.Must(s.client().ByIDs(t.Context(), []string{"1", "2", "3", "4", "5", "6"}))
	var got []string
	for _, id := range []string{"1", "2", "3", "4", "5", "6"} {
		i := found[id]
		got = append(got, fmt.Sprint(i.State, " elsewhere ", i.Elsewhere, " archived ", i.Archived))
	}
	test.Equal(t, "states", got, []string{
		"Todo elsewhere false archived false",
		"In Progress elsewhere false archived false",
		"open elsewhere false archived false",
		"closed elsewhere false archived false",
		"Todo elsewhere false archived true",
		"open elsewhere true archived false",
	})
}

func TestMissingBoard(t *testing.T) {
	for _, address := range []string{
		"https://github.com/orgs/acme/projects/5",
		"https://github.com/users/nobody/projects/1",
	} {
		s := newScene(t, func(o *Options) { o.Project = address })
		s.SetBoard(githubtest.Board{Owner: "acme", Number: 4, Title: "Work"})
		wantCode(
			t,
			test.Err(s.client().Candidates(t.Context(), []string{"Todo"})),
			"tracker_project_not_found",
		)
		wantCode(
			t,
			test.Err(s.client().Verify(t.Context(), reconcile.TrackerNames{})),
			"tracker_project_not_found",
		)
	}
	for _, address := range []string{
		"x",
		"https://github.com/acme/web-shop/projects/1",
		"https://github.com/orgs/acme/projects/x",
	} {
		_, err := New(Options{
			Options:      transport.Options{Key: testToken},
			Repositories: []string{testRepo},
			Project:      address,
		})
		wantCode(t, err, "tracker_project_not_found")
	}
	for _, repos := range [][]string{nil, {"x"}, {"a/b/c"}, {"a/.."}, {"/x"}, {"a b/c"}} {
		wantCode(t, test.Err(New(Options{
			Options:      transport.Options{Key: testToken},
			Repositories: repos,
		})), "missing_tracker_project_slug")
	}
	s := newScene(t, func(o *Options) { o.Project = "https://github.com/orgs/acme/projects/4" })
	s.SetBoard(githubtest.Board{Owner: "acme", Number: 4, Title: "Work"})
	test.OK(t, s.Fail(githubtest.Failure{Kind: githubtest.FailScope}))
	_, err := s.client().Candidates(t.Context(), []string{"Todo"})
	if e := wantCode(t, err, "tracker_graphql_errors"); !strings.Contains(e.Message, "read:project") ||
		!strings.Contains(e.Hint, "token") {
		t.Errorf("%v: %s", e, e.Hint)
	}
}

func TestVerify(t *testing.T) {
	type findings = reconcile.TrackerFindings
	unknown := func(name string, nearest ...string) []reconcile.UnknownName {
		return []reconcile.UnknownName{{Name: name, Nearest: append([]string{}, nearest...)}}
	}
	board := func(o *Options) { o.Project = "https://github.com/orgs/acme/projects/4" }
	labels := func(o *Options) { o.StateLabels = []string{"Todo", "Reviwe", "New"} }
	for name, tc := range map[string]struct {
		change func(*Options)
		names  reconcile.TrackerNames
		want   findings
	}{
		"all there": {func(*Options) {}, reconcile.TrackerNames{
			States:   []string{"OPEN", "closed"},
			Labels:   []string{"bug"},
			Assignee: "Kim",
		}, findings{}},
		"me": {func(*Options) {}, reconcile.TrackerNames{Assignee: "me"}, findings{}},
		"an operator with the token": {
			func(*Options) {},
			reconcile.TrackerNames{Operators: []string{"kim", "@Ann"}},
			findings{OwnOperators: []string{"@Ann"}},
		},
		"no such label": {
			func(*Options) {},
			reconcile.TrackerNames{Labels: []string{"Bugs"}},
			findings{Labels: unknown("Bugs", "bug")},
		},
		"no such user": {
			func(*Options) {},
			reconcile.TrackerNames{Assignee: "anne"},
			findings{Assignee: &reconcile.UnknownName{Name: "anne", Nearest: []string{"ann"}}},
		},
		"labels as states": {
			labels,
			reconcile.TrackerNames{States: []string{"todo", "review", "closed"}},
			findings{States: unknown("Reviwe", "review")},
		},
		"columns": {
			board,
			reconcile.TrackerNames{States: []string{"todo", "Doing"}},
			findings{States: unknown("Doing")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, tc.change)
			s.SetBoard(githubtest.Board{
				Owner:   "acme",
				Number:  4,
				Title:   "Work",
				Columns: []string{"Todo", "Ready"},
			})
			s.add(githubtest.Issue{Labels: []string{"todo", "review"}})
			got := test.Must(s.client().Verify(t.Context(), tc.names))
			if got.User != "ann" || got.Project.URL == "" || got.Project.ID == "" || got.Project.Name == "" {
				t.Errorf("found %+v", got)
			}
			got.User = ""
			got.Project = reconcile.TrackerProject{}
			if len(got.OwnOperators) == 0 {
				got.OwnOperators = nil
			}
			for _, list := range []*[]reconcile.UnknownName{&got.States, &got.Labels} {
				if len(*list) == 0 {
					*list = nil
				}
			}
			test.Equal(t, "findings", got, tc.want)
		})
	}
}

// A token without the scopes to write is worth a warning, and an account without the right to
// do so.
func TestVerifyWarnsAboutRights(t *testing.T) {
	for scopes, want := range map[string]int{
		"":                  2,
		"gist, read:org":    2,
		"gist, public_repo": 1,
		"repo":              1,
		"repo, project":     0,
		"-":                 0,
		"READ":              1,
	} {
		var warned []string
		c := clientOf(t, serving(t, func(w http.ResponseWriter, _ *http.Request) {
			if scopes != "-" && scopes != "READ" { // as for fine-grained tokens
				w.Header().Set("X-OAuth-Scopes", scopes)
			}
			fmt.Fprintf(
				w,
				`{"data":{"repository":{"hasIssuesEnabled":true,"viewerPermission":%q,"labels":{"nodes":[]}},`+
					`"owner":{"projectV2":{"fields":{"nodes":[{"name":"Status"}]}}}}}`,
				scopes,
			)
		}), func(o *Options) {
			o.Repositories = []string{testRepo}
			o.Warn = func(text string) { warned = append(warned, text) }
			o.Project = "https://github.com/orgs/acme/projects/4"
		})
		found := test.Must(c.Verify(t.Context(), reconcile.TrackerNames{}))
		if found.Denied != nil {
			warned = append(warned, found.Denied.Error())
		}
		test.Equal(t, "warnings with the scopes "+scopes, len(warned), want)
	}
	s := newScene(t)
	s.Archived = true
	found := test.Must(s.client().Verify(t.Context(), reconcile.TrackerNames{}))
	test.Contains(t, "denied", found.Denied.Error(), "is archived")
}

func TestVerifyFails(t *testing.T) {
	s := newScene(t)
	s.NoIssues = true
	_, err := s.client().Verify(t.Context(), reconcile.TrackerNames{})
	test.Contains(t, "the error", wantCode(t, err, "tracker_project_not_found").Message, "disabled")
	s = newScene(t, func(o *Options) { o.Repositories = []string{"acme/web-shopp"} })
	wantCode(
		t,
		test.Err(s.client().Verify(t.Context(), reconcile.TrackerNames{})),
		"tracker_project_not_found",
	)
}
