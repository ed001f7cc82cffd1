package github

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/forge/forgetest"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/tracker/github/githubtest"
)

func TestConformance(t *testing.T) { forgetest.Run(t, newBackend) }

// newBackend starts GitHub for the conformance suite.
func newBackend(t *testing.T) *forgetest.Backend {
	t.Helper()
	p := newRepository(t)
	edit := func(t testing.TB, number int, change func(*githubtest.Pull)) {
		t.Helper()
		test.OK(t, p.EditPull(t.Context(), number, change))
	}
	refused := test.Must(Adapter(transport.ForgeOptions{
		Options:    transport.Options{Endpoint: p.URL(), Key: token + "-ended"},
		Repository: "team/repo",
		By:         "$TEAM_TOKEN",
		Renew:      "put a valid token into $TEAM_TOKEN",
	}))
	minute := 0
	checks := map[string][]githubtest.Check{}
	return &forgetest.Backend{
		Forge:   p.Forge,
		Refused: refused,
		By:      "$TEAM_TOKEN",
		Secret:  token,
		Writer:  "kim",
		Reader:  "robin",
		Push:    func(_ testing.TB, branch string) string { return p.commit(branch) },
		Close: func(t testing.TB, number int) {
			edit(t, number, func(pull *githubtest.Pull) { pull.State = "closed" })
		},
		Merge: func(t testing.TB, number int) {
			edit(t, number, func(pull *githubtest.Pull) {
				pull.State = "closed"
				pull.Merged = true
			})
		},
		Status: func(_ testing.TB, commit, name, state string) {
			list := text.Filter(checks[commit], func(c githubtest.Check) bool { return c.Name != name })
			checks[commit] = append(list, githubtest.Check{
				Name:   name,
				State:  strings.ToUpper(state),
				Status: true,
			})
			p.SetChecks(commit, checks[commit]...)
		},
		FailJob: func(_ testing.TB, branch string, log ...string) string {
			commit := p.commit(branch)
			p.SetChecks(commit, githubtest.Check{
				Workflow: "CI",
				Name:     "test",
				Run:      1,
				Job:      2,
				State:    "FAILURE",
				Log:      strings.Join(log, "\n") + "\n",
			})
			return commit
		},
		Review: func(t testing.TB, number int, author, state, body string) {
			edit(t, number, func(pull *githubtest.Pull) {
				minute++
				pull.Reviews = append(pull.Reviews, githubtest.Review{
					Author: author,
					Writer: author == "kim",
					Role:   "NONE",
					State:  strings.ToUpper(state),
					Body:   body,
					Commit: pull.Commit,
					At:     noon.Add(time.Duration(minute) * time.Minute),
				})
			})
		},
		Require: func(t testing.TB, name string) {
			for _, pull := range p.Pulls(t.Context()) {
				edit(t, pull.Number, func(pull *githubtest.Pull) { pull.Required = []string{name} })
			}
		},
		Comments: func(t testing.TB, number int) []string {
			t.Helper()
			issue := test.Must(p.Issue(fmt.Sprint("team/repo#", number)))
			return text.Map(issue.Comments, func(c githubtest.Comment) string { return c.Body })
		},
	}
}
