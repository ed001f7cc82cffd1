package github

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/tracker/github/githubtest"
	"github.com/symphony-cron/symphony/tracker/github/githubtest/openapi"
)

const token = "github_pat_secretsecret"

// place is GitHub with the repository team/repo.
type place struct {
	*githubtest.Server
	*reconcile.Forge
	t   *testing.T
	dir string // with a clone, and remote.git if the branches are those of a repository
}

// newPlace starts GitHub without a repository of git.
func newPlace(t *testing.T) *place {
	t.Helper()
	return placeAt(t, "")
}

func placeAt(t *testing.T, remote string) *place {
	t.Helper()
	p := &place{t: t, Server: &githubtest.Server{
		Repository: "team/repo",
		Remote:     remote,
		Tokens:     []string{token},
		Errorf:     t.Errorf,
		Check:      openapi.Check,
	}}
	p.Start()
	t.Cleanup(p.Close)
	p.connect(func(*transport.ForgeOptions) {})
	return p
}

// connect makes another adapter.
func (p *place) connect(change func(*transport.ForgeOptions)) {
	p.t.Helper()
	o := transport.ForgeOptions{
		Options:    transport.Options{Endpoint: p.URL(), Key: token},
		Repository: "team/repo",
		By:         "$TEAM_TOKEN",
		Renew:      "put a valid token into $TEAM_TOKEN",
	}
	change(&o)
	p.Forge = test.Must(Adapter(o))
}

// newRepository starts GitHub with a repository, where the branch work has a commit more than
// main.
func newRepository(t *testing.T) *place {
	t.Helper()
	dir := t.TempDir()
	p := placeAt(t, filepath.Join(dir, "remote.git"))
	p.dir = dir
	p.sh(
		"git init -q --bare -b main remote.git; git clone -q remote.git clone 2>&1; cd clone; git " +
			"commit -q --allow-empty -m one; " +
			"git push -q origin HEAD:main",
	)
	return p
}

// commit pushes a commit to a branch.
func (p *place) commit(branch string) string {
	p.t.Helper()
	return p.sh(
		"cd clone; git commit -q --allow-empty -m more; git push -q origin HEAD:" + branch + "; git rev-parse HEAD",
	)
}

func (p *place) sh(script string) string {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), "sh", "-ec", script)
	cmd.Dir = p.dir
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

// fail makes all requests fail.
func (p *place) fail(kind string) {
	p.t.Helper()
	test.OK(p.t, p.Fail(githubtest.Failure{Kind: kind, Times: -1}))
}

// wantError checks the code of an error and parts of its message and hint, and that no secret
// is in it.
func wantError(t *testing.T, err error, code string, parts ...string) {
	t.Helper()
	known, is := errors.AsType[*reconcile.Error](err)
	if !is || known.Code != code {
		t.Fatalf("error %v, want %s", err, code)
	}
	text := known.Message + "; " + known.Hint
	test.Contains(t, "the error", text, parts...)
	test.Lacks(t, "the error", fmt.Sprint(text, err, known.Err), token, githubtest.LogSignature)
}

func TestOpen(t *testing.T) {
	t.Parallel()
	p := newRepository(t)
	request := reconcile.NewPull{
		Branch: "work",
		Commit: p.commit("work"),
		Title:  "ABC-1: Work",
		Body:   "Text.",
	}
	want := func(want reconcile.OpenedPull) {
		t.Helper()
		want.By = "$TEAM_TOKEN"
		answer := test.Must(p.Open(t.Context(), request))
		test.Equal(t, "it has an id", answer.ID != "", want.URL != "")
		want.ID = answer.ID
		test.Equal(t, "answer", answer, want)
	}
	const first, second = "https://github.com/team/repo/pull/1", "https://github.com/team/repo/pull/2"
	want(reconcile.OpenedPull{URL: first, Opened: true})
	got := p.Pulls(t.Context())[0]
	test.Equal(t, "pull request", []string{got.State, got.Title, got.Body, got.Branch, got.Base, got.Commit},
		[]string{"open", "ABC-1: Work", "Text.", "work", "main", request.Commit})
	want(reconcile.OpenedPull{URL: first})
	// the list of GitHub is late
	test.OK(t, p.Fail(githubtest.Failure{Kind: githubtest.FailHideNext}))
	want(reconcile.OpenedPull{URL: first})

	// One that a person has merged or closed is not opened again until there are new commits.
	// That of a fork is another one.
	test.OK(t, p.End(t.Context(), 1))
	want(reconcile.OpenedPull{URL: first})
	request.Commit = p.commit("work")
	p.sh("git -C remote.git branch -m main trunk; git -C remote.git symbolic-ref HEAD refs/heads/trunk")
	want(reconcile.OpenedPull{URL: second, Opened: true})
	test.Equal(t, "renamed base", p.Pulls(t.Context())[1].Base, "trunk")
	test.OK(t, p.EditPull(t.Context(), 2, func(pull *githubtest.Pull) { pull.Foreign = true }))
	p.sh("git -C remote.git branch other trunk; git -C remote.git branch -f trunk work")
	request.Branch = "work"
	request.Base = "other"
	want(reconcile.OpenedPull{URL: "https://github.com/team/repo/pull/3", Opened: true})
	test.Equal(t, "the base of the workflow", p.Pulls(t.Context())[2].Base, "other")

	// Without commits that the base lacks there is nothing to request.
	p.sh("git -C remote.git branch merged trunk")
	request.Branch = "merged"
	request.Base = ""
	want(reconcile.OpenedPull{})
	p.connect(func(o *transport.ForgeOptions) { o.Endpoint += "/api/v3/" }) // as that of GitHub Enterprise
	want(reconcile.OpenedPull{})
	request.Branch = "unknown"
	wantError(
		t,
		test.Err(p.Open(t.Context(), request)),
		"forge_api_status",
		"GitHub answers 422: Validation Failed; head invalid",
	)
}

