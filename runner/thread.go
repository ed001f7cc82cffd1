package runner

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// maxThreadFailures is how many runs in a row may fail on a thread before a new one is started.
const maxThreadFailures = 2

// openedThread is the thread of the run's turns.
type openedThread struct {
	id      string
	resumed bool // an earlier run worked on it
	worked  bool // an earlier run worked in this workspace
	// replaces: it is new, and an earlier run worked on the issue on another one.
	replaces bool
	// elsewhere: the thread that worked on the issue last is in another codex home.
	elsewhere bool
}

// note tells a new thread of the earlier ones.
func (t openedThread) note() string {
	switch {
	case !t.worked:
		return ""
	case t.elsewhere:
		return agent.WorkElsewhere
	}
	return agent.EarlierWork
}

// handshake opens the session and the thread.
func (c *conversation) handshake(ctx context.Context) (openedThread, error) {
	c.rec.phase(ctx, reconcile.InitializingSession)
	server, err := c.agent.session.Initialize(ctx)
	if err != nil {
		return openedThread{}, err
	}
	c.Log.Info("agent ready", "user_agent", server.UserAgent)
	c.agent.readEnviron(ctx)
	if c.codexHome, err = filepath.EvalSymlinks(server.Home); err != nil {
		c.codexHome = server.Home
	}
	if err := c.agent.probeSandbox(ctx); err != nil {
		return openedThread{}, err
	}
	params, err := c.threadParams(ctx)
	if err != nil {
		return openedThread{}, err
	}
	thread, err := c.openThread(ctx, params)
	// Also after a failed resume: a thread that can't be loaded is given up after some runs.
	c.rec.change(func(r *reconcile.Run) { r.ThreadID, r.Model = thread.id, c.agent.session.Model() })
	return thread, err
}

func (c *conversation) threadParams(ctx context.Context) (agent.ThreadParams, error) {
	passed := passedEnv(c.agent.environ, c.Config.PassEnv, c.Config.SecretValues)
	config, err := c.Config.threadConfig(ctx, c.Host, c.job.run.ID, *c.space, passed)
	issue := c.job.run.Issue
	return agent.ThreadParams{
		Name: c.exact.Text(issue.Identifier + ": " + issue.Title),
		Cwd:  c.space.Path, ApprovalPolicy: c.Config.ApprovalPolicy, Sandbox: c.Config.ThreadSandbox, Config: config,
	}, err
}

// openThread resumes the thread that worked in this very workspace and is in this codex home, or starts one. With an error
// it names the thread that could not be resumed.
func (c *conversation) openThread(ctx context.Context, params agent.ThreadParams) (openedThread, error) {
	newest, here, err := c.Journal.LastThread(ctx, c.job.run.IssueID, c.codexHome)
	if err != nil {
		return openedThread{}, err
	}
	workedHere := func(t reconcile.Thread) bool {
		return t.ID != "" && t.WorkspaceID == c.space.ID && !c.space.Created
	}
	elsewhere := newest.ID != here.ID
	if elsewhere {
		c.Log.Info("the issue's last thread is in another codex home", "thread_id", newest.ID, "its_home", newest.CodexHome, "home", c.codexHome)
	}
	if workedHere(here) && c.Config.ResumeThread && here.Failed < maxThreadFailures {
		opened, err := c.resumeThread(ctx, here.ID, params)
		if opened.elsewhere = elsewhere; opened.resumed || err != nil {
			return opened, err
		}
	}
	id, err := c.agent.session.StartThread(ctx, params)
	return openedThread{id: id, worked: workedHere(newest), replaces: newest.ID != "", elsewhere: elsewhere}, err
}

// resumeThread loads a thread. Not resumed and without an error, the thread can't be loaded and a new one is to be started.
func (c *conversation) resumeThread(ctx context.Context, thread string, params agent.ThreadParams) (openedThread, error) {
	err := c.agent.session.ResumeThread(ctx, thread, params)
	if errors.Is(err, agent.ErrThreadBusy) {
		// An orphan of ours may hold it. Another holder is not ours to end.
		killErr := c.kill(ctx, host.KillRequest{
			Owned: host.Owned{Run: c.hostRun(), ThreadID: thread}, ThreadOnly: true, Spare: c.agent.child.Process(),
		})
		if killErr != nil {
			return openedThread{}, killErr // it says nothing about the thread
		}
		err = c.agent.session.ResumeThread(ctx, thread, params)
	}
	if errors.Is(err, agent.ErrNoThread) || errors.Is(err, agent.ErrThreadBusy) {
		c.Log.Info("thread not resumed, a new one is started", "thread_id", thread, "error", err)
		return openedThread{}, nil
	}
	return openedThread{id: thread, resumed: err == nil, worked: true}, err
}
