package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
)

const (
	stateRunning = "running" // the states of a wait
	stateDone    = "done"

	defaultWait = 25 * time.Second
	maxWait     = 50 * time.Second // hosts cancel a call after a minute
	// between the answer of wait_agent and the timeout of calls
	waitMargin   = time.Second
	waitStep     = 50 * time.Millisecond // between two looks at the agents
	progressStep = 3 * time.Second
	maxMessage   = 16 << 10 // bytes of a message in a result
)

type (
	waitAgentIn struct {
		AgentIDs       []string `json:"agentIds"`
		Mode           string   `json:"mode,omitempty" jsonschema:"any (default): until one turn has ended; all: until none runs"`
		TimeoutSeconds *float64 `json:"timeoutSeconds,omitempty" jsonschema:"at most 50; default 25"`
		Cursor         string   `json:"cursor,omitempty" jsonschema:"of the last result; without it, wait for the turns that run now"`
	}
	waitAgentOut struct {
		State  string       `json:"state" jsonschema:"done, also if no turn runs; or running: the time is up, call again with the cursor"`
		Cursor string       `json:"cursor" jsonschema:"for the next call, which does not repeat what this result contains"`
		Agents []agentState `json:"agents"`
		Late   []string     `json:"late,omitempty" jsonschema:"answers of the host that changed nothing, because the requests had ended"`
	}
	// agentState is what an agent does.
	agentState struct {
		AgentID       string              `json:"agentId"`
		State         string              `json:"state" jsonschema:"idle, active, waiting for approval or ended"`
		Activity      string              `json:"activity,omitempty" jsonschema:"what it does now"`
		Conversations []conversationState `json:"conversations"`
		Requests      []requestState      `json:"requests" jsonschema:"what it asks that is not decided yet"`
		Tokens        reconcile.Tokens    `json:"tokens"`
		Outcome       string              `json:"outcome,omitempty" jsonschema:"how the agent ended"`
		Error         string              `json:"error,omitempty" jsonschema:"why the agent ended"`
	}
	// conversationState is a conversation with the turns that are open, and those that have
	// ended since the cursor.
	conversationState struct {
		ConversationID string      `json:"conversationId"`
		Turns          []turnState `json:"turns"`
	}
	turnState struct {
		TurnID      string     `json:"turnId"`
		Status      string     `json:"status" jsonschema:"queued, running, completed, failed or interrupted"`
		LastMessage string     `json:"lastMessage,omitempty"`
		Error       *turnError `json:"error,omitempty"`
	}
	turnError struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
)

// addWaitTools registers the tool that waits for agents.
func addWaitTools(t *tools, e *elicitor) {
	type result = mcp.CallToolResult
	addCallTool(
		t,
		"wait_agent",
		reads(),
		func(ctx context.Context, req *mcp.CallToolRequest, in waitAgentIn) (*result, waitAgentOut, error) {
			w, err := newWaiting(e.asker(req), in)
			if err != nil {
				return nil, waitAgentOut{}, err
			}
			e.takeAnswers(ctx, req)
			out, err := w.wait(ctx, progressTo(ctx, req, w.limit))
			out.limit()
			out.Late = e.takeLate()
			return w.inputRequired(w.toAsk), out, err
		},
		"Wait until a turn has ended, or an agent asks for approval or has ended. Use it after giving work; the state "+
			"running means that the time is up: call again with the cursor. Do not use it to read what was done: read_events does.",
	)
}

// progressTo returns a function that tells the host how long a call has taken, if the host
// wants to know.
func progressTo(
	ctx context.Context,
	req *mcp.CallToolRequest,
	limit time.Duration,
) func(elapsed time.Duration, message string) {
	return func(elapsed time.Duration, message string) {
		if token := req.Params.GetProgressToken(); token != nil {
			// A host that does not take it still gets the result.
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: token,
				Progress:      elapsed.Seconds(),
				Total:         limit.Seconds(),
				Message:       message,
			})
		}
	}
}

// seen is what a host knows of an agent.
type seen struct {
	turn    int64 // the order of the last turn whose end it knows
	request int   // the number of the last request
	ended   int   // 1 if it has ended
}

