package workflow

import (
	"slices"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

func TestGitHubAt(t *testing.T) {
	for address, want := range map[string][2]string{
		"git@github.com:acme/shop.git":                    {"https://api.github.com", "acme/shop"},
		"https://GitHub.com/acme/shop":                    {"https://api.github.com", "acme/shop"},
		"https://me@github.com/acme/shop.git/":            {"https://api.github.com", "acme/shop"},
		"ssh://git@ssh.github.com:443/acme/shop.git":      {"https://api.github.com", "acme/shop"},
		"git@acme.ghe.com:acme/my.shop.git":               {"https://api.acme.ghe.com", "acme/my.shop"},
		"git.example.com:acme/shop":                       {"https://git.example.com/api/v3", "acme/shop"},
		"https://github.example.com:8443/acme/shop.git":   {"https://github.example.com:8443/api/v3", "acme/shop"},
		"ssh://git@github.example.com:2222/acme/shop.git": {"https://github.example.com/api/v3", "acme/shop"},
		"/srv/git/shop.git":                               {"", "git/shop"},
		"":                                                {"", ""},
	} {
		api, name := GitHubForge.At(address)
		test.Equal(t, address+": API and name", []any{api, name}, []any{want[0], want[1]})
	}
}

// A free run has no workflow, so its agent gets the token of no forge, also of one that is no
// tracker.
func TestEveryKeyVarOfForgeOnly(t *testing.T) {
	known := forges
	t.Cleanup(func() { forges = known })
	forges = append(slices.Clone(known), ForgeKind{Name: "forgeonly", TokenVars: []string{"FORGEONLY_PAT"}})
	if !slices.Contains(EveryKeyVar(), "FORGEONLY_PAT") {
		t.Errorf("the variables are %v", EveryKeyVar())
	}
}
