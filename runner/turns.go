package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/internal/adapter/agenttool"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// turnLoop starts the agent and runs its turns (specification 10.2 and 10.3).
type turnLoop struct {
	run       reconcile.Run // as dispatched
	site      *site
	processes *processes
	issue     *issueReader
	branch    *issueBranch
	agents    *launcher
	verifier  *verifier
	handovers *handovers
	account   sharedAccount
	desk      agent.Desk // without Ending and Gone
	guide     *guide
	listener  *listener
	runs      RunJournal
	threads   ThreadJournal
	tracker   *reconcile.TrackerAdapter
	rec       *record
	events    *eventLog
	// agentRedactor removes only the tracker's key from the answers of tools.
	agentRedactor *agent.Redactor
	now           func() time.Time
	log           *slog.Logger

	ending <-chan struct{} // closed when the run must end
	agent  *agentProcess   // nil until it is started, and between two turns if it was ended
	// restarts: the next start of the agent goes on with the thread of this run.
	restarts  bool
	codexHome string // where codex stores the thread; set once codex answers
	// turnPermissions is the name of the permission profile of turns, "" for none.
	turnPermissions string
	// refused is how verify failed last in this run; the zero value if it did not.
	refused reconcile.Verification
	// came lists others' pushes during the last turn, if the handover looked for them.
	came *host.Pushed
	// worked: the agent did something in the present turn.
	worked atomic.Bool
	// toldNetwork: the log contains a note about the closed network. Only the handler of
	// events uses it.
	toldNetwork bool
}

// maxIdleTurns is how many turns in a row may do nothing before the run ends. The agent may
// have forgotten to hand the issue over, and reports only that it is done; max_idle_runs
// counts such runs.
const maxIdleTurns = 2

func (j *job) newTurnLoop() *turnLoop {
	return &turnLoop{
		run:           j.run,
		site:          j.site,
		processes:     j.processes,
		issue:         j.issue,
		branch:        j.branch,
		agents:        j.agents,
		verifier:      j.verifier,
		handovers:     j.newHandovers(),
		account:       j.account,
		desk:          j.desk,
		guide:         j.newGuide(),
		listener:      j.newListener(),
		runs:          j.worker.Journal,
		threads:       j.worker.Journal,
		tracker:       j.worker.Tracker,
		rec:           j.rec,
		events:        j.events,
		agentRedactor: j.agentRedactor,
		now:           j.worker.Now,
		log:           j.log,
	}
}

// work starts the agent and runs turns until the issue needs no more.
func (t *turnLoop) work(ctx context.Context, prompt string) error {
	t.ending = ctx.Done()
	t.rec.phase(ctx, reconcile.LaunchingAgent)
	if err := t.site.host.Verify(ctx); err != nil {
		return err
	}
	thread, err := t.start(ctx)
	if err != nil {
		return err
	}
	input, err := t.guide.firstTurnText(ctx, prompt, thread)
	if err != nil {
		return err
	}
	t.rec.phase(ctx, reconcile.StreamingTurn)
	insisted := t.dayUsedUp(ctx)
	idle := 0
	for turn := 1; ; turn++ {
		t.worked.Store(false)
		err := t.turn(ctx, input, turn)
		if end := t.handovers.hopeless(); end != nil && ctx.Err() == nil {
			return end
		}
		if err != nil {
			return t.agent.explain(ctx, err)
		}
		idle++
		if t.worked.Load() {
			idle = 0
		}
		more, err := t.wantsMore(ctx, turn)
		if !more && err == nil {
			more, err = t.returnForDelivery(ctx, turn)
		}
		if !more || err != nil {
			return err
		}
		if idle == maxIdleTurns {
			t.log.Info("the run ends: the agent has done nothing in its last turns", "turns", idle)
			return nil
		}
		if !insisted && t.dayUsedUp(ctx) {
			t.log.Info("the run ends: agent.budget_per_day is used up")
			return nil
		}
		if err := t.catchUp(ctx); err != nil {
			return err
		}
		input, err = t.nextInput(ctx, prompt, turn+1)
		if err != nil {
			return err
		}
	}
}

