package workflow

import "github.com/symphony-cron/symphony/reconcile"

// GiteaForge is Gitea, and Forgejo, which has its API.
var GiteaForge = ForgeKind{
	Name:      "gitea",
	Title:     "Gitea",
	Words:     reconcile.PullRequests,
	hosts:     []string{"gitea.com", "codeberg.org"},
	TokenVars: []string{"GITEA_TOKEN", "FORGEJO_TOKEN"},
	Rights:    "the scopes write:repository, write:issue and read:user",
	MaxPulls:  20, // each takes four requests and more
	apiPath:   "/api/v1",
}
