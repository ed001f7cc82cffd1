package operate

import (
	"context"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/requests"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile"
)

// Decision decides a request of an agent.
type Decision struct {
	single
	Request string // such as ABC-7.3
	requests.Decision
}

// Name implements Command.
func (c Decision) Name() reconcile.Verb {
	switch c.How {
	case reconcile.DecideDeny:
		return VerbDeny
	case reconcile.DecideAnswer:
		return VerbTell
	default:
		return VerbApprove
	}
}

// About implements Command.
func (c Decision) About(name string) Command {
	c.Request = name
	return c
}

func (c Decision) do(ctx context.Context, p *wiring.Project, _ passRunner) (Done, error) {
	decided, err := requests.Decide(ctx, p, c.Request, c.Decision)
	if err != nil {
		return Done{Result: Result{Verb: c.Name()}}, err
	}
	lines, note := requests.Describe(decided)
	if note != "" {
		lines = append(lines, note)
	}
	r := Result{
		Verb:    c.Name(),
		Applied: true,
		Effect:  lines,
	}
	return Done{r, requests.NewJSON(decided)}, nil
}
