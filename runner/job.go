package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// job is shared by the steps of a run.
type job struct {
	*Worker
	// Place is where the run works: Worker.Here until another machine is reached.
	Place
	host host.Run // the run on the machine of Place; nil before that is reached
	link Link     // to that machine; nil for this machine
	// gitHere runs git on this machine, which reaches the repository for a run on another
	// machine; nil for a run of this machine.
	gitHere host.Run
	run     reconcile.Run           // as dispatched, with the workspace root of Place
	cancel  context.CancelCauseFunc // ends the run
	rec     *record
	events  *eventLog
	space   *host.Workspace  // nil until it is taken
	base    host.FetchAnswer // without a Commit if nothing was fetched
	// agentRedactor removes only the tracker's key. It is for texts that the agent reads.
	agentRedactor *agent.Redactor
	stderr        string // the name of the file with the agent's stderr
	flags         string // additional arguments of codex.command, for a shell
	// permissions is the permission profile in flags, for commands without a turn; empty for
	// none.
	permissions string
	// loginProfile is the result of the login profile at loginAt, which is zero before the
	// first login shell.
	loginProfile host.LoginAnswer
	loginAt      time.Time
}

// Files in a run's directory, besides the host's.
const (
	WorkflowFile = "workflow.md" // as dispatched
	LogFile      = "worker.log"
	eventsFile   = "events.jsonl"
	HooksFile    = "hooks.log"
	stderrFile   = "agent.stderr" // of a free run: of its first conversation
)

func (w *Worker) newJob(run reconcile.Run, cancel context.CancelCauseFunc) *job {
	j := &job{
		Worker:        w,
		Place:         w.Here,
		run:           run,
		cancel:        cancel,
		stderr:        stderrFile,
		agentRedactor: agent.NewExactRedactor(w.Here.Config.SecretValues),
	}
	if w.Reach == nil && w.Here.Machine != nil {
		j.host = w.Here.Machine.Run(run.ID)
	}
	j.rec = &record{
		runs:      w.Journal,
		threads:   w.Journal,
		alive:     w.Alive,
		log:       w.Log,
		redactor:  w.Redactor,
		now:       w.Now,
		mono:      w.Mono,
		stateDir:  w.Here.StateDir,
		maxTokens: w.Here.Config.Policy.MaxTokens,
		cancel:    cancel,
		row:       run,
		base:      map[string]reconcile.Tokens{},
		used:      map[string]reconcile.Tokens{},
	}
	return j
}

// open opens the event log.
func (j *job) open() error {
	file, err := agent.OpenEventLog(filepath.Join(j.Dir, eventsFile), j.Redactor)
	if err != nil {
		return err
	}
	file.Complete = j.Free != nil
	j.events = &eventLog{file: file, rec: j.rec, now: j.Now, log: j.Log}
	return nil
}

func (j *job) close() {
	if j.events != nil {
		j.warn("run directory", j.events.file.Close())
	}
}

// eventLog is the event log of a run.
type eventLog struct {
	file *agent.EventLog
	rec  *record
	now  func() time.Time
	log  *slog.Logger
}

func (l *eventLog) append(e agent.Event) error { return l.file.Append(e) }

// note writes an event of the worker itself, such as "verified".
func (l *eventLog) note(name, message string, payload any) {
	raw, err := json.Marshal(payload)
	if err != nil {
		warn(l.log, "event not stored", err)
		return
	}
	err = l.append(agent.Event{
		Name:     name,
		At:       l.now(),
		ThreadID: l.rec.get().ThreadID,
		Message:  message,
		Raw:      raw,
	})
	warn(l.log, "event not stored", err)
}

func (j *job) warn(what string, err error) { warn(j.Log, what, err) }

func warn(log *slog.Logger, what string, err error) {
	if err != nil {
		log.Warn(what, "error", err)
	}
}