// cursorOf writes what a host knows of agents, such as "a:3.1.0,b:0.0.1".
func cursorOf(known map[string]seen) string {
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(known)) {
		k := known[id]
		parts = append(parts, fmt.Sprintf("%s:%d.%d.%d", id, k.turn, k.request, k.ended))
	}
	return strings.Join(parts, ",")
}

func parseCursor(cursor string) (map[string]seen, error) {
	known := map[string]seen{}
	for part := range strings.FieldsFuncSeq(cursor, func(r rune) bool { return r == ',' }) {
		id, numbers, _ := strings.Cut(part, ":")
		var k seen
		_, _ = fmt.Sscanf(numbers, "%d.%d.%d", &k.turn, &k.request, &k.ended) // compared below
		k.ended &= 1
		known[id] = k
	}
	if cursorOf(known) != cursor {
		return nil, reconcile.NewError(
			agents.CodeCursor,
			fmt.Sprintf("cursor %q is not one of wait_agent", cursor),
			"use the cursor of its last result, or none",
		)
	}
	return known, nil
}

// waiting is one call of wait_agent.
type waiting struct {
	asker
	ids   []string
	all   bool
	limit time.Duration
	known map[string]seen     // by agent
	toAsk []reconcile.Request // about which the result asks the host
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
	w := &waiting{
		asker: a,
		ids:   slices.Compact(slices.Sorted(slices.Values(in.AgentIDs))),
		all:   in.Mode == "all",
		limit: defaultWait,
	}
	if in.TimeoutSeconds != nil {
		w.limit = time.Duration(min(maxWait.Seconds(), max(0, *in.TimeoutSeconds)) * float64(time.Second))
	}
	var err error
	w.known, err = parseCursor(in.Cursor)
	return w, err
}

// wait looks at the agents until there is something to say, or the time is up.
func (w *waiting) wait(
	ctx context.Context,
	progress func(elapsed time.Duration, message string),
) (out waitAgentOut, err error) {
	began := time.Now()
	told := time.Time{}
	done := false
	if deadline, ok := ctx.Deadline(); ok {
		w.limit = min(w.limit, max(0, time.Until(deadline)-waitMargin))
	}
	step := time.NewTicker(waitStep)
	defer step.Stop()
	changes := poll{agents: w.agents}
	for {
		timeIsUp := time.Since(began) >= w.limit
		if timeIsUp {
			changes.read = time.Time{} // the last look reads in any case
		}
		err = changes.look(ctx, func() (err error) {
			out, done, err = w.look(ctx)
			return err
		})
		if err != nil || done || timeIsUp {
			return out, err
		}
		select {
		case <-ctx.Done():
			return out, ctx.Err()
		case <-step.C:
		}
		if time.Since(told) >= progressStep {
			told = time.Now()
			progress(time.Since(began), out.summary())
		}
	}
}

// limit shortens messages so that all together fit into an answer.
func (o waitAgentOut) limit() {
	left := maxRead
	for _, a := range o.Agents {
		for _, c := range a.Conversations {
			for i := range c.Turns {
				message := &c.Turns[i].LastMessage
				*message = cutText(*message, max(left, 200), "see read_events with the detail full")
				left -= len(*message)
			}
		}
	}
}

