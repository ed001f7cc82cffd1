package gitlab

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/tracker/gitlab/gitlabtest"
	"github.com/symphony-cron/symphony/tracker/trackertest"
)

// connectTo returns an adapter to the project of a server, which keeps each warning.
func connectTo(s *gitlabtest.Server, warned *[]string, change func(*Options)) *reconcile.TrackerAdapter {
	options := optionsFor(s)
	options.Warn = func(text string) { *warned = append(*warned, text) }
	if change != nil {
		change(&options)
	}
	return test.Must(Adapter(options))
}

// Whatever way a text takes to GitLab, a line of it is never carried out as a quick action.
func TestQuickActions(t *testing.T) {
	s := start(t, nil)
	a := connectTo(s, new([]string), nil)
	ctx := t.Context()
	const text = "Done.\n/close\r\n/label ~bug\n\r/unlabel ~Todo"
	made := test.Must(a.Create(ctx, reconcile.NewIssue{Title: "/close", Body: text, State: "Todo"}))
	posted := test.Must(a.Post(ctx, made.ID, text))
	test.Contains(t, "the comment", posted.Body, "Done.\n /close\r\n /label ~bug\n \r/unlabel ~Todo")
	test.Must(a.Edit(ctx, made.ID, posted.ID, "/close"))
	for _, tool := range a.Tools {
		if tool.Name != "issue_comment" {
			continue
		}
		answer := tool.Call(ctx, *made, test.Must(json.Marshal(map[string]string{"text": text})))
		test.Equal(t, "success of "+tool.Name, answer.Success, true)
	}
	issue := test.Must(s.Issue(made.ID))
	test.Equal(t, "state", issue.State, "opened")
	test.Equal(t, "labels", issue.Labels, []string{"Todo"})
	test.Equal(t, "description", issue.Body, "Done.\n /close\r\n /label ~bug\n \r/unlabel ~Todo")
	test.Equal(t, "comments", len(issue.Notes), 2)
}

// A project that was renamed is found, with its new name, for what reads and for what changes.
func TestRenamedProject(t *testing.T) {
	s := start(t, nil)
	issue := test.Must(s.AddIssue(gitlabtest.Issue{Title: "Work", Labels: []string{"Todo"}}))
	s.Rename(testProject, "acme/shops/web")
	for name, call := range map[string]func(a *reconcile.TrackerAdapter) error{
		"candidates": func(a *reconcile.TrackerAdapter) error {
			found, err := a.Candidates(t.Context(), []string{"Todo"})
			test.Equal(t, "candidates", len(found), 1)
			return err
		},
		"post": func(a *reconcile.TrackerAdapter) error {
			_, err := a.Post(t.Context(), "1", "Hello.")
			return err
		},
		"verify": func(a *reconcile.TrackerAdapter) error {
			found, err := a.Verify(t.Context(), reconcile.TrackerNames{})
			test.Equal(t, "project", found.Project.Name, "acme/shops/web")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var warned []string
			test.OK(t, call(connectTo(s, &warned, nil)))
			test.Equal(t, "warnings", warned, []string{
				"the repository " + testProject + " is now called acme/shops/web: correct tracker.provider",
			})
		})
	}
	a := connectTo(s, new([]string), nil)
	found := test.Must(a.Find(t.Context(), s.URL()+"/acme/web/shop/-/issues/1"))
	test.Equal(t, "by its old address", found.ID, "1")
	test.Equal(t, "its title", found.Title, issue.Title)
}