// catchUp looks before a further turn whether others pushed to the branch meanwhile. The
// workspace is moved to their commits, where that is possible; for that the agent ends, with
// all its processes. Its next turn tells the agent about them, once, unless it hands over
// without a merge. A commit to which the workspace could not be moved in this run is not tried
// again.
func (t *turnLoop) catchUp(ctx context.Context) error {
	came := t.came
	t.came = nil
	if came == nil {
		pushed, err := t.branch.pushedMeanwhile(ctx)
		warn(t.log, "it is not known whether others have pushed to the branch", err)
		if pushed == nil {
			return nil
		}
		if t.branch.base.Pushed.Refuses(pushed.Commit) {
			return nil
		}
		came = pushed
	}
	if t.branch.base.Pushed.Refuses(came.Commit) {
		came.TakenWithoutAgent = false
		came.Why = t.branch.base.Pushed.Why
	}
	if came.TakenWithoutAgent {
		t.agent.end(ctx)
		t.agent = nil
		t.restarts = true
		if err := t.processes.killAll(ctx); err != nil {
			return err
		}
		taken, err := t.branch.fetchPushed(ctx)
		warn(t.log, "what others have pushed is not fetched, the agent has to merge it", err)
		if taken != nil {
			came = taken
		}
	}
	t.branch.takePushed(came)
	return nil
}

// nextInput returns the text of a later turn. If the agent was ended, for verify or to move
// the workspace, it is started again.
func (t *turnLoop) nextInput(ctx context.Context, prompt string, turn int) (string, error) {
	if t.agent != nil {
		return t.guide.laterTurnText(ctx, turn), nil
	}
	if err := t.site.host.Verify(ctx); err != nil {
		return "", err
	}
	thread, err := t.start(ctx)
	if err != nil {
		return "", err
	}
	t.rec.phase(ctx, reconcile.StreamingTurn)
	if !thread.resumed {
		return t.guide.firstTurnText(ctx, prompt, thread)
	}
	return t.guide.laterTurnText(ctx, turn), nil
}

// dayUsedUp reports whether agent.budget_per_day is used up. A run that begins nevertheless
// was asked for by an operator.
func (t *turnLoop) dayUsedUp(ctx context.Context) bool {
	budget := t.site.Config.Policy.DailyBudget
	if !budget.Set() {
		return false
	}
	today, err := t.runs.UsedOn(ctx, t.now())
	warn(t.log, "what was used today is not read", err)
	return budget.Reached(today)
}

// start launches the agent and opens its thread.
func (t *turnLoop) start(ctx context.Context) (openedThread, error) {
	var thread openedThread
	g, err := t.agents.open(ctx, t.options, func(g *agentProcess) (err error) {
		t.agent = g
		thread, err = t.handshake(ctx)
		return err
	})
	t.agent = g
	return thread, err
}

// options returns the options of the session with g. Their functions wait until g.session is
// set, because the agent may send lines before.
func (t *turnLoop) options(g *agentProcess) agent.Options {
	desk := t.desk
	desk.Ending = t.ending
	desk.Gone = g.gone
	o := agent.Options{
		TurnTimeout:  t.site.Config.TurnTimeout,
		StallTimeout: t.site.Config.StallTimeout,
		OnApproval:   t.site.Config.OnApproval,
		OnQuestion:   t.site.Config.OnQuestion,
		Busy:         g.busy,
		Ask:          desk.Decide,
		Now:          t.now,
		OnEvent: func(e agent.Event) {
			<-g.ready
			t.onEvent(g, e)
		},
	}
	for _, tool := range t.tracker.Tools {
		o.Tools = append(o.Tools, agent.Tool{
			Name:        tool.Name,
			Description: tool.Description,
			InputSchema: tool.InputSchema,
			Summary:     tool.Summary,
		})
	}
	if t.site.Config.Handoff.State != "" {
		o.Tools = append(o.Tools, handOverTool)
	}
	o.CallTool = func(ctx context.Context, name string, args json.RawMessage) agent.ToolResult {
		if name == handOverTool.Name {
			return t.askHandover(ctx, args)
		}
		// the session calls no other
		named := func(tool reconcile.AgentTool) bool { return tool.Name == name }
		answer := t.callTool(ctx, text.First(t.tracker.Tools, named), args)
		return agent.ToolResult{Text: t.agentRedactor.Text(answer.Text), Success: answer.Success}
	}
	return o
}

