package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// attempt is an agent run under way.
type attempt struct {
	*job
	workspace *workspaceStep
	ending    <-chan struct{} // closed when the run is to end
	agent     *agentProcess
	thread    threadState
	created   createdEntities
	limits    limitsReporter
	// environ is what the agent has of variables, codexHome where it keeps its threads, both once it has answered.
	environ   codexEnviron
	codexHome string
}

// converse launches the agent and takes it through its turns (specification 10.2 and 10.3).
func (a *attempt) converse(ctx context.Context, prompt string) error {
	a.rec.phase(ctx, reconcile.LaunchingAgent)
	run := a.hostRun()
	if _, err := a.Host.Facts(ctx, host.FactsRequest{Run: &run, Path: a.space.Path}); err != nil {
		return err
	}
	if err := a.launch(ctx); err != nil {
		return err
	}
	thread, err := a.handshake(ctx)
	if err != nil {
		return a.explain(ctx, a.withStderr(err))
	}
	input, err := a.firstInput(ctx, prompt, thread)
	if err != nil {
		return err
	}
	a.rec.phase(ctx, reconcile.StreamingTurn)
	for turn := 1; ; turn++ {
		if err := a.turn(ctx, input, turn); err != nil {
			return a.explain(ctx, err)
		}
		more, err := a.wantsMore(ctx, turn)
		if !more || err != nil {
			return err
		}
		input = a.nextInput(ctx, turn+1)
	}
}

// wantsMore asks the tracker whether the issue wants another turn of this run. A stop that comes after a
// turn has completed takes nothing from it: the run ends well.
func (a *attempt) wantsMore(ctx context.Context, turn int) (bool, error) {
	if ctx.Err() != nil || a.budget.spent.Load() {
		return false, nil //nolint:nilerr // see above
	}
	err := a.refreshPatiently(ctx)
	if ctx.Err() != nil {
		return false, nil //nolint:nilerr // a stop, and the work of the turn is done
	}
	var moved errMovedOn
	if errors.As(err, &moved) {
		a.Log.LogAttrs(ctx, slog.LevelInfo, "issue moved on", slog.String("reason", moved.reason))
		return false, nil // handed over: how a run ends well
	}
	return turn < a.Config.MaxTurns, err
}

// handshake opens the session and the thread.
func (a *attempt) handshake(ctx context.Context) (openedThread, error) {
	a.rec.phase(ctx, reconcile.InitializingSession)
	server, err := a.agent.session.Initialize(ctx)
	a.agent.launched(err == nil)
	if err != nil {
		return openedThread{}, err
	}
	a.Log.LogAttrs(ctx, slog.LevelInfo, "agent ready", slog.String("user_agent", server.UserAgent))
	a.readEnviron(ctx)
	a.codexHome = a.environ.home(server.Home)
	if err := a.probeSandbox(ctx); err != nil {
		return openedThread{}, err
	}
	params, err := a.threadParams(ctx)
	if err != nil {
		return openedThread{}, err
	}
	thread, err := a.openThread(ctx, params)
	// Also that of a resume that failed: a thread which can't be loaded is given up after some runs.
	a.rec.change(func(r *reconcile.Run) { r.ThreadID, r.Model = thread.id, a.agent.session.Model() })
	return thread, err
}

func (a *attempt) threadParams(ctx context.Context) (agent.ThreadParams, error) {
	config, err := a.Config.threadConfig(ctx, a.Host, a.run.ID, *a.space, a.environ.passed(a.Config.PassEnv, a.Config.SecretValues))
	if err != nil {
		return agent.ThreadParams{}, err
	}
	fromProfile := a.environ.fromProfile(a.Config.PassEnv)
	if a.profileHasKey() {
		a.Log.Warn("the login profile sets a secret that no agent gets: the agent's commands run without a login shell", slog.Any("one_of", a.Config.withheld(a.Env)))
	} else if len(fromProfile) > 0 {
		a.Log.Info("the login profile sets what looks like secrets: the agent's commands run without a login shell", slog.Any("variables", fromProfile))
	}
	if a.profileHasKey() || len(fromProfile) > 0 {
		// codex runs commands in login shells, and copies what those export. The agent itself was started
		// by one, so that only the profile's functions are missed.
		maps.Copy(config, map[string]any{"allow_login_shell": false, "features.shell_snapshot": false})
	}
	return agent.ThreadParams{
		Name: a.run.Issue.Identifier + ": " + a.run.Issue.Title,
		Cwd:  a.space.Path, ApprovalPolicy: a.Config.ApprovalPolicy, Sandbox: a.Config.ThreadSandbox, Config: config,
	}, nil
}