// People name issues in several ways, also below a path of the server.
func TestNames(t *testing.T) {
	s := start(t, func(s *gitlabtest.Server) { s.Path = "/gitlab" })
	s.AddProject("acme/api")
	test.Must(s.AddIssue(gitlabtest.Issue{Title: "Work"}))
	one := connectTo(s, new([]string), nil)
	for _, name := range []string{
		"GL-1", "1", "#1", "shop-1", testProject + "#1",
		s.URL() + "/" + testProject + "/-/issues/1",
		s.URL() + "/" + testProject + "/-/work_items/1",
	} {
		test.Equal(t, name, test.Must(one.Find(t.Context(), name)).Identifier, "GL-1")
	}
	for _, name := range []string{
		s.URL() + "/other/" + testProject + "/-/issues/1",
		s.URL() + "/" + testProject + "/-/merge_requests/1",
	} {
		if found, err := one.Find(t.Context(), name); !errors.Is(err, reconcile.ErrGone) {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
	}
	two := connectTo(s, new([]string), func(o *Options) { o.Projects = []string{testProject, "acme/api"} })
	found := test.Must(two.Find(t.Context(), "shop-1"))
	test.Equal(t, "with several projects", found.ID+" "+found.Identifier, testProject+"#1 shop-1")
}

// What is no issue, and what goes on elsewhere, is not worked on.
func TestOtherIssues(t *testing.T) {
	s := start(t, nil)
	incident := test.Must(s.AddIssue(gitlabtest.Issue{Title: "An incident", Type: "incident"}))
	moved := test.Must(s.AddIssue(gitlabtest.Issue{Title: "Moved", MovedTo: 7}))
	test.Must(s.AddIssue(gitlabtest.Issue{Title: "Usual"}))
	a := connectTo(s, new([]string), nil)
	found := test.Must(a.Candidates(t.Context(), []string{"opened"}))
	test.Equal(t, "candidates", test.Map(found, func(i reconcile.Issue) string { return i.Title }), []string{"Usual"})
	byID := test.Must(a.ByIDs(t.Context(), []string{"1", "2", "3"}))
	test.Equal(t, "by id", len(byID), 1)
	for _, gone := range []gitlabtest.Issue{incident, moved} {
		_, err := a.Find(t.Context(), fmt.Sprint("GL-", gone.Number))
		test.ErrorIs(t, gone.Title, err, reconcile.ErrGone)
	}
}

// Without issues in the project nothing looks as if it were gone.
func TestDisabledIssues(t *testing.T) {
	s := start(t, nil)
	test.Must(s.AddIssue(gitlabtest.Issue{Title: "Work"}))
	s.NoIssues = true
	a := connectTo(s, new([]string), nil)
	_, err := a.ByIDs(t.Context(), []string{"1"})
	e, _ := errors.AsType[*reconcile.Error](err)
	if e == nil || e.Code != "tracker_project_not_found" || !strings.Contains(e.Message, "its issues are disabled") {
		t.Errorf("error %v", err)
	}
}

// Issues are not gone because the account is no member any more of a project that shows them to
// members only.
func TestLostMembership(t *testing.T) {
	s := start(t, func(s *gitlabtest.Server) { s.Private = true })
	test.Must(s.AddIssue(gitlabtest.Issue{Title: "Work"}))
	a := connectTo(s, new([]string), nil)
	found, err := a.ByIDs(t.Context(), []string{"1", "2"})
	test.OK(t, err)
	test.Equal(t, "as a member", len(found), 1)
	s.Outsider = true
	_, err = a.ByIDs(t.Context(), []string{"1"})
	e, _ := errors.AsType[*reconcile.Error](err)
	if e == nil || e.Code != "tracker_project_not_found" || !strings.Contains(e.Message, "operator is none") {
		t.Errorf("error %v", err)
	}
}

// An issue that GitLab does not show may be confidential, if the account has lost the role that sees
// these.
func TestLostRole(t *testing.T) {
	s := start(t, nil)
	secret := test.Must(s.AddIssue(gitlabtest.Issue{Title: "Leak", Author: gitlabtest.Writer, Confidential: true}))
	open := test.Must(s.AddIssue(gitlabtest.Issue{Title: "Work"}))
	a := connectTo(s, new([]string), nil)
	both := []string{strconv.Itoa(secret.Number), strconv.Itoa(open.Number)}
	for _, level := range []int{10, -1} {
		found, err := a.ByIDs(t.Context(), both)
		test.OK(t, err)
		test.Equal(t, "as a developer", len(found), 2)
		s.Role = level // -1: no role
		s.Outsider = level < 0
		found, err = a.ByIDs(t.Context(), both[1:])
		test.OK(t, err)
		test.Equal(t, "an issue that all see", len(found), 1)
		_, err = a.ByIDs(t.Context(), both)
		e, _ := errors.AsType[*reconcile.Error](err)
		if e == nil || e.Code != "tracker_project_not_found" || !strings.Contains(e.Message, "confidential") {
			t.Errorf("with the role %d: error %v", level, err)
		}
		s.Role = 15
		s.Outsider = false
	}
	test.OK(t, s.Delete(both[0]))
	found, err := a.ByIDs(t.Context(), both)
	test.OK(t, err)
	test.Equal(t, "after one was deleted", len(found), 1)
}

// On the free tier issues do not block each other.
func TestFreeTier(t *testing.T) {
	s := start(t, func(s *gitlabtest.Server) { s.Free = true })
	test.Must(s.AddIssue(gitlabtest.Issue{Title: "First"}))
	test.Must(s.AddIssue(gitlabtest.Issue{Title: "Second"}))
	test.OK(t, s.Block("2", "1"))
	a := connectTo(s, new([]string), nil)
	for _, i := range test.Must(a.Candidates(t.Context(), []string{"opened"})) {
		if len(i.BlockedBy) > 0 {
			t.Errorf("issue %+v", i)
		}
	}
}

// A label is set and removed as GitLab spells it, which tells letters in two cases apart.
func TestSpellingOfLabels(t *testing.T) {
	s := start(t, nil)
	test.Must(s.AddIssue(gitlabtest.Issue{Title: "Work", Labels: []string{"todo", "bug"}}))
	test.Must(s.AddIssue(gitlabtest.Issue{Title: "Other", Labels: []string{"IN PROGRESS"}}))
	a := connectTo(s, new([]string), nil)
	test.OK(t, a.Move(t.Context(), "1", "In Progress"))
	test.Equal(t, "labels", test.Must(s.Issue("1")).Labels, []string{"IN PROGRESS", "bug"})
}

// A pass in which nothing has changed makes one request, and a changed issue takes one more.
func TestRequests(t *testing.T) {
	s := start(t, nil)
	for range 3 {
		test.Must(s.AddIssue(gitlabtest.Issue{
			Title:     "Work",
			CreatedAt: time.Now().Add(-time.Hour),
		}))
	}
	options := optionsFor(s)
	options.Assignee = ""
	options.Memory = &trackertest.Memory{}
	pass := func() int {
		s.ClearLog()
		found := test.Must(test.Must(Adapter(options)).Candidates(t.Context(), []string{"opened"}))
		test.Equal(t, "candidates", len(found), 3)
		return len(s.Log())
	}
	test.Equal(t, "the first pass", pass(), 4)
	test.Equal(t, "a pass without a change", pass(), 1)
	test.OK(t, s.Edit("2", func(i *gitlabtest.Issue) { i.Title = "Changed" }))
	test.Equal(t, "a pass after a change", pass(), 2)
}

// A workflow may name its project by the number, as the reference implementation allows. Then issues
// are found by their address, too, a blocker has its name in the project, and no name is wrong.
func TestProjectByNumber(t *testing.T) {
	s := start(t, nil)
	first := test.Must(s.AddIssue(gitlabtest.Issue{Title: "First"}))
	test.Must(s.AddIssue(gitlabtest.Issue{Title: "Second"}))
	test.OK(t, s.Block("2", "1"))
	number := fmt.Sprint(test.Must(connectTo(s, new([]string), nil).Find(t.Context(), "1")).NativeRef["project_id"])
	var warned []string
	connected := func() *reconcile.TrackerAdapter {
		return connectTo(s, &warned, func(o *Options) { o.Projects = []string{number} })
	}
	found := test.Must(connected().Find(t.Context(), s.URL()+"/"+testProject+"/-/issues/1"))
	test.Equal(t, "by its address", found.Identifier, "GL-1")
	test.Equal(t, "native_ref", found.NativeRef, map[string]any{
		"id":           first.ID,
		"iid":          1,
		"number":       1,
		"project_id":   test.Must(strconv.ParseInt(number, 10, 64)),
		"project_path": testProject,
		"repo":         testProject,
		"references":   map[string]any{"short": "#1", "relative": "#1", "full": testProject + "#1"},
	})
	a := connected()
	second := test.Must(a.Candidates(t.Context(), []string{"opened"}))[0]
	test.Equal(t, "blocker", *second.BlockedBy[0].Identifier, "GL-1")
	test.OK(t, a.Move(t.Context(), "1", "Todo"))
	test.Must(a.Verify(t.Context(), reconcile.TrackerNames{}))
	s.Rename(testProject, "acme/shops/web")
	renamed := test.Must(connected().Find(t.Context(), s.URL()+"/acme/shops/web/-/issues/1"))
	test.Equal(t, "after a rename", renamed.State, "Todo")
	test.Equal(t, "warnings", len(warned), 0)
}
