package gitea

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/forge/forgetest"
	"github.com/symphony-cron/symphony/internal/adapter/giteaapi/giteatest"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// connect returns an adapter with a token.
func (p *place) connect(token string) *reconcile.Forge {
	p.t.Helper()
	return test.Must(Adapter(transport.ForgeOptions{
		Options:    transport.Options{Endpoint: p.URL + "/api/v1", Key: token},
		Repository: p.repository,
		By:         "$TEAM_TOKEN",
		Renew:      "put a valid token into $TEAM_TOKEN",
	}))
}

func TestConformance(t *testing.T) { forgetest.Run(t, newBackend) }

// newBackend makes a repository on the real Gitea for the conformance suite.
func newBackend(t *testing.T) *forgetest.Backend {
	t.Helper()
	p := newPlace(t)
	at := func(format string, args ...any) string {
		return "/repos/" + p.repository + fmt.Sprintf(format, args...)
	}
	events := map[string]string{
		"approved":          "APPROVED",
		"changes_requested": "REQUEST_CHANGES",
		"commented":         "COMMENT",
	}
	return &forgetest.Backend{
		Forge:   p.connect(p.Token),
		Refused: p.connect("0123456789012345678901234567890123456789"),
		By:      "$TEAM_TOKEN",
		Secret:  p.Token,
		Writer:  giteatest.Writer,
		Reader:  giteatest.Reader,
		Push:    func(_ testing.TB, branch string) string { return p.commit(branch) },
		Close: func(t testing.TB, number int) {
			t.Helper()
			p.as(t, giteatest.Owner)(http.MethodPatch, at("/pulls/%d", number), map[string]string{"state": "closed"}, nil)
		},
		Merge: p.merge,
		Status: func(t testing.TB, commit, name, state string) {
			t.Helper()
			body := map[string]string{"context": name, "state": state}
			p.as(t, giteatest.Owner)(http.MethodPost, at("/statuses/%s", commit), body, nil)
		},
		FailJob: func(_ testing.TB, branch string, log ...string) string {
			r := newRunner(p)
			commit := p.pushWorkflow(branch)
			r.fail(r.fetch(), log...)
			return commit
		},
		Review: func(t testing.TB, number int, author, state, body string) {
			t.Helper()
			review := map[string]string{"event": events[state], "body": body}
			p.as(t, author)(http.MethodPost, at("/pulls/%d/reviews", number), review, nil)
		},
		Require: func(t testing.TB, name string) {
			t.Helper()
			p.as(t, giteatest.Owner)(http.MethodPost, at("/branch_protections"), map[string]any{
				"rule_name":             "main",
				"enable_status_check":   true,
				"status_check_contexts": []string{name, "lint *"},
			}, nil)
		},
		Comments: func(t testing.TB, number int) []string {
			t.Helper()
			type comment struct {
				Body string `json:"body"`
			}
			var list []comment
			p.as(t, giteatest.Owner)(http.MethodGet, at("/issues/%d/comments", number), nil, &list)
			return text.Map(list, func(c comment) string { return c.Body })
		},
	}
}

// merge merges a pull request, as soon as Gitea has found out that it can.
func (p *place) merge(t testing.TB, number int) {
	t.Helper()
	var err error
	for range 50 {
		path := fmt.Sprintf("/repos/%s/pulls/%d/merge", p.repository, number)
		err = p.As(giteatest.Owner, http.MethodPost, path, map[string]string{"Do": "merge"}, nil)
		if err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal(err)
}