// failuresBeforeFresh is how many runs in a row may fail on a thread before a new one is begun.
const failuresBeforeFresh = 2

// openedThread is the thread that the run's turns belong to.
type openedThread struct {
	id      string
	resumed bool // it is that of an earlier run
	worked  bool // an earlier run has worked in this workspace
	// replaces: it is new, and an earlier run worked on the issue with another.
	replaces bool
	// elsewhere: the thread that worked on the issue last is in another home of codex's.
	elsewhere bool
}

// note is what a new thread is told of the earlier ones.
func (t openedThread) note() string {
	switch {
	case !t.worked:
		return ""
	case t.elsewhere:
		return agent.WorkElsewhere
	}
	return agent.EarlierWork
}

// openThread goes on with the thread that worked in this very workspace and that this home of codex's has, or starts
// one. With an error it names the thread that could not be resumed.
func (a *attempt) openThread(ctx context.Context, params agent.ThreadParams) (openedThread, error) {
	newest, here, err := a.Journal.LastThread(ctx, a.run.IssueID, a.codexHome)
	if err != nil {
		return openedThread{}, err
	}
	workedHere := func(t reconcile.Thread) bool {
		return t.ID != "" && t.WorkspaceID == a.space.ID && !a.space.Created
	}
	elsewhere := newest.ID != here.ID
	if elsewhere {
		a.Log.LogAttrs(ctx, slog.LevelInfo, "the issue's last thread is in another codex home", slog.String("thread_id", newest.ID),
			slog.String("its_home", newest.CodexHome), slog.String("home", a.codexHome))
	}
	if workedHere(here) && a.Config.ResumeThread && here.Failed < failuresBeforeFresh {
		opened, err := a.resumeThread(ctx, here.ID, params)
		if opened.elsewhere = elsewhere; opened.resumed || err != nil {
			return opened, err
		}
	}
	id, err := a.agent.session.StartThread(ctx, params)
	return openedThread{id: id, worked: workedHere(newest), replaces: newest.ID != "", elsewhere: elsewhere}, err
}

// resumeThread loads the thread. Without an error and not resumed, it can't be and a new one is to be begun.
func (a *attempt) resumeThread(ctx context.Context, thread string, params agent.ThreadParams) (openedThread, error) {
	err := a.agent.session.ResumeThread(ctx, thread, params)
	if errors.Is(err, agent.ErrThreadBusy) {
		// Our own orphan may hold it. Whatever else does is not ours to end.
		killErr := a.kill(ctx, host.KillRequest{
			Owned: host.Owned{Run: a.hostRun(), ThreadID: thread}, ThreadOnly: true, Spare: a.agent.child.Process(),
		})
		if killErr != nil {
			return openedThread{}, killErr // says nothing of the thread
		}
		err = a.agent.session.ResumeThread(ctx, thread, params)
	}
	if errors.Is(err, agent.ErrNoThread) || errors.Is(err, agent.ErrThreadBusy) {
		a.Log.LogAttrs(ctx, slog.LevelInfo, "thread not resumed, a new one is begun", slog.String("thread_id", thread), slog.String("error", err.Error()))
		return openedThread{}, nil
	}
	return openedThread{id: thread, resumed: err == nil, worked: true}, err
}

// turn runs one turn and waits for its end.
func (a *attempt) turn(ctx context.Context, input string, number int) error {
	policy, err := a.Config.sandboxPolicy(ctx, a.Host, *a.space)
	if err != nil {
		return err
	}
	before := a.rec.get()
	a.rec.change(func(r *reconcile.Run) { r.Turns = number })
	a.rec.flush(ctx)
	a.notePrompt(input, number)
	a.agent.beginTurn()
	_, err = a.agent.session.RunTurn(ctx, agent.TurnParams{
		Input: input, Cwd: a.space.Path,
		ApprovalPolicy: a.Config.ApprovalPolicy, SandboxPolicy: policy,
	})
	a.rec.usage(ctx, a.agent.session.UsageByThread())
	if fault := a.agent.sandboxFault(); fault != nil && ctx.Err() == nil {
		a.logHint(ctx, fault)
		err = fault
	}
	if err == nil {
		a.rec.change(func(r *reconcile.Run) { r.TurnsDone = number })
		a.shareSuccess(ctx)
	}
	if after := a.rec.get(); after.TurnID != before.TurnID {
		outcome := "completed"
		if err != nil {
			outcome = err.Error()
		}
		a.Log.LogAttrs(ctx, slog.LevelInfo, "turn ended", sessionID(after), slog.Int("turn", number), slog.String("outcome", outcome))
	}
	a.rec.flush(ctx)
	return err
}