// logOutput logs all output of git with an error: messages contain only the reason.
func (j *job) logOutput(err error) {
	said, ok := errors.AsType[host.GitError](err)
	if ok && said.Output != said.Reason {
		j.Log.Info("git has written", "output", said.Output)
	}
}

// codeOf returns the stable code of an error, and its text without the code.
func codeOf(err error) (code, message string) {
	var known *reconcile.Error
	var failed *agent.Error
	switch {
	case paths.LimitReached(err): // first, because an error of the workspace may wrap it
		return reconcile.CodeResourceLimit, err.Error()
	case errors.As(host.WithCode(err), &known):
		return known.Code, known.Message
	case errors.As(err, &failed) && failed.Cause != "":
		return string(failed.Cause), failed.Message // the agent reported the cause of its wait
	case errors.As(err, &failed):
		return string(failed.Code), failed.Message
	}
	return "run_failed", err.Error()
}

// note writes an event of the worker.
func (j *job) note(name, message string, payload any) { j.events.note(name, message, payload) }

// killAll ends all processes of the run: processes with the marker of the run or its thread,
// recorded processes, and the descendants of this worker.
func (j *job) killAll(ctx context.Context) error {
	j.observe(host.ObserveRequest{})
	run := j.rec.get()
	answer, err := j.host.Kill(context.WithoutCancel(ctx), host.KillRequest{
		ThreadID: run.ThreadID,
		Root:     run.WorkspaceRoot,
	})
	j.logLocks(answer.Locks)
	return j.ended(answer, err)
}

// logLocks notes the locks of git that were removed.
func (j *job) logLocks(locks []string) {
	if len(locks) > 0 {
		j.Log.Info("locks of killed git commands removed", "files", locks[:min(len(locks), restoredLogged)])
	}
}

// ended returns an error if processes of the run could not be ended.
func (j *job) ended(answer host.LeftAnswer, err error) error {
	return errors.Join(err, host.Leftover("run "+j.run.ID, answer.Processes))
}

// observe records the descendants of the worker, so that a later pass finds even descendants
// that removed their marker. It ends descendants that hold a lock of symphony.
func (j *job) observe(q host.ObserveRequest) {
	if j.host == nil {
		return // the run could not start
	}
	answer, err := j.host.Observe(context.Background(), q)
	for _, p := range answer.LockHolders {
		j.Log.Warn("ended a process of the agent that held a lock of symphony", "pid", p.PID, "name", p.Name)
		message := fmt.Sprintf("ended process %d (%s), which held a lock of symphony", p.PID, p.Name)
		j.note("lock_ended", message, map[string]any{"pid": p.PID, "name": p.Name})
	}
	j.warn("processes of the run", err)
}

// startObserving scans for new processes of the run until stop is called, even after ctx ends,
// and at each heartbeat for new locks. It does so beside the heartbeats, because meanwhile a
// process of the agent may keep the database locked.
func (j *job) startObserving(ctx context.Context) (stop func()) {
	beats, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		var heard time.Time
		quiet := quietBeats
		repeat(beats, heartbeat, func() {
			last := j.rec.get().LastEventAt
			silent := quiet < quietBeats && last.Equal(heard)
			j.observe(host.ObserveRequest{Silent: silent})
			if !silent {
				heard = last
				quiet = 0
			}
			quiet++
		})
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// shareFault stores the fault of the account that ended the run. It is called before the
// outcome is stored, so that no pass starts another run that meets the same fault.
func (j *job) shareFault(ctx context.Context, code, message string) {
	if j.Account != nil && reconcile.AccountFault(code) {
		j.warn("fault of the account not shared", j.Account.Failed(ctx, j.Now(), code, message))
	}
}

// shareSuccess ends a block of the account, if that is older than the run.
func (j *job) shareSuccess(ctx context.Context) {
	if j.Account != nil {
		j.warn(
			"block of the account not ended",
			j.Account.Worked(context.WithoutCancel(ctx), j.Now(), j.run.StartedAt),
		)
	}
}
