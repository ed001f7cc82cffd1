package gitea

import (
	"crypto/rand"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/giteaapi/giteatest"
	"github.com/symphony-cron/symphony/internal/test"
)

func TestMain(m *testing.M) {
	code := m.Run()
	giteatest.Stop()
	os.Exit(code)
}

// theServer returns the Gitea of all tests. It skips the test if there is no program.
func theServer(t *testing.T) *giteatest.Server {
	t.Helper()
	giteatest.Needs(t)
	return test.Must(giteatest.Start())
}

// as returns a function that sends requests in the name of an account.
func (p *place) as(t testing.TB, account string) func(method, path string, body, to any) {
	return func(method, path string, body, to any) {
		t.Helper()
		test.OK(t, p.As(account, method, path, body, to))
	}
}

// place is a repository with a clone.
type place struct {
	*giteatest.Server
	t          *testing.T
	clone      string // a directory
	repository string // team/NAME
}

// newPlace makes a repository whose branch main has a commit.
func newPlace(t *testing.T) *place {
	t.Helper()
	s := theServer(t)
	p := &place{Server: s, t: t, clone: t.TempDir(), repository: test.Must(s.MakeRepository())}
	remote := strings.Replace(s.URL, "://", "://"+giteatest.Operator+":"+s.Token+"@", 1) + "/" + p.repository + ".git"
	p.git("init", "-q", "-b", "main")
	p.git("remote", "add", "origin", remote)
	p.commit("main")
	// Until then the repository has no pull requests, and is answered with 404.
	isEmpty := true
	for began := time.Now(); isEmpty && time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) {
		var repository struct {
			Empty bool `json:"empty"`
		}
		p.as(t, giteatest.Owner)(http.MethodGet, "/repos/"+p.repository, nil, &repository)
		isEmpty = repository.Empty
	}
	return p
}

// commit adds a commit to a branch and pushes it. A new branch begins at main. Gitea merges no
// pull request later that changes no file.
func (p *place) commit(branch string) string {
	p.t.Helper()
	p.git("checkout", "-q", "-B", "here", p.start(branch))
	name := rand.Text()
	test.OK(p.t, os.WriteFile(filepath.Join(p.clone, name), nil, 0o600))
	p.git("add", name)
	p.git("commit", "-q", "-m", "more")
	p.git("push", "-q", "origin", "HEAD:refs/heads/"+branch)
	p.git("update-ref", "refs/pushed/"+branch, "HEAD")
	return p.git("rev-parse", "HEAD")
}

// start returns the commit on which the next commit of a branch is made.
func (p *place) start(branch string) string {
	for _, ref := range []string{"refs/pushed/" + branch, "refs/pushed/main"} {
		cmd := exec.CommandContext(p.t.Context(), "git", "-C", p.clone, "rev-parse", "-q", "--verify", ref)
		if cmd.Run() == nil {
			return ref
		}
	}
	return p.git("commit-tree", "-m", "empty", p.git("mktree"))
}

func (p *place) git(args ...string) string {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), "git", args...)
	cmd.Dir = p.clone
	cmd.Env = append(
		os.Environ(),
		"GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a",
		"GIT_AUTHOR_EMAIL=a@example.org",
		"GIT_COMMITTER_NAME=a",
		"GIT_COMMITTER_EMAIL=a@example.org",
	)
	return strings.TrimSpace(test.Run(p.t, cmd))
}
