package runner

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
)

// eventWatch handles the events of the agent of an issue during its turns.
type eventWatch struct {
	site     *site
	listener *listener
	memory   *threadMemory
	rec      *record
	events   *eventLog
	log      *slog.Logger

	// worked: the agent did something in the present turn.
	worked atomic.Bool
	// toldNetwork: the log contains a note about the closed network. Only the handler of
	// events uses it.
	toldNetwork bool
}

func (j *job) newEventWatch(g *guide) *eventWatch {
	return &eventWatch{
		site:     j.site,
		listener: j.newListener(),
		memory:   g.memory,
		rec:      j.rec,
		events:   j.events,
		log:      j.log,
	}
}

// handle handles an event of the agent.
func (w *eventWatch) handle(g *agentProcess, e agent.Event) {
	w.listener.store(g, e)
	if e.Item.Works() {
		w.worked.Store(true)
	}
	w.tellClosedNetwork(e.Item)
	if e.Name != agent.EventSessionStarted {
		return
	}
	run := w.rec.get()
	if e.ThreadID == run.ThreadID {
		w.log.Info("turn started", "session_id", sessionID(run), "turn", run.Turns)
		w.memory.accept(context.Background())
	}
	w.rec.flush(context.Background()) // so that views show the session at once
}

// missesNetwork matches messages of programs that can open no connection.
var missesNetwork = text.Pattern(
	`(?i)could not resolve host|name resolution|no such host|name or service not known|ENOTFOUND` +
		`|EAI_AGAIN|network is unreachable|socket: operation not permitted`,
)

// tellClosedNetwork notes once in a run that a command failed because the sandbox closes the
// network, and which setting opens it.
func (w *eventWatch) tellClosedNetwork(i *agent.Item) {
	setting := w.site.Config.ClosesNetwork()
	if setting == "" || w.toldNetwork || i == nil || i.Kind != agent.ItemCommand || !i.Failed() ||
		!missesNetwork().MatchString(i.Output) {
		return
	}
	w.toldNetwork = true
	w.events.note(
		"network_closed",
		"a command has failed because the sandbox closes the network; in WORKFLOW.md "+setting+" opens it",
		map[string]string{"setting": setting},
	)
}
