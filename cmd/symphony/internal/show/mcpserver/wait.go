package mcpserver

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/mcpserver/calls"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	stateRunning = "running" // the states of a wait
	stateDone    = "done"

	defaultWait = 25 * time.Second
	maxWait     = 50 * time.Second      // hosts cancel a call after a minute
	waitStep    = 50 * time.Millisecond // between two looks at the agents
)

type waitAgentIn struct {
	AgentIDs []string `json:"agentIds"`
	Mode     string   `json:"mode,omitempty" jsonschema:"any (default): until one turn has ended; all: until none runs"`

	TimeoutSeconds *float64 `json:"timeoutSeconds,omitempty" jsonschema:"at most 50; default 25"`

	Cursor string `json:"cursor,omitempty" jsonschema:"of the last result; without it, wait for the turns that run now"`
}

type waitAgentOut struct {
	State  string       `json:"state" jsonschema:"done (also if no turn runs), or running: the time is up, call again"`
	Cursor string       `json:"cursor" jsonschema:"for the next call, which does not repeat what this result contains"`
	Agents []agentState `json:"agents"`
}

// addWaitTool registers the tool that waits for agents.
func addWaitTool(t *calls.Tools, e *elicitor) {
	calls.AddForHost(t, calls.Tool{
		Name:   "wait_agent",
		Effect: calls.Reads,
		Description: "Wait until a turn of symphony's agents has ended, or one asks for approval or has ended. " +
			"The state running means that the time is up: call again with the cursor.",
	}, func(ctx context.Context, req *mcp.CallToolRequest, in waitAgentIn) (*mcp.CallToolResult, waitAgentOut, error) {
		return waitAgent(ctx, e, req, in)
	})
}

func waitAgent(
	ctx context.Context,
	e *elicitor,
	req *mcp.CallToolRequest,
	in waitAgentIn,
) (*mcp.CallToolResult, waitAgentOut, error) {
	w, err := newWaiting(e.asker(req), in)
	if err != nil {
		return nil, waitAgentOut{}, err
	}
	e.takeAnswers(ctx, req)
	news, err := w.wait(ctx)
	news.out.limit()
	news.out.addDiffs(news.changes)
	return w.asker.inputRequired(news.toAsk), news.out, err
}

// waiting is a call of wait_agent.
type waiting struct {
	asker asker
	ids   []string
	all   bool // it waits until no turn runs
	limit time.Duration
	known map[string]seen // by agent
}

func newWaiting(a asker, in waitAgentIn) (*waiting, error) {
	if len(in.AgentIDs) == 0 {
		return nil, reconcile.NewError(
			agents.CodeInvalid,
			"agentIds is empty",
			"list_agents shows the agents",
		)
	}
	if in.Mode != "" && in.Mode != "any" && in.Mode != "all" {
		return nil, reconcile.NewError(
			agents.CodeInvalid,
			fmt.Sprintf("unknown mode %q", in.Mode),
			"use any or all",
		)
	}
	known, err := parseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	limit := defaultWait
	if in.TimeoutSeconds != nil {
		seconds := min(maxWait.Seconds(), max(0, *in.TimeoutSeconds))
		limit = time.Duration(seconds * float64(time.Second))
	}
	return &waiting{
		asker: a,
		ids:   slices.Compact(slices.Sorted(slices.Values(in.AgentIDs))),
		all:   in.Mode == "all",
		limit: limit,
		known: known,
	}, nil
}

// news is the result of a look at the agents.
type news struct {
	out   waitAgentOut
	toAsk []reconcile.Request // about which the result asks the host
	// changes are those that each request is about, in the order of the requests in out.
	changes [][]reconcile.RequestChange
}

// wait looks at the agents until there is something to say, or the time is up.
func (w *waiting) wait(ctx context.Context) (news, error) {
	began := time.Now()
	if deadline, ok := ctx.Deadline(); ok {
		w.limit = min(w.limit, max(0, time.Until(deadline)-waitMargin))
	}
	step := time.NewTicker(waitStep)
	defer step.Stop()
	changes := poll{agents: w.asker.agents}
	var found news
	for {
		timeIsUp := time.Since(began) >= w.limit
		if timeIsUp {
			changes.last = time.Time{} // the last look reads in any case
		}
		err := changes.look(ctx, func() error {
			var err error
			found, err = w.look(ctx)
			return err
		})
		if err != nil || found.out.State == stateDone || timeIsUp {
			return found, err
		}
		select {
		case <-ctx.Done():
			return found, ctx.Err()
		case <-step.C:
		}
	}
}

