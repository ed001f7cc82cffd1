package agents

import (
	"context"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/requests"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/reconcile"
)

// Requests returns the undecided requests of live agents, oldest first.
func (a *Agents) Requests(ctx context.Context) ([]reconcile.Request, error) {
	return view.OpenRequests(ctx, a.p, a.DB)
}

// Decide records a decision about a request such as one.3. The first decision counts: the error of a later one has the code request_ended.
func (a *Agents) Decide(ctx context.Context, id string, d requests.Decision) (reconcile.Request, error) {
	if err := a.p.Nested(); err != nil {
		return reconcile.Request{}, err // an agent must not answer its own requests
	}
	return requests.DecideIn(ctx, a.p, a.DB, id, d)
}
