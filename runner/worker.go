// Package runner carries out a single run: it prepares the issue's workspace, drives the agent
// through its turns, and records how the run ended.
//
//	pass ── workers.Local: Prepare, Start ──► symphony worker ── Worker.Run ──► hooks, agent
//	  ▲                                            │
//	  └── workers.Local: Probe, Reap ◄── alive, procs, the run's row
//
// A worker is a separate process that outlives the pass that started it. They share types, a
// directory and a database, but no memory. Holding uses the same steps to hold a workspace for
// an operator.
//
// Worker.Run is a sequence of steps: take the workspace (workspaceStep), render the prompt,
// start the agent and run its turns (turnLoop), deliver the commits (deliveryStep), finish.
// A job puts them together with the parts that they share. They use the machine through
// host.Run and the agent through agent.Session. A run of another machine goes through the same
// steps at another site.
//
// The first turn of a thread gets the workflow's prompt, later turns get guidance: why the
// last run ended, new text from people since then, and the prompt again if it changed. A
// thread's knowledge of its issue is stored once the agent accepts the turn; after a crash before
// that the next turn repeats it.
package runner

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// Run carries out the run and returns it as recorded. Closing terminate asks the worker to end
// soon. The error reports that the outcome could not be recorded.
func (w *Worker) Run(
	ctx context.Context,
	run reconcile.Run,
	terminate <-chan struct{},
) (reconcile.Run, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.Redactor.Add(slices.Concat(w.Here.Config.SecretValues, w.Here.Config.SecretsIn(w.Here.Env)))
	j := w.newJob(run, cancel)
	err := j.open()
	defer j.close()

	beats, stopBeats := j.rec.startHeartbeat(ctx)
	go func() {
		select {
		case <-terminate:
			j.rec.flush(beats) // reads the stop reason, which a pass stores before it signals
			cancel(errTerminated)
		case <-beats.Done():
		}
	}()

	if err == nil {
		err = j.claim.takeForDelivery(ctx, run.Kind)
	}
	stopRenewing := j.claim.startRenewing(ctx)
	if err == nil && w.Reach != nil {
		err = j.reach(ctx)
	}
	if err == nil {
		defer j.processes.startObserving(ctx)()
		err = j.work(ctx)
	}
	err = j.finish(ctx, err)
	stopRenewing()
	if err == nil {
		err = j.rec.conclude(ctx)
	}
	// Not before: a worker that waits for free disk space must not look frozen.
	stopBeats()
	return j.rec.get(), errors.Join(err, RecordFault(w.Alive, err))
}

// Conclude records the outcome of a run that could not start. Like Run it retries for a while.
func (w *Worker) Conclude(ctx context.Context, run reconcile.Run) error {
	rec := w.newRecord(run, func(error) {})
	_, stopBeats := rec.startHeartbeat(ctx)
	err := rec.conclude(ctx)
	stopBeats()
	return errors.Join(err, RecordFault(w.Alive, err))
}

// work runs the phases (specification 7.2) up to the end of the last turn.
func (j *job) work(ctx context.Context) error {
	switch j.run.Kind {
	case reconcile.CleanupRun:
		unsaved, err := j.workspace.cleanUp(ctx, false)
		if err != nil {
			return err
		}
		if unsaved != "" {
			return runEnd{reconcile.Succeeded, reconcile.SkipUnsavedWork, unsaved}
		}
		return nil
	case reconcile.DeliveryRun:
		return j.delivery.redeliver(ctx)
	case reconcile.FreeRun:
		return j.newFreeRun().work(ctx)
	case reconcile.AgentRun:
	}
	j.rec.phase(ctx, reconcile.PreparingWorkspace)
	if err := j.issue.refresh(ctx); err != nil {
		return err
	}
	if err := j.workspace.prepare(ctx); err != nil {
		return err
	}
	j.rec.phase(ctx, reconcile.BuildingPrompt)
	prompt, err := j.Prompt.Render(j.rec.get().Issue, j.run.Attempt)
	if err != nil {
		return err
	}
	return j.turns.work(ctx, prompt)
}

// finish is the last step. It ends the agent and all processes of the run, restores git
// settings, runs after_run, ends the processes that the hook left, and sets the outcome in the
// record. It runs even after the end of ctx. It returns errNotOurs if the worker no longer
// owns the run.
func (j *job) finish(ctx context.Context, workErr error) error {
	end := j.judge(ctx, workErr)
	ours := !errors.Is(context.Cause(ctx), errNotOurs)
	stoppable := ctx
	ctx = context.WithoutCancel(ctx)
	if ours {
		j.rec.phase(ctx, reconcile.Finishing)
	}
	j.accountFailed(ctx, end.code, j.Redactor.Text(end.message))
	var err error
	if j.site.host != nil { // the machine was reached
		outcome := end.outcome
		if outcome == reconcile.Succeeded && !j.hasResult(true) {
			outcome = reconcile.EndedRun
		}
		err = j.leaveMachine(ctx, stoppable, outcome)
	}
	switch {
	case err != nil && end.outcome.IsRegular():
		end = endOfLeaving(err)
	case end.outcome == reconcile.Succeeded && !j.hasResult(false):
		end.outcome = reconcile.EndedRun
		if d := j.rec.get().Delivery; d.Handover == nil && d.Code == "" && !d.OthersPushed {
			end.message = j.rec.lastWords()
		}
	default:
		warn(j.Log, "end of the run", err)
	}
	// If its host serves the run no more, the agent was ended there, too.
	code, message := j.site.endOfLink()
	byHost := end.code == code || end.code == string(agent.CodePortExit)
	if code != "" && byHost && end.outcome == reconcile.Failed {
		end = runEnd{reconcile.InterruptedRun, code, message}
	}
	if !ours {
		j.Log.Warn("a pass has settled the run: no outcome recorded")
		return errNotOurs
	}
	end.message = j.Redactor.Text(end.message)
	j.rec.change(func(r *reconcile.Run) {
		r.Outcome = end.outcome
		r.ErrorCode = end.code
		r.ErrorText = end.message
		r.OnlyStopped = end.outcome == reconcile.Canceled && end.code == j.rec.stop
		r.EndedAt = j.Now()
	})
	j.Log.Info("run ended", "outcome", end.outcome, "code", end.code, "error", end.message)
	return nil
}

// leaveMachine ends the agent and all processes of the run, restores git settings, runs
// after_run, delivers, and releases the workspace.
func (j *job) leaveMachine(ctx, stoppable context.Context, outcome reconcile.Outcome) error {
	j.turns.agent.end(ctx)
	err := j.processes.killAll(ctx)
	if j.run.Kind == reconcile.FreeRun { // not before: its processes write there
		warn(j.Log, "directories of the agent", os.RemoveAll(freeDir(j.Dir)))
	}
	// its processes have ended, and the workspace is symphony's
	quiet := err == nil && (j.run.Kind != reconcile.FreeRun || j.site.Config.Repository.URL != "")
	if quiet {
		err = j.workspace.restoreGit(ctx)
	}
	err = errors.Join(err, j.workspace.afterRun(ctx, outcome, err))
	if quiet {
		if j.run.Kind == reconcile.AgentRun {
			// also commits of a stopped turn or of after_run, and commits that the remote may
			// refuse
			j.branch.keep(ctx)
		}
		err = errors.Join(err, j.delivery.deliverAfterRun(stoppable))
	}
	warn(j.Log, "lease", j.site.host.Finish(ctx))
	j.leaveHost(ctx)
	return err
}
