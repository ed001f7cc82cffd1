package runner

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/agenttool"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/team"
)

// toolbox carries out the tools of the agent of an issue: those of the tracker, and hand_over
// if the workflow names a state for handovers.
type toolbox struct {
	*parts
	issue     *issueReader
	handovers *handovers
	created   *creations
	claim     *claimKeeper

	// Commands of the agent can make any number of calls, each of which starts git or asks the
	// tracker, outside of the sandbox. Only some are carried out at once, and others wait.
	calls     chan struct{} // of the tracker's tools
	handOvers chan struct{}
}

// maxCalls is how many calls of the tracker's tools are carried out at once. Of hand_over, which
// starts git several times, it is one.
const maxCalls = 4

func (j *job) newToolbox(g *guide, h *handovers) *toolbox {
	return &toolbox{
		parts:     j.parts,
		issue:     j.issue,
		handovers: h,
		created:   g.comments.created,
		claim:     j.claim,
		calls:     make(chan struct{}, maxCalls),
		handOvers: make(chan struct{}, 1),
	}
}

// list returns the tools.
func (t *toolbox) list() []agent.Tool {
	var list []agent.Tool
	for _, tool := range t.Tracker.Tools {
		list = append(list, agent.Tool{
			Name:        tool.Name,
			Description: tool.Description,
			InputSchema: tool.InputSchema,
			Summary:     tool.Summary,
		})
	}
	if t.site.Config.Handoff.State != "" {
		list = append(list, handOverTool())
	}
	return list
}

// call carries out a call of the agent g. The session calls only tools of list.
func (t *toolbox) call(
	ctx context.Context,
	g *agentProcess,
	name string,
	args json.RawMessage,
) agent.ToolResult {
	places := t.calls
	if name == handOverName {
		places = t.handOvers
	}
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	case <-ctx.Done():
		return agent.ToolResult{Text: agenttool.Refused("", ctx.Err()).Text}
	}
	if name == handOverName {
		return t.askHandover(ctx, g, args)
	}
	named := func(tool reconcile.AgentTool) bool { return tool.Name == name }
	answer := t.callTracker(ctx, text.First(t.Tracker.Tools, named), args)
	return agent.ToolResult{Text: t.agentRedactor.Text(answer.Text), Success: answer.Success}
}

// callTracker runs the agent's call of a tool of the tracker (specification 10.5). If the call
// changes the issue, this is written to the run's row before the call, and the new state after
// it, so that a pass can tell a handoff from a change by a person. Entities that the call
// created are stored first of all.
func (t *toolbox) callTracker(
	ctx context.Context,
	tool reconcile.AgentTool,
	args json.RawMessage,
) reconcile.ToolAnswer {
	if err := t.claim.checkBeforeCall(ctx); err != nil {
		return agenttool.Refused(team.CodeLost, err)
	}
	if err := t.handovers.checkMove(ctx, tool, args); err != nil {
		return agenttool.Refused("", err)
	}
	changes := tool.ChangesIssue(args)
	if changes {
		t.rec.recordMove()
		t.rec.flush(ctx)
	}
	answer := tool.Call(ctx, t.rec.get().Issue, args)
	if m := answer.Mutation; m != nil {
		message := strings.Join(m.Fields, ", ")
		if !m.Success {
			message += " failed"
		}
		t.events.note(agent.EventMutation, message, m)
		t.rec.keepLinks(linksInMutation(*m))
		// If this is never stored, the next run takes the agent's own comment for a person's.
		warn(t.Log, "what the agent created is not stored yet", t.created.save(ctx, m.Created))
		crash.At("runner.mutation.after")
	}
	if !changes {
		return answer
	}
	issue, _, err := t.issue.read(ctx)
	if err != nil {
		warn(t.Log, "handoff not confirmed", err)
		return answer
	}
	t.rec.change(func(r *reconcile.Run) { r.MovedTo = issue.State })
	t.rec.flush(ctx)
	return answer
}

// askHandover records the agent's request. The handover happens after the turn.
func (t *toolbox) askHandover(
	ctx context.Context,
	g *agentProcess,
	args json.RawMessage,
) agent.ToolResult {
	wish, err := t.handovers.accept(ctx, args)
	if err != nil {
		if t.handovers.countRefusal(ctx, "hand_over", err) {
			t.interruptTurn(ctx, g)
		}
		return agent.ToolResult{Text: t.agentRedactor.Text(agenttool.Refused("hand_over_failed", err).Text)}
	}
	t.rec.change(func(r *reconcile.Run) { r.Delivery.Handover = &wish })
	if err := t.rec.store(ctx); err != nil {
		t.rec.change(func(r *reconcile.Run) { r.Delivery.Handover = nil })
		return agent.ToolResult{Text: agenttool.Refused("hand_over_failed", err).Text}
	}
	crash.At("runner.handover.recorded")
	t.events.note("handover", text.Within(text.OneLine(wish.Blocked+wish.Summary), longestNote), wish)
	return agent.ToolResult{Text: "recorded; end your turn", Success: true}
}

// interruptTurn interrupts the turn after its present call of a tool: the agent waits for the
// answer to that first.
func (t *toolbox) interruptTurn(ctx context.Context, g *agentProcess) {
	go func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), interruptBound)
		defer cancel()
		warn(t.Log, "turn not interrupted", g.session.Interrupt(bounded))
	}()
}
