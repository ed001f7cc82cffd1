package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/team"
)

// runEnd is the error of a run that was ended early, with its outcome. As the cause of a
// cancelled context it ends the run.
type runEnd struct {
	outcome       reconcile.Outcome
	code, message string
}

func (e runEnd) Error() string { return e.message }

// canceled is the end of a run that a pass asked to stop, or whose issue no longer qualifies.
func canceled(why, reason string) error {
	return runEnd{reconcile.Canceled, reason, why + ": " + reason}
}

var (
	// errTerminated means that a signal asked the worker to end.
	errTerminated = runEnd{
		reconcile.InterruptedRun,
		reconcile.CodeTerminated,
		"a signal asked the worker to end",
	}
	// errNotOurs means that a pass settled the run, so that nothing may be recorded.
	errNotOurs = fmt.Errorf("the run was settled by a pass: %w", reconcile.ErrConflict)
)

// judge returns how the run ended (specification 10.6), given the error that ended its work.
func (j *job) judge(ctx context.Context, err error) runEnd {
	if err == nil {
		return runEnd{outcome: reconcile.Succeeded}
	}
	if end, ok := errors.AsType[runEnd](context.Cause(ctx)); ok {
		return end
	}
	if end, ok := errors.AsType[runEnd](err); ok {
		return end
	}
	code, message := codeOf(err)
	message = j.boxes.explain(message, 0)
	if code == host.CodeEnded || code == host.CodeDied {
		return runEnd{reconcile.InterruptedRun, code, message}
	}
	full := j.fullDisk()
	if full != "" && !reconcile.MachineFault(code) {
		why := "no space left on the volume of " + full + ": " + code + ": " + message
		return runEnd{reconcile.Failed, host.CodeDiskFull, why}
	}
	failed, _ := errors.AsType[*agent.Error](err)
	if failed != nil && failed.Code == agent.CodeTurnTimeout {
		return runEnd{reconcile.TimedOut, code, message}
	}
	if failed != nil && failed.Code == agent.CodeStalled {
		return runEnd{reconcile.Stalled, code, message}
	}
	return runEnd{reconcile.Failed, code, message}
}

// hasResult reports whether the work of a run counts: it handed the issue over or, without a
// state for that, delivered commits. expected counts a handover that is still to come.
func (j *job) hasResult(expected bool) bool {
	run := j.rec.get()
	h := run.Delivery.Handover
	switch {
	case h.Refused() || h.AsksHelp():
		return false
	case run.Kind != reconcile.AgentRun, expected && h.Waits():
		return true
	case run.MovedTo != "" && !j.site.Config.Policy.Active(run.MovedTo):
		return true
	}
	return j.site.Config.Handoff.State == "" && run.Delivery.Commits > 0
}

// lostClaim is the end of a run that a renewal of its claim has stopped, because another machine has it;
// nil if the run goes on, or was stopped for another reason.
func lostClaim(ctx context.Context) error {
	end, isEnd := errors.AsType[runEnd](context.Cause(ctx))
	if isEnd && end.code == team.CodeLost {
		return end
	}
	return nil
}

// endOfLeaving is the end of a run whose work succeeded, and whose last steps on its machine did not.
// A run whose issue another machine has taken ends as if it had been stopped for that.
func endOfLeaving(err error) runEnd {
	if end, isEnd := errors.AsType[runEnd](err); isEnd {
		return end
	}
	if team.IsLost(err) {
		return endOfLostClaim(err)
	}
	code, message := codeOf(err)
	return runEnd{reconcile.Failed, code, message}
}

// endOfLostClaim is the end of a run whose issue another machine has taken.
func endOfLostClaim(err error) runEnd {
	code, message := codeOf(err)
	return runEnd{reconcile.Canceled, code, message}
}

// fullDiskBytes is too little free space for any hook or agent.
const fullDiskBytes = 64 << 10

// fullDisk returns a directory of the run on a full volume, "" if there is none. It is taken
// for the cause of any failure.
func (j *job) fullDisk() string {
	if j.site.host == nil {
		return ""
	}
	for _, dir := range []string{j.site.root, j.site.StateDir} {
		if dir == "" {
			continue
		}
		free, err := j.site.Machine.FreeBytes(context.Background(), dir)
		if err == nil && free < fullDiskBytes {
			return dir
		}
	}
	return ""
}

// RecordFault records a fault of the machine in the alive file if that is why a run did not
// start or its outcome was not stored. The pass that settles the run then does not charge it
// to the issue.
func RecordFault(alive Alive, err error) error {
	known, ok := errors.AsType[*reconcile.Error](host.WithCode(err))
	if ok && reconcile.MachineFault(known.Code) {
		return alive.NoteFault(known.Code)
	}
	return nil
}
