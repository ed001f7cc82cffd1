package runner

import (
	"context"
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// turnLoop starts the agent and runs its turns (specification 10.2 and 10.3).
type turnLoop struct {
	*parts
	agent      *issueAgent
	turn       *turnRunner
	settlement *settlement
	pushes     *otherPushes
	guide      *guide
}

// maxIdleTurns is how many turns in a row may do nothing before the run ends. The agent may
// have forgotten to hand the issue over, and reports only that it is done; max_idle_runs
// counts such runs.
const maxIdleTurns = 2

func (j *job) newTurnLoop() *turnLoop {
	guide := j.newGuide()
	handovers := &handovers{
		parts:    j.parts,
		branch:   j.branch,
		refusals: refusals{bySentence: map[string]*refusal{}},
	}
	agent := j.newIssueAgent(guide, handovers)
	pushes := &otherPushes{parts: j.parts, branch: j.branch, agent: agent}
	return &turnLoop{
		parts: j.parts,
		agent: agent,
		turn:  &turnRunner{parts: j.parts, agent: agent, branch: j.branch, guide: guide},
		settlement: &settlement{
			parts:     j.parts,
			agent:     agent,
			issue:     j.issue,
			handovers: handovers,
			pushes:    pushes,
			verifier:  j.verifier,
			news:      guide.news,
		},
		pushes: pushes,
		guide:  guide,
	}
}

// work starts the agent and runs turns until the issue needs no more.
func (t *turnLoop) work(ctx context.Context, prompt string) error {
	t.rec.phase(ctx, reconcile.LaunchingAgent)
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
		worked, err := t.turn.run(ctx, input, turn)
		more, err := t.settlement.settle(ctx, turn, err)
		if !more || err != nil {
			return err
		}
		idle++
		if worked {
			idle = 0
		}
		if idle == maxIdleTurns {
			t.Log.Info("the run ends: the agent does nothing", "turns", idle)
			return nil
		}
		if !insisted && t.dayUsedUp(ctx) {
			t.Log.Info("the run ends: agent.budget_per_day is used up")
			return nil
		}
		if err := t.pushes.catchUp(ctx); err != nil {
			return err
		}
		input, err = t.nextInput(ctx, prompt, turn+1)
		if err != nil {
			return err
		}
	}
}

// start starts the agent, unless the workspace is no longer the directory that the run took.
func (t *turnLoop) start(ctx context.Context) (openedThread, error) {
	if err := t.site.host.Verify(ctx); err != nil {
		return openedThread{}, err
	}
	thread, err := t.agent.start(ctx)
	if err != nil {
		return thread, err
	}
	t.guide.memory.home = thread.home
	t.turn.permissions = thread.permissions
	return thread, nil
}

// nextInput returns the text of a later turn. If the agent was paused, for verify or to move
// the workspace, it is started again.
func (t *turnLoop) nextInput(ctx context.Context, prompt string, turn int) (string, error) {
	if !t.agent.paused {
		return t.guide.laterTurnText(ctx, turn), nil
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
	today, err := t.Journal.UsedOn(ctx, t.Now())
	warn(t.Log, "what was used today is not read", err)
	return budget.Reached(today)
}

// turnRunner runs turns of the agent.
type turnRunner struct {
	*parts
	agent  *issueAgent
	branch *issueBranch
	guide  *guide

	permissions string // the name of the permission profile of turns; "" for none
}

// run runs a turn and waits for its end. It reports whether the agent did something.
func (t *turnRunner) run(ctx context.Context, input string, number int) (worked bool, err error) {
	policy, err := t.site.turnPolicy(ctx)
	if err != nil {
		return false, err
	}
	g := t.agent.process
	before := t.rec.get()
	t.rec.change(func(r *reconcile.Run) { r.Turns = number })
	t.rec.flush(ctx)
	size := utf8.RuneCountInString(input)
	t.events.note(agent.EventPrompt, fmt.Sprintf("turn %d, %d characters", number, size), agent.PromptEvent{
		Turn: number,
		Text: input,
	})
	t.agent.watch.worked.Store(false)
	g.beginTurn()
	stopSteering := t.steer(ctx)
	ended, err := g.session.RunTurn(ctx, agent.TurnParams{
		Input:          input,
		Cwd:            t.site.space.Path,
		ApprovalPolicy: t.site.Config.ApprovalPolicy,
		SandboxPolicy:  policy,
		Permissions:    t.permissions,
	})
	stopSteering()
	t.rec.storeTokens(ctx, g.session)
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
		t.accountWorked(ctx)
	} else {
		outcome = err.Error()
	}
	if started {
		attrs := []any{"session_id", sessionID(after), "turn", number, "outcome", outcome}
		if ended.Cost != nil {
			attrs = append(attrs, "cost", ended.Cost.String())
		}
		t.Log.Info("turn ended", attrs...)
	}
	t.rec.flush(ctx)
	return t.agent.watch.worked.Load(), err
}

// steer passes on messages of operators to the agent during a turn, until stop is called. The
// heartbeat finds them within 5 s. Messages that the turn does not take are in the next turn.
func (t *turnRunner) steer(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.rec.messages:
			}
			err := t.guide.tell(context.WithoutCancel(ctx), t.agent.process.session)
			if err != nil {
				t.Log.Info("the next turn gets what an operator tells", "error", err)
				return
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// sessionID returns the session id of a turn (specification 4.1.6).
func sessionID(r reconcile.Run) string { return r.ThreadID + "-" + r.TurnID }
