package repository

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
)

// check runs the operator's check on the commits that are to be pushed, such as a search for secrets. It
// reads them in the mirror: no file of the workspace takes part, and no setting of it.
func (d *delivery) check(ctx context.Context, q host.Check) error {
	if q.Script == "" {
		return nil
	}
	base, err := d.output(d.localGit(ctx, "rev-parse", "--verify", "refs/heads/"+d.base))
	if err != nil {
		return d.failed(host.CodeDeliveryFailed, "find the base for repository.check", err)
	}
	late := fmt.Errorf("it has not ended within %s", text.Took(q.Timeout.Milliseconds()))
	ctx, cancel := context.WithTimeoutCause(ctx, q.Timeout, late)
	defer cancel()
	cmd := gitcmd.Shell(ctx, filepath.Dir(d.path), q.Env, q.Script)
	cmd.ExtraFiles = d.inherit()
	cmd = withDir(cmd, d.path, "")
	cmd.Env = append(cmd.Env,
		"SYMPHONY_BASE="+base,
		"SYMPHONY_HEAD="+d.Commit,
		"SYMPHONY_RANGE="+base+".."+d.Commit,
	)
	err = gitcmd.Run(cmd, gitcmd.NoLimit)
	if err == nil {
		return nil
	}
	if errors.Is(context.Cause(ctx), late) {
		return notChecked(late)
	}
	said, ok := errors.AsType[host.GitError](err)
	exit, hasEnded := errors.AsType[*exec.ExitError](err)
	// a shell ends with 126 or 127 if it can't start the program
	if !ok || !hasEnded || !exit.Exited() || exit.ExitCode() >= cannotStart {
		return notChecked(err)
	}
	lines := said.Lines
	if len(lines) == 0 {
		lines = []string{exit.Error()}
	}
	return refusal("repository.check", lines)
}

// cannotStart is the lowest exit code of a shell that could not start a program, or whose program was ended
// by a signal.
const cannotStart = 126

// notChecked is the error of a check that gave no answer.
func notChecked(err error) error {
	return &reconcile.Error{
		Code:    host.CodeDeliveryFailed,
		Message: "repository.check gave no answer: " + err.Error(),
		Hint:    "run its command yourself; a check may take as long as hooks.timeout_ms",
		Err:     err,
	}
}