// limit shortens messages so that all together fit into an answer.
func (o waitAgentOut) limit() {
	var messages []*string
	for _, a := range o.Agents {
		for _, c := range a.Conversations {
			for i := range c.Turns {
				messages = append(messages, &c.Turns[i].LastMessage)
			}
		}
	}
	whole := make([]string, len(messages))
	for i, message := range messages {
		whole[i] = *message
		*message = ""
	}
	shared := resultBytes - calls.SizeOf(o) - len(messages)*(leastMessage+noteBytes)
	for i, message := range messages {
		*message = cutText(whole[i], min(maxMessage, leastMessage+max(shared, 0)), seeFull)
		shared -= max(0, calls.SizeOf(*message)-leastMessage-noteBytes)
	}
}

// addDiffs adds the diffs of each request, as much of them as an answer can have.
func (o waitAgentOut) addDiffs(of [][]reconcile.RequestChange) {
	left := resultBytes - calls.SizeOf(o)
	for _, a := range o.Agents {
		for i := range a.Requests {
			r := &a.Requests[i]
			for _, c := range of[0] {
				kept := calls.Within(c.Diff, max(0, left-noteBytes))
				left -= calls.SizeOf(kept)
				r.Diffs = append(r.Diffs, kept)
				r.CutBytes += len(c.Diff) - len(kept)
			}
			of = of[1:]
		}
	}
}

// look reads the agents. The state is done if there is something to say.
func (w *waiting) look(ctx context.Context) (news, error) {
	requests, err := w.asker.agents.Requests(ctx)
	if err != nil {
		return news{}, err
	}
	var found news
	now := maps.Clone(w.known)
	withNews := 0     // agents
	waitFor := 0      // agents with a turn, and without news
	toDecide := false // a request waits for the caller or the host
	for _, id := range w.ids {
		a, err := w.asker.agents.Current(ctx, id)
		if err != nil {
			return found, err
		}
		known, following := w.known[id]
		sent, err := w.asker.agents.DB.Clients.ConversationsOf(ctx, a.ID, known.turn)
		if err != nil {
			return found, fmt.Errorf("read the conversations of agent %s: %w", id, err)
		}
		is := seen{turn: lastEnd(sent, known.turn)}
		busy := slices.ContainsFunc(sent, isOpenTurn)
		if !following && busy { // the host waits for the turns that run now
			known = seen{turn: is.turn}
			following = true
			w.known[id] = known
			sent = slices.DeleteFunc(sent, isEndedTurn)
		} else if !following {
			sent = lastTurns(sent)
		}
		own := slices.DeleteFunc(slices.Clone(requests), func(r reconcile.Request) bool { return r.RunID != a.ID })
		state := newAgentState(a, sent, own, w.asker.byPerson)
		found.out.Agents = append(found.out.Agents, state)
		for _, r := range own {
			found.changes = append(found.changes, r.Detail.Changes)
		}
		if state.State == stateEnded {
			is.ended = 1
		}
		var toAsk []reconcile.Request
		is.request, toAsk = w.askHost(own, known.request)
		found.toAsk = append(found.toAsk, toAsk...)
		toDecide = toDecide || is.request > known.request || len(toAsk) > 0
		now[id] = is
		hasNews := !following || is.turn > known.turn || is.ended > known.ended
		if busy && (w.all || !hasNews) {
			waitFor++
		} else if hasNews {
			withNews++
		}
	}
	found.out.Cursor = cursorOf(now)
	found.out.State = stateRunning
	if toDecide || waitFor == 0 || withNews > 0 && !w.all {
		found.out.State = stateDone
	}
	return found, nil
}

// askHost asks the host about requests. It returns the number of the last request that the
// caller of wait_agent must decide instead, at least last, and the requests about which the
// result must ask the host.
func (w *waiting) askHost(requests []reconcile.Request, last int) (lastToDecide int, toAsk []reconcile.Request) {
	for _, r := range requests {
		if w.asker.asks(r) {
			toAsk = append(toAsk, r)
		} else {
			last = max(last, r.Number)
		}
	}
	return last, toAsk
}
