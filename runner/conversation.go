package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// conversation launches the agent and takes it through its turns (specification 10.2 and 10.3).
type conversation struct {
	*job
	ending <-chan struct{} // closed when the run is to end
	agent  *agentProcess   // nil until it is launched
	guide  *guide
	limits limitsReporter
	used   agent.Usage // what was counted last; only the handler of events uses it
}

func newConversation(j *job, ending <-chan struct{}) *conversation {
	return &conversation{job: j, ending: ending, guide: &guide{job: j}, limits: limitsReporter{job: j}}
}

// run goes on until the issue wants no further turn.
func (c *conversation) run(ctx context.Context, prompt string) error {
	c.rec.phase(ctx, reconcile.LaunchingAgent)
	run := c.hostRun()
	if _, err := c.Host.Facts(ctx, host.FactsRequest{Run: &run, Path: c.space.Path}); err != nil {
		return err
	}
	var err error
	if c.agent, err = launchAgent(ctx, c.job, c.options); err != nil {
		return err
	}
	thread, err := c.handshake(ctx)
	if err != nil {
		return c.agent.withStderr(c.agent.explain(ctx, err))
	}
	input, err := c.guide.firstInput(ctx, prompt, thread)
	if err != nil {
		return err
	}
	c.rec.phase(ctx, reconcile.StreamingTurn)
	for turn := 1; ; turn++ {
		if err := c.turn(ctx, input, turn); err != nil {
			return c.agent.explain(ctx, err)
		}
		more, err := c.wantsMore(ctx, turn)
		if !more || err != nil {
			return err
		}
		input = c.guide.nextInput(ctx, turn+1)
	}
}

// options are those of the session with g, which may speak before the session is set.
func (c *conversation) options(g *agentProcess) agent.Options {
	o := agent.Options{
		TurnTimeout: c.Config.TurnTimeout, StallTimeout: c.Config.StallTimeout,
		OnApproval: c.Config.OnApproval, OnQuestion: c.Config.OnQuestion, Busy: g.busy,
		Ask: func(ctx context.Context, ask agent.Request) agent.Decision {
			<-g.ready
			desk := agent.Desk{
				Store: c.Requests, Timeout: c.Config.AnswerTimeout, Redactor: c.Redactor, Log: c.Log, Now: c.Now, Notify: c.Attend,
				Instant: func() reconcile.Instant { return reconcile.Instant{Boot: c.Boot, Mono: c.Mono()} },
				Run:     c.rec.get, Ending: c.ending, Gone: g.session.Done(),
			}
			return desk.Decide(ctx, ask)
		},
		OnEvent: func(e agent.Event) {
			<-g.ready
			c.onEvent(g, e)
		},
	}
	if tool := c.Tracker.Tool; tool != nil {
		o.Tools = []agent.Tool{{Name: tool.Name, Description: tool.Description, InputSchema: tool.InputSchema}}
		o.CallTool = func(ctx context.Context, _ string, args json.RawMessage) agent.ToolResult {
			answer := c.callTool(ctx, args)
			return agent.ToolResult{Text: c.exact.Text(answer.Text), Success: answer.Success}
		}
	}
	return o
}

// wantsMore asks the tracker whether the issue wants another turn. A stop after a completed turn takes nothing from it: the
// run succeeds.
func (c *conversation) wantsMore(ctx context.Context, turn int) (bool, error) {
	if ctx.Err() != nil || c.overBudget.Load() {
		return false, nil //nolint:nilerr // see above
	}
	err := c.refreshPatiently(ctx)
	if ctx.Err() != nil {
		return false, nil //nolint:nilerr // see above
	}
	var moved errMovedOn
	if errors.As(err, &moved) {
		c.Log.Info("issue moved on", "reason", moved.reason)
		return false, nil // it was handed over, so the run succeeds
	}
	return turn < c.Config.MaxTurns, err
}