// sessionID names a turn as the specification does (4.1.6).
func sessionID(r reconcile.Run) slog.Attr { return slog.String("session_id", r.ThreadID+"-"+r.TurnID) }

// onEvent keeps what the agent says: in the run's event file, and the latest in its row.
func (a *attempt) onEvent(e agent.Event) {
	<-a.agent.ready  // the agent may speak before launch has taken hold of the session
	if !e.Fragment { // pieces would drive all else out of the bounded file, and hide a secret that comes in pieces
		if err := a.events.Append(eventLine(e)); err != nil {
			a.Log.Warn("event not stored", slog.String("error", err.Error()))
		}
	}
	a.agent.watch(e.Item)
	a.count()
	a.keepLinks(linksSaid(e.Item))
	model, message := a.agent.session.Model(), a.Redactor.Text(e.Message)
	var limits []byte
	if record := a.agent.session.RateLimits(); record != nil {
		if limits = a.Redactor.Bytes(record); !json.Valid(limits) {
			limits = nil // a number in it was taken for a secret
		}
	}
	a.rec.change(func(r *reconcile.Run) {
		r.LastEvent, r.LastEventAt, r.Model = e.Name, e.At, model
		if message != "" && !e.Fragment {
			r.LastMessage = message
		}
		if e.TurnID != "" && e.ThreadID == r.ThreadID {
			r.TurnID = e.TurnID
		}
		if limits != nil {
			r.RateLimits = limits
		}
	})
	a.limits.report(context.Background(), limits)
	if run := a.rec.get(); e.Name == agent.EventSessionStarted && e.ThreadID == run.ThreadID {
		a.Log.Info("turn started", sessionID(run), slog.Int("turn", run.Turns))
		a.turnAccepted(context.Background())
	}
	if e.Name == agent.EventSessionStarted {
		a.rec.flush(context.Background()) // who watches sees the session at once
	}
}

// count writes down what the agent has used as soon as it tells, so that a worker that dies in mid-turn
// takes no token with it.
func (a *attempt) count() {
	if used := a.agent.session.Usage(); used != a.agent.used {
		a.agent.used = used
		a.rec.usage(context.Background(), a.agent.session.UsageByThread())
	}
}

// withStderr adds the end of the agent's stderr to the error of a start that failed. explain does so where the agent ended.
func (a *attempt) withStderr(err error) error {
	var e *agent.Error
	said := agent.LastWords(a.agent.stderr.Tail(lastWordsKept))
	if !errors.As(err, &e) || e.Code == agent.CodePortExit || said == "" {
		return err
	}
	told := *e
	told.Message += "; the last line of its stderr: " + said
	return &told
}

// deathWait is how long an agent that ended unasked waits for a signal to the worker: a stopping scope or
// a shutdown ends both, and then nobody has failed.
const deathWait = time.Second

// explain finds out why the agent is gone, where it is.
func (a *attempt) explain(ctx context.Context, err error) error {
	var e *agent.Error
	if !errors.As(err, &e) || e.Code != agent.CodePortExit || ctx.Err() != nil {
		return err
	}
	exit := a.agent.exitWithin(ctx, deathWait)
	select {
	case <-ctx.Done():
		return err
	case <-time.After(deathWait):
	}
	text := agent.LastWords(a.agent.stderr.Tail(lastWordsKept))
	switch {
	case exit != nil && (exit.Code == 127 || exit.Code == 126):
		return &reconcile.Error{
			Code: "codex_not_found", Message: fmt.Sprintf("codex.command %q can't be run: %s", a.Config.Command, text),
			Hint: "install codex, or give its path in codex.command; it is looked up by bash -lc",
		}
	case exit != nil:
		message := fmt.Sprintf("the agent ended unasked, %s", exit.Text)
		if text != "" {
			message += ": " + text
		}
		return &reconcile.Error{
			Code: string(agent.CodePortExit), Message: message,
			Hint: "its stderr: " + filepath.Join(a.Dir, stderrFile),
		}
	case text != "":
		return &agent.Error{Code: e.Code, Message: e.Message + "; the last line of its stderr: " + text}
	}
	return err
}
