package github

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/tracker/github/githubtest"
	"github.com/symphony-cron/symphony/tracker/github/githubtest/openapi"
	"github.com/symphony-cron/symphony/tracker/trackertest"
)

// The three kinds of states, which are read in different ways: labels, with the list in Memory
// and without, and a board.
func TestConformance(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		trackertest.Run(t, func(t *testing.T) *trackertest.Backend {
			return newBackend(t, func(o *Options) {
				o.StateLabels = []string{"Todo", "In Progress"}
				o.Memory = &trackertest.Memory{}
			})
		})
	})
	t.Run("no memory", func(t *testing.T) {
		trackertest.Run(t, func(t *testing.T) *trackertest.Backend {
			return newBackend(t, func(o *Options) { o.StateLabels = []string{"Todo", "In Progress"} })
		})
	})
	t.Run("without optional keys", func(t *testing.T) {
		trackertest.Run(t, func(t *testing.T) *trackertest.Backend {
			return newBackend(t, func(o *Options) {
				o.StateLabels = []string{"Todo", "In Progress"}
				o.Assignee = ""
			})
		})
	})
	t.Run("board", func(t *testing.T) {
		trackertest.Run(t, func(t *testing.T) *trackertest.Backend {
			return newBackend(t, func(o *Options) { o.Project = "https://github.com/orgs/acme/projects/4" })
		})
	})
}

func newBackend(t *testing.T, change func(*Options)) *trackertest.Backend {
	var clock atomic.Pointer[time.Time] // nil: the time is now
	s := &githubtest.Server{
		Repository:  testRepo,
		Tokens:      []string{testToken},
		Errorf:      t.Errorf,
		Check:       openapi.Check,
		StateLabels: []string{"Todo", "In Progress"},
	}
	s.Now = func() time.Time {
		if at := clock.Load(); at != nil {
			return *at
		}
		return time.Now()
	}
	s.Start()
	t.Cleanup(s.Close)
	options := Options{
		Options:        transport.Options{Endpoint: s.URL(), Key: testToken},
		Repositories:   []string{testRepo},
		PriorityLabels: []string{"P1", "P2"},
		Assignee:       "me",
	}
	change(&options)
	if options.Project != "" {
		s.SetBoard(githubtest.Board{Owner: "acme", Number: 4, Title: "Board"})
	}
	readOnly := options
	readOnly.ReadOnly = true
	readOnly.Memory = nil
	b := &trackertest.Backend{
		TrackerAdapter: test.Must(Adapter(options)),
		ReadOnly:       test.Must(Adapter(readOnly)),
		OpenBlocker:    "open",
		OwnLabels:      []string{"p1", "p2", "todo", "in progress"},
		Active:         []string{"Todo", "In Progress"},
		Terminal:       "closed",
		NewestFirst:    true,
		Page:           100,
		Batch:          50,
		Secret:         testToken,
		Person:         "kim",
		Me:             "ann",
		Requests:       func() int { return len(s.Log()) },
		Unavailable: fault(
			s,
			"no answer",
			"tracker_api_request",
			githubtest.Failure{Kind: githubtest.FailClose},
		),
		Faults: []trackertest.Fault{
			fault(
				s,
				"wrong token",
				"tracker_api_status",
				githubtest.Failure{Kind: githubtest.FailCredentials},
			),
			fault(s, "server fault", "tracker_api_status", githubtest.Failure{Kind: githubtest.FailDown}),
			fault(s, "garbage", "tracker_unknown_payload", githubtest.Failure{Kind: githubtest.FailHTML}),
			fault(s, "cut", "tracker_api_request", githubtest.Failure{Kind: githubtest.FailCut}),
		},
	}
	if options.Assignee == "" {
		b.Me = ""
	}
	if options.Memory != nil { // the first request is for the changes
		b.Page = 0
	}
	b.Comment = func(t testing.TB, id, author, text string, at time.Time) {
		clock.Store(&at)
		defer clock.Store(nil)
		test.Must(s.Comment(id, author, text))
	}
	// The labels of the states exist.
	test.OK(t, s.Delete(fmt.Sprint(test.Must(s.AddIssue(githubtest.Issue{
		Title:  "Gone",
		Labels: b.Active,
	})).Number)))
	arrange(s, b, options)
	agentCalls(b)
	return b
}

func fault(s *githubtest.Server, name, code string, f githubtest.Failure) trackertest.Fault {
	f.Times = -1
	return trackertest.Fault{
		Name:    name,
		Code:    code,
		Arrange: func(t testing.TB) { test.OK(t, s.Fail(f)) },
	}
}

// arrange sets the functions that change the tracker.
func arrange(s *githubtest.Server, b *trackertest.Backend, o Options) {
	b.Add = func(t testing.TB, i trackertest.Issue) string {
		given := githubtest.Issue{Title: i.Title, Body: i.Description, Labels: i.Labels}
		if i.Priority > 0 {
			given.Labels = append([]string{o.PriorityLabels[i.Priority-1]}, given.Labels...)
		}
		if i.Assignee != "" {
			given.Assignees = []string{i.Assignee}
		}
		id := fmt.Sprint(test.Must(s.AddIssue(given)).Number)
		if o.Project != "" {
			test.OK(t, s.Place(id, ""))
		}
		test.OK(t, s.Move(id, i.State))
		return id
	}
	b.Move = func(t testing.TB, id, state string) { test.OK(t, s.Move(id, state)) }
	b.Block = func(t testing.TB, id string, blockers ...string) { test.OK(t, s.Block(id, blockers...)) }
	b.Remove = func(t testing.TB, id string) { test.OK(t, s.Delete(id)) }
	if o.Project != "" {
		b.Archive = func(t testing.TB, id string) { test.OK(t, s.Archive(id)) }
		b.Elsewhere = fmt.Sprint(test.Must(s.AddIssue(githubtest.Issue{Title: "Not on the board"})).Number)
	}
	b.Malform = func(t testing.TB, id string) string {
		var n int
		test.Must(fmt.Sscan(id, &n))
		test.OK(t, s.Fail(githubtest.Failure{
			Kind:  githubtest.FailMalformed,
			Field: "title",
			Issue: n,
			Times: -1,
		}))
		return id
	}
	if o.Memory == nil {
		b.FailLaterPage = func(t testing.TB) {
			test.OK(t, s.Fail(githubtest.Failure{
				Kind: githubtest.FailDown,
				Skip: 1,
			}))
		}
	}
	b.Limit = func(t testing.TB, until time.Time) {
		test.OK(t, s.Fail(githubtest.Failure{
			Kind:  githubtest.FailRateLimit,
			Reset: until.Unix(),
			Times: -1,
		}))
	}
	b.Low = func(testing.TB, time.Time) { s.SetRemaining(250) }
}

// agentCalls sets the agent's calls.
func agentCalls(b *trackertest.Backend) {
	b.ToMove = trackertest.ByIssueUpdate
	b.ToComment = trackertest.ByIssueComment
	b.Refused = func(_, other reconcile.Issue) map[string]trackertest.Call {
		return trackertest.RefusedIssueCalls(other)
	}
}