// turn runs one turn and waits for its end.
func (c *conversation) turn(ctx context.Context, input string, number int) error {
	policy, err := c.Config.sandboxPolicy(ctx, c.Host, *c.space)
	if err != nil {
		return err
	}
	before := c.rec.get()
	c.rec.change(func(r *reconcile.Run) { r.Turns = number })
	c.rec.flush(ctx)
	size := utf8.RuneCountInString(input)
	c.note(agent.EventPrompt, fmt.Sprintf("turn %d, %d characters", number, size), agent.PromptEvent{Turn: number, Text: input})
	c.agent.beginTurn()
	_, err = c.agent.session.RunTurn(ctx, agent.TurnParams{
		Input: input, Cwd: c.space.Path, ApprovalPolicy: c.Config.ApprovalPolicy, SandboxPolicy: policy,
	})
	c.rec.usage(ctx, c.agent.session.UsageByThread())
	outcome := "completed"
	if err == nil {
		c.rec.change(func(r *reconcile.Run) { r.TurnsDone = number })
		c.shareSuccess(ctx)
	} else {
		outcome = err.Error()
	}
	if after := c.rec.get(); after.TurnID != before.TurnID { // else it never started
		c.Log.Info("turn ended", "session_id", sessionID(after), "turn", number, "outcome", outcome)
	}
	c.rec.flush(ctx)
	return err
}

// sessionID names a turn as the specification does (4.1.6).
func sessionID(r reconcile.Run) string { return r.ThreadID + "-" + r.TurnID }

// onEvent writes an event to the run's event file, and the latest state to its row.
func (c *conversation) onEvent(g *agentProcess, e agent.Event) {
	if !e.Fragment { // fragments would fill the bounded file, and a secret is not recognised in pieces
		c.warn("event not stored", c.events.Append(e))
	}
	ctx := context.Background()
	if used := g.session.Usage(); used != c.used { // at once, so that a worker that dies loses no tokens
		c.used = used
		c.rec.usage(ctx, g.session.UsageByThread())
	}
	c.keepLinks(linksInItem(e.Item))
	model, message := g.session.Model(), c.Redactor.Text(e.Message)
	var limits []byte
	if record := g.session.RateLimits(); record != nil {
		if limits = c.Redactor.Bytes(record); !json.Valid(limits) {
			limits = nil // a number in it was taken for a secret
		}
	}
	c.rec.change(func(r *reconcile.Run) {
		r.LastEvent, r.LastEventAt, r.Model = e.Name, e.At, model
		if message != "" && !e.Fragment {
			r.LastMessage = message
		}
		if e.Name == agent.EventSessionStarted && e.ThreadID == r.ThreadID { // other events may be late ones of an earlier turn
			r.TurnID = e.TurnID
		}
		if limits != nil {
			r.RateLimits = limits
		}
	})
	c.limits.report(ctx, limits)
	if e.Name != agent.EventSessionStarted {
		return
	}
	if run := c.rec.get(); e.ThreadID == run.ThreadID {
		c.Log.Info("turn started", "session_id", sessionID(run), "turn", run.Turns)
		c.guide.turnAccepted(ctx)
	}
	c.rec.flush(ctx) // views show the session at once
}

// callTool runs the agent's call of the tracker's tool (specification 10.5). A call that changes the issue is announced in the
// run's row before it is sent, and the state that it led to is stored after, so that a pass can tell a handoff from a move by
// a person. What it has changed is stored before anything else happens.
func (c *conversation) callTool(ctx context.Context, args json.RawMessage) reconcile.ToolAnswer {
	changes := c.Tracker.Tool.ChangesIssue(args)
	if changes {
		c.rec.handsOver()
		c.rec.flush(ctx)
	}
	answer := c.Tracker.Tool.Call(ctx, args)
	if m := answer.Mutation; m != nil {
		message := strings.Join(m.Fields, ", ")
		if !m.Success {
			message += " failed"
		}
		c.note(agent.EventMutation, message, m)
		c.keepLinks(linksInMutation(*m))
		// If it never is stored, the next run takes the agent's own comment for a person's.
		c.warn("creations of the agent not stored yet", c.guide.saveCreated(ctx, m.Created))
		crash.At("runner.mutation.after")
	}
	if !changes {
		return answer
	}
	found, err := c.Tracker.ByIDs(ctx, []string{c.job.run.IssueID})
	if err != nil {
		c.warn("handoff not confirmed", err)
		return answer
	}
	issue, visible := found[c.job.run.IssueID]
	c.rec.change(func(r *reconcile.Run) { r.HandoffState = issue.State })
	c.rec.flush(ctx)
	if visible && answer.Success {
		c.guide.noteDescription(ctx, args, issue)
	}
	return answer
}
