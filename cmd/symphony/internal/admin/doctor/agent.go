package doctor

import (
	"cmp"
	"context"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// onlyCodex returns a check that is left out if agents are not codex.
func onlyCodex(
	run func(context.Context, *environment) []finding,
) func(context.Context, *environment) []finding {
	return func(ctx context.Context, e *environment) []finding {
		if e.config.Agent.Kind != workflow.AgentCodex {
			return nil
		}
		return run(ctx, e)
	}
}

// checkOther finds an agent that is not codex as a worker does, and starts it.
func checkOther(ctx context.Context, e *environment) []finding {
	if e.config.Agent.Kind == workflow.AgentCodex {
		return nil
	}
	kind, err := wiring.AgentOf(e.config.Agent.Kind)
	if err != nil {
		return failWith(err)
	}
	path := ""
	if found := programWord().FindStringSubmatch(e.config.Codex.Command); found != nil {
		path, err = e.program(ctx, found[1])
		if err != nil {
			return failWith(err)
		}
		if path == "" {
			return fail(
				"not found: bash -lc does not find "+found[1],
				kind.Install+", or write its path into "+kind.CommandKey,
			)
		}
		path = ", " + path
	}
	i, err := e.agent()
	if err != nil {
		return failWith(err)
	}
	return ok("%s %s%s, without a sandbox", kind.Name, cmp.Or(i.Server.Version, "of unknown version"), path)
}
