package workflow

import "github.com/symphony-cron/symphony/reconcile"

// GitLabForge is GitLab, at gitlab.com and on servers of one's own.
var GitLabForge = ForgeKind{
	Name:      "gitlab",
	Title:     "GitLab",
	Words:     reconcile.MergeRequests,
	hosts:     []string{"gitlab.com"},
	gitHosts:  map[string]string{"altssh.gitlab.com": "gitlab.com"},
	TokenVars: []string{"GITLAB_TOKEN", "GITLAB_PAT", "GITLAB_ACCESS_TOKEN"},
	Rights:    "the scope api and the role Developer",
	MaxPulls:  10, // each takes nine requests and more
	groups:    true,
	apiPath:   "/api/v4",
}
