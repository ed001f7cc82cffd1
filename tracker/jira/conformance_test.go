package jira

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/faulttest"
	"github.com/symphony-cron/symphony/internal/adapter/openapitest"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/tracker/jira/jiratest"
	"github.com/symphony-cron/symphony/tracker/trackertest"
)

// description is Jira's published description.
var description = openapitest.Description{Variable: "SYMPHONY_JIRA_OPENAPI"}

// newSite starts a site, whose answers are checked if the description is there.
func newSite(t *testing.T) *jiratest.Server {
	t.Helper()
	s := &jiratest.Server{Project: "SHOP", Check: description.Check, Errorf: t.Errorf}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func optionsFor(s *jiratest.Server) Options {
	return Options{
		Options:    transport.Options{Endpoint: s.URL(), User: jiratest.Email, Key: jiratest.Token},
		Project:    "SHOP",
		Priorities: []string{"Highest", "High", "Medium", "Low", "Lowest"},
	}
}

func TestConformance(t *testing.T) { trackertest.Run(t, newBackend) }

func newBackend(t *testing.T) *trackertest.Backend {
	t.Helper()
	s := newSite(t)
	s.Page = 7
	readOnly := optionsFor(s)
	readOnly.ReadOnly = true
	b := &trackertest.Backend{
		TrackerAdapter: test.Must(Adapter(optionsFor(s))),
		ReadOnly:       test.Must(Adapter(readOnly)),
		Active:         []string{"Todo", "In Progress"},
		Terminal:       "Done",
		Batch:          batch,
		Secret:         jiratest.Token,
		Person:         jiratest.Person,
		Me:             jiratest.Me,
		Requests: func() int {
			n := 0
			for _, r := range s.Log() {
				if !strings.HasSuffix(r, "/myself") {
					n++
				}
			}
			return n
		},
		Unavailable: fault(s, "no answer", "tracker_api_request", faulttest.Down),
		Faults: []trackertest.Fault{
			fault(s, "wrong token", apiStatus, faulttest.Answer(http.StatusUnauthorized, `{"message": "No."}`)),
			fault(s, "server fault", apiStatus, faulttest.Answer(http.StatusBadGateway, "bad gateway")),
			fault(s, "garbage", unknownPayload, faulttest.Garbage()),
			fault(s, "cut", "tracker_api_request", faulttest.Cut),
			{Name: "expired", Code: apiStatus, Arrange: func(testing.TB) { s.Expire(true, true) }},
			{Name: "expired, untold", Code: apiStatus, Arrange: func(testing.TB) { s.Expire(true, false) }},
		},
	}
	arrange(s, b)
	agentCalls(b)
	return b
}

func fault(
	s *jiratest.Server,
	name, code string,
	fail func(http.ResponseWriter, *http.Request) bool,
) trackertest.Fault {
	return trackertest.Fault{Name: name, Code: code, Arrange: func(testing.TB) { s.Fail(fail) }}
}

// arrange sets the functions that change the tracker.
func arrange(s *jiratest.Server, b *trackertest.Backend) {
	b.Add = func(t testing.TB, i trackertest.Issue) string {
		n := jiratest.Issue{
			Summary:     i.Title,
			Description: i.Description,
			Status:      i.State,
			Labels:      i.Labels,
			Assignee:    i.Assignee,
		}
		if i.Priority > 0 {
			n.Priority = optionsFor(s).Priorities[i.Priority-1]
		}
		id, _, err := s.Add(n)
		test.OK(t, err)
		return id
	}
	b.Move = func(t testing.TB, id, state string) { test.OK(t, s.Move(id, state)) }
	b.Block = func(t testing.TB, id string, blockers ...string) {
		for _, blocker := range blockers {
			test.OK(t, s.Block(id, blocker))
		}
	}
	b.Remove = func(t testing.TB, id string) { test.OK(t, s.Delete(id)) }
	b.Comment = func(t testing.TB, id, author, text string, at time.Time) {
		test.OK(t, s.Comment(id, author, text, at))
	}
	b.Elsewhere = test.Must(s.AddElsewhere(jiratest.Issue{Summary: "Elsewhere", Status: "Todo"}))
	b.Malform = func(t testing.TB, id string) string {
		key := test.Must(b.Find(t.Context(), id)).Identifier
		s.Spoil(func(spoilt string, fields map[string]any) {
			if spoilt == key {
				delete(fields, "summary")
			}
		})
		return id
	}
	b.FailLaterPage = func(testing.TB) {
		searches := 0
		s.Fail(func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/search/jql") {
				searches++
			}
			return searches > 1 && faulttest.Answer(http.StatusBadGateway, "bad gateway")(w, r)
		})
	}
	b.Limit = func(_ testing.TB, until time.Time) { s.Fail(jiratest.Limit(until)) }
}

// agentCalls sets the agent's calls.
func agentCalls(b *trackertest.Backend) {
	b.ToMove = trackertest.ByIssueUpdate
	b.ToComment = trackertest.ByIssueComment
	b.Refused = func(_, other reconcile.Issue) map[string]trackertest.Call {
		return trackertest.RefusedIssueCalls(other)
	}
}
