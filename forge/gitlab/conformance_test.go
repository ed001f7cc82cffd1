package gitlab

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/forge/forgetest"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/tracker/gitlab/gitlabtest"
	"github.com/symphony-cron/symphony/tracker/gitlab/gitlabtest/openapi"
)

const (
	testProject = "team/web/shop"
	testToken   = "glpat-0123456789abcdefghij"
)

// place is a project on a GitLab at a path of its host, with its adapter.
type place struct {
	*gitlabtest.Server
	*reconcile.Forge
	t *testing.T
}

func newPlace(t *testing.T) *place {
	t.Helper()
	s := &gitlabtest.Server{
		Project: testProject,
		Path:    "/gitlab",
		Token:   testToken,
		Remote:  filepath.Join(t.TempDir(), "shop.git"),
		Check:   openapi.Check,
		Errorf:  t.Errorf,
	}
	s.Start()
	t.Cleanup(s.Close)
	p := &place{Server: s, Forge: connect(s, testToken), t: t}
	test.Run(t, exec.Command("git", "init", "-q", "--bare", "-b", "main", s.Remote))
	p.commit("main")
	return p
}

// connect returns an adapter with a token.
func connect(s *gitlabtest.Server, token string) *reconcile.Forge {
	return test.Must(Adapter(transport.ForgeOptions{
		Options:    transport.Options{Endpoint: s.API(), Key: token},
		Repository: testProject,
		By:         "$TEAM_TOKEN",
		Renew:      "put a valid token into $TEAM_TOKEN",
	}))
}

// git runs git in the repository.
func (p *place) git(args ...string) string {
	p.t.Helper()
	options := []string{"--git-dir", p.Remote, "-c", "user.name=Ann", "-c", "user.email=ann@example.com"}
	return strings.TrimSpace(test.Run(p.t, exec.Command("git", append(options, args...)...)))
}

// commit adds an empty commit to a branch, which begins at main if it is new.
func (p *place) commit(branch string) string {
	p.t.Helper()
	const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
	args := []string{"commit-tree", emptyTree, "-m", "work on " + branch}
	for _, parent := range []string{branch, "main"} {
		if exec.Command("git", "--git-dir", p.Remote, "rev-parse", "--verify", "--quiet", parent).Run() == nil {
			args = append(args, "-p", parent)
			break
		}
	}
	p.git("hash-object", "-t", "tree", "-w", "/dev/null")
	sha := p.git(args...)
	p.git("update-ref", "refs/heads/"+branch, sha)
	return sha
}

func TestConformance(t *testing.T) { forgetest.Run(t, newBackend) }

func newBackend(t *testing.T) *forgetest.Backend {
	t.Helper()
	p := newPlace(t)
	states := map[string]string{"pending": "pending", "success": "success", "failure": "failed"}
	return &forgetest.Backend{
		Forge:   p.Forge,
		Refused: connect(p.Server, "glpat-00000000000000000000"),
		By:      "$TEAM_TOKEN",
		Secret:  testToken,
		Writer:  gitlabtest.Writer,
		Reader:  gitlabtest.Reader,
		Methods: []string{"squash", "merge"},
		Push:    func(_ testing.TB, branch string) string { return p.commit(branch) },
		Close: func(t testing.TB, number int) {
			test.OK(t, p.EditMerge(number, func(m *gitlabtest.MergeRequest) { m.State = "closed" }))
		},
		Merge: func(t testing.TB, number int) {
			test.OK(t, p.EditMerge(number, func(m *gitlabtest.MergeRequest) { m.State = "merged" }))
		},
		Status: func(_ testing.TB, commit, name, state string) {
			p.SetJob(commit, gitlabtest.Job{Name: name, State: states[state], Reported: true})
		},
		FailJob: func(_ testing.TB, branch string, log ...string) string {
			commit := p.commit(branch)
			p.SetJob(commit, gitlabtest.Job{Name: "test", State: "failed", Log: strings.Join(log, "\n") + "\n"})
			return commit
		},
		Review: func(t testing.TB, number int, author, state, body string) {
			var notes []gitlabtest.Note
			if body != "" {
				notes = []gitlabtest.Note{{Body: body}}
			}
			test.OK(t, p.Review(number, author, state, 0, notes...))
		},
		Require: func(testing.TB, string) { p.NeedsGreen = true },
		Comments: func(t testing.TB, number int) []string {
			t.Helper()
			notes := p.Merges()[number-1].Notes
			return text.Map(notes, func(n *gitlabtest.Note) string { return n.Body })
		},
	}
}
