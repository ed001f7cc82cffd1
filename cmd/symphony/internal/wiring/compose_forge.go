package wiring

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/symphony-cron/symphony/forge/gitea"
	"github.com/symphony-cron/symphony/forge/github"
	"github.com/symphony-cron/symphony/forge/gitlab"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// forgeAdapters builds the adapter to each kind of forge, by the name of its row in package
// workflow.
var forgeAdapters = map[string]func(transport.ForgeOptions) (*reconcile.Forge, error){
	workflow.GitHubForge.Name: github.Adapter,
	workflow.GiteaForge.Name:  gitea.Adapter,
	workflow.GitLabForge.Name: gitlab.Adapter,
}

// NewForge returns a function that builds the adapter to the pull requests of a configuration;
// nil if the configuration wants none. It uses the token of gh, if people log in to the forge
// with gh and are logged in in the given environment, otherwise the token of the workflow. The
// memory may be nil.
func NewForge(
	p *Project,
	cfg *workflow.Config,
	memory reconcile.TrackerMemory,
) func(context.Context, []string) (*reconcile.Forge, error) {
	r := cfg.Repository
	if !r.OpensPullRequests() {
		return nil
	}
	return func(ctx context.Context, env []string) (*reconcile.Forge, error) {
		login, err := findForgeLogin(ctx, r, env)
		if err != nil {
			return nil, err
		}
		name, renamed, err := presentName(ctx, r.OwnerName, memory)
		if err != nil {
			return nil, err
		}
		if name != r.OwnerName {
			p.Env.Warn(fmt.Sprintf("the repository %s is now called %s: correct repository.url", r.OwnerName, name))
		}
		return forgeAdapters[r.ForgeKind().Name](transport.ForgeOptions{
			Options: transport.Options{
				Endpoint: r.API,
				Key:      login.token,
				CAFile:   cfg.Tracker.CAFile,
				Now:      p.Env.Now,
			},
			Repository: name,
			By:         login.by,
			Renew:      login.renew,
			Memory:     memory,
			Renamed:    renamed,
		})
	}
}

// presentName returns the name of a repository on its forge, as an earlier request has learnt it,
// and what notes the name that a later one learns.
func presentName(
	ctx context.Context,
	name string,
	memory reconcile.TrackerMemory,
) (present string, renamed func(string), err error) {
	if memory == nil {
		return name, nil, nil
	}
	key := "forge_name:" + name
	present, _, err = memory.Meta(ctx, key)
	renamed = func(now string) {
		_ = memory.SetMeta(context.WithoutCancel(ctx), key, now) // otherwise the next pass learns it
	}
	return cmp.Or(present, name), renamed, err
}

// forgeLogin is a token for a forge.
type forgeLogin struct {
	token string
	by    string // where it comes from: gh, or $ and the name of a variable
	renew string // what to do if the forge does not accept it
}

// findForgeLogin returns the token of gh, or else of the workflow.
func findForgeLogin(ctx context.Context, r workflow.Repository, env []string) (forgeLogin, error) {
	const set = "set repository.token"
	missing := errors.New(r.ForgeKind().Title + " needs a token")
	lacking := "WORKFLOW.md has no repository.token"
	hint := set + " to a variable with a token"
	if r.TokenVar != "" { // only doctor gets here: others refuse the workflow
		lacking = "the variable " + r.TokenVar + " is empty"
		hint = "put into the environment file, as " + r.TokenVar + ", a token"
	}
	if r.ForgeKind().Rights != "" {
		hint += " that has " + r.ForgeKind().Rights
	}
	if r.ForgeKind().Gh {
		login := "run gh auth login --hostname " + workflow.GhHost(r.API)
		token, err := askGh(ctx, r.API, env)
		if err == nil {
			return forgeLogin{token: token, by: "gh", renew: login}, nil
		}
		missing = err
		hint = login + ", or " + set
	}
	if r.Token == "" {
		return forgeLogin{}, reconcile.NewError(
			"forge_login",
			missing.Error()+", and "+lacking,
			hint,
		)
	}
	return forgeLogin{
		token: r.Token.Reveal(),
		by:    "$" + r.TokenVar,
		renew: "put a valid token into $" + r.TokenVar,
	}, nil
}
