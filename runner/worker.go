// Package runner carries out one run: it prepares the issue's workspace, drives the agent through its turns, and records
// how the run ended.
//
//	pass ── workers.Local: Prepare, Start ──► symphony worker ── Worker.Run ──► hooks, codex app-server
//	  ▲                                            │
//	  └── workers.Local: Probe, Reap ◄── alive, procs, the run's row
//
// A worker is a process of its own. It shares types, a directory and a database with the pass that started it, never memory,
// and outlives it. Takeover holds a workspace for an operator by the same steps.
//
// Worker.Run is a sequence of steps: take the workspace (workspaceStep), render the prompt, launch the agent, take it
// through its turns, finish. What they share is a job. The steps know the machine as a host.Host and the agent as what
// package agent describes.
//
// The first turn of a thread gets the workflow's prompt, later turns guidance: why the last run ended, what people wrote
// since, and the prompt again if it has changed. What a thread was told is stored once codex has accepted the turn. After
// a crash it is told again.
package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
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

// runEnd is the error of a run that ended neither by its own success nor by a fault: it says how the run ended. As the cause of
// a cancelled context it ends the run.
type runEnd struct {
	outcome       reconcile.Outcome
	code, message string
}

func (e runEnd) Error() string { return e.message }

// stopped ends a run that a pass asked to stop.
func stopped(reason string) error { return runEnd{reconcile.Canceled, reason, "stopped: " + reason} }

// movedOn ends a run whose issue is no longer to be worked on.
func movedOn(reason string) error {
	return runEnd{reconcile.Canceled, reason, "the issue is no longer ours: " + reason}
}

var (
	// errTerminated: a signal asked the worker to end.
	errTerminated = runEnd{reconcile.InterruptedRun, reconcile.CodeTerminated, "the worker was asked to end from outside"}
	// errNotOurs: a pass has settled the run; nothing may be recorded.
	errNotOurs = fmt.Errorf("the run was settled by a pass: %w", reconcile.ErrConflict)
)

// Run carries out the run and returns it as recorded. Terminate, when closed, asks the worker to end soon. The error says
// that the outcome could not be recorded.
func (w *Worker) Run(ctx context.Context, run reconcile.Run, terminate <-chan struct{}) (reconcile.Run, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if w.Redactor == nil {
		w.Redactor = agent.NewRedactor(nil)
	}
	w.Redactor.Add(slices.Concat(w.Config.SecretValues, w.Config.SecretsIn(w.Env)))
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
	return j.rec.get(), errors.Join(err, RecordFault(j.Alive, err))
}

