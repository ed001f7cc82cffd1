package local

import (
	"context"
	"path/filepath"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/git"
	"github.com/symphony-cron/symphony/runner/host/local/repository"
)

// codeCheckout is the code of an error that the commit of a workspace can't be checked out.
const codeCheckout = "checkout_failed"

// CheckOut implements host.Run.
func (r *run) CheckOut(ctx context.Context, q host.CheckOutRequest) (answer host.CheckOutAnswer, err error) {
	if err := r.Verify(ctx); err != nil {
		return answer, err
	}
	answer.Space, err = r.space.MakeCheckout(ctx)
	if err != nil {
		return answer, err
	}
	origin := r.space.Origin()
	from := q.Repository
	from.URL = origin.URL
	m := r.mirror(from, q.Env)
	to := repository.Checkout{Dir: answer.Space.Path, Commit: q.Commit, Branch: q.Branch}
	checkOut := func(ctx context.Context) (struct{}, error) {
		return struct{}{}, m.CheckOut(ctx, r.space.Path, origin, to)
	}
	_, err = host.Within(ctx, q.Timeout, codeCheckout, "the checkout", checkOut)
	if err != nil && ctx.Err() == nil {
		return answer, &reconcile.Error{
			Code:    codeCheckout,
			Message: "check out " + q.Commit + ": " + err.Error(),
			Err:     err,
		}
	}
	if err != nil {
		return answer, err
	}
	work := r.space.Clone()
	if origin.Commit != "" {
		work.Commit = q.Commit
		work.Objects = []string{
			filepath.Join(answer.Space.Path, ".git", "objects"),
			filepath.Join(m.Path(), "objects"),
		}
	}
	answer.Proof, err = git.ChangedProof(ctx, r.space.Path, work, q.Verify)
	return answer, err
}
