package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
)

// openedThread is the thread of a run.
type openedThread struct {
	id          string
	home        string // where the agent stores it
	permissions string // the name of the permission profile of its turns; "" for none

	resumed bool // an earlier run worked on it
	worked  bool // an earlier run worked in this workspace
	// replaces is set for a new thread if the issue already had a thread before.
	replaces bool
	// elsewhere is set if the issue's last thread is in another home, or another agent's.
	elsewhere bool
	// last is the last run on that thread, nil if it is not elsewhere or no longer stored.
	last *reconcile.Run
}

// note returns the note about earlier threads for a new thread.
func (t openedThread) note() string {
	if !t.worked {
		return ""
	}
	return agent.EarlierWork(t.last)
}

// maxThreadFailures is how many runs in a row may fail on a thread before a new thread is
// started.
const maxThreadFailures = 2

// threadOpener opens the thread of a run.
type threadOpener struct{ *parts }

// handshake opens the session and the thread: the thread that this run already had if the
// agent was paused.
func (o *threadOpener) handshake(
	ctx context.Context,
	g *agentProcess,
	paused bool,
) (openedThread, error) {
	o.rec.phase(ctx, reconcile.InitializingSession)
	server, err := g.initialize(ctx)
	if err != nil {
		return openedThread{}, err
	}
	params, permissions, err := o.params(ctx, g)
	if err != nil {
		return openedThread{}, err
	}
	var thread openedThread
	own := o.rec.get().ThreadID
	if paused && own != "" {
		thread, err = o.reopenThread(ctx, g, own, params)
	} else {
		thread, err = o.openThread(ctx, g, server.Home, params)
	}
	thread.home = server.Home
	thread.permissions = permissions
	// Also after a failed resume, so that the failure counts for maxThreadFailures.
	o.rec.change(func(r *reconcile.Run) {
		r.ThreadID = thread.id
		r.Model = g.session.Model()
	})
	// From here the worker mostly waits, for hours perhaps. The start left some 2 MB of garbage.
	debug.FreeOSMemory()
	return thread, err
}

// params returns the parameters of the thread, and the name of the permission profile of its
// turns; "" for none.
func (o *threadOpener) params(
	ctx context.Context,
	g *agentProcess,
) (p agent.ThreadParams, permissions string, err error) {
	config, err := o.site.Config.ThreadConfig(ctx, o.site.Machine, o.run.ID, *o.site.space, g.environ)
	if err != nil {
		return p, "", err
	}
	policy, profile, err := o.site.profile(ctx)
	if err != nil {
		return p, "", err
	}
	if profile != nil {
		confine.AddProfile(config, profile)
		permissions = confine.ProfileName
	}
	issue := o.run.Issue
	return agent.ThreadParams{
		Name:           o.agentRedactor.Text(issue.Identifier + ": " + issue.Title),
		Cwd:            o.site.space.Path,
		ApprovalPolicy: o.site.Config.ApprovalPolicy,
		Sandbox:        o.site.Config.ThreadSandbox,
		Config:         config,
		TurnPolicy:     policy,
		Model:          o.site.Config.Model,
		Effort:         o.site.Config.Effort,
	}, permissions, nil
}

// reopenThread resumes the own thread of this run after a pause, or replaces it. With an error
// it returns the thread that could not be resumed.
func (o *threadOpener) reopenThread(
	ctx context.Context,
	g *agentProcess,
	own string,
	params agent.ThreadParams,
) (openedThread, error) {
	opened, err := o.resumeThread(ctx, g, own, params)
	if opened.resumed || err != nil {
		return opened, err
	}
	id, err := g.session.StartThread(ctx, params)
	return openedThread{id: id, worked: true, replaces: true}, err
}

// openThread resumes the thread of this workspace in this home, or starts a new thread.
// With an error it returns the thread that could not be resumed.
func (o *threadOpener) openThread(
	ctx context.Context,
	g *agentProcess,
	home string,
	params agent.ThreadParams,
) (openedThread, error) {
	newest, here, err := o.Journal.LastThread(ctx, o.run.IssueID, home)
	if err != nil {
		return openedThread{}, err
	}
	workedHere := func(thread reconcile.Thread) bool {
		return thread.ID != "" && thread.WorkspaceID == o.site.space.ID && !o.site.space.Created
	}
	elsewhere := newest.ID != here.ID
	var last *reconcile.Run
	if elsewhere {
		last, err = o.lastRunOf(ctx, newest.ID)
		if err != nil {
			return openedThread{}, err
		}
		o.Log.Info(
			"the issue's last thread is elsewhere",
			"thread_id", newest.ID,
			"its_home", newest.Home,
			"home", home,
		)
	}
	if workedHere(here) && o.site.Config.ResumeThread && !here.Ended && here.Failed < maxThreadFailures {
		opened, err := o.resumeThread(ctx, g, here.ID, params)
		opened.elsewhere = elsewhere
		if opened.resumed || err != nil {
			return opened, err
		}
	}
	id, err := g.session.StartThread(ctx, params)
	return openedThread{
		id:        id,
		worked:    workedHere(newest),
		replaces:  newest.ID != "",
		elsewhere: elsewhere,
		last:      last,
	}, err
}

// lastRunOf returns the last run of the issue on a thread, nil if it is no longer stored.
func (o *threadOpener) lastRunOf(ctx context.Context, thread string) (*reconcile.Run, error) {
	last, found, err := o.Journal.LastRunOf(ctx, o.run.IssueID, thread)
	if err != nil {
		return nil, fmt.Errorf("read the last run of the other thread: %w", err)
	}
	if !found {
		return nil, nil
	}
	return &last, nil
}

// resumeThread resumes a thread. If the result is neither resumed nor an error, the caller
// should start a new thread.
func (o *threadOpener) resumeThread(
	ctx context.Context,
	g *agentProcess,
	thread string,
	params agent.ThreadParams,
) (openedThread, error) {
	used, _, err := o.Journal.Thread(ctx, thread)
	if err != nil {
		return openedThread{}, fmt.Errorf("read the tokens of the thread: %w", err)
	}
	params.Used = agent.Usage{
		Input:       used.Input,
		CachedInput: used.Cached,
		Output:      used.Output,
		Reasoning:   used.Reasoning,
		Total:       used.Total,
		Paid:        used.Paid,
	}
	err = g.session.ResumeThread(ctx, thread, params)
	if errors.Is(err, agent.ErrThreadBusy) {
		// A process that an earlier run left may have it open. Other processes are left alone.
		killErr := o.processes.ended(g.child.KillThread(context.WithoutCancel(ctx), thread))
		if killErr != nil {
			return openedThread{}, killErr // this is no evidence about the thread
		}
		err = g.session.ResumeThread(ctx, thread, params)
	}
	if errors.Is(err, agent.ErrNoThread) || errors.Is(err, agent.ErrThreadBusy) {
		o.Log.Info("thread not resumed, starting a new one", "thread_id", thread, "error", err)
		return openedThread{}, nil
	}
	if err != nil {
		return openedThread{id: thread, worked: true}, err
	}
	return openedThread{id: thread, worked: true, resumed: true}, nil
}
