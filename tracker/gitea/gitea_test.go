package gitea

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/giteaapi/giteatest"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/tracker/trackertest"
)

// code returns the code of an error.
func code(err error) string {
	e, is := errors.AsType[*reconcile.Error](err)
	if !is {
		return fmt.Sprint(err)
	}
	return e.Code
}

// A pass over issues of which none has changed makes one request, writes nothing, and finds the
// same issues. A blocker that is closed is seen without a look at the issue that waits for it.
func TestIdlePass(t *testing.T) {
	s := newScene(t)
	blocker := test.Must(s.Add(giteatest.Issue{Title: "First", State: "Todo"}))
	waiting := test.Must(s.Add(giteatest.Issue{Title: "Second", State: "Todo"}))
	test.OK(t, s.Block(waiting, blocker))
	m := &trackertest.Memory{}
	o := s.options()
	o.Assignee = ""
	o.Memory = m
	pass := func() (requests []string, issues []reconcile.Issue) {
		t.Helper()
		s.proxy.ClearLog()
		issues = test.Must(test.Must(Adapter(o)).Candidates(t.Context(), s.States))
		return s.proxy.Log(), issues
	}
	_, first := pass()
	// what changed within the minute before is read again
	test.OK(t, s.Exec("UPDATE issue SET updated_unix = updated_unix - 600 WHERE is_closed = 0"))
	pass()
	writes := m.Writes
	requests, again := pass()
	test.Equal(t, "requests of an idle pass", len(requests), 1)
	test.Contains(t, "the request", requests[0], "/issues?", "since=", "state=all", "type=issues")
	test.Equal(t, "writes", m.Writes, writes)
	test.Equal(t, "issues", again, first)

	test.OK(t, s.Move(blocker, "closed"))
	requests, now := pass()
	test.Equal(t, "candidates", text.Map(now, func(i reconcile.Issue) string { return i.ID }), []string{"2"})
	test.Equal(t, "its blocker", *now[0].BlockedBy[0].State, "closed")
	test.Equal(t, "requests after it was closed", len(requests), 1)
}

// An issue that depends on an open one can't be closed: the error says what to do.
func TestCloseBlocked(t *testing.T) {
	s := newScene(t)
	blocker := test.Must(s.Add(giteatest.Issue{Title: "First", State: "Todo"}))
	waiting := test.Must(s.Add(giteatest.Issue{Title: "Second", State: "Todo"}))
	test.OK(t, s.Block(waiting, blocker))
	a := test.Must(Adapter(s.options()))
	err := a.Move(t.Context(), "2", "closed")
	e, is := errors.AsType[*reconcile.Error](err)
	if !is || !errors.Is(err, reconcile.ErrRejected) {
		t.Fatal(err)
	}
	test.Contains(t, "message", e.Message, "412", "open dependencies")
	test.Contains(t, "hint", e.Hint, "close the issues on which it depends")
	test.Equal(t, "state", test.Must(s.State(waiting)), "Todo")
}

// Labels that are states: one that does not exist is made, two may have one name, and others stay.
func TestLabelsAsStates(t *testing.T) {
	s := newScene(t)
	n := test.Must(s.Add(giteatest.Issue{Title: "Work", State: "Todo", Labels: []string{"bug"}}))
	body := map[string]string{"name": "todo", "color": "#00aabb"}
	var second struct{ ID int64 }
	test.OK(t, s.As(giteatest.Owner, http.MethodPost, s.At("/labels"), body, &second))
	set := map[string]any{"labels": []int64{second.ID}}
	test.OK(t, s.As(giteatest.Owner, http.MethodPost, s.At("/issues/%d/labels", n), set, nil))
	o := s.options()
	o.StateLabels = []string{"Human Review", "Todo"}
	a := test.Must(Adapter(o))
	test.OK(t, a.Move(t.Context(), "1", "human review"))
	issue := test.Must(a.ByIDs(t.Context(), []string{"1"}))["1"]
	test.Equal(t, "state", issue.State, "Human Review")
	test.Equal(t, "labels", issue.Labels, []string{"bug", "human review"})

	made := test.Must(a.Create(t.Context(), reconcile.NewIssue{Title: "New", State: "Todo", Labels: []string{"ui"}}))
	test.Equal(t, "created", []any{made.Identifier, made.State}, []any{"GT-2", "Todo"})
}

// A renamed repository is followed, with a warning, for reading and for changes.
func TestRenamed(t *testing.T) {
	s := newScene(t)
	test.Must(s.Add(giteatest.Issue{Title: "Work", State: "Todo"}))
	o := s.options()
	var warnings []string
	o.Warn = func(w string) { warnings = append(warnings, w) }
	name := s.Name + "-new"
	_, short, _ := strings.Cut(name, "/")
	rename := map[string]string{"name": short}
	test.OK(t, s.As(giteatest.Owner, http.MethodPatch, s.At(""), rename, nil))
	a := test.Must(Adapter(o))
	test.OK(t, a.Move(t.Context(), "1", "In Progress"))
	found := test.Must(a.Candidates(t.Context(), s.States))
	test.Equal(t, "candidates", []any{len(found), found[0].State}, []any{1, "In Progress"})
	want := []string{"the repository " + s.Name + " is now called " + name + ": correct tracker.provider"}
	test.Equal(t, "warnings", warnings, want)
}