// wantsMore reports whether the issue needs another turn. A stop after a completed turn does
// not undo it: the run succeeds.
func (t *turnLoop) wantsMore(ctx context.Context, turn int) (bool, error) {
	wish := t.rec.get().Delivery.Handover
	if wish.Waits() && ctx.Err() == nil {
		more, err := t.takeHandover(ctx, *wish)
		if !more || err != nil {
			return false, err
		}
	}
	if ctx.Err() != nil || t.rec.overBudget.Load() {
		return false, nil //nolint:nilerr // see above
	}
	err := t.issue.refreshPatiently(ctx)
	if ctx.Err() != nil {
		return false, nil //nolint:nilerr // see above
	}
	var moved runEnd
	if errors.As(err, &moved) && moved.outcome == reconcile.Canceled {
		t.log.Info("the issue needs no further turn", "reason", moved.code)
		return false, nil // usually it was handed over: the run succeeds
	}
	return turn < t.site.Config.MaxTurns, err
}

// takeHandover decides about the agent's handover. It reports whether the agent must go on.
func (t *turnLoop) takeHandover(ctx context.Context, wish reconcile.Handover) (more bool, err error) {
	err = t.handovers.checkWork(ctx)
	if err != nil && wish.Blocked == "" {
		// it is told when it does so again
		t.log.Info("the work has changed since the agent handed it over")
		t.rec.change(func(r *reconcile.Run) { r.Delivery.Handover = nil })
		return true, nil
	}
	if t.returnForMerge(ctx, wish) {
		return true, nil
	}
	if wish.NeedsVerify("") {
		return t.verifyHandover(ctx, wish)
	}
	t.log.Info("the agent hands the issue over")
	return false, nil
}

// returnForMerge drops the handover if others have pushed to the branch while the agent
// worked, and reports whether they have. The agent learns that in its next turn, and hands
// over again: without their commits nothing could be pushed.
func (t *turnLoop) returnForMerge(ctx context.Context, wish reconcile.Handover) bool {
	if wish.Blocked != "" {
		return false
	}
	pushed, err := t.branch.pushedMeanwhile(ctx)
	warn(t.log, "it is not known whether others have pushed to the branch", err)
	if pushed == nil {
		return false
	}
	t.log.Info("the handover waits for what others have pushed meanwhile", "commit", pushed.Commit)
	t.came = pushed
	t.rec.change(func(r *reconcile.Run) { r.Delivery.Handover = nil })
	return true
}

// turn runs a turn and waits for its end.
func (t *turnLoop) turn(ctx context.Context, input string, number int) error {
	policy, err := t.site.turnPolicy(ctx)
	if err != nil {
		return err
	}
	before := t.rec.get()
	t.rec.change(func(r *reconcile.Run) { r.Turns = number })
	t.rec.flush(ctx)
	size := utf8.RuneCountInString(input)
	t.events.note(agent.EventPrompt, fmt.Sprintf("turn %d, %d characters", number, size), agent.PromptEvent{
		Turn: number,
		Text: input,
	})
	t.agent.beginTurn()
	stopSteering := t.steer(ctx)
	_, err = t.agent.session.RunTurn(ctx, agent.TurnParams{
		Input:          input,
		Cwd:            t.site.space.Path,
		ApprovalPolicy: t.site.Config.ApprovalPolicy,
		SandboxPolicy:  policy,
		Permissions:    t.turnPermissions,
		Traceparent:    agent.Traceparent(before.ID, number),
	})
	stopSteering()
	t.rec.storeTokens(ctx, t.agent.session)
	if err == nil {
		t.branch.keep(ctx)
	}
	after := t.rec.get()
	started := after.TurnID != before.TurnID
	if started && after.Delivery.Handover.Refused() {
		// the agent was told, and may have gone on
		t.rec.change(func(r *reconcile.Run) { r.Delivery.Handover = nil })
	}
	outcome := "completed"
	if err == nil {
		t.rec.change(func(r *reconcile.Run) { r.TurnsDone = number })
		t.account.worked(ctx)
	} else {
		outcome = err.Error()
	}
	if started {
		t.log.Info("turn ended", "session_id", sessionID(after), "turn", number, "outcome", outcome)
	}
	t.rec.flush(ctx)
	return err
}

const tellStep = time.Second // how often to look during a turn for messages of operators

