// Package runner carries out one run: it prepares the issue's workspace, drives the agent through its turns, and records how the run ended.
//
//	pass ── workers.Local: Prepare, Start ──► symphony worker ── Worker.Run ──► hooks, codex app-server
//	  ▲                                            │
//	  └── workers.Local: Probe, Reap ◄── alive, procs, the run's row
//
// A worker is a separate process that outlives the pass that started it. They share types, a directory and a database, but no
// memory. Takeover uses the same steps to give a workspace to an operator.
//
// Worker.Run is a sequence of steps: take the workspace (workspaceStep), render the prompt, start the agent and run its turns
// (turnLoop), finish. The steps share a job. They use the machine through host.Run and the agent through agent.Session.
//
// The first turn of a thread gets the workflow's prompt, later turns get guidance: why the last run ended, what people have
// written since, and the prompt again if it has changed. What a thread has seen is stored once codex has accepted the turn;
// after a crash before that the next turn repeats it.
package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
	"github.com/symphony-cron/symphony/runner/host"
)

// Worker carries out one run that it has taken.
type Worker struct {
	Config  Config
	Prompt  Prompt
	Journal Journal
	Tracker *reconcile.TrackerAdapter
	// Forge returns where a pull request is opened for each branch. The login is looked for in env. Nil: none is opened.
	Forge    func(ctx context.Context, env []string) (*reconcile.Forge, error)
	Requests agent.RequestStore
	Machine  host.Machine
	Reach    Reach   // to another machine, which takes the place of Machine, StateDir and Env; nil for a run of this one
	Account  Account // nil: nothing is shared with other projects
	Alive    Alive
	// Dir is the run's directory, StateDir the project's.
	Dir, StateDir string
	// Env is the environment of hooks and agent, before secrets are removed.
	Env     []string
	Version string
	Now     func() time.Time
	// Mono is the monotonic clock of this machine. Its values are comparable within one Boot.
	Mono func() time.Duration
	Boot string
	Log  *slog.Logger
	// Redactor removes secrets from everything that the run writes. Log must write through it, too, because secrets may be found
	// during the run.
	Redactor *agent.Redactor
	// Free is what an agent without an issue needs besides; nil for other runs.
	Free *Free
	// Attend starts to notify a person of stored requests, without waiting. Nil: the next pass notifies.
	Attend func(ctx context.Context)
}

// Config is the part of the workflow that runs need. It does not change during a run.
type Config struct {
	confine.Config
	Policy     reconcile.Policy
	MaxTurns   int
	Hooks      Hooks
	Repository Repository
	Handoff    Handoff
	Verify     Verify

	StartAgent agent.Starter // makes a session with the process of Command
	Command    string        // codex.command, run by bash in the workspace, with what a login shell sets (specification 10.1)
	// TrustLauncher starts Command even if files in the workspace decide which program that is.
	TrustLauncher bool

	LoginTimeout                                              time.Duration // for the login profile; 0: 30 s
	ReadTimeout, InitializeTimeout, TurnTimeout, StallTimeout time.Duration

	OnApproval    agent.Approval
	AnswerTimeout time.Duration // for an operator's answer to a request
	KeepGitConfig bool          // do not restore git settings that an agent has changed
	ResumeThread  bool
	KeepRemoved   time.Duration
}

// Hooks are the workflow's shell scripts (specification 5.3.4); an empty one does nothing.
type Hooks struct {
	AfterCreate, BeforeRun, AfterRun, BeforeRemove string
	Where                                          map[string]string // by the name of the hook: its place in the workflow, for messages
	Timeout                                        time.Duration
}

// Run carries out the run and returns it as recorded. Closing terminate asks the worker to end soon. The error reports that the
// outcome could not be recorded.
func (w *Worker) Run(ctx context.Context, run reconcile.Run, terminate <-chan struct{}) (reconcile.Run, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.Redactor.Add(slices.Concat(w.Config.SecretValues, w.Config.SecretsIn(w.Env)))
	j := w.newJob(run, cancel)
	a := &activeRun{job: j, workspace: &workspaceStep{job: j}, turns: newTurnLoop(j, ctx.Done())}
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
		if err = j.reach(ctx); err == nil {
			defer j.startObserving(ctx)()
			err = a.work(ctx)
		}
	}
	if err = a.finish(ctx, err); err == nil {
		err = j.conclude(ctx)
	}
	// Not before: a worker that waits for free disk space must not look frozen.
	stopBeats()
	return j.rec.get(), errors.Join(err, RecordFault(j.Alive, err))
}

