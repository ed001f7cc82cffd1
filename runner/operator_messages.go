package runner

import (
	"context"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// operatorMessages passes on messages and late answers of operators to the agent.
type operatorMessages struct {
	*parts

	// the ids of messages that are in the text of a turn or were added to a running turn
	given []string
}

// lateAnswers returns the answers of operators that came after the run which asked.
func (m *operatorMessages) lateAnswers(ctx context.Context) []reconcile.Request {
	answers, err := m.Journal.LateAnswers(ctx, m.run.IssueID)
	warn(m.Log, "late answers not read", err)
	return answers
}

// take returns the operators' messages to the agent that this run did not try to pass on, the
// oldest first. It records the attempt before this run makes it: after a crash the agent
// learns that it may have read them.
func (m *operatorMessages) take(ctx context.Context) ([]reconcile.Message, error) {
	list, err := m.Journal.UntoldMessages(ctx, m.run.IssueID, reconcile.MaxMessages)
	if err != nil {
		return nil, err
	}
	list = text.Filter(list, func(one reconcile.Message) bool { return !slices.Contains(m.given, one.ID) })
	if err := m.Journal.MarkMessages(ctx, list, m.run.ID, time.Time{}); err != nil {
		return nil, err
	}
	slices.Reverse(list)
	for _, one := range list {
		m.given = append(m.given, one.ID)
	}
	return list, nil
}

// reached records that the agent got messages.
func (m *operatorMessages) reached(ctx context.Context, list []reconcile.Message) {
	err := m.Journal.MarkMessages(context.WithoutCancel(ctx), list, m.run.ID, m.Now())
	warn(m.Log, "messages not marked as told", err)
	for _, one := range list {
		m.events.note(agent.EventTold, one.By+": "+text.OneLine(one.Text), one.Words)
	}
}

// tell adds the messages to the running turn of a session.
func (m *operatorMessages) tell(ctx context.Context, session agent.Session) error {
	list, err := m.take(ctx)
	if err != nil || len(list) == 0 {
		return nil //nolint:nilerr // heartbeats report that the database can't be used
	}
	err = session.Steer(ctx, []agent.Input{{
		Type: "text",
		Text: m.agentRedactor.Text(agent.MessagesText(list)),
	}})
	if err != nil {
		m.given = m.given[:len(m.given)-len(list)]
		return err
	}
	m.reached(ctx, list)
	return nil
}
