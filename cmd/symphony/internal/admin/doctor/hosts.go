package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// checkHosts asks each machine on which agents work.
func checkHosts(ctx context.Context, e *environment) []finding {
	hosts := e.config.Policy.Hosts
	list := make([][]finding, len(hosts))
	var asked sync.WaitGroup
	for i, name := range hosts {
		asked.Go(func() { list[i] = e.checkHost(ctx, name) })
	}
	asked.Wait()
	return slices.Concat(list...)
}

func (e *environment) checkHost(ctx context.Context, name string) []finding {
	a, err := wiring.AskHost(ctx, e.p, name)
	// another program may be one, too
	kind := wiring.DefaultAgent()
	own := strings.HasPrefix(e.config.Chosen.Command, kind.Name+" ")
	repository := e.config.Repository
	switch {
	case err != nil:
		known := exit.From(err)
		return fail(known.Error(), known.Hint)
	case workflow.IsEngine(name):
		return ok(
			"%s answers within %v; what its machines have was not examined",
			name,
			a.Latency.Round(100*time.Millisecond),
		)
	case a.NoRoot != "":
		return fail(fmt.Sprintf("%s: worker.root can't be made or written: %s", name, a.NoRoot),
			"correct worker.root, or the directory there")
	case own && a.Agent == "":
		return fail(
			name+": a login shell does not find "+kind.Title,
			"install it there: npm install -g "+kind.Package+"; then run "+kind.LogIn+" there",
		)
	case own && strings.HasPrefix(a.Login, "Not logged in"):
		return warn(
			name+": "+kind.Title+" is not logged in",
			"run "+kind.LogIn+" there, unless its model provider needs no login",
		)
	case a.Git == "" && repository.URL != "":
		return fail(
			name+": a login shell does not find git, which clones workspaces",
			"install it there",
		)
	case repository.URL != "" && a.Author == "" && (repository.Name == "" || repository.Email == ""):
		return fail(
			name+": git does not know an author for the agents' commits",
			"set repository.git_name and repository.git_email, or user.name and user.email with git "+
				"config --global there",
		)
	case a.Git == "":
		return warn(
			name+": a login shell does not find git",
			"install it there, unless hooks and agents need none",
		)
	}
	latency := a.Latency.Round(100 * time.Millisecond)
	if own {
		return ok("%s: %s %s, git %s, answers within %v", name, kind.Title, a.Agent, a.Git, latency)
	}
	return ok("%s: git %s, answers within %v", name, a.Git, latency)
}
