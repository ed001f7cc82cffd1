package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local"
)

// The files of a run's directory.
const (
	aliveFile    = local.AliveFile
	workflowFile = "workflow.md"
	procsFile    = local.ProcsFile
	treeFile     = local.TreeFile
	scopeFile    = local.ScopeFile
	eventsFile   = "events.jsonl"
	hooksFile    = "hooks.log"
	stderrFile   = "agent.stderr"
	workerFile   = "worker.log"
	profileFile  = "profile-has-key" // exists if the login profile sets a secret
)

// job is what the steps of a run share.
type job struct {
	*Worker
	run    reconcile.Run // as dispatched
	rec    *record
	events *agent.EventLog
	space  *host.Workspace // nil until it is taken
	// exact keeps only the tracker's key out of what the agent is told.
	exact  *agent.Redactor
	budget *budget
	// codexHome is where codex keeps its threads; set once it has answered.
	codexHome string
}

func (w *Worker) newJob(run reconcile.Run, cancel context.CancelCauseFunc) *job {
	j := &job{Worker: w, run: run, exact: agent.NewExactRedactor(w.Config.SecretValues)}
	j.budget = &budget{job: j, cancel: cancel}
	j.rec = &record{
		journal: w.Journal, alive: w.Alive, now: w.Now, log: w.Log, run: run,
		scan:    j.noteProcesses,
		locks:   j.endLockHolders,
		stopped: func(reason string) { cancel(errStopped{reason}) },
		lost:    func(error) { cancel(errNotOurs) },
		counted: j.budget.check,
		base:    map[string]reconcile.Tokens{},
	}
	return j
}

// open opens the files of the run's directory. If that fails, for instance on a full disk, the run ends as by any other
// fault.
func (j *job) open() (err error) {
	j.events, err = agent.OpenEventLog(filepath.Join(j.Dir, eventsFile), j.Redactor)
	return err
}

func (j *job) close() {
	if j.events == nil {
		return
	}
	if err := j.events.Close(); err != nil {
		j.Log.Warn("run directory", slog.String("error", err.Error()))
	}
}

// startHeartbeat beats until stop is called, even after ctx has ended.
func (j *job) startHeartbeat(ctx context.Context) (beats context.Context, stop func()) {
	beats, cancel := context.WithCancel(context.WithoutCancel(ctx))
	over := make(chan struct{})
	go func() { defer close(over); j.rec.beat(beats, heartbeat) }()
	return beats, func() { cancel(); <-over }
}

// note writes an event of the worker's own.
func (j *job) note(name, message string, payload any) {
	run := j.rec.get()
	raw, err := json.Marshal(payload)
	if err == nil {
		err = j.events.Append(agent.Event{Name: name, At: j.Now(), ThreadID: run.ThreadID, Message: message, Raw: raw})
	}
	if err != nil {
		j.Log.Warn("event not stored", slog.String("error", err.Error()))
	}
}

func (j *job) env() environment { return environment{j.Env, j.Config, j.run.ID, j.space} }

func (j *job) hostRun() host.Run { return host.Run{ID: j.run.ID, Dir: j.Dir} }

// killEverything ends the run's whole tree: what carries its marker or its thread's, what was recorded, and what descends
// from this worker.
func (j *job) killEverything(ctx context.Context) error {
	j.noteProcesses()
	run := j.rec.get()
	return j.kill(ctx, host.KillRequest{Owned: host.Owned{
		Run: j.hostRun(), ThreadID: run.ThreadID, Root: run.WorkspaceRoot, Below: true,
	}})
}

// kill ends processes, also after ctx has ended, and fails if some are left.
func (j *job) kill(ctx context.Context, r host.KillRequest) error {
	answer, err := j.Host.Kill(context.WithoutCancel(ctx), r)
	if err != nil {
		return err
	}
	return host.Leftover(r.Owned.Run.ID, answer.Left)
}

// noteProcesses records every process below the worker, so that a later pass finds those that shed their marker.
func (j *job) noteProcesses() { j.observe(host.ObserveRequest{Run: j.hostRun()}) }

// endLockHolders also ends the processes of the run that keep a lock of symphony.
func (j *job) endLockHolders() {
	j.observe(host.ObserveRequest{Run: j.hostRun(), StateDir: j.StateDir, AccountDir: j.AccountDir})
}

func (j *job) observe(r host.ObserveRequest) {
	if j.Host == nil {
		return // the run could not begin
	}
	answer, err := j.Host.Observe(context.Background(), r)
	for _, p := range answer.LockHolders {
		j.Log.Warn("ended a process of the agent that kept a lock of symphony", slog.Int("pid", p.PID), slog.String("name", p.Name))
		j.note(EventLockEnded, fmt.Sprintf("process %d (%s), which kept a lock of symphony, was ended", p.PID, p.Name), LockEndedEvent{p.PID, p.Name})
	}
	if err != nil {
		j.Log.Warn("processes of the run", slog.String("error", err.Error()))
	}
}

// EventLockEnded is a process of the run that was ended because it kept a lock of symphony; its payload is a LockEndedEvent.
const EventLockEnded = "lock_ended"

// LockEndedEvent is the payload of EventLockEnded.
type LockEndedEvent struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
}