// steer passes on messages of operators to the agent during a turn, until stop is called.
// Messages that the turn does not take are in the next turn.
func (t *turnLoop) steer(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		repeat(ctx, tellStep, func() {
			if err := t.guide.tell(context.WithoutCancel(ctx), t.agent.session); err != nil {
				t.log.Info("the turn does not take what an operator tells, the next one gets it", "error", err)
				cancel()
			}
		})
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// sessionID returns the session id of a turn (specification 4.1.6).
func sessionID(r reconcile.Run) string { return r.ThreadID + "-" + r.TurnID }

// onEvent handles an event of the agent.
func (t *turnLoop) onEvent(g *agentProcess, e agent.Event) {
	t.listener.store(g, e)
	if e.Item.Works() {
		t.worked.Store(true)
	}
	t.tellClosedNetwork(e.Item)
	if e.Name != agent.EventSessionStarted {
		return
	}
	run := t.rec.get()
	if e.ThreadID == run.ThreadID {
		t.log.Info("turn started", "session_id", sessionID(run), "turn", run.Turns)
		t.guide.turnAccepted(context.Background())
	}
	t.rec.flush(context.Background()) // so that views show the session at once
}

// missesNetwork matches messages of programs that can open no connection.
var missesNetwork = text.Pattern(
	`(?i)could not resolve host|name resolution|no such host|name or service not known|ENOTFOUND` +
		`|EAI_AGAIN|network is unreachable|socket: operation not permitted`,
)

// tellClosedNetwork notes once in a run that a command failed because the sandbox closes the
// network, and which setting opens it.
func (t *turnLoop) tellClosedNetwork(i *agent.Item) {
	setting := t.site.Config.ClosesNetwork()
	if setting == "" || t.toldNetwork || i == nil || i.Kind != agent.ItemCommand || !i.Failed() ||
		!missesNetwork().MatchString(i.Output) {
		return
	}
	t.toldNetwork = true
	t.events.note(
		"network_closed",
		"a command has failed because the sandbox closes the network; in WORKFLOW.md "+setting+" opens it",
		map[string]string{"setting": setting},
	)
}

// callTool runs the agent's call of a tool of the tracker (specification 10.5). If the call
// changes the issue, this is written to the run's row before the call, and the new state after
// it, so that a pass can tell a handoff from a change by a person. Entities that the call
// created are stored first of all.
func (t *turnLoop) callTool(
	ctx context.Context,
	tool reconcile.AgentTool,
	args json.RawMessage,
) reconcile.ToolAnswer {
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
		warn(t.log, "what the agent created in the tracker is not stored yet", t.guide.saveCreated(ctx, m.Created))
		crash.At("runner.mutation.after")
	}
	if !changes {
		return answer
	}
	issue, visible, err := t.issue.read(ctx)
	if err != nil {
		warn(t.log, "handoff not confirmed", err)
		return answer
	}
	t.rec.change(func(r *reconcile.Run) { r.MovedTo = issue.State })
	t.rec.flush(ctx)
	if visible && answer.Success && tool.Describes != nil && tool.Describes(issue, args) {
		t.guide.noteDescription(ctx, issue)
	}
	return answer
}

// verifyHandover ends the agent and runs verify for the commit that it hands over. It reports
// whether the agent must go on, with the output in its next turn.
func (t *turnLoop) verifyHandover(ctx context.Context, wish reconcile.Handover) (more bool, err error) {
	before := t.refused
	earlier := t.run.Delivery.Handover // of the previous run
	if before.Round == 0 && earlier.Refused() && earlier.Verification.Round > 0 {
		before = *earlier.Verification
	}
	t.agent.end(ctx) // with all processes of the turn
	t.agent = nil
	t.restarts = true
	v, err := t.verifier.verify(ctx)
	if err != nil {
		return false, err
	}
	v.Round = before.Round
	if !v.Passed() && !v.Unusable() {
		v.Round++
	}
	wish.Verification = &v
	t.rec.change(func(r *reconcile.Run) { r.Delivery.Handover = &wish })
	t.rec.flush(ctx)
	if !wish.Refused() {
		return false, nil
	}
	t.refused = v
	if v.Round >= t.site.Config.Verify.Rounds {
		return false, verifyFailed("verify failed in "+text.Plural(v.Round, "round"), v)
	}
	if v.Commit != "" && v.Commit == before.Commit {
		return false, verifyFailed("the agent handed the same commit over again, for which verify had failed", v)
	}
	return true, nil
}

// verifyFailed is the error of a run whose work verify refuses.
func verifyFailed(why string, v reconcile.Verification) error {
	return &reconcile.Error{Code: reconcile.HoldVerifyFailed, Message: why + "; " + v.String()}
}
