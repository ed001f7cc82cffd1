package runner

import (
	"context"
	"sync/atomic"

	"github.com/symphony-cron/symphony/runner/agent"
)

// eventWatch handles the events of the agent of an issue during its turns.
type eventWatch struct {
	*parts
	listener *listener
	memory   *threadMemory

	// worked: the agent did something in the present turn.
	worked atomic.Bool
	// toldNetwork: the log contains a note about the closed network. Only the handler of
	// events uses it.
	toldNetwork bool
}

// handle handles an event of the agent.
func (w *eventWatch) handle(g *agentProcess, e agent.Event) {
	w.listener.store(g, e)
	if e.Item.Works() {
		w.worked.Store(true)
	}
	if e.ThreadID == "" || e.ThreadID == w.rec.get().ThreadID { // not of a sub-agent
		w.rec.hear(e.Item)
	}
	w.tellClosedNetwork(e.Item)
	if e.Name != agent.EventSessionStarted {
		return
	}
	run := w.rec.get()
	if e.ThreadID == run.ThreadID {
		w.Log.Info("turn started", "session_id", sessionID(run), "turn", run.Turns)
		w.memory.accept(context.Background())
	}
	w.rec.flush(context.Background()) // so that views show the session at once
}

// tellClosedNetwork notes once in a run that a command failed because the sandbox closes the
// network, and which setting opens it.
func (w *eventWatch) tellClosedNetwork(i *agent.Item) {
	setting := w.site.Config.ClosesNetwork()
	if setting == "" || w.toldNetwork || i == nil || i.Kind != agent.ItemCommand || !i.Failed() ||
		!networkMissed().MatchString(i.Output) {
		return
	}
	w.toldNetwork = true
	w.events.note(
		"network_closed",
		"a command has failed without a network; in WORKFLOW.md "+setting+" opens it",
		map[string]string{"setting": setting},
	)
}
