package runner

import (
	"context"
	"errors"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
)

// openedThread is the thread of a run.
type openedThread struct {
	id      string
	resumed bool // an earlier run worked on it
	worked  bool // an earlier run worked in this workspace
	// replaces is set for a new thread if the issue already had a thread before.
	replaces bool
	// elsewhere is set if the issue's last thread is in another codex home.
	elsewhere bool
}

// note returns the note about earlier threads for a new thread.
func (t openedThread) note() string {
	switch {
	case !t.worked:
		return ""
	case t.elsewhere:
		return agent.WorkElsewhere
	}
	return agent.EarlierWork
}

// maxThreadFailures is how many runs in a row may fail on a thread before a new thread is
// started.
const maxThreadFailures = 2

// handshake opens the session and the thread.
func (t *turnLoop) handshake(ctx context.Context) (openedThread, error) {
	t.rec.phase(ctx, reconcile.InitializingSession)
	server, err := t.agent.initialize(ctx)
	if err != nil {
		return openedThread{}, err
	}
	t.codexHome = server.Home
	t.guide.codexHome = server.Home
	params, err := t.threadParams(ctx)
	if err != nil {
		return openedThread{}, err
	}
	thread, err := t.openThread(ctx, params)
	// Also after a failed resume, so that the failure counts for maxThreadFailures.
	t.rec.change(func(r *reconcile.Run) {
		r.ThreadID = thread.id
		r.Model = t.agent.session.Model()
	})
	return thread, err
}

func (t *turnLoop) threadParams(ctx context.Context) (agent.ThreadParams, error) {
	config, err := t.site.Config.ThreadConfig(ctx, t.site.Machine, t.run.ID, *t.site.space, t.agent.environ)
	if err != nil {
		return agent.ThreadParams{}, err
	}
	policy, err := t.site.turnPolicy(ctx)
	if err != nil {
		return agent.ThreadParams{}, err
	}
	profile, err := t.site.Config.Profile(ctx, t.site.Machine, policy)
	if err != nil {
		return agent.ThreadParams{}, err
	}
	if profile != nil {
		confine.AddProfile(config, profile)
		t.turnPermissions = confine.ProfileName
	}
	issue := t.run.Issue
	return agent.ThreadParams{
		Name:           t.agentRedactor.Text(issue.Identifier + ": " + issue.Title),
		Cwd:            t.site.space.Path,
		ApprovalPolicy: t.site.Config.ApprovalPolicy,
		Sandbox:        t.site.Config.ThreadSandbox,
		Config:         config,
		TurnPolicy:     policy,
		Model:          t.site.Config.Model,
	}, nil
}

// openThread resumes the thread of this workspace in this codex home, or starts a new thread.
// With an error it returns the thread that could not be resumed.
func (t *turnLoop) openThread(ctx context.Context, params agent.ThreadParams) (openedThread, error) {
	own := t.rec.get().ThreadID
	if t.restarts && own != "" {
		opened, err := t.resumeThread(ctx, own, params)
		if opened.resumed || err != nil {
			return opened, err
		}
		id, err := t.agent.session.StartThread(ctx, params)
		return openedThread{id: id, worked: true, replaces: true}, err
	}
	newest, here, err := t.threads.LastThread(ctx, t.run.IssueID, t.codexHome)
	if err != nil {
		return openedThread{}, err
	}
	workedHere := func(thread reconcile.Thread) bool {
		return thread.ID != "" && thread.WorkspaceID == t.site.space.ID && !t.site.space.Created
	}
	elsewhere := newest.ID != here.ID
	if elsewhere {
		t.log.Info(
			"the issue's last thread is in another codex home",
			"thread_id", newest.ID,
			"its_home", newest.CodexHome,
			"home", t.codexHome,
		)
	}
	if workedHere(here) && t.site.Config.ResumeThread && !here.Ended && here.Failed < maxThreadFailures {
		opened, err := t.resumeThread(ctx, here.ID, params)
		opened.elsewhere = elsewhere
		if opened.resumed || err != nil {
			return opened, err
		}
	}
	id, err := t.agent.session.StartThread(ctx, params)
	return openedThread{
		id:        id,
		worked:    workedHere(newest),
		replaces:  newest.ID != "",
		elsewhere: elsewhere,
	}, err
}

// resumeThread resumes a thread. If the result is neither resumed nor an error, the caller
// should start a new thread.
func (t *turnLoop) resumeThread(
	ctx context.Context,
	thread string,
	params agent.ThreadParams,
) (openedThread, error) {
	err := t.agent.session.ResumeThread(ctx, thread, params)
	if errors.Is(err, agent.ErrThreadBusy) {
		// A process that an earlier run left may have it open. Other processes are left alone.
		killErr := t.processes.ended(t.agent.child.KillThread(context.WithoutCancel(ctx), thread))
		if killErr != nil {
			return openedThread{}, killErr // this is no evidence about the thread
		}
		err = t.agent.session.ResumeThread(ctx, thread, params)
	}
	if errors.Is(err, agent.ErrNoThread) || errors.Is(err, agent.ErrThreadBusy) {
		t.log.Info("thread not resumed, starting a new one", "thread_id", thread, "error", err)
		return openedThread{}, nil
	}
	return openedThread{id: thread, resumed: err == nil, worked: true}, err
}
