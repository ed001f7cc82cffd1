//go:build crashpoints

package host

import (
	"context"

	"github.com/symphony-cron/symphony/reconcile/crash"
)

// WithCrashPoints puts points before and after each call that changes something on the
// machine.
func WithCrashPoints(m Machine) Machine { return crashingMachine{m} }

type crashingMachine struct{ Machine }

func (c crashingMachine) Run(id string) Run { return crashingRun{c.Machine.Run(id)} }

func (c crashingMachine) Purge(ctx context.Context, t ProjectTrash) (PurgeAnswer, error) {
	return crash.Around("host.Purge", func() (PurgeAnswer, error) { return c.Machine.Purge(ctx, t) })
}

func (c crashingMachine) KeepEnd(ctx context.Context, dir string) (*WorkEnd, error) {
	return crash.Around("host.KeepEnd", func() (*WorkEnd, error) { return c.Machine.KeepEnd(ctx, dir) })
}

type crashingRun struct{ Run }

func (c crashingRun) Prepare(ctx context.Context, r PrepareRequest) (PrepareAnswer, error) {
	return crash.Around("host.Prepare", func() (PrepareAnswer, error) { return c.Run.Prepare(ctx, r) })
}

func (c crashingRun) Open(ctx context.Context) error {
	return crash.AroundErr("host.Open", func() error { return c.Run.Open(ctx) })
}

func (c crashingRun) Confirm(ctx context.Context, r ConfirmRequest) error {
	return crash.AroundErr("host.Confirm", func() error { return c.Run.Confirm(ctx, r) })
}

func (c crashingRun) Discard(ctx context.Context) error {
	return crash.AroundErr("host.Discard", func() error { return c.Run.Discard(ctx) })
}

func (c crashingRun) MakeHome(ctx context.Context, r HomeRequest) error {
	return crash.AroundErr("host.MakeHome", func() error { return c.Run.MakeHome(ctx, r) })
}

func (c crashingRun) Clone(ctx context.Context, r CloneRequest) (CloneAnswer, error) {
	return crash.Around("host.Clone", func() (CloneAnswer, error) { return c.Run.Clone(ctx, r) })
}

func (c crashingRun) Fetch(ctx context.Context, r CloneRequest) (FetchAnswer, error) {
	return crash.Around("host.Fetch", func() (FetchAnswer, error) { return c.Run.Fetch(ctx, r) })
}

func (c crashingRun) Deliver(ctx context.Context, r DeliverRequest) (DeliverAnswer, error) {
	return crash.Around("host.Deliver", func() (DeliverAnswer, error) { return c.Run.Deliver(ctx, r) })
}

func (c crashingRun) Keep(ctx context.Context, r KeepRequest) (string, error) {
	return crash.Around("host.Keep", func() (string, error) { return c.Run.Keep(ctx, r) })
}

func (c crashingRun) Forget(ctx context.Context, r KeepRequest) error {
	return crash.AroundErr("host.Forget", func() error { return c.Run.Forget(ctx, r) })
}

func (c crashingRun) CheckOut(ctx context.Context, r CheckOutRequest) (CheckOutAnswer, error) {
	return crash.Around("host.CheckOut", func() (CheckOutAnswer, error) { return c.Run.CheckOut(ctx, r) })
}

func (c crashingRun) RunHook(ctx context.Context, r HookRequest) (HookAnswer, error) {
	return crash.Around("host.RunHook", func() (HookAnswer, error) { return c.Run.RunHook(ctx, r) })
}

func (c crashingRun) GuardGit(ctx context.Context, r GuardGitRequest) error {
	return crash.AroundErr("host.GuardGit", func() error { return c.Run.GuardGit(ctx, r) })
}

func (c crashingRun) RestoreGit(ctx context.Context) (GitRestored, error) {
	return crash.Around("host.RestoreGit", func() (GitRestored, error) { return c.Run.RestoreGit(ctx) })
}

func (c crashingRun) Start(ctx context.Context, r StartRequest) (Process, error) {
	return crash.Around("host.Start", func() (Process, error) { return c.Run.Start(ctx, r) })
}

func (c crashingRun) Kill(ctx context.Context, r KillRequest) (LeftAnswer, error) {
	return crash.Around("host.Kill", func() (LeftAnswer, error) { return c.Run.Kill(ctx, r) })
}

func (c crashingRun) Finish(ctx context.Context) error {
	return crash.AroundErr("host.Finish", func() error { return c.Run.Finish(ctx) })
}

func (c crashingRun) PrepareRemoval(ctx context.Context, r RemovalRequest) (RemovalAnswer, error) {
	return crash.Around(
		"host.PrepareRemoval",
		func() (RemovalAnswer, error) { return c.Run.PrepareRemoval(ctx, r) },
	)
}

func (c crashingRun) Remove(ctx context.Context) (RemoveAnswer, error) {
	return crash.Around("host.Remove", func() (RemoveAnswer, error) { return c.Run.Remove(ctx) })
}
