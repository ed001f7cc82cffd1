package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/requests"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	// resultProtocol is the first version in which a server asks by the result of a call. Hosts
	// with an older one are not asked.
	resultProtocol = "2026-07-28"
	// askedPerson is how long a person needs at least to decline. Hosts that can't ask decline
	// at once.
	askedPerson = time.Second
	// maxRounds is how often a call asks. Clients give up after more rounds.
	maxRounds = 5
)

// elicitor asks hosts about requests of agents, by the results of calls. Each host is asked
// once, and none after the first answer.
type elicitor struct {
	agents   *agents.Agents
	log      *slog.Logger
	person   time.Duration // askedPerson, except in tests
	byPerson bool          // as in howToDecide

	mu   sync.Mutex
	over map[string]bool // by key of a request; no host is asked again
}

func newElicitor(a *agents.Agents, log *slog.Logger, byPerson bool) *elicitor {
	return &elicitor{
		agents:   a,
		log:      log,
		person:   askedPerson,
		byPerson: byPerson,
		over:     map[string]bool{},
	}
}

// asker asks the person at the host that sends a call.
type asker struct {
	*elicitor
	canAsk bool // the host can be asked, and was not asked too often in this call
	round  int
}

// asker returns the asker of a call.
func (e *elicitor) asker(req *mcp.CallToolRequest) asker {
	a := asker{elicitor: e}
	_, a.round = parseState(req)
	a.canAsk = showsForms(req) && a.round < maxRounds
	return a
}

// showsForms reports whether the host that sends a call shows the forms in its result.
func showsForms(req *mcp.CallToolRequest) bool {
	c := req.ClientCapabilities()
	if c == nil || c.Elicitation == nil {
		return false
	}
	if c.Elicitation.Form == nil && c.Elicitation.URL != nil { // it can only open pages
		return false
	}
	p := req.Session.InitializeParams()
	return p == nil || p.ProtocolVersion >= resultProtocol
}

// asks reports whether the result of the call must ask the host about a request. Otherwise the
// caller of the tool decides it, or a person elsewhere.
func (a asker) asks(r reconcile.Request) bool {
	if !a.canAsk || r.Secret() { // forms must not ask for secrets
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.over[key(r)]
}

// inputRequired returns the result that asks the host about these requests; nil without
// requests.
func (a asker) inputRequired(toAsk []reconcile.Request) *mcp.CallToolResult {
	if len(toAsk) == 0 {
		return nil
	}
	forms := mcp.InputRequestMap{}
	for _, r := range toAsk {
		forms[r.ID()] = formOf(r)
	}
	return &mcp.CallToolResult{
		InputRequests: forms,
		RequestState:  fmt.Sprintf("%d.%d", time.Now().UnixMilli(), a.round+1),
	}
}

// parseState returns when the host was asked by inputRequired, and how often in this call;
// zeros if it was not.
func parseState(req *mcp.CallToolRequest) (at int64, round int) {
	_, _ = fmt.Sscanf(req.Params.RequestState, "%d.%d", &at, &round)
	return at, round
}

// takeAnswers carries out the host's answers to inputRequired.
func (e *elicitor) takeAnswers(ctx context.Context, req *mcp.CallToolRequest) {
	at, round := parseState(req)
	took := time.Duration(0) // a host that was not asked asked no person
	if round > 0 {
		took = time.Since(time.UnixMilli(at))
	}
	for id, response := range req.Params.InputResponses {
		agent, number := reconcile.RequestRef(id)
		r, err := e.agents.DB.Views.FindRequest(ctx, agent, number)
		if err != nil {
			e.log.WarnContext(ctx, "the host answers what is not asked", "request", id, "error", err)
			continue
		}
		if answer, ok := response.(*mcp.ElicitResult); ok {
			e.decide(ctx, r, answer, took)
		}
	}
}

// key names a request for ever.
func key(r reconcile.Request) string { return r.Attention().Key }

// end records that no host is asked about the request any more.
func (e *elicitor) end(r reconcile.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over[key(r)] = true
}

// decide carries out the answer of the host. The request stays open after an answer that
// decides nothing: the person closed the form, or the host can't ask.
func (e *elicitor) decide(
	ctx context.Context,
	r reconcile.Request,
	answer *mcp.ElicitResult,
	took time.Duration,
) {
	defer e.end(r)
	ctx = context.WithoutCancel(ctx) // a person's decision is not lost with the call
	log := e.log.With("request", r.ID())
	d, err := e.decisionIn(r, answer, took)
	if err == nil {
		_, err = e.agents.Decide(ctx, r.ID(), d)
	}
	if err != nil {
		log.WarnContext(ctx, "not decided by the host", "error", err, "decide it with", howToDecide(r, e.byPerson))
		return
	}
	log.InfoContext(ctx, "decided by the host", slog.String("decision", string(d.How)))
}

// decisionIn returns the decision in an answer of the host. took is how long the host needed
// for it. It fails if the answer decides nothing.
func (e *elicitor) decisionIn(
	r reconcile.Request,
	answer *mcp.ElicitResult,
	took time.Duration,
) (requests.Decision, error) {
	// A person needs longer. The answers to questions can't come from a host alone.
	tooFast := errors.New("the host answered immediately, without asking a person")
	switch answer.Action {
	case "accept":
		if took < e.person && r.Kind != reconcile.QuestionRequest {
			return requests.Decision{}, tooFast
		}
		return decisionOf(r, answer.Content), nil
	case "decline":
		if took < e.person {
			return requests.Decision{}, tooFast
		}
		return requests.Decision{How: reconcile.DecideDeny, Reason: "declined at the host"}, nil
	}
	return requests.Decision{}, fmt.Errorf("the host answers %s", answer.Action)
}