// summary describes in one line what the agents do.
func (o waitAgentOut) summary() string {
	var parts []string
	for _, a := range o.Agents {
		part := a.AgentID + ": " + a.State
		if a.Activity != "" && a.State == stateActive {
			part += ", " + a.Activity
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

// look reads the agents. done reports that there is something to say.
func (w *waiting) look(ctx context.Context) (out waitAgentOut, done bool, err error) {
	requests, err := w.agents.Requests(ctx)
	if err != nil {
		return out, false, err
	}
	now := maps.Clone(w.known)
	w.toAsk = nil
	withNews := 0
	waitFor := 0
	toDecide := false // how many agents have news, and others a turn; whether to decide a request
	for _, id := range w.ids {
		a, err := w.agents.Current(ctx, id)
		if err != nil {
			return out, false, err
		}
		known, following := w.known[id]
		calls, err := w.agents.DB.Clients.ConversationsOf(ctx, a.ID, known.turn)
		if err != nil {
			return out, false, err
		}
		is := seen{turn: lastEnd(calls, known.turn)}
		busy := slices.ContainsFunc(calls, openTurn)
		switch {
		case !following && busy: // the host waits for what runs now
			known = seen{turn: is.turn}
			following = true
			w.known[id] = known
			calls = slices.DeleteFunc(calls, endedTurn)
		case !following:
			calls = lastTurns(calls)
		}
		own := slices.DeleteFunc(
			slices.Clone(requests),
			func(r reconcile.Request) bool { return r.RunID != a.ID },
		)
		state := newAgentState(a, calls, own)
		out.Agents = append(out.Agents, state)
		if state.State == stateEnded {
			is.ended = 1
		}
		is.request = w.askHost(ctx, own, known.request)
		toDecide = toDecide || is.request > known.request || len(w.toAsk) > 0
		now[id] = is
		switch news := !following || is.turn > known.turn || is.ended > known.ended; {
		case busy && (w.all || !news):
			waitFor++
		case news:
			withNews++
		}
	}
	out.Cursor = cursorOf(now)
	out.State = stateRunning
	if done = toDecide || waitFor == 0 || withNews > 0 && !w.all; done {
		out.State = stateDone
	}
	return out, done, nil
}

// askHost asks the host about requests. It returns the number of the last one that the caller
// of wait_agent has to decide instead, at least last.
func (w *waiting) askHost(ctx context.Context, requests []reconcile.Request, last int) int {
	for _, r := range requests {
		switch waits, toAsk := w.ask(ctx, r); {
		case toAsk:
			w.toAsk = append(w.toAsk, r)
		case !waits:
			last = max(last, r.Number)
		}
	}
	return last
}

func openTurn(c reconcile.Call) bool { return c.Verb == reconcile.CallTurn && !c.Ended() }

func endedTurn(c reconcile.Call) bool { return c.Verb == reconcile.CallTurn && c.Ended() }

// lastEnd returns the place of the last ended turn in the order of ends, at least last.
func lastEnd(calls []reconcile.Call, last int64) int64 {
	for _, c := range calls {
		if endedTurn(c) {
			last = max(last, c.EndedNo)
		}
	}
	return last
}

// lastTurns leaves the last ended turn of each conversation.
func lastTurns(calls []reconcile.Call) []reconcile.Call {
	last := map[string]int64{}
	for _, c := range calls {
		last[c.Conversation] = max(last[c.Conversation], c.EndedNo)
	}
	return slices.DeleteFunc(
		calls,
		func(c reconcile.Call) bool { return endedTurn(c) && c.EndedNo != last[c.Conversation] },
	)
}

func newAgentState(a agents.Agent, calls []reconcile.Call, requests []reconcile.Request) agentState {
	s := agentState{
		AgentID: a.Identifier, State: stateIdle, Tokens: a.Tokens,
		Conversations: []conversationState{}, Requests: []requestState{},
	}
	if slices.ContainsFunc(calls, openTurn) {
		s.State = stateActive
		s.Activity = a.Activity
	}
	for _, r := range requests {
		s.State = stateWaiting
		s.Requests = append(s.Requests, newRequestState(r))
	}
	if a.Settled { // before, the worker may still store how a turn has ended
		s.State = stateEnded
		s.Activity = ""
		s.Outcome = string(a.Outcome)
		s.Error = a.ErrorText
	}
	for _, c := range calls {
		if c.Verb != reconcile.CallConversation {
			continue
		}
		turns := turnsOf(calls, c.ID)
		if c.Status != reconcile.CallFailed || len(turns) > 0 {
			s.Conversations = append(s.Conversations, conversationState{
				ConversationID: cmp.Or(c.ThreadID, c.ID),
				Turns:          turns,
			})
		}
	}
	return s
}

func turnsOf(calls []reconcile.Call, conversation string) []turnState {
	turns := []turnState{}
	for _, c := range calls {
		if c.Verb != reconcile.CallTurn || c.Conversation != conversation {
			continue
		}
		t := turnState{TurnID: c.ID, Status: string(c.Status)}
		var result runner.TurnResult
		if len(c.Result) > 0 && json.Unmarshal(c.Result, &result) == nil {
			t.LastMessage = cutText(result.LastMessage, maxMessage, "see read_events with the detail full")
		}
		if c.ErrorCode != "" {
			t.Error = &turnError{Code: c.ErrorCode, Message: c.ErrorText}
		}
		turns = append(turns, t)
	}
	return turns
}
