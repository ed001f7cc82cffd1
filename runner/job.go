package runner

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// job is a run in progress: its parts and its steps. It puts them together, and each of them
// names the parts that it uses.
type job struct {
	worker *Worker
	run    reconcile.Run // as dispatched
	log    *slog.Logger
	rec    *record
	events *eventLog
	site   *site

	processes *processes
	shell     *shell
	boxes     *boxes
	issue     *issueReader
	claim     *claimKeeper
	branch    *issueBranch
	pull      *pullRequest
	agents    *launcher
	verifier  *verifier
	account   sharedAccount
	desk      agent.Desk // without Ending and Gone
	// agentRedactor removes only the tracker's key. It is for texts that the agent reads.
	agentRedactor *agent.Redactor

	workspace *workspaceStep
	turns     *turnLoop
	delivery  *deliveryStep
}

// Files in a run's directory, besides the host's.
const (
	WorkflowFile = "workflow.md" // as dispatched
	LogFile      = "worker.log"
	eventsFile   = "events.jsonl"
	HooksFile    = "hooks.log"
	stderrFile   = "agent.stderr" // of a free run: of its first conversation
)

// newJob puts a run together. cancel ends the run.
func (w *Worker) newJob(run reconcile.Run, cancel context.CancelCauseFunc) *job {
	j := &job{
		worker:        w,
		run:           run,
		log:           w.Log,
		rec:           w.newRecord(run, cancel),
		site:          w.newSite(run),
		agentRedactor: agent.NewExactRedactor(w.Here.Config.SecretValues),
	}
	j.events = &eventLog{rec: j.rec, now: w.Now, log: w.Log}
	j.processes = &processes{site: j.site, rec: j.rec, events: j.events, log: w.Log}
	j.boxes = j.newBoxes()
	j.shell = &shell{site: j.site, runID: run.ID, boxes: j.boxes, redactor: w.Redactor, log: w.Log}
	j.account = sharedAccount{account: w.Account, began: run.StartedAt, now: w.Now, log: w.Log}
	j.issue = j.newIssueReader()
	j.claim = j.newClaimKeeper(cancel)
	j.branch = j.newIssueBranch()
	j.pull = &pullRequest{
		issueID: run.IssueID,
		open:    w.Forge,
		words:   w.Here.Config.Repository.Words,
		journal: w.Journal,
		shell:   j.shell,
	}
	j.agents = j.newLauncher()
	j.verifier = j.newVerifier()
	j.desk = agent.Desk{
		Store:    w.Requests,
		Timeout:  w.Here.Config.AnswerTimeout,
		Redactor: w.Redactor,
		Log:      w.Log,
		Now:      w.Now,
		Notify:   w.Attend,
		Instant:  func() reconcile.Instant { return reconcile.Instant{Boot: w.Boot, Mono: w.Mono()} },
		Run:      j.rec.get,
	}
	j.workspace = j.newWorkspaceStep()
	j.turns = j.newTurnLoop()
	j.delivery = j.newDeliveryStep()
	return j
}

// open opens the event log.
func (j *job) open() error {
	file, err := agent.OpenEventLog(filepath.Join(j.worker.Dir, eventsFile), j.worker.Redactor)
	if err != nil {
		return err
	}
	file.Complete = j.worker.Free != nil
	j.events.file = file
	return nil
}

func (j *job) close() {
	j.boxes.close()
	if j.events.file != nil {
		warn(j.log, "run directory", j.events.file.Close())
	}
}

// eventLog is the event log of a run.
type eventLog struct {
	file *agent.EventLog // nil until it is opened
	rec  *record
	now  func() time.Time
	log  *slog.Logger
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

// sharedAccount tells other projects what a run learns about the account of its agent.
type sharedAccount struct {
	account Account   // nil: nothing is shared with other projects
	began   time.Time // when the run started
	now     func() time.Time
	log     *slog.Logger
}

// failed stores the fault of the account that ended the run. It is called before the outcome
// is stored, so that no pass starts another run that meets the same fault.
func (s sharedAccount) failed(ctx context.Context, code, message string) {
	if s.account == nil || !reconcile.AccountFault(code) {
		return
	}
	warn(s.log, "fault of the account not shared", s.account.Failed(ctx, s.now(), code, message))
}

// worked ends a block of the account, if that is older than the run.
func (s sharedAccount) worked(ctx context.Context) {
	if s.account == nil {
		return
	}
	err := s.account.Worked(context.WithoutCancel(ctx), s.now(), s.began)
	warn(s.log, "block of the account not ended", err)
}
