package github

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/tracker/github/githubtest"
)

// stateLabels are three, so that an issue can have one before and one after that of its new
// state.
var stateLabels = []string{"Todo", "In Progress", "Human Review"}

func stateOf(t *testing.T, c *Client, id string) string {
	t.Helper()
	return test.Must(c.ByIDs(t.Context(), []string{id}))[id].State
}

// A move by labels, from every combination of labels, open and closed, to every state: after
// any failure the issue is in the old state or in the new one, and the repeated move finishes.
func TestMoveByLabelsInSteps(t *testing.T) {
	s := newScene(t, func(o *Options) { o.StateLabels = stateLabels })
	c := s.client()
	for n := range 16 {
		from := githubtest.Issue{
			Title:  "Work",
			State:  []string{"open", "closed"}[n/8],
			Labels: []string{"bug"},
		}
		// GitHub's spelling is another one than the workflow's
		for i, label := range []string{"todo", "In progress", "Human Review"} {
			if n&(1<<i) != 0 {
				from.Labels = append(from.Labels, label)
			}
		}
		for _, to := range append([]string{"open", "closed"}, stateLabels...) {
			fails(t, s, c, from, to, "")
		}
	}
}

// On a board it is the same.
func TestMoveOnBoardInSteps(t *testing.T) {
	s := newScene(t, func(o *Options) { o.Project = "https://github.com/orgs/acme/projects/4" })
	s.SetBoard(githubtest.Board{Owner: "acme", Number: 4, Title: "Board", Columns: stateLabels})
	c := s.client()
	for _, state := range []string{"open", "closed"} {
		for _, column := range append([]string{"none"}, stateLabels...) {
			for _, to := range append([]string{"open", "closed"}, stateLabels...) {
				fails(t, s, c, githubtest.Issue{Title: "Work", State: state}, to, column)
			}
		}
	}
}

// fails moves a new issue, and lets first the first request fail, then the second, and so on,
// until the move succeeds.
func fails(t *testing.T, s *scene, c *Client, from githubtest.Issue, to, column string) {
	t.Helper()
	for after := 0; ; after++ {
		id := fmt.Sprint(test.Must(s.AddIssue(from)).Number)
		switch column {
		case "":
		case "none":
			test.OK(t, s.Place(id, ""))
		default:
			test.OK(t, s.Place(id, column))
		}
		old := stateOf(t, c, id)
		test.OK(t, s.Fail(githubtest.Failure{Kind: githubtest.FailDown, Skip: after}))
		err := c.Move(t.Context(), id, to)
		s.ClearFailures()
		now := stateOf(t, c, id)
		if now != to && (err == nil || now != old) {
			t.Errorf("%+v %s to %s after %d requests: %s, %v", from, column, to, after, now, err)
		}
		test.OK(t, c.Move(t.Context(), id, to))
		test.Equal(t, "state after the repeated move", stateOf(t, c, id), to)
		test.Equal(
			t,
			"has its other label",
			slices.Contains(test.Must(s.Issue(id)).Labels, "bug"),
			from.Labels != nil,
		)
		if err == nil {
			return
		}
	}
}

func TestMoveRequests(t *testing.T) {
	s := newScene(t, func(o *Options) { o.StateLabels = stateLabels })
	c := s.client()
	issue := "/repos/" + testRepo + "/issues/1"
	test.Must(s.AddIssue(githubtest.Issue{Title: "Work", Labels: []string{"todo", "in progress"}}))
	s.ClearLog()
	test.OK(t, c.Move(t.Context(), "1", "Human Review"))
	test.Equal(t, "requests", text.Map(s.Log(), githubtest.Request.String), []string{
		"POST 200 /graphql",
		"POST 200 " + issue + "/labels",
		"DELETE 200 " + issue + "/labels/in%20progress",
		"DELETE 200 " + issue + "/labels/todo",
	})
	s.ClearLog()
	test.OK(t, c.Move(t.Context(), "1", "human review"))
	test.Equal(t, "requests for the same state", len(s.Log()), 1)
}

// A change that the token may not make is no sign that the issue is gone.
func TestMoveThatIsRefused(t *testing.T) {
	s := newScene(t, func(o *Options) { o.StateLabels = stateLabels })
	c := s.client()
	test.Must(s.AddIssue(githubtest.Issue{Title: "Work"}))
	for kind, status := range map[string]int{
		githubtest.FailForbidden: http.StatusForbidden,
		githubtest.FailNotFound:  http.StatusNotFound,
	} {
		test.OK(t, s.Fail(githubtest.Failure{Kind: kind, Skip: 1}))
		err := c.Move(t.Context(), "1", "Todo")
		var e *reconcile.Error
		if !errors.As(err, &e) || e.Status != status || e.Hint != c.CheckKey ||
			errors.Is(err, reconcile.ErrGone) {
			t.Errorf("%s: %+v", kind, e)
		}
	}
	wantCode(t, c.Move(t.Context(), "1", "Someday"), reconcile.CodeNoState)
	wantCode(t, c.Move(t.Context(), "x", "Todo"), "issue_not_found")
}

// Without an item on the board an issue can only be closed and opened.
func TestMoveOffBoard(t *testing.T) {
	s := newScene(t, func(o *Options) { o.Project = "https://github.com/orgs/acme/projects/4" })
	s.SetBoard(githubtest.Board{Owner: "acme", Number: 4, Title: "Board"})
	c := s.client()
	test.Must(s.AddIssue(githubtest.Issue{Title: "Work"}))
	wantCode(t, c.Move(t.Context(), "1", "Todo"), "issue_not_found")
	for _, state := range []string{"closed", "open"} {
		test.OK(t, c.Move(t.Context(), "1", state))
		test.Equal(t, "state", test.Must(s.Issue("1")).State, state)
	}
}
