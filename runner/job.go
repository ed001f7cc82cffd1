package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

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
	// exact keeps only the tracker's key out of what the agent is told.
	exact *agent.Redactor
	// codexHome is where codex keeps its threads; set once it has answered.
	codexHome  string
	overBudget atomic.Bool // the issue has used up agent.max_tokens
}

func (w *Worker) newJob(run reconcile.Run, cancel context.CancelCauseFunc) *job {
	j := &job{Worker: w, run: run, cancel: cancel, exact: agent.NewExactRedactor(w.Config.SecretValues)}
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
	return errors.Join(err, host.Leftover(r.Owned.Run.ID, answer.Left))
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
