package workflow

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

func TestPullRequestAPI(t *testing.T) {
	for address, want := range map[string][2]string{
		"git@github.com:team/repo.git":               {"https://api.github.com", "team/repo"},
		"https://GitHub.com/team/repo":               {"https://api.github.com", "team/repo"},
		"https://me@github.com/team/repo.git/":       {"https://api.github.com", "team/repo"},
		"ssh://git@ssh.github.com:443/team/repo.git": {"https://api.github.com", "team/repo"},
		"git@team.ghe.com:team/my.repo.git":          {"https://api.team.ghe.com", "team/my.repo"},
		"ssh://git@git.example.com:2222/team/repo":   {"https://git.example.com/api/v3", "team/repo"},
		"https://git.example.com:8443/team/repo.git": {"https://git.example.com:8443/api/v3", "team/repo"},
		"git.example.com:team/repo":                  {"https://git.example.com/api/v3", "team/repo"},
	} {
		src := source(t, "---\ntracker: {kind: linear, project_slug: demo, api_key: $TEAM_KEY}\n"+
			"repository: {url: '"+address+"', deliver: pull-request}\n---\n")
		cfg := test.Must(Parse(src, testEnv()))
		test.Equal(t, address, [2]string{cfg.Repository.API, cfg.Repository.OwnerName}, want)
	}
}

func TestOnGitHub(t *testing.T) {
	for address, want := range map[string][2]string{
		"git@github.com:acme/shop.git":                    {"https://api.github.com", "acme/shop"},
		"https://github.com/acme/shop":                    {"https://api.github.com", "acme/shop"},
		"ssh://git@ssh.github.com:443/acme/shop.git":      {"https://api.github.com", "acme/shop"},
		"git@acme.ghe.com:acme/shop.git":                  {"https://api.acme.ghe.com", "acme/shop"},
		"https://github.example.com:8443/acme/shop.git":   {"https://github.example.com:8443/api/v3", "acme/shop"},
		"ssh://git@github.example.com:2222/acme/shop.git": {"https://github.example.com/api/v3", "acme/shop"},
		"/srv/git/shop.git":                               {"", "git/shop"},
		"":                                                {"", ""},
	} {
		if api, name := OnGitHub(address); api != want[0] || name != want[1] {
			t.Errorf("%s: %q %q", address, api, name)
		}
	}
}
