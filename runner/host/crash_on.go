//go:build crashpoints

package host

import (
	"context"

	"github.com/symphony-cron/symphony/reconcile/crash"
)

// WithCrashPoints puts points before and after each call that changes something on the machine.
func WithCrashPoints(h Host) Host { return crashing{h} }

type crashing struct{ Host }

func (c crashing) Prepare(ctx context.Context, r PrepareRequest) (PrepareAnswer, error) {
	return crash.Around("host.Prepare", func() (PrepareAnswer, error) { return c.Host.Prepare(ctx, r) })
}

func (c crashing) Open(ctx context.Context, r Run) error {
	return crash.AroundErr("host.Open", func() error { return c.Host.Open(ctx, r) })
}

func (c crashing) Confirm(ctx context.Context, r ConfirmRequest) error {
	return crash.AroundErr("host.Confirm", func() error { return c.Host.Confirm(ctx, r) })
}

func (c crashing) Clone(ctx context.Context, r CloneRequest) (CloneAnswer, error) {
	return crash.Around("host.Clone", func() (CloneAnswer, error) { return c.Host.Clone(ctx, r) })
}

func (c crashing) Deliver(ctx context.Context, r DeliverRequest) (DeliverAnswer, error) {
	return crash.Around("host.Deliver", func() (DeliverAnswer, error) { return c.Host.Deliver(ctx, r) })
}

func (c crashing) OpenPullRequest(ctx context.Context, r PullRequestRequest) (PullRequestAnswer, error) {
	return crash.Around("host.OpenPullRequest", func() (PullRequestAnswer, error) { return c.Host.OpenPullRequest(ctx, r) })
}

func (c crashing) RunHook(ctx context.Context, r HookRequest) (HookAnswer, error) {
	return crash.Around("host.RunHook", func() (HookAnswer, error) { return c.Host.RunHook(ctx, r) })
}

func (c crashing) GuardGit(ctx context.Context, r GuardGitRequest) error {
	return crash.AroundErr("host.GuardGit", func() error { return c.Host.GuardGit(ctx, r) })
}

func (c crashing) RestoreGit(ctx context.Context, r Run) (GitRestored, error) {
	return crash.Around("host.RestoreGit", func() (GitRestored, error) { return c.Host.RestoreGit(ctx, r) })
}

func (c crashing) Start(ctx context.Context, r StartRequest) (Process, error) {
	return crash.Around("host.Start", func() (Process, error) { return c.Host.Start(ctx, r) })
}

func (c crashing) Kill(ctx context.Context, r KillRequest) (KillAnswer, error) {
	return crash.Around("host.Kill", func() (KillAnswer, error) { return c.Host.Kill(ctx, r) })
}

func (c crashing) Finish(ctx context.Context, r Run) error {
	return crash.AroundErr("host.Finish", func() error { return c.Host.Finish(ctx, r) })
}

func (c crashing) PrepareRemoval(ctx context.Context, r RemovalRequest) (RemovalAnswer, error) {
	return crash.Around("host.PrepareRemoval", func() (RemovalAnswer, error) { return c.Host.PrepareRemoval(ctx, r) })
}

func (c crashing) Remove(ctx context.Context, r Run) (RemoveAnswer, error) {
	return crash.Around("host.Remove", func() (RemoveAnswer, error) { return c.Host.Remove(ctx, r) })
}

func (c crashing) Purge(ctx context.Context, r RootRequest) (PurgeAnswer, error) {
	return crash.Around("host.Purge", func() (PurgeAnswer, error) { return c.Host.Purge(ctx, r) })
}