// Each call tells what is wrong, and what to do.
func TestForgeFailures(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string][]string{
		"bad-credentials": {
			"forge_api_status",
			"GitHub answers 401: Bad credentials; put a valid token into $TEAM_TOKEN",
		},
		"rate-limit":      {"forge_rate_limited", "GitHub accepts no more requests of this account until 20"},
		"secondary-limit": {"forge_rate_limited", "GitHub accepts no more requests of this account until 20"},
		"forbidden": {
			"",
			"Resource not accessible by personal access token",
			"; $TEAM_TOKEN needs the right to RIGHT of team/repo",
		},
		"not-found": {
			"forge_api_status",
			"GitHub answers 404: Not Found; ",
			"$TEAM_TOKEN needs the right to RIGHT of team/repo",
		},
		"down": {"forge_api_status", "GitHub answers 502: ", "; GitHub has an internal error"},
		"html": {
			"forge_unknown_payload",
			"the answer is no",
			"Welcome to another server</html>; check repository.api; ",
		},
		"close": {"forge_api_request", "; check the network and repository.api"},
		"cut":   {"forge_api_request", "read answer: unexpected EOF; check the network and repository.api"},
		"renamed": {
			reconcile.CodeForgeMoved,
			"GitHub has renamed or moved team/repo to ",
			"; set repository.url to the present address",
		},
	} {
		t.Run(kind, func(t *testing.T) {
			p := newPlace(t)
			test.Must(p.AddPull(githubtest.Pull{
				Title:  "T",
				Branch: "work",
				Base:   "main",
				Commit: "c0",
			}))
			p.SetChecks("c0", githubtest.Check{
				Workflow: "CI",
				Name:     "test",
				Run:      1,
				Job:      2,
				State:    "FAILURE",
				Log:      "log\n",
			})
			if kind == "renamed" {
				test.OK(t, p.Rename("team/repo", "team/other"))
			}
			ctx := t.Context()
			pull := reconcile.NewPull{Branch: "other", Title: "T"}
			for name, call := range map[string]func() error{
				"write pull requests, 1":           func() error { return test.Err(p.Open(ctx, pull)) },
				"read pull requests and checks, 2": func() error { return test.Err(p.Read(ctx, []int{1})) },
				"read pull requests and checks, 3": func() error { return test.Err(p.ReadChecks(ctx, "c0")) },
				"write pull requests, 2":           func() error { return p.Forge.Comment(ctx, 1, "m", "m") },
				"read the Actions":                 func() error { return test.Err(p.ReadLog(ctx, 2)) },
				"run the Actions":                  func() error { return p.Rerun(ctx, 1) },
			} {
				if kind == "html" && strings.Contains(name, "Actions") && name != "read the Actions" {
					continue // whatever the body is, it was accepted
				}
				p.connect(func(*transport.ForgeOptions) {})
				p.ClearFailures()
				if kind != "renamed" {
					p.fail(kind)
				}
				parts := slices.Clone(want[1:])
				right, _, _ := strings.Cut(name, ",")
				for i := range parts {
					parts[i] = strings.ReplaceAll(parts[i], "RIGHT", right)
				}
				code := want[0]
				if code == "" {
					code = "forge_graphql_errors"
					if strings.Contains(name, "Actions") {
						code = "forge_api_status"
					}
				}
				if kind == "html" && name == "read the Actions" {
					code = "forge_api_request"
					parts = []string{"the log of job 2 was not transferred: the answer 200 leads to no log"}
				}
				wantError(t, call(), code, parts...)
			}
		})
	}
	p := newPlace(t)
	p.Close()
	wantError(
		t,
		test.Err(p.Open(t.Context(), reconcile.NewPull{})),
		"forge_api_request",
		"connection refused",
	)
}