// Conclude records the outcome of a run that could not start. Like Run it retries for a while.
func (w *Worker) Conclude(ctx context.Context, run reconcile.Run) error {
	j := w.newJob(run, func(error) {})
	_, stopBeats := j.rec.startHeartbeat(ctx)
	err := j.conclude(ctx)
	stopBeats()
	return errors.Join(err, RecordFault(j.Alive, err))
}

// activeRun is a run in progress, with those of its steps that have a state of their own.
type activeRun struct {
	*job
	workspace *workspaceStep
	turns     *turnLoop
}

// work runs the phases (specification 7.2) up to the end of the last turn.
func (a *activeRun) work(ctx context.Context) error {
	switch a.run.Kind {
	case reconcile.CleanupRun:
		_, err := a.workspace.cleanUp(ctx, false)
		return err
	case reconcile.DeliveryRun:
		return a.workspace.redeliver(ctx)
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

// finish is the last step. It ends the agent and all processes of the run, restores git settings, runs after_run, ends the
// processes that the hook left, and sets the outcome in the record. It runs even after ctx has ended. It returns errNotOurs if
// the worker no longer owns the run.
func (a *activeRun) finish(ctx context.Context, workErr error) error {
	outcome, code, message := a.judge(ctx, workErr)
	ours := !errors.Is(context.Cause(ctx), errNotOurs)
	stoppable := ctx
	ctx = context.WithoutCancel(ctx)
	if ours {
		a.rec.phase(ctx, reconcile.Finishing)
	}
	a.shareFault(ctx, code, a.Redactor.Text(message))
	var err error
	if a.host != nil { // the machine was reached
		err = a.leaveMachine(ctx, stoppable, outcome)
	}
	if err != nil && outcome == reconcile.Succeeded {
		outcome = reconcile.Failed
		code, message = codeOf(err)
	} else {
		a.warn("end of the run", err)
	}
	if end, why := a.endOfLink(); end != "" && outcome == reconcile.Failed && (code == end || code == string(agent.CodePortExit)) {
		outcome, code, message = reconcile.InterruptedRun, end, why // the agent was ended there, too
	}
	if !ours {
		a.Log.Warn("a pass has settled the run: no outcome recorded")
		return errNotOurs
	}
	message = a.Redactor.Text(message)
	a.rec.change(func(r *reconcile.Run) {
		r.Outcome, r.ErrorCode, r.ErrorText, r.EndedAt = outcome, code, message, a.Now()
	})
	a.Log.Info("run ended", "outcome", outcome, "code", code, "error", message)
	return nil
}

// leaveMachine ends the agent and all processes of the run, restores git settings, runs after_run, delivers, and releases the workspace.
func (a *activeRun) leaveMachine(ctx, stoppable context.Context, outcome reconcile.Outcome) error {
	a.turns.agent.end(ctx)
	err := a.killAll(ctx)
	if a.run.Kind == reconcile.FreeRun { // not before: its processes write there
		a.warn("directories of the agent", os.RemoveAll(a.freeDir()))
	}
	quiet := err == nil && (a.run.Kind != reconcile.FreeRun || a.hasWorktree()) // its processes have ended, and the workspace is symphony's
	if quiet {
		err = a.workspace.restoreGit(ctx)
	}
	err = errors.Join(err, a.workspace.afterRun(ctx, outcome, err))
	if quiet {
		a.workspace.deliverAfterRun(stoppable)
	}
	a.warn("lease", a.host.Finish(ctx))
	a.leaveHost(ctx)
	return err
}

// Files in a run's directory, besides those of the host.
const (
	WorkflowFile = "workflow.md" // as dispatched
	LogFile      = "worker.log"
	eventsFile   = "events.jsonl"
	HooksFile    = "hooks.log"
	stderrFile   = "agent.stderr" // of a free run: of its first conversation
)

// job is what the steps of a run have in common.
type job struct {
	*Worker
	host   host.Run                // nil before the machine is reached
	link   Link                    // to that machine; nil for this one. Heartbeats read it while reach sets it, both under record.mu
	run    reconcile.Run           // as dispatched
	cancel context.CancelCauseFunc // ends the run
	rec    *record
	events *agent.EventLog
	space  *host.Workspace  // nil until it is taken
	base   host.FetchAnswer // without a Commit if nothing was fetched
	// agentRedactor removes only the tracker's key. It is for texts that the agent reads.
	agentRedactor *agent.Redactor
	stderr        string // the name of the file with the agent's stderr
	flags         string // what codex.command is started with besides, for a shell
	permissions   string // the permission profile in flags, for commands without a turn; empty for none
	// codexHome is where codex stores its threads; set once codex has answered.
	codexHome  string
	overBudget atomic.Bool // whether the issue has used agent.max_tokens
	localGit   *localGit   // nil for a run of this machine
	// loginProfile is what the login profile has set at loginAt, which is zero before the first login shell.
	loginProfile host.LoginAnswer
	loginAt      time.Time
}

func (w *Worker) newJob(run reconcile.Run, cancel context.CancelCauseFunc) *job {
	j := &job{Worker: w, run: run, cancel: cancel, stderr: stderrFile, agentRedactor: agent.NewExactRedactor(w.Config.SecretValues)}
	if w.Reach == nil && w.Machine != nil {
		j.host = w.Machine.Run(run.ID)
	}
	j.rec = &record{job: j, row: run, base: map[string]reconcile.Tokens{}, used: map[string]reconcile.Tokens{}}
	return j
}

// open opens the event log.
func (j *job) open() (err error) {
	if j.events, err = agent.OpenEventLog(filepath.Join(j.Dir, eventsFile), j.Redactor); err == nil {
		j.events.Complete = j.Free != nil
	}
	return err
}

func (j *job) close() {
	if j.events != nil {
		j.warn("run directory", j.events.Close())
	}
}

// warn logs an error, if there is one.
func (j *job) warn(what string, err error) {
	if err != nil {
		j.Log.Warn(what, "error", err)
	}
}

// codeOf returns the stable code of an error, and its text without the code.
func codeOf(err error) (code, message string) {
	var known *reconcile.Error
	var failed *agent.Error
	switch {
	case host.LimitReached(err): // first, because an error of the workspace may wrap it
		return reconcile.CodeResourceLimit, err.Error()
	case errors.As(host.WithCode(err), &known):
		return known.Code, known.Message
	case errors.As(err, &failed) && failed.Code == agent.CodeStalled && failed.Cause != "":
		return string(failed.Cause), failed.Message // the agent reported what it waited for
	case errors.As(err, &failed):
		return string(failed.Code), failed.Message
	}
	return "run_failed", err.Error()
}

// note writes an event of the worker.
func (j *job) note(name, message string, payload any) {
	run := j.rec.get()
	raw, err := json.Marshal(payload)
	if err == nil {
		err = j.events.Append(agent.Event{Name: name, At: j.Now(), ThreadID: run.ThreadID, Message: message, Raw: raw})
	}
	j.warn("event not stored", err)
}

// killAll ends all processes of the run: those with the marker of the run or its thread, those on record, and the descendants
// of this worker.
func (j *job) killAll(ctx context.Context) error {
	j.observe()
	run := j.rec.get()
	return j.ended(j.host.Kill(context.WithoutCancel(ctx), host.KillRequest{ThreadID: run.ThreadID, Root: run.WorkspaceRoot}))
}

// ended returns an error if processes of the run could not be ended.
func (j *job) ended(answer host.LeftAnswer, err error) error {
	return errors.Join(err, host.Leftover("run "+j.run.ID, answer.Processes))
}

// observe records the descendants of the worker, so that a later pass finds even those that have removed their marker. It ends
// those that hold a lock of symphony.
func (j *job) observe() {
	if j.host == nil {
		return // the run could not start
	}
	answer, err := j.host.Observe(context.Background())
	for _, p := range answer.LockHolders {
		j.Log.Warn("ended a process of the agent that held a lock of symphony", "pid", p.PID, "name", p.Name)
		message := fmt.Sprintf("ended process %d (%s), which held a lock of symphony", p.PID, p.Name)
		j.note("lock_ended", message, map[string]any{"pid": p.PID, "name": p.Name})
	}
	j.warn("processes of the run", err)
}
