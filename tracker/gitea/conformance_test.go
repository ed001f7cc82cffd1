package gitea

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/faulttest"
	"github.com/symphony-cron/symphony/internal/adapter/giteaapi/giteatest"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/tracker/trackertest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	giteatest.Stop()
	os.Exit(code)
}

// scene is a repository on a real Gitea, behind a proxy.
type scene struct {
	*giteatest.Repository
	t     *testing.T
	proxy *giteatest.Proxy
}

// newScene skips the test if there is no Gitea.
func newScene(t *testing.T) *scene {
	t.Helper()
	giteatest.Needs(t)
	server := test.Must(giteatest.Start())
	s := &scene{
		Repository: &giteatest.Repository{
			Server: server,
			Name:   test.Must(server.MakeRepository()),
			States: []string{"Todo", "In Progress"},
		},
		t:     t,
		proxy: server.NewProxy(),
	}
	t.Cleanup(s.proxy.Close)
	return s
}

// options are those of the repository.
func (s *scene) options() Options {
	return Options{
		Options:        transport.Options{Endpoint: s.proxy.API(), Key: s.Token},
		Repositories:   []string{s.Name},
		StateLabels:    s.States,
		PriorityLabels: []string{"P1", "P2"},
		Assignee:       "me",
	}
}

func TestConformance(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		trackertest.Run(t, func(t *testing.T) *trackertest.Backend { return newBackend(t, &trackertest.Memory{}) })
	})
	t.Run("no memory", func(t *testing.T) {
		test.Expensive(t)
		trackertest.Run(t, func(t *testing.T) *trackertest.Backend { return newBackend(t, nil) })
	})
}

func newBackend(t *testing.T, m reconcile.TrackerMemory) *trackertest.Backend {
	t.Helper()
	s := newScene(t)
	options := s.options()
	options.Memory = m
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
		Page:           50,
		Secret:         s.Token,
		Person:         giteatest.Writer,
		Me:             giteatest.Operator,
		// An issue takes a request for its blockers, too.
		Requests: func() int {
			n := 0
			for _, r := range s.proxy.Log() {
				if !strings.Contains(r, "/dependencies") && !strings.HasSuffix(r, "/user") {
					n++
				}
			}
			return n
		},
		Unavailable: s.fault("no answer", "tracker_api_request", faulttest.Down),
		Faults: []trackertest.Fault{
			s.fault("wrong token", "tracker_api_status", faulttest.Answer(
				http.StatusUnauthorized, `{"message": "invalid username, password or token"}`,
			)),
			s.fault("server fault", "tracker_api_status", faulttest.Answer(http.StatusBadGateway, "bad gateway")),
			s.fault("garbage", unknownPayload, faulttest.Garbage()),
			s.fault("cut", "tracker_api_request", faulttest.Cut),
		},
	}
	s.arrange(b, options)
	agentCalls(b)
	return b
}

func (s *scene) fault(name, code string, fail func(http.ResponseWriter, *http.Request) bool) trackertest.Fault {
	return trackertest.Fault{
		Name:    name,
		Code:    code,
		Arrange: func(testing.TB) { s.proxy.Fail(fail) },
	}
}

func number(id string) int { return test.Must(strconv.Atoi(id)) }

// arrange sets the functions that change the tracker.
func (s *scene) arrange(b *trackertest.Backend, o Options) {
	b.Add = func(_ testing.TB, i trackertest.Issue) string {
		labels := i.Labels
		if i.Priority > 0 {
			labels = append([]string{o.PriorityLabels[i.Priority-1]}, labels...)
		}
		return fmt.Sprint(test.Must(s.Add(giteatest.Issue{
			Title:    i.Title,
			Body:     i.Description,
			State:    i.State,
			Labels:   labels,
			Assignee: i.Assignee,
		})))
	}
	b.Move = func(t testing.TB, id, state string) { test.OK(t, s.Move(number(id), state)) }
	b.Block = func(t testing.TB, id string, blockers ...string) {
		for _, blocker := range blockers {
			test.OK(t, s.Block(number(id), number(blocker)))
		}
	}
	b.Remove = func(t testing.TB, id string) { test.OK(t, s.Delete(number(id))) }
	b.Comment = func(t testing.TB, id, author, text string, at time.Time) {
		test.OK(t, s.Comment(number(id), author, text, at))
	}
	b.Malform = func(_ testing.TB, id string) string {
		s.proxy.Change(func(_ string, body []byte) []byte { return withoutTitle(number(id), body) })
		return id
	}
	if o.Memory == nil {
		b.FailLaterPage = func(testing.TB) {
			s.proxy.Fail(func(w http.ResponseWriter, r *http.Request) bool {
				isLater := r.URL.Query().Get("page") == "2"
				return isLater && faulttest.Answer(http.StatusBadGateway, "bad gateway")(w, r)
			})
		}
	}
	b.Limit = func(_ testing.TB, until time.Time) { s.proxy.Fail(giteatest.Limit(until)) }
}

// withoutTitle returns an answer in which an issue lacks its title.
func withoutTitle(number int, body []byte) []byte {
	var list []map[string]any
	if json.Unmarshal(body, &list) == nil {
		for _, issue := range list {
			if issue["number"] == float64(number) {
				delete(issue, "title")
			}
		}
		return test.Must(json.Marshal(list))
	}
	var issue map[string]any
	if json.Unmarshal(bytes.TrimSpace(body), &issue) == nil && issue["number"] == float64(number) {
		delete(issue, "title")
		return test.Must(json.Marshal(issue))
	}
	return body
}

// agentCalls sets the agent's calls.
func agentCalls(b *trackertest.Backend) {
	b.ToMove = trackertest.ByIssueUpdate
	b.ToComment = trackertest.ByIssueComment
	b.Refused = func(_, other reconcile.Issue) map[string]trackertest.Call {
		return trackertest.RefusedIssueCalls(other)
	}
}
