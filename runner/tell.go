package runner

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

const tellStep = time.Second // between two looks during a turn for what operators tell its agent

// messages returns what operators tell the agent and this run has not tried to pass on, the oldest first. It is recorded before this run
// does so: after a crash the agent learns that it may have read it.
func (g *guide) messages(ctx context.Context) ([]reconcile.Message, error) {
	list, err := g.Journal.MessagesOf(ctx, g.run.IssueID, true, reconcile.MaxMessages)
	list = text.Filter(list, func(m reconcile.Message) bool { return !slices.Contains(g.given, m.ID) })
	if err == nil {
		err = g.Journal.MarkMessages(ctx, list, g.run.ID, time.Time{})
	}
	if err != nil {
		return nil, err
	}
	slices.Reverse(list)
	for _, m := range list {
		g.given = append(g.given, m.ID)
	}
	return list, nil
}

// reached records that the agent has got messages.
func (g *guide) reached(ctx context.Context, list []reconcile.Message) {
	g.warn("what the agent was told is not stored, a later run may repeat it",
		g.Journal.MarkMessages(context.WithoutCancel(ctx), list, g.run.ID, g.Now()))
	for _, m := range list {
		g.note(agent.EventTold, m.By+": "+text.OneLine(m.Text), m.Words)
	}
}

// steer passes on what operators tell the agent during a turn, until stop is called. What the turn does not take is in the next one.
func (t *turnLoop) steer(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		repeat(ctx, tellStep, func() {
			if err := t.guide.tell(context.WithoutCancel(ctx), t.agent.session); err != nil {
				t.Log.Info("the turn does not take what an operator tells, the next one gets it", "error", err)
				cancel()
			}
		})
	})
	return func() { cancel(); running.Wait() }
}

// tell adds what operators tell the agent to the running turn.
func (g *guide) tell(ctx context.Context, session agent.Session) error {
	g.mu.Lock()
	begun := g.pending == nil
	g.mu.Unlock()
	if !begun {
		return nil
	}
	list, err := g.messages(ctx)
	if err != nil || len(list) == 0 {
		return nil //nolint:nilerr // heartbeats report that the database can't be used
	}
	err = session.Steer(ctx, []agent.Input{{Type: "text", Text: g.agentRedactor.Text(agent.MessagesText(list))}})
	if err != nil {
		g.given = g.given[:len(g.given)-len(list)]
		return err
	}
	g.reached(ctx, list)
	return nil
}