// What a person arranges in the settings of a repository is an error or a warning, and no issue
// looks as if it were gone.
func TestSettingsOfRepository(t *testing.T) {
	s := newScene(t)
	test.Must(s.Add(giteatest.Issue{Title: "Work", State: "Todo"}))
	settings := func(values map[string]any) {
		t.Helper()
		test.OK(t, s.As(giteatest.Owner, http.MethodPatch, s.At(""), values, nil))
	}
	o := s.options()
	var warnings []string
	o.Warn = func(w string) { warnings = append(warnings, w) }
	a := test.Must(Adapter(o))

	settings(map[string]any{"has_issues": true, "internal_tracker": map[string]any{
		"enable_issue_dependencies": false,
	}})
	found := test.Must(a.Candidates(t.Context(), s.States))
	test.Equal(t, "candidates without dependencies", len(found), 1)
	test.Contains(t, "warning", strings.Join(warnings, "\n"), "dependencies between issues are disabled in "+s.Name)

	settings(map[string]any{"has_issues": false})
	_, err := a.Candidates(t.Context(), s.States)
	test.Contains(t, "list of disabled issues", fmt.Sprint(err), "its issues are disabled")
	_, err = a.ByIDs(t.Context(), []string{"1"})
	test.Equal(t, "an issue of disabled issues", code(err), "tracker_project_not_found")

	settings(map[string]any{"has_issues": true, "archived": true})
	_, err = a.Post(t.Context(), "1", "Hello.")
	test.Contains(t, "a comment in an archived repository", fmt.Sprint(err), "423", "is archived")
	verified := test.Must(a.Verify(t.Context(), reconcile.TrackerNames{States: s.States}))
	test.Contains(t, "denied", verified.Denied.Message, s.Name+" is archived")
}

// A token without a scope, and an account that may only read, are told by name.
func TestRights(t *testing.T) {
	s := newScene(t)
	test.Must(s.Add(giteatest.Issue{Title: "Work", State: "Todo"}))
	with := func(account string, scopes ...string) *reconcile.TrackerAdapter {
		t.Helper()
		o := s.options()
		o.Assignee = ""
		o.Key = test.Must(s.MakeToken(account, scopes...))
		return test.Must(Adapter(o))
	}
	_, err := with(giteatest.Operator, "read:user").Candidates(t.Context(), s.States)
	e, is := errors.AsType[*reconcile.Error](err)
	if !is {
		t.Fatal(err)
	}
	test.Contains(t, "message", e.Message, "403", "required scope")
	test.Contains(t, "hint", e.Hint, "the token needs the scope read:issue and access to "+s.Name)

	_, err = with(giteatest.Operator, "read:issue", "read:repository").Post(t.Context(), "1", "Hello.")
	e, _ = errors.AsType[*reconcile.Error](err)
	test.Contains(t, "hint for a change", e.Hint, "write:issue")

	reader := with(giteatest.Reader, "write:issue", "read:repository", "read:user")
	err = reader.Move(t.Context(), "1", "closed")
	if !errors.Is(err, reconcile.ErrRejected) && code(err) != "tracker_api_status" {
		t.Errorf("a move by a reader: %v", err)
	}
	_, err = reader.Post(t.Context(), "1", "Hello.")
	test.OK(t, err)
}

// A comment on an issue that is gone is no fault of the server, although Gitea says so.
func TestCommentOnMissingIssue(t *testing.T) {
	s := newScene(t)
	a := test.Must(Adapter(s.options()))
	_, err := a.Post(t.Context(), "99", "Hello.")
	test.Equal(t, "code", code(err), "issue_not_found")
	_, err = a.Comments(t.Context(), "99", time.Time{})
	test.Equal(t, "code of a list", code(err), "issue_not_found")
}

// What Verify finds: names that do not exist, and operators that are the key's own account.
func TestVerify(t *testing.T) {
	s := newScene(t)
	test.Must(s.Add(giteatest.Issue{Title: "Work", State: "Todo", Labels: []string{"symphony"}}))
	o := s.options()
	o.StateLabels = []string{"Tood", "Something new"}
	found := test.Must(test.Must(Adapter(o)).Verify(t.Context(), reconcile.TrackerNames{
		Labels:    []string{"symphony", "symfony"},
		Assignee:  "kin",
		Operators: []string{giteatest.Operator, giteatest.Writer},
	}))
	test.Equal(t, "user", found.User, giteatest.Operator)
	test.Equal(t, "states", fmt.Sprint(found.States), `["Tood" (did you mean "Todo"?)]`)
	test.Equal(t, "labels", fmt.Sprint(found.Labels), `["symfony" (did you mean "symphony"?)]`)
	test.Equal(t, "assignee", fmt.Sprint(found.Assignee), `"kin" (did you mean "kim"?)`)
	test.Equal(t, "own operators", found.OwnOperators, []string{giteatest.Operator})
	test.Equal(t, "project", found.Project.Name, s.Name)
}
