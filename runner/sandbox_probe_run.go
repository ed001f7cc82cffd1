package runner

import (
	"context"
	"errors"
	"log/slog"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/codex"
)

// trySandbox finds out before the first turn, and so before a token is spent, whether codex can sandbox commands here.
// What has worked is not tried again: codex, the machine and the kind of policy decide, and of the workspace what its
// hooks have made of it. What changes later shows in the first command.
func (a *attempt) trySandbox(ctx context.Context, version string) error {
	policy, err := a.Config.sandboxPolicy(a.space)
	if err != nil || !codex.Confines(policy) {
		return err
	}
	with := triedWith(version)
	if known, _, err := a.Journal.Meta(ctx, triedKey(policy)); err != nil || with != "" && known == with && !a.space.CreatedNow {
		return err
	}
	err = TrySandbox(ctx, a.agent.session, policy, a.space.Path, a.Dir)
	switch {
	case errors.Is(err, codex.ErrNoProbe):
		a.Log.LogAttrs(ctx, slog.LevelInfo, "sandbox not tried, the first command will tell", slog.String("error", err.Error()))
		return nil
	case err != nil:
		a.tellWaysOut(ctx, err)
		return err
	case with != "":
		a.noteSandbox(ctx, policy, with)
	}
	return nil
}

// tellWaysOut puts the hint of an error into the worker's log; the run keeps only code and message.
func (a *attempt) tellWaysOut(ctx context.Context, err error) {
	var known *reconcile.Error
	if errors.As(err, &known) {
		a.Log.LogAttrs(ctx, slog.LevelWarn, known.Message, slog.String("code", known.Code), slog.String("hint", known.Hint))
	}
}
