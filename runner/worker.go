// Package runner carries out a single run: it prepares the issue's workspace, drives the agent
// through its turns, and records how the run ended.
//
//	pass ── workers.Local: Prepare, Start ──► symphony worker ── Worker.Run ──► hooks, codex
//	  ▲                                            │
//	  └── workers.Local: Probe, Reap ◄── alive, procs, the run's row
//
// A worker is a separate process that outlives the pass that started it. They share types, a
// directory and a database, but no memory. Holding uses the same steps to hold a workspace for
// an operator.
//
// Worker.Run is a sequence of steps: take the workspace (workspaceStep), render the prompt,
// start the agent and run its turns (turnLoop), deliver the commits (deliveryStep), finish.
// The steps share a job. They use the machine through host.Run and the agent through
// agent.Session. A run of another machine goes through the same steps with another Place in
// its job.
//
// The first turn of a thread gets the workflow's prompt, later turns get guidance: why the
// last run ended, new text from people since then, and the prompt again if it changed. A
// thread's knowledge of its issue is stored once codex accepts the turn; after a crash before
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
	workspace := &workspaceStep{job: j}
	a := &activeRun{
		job:       j,
		workspace: workspace,
		turns:     newTurnLoop(j, ctx.Done()),
		delivery:  &deliveryStep{job: j, workspace: workspace},
	}

	beats, stopBeats := j.rec.startHeartbeat(ctx)
	go func() {
		select {
		case <-terminate:
			j.rec.flush(beats) // reads the stop reason, which a pass stores before it signals
			cancel(errTerminated)
		case <-beats.Done():
		}
	}()

	if err == nil && w.Reach != nil {
		err = j.reach(ctx)
	}
	if err == nil {
		defer j.startObserving(ctx)()
		err = a.work(ctx)
	}
	err = a.finish(ctx, err)
	if err == nil {
		err = j.rec.conclude(ctx)
	}
	// Not before: a worker that waits for free disk space must not look frozen.
	stopBeats()
	return j.rec.get(), errors.Join(err, RecordFault(j.Alive, err))
}

// Conclude records the outcome of a run that could not start. Like Run it retries for a while.
func (w *Worker) Conclude(ctx context.Context, run reconcile.Run) error {
	j := w.newJob(run, func(error) {})
	_, stopBeats := j.rec.startHeartbeat(ctx)
	err := j.rec.conclude(ctx)
	stopBeats()
	return errors.Join(err, RecordFault(j.Alive, err))
}

// activeRun is a run in progress, with the steps that have a state of their own.
type activeRun struct {
	*job
	workspace *workspaceStep
	turns     *turnLoop
	delivery  *deliveryStep
}

// work runs the phases (specification 7.2) up to the end of the last turn.
func (a *activeRun) work(ctx context.Context) error {
	switch a.run.Kind {
	case reconcile.CleanupRun:
		unsaved, err := a.workspace.cleanUp(ctx, false)
		if err != nil {
			return err
		}
		if unsaved != "" {
			return runEnd{reconcile.Succeeded, reconcile.SkipUnsavedWork, unsaved}
		}
		return nil
	case reconcile.DeliveryRun:
		return a.delivery.redeliver(ctx)
	case reconcile.FreeRun:
		return newClientCalls(a.job).serve(ctx)
	case reconcile.AgentRun:
	}
	a.rec.phase(ctx, reconcile.PreparingWorkspace)
	if err := a.refresh(ctx); err != nil {
		return err
	}
	if err := a.workspace.prepare(ctx); err != nil {
		return err
	}
	a.rec.phase(ctx, reconcile.BuildingPrompt)
	prompt, err := a.Prompt.Render(a.rec.get().Issue, a.run.Attempt)
	if err != nil {
		return err
	}
	return a.turns.run(ctx, prompt)
}

// finish is the last step. It ends the agent and all processes of the run, restores git
// settings, runs after_run, ends the processes that the hook left, and sets the outcome in the
// record. It runs even after the end of ctx. It returns errNotOurs if the worker no longer
// owns the run.
func (a *activeRun) finish(ctx context.Context, workErr error) error {
	end := a.judge(ctx, workErr)
	ours := !errors.Is(context.Cause(ctx), errNotOurs)
	stoppable := ctx
	ctx = context.WithoutCancel(ctx)
	if ours {
		a.rec.phase(ctx, reconcile.Finishing)
	}
	a.shareFault(ctx, end.code, a.Redactor.Text(end.message))
	var err error
	if a.host != nil { // the machine was reached
		err = a.leaveMachine(ctx, stoppable, end.outcome)
	}
	if err != nil && end.outcome == reconcile.Succeeded {
		code, message := codeOf(err)
		end = runEnd{reconcile.Failed, code, message}
	} else {
		a.warn("end of the run", err)
	}
	// If its host serves the run no more, the agent was ended there, too.
	code, message := a.endOfLink()
	byHost := end.code == code || end.code == string(agent.CodePortExit)
	if code != "" && byHost && end.outcome == reconcile.Failed {
		end = runEnd{reconcile.InterruptedRun, code, message}
	}
	if !ours {
		a.Log.Warn("a pass has settled the run: no outcome recorded")
		return errNotOurs
	}
	end.message = a.Redactor.Text(end.message)
	a.rec.change(func(r *reconcile.Run) {
		r.Outcome = end.outcome
		r.ErrorCode = end.code
		r.ErrorText = end.message
		r.EndedAt = a.Now()
	})
	a.Log.Info("run ended", "outcome", end.outcome, "code", end.code, "error", end.message)
	return nil
}

// leaveMachine ends the agent and all processes of the run, restores git settings, runs
// after_run, delivers, and releases the workspace.
func (a *activeRun) leaveMachine(ctx, stoppable context.Context, outcome reconcile.Outcome) error {
	a.turns.agent.end(ctx)
	err := a.killAll(ctx)
	if a.run.Kind == reconcile.FreeRun { // not before: its processes write there
		a.warn("directories of the agent", os.RemoveAll(a.freeDir()))
	}
	// its processes have ended, and the workspace is symphony's
	quiet := err == nil && (a.run.Kind != reconcile.FreeRun || a.hasWorktree())
	if quiet {
		err = a.workspace.restoreGit(ctx)
	}
	err = errors.Join(err, a.workspace.afterRun(ctx, outcome, err))
	if quiet {
		if a.run.Kind == reconcile.AgentRun {
			// also commits of a stopped turn or of after_run, and commits that the remote may
			// refuse
			a.keep(ctx)
		}
		a.delivery.deliverAfterRun(stoppable)
	}
	a.warn("lease", a.host.Finish(ctx))
	a.leaveHost(ctx)
	return err
}
