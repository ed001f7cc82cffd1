package gitlab

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/tracker/gitlab/gitlabtest"
	"github.com/symphony-cron/symphony/tracker/gitlab/gitlabtest/openapi"
	"github.com/symphony-cron/symphony/tracker/trackertest"
)

const (
	testProject = "acme/web/shop"
	testToken   = "glpat-0123456789abcdefghij"
)

// start starts a GitLab with a project, which change may configure.
func start(t *testing.T, change func(*gitlabtest.Server)) *gitlabtest.Server {
	t.Helper()
	s := &gitlabtest.Server{
		Project:     testProject,
		Token:       testToken,
		Errorf:      t.Errorf,
		Check:       openapi.Check,
		StateLabels: []string{"Todo", "In Progress"},
	}
	if change != nil {
		change(s)
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// optionsFor are the options for the project of a server.
func optionsFor(s *gitlabtest.Server) Options {
	return Options{
		Options:        transport.Options{Endpoint: s.API(), Key: testToken},
		Projects:       []string{testProject},
		StateLabels:    s.StateLabels,
		PriorityLabels: []string{"P1", "P2"},
		Assignee:       "me",
	}
}

// The three places of states, which are read in the same way: with the list in Memory and
// without, and with scoped labels on a server at a path of its host.
func TestConformance(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		trackertest.Run(t, func(t *testing.T) *trackertest.Backend {
			return newBackend(t, nil, func(o *Options) { o.Memory = &trackertest.Memory{} })
		})
	})
	t.Run("no memory", func(t *testing.T) {
		trackertest.Run(t, func(t *testing.T) *trackertest.Backend { return newBackend(t, nil, nil) })
	})
	t.Run("scoped labels", func(t *testing.T) {
		trackertest.Run(t, func(t *testing.T) *trackertest.Backend {
			return newBackend(t, func(s *gitlabtest.Server) {
				s.Path = "/gitlab"
				s.StateLabels = []string{"status::todo", "status::doing"}
			}, nil)
		})
	})
}

func newBackend(t *testing.T, server func(*gitlabtest.Server), change func(*Options)) *trackertest.Backend {
	t.Helper()
	s := start(t, server)
	options := optionsFor(s)
	if change != nil {
		change(&options)
	}
	readOnly := options
	readOnly.ReadOnly = true
	readOnly.Memory = nil
	b := &trackertest.Backend{
		TrackerAdapter: test.Must(Adapter(options)),
		ReadOnly:       test.Must(Adapter(readOnly)),
		OpenBlocker:    "opened",
		OwnLabels:      append([]string{"p1", "p2"}, test.Map(s.StateLabels, strings.ToLower)...),
		Active:         s.StateLabels,
		Terminal:       "closed",
		NewestFirst:    true,
		Page:           100,
		Batch:          100,
		Secret:         testToken,
		Person:         gitlabtest.Writer,
		Me:             gitlabtest.Operator,
		// An issue takes a request for its blockers, too.
		Requests: func() int {
			n := 0
			for _, r := range s.Log() {
				if !strings.HasSuffix(r.Path, "/links") && r.Path != "/user" {
					n++
				}
			}
			return n
		},
		Unavailable: fault(s, "no answer", "tracker_api_request", gitlabtest.FailClose),
		Faults: []trackertest.Fault{
			fault(s, "wrong token", "tracker_api_status", gitlabtest.FailCredentials),
			fault(s, "scope", "tracker_api_status", gitlabtest.FailScope),
			fault(s, "server fault", "tracker_api_status", gitlabtest.FailDown),
			fault(s, "garbage", unknownPayload, gitlabtest.FailHTML),
			fault(s, "cut", "tracker_api_request", gitlabtest.FailCut),
		},
	}
	arrange(s, b, options)
	agentCalls(b)
	return b
}

func fault(s *gitlabtest.Server, name, code, kind string) trackertest.Fault {
	return trackertest.Fault{
		Name:    name,
		Code:    code,
		Arrange: func(t testing.TB) { test.OK(t, s.Fail(gitlabtest.Failure{Kind: kind, Times: -1})) },
	}
}

// arrange sets the functions that change the tracker.
func arrange(s *gitlabtest.Server, b *trackertest.Backend, o Options) {
	b.Add = func(t testing.TB, i trackertest.Issue) string {
		given := gitlabtest.Issue{Title: i.Title, Body: i.Description, Labels: i.Labels}
		if i.Priority > 0 {
			given.Labels = append([]string{o.PriorityLabels[i.Priority-1]}, given.Labels...)
		}
		if i.Assignee != "" {
			given.Assignees = []string{i.Assignee}
		}
		id := strconv.Itoa(test.Must(s.AddIssue(given)).Number)
		test.OK(t, s.Move(id, i.State))
		return id
	}
	b.Move = func(t testing.TB, id, state string) { test.OK(t, s.Move(id, state)) }
	b.Block = func(t testing.TB, id string, blockers ...string) { test.OK(t, s.Block(id, blockers...)) }
	b.Remove = func(t testing.TB, id string) { test.OK(t, s.Delete(id)) }
	b.Comment = func(t testing.TB, id, author, text string, at time.Time) {
		test.OK(t, s.Comment(id, author, text, at))
	}
	b.Malform = func(t testing.TB, id string) string {
		test.OK(t, s.Fail(gitlabtest.Failure{
			Kind:  gitlabtest.FailMalformed,
			Field: "title",
			Issue: id,
			Times: -1,
		}))
		return id
	}
	if o.Memory == nil {
		b.FailLaterPage = func(t testing.TB) {
			test.OK(t, s.Fail(gitlabtest.Failure{Kind: gitlabtest.FailDown, Skip: 2}))
		}
	}
	b.Limit = func(t testing.TB, until time.Time) {
		test.OK(t, s.Fail(gitlabtest.Failure{
			Kind:  gitlabtest.FailRateLimit,
			Reset: until.Unix(),
			Times: -1,
		}))
	}
	b.Low = func(_ testing.TB, until time.Time) { s.SetRemaining(100, until) }
}

// agentCalls sets the agent's calls.
func agentCalls(b *trackertest.Backend) {
	b.ToMove = trackertest.ByIssueUpdate
	b.ToComment = trackertest.ByIssueComment
	b.Refused = func(_, other reconcile.Issue) map[string]trackertest.Call {
		return trackertest.RefusedIssueCalls(other)
	}
}
