package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/reconcile"
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
	a, err := project.AskHost(ctx, e.p, name)
	own := strings.HasPrefix(e.config.Codex.Command, "codex ") // another program may be a codex, too
	repository := e.config.Repository
	switch {
	case err != nil:
		known := exit.From(err)
		return fail(known.Error(), known.Hint)
	case reconcile.IsEngine(name):
		return ok("%s answers within %v; what its machines have was not examined", name, a.Latency.Round(100*time.Millisecond))
	case own && a.Codex == "":
		return fail(name+": a login shell does not find codex", "install it there: npm install -g @openai/codex; then run codex login there")
	case own && strings.HasPrefix(a.Login, "Not logged in"):
		return warn(name+": codex is not logged in", "run codex login there, unless its model provider needs no login")
	case a.Git == "" && repository.URL != "":
		return fail(name+": a login shell does not find git, with which workspaces are cloned", "install it there")
	case repository.URL != "" && a.Author == "" && (repository.Name == "" || repository.Email == ""):
		return fail(name+": git does not know an author for the agents' commits",
			"set repository.git_name and repository.git_email, or user.name and user.email with git config --global there")
	case a.Git == "":
		return warn(name+": a login shell does not find git", "install it there, unless hooks and agents need none")
	}
	codex := ""
	if own {
		codex = "codex " + a.Codex + ", "
	}
	return ok("%s", fmt.Sprintf("%s: %sgit %s, answers within %v", name, codex, a.Git, a.Latency.Round(100*time.Millisecond)))
}
