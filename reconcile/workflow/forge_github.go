package workflow

import (
	"net/url"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
)

// GitHubForge is GitHub, and GitHub Enterprise at other hosts.
var GitHubForge = ForgeKind{
	Name:      "github",
	Title:     "GitHub",
	Words:     reconcile.PullRequests,
	hosts:     []string{"github.com", ".ghe.com"},
	gitHosts:  map[string]string{"ssh.github.com": "github.com"},
	TokenVars: []string{"GITHUB_TOKEN", "GH_TOKEN"},
	Gh:        true,
	apiPath:   "/api/v3",
	api: func(host string) string {
		if host == "github.com" || strings.HasSuffix(host, ".ghe.com") {
			return "https://api." + host
		}
		return "https://" + host + "/api/v3" // of GitHub Enterprise
	},
}

// GhHost returns the host of an API as gh names it: github.com for https://api.github.com.
func GhHost(api string) string {
	u, err := url.Parse(api)
	switch {
	case err != nil:
		return ""
	case strings.Trim(u.Path, "/") == "": // of Enterprise it is https://HOST/api/v3
		return strings.TrimPrefix(u.Host, "api.")
	}
	return u.Host
}

// GhTokenVar returns the variable from which gh takes a token for a host, as gh names it.
func GhTokenVar(host string) string {
	if host == "github.com" || host == "github.localhost" || strings.HasSuffix(host, ".ghe.com") {
		return "GH_TOKEN"
	}
	return "GH_ENTERPRISE_TOKEN"
}
