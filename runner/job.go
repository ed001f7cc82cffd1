package runner

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// job is a run in progress: its parts and its steps.
type job struct {
	*parts
	issue     *issueReader
	claim     *claimKeeper
	branch    *issueBranch
	pull      *pullRequest
	verifier  *verifier
	workspace *workspaceStep
	turns     *turnLoop
	delivery  *deliveryStep
}

// parts are what the steps of a run share.
type parts struct {
	*Worker
	run    reconcile.Run // as dispatched
	site   *site
	rec    *record
	events *eventLog
	desk   agent.Desk // without Ending and Gone

	boxes     *boxes
	processes *processes
	shell     *shell
	agents    *launcher
	// agentRedactor removes only the tracker's key. It is for texts that the agent reads.
	agentRedactor *agent.Redactor
}

// Files in a run's directory, besides the host's.
const (
	WorkflowFile = "workflow.md" // as dispatched
	LogFile      = "worker.log"
	eventsFile   = "events.jsonl"
	HooksFile    = "hooks.log"
	stderrFile   = "agent.stderr" // of a free run: of its first conversation
)

// newParts makes what the steps of a run share. cancel ends the run.
func (w *Worker) newParts(run reconcile.Run, cancel context.CancelCauseFunc) *parts {
	p := &parts{
		Worker:        w,
		run:           run,
		site:          w.newSite(run),
		rec:           w.newRecord(run, cancel),
		agentRedactor: agent.NewExactRedactor(w.Here.Config.SecretValues),
	}
	p.events = &eventLog{Worker: w, rec: p.rec}
	p.boxes = &boxes{dir: filepath.Join(w.Dir, "sandbox"), events: p.events, log: w.Log}
	p.processes = &processes{p}
	p.shell = &shell{parts: p, site: p.site}
	p.agents = &launcher{parts: p, site: p.site, shell: p.shell, stderr: stderrFile}
	p.desk = agent.Desk{
		Store:    w.Requests,
		Timeout:  w.Here.Config.AnswerTimeout,
		Redactor: w.Redactor,
		Log:      w.Log,
		Now:      w.Now,
		Notify:   w.Attend,
		Instant:  func() reconcile.Instant { return reconcile.Instant{Boot: w.Boot, Mono: w.Mono()} },
		Run:      p.rec.get,
	}
	return p
}

// newJob puts a run together. cancel ends the run.
func (w *Worker) newJob(run reconcile.Run, cancel context.CancelCauseFunc) *job {
	p := w.newParts(run, cancel)
	j := &job{
		parts:    p,
		issue:    &issueReader{p},
		claim:    p.newClaimKeeper(),
		branch:   &issueBranch{parts: p},
		pull:     &pullRequest{p},
		verifier: &verifier{p},
	}
	j.workspace = &workspaceStep{parts: p, branch: j.branch, claim: j.claim}
	j.turns = j.newTurnLoop()
	j.delivery = &deliveryStep{
		parts:     p,
		issue:     j.issue,
		claim:     j.claim,
		branch:    j.branch,
		pull:      j.pull,
		verifier:  j.verifier,
		workspace: j.workspace,
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
	j.events.file = file
	return nil
}

func (j *job) close() {
	j.boxes.close()
	if j.events.file != nil {
		warn(j.Log, "run directory", j.events.file.Close())
	}
}

// eventLog is the event log of a run.
type eventLog struct {
	*Worker
	file *agent.EventLog // nil until it is opened
	rec  *record
}

// append writes an event. An inspection keeps no log, and a run whose log could not be opened
// has none.
func (l *eventLog) append(e agent.Event) error {
	if l.file == nil {
		return nil
	}
	return l.file.Append(e)
}

// note writes an event of the worker itself, such as "verified".
func (l *eventLog) note(name, message string, payload any) {
	raw, err := json.Marshal(payload)
	if err != nil {
		warn(l.Log, "event not stored", err)
		return
	}
	err = l.append(agent.Event{
		Name:     name,
		At:       l.Now(),
		ThreadID: l.rec.get().ThreadID,
		Message:  message,
		Raw:      raw,
	})
	warn(l.Log, "event not stored", err)
}

func warn(log *slog.Logger, what string, err error) {
	if err != nil {
		log.Warn(what, "error", err)
	}
}

// logOutput logs all output of git with an error: messages contain only its last lines.
func logOutput(log *slog.Logger, err error) {
	said, ok := errors.AsType[host.GitError](err)
	if ok && !strings.Contains(said.Error(), said.Output()) {
		log.Info("git has written", "output", said.Output())
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

// accountFailed tells other projects of a fault of the agent's account. It is called before the
// outcome is stored, so that no pass starts another run that meets the same fault.
func (p *parts) accountFailed(ctx context.Context, code, message string) {
	if p.Account == nil || !reconcile.AccountFault(code) {
		return
	}
	err := p.Account.Failed(ctx, p.Now(), code, message)
	warn(p.Log, "fault of the account not shared", err)
}

// accountWorked ends a block of the account, if that is older than the run.
func (p *parts) accountWorked(ctx context.Context) {
	if p.Account == nil {
		return
	}
	err := p.Account.Worked(context.WithoutCancel(ctx), p.Now(), p.run.StartedAt)
	warn(p.Log, "block of the account not ended", err)
}
