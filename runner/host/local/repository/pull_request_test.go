package repository

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/tracker/github/githubtest"
	"github.com/symphony-cron/symphony/tracker/github/githubtest/openapi"
)

const (
	token   = "github_pat_secretsecret"
	ghToken = "gho_secretsecret"
)

// hub is GitHub with the repository of a place.
type hub struct {
	*place
	*githubtest.Server
	request host.PullRequestRequest
}

// newHub pushes the branch work/one and returns a request for its pull request. gh, if it is installed, is not logged in there.
func newHub(t *testing.T) *hub {
	t.Helper()
	p := newPlace(t)
	p.mustClone("one")
	commit := p.commit("one", "two")
	p.mustDeliver("one", "")
	h := &hub{p, &githubtest.Server{
		Repository: "team/repo", Remote: p.remote, Tokens: []string{token, ghToken}, Errorf: t.Errorf, Check: openapi.Check,
	}, host.PullRequestRequest{}}
	h.Start()
	t.Cleanup(h.Close)
	h.request = host.PullRequestRequest{
		GitHub: host.GitHub{API: h.URL(), Repository: "team/repo", Token: token, TokenVar: "TEAM_TOKEN"},
		Branch: "work/one", Commit: commit, Title: "ABC-1: Work", Body: "Text.",
	}
	return h
}

// fail makes all requests fail.
func (h *hub) fail(kind string) {
	h.t.Helper()
	test.OK(h.t, h.Fail(githubtest.Failure{Kind: kind, Times: -1}))
}

func (h *hub) open() (host.PullRequestAnswer, error) {
	return h.mirror().OpenPullRequest(h.t.Context(), h.request)
}

func (h *hub) want(want host.PullRequestAnswer) {
	h.t.Helper()
	test.Equal(h.t, "answer", test.Must(h.open()), want)
}

func TestOpenPullRequest(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	h := newHub(t)
	const first, second = "https://github.com/team/repo/pull/1", "https://github.com/team/repo/pull/2"
	h.want(host.PullRequestAnswer{URL: first, Opened: true, By: "$TEAM_TOKEN"})
	test.Equal(t, "pull request", h.Pulls(t.Context())[0], githubtest.Pull{
		Number: 1, State: "open", Title: "ABC-1: Work", Body: "Text.", Branch: "work/one", Base: "main", From: token, Commit: h.request.Commit,
	})
	h.want(host.PullRequestAnswer{URL: first, By: "$TEAM_TOKEN"})
	h.fail(githubtest.FailHideNext) // the list of GitHub is late
	h.want(host.PullRequestAnswer{URL: first, By: "$TEAM_TOKEN"})

	// One that a person has merged or closed is not opened again until there are new commits.
	test.OK(t, h.End(t.Context(), 1))
	h.want(host.PullRequestAnswer{URL: first, By: "$TEAM_TOKEN"})
	before := h.request.Commit
	h.request.Commit = h.commit("one", "three")
	h.mustDeliver("one", before)
	h.sh("git -C remote.git branch -m main trunk")
	h.want(host.PullRequestAnswer{URL: second, Opened: true, By: "$TEAM_TOKEN"})
	all := h.Pulls(t.Context())
	test.Equal(t, "pull requests", len(all), 2)
	test.Equal(t, "renamed base", all[1].Base, "trunk")

	// Without commits that the base lacks there is nothing to request.
	test.OK(t, h.End(t.Context(), 2))
	h.sh("git -C remote.git branch -f trunk work/one; git -C remote.git branch merged trunk")
	h.request.Branch = "merged"
	h.want(host.PullRequestAnswer{By: "$TEAM_TOKEN"})

	h.request.GitHub.API += "/api/v3/" // as that of GitHub Enterprise
	h.want(host.PullRequestAnswer{By: "$TEAM_TOKEN"})
}

func TestGitHubRefuses(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	const rights = "; $TEAM_TOKEN needs the right to write pull requests of team/repo"
	for fail, want := range map[string]string{
		"bad-credentials": "GitHub answers 401 Bad credentials; put a valid token into $TEAM_TOKEN",
		"rate-limit":      "GitHub answers 403 API rate limit exceeded for user ID 1.; the rate is limited until 2033-05-18T03:33:20Z; passes try again",
		"secondary-limit": "GitHub answers 403 You have exceeded a secondary rate limit. Please wait a few minutes before you try again.; " +
			"the rate is limited; passes try again",
		"forbidden": "GitHub answers 403 Resource not accessible by personal access token" + rights,
		"not-found": "GitHub answers 404 Not Found; there is no such repository at URL, or" + strings.TrimPrefix(rights, ";"),
		"down":      "GitHub answers 502 Bad Gateway; passes try again",
		"html": "URL does not answer as GitHub's API does: invalid character '<' looking for beginning of value; " +
			"correct repository.api",
		"no head": "GitHub answers 422 Validation Failed; head invalid; passes try again",
	} {
		t.Run(fail, func(t *testing.T) {
			request := h.request
			defer func() { h.request = request }()
			switch fail {
			case "bad-credentials":
				h.request.GitHub.Token = "revoked"
			case "no head":
				h.request.Branch = "work/two"
			default:
				h.fail(fail)
				defer h.ClearFailures()
			}
			_, err := h.open()
			wantFault(t, err, host.CodeDeliveryFailed,
				h.request.Branch+" is pushed, but has no pull request: "+strings.ReplaceAll(want, "URL", h.URL()))
		})
	}
	h.Close()
	wantFault(t, test.Err(h.open()), host.CodeDeliveryFailed, "work/one is pushed, but has no pull request: "+h.URL()+" did not answer: ")
}

// TestGh opens a pull request with the real gh, which reaches GitHub by a proxy.
func TestGh(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	if _, err := exec.LookPath("gh"); err != nil {
		t.Skip("gh is not installed")
	}
	h := newHub(t)
	h.request.GitHub.API = "http://api.github.localhost"
	h.env = append(h.env, "HTTP_PROXY="+h.URL(), "CLICOLOR_FORCE=1", "GH_FORCE_TTY=100", "GH_DEBUG=api", "GH_REPO=other/repo")
	h.request.GitHub.Token = ""
	_, err := h.open()
	wantFault(t, err, host.CodeDeliveryFailed, "has no pull request: gh is not logged in to github.localhost (",
		", and WORKFLOW.md has no repository.token; run gh auth login --hostname github.localhost, or set repository.token")

	h.request.GitHub.Token = token
	h.sh("mkdir -p home/.config/gh; printf 'github.localhost:\\n    oauth_token: " + ghToken + "\\n    user: ann\\n' > home/.config/gh/hosts.yml")
	const url = "https://github.com/team/repo/pull/1"
	h.want(host.PullRequestAnswer{URL: url, Opened: true, By: "gh"})
	h.want(host.PullRequestAnswer{URL: url, By: "gh"})
	test.Equal(t, "pull request", h.Pulls(t.Context())[0], githubtest.Pull{
		Number: 1, State: "open", Title: "ABC-1: Work", Body: "Text.", Branch: "work/one", Base: "main", From: ghToken, Commit: h.request.Commit,
	})
	h.request.Branch, h.request.Commit = "work/two", "other"
	_, err = h.open()
	wantFault(t, err, host.CodeDeliveryFailed, "work/two is pushed, but has no pull request: GitHub answers 422 Validation Failed; head invalid")
	h.fail(githubtest.FailDown)
	h.request.GitHub.Token = ""
	wantFault(t, test.Err(h.open()), host.CodeDeliveryFailed, "gh is not logged in to github.localhost (") // gh itself asks GitHub
}
