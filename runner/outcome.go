package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// judge turns the error that ended the work into the run's outcome (specification 10.6).
func (j *job) judge(ctx context.Context, err error) (outcome reconcile.Outcome, code, message string) {
	var stopped errStopped
	var moved errMovedOn
	var gone errTrackerGone
	var overBudget errOverBudget
	cause := context.Cause(ctx)
	switch {
	case err == nil:
		return reconcile.Succeeded, "", ""
	case errors.As(cause, &stopped):
		return reconcile.Canceled, stopped.reason, stopped.Error()
	case errors.Is(cause, errTerminated):
		return reconcile.InterruptedRun, reconcile.CodeTerminated, errTerminated.Error()
	case errors.As(cause, &overBudget):
		return reconcile.Canceled, reconcile.CodeMaxTokens, overBudget.Error()
	case errors.As(err, &moved):
		return reconcile.Canceled, moved.reason, moved.Error()
	case errors.As(err, &gone):
		return reconcile.InterruptedRun, "tracker_unavailable", gone.Error()
	}
	code, message = codeOf(err)
	if full := j.fullDisk(); full != "" && !reconcile.MachineFault(code) {
		return reconcile.Failed, host.CodeDiskFull, "no space left on the volume of " + full + ": " + code + ": " + message
	}
	var failed *agent.Error
	switch {
	case errors.As(err, &failed) && failed.Code == agent.CodeTurnTimeout:
		return reconcile.TimedOut, code, message
	case errors.As(err, &failed) && failed.Code == agent.CodeStalled:
		return reconcile.Stalled, code, message
	}
	return reconcile.Failed, code, message
}

const (
	// fullDiskBytes is too little for any hook or agent to work with.
	fullDiskBytes = 64 << 10
)

// fullDisk names a directory of the run's on a volume that is full, empty if there is none. Whatever fails on a full disk
// fails for that.
func (j *job) fullDisk() string {
	for _, dir := range []string{j.run.WorkspaceRoot, j.StateDir} {
		if dir == "" {
			continue
		}
		if root, err := j.Host.Root(context.Background(), host.RootRequest{Root: dir}); err == nil && root.FreeBytes >= 0 && root.FreeBytes < fullDiskBytes {
			return dir
		}
	}
	return ""
}

// codeOf finds the stable code of an error and its text without that code.
func codeOf(err error) (code, message string) {
	var known *reconcile.Error
	var failed *agent.Error
	switch {
	case errors.As(host.WithCode(err), &known):
		return known.Code, known.Message
	case errors.As(err, &failed) && failed.Code == agent.CodeStalled && failed.Cause != "":
		return string(failed.Cause), failed.Message // the agent waited for that, and said so
	case errors.As(err, &failed):
		return string(failed.Code), failed.Message
	}
	return "run_failed", err.Error()
}

// The patience of the outcome: a full disk or a busy database must not lose what a run has done.
const (
	concludePatience = 10 * time.Minute
	concludePause    = 2 * time.Second
)

// conclude stores the outcome. Until it is stored the worker lives on and holds its run.
func (j *job) conclude(run context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(run), concludePatience)
	defer cancel()
	var last error
	for {
		err := j.Journal.Finish(ctx, j.Now(), j.rec.get())
		if err == nil || errors.Is(err, reconcile.ErrConflict) {
			return err
		}
		if ctx.Err() != nil && last != nil {
			err = last // this one only says that the time is over
		}
		code, _ := codeOf(err)
		terminated := errors.Is(context.Cause(run), errTerminated)
		if ctx.Err() != nil || code == "state_replaced" || terminated && (code == "state_missing" || code == "state_corrupt") {
			return fmt.Errorf("outcome of %s: %w", j.run.ID, err) // given up, or the database needs manual repair
		}
		last = err
		j.Log.Error("outcome not stored, trying again", "error", err)
		select {
		case <-time.After(concludePause):
		case <-ctx.Done():
		}
	}
}

// recordStoreFailure writes into the alive file why the outcome was not stored. A run that a pass settles without an
// outcome for the machine's fault is not charged to its issue.
func (j *job) recordStoreFailure(err error) error {
	var known *reconcile.Error
	if errors.As(err, &known) && reconcile.MachineFault(known.Code) {
		return j.Alive.Refuse(known.Code)
	}
	return nil
}
