package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// Worker carries out one run that it has taken.
type Worker struct {
	Config   Config
	Prompt   Prompt
	Journal  Journal
	Tracker  *reconcile.TrackerAdapter
	Requests agent.RequestStore
	Host     host.Host
	Account  Account // nil: nothing is shared with other projects
	// AccountDir holds the locks that projects on one account share; empty for none.
	AccountDir string
	Alive      Alive
	// Dir is the run's directory, StateDir the project's.
	Dir, StateDir string
	// Env is the environment that hooks and agent get, before secrets are taken out.
	Env     []string
	Version string
	Now     func() time.Time
	// Mono is the monotonic clock of this machine, whose values mean something within Boot.
	Mono func() time.Duration
	Boot string
	Log  *slog.Logger
	// Redactor keeps secrets out of everything that the run writes. Log writes through it too, so that secrets found
	// during the run stay out of the log.
	Redactor *agent.Redactor
	// Attend has a person notified of the requests that were stored; it returns at once. Nil: a pass notifies.
	Attend func(ctx context.Context)
}

// Alive is the worker's hold on its run: a lock that ends with the process, and what passes read of it.
type Alive interface {
	// Beat writes the number of the heartbeat and the monotonic clock.
	Beat(counter int64, mono time.Duration) error
	// Refuse writes the code of a fault of the machine, for which the run ends without an outcome.
	Refuse(code string) error
}

// The causes of a cancelled run.
var (
	// errTerminated: a signal asked the worker to end.
	errTerminated = errors.New("the worker was asked to end from outside")
	// errNotOurs: a pass has settled the run; nothing may be recorded.
	errNotOurs = fmt.Errorf("the run was settled by a pass: %w", reconcile.ErrConflict)
)

// errStopped: a pass asked the run to stop.
type errStopped struct{ reason string }

func (e errStopped) Error() string { return "stopped: " + e.reason }

// Run carries out the run and returns it as recorded. Terminate, when closed, asks the worker to end soon. The error says
// that the outcome could not be recorded.
func (w *Worker) Run(ctx context.Context, run reconcile.Run, terminate <-chan struct{}) (reconcile.Run, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if w.Redactor == nil {
		w.Redactor = agent.NewRedactor(nil)
	}
	w.Redactor.Add(slices.Concat(w.Config.SecretValues, secretsAmong(w.Env, w.Config.PassEnv)))
	j := w.newJob(run, cancel)
	a := &attempt{job: j, workspace: &workspaceStep{job: j}, conversation: newConversation(j, ctx.Done())}
	err := j.open()
	defer j.close()

	beats, stopBeats := j.rec.startHeartbeat(ctx)
	go func() {
		select {
		case <-terminate:
			j.rec.flush(beats) // a pass that signals has stored its reason first
			cancel(errTerminated)
		case <-beats.Done():
		}
	}()

	if err == nil {
		err = a.work(ctx)
	}
	if err = a.finish(ctx, err); err == nil {
		err = j.conclude(ctx)
	}
	// Only now: a worker that waits for free disk space must not look frozen.
	stopBeats()
	return j.rec.get(), errors.Join(err, j.recordStoreFailure(err))
}

// Conclude records the outcome of a run that could not begin, as patiently as Run does.
func (w *Worker) Conclude(ctx context.Context, run reconcile.Run) error {
	j := w.newJob(run, func(error) {})
	_, stopBeats := j.rec.startHeartbeat(ctx)
	err := j.conclude(ctx)
	stopBeats()
	return errors.Join(err, j.recordStoreFailure(err))
}

// attempt is a run under way: its steps, and what they share.
type attempt struct {
	*job
	workspace    *workspaceStep
	conversation *conversation
}

// work takes the run through its phases (specification 7.2) up to the end of its last turn.
func (a *attempt) work(ctx context.Context) error {
	if a.run.Kind == reconcile.CleanupRun {
		return a.workspace.cleanUp(ctx)
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
	return a.conversation.run(ctx, prompt)
}

// finish is the last step. It ends the agent and everything that the run has started, restores git settings, runs
// after_run, ends what that has left, and sets the outcome in the worker's copy. It goes on after ctx has ended. The error is
// that the run is no longer the worker's.
func (a *attempt) finish(ctx context.Context, workErr error) error {
	outcome, code, message := a.judge(ctx, workErr)
	ours := !errors.Is(context.Cause(ctx), errNotOurs)
	ctx = context.WithoutCancel(ctx)
	if ours {
		a.rec.phase(ctx, reconcile.Finishing)
	}
	a.conversation.agent.end(ctx)
	a.shareFault(ctx, code, a.Redactor.Text(message))
	err := a.killEverything(ctx)
	if err == nil {
		err = a.workspace.restoreGit(ctx)
	}
	err = errors.Join(err, a.workspace.afterRun(ctx, outcome, err == nil))
	if err != nil && outcome == reconcile.Succeeded {
		outcome = reconcile.Failed
		code, message = codeOf(err)
	} else {
		a.warn("the run's end", err)
	}
	a.warn("lease", a.Host.Finish(ctx, a.hostRun()))
	if !ours {
		a.Log.Warn("run lost, nothing is recorded")
		return errNotOurs
	}
	message = a.Redactor.Text(message)
	a.rec.change(func(r *reconcile.Run) {
		r.Outcome, r.ErrorCode, r.ErrorText, r.EndedAt = outcome, code, message, a.Now()
	})
	a.Log.Info("run ended", "outcome", outcome, "code", code, "error", message)
	return nil
}