// Conclude records the outcome of a run that could not begin, as patiently as Run does.
func (w *Worker) Conclude(ctx context.Context, run reconcile.Run) error {
	j := w.newJob(run, func(error) {})
	_, stopBeats := j.rec.startHeartbeat(ctx)
	err := j.conclude(ctx)
	stopBeats()
	return errors.Join(err, RecordFault(j.Alive, err))
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

// The files of a run's directory beside those of its host.
const (
	WorkflowFile = "workflow.md" // as dispatched
	LogFile      = "worker.log"
	eventsFile   = "events.jsonl"
	hooksFile    = "hooks.log"
	stderrFile   = "agent.stderr"
)

// RunDir is the directory of a run below the state directory.
func RunDir(stateDir, runID string) string { return filepath.Join(stateDir, "runs", runID) }

// job is what the steps of a run share.
type job struct {
	*Worker
	run    reconcile.Run           // as dispatched
	cancel context.CancelCauseFunc // ends the run
	rec    *record
	events *agent.EventLog
	space  *host.Workspace // nil until it is taken
	// agentRedactor keeps the tracker's key, and nothing else, out of what the agent is told.
	agentRedactor *agent.Redactor
	// codexHome is where codex keeps its threads; set once it has answered.
	codexHome  string
	overBudget atomic.Bool // the issue has used up agent.max_tokens
}

func (w *Worker) newJob(run reconcile.Run, cancel context.CancelCauseFunc) *job {
	j := &job{Worker: w, run: run, cancel: cancel, agentRedactor: agent.NewExactRedactor(w.Config.SecretValues)}
	j.rec = &record{job: j, row: run, base: map[string]reconcile.Tokens{}}
	return j
}

// open opens the files of the run's directory. If that fails, for instance on a full disk, the run ends as by any other
// fault.
func (j *job) open() (err error) {
	j.events, err = agent.OpenEventLog(filepath.Join(j.Dir, eventsFile), j.Redactor)
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

// note writes an event of the worker's own.
func (j *job) note(name, message string, payload any) {
	run := j.rec.get()
	raw, err := json.Marshal(payload)
	if err == nil {
		err = j.events.Append(agent.Event{Name: name, At: j.Now(), ThreadID: run.ThreadID, Message: message, Raw: raw})
	}
	j.warn("event not stored", err)
}

func (j *job) hostRun() host.Run { return host.Run{ID: j.run.ID, Dir: j.Dir} }

// killEverything ends the run's whole tree: what carries its marker or its thread's, what was recorded, and what descends
// from this worker.
func (j *job) killEverything(ctx context.Context) error {
	j.observe()
	run := j.rec.get()
	return j.kill(ctx, host.KillRequest{Owned: host.Owned{
		Run: j.hostRun(), ThreadID: run.ThreadID, Root: run.WorkspaceRoot, Below: true,
	}})
}

// kill ends processes, also after ctx has ended, and fails if some are left.
func (j *job) kill(ctx context.Context, r host.KillRequest) error {
	answer, err := j.Host.Kill(context.WithoutCancel(ctx), r)
	return errors.Join(err, host.Leftover("run "+r.Owned.Run.ID, answer.Left))
}

// observe records every process below the worker, so that a later pass finds those that shed their marker, and
// ends those that keep a lock of symphony.
func (j *job) observe() {
	if j.Host == nil {
		return // the run could not begin
	}
	answer, err := j.Host.Observe(context.Background(), host.ObserveRequest{Run: j.hostRun(), StateDir: j.StateDir, AccountDir: j.AccountDir})
	for _, p := range answer.LockHolders {
		j.Log.Warn("ended a process of the agent that kept a lock of symphony", "pid", p.PID, "name", p.Name)
		message := fmt.Sprintf("process %d (%s), which kept a lock of symphony, was ended", p.PID, p.Name)
		j.note("lock_ended", message, map[string]any{"pid": p.PID, "name": p.Name})
	}
	j.warn("processes of the run", err)
}

// judge turns the error that ended the work into the run's outcome (specification 10.6).
func (j *job) judge(ctx context.Context, err error) (outcome reconcile.Outcome, code, message string) {
	var end runEnd
	switch {
	case err == nil:
		return reconcile.Succeeded, "", ""
	case errors.As(context.Cause(ctx), &end), errors.As(err, &end):
		return end.outcome, end.code, end.message
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
	case host.LimitReached(err): // also where an error of the workspace has it as its cause
		return reconcile.CodeResourceLimit, err.Error()
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

// RecordFault writes into the alive file that a fault of the machine is why a run did not begin, or why its outcome was not
// stored. A run that a pass settles for that is not charged to its issue.
func RecordFault(alive Alive, err error) error {
	var known *reconcile.Error
	if errors.As(host.WithCode(err), &known) && reconcile.MachineFault(known.Code) {
		return alive.Refuse(known.Code)
	}
	return nil
}

// Config is the part of the workflow that runs need. A run keeps the one that it was started with.
type Config struct {
	confine.Config
	Policy   reconcile.Policy
	MaxTurns int
	Hooks    Hooks

	StartAgent                                                agent.Starter // makes a session with the process that Command started
	Command                                                   string        // codex.command, run by bash -lc in the workspace (specification 10.1)
	ReadTimeout, InitializeTimeout, TurnTimeout, StallTimeout time.Duration

	OnApproval    agent.Approval
	AnswerTimeout time.Duration // of requests that a person answers
	KeepGitConfig bool          // git settings that an agent changed stay
	ResumeThread  bool
	KeepRemoved   time.Duration
}

// Hooks are the workflow's shell scripts (specification 5.3.4); an empty one does nothing.
type Hooks struct {
	AfterCreate, BeforeRun, AfterRun, BeforeRemove string
	Timeout                                        time.Duration
}

// Prompt renders the text of the first turn. The first run has attempt 0.
type Prompt interface {
	Render(issue reconcile.Issue, attempt int) (string, error)
}

// Journal is the part of the database that a worker uses. An error that wraps reconcile.ErrConflict means that a pass has
// settled the run, so that the worker must not write it any more.
type Journal interface {
	// UpdateRun writes what the worker knows of its run, and returns the stop reason that a pass has set.
	UpdateRun(ctx context.Context, now time.Time, run reconcile.Run) (stopReason string, err error)
	// Finish records the outcome, once and durably.
	Finish(ctx context.Context, now time.Time, run reconcile.Run) error
	// SaveThread keeps the highest token totals of a codex thread.
	SaveThread(ctx context.Context, runID, issueID, threadID, workspaceID string, t reconcile.Tokens, now time.Time) error
	// Thread returns those totals; false if the thread is unknown.
	Thread(ctx context.Context, threadID string) (reconcile.Tokens, bool, error)
	// LastThread returns the issue's newest thread, and the newest in a codex home; empty if there is none.
	LastThread(ctx context.Context, issueID, codexHome string) (newest, here reconcile.Thread, err error)
	// SaveCreated stores what the agent created in the tracker.
	SaveCreated(ctx context.Context, runID, issueID string, created []reconcile.Created, now time.Time) error
	// IssueTokens returns how much of agent.max_tokens an issue has used.
	IssueTokens(ctx context.Context, issueID string) (int64, error)
	// LastSeen returns what a thread was told of its issue, false if that was not stored; RecordLastSeen stores it.
	LastSeen(ctx context.Context, threadID string) (reconcile.LastSeen, bool, error)
	RecordLastSeen(ctx context.Context, runID, issueID string, thread reconcile.Thread, seen reconcile.LastSeen, now time.Time) error
	// LastRunOf returns the newest ended run on a thread; false if there is none.
	LastRunOf(ctx context.Context, issueID, threadID string) (reconcile.Run, bool, error)
	// Created returns which of these ids of the tracker were created by agents.
	Created(ctx context.Context, ids []string) (map[string]bool, error)
	// LateAnswers returns the answers to requests of ended runs that no run was told yet. MarkAnswersSeen records that a
	// run was told them.
	LateAnswers(ctx context.Context, issueID string) ([]reconcile.Request, error)
	MarkAnswersSeen(ctx context.Context, answered []reconcile.Request, runID string) error
}

// refresh asks the tracker for the issue and keeps the answer. The error is a runEnd if it is no longer active.
func (j *job) refresh(ctx context.Context) error {
	found, err := j.Tracker.ByIDs(ctx, []string{j.run.IssueID})
	if err != nil {
		return err
	}
	issue, visible := found[j.run.IssueID]
	switch p := j.Config.Policy; {
	case !visible:
		return movedOn(reconcile.StopMissing)
	case p.Terminal(issue.State):
		return movedOn(reconcile.StopTerminal)
	case issue.Elsewhere:
		return movedOn(reconcile.StopMoved)
	case issue.Archived || !p.Active(issue.State):
		return movedOn(reconcile.StopInactive)
	case !p.Labelled(issue):
		return movedOn(reconcile.StopLabel)
	case !p.Ours(issue):
		return movedOn(reconcile.StopAssignee)
	}
	j.rec.change(func(r *reconcile.Run) { r.Issue = issue })
	return nil
}

// The patience of a refresh between two turns, when the agent waits with its work half done.
const (
	refreshPatience = 15 * time.Minute
	refreshPause    = 10 * time.Second
)

// refreshPatiently repeats a refresh that fails, so that the work of the last turn is not lost to a short outage of the
// tracker.
func (j *job) refreshPatiently(ctx context.Context) error {
	end := time.NewTimer(refreshPatience)
	defer end.Stop()
	for {
		err := j.refresh(ctx)
		var known *reconcile.Error
		if !errors.As(err, &known) || !reconcile.TrackerFault(known.Code) {
			return err
		}
		j.warn("refresh failed, trying again", err)
		pause := refreshPause
		var limit reconcile.Limited
		if errors.As(err, &limit) {
			pause = max(pause, limit.ResetAt().Sub(j.Now())) // an earlier request is refused and costs other workers theirs
		}
		select {
		case <-time.After(pause):
		case <-end.C:
			return runEnd{reconcile.InterruptedRun, "tracker_unavailable", "no answer from the tracker: " + err.Error()}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
