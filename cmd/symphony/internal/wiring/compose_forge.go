package wiring

import (
	"context"

	"github.com/symphony-cron/symphony/forge/github"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host"
)

// NewForge returns a function that builds the adapter to the pull requests of a configuration;
// nil if the configuration wants none. It uses the token of gh, if gh is logged in in the
// given environment, otherwise the token of the workflow. The memory may be nil.
func NewForge(
	p *Project,
	cfg *workflow.Config,
	memory reconcile.TrackerMemory,
) func(context.Context, []string) (*reconcile.Forge, error) {
	r := cfg.Repository
	if !r.OpensPullRequests() {
		return nil
	}
	login := "run gh auth login --hostname " + host.GhHost(r.API)
	return func(ctx context.Context, env []string) (*reconcile.Forge, error) {
		o := github.Options{
			Options:    transport.Options{Endpoint: r.API, Now: p.Env.Now},
			Repository: r.OwnerName,
			By:         "gh",
			Renew:      login,
			Memory:     memory,
		}
		token, err := askGh(ctx, r.API, env)
		o.Key = token
		if err != nil {
			o.Key = r.Token.Reveal()
			o.By = "$" + r.TokenVar
			o.Renew = "put a valid token into $" + r.TokenVar
		}
		if o.Key == "" {
			return nil, reconcile.NewError(
				"forge_login",
				err.Error()+", and WORKFLOW.md has no repository.token",
				login+", or set repository.token",
			)
		}
		return github.Adapter(o)
	}
}
