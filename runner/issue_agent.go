package runner

import (
	"context"
	"encoding/json"

	"github.com/symphony-cron/symphony/runner/agent"
)

// issueAgent is the agent of an issue. It may be ended between two turns, and started again.
type issueAgent struct {
	*parts
	threads *threadOpener
	tools   *toolbox
	watch   *eventWatch

	process *agentProcess // nil until it is started, and while it is paused
	paused  bool          // the next start goes on with the thread of this run
}

func (j *job) newIssueAgent(g *guide, h *handovers) *issueAgent {
	return &issueAgent{
		parts:   j.parts,
		threads: &threadOpener{j.parts},
		tools:   j.newToolbox(g, h),
		watch:   &eventWatch{parts: j.parts, listener: j.newListener(), memory: g.memory},
	}
}

// start launches the agent and opens its thread. The run must end when ctx does.
func (a *issueAgent) start(ctx context.Context) (openedThread, error) {
	options := func(g *agentProcess) agent.Options { return a.options(g, ctx.Done()) }
	var thread openedThread
	g, err := a.agents.open(ctx, options, func(g *agentProcess) (err error) {
		thread, err = a.threads.handshake(ctx, g, a.paused)
		return err
	})
	a.process = g
	a.paused = false
	return thread, err
}

// pause ends the agent between two turns. Its next start goes on with the thread.
func (a *issueAgent) pause(ctx context.Context) {
	a.end(ctx)
	a.process = nil
	a.paused = true
}

// end ends the agent, if it runs.
func (a *issueAgent) end(ctx context.Context) { a.process.end(ctx) }

// options returns the options of the session with g. Their functions wait until g.session is
// set, because the agent may send lines before. ending is closed when the run must end.
func (a *issueAgent) options(g *agentProcess, ending <-chan struct{}) agent.Options {
	desk := a.desk
	desk.Ending = ending
	desk.Gone = g.gone
	tools, toolsInside := toolsDir(a.site.Config, a.Dir)
	return agent.Options{
		TurnTimeout:  a.site.Config.TurnTimeout,
		StallTimeout: a.site.Config.StallTimeout,
		OnApproval:   a.site.Config.OnApproval,
		OnQuestion:   a.site.Config.OnQuestion,
		Busy:         g.busy,
		Ask:          desk.Decide,
		Now:          a.Now,
		Tools:        a.tools.list(),
		Program:      a.site.Config.programInside(),
		ToolsDir:     tools,
		ToolsInside:  toolsInside,
		CallTool: func(ctx context.Context, name string, args json.RawMessage) agent.ToolResult {
			return a.tools.call(ctx, g, name, args)
		},
		OnEvent: func(e agent.Event) {
			<-g.ready
			a.watch.handle(g, e)
		},
	}
}