// A branch may have several open pull requests, with other bases. The one that the issue has
// had stays its own.
func TestOneOfSeveral(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, base := range []string{"release", "main", "other"} {
		test.Must(p.AddPull(githubtest.Pull{Title: "T", Branch: "work", Base: base, Commit: "c0"}))
	}
	open := func(base, known string) string {
		opened := test.Must(p.Open(t.Context(), reconcile.NewPull{
			Branch: "work",
			Commit: "c0",
			Base:   base,
			Known:  known,
		}))
		return strings.TrimPrefix(opened.URL, "https://github.com/team/repo/pull/")
	}
	pulls := test.Must(p.Read(t.Context(), []int{1, 2, 3}))
	test.Equal(t, "the newest", open("", ""), "3")
	test.Equal(t, "with the wanted base", open("main", ""), "2")
	test.Equal(t, "the known one", open("main", pulls[1].ID), "1")
	test.OK(t, p.End(t.Context(), 1))
	test.Equal(t, "the known one was closed", open("main", pulls[1].ID), "2")
}

func TestNumber(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for address, want := range map[string]string{
		"https://github.com/team/repo/pull/12":       "12 true",
		"https://ghe.example.com/Team/Repo/pull/1":   "1 true",
		"https://github.com/team/former/pull/12":     "12 false",
		"https://github.com/team/repo/pull/12/files": "0 false",
		"https://github.com/team/repo/issues/12":     "0 false",
		"https://github.com/team/repo/pull/-1":       "0 false",
		"":                                           "0 false",
	} {
		number, here := p.Number(address)
		test.Equal(t, address, fmt.Sprint(number, here), want)
	}
}

// A repository of the same name at another GitHub is another repository.
func TestNumberAtAnotherHost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ api, address, want string }{
		{"https://api.github.com", "https://github.com/team/repo/pull/12", "12 true"},
		{"https://api.github.com", "https://ghe.example.com/team/repo/pull/12", "12 false"},
		{"https://api.acme.ghe.com", "https://acme.ghe.com/team/repo/pull/12", "12 true"},
		{"https://ghe.example.com/api/v3", "https://ghe.example.com/team/repo/pull/12", "12 true"},
		{"https://ghe.example.com/api/v3", "https://github.com/team/repo/pull/12", "12 false"},
		{"https://github.com.proxy.example.com/", "https://github.com/team/repo/pull/12", "12 true"},
	} {
		forge := test.Must(Adapter(transport.ForgeOptions{
			Options:    transport.Options{Endpoint: c.api, Key: token},
			Repository: "team/repo",
		}))
		number, here := forge.Number(c.address)
		test.Equal(t, c.api+" "+c.address, fmt.Sprint(number, here), c.want)
	}
}

// The name of a repository may be a part of the addresses of pull requests.
func TestNumberInRepositoryCalledPull(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.connect(func(o *transport.ForgeOptions) { o.Repository = "pull/pull" })
	number, here := p.Number("https://github.com/pull/pull/pull/12")
	test.Equal(t, "number", fmt.Sprint(number, here), "12 true")
}

// A pull request without an address is none that was opened.
func TestOpenedWithoutAddress(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := "{}"
		if r.URL.Path == "/graphql" {
			answer = `{"data": {"repository": {"nameWithOwner": "team/repo", "pullRequests": {"nodes": []}}}}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(srv.Close)
	p := newPlace(t)
	p.connect(func(o *transport.ForgeOptions) { o.Endpoint = srv.URL })
	opened, err := p.Open(t.Context(), reconcile.NewPull{Branch: "work", Base: "main", Title: "Work"})
	wantError(t, err, "forge_unknown_payload", "no address")
	test.Equal(t, "opened", opened.Opened, false)
}

func TestComment(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	test.Must(p.AddPull(githubtest.Pull{Title: "T", Branch: "work", Base: "main", Commit: "c0"}))
	// of another account, which can't keep symphony from commenting
	test.Must(p.Server.Comment("1", "kim", "<!-- mark 1 -->"))
	for range 2 {
		test.OK(t, p.Forge.Comment(t.Context(), 1, "<!-- mark 1 -->", "Text. <!-- mark 1 -->"))
	}
	test.OK(t, p.Forge.Comment(t.Context(), 1, "<!-- mark 2 -->", "More. <!-- mark 2 -->"))
	test.Equal(
		t,
		"comments",
		test.Map(
			test.Must(p.Issue("1")).Comments,
			func(c githubtest.Comment) string { return c.Author + ": " + c.Body },
		),
		[]string{"kim: <!-- mark 1 -->", "ann: Text. <!-- mark 1 -->", "ann: More. <!-- mark 2 -->"},
	)
	err := p.Forge.Comment(t.Context(), 2, "m", "m")
	wantError(
		t,
		err,
		"forge_graphql_errors",
		"there is no pull request 2",
		"$TEAM_TOKEN needs the right to write pull requests of team/repo",
	)
	test.ErrorIs(t, "the error", err, reconcile.ErrGone)
}
