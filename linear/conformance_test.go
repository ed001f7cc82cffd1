package linear_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/linear"
	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/tracker/trackertest"
)

func TestConformance(t *testing.T) {
	trackertest.Run(t, func(t *testing.T) *trackertest.Backend {
		return newBackend(t, linear.Options{ProjectSlug: "demo"}, lineartest.Issue{
			Title:   "Of no project",
			Project: "none",
		})
	})
}

// A team is a tracker as a project is.
func TestTeamConformance(t *testing.T) {
	trackertest.Run(t, func(t *testing.T) *trackertest.Backend {
		return newBackend(t, linear.Options{Team: "ABC"}, lineartest.Issue{
			Title: "Of another team",
			Team:  "OPS",
		})
	})
}

// newBackend returns a tracker of the project or team of options. elsewhere is an issue that
// is not in it.
func newBackend(t *testing.T, options linear.Options, elsewhere lineartest.Issue) *trackertest.Backend {
	var clock atomic.Pointer[time.Time] // nil: the time is now
	s := startLinear(t, lineartest.Config{Now: func() time.Time {
		if at := clock.Load(); at != nil {
			return *at
		}
		return time.Now()
	}})
	test.OK(t, s.Load(lineartest.Seed{Teams: []lineartest.SeedTeam{{
		Key:  "ABC",
		Name: "Alphabet",
	}, {
		Key:  "OPS",
		Name: "Operations",
	}}}))
	options.Options = transport.Options{Endpoint: s.Endpoint(), Key: s.Key()}
	options.Assignee = true
	readOnly := options
	readOnly.ReadOnly = true
	b := &trackertest.Backend{
		TrackerAdapter: test.Must(linear.Adapter(options)),
		ReadOnly:       test.Must(linear.Adapter(readOnly)),
		Active:         []string{"Todo", "In Progress"},
		Terminal:       "Done",
		NewestFirst:    true,
		Page:           50,
		Batch:          50,
		Secret:         s.Key(),
		Person:         "kim@example.com",
		Me:             "me",
		Requests:       func() int { return len(s.Log()) },
		Unavailable: linearFault(
			s,
			"no answer",
			"linear_api_request",
			lineartest.Failure{Kind: lineartest.FailClose},
		),
		Faults: linearFaults(s),
	}
	b.Comment = func(t testing.TB, id, author, text string, at time.Time) {
		clock.Store(&at)
		defer clock.Store(nil)
		test.Must(s.Comment(id, author, text))
	}
	arrangeLinear(s, b)
	b.Elsewhere = test.Must(s.AddIssue(elsewhere)).ID
	callLinear(s, b)
	return b
}

// arrangeLinear sets the functions that change the tracker.
func arrangeLinear(s *lineartest.Server, b *trackertest.Backend) {
	edit := func(t testing.TB, id string, f func(*lineartest.Issue)) { t.Helper(); test.OK(t, s.Edit(id, f)) }
	b.Add = func(t testing.TB, i trackertest.Issue) string {
		return test.Must(s.AddIssue(lineartest.Issue{
			Title:       i.Title,
			Description: &i.Description,
			State:       i.State,
			Priority:    i.Priority,
			Labels:      i.Labels,
			Assignee:    i.Assignee,
		})).ID
	}
	b.Move = func(t testing.TB, id, state string) { test.OK(t, s.Move(id, state)) }
	b.Block = func(t testing.TB, id string, blockers ...string) {
		edit(t, id, func(i *lineartest.Issue) { i.BlockedBy = blockers })
	}
	b.Remove = func(t testing.TB, id string) { test.OK(t, s.Remove(id)) }
	b.Archive = func(t testing.TB, id string) { edit(t, id, func(i *lineartest.Issue) { i.Archived = true }) }
	b.Malform = func(t testing.TB, id string) string {
		test.OK(t, s.Fail(lineartest.Failure{
			Kind:  lineartest.FailMalformed,
			Field: "title",
			Issue: id,
			Times: 2,
		}))
		return id
	}
	b.FailLaterPage = func(t testing.TB) {
		test.OK(t, s.Fail(lineartest.Failure{
			Kind: lineartest.FailStatus,
			Skip: 1,
		}))
	}
	b.Limit = func(t testing.TB, until time.Time) {
		ms := time.Until(until).Milliseconds() + 1
		test.OK(t, s.Fail(lineartest.Failure{
			Kind:    lineartest.FailRateLimit,
			ResetMS: ms,
			Times:   -1,
		}))
	}
	b.Low = func(testing.TB, time.Time) { s.SetRemaining(250, 3_000_000) }
}

func linearFault(s *lineartest.Server, name, code string, f lineartest.Failure) trackertest.Fault {
	f.Times = -1
	return trackertest.Fault{
		Name:    name,
		Code:    code,
		Arrange: func(t testing.TB) { test.OK(t, s.Fail(f)) },
	}
}

func linearFaults(s *lineartest.Server) []trackertest.Fault {
	refused := fmt.Sprintf(
		`{"errors":[{"message":"%s is not authenticated","extensions":{"code":"AUTHENTICATION_ERROR"}}]}`,
		s.Key(),
	)
	status := func(name string, status int, body string) trackertest.Fault {
		return linearFault(s, name, "linear_api_status", lineartest.Failure{
			Kind:   lineartest.FailStatus,
			Status: status,
			Body:   body,
		})
	}
	return []trackertest.Fault{
		status("wrong key", http.StatusUnauthorized, refused),
		status("missing scope", http.StatusForbidden, refused),
		status("server fault", http.StatusBadGateway, "<html>\n<h1>busy</h1>"),
		status("not found", http.StatusNotFound, ""),
		linearFault(s, "GraphQL error", "linear_graphql_errors", lineartest.Failure{
			Kind:    lineartest.FailGraphQL,
			Message: "bad " + s.Key(),
		}),
		linearFault(s, "garbage", "linear_unknown_payload", lineartest.Failure{Kind: lineartest.FailGarbage}),
		linearFault(s, "no data", "linear_unknown_payload", lineartest.Failure{
			Kind:   lineartest.FailStatus,
			Status: 200,
			Body:   "{}",
		}),
		linearFault(
			s,
			"no end of pages",
			"linear_missing_end_cursor",
			lineartest.Failure{Kind: lineartest.FailCursor},
		),
	}
}

// callLinear sets the agent's calls.
func callLinear(s *lineartest.Server, b *trackertest.Backend) {
	call := func(query string, variables map[string]any) trackertest.Call {
		args := test.Must(json.Marshal(map[string]any{"query": query, "variables": variables}))
		return trackertest.Call{Tool: "linear_graphql", Args: args}
	}
	b.ToMove = func(issue reconcile.Issue, state string) trackertest.Call {
		return call(
			`mutation($id: String!, $s: String) { issueUpdate(id: $id, input: {stateId: $s}) { success } }`,
			map[string]any{"id": issue.ID, "s": test.Must(s.StateID("ABC", state))},
		)
	}
	b.ToComment = func(issue reconcile.Issue, text string) trackertest.Call {
		return call(`mutation($i: CommentCreateInput!) { commentCreate(input: $i) { success } }`,
			map[string]any{"i": map[string]string{"issueId": issue.ID, "body": text}})
	}
	b.Refused = func(reconcile.Issue, reconcile.Issue) map[string]trackertest.Call {
		return map[string]trackertest.Call{
			"no query": {Tool: "linear_graphql", Args: json.RawMessage(`{}`)},
			"a number": {Tool: "linear_graphql", Args: json.RawMessage(`{"query": 1}`)},
		}
	}
}
