package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/git"
	"github.com/symphony-cron/symphony/runner/host/local/repository"
	"github.com/symphony-cron/symphony/runner/host/local/tree"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
)

// Clone implements host.Run.
func (r *run) Clone(ctx context.Context, q host.CloneRequest) (answer host.CloneAnswer, err error) {
	defer func() { err = host.WithCode(err) }()
	if err := r.Verify(ctx); err != nil {
		return answer, err
	}
	m := r.mirror(q.Repository, q.Env)
	return within(ctx, q.Timeout, host.CodeRepositoryUnavailable, "the clone", func(ctx context.Context) (host.CloneAnswer, error) {
		answer, err := m.Clone(ctx, r.space.Path, q.Branch, q.Delivered)
		if err == nil {
			err = r.space.SetOrigin(workspace.Origin{URL: q.Repository.URL, Commit: answer.BaseCommit})
		}
		return answer, err
	})
}

// Deliver implements host.Run.
func (r *run) Deliver(ctx context.Context, q host.DeliverRequest) (answer host.DeliverAnswer, err error) {
	defer func() { err = host.WithCode(err) }()
	if err := r.Verify(ctx); err != nil {
		return answer, err
	}
	m := r.mirror(q.Repository, q.Env)
	return within(ctx, q.Timeout, host.CodeDeliveryFailed, "the delivery", func(ctx context.Context) (host.DeliverAnswer, error) {
		origin := r.space.Origin()
		if origin.URL == q.Repository.URL {
			return m.Deliver(ctx, r.space.Path, q.Branch, q.Delivered)
		}
		head, err := git.HeadOf(r.space.Path)
		if err == nil && head.Commit != "" && (head.Commit == origin.Commit || head.Commit == q.Delivered) { // there is nothing to deliver
			return host.DeliverAnswer{Commit: head.Commit}, nil
		}
		if err := m.Contains(ctx, origin.URL, origin.Commit); err != nil {
			return host.DeliverAnswer{}, err
		}
		answer, err := m.Deliver(ctx, r.space.Path, q.Branch, q.Delivered)
		if err == nil && origin.URL != "" {
			err = r.space.SetOrigin(workspace.Origin{URL: q.Repository.URL, Commit: origin.Commit})
		}
		return answer, err
	})
}

// OpenPullRequest implements host.Run.
func (r *run) OpenPullRequest(ctx context.Context, q host.PullRequestRequest) (answer host.PullRequestAnswer, err error) {
	defer func() { err = host.WithCode(err) }()
	if err := r.held(); err != nil {
		return answer, err
	}
	m := r.mirror(q.Repository, q.Env)
	return within(ctx, q.Timeout, host.CodeDeliveryFailed, "the pull request", func(ctx context.Context) (host.PullRequestAnswer, error) {
		return m.OpenPullRequest(ctx, q)
	})
}

// mirror returns the mirror of a repository. Its git commands are marked as processes of the run. They do not use the caches and
// temporary files of the workspace, where an agent could have left a socket of a credential helper.
func (r *run) mirror(remote host.Repository, env []string) *repository.Mirror {
	env = repository.Environ(host.Scrub(env), func(_, value string) bool { return paths.Inside(r.space.WorkDir(), value) })
	inherit := func(files ...*os.File) []*os.File {
		return tree.ExtraFiles(r.tree, append([]*os.File{r.space.Lease()}, files...)...)
	}
	return repository.New(r.space.MirrorsDir(), remote, append(env, host.RunMark+"="+r.id), inherit)
}

// within calls f with a limit on its time. The error tells whether the limit was reached or ctx has ended.
func within[A any](ctx context.Context, limit time.Duration, code, what string, f func(context.Context) (A, error)) (A, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := f(limited)
	switch {
	case err == nil || limited.Err() == nil:
	case ctx.Err() != nil:
		err = fmt.Errorf("%s: %w", what, ctx.Err())
	default:
		known := &reconcile.Error{Message: err.Error()}
		_ = errors.As(err, &known)
		err = &reconcile.Error{Code: code, Hint: known.Hint, Message: fmt.Sprintf(
			"%s took longer than %s: %s", what, text.Took(limit.Milliseconds()), known.Message)}
	}
	return answer, err
}
