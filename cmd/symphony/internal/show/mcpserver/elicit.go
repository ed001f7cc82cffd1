package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/requests"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	// resultProtocol is the first version in which a server asks by the result of a call, and
	// no longer by a request of its own.
	resultProtocol = "2026-07-28"
	// askedPerson is how long a person needs at least to decline. Hosts that can't ask decline
	// at once.
	askedPerson = time.Second
	// maxRounds is how often a call asks. Clients give up after more rounds.
	maxRounds = 5
)

// elicitor asks hosts about requests of agents. Each host is asked once, and none after the
// first answer.
type elicitor struct {
	agents *agents.Agents
	log    *slog.Logger
	person time.Duration // askedPerson, except in tests
	tools  string        // that decide, as in howToDecide

	mu   sync.Mutex
	over map[string]bool // by key of a request; no host is asked again
	// followed are the hosts that are asked as soon as an agent makes a request.
	followed map[*mcp.ServerSession]*followedHost
	late     []string // about answers that came too late
}

// followedHost is a host of an older protocol that has called a tool.
type followedHost struct {
	// forms ends each form that the host shows. They are named by the keys of their requests:
	// ids of agents may be used again after a week.
	forms map[string]context.CancelFunc
	left  bool // it ends its session, and shows no more forms
}

func newElicitor(a *agents.Agents, log *slog.Logger, tools string) *elicitor {
	return &elicitor{
		tools:    tools,
		agents:   a,
		log:      log,
		person:   askedPerson,
		over:     map[string]bool{},
		followed: map[*mcp.ServerSession]*followedHost{},
	}
}

// asker asks the person at the host that sends a call.
type asker struct {
	*elicitor
	session  *mcp.ServerSession // nil: this host can't ask, or asked often enough in this call
	byResult bool               // the host is asked by the result of the call
	round    int
}

// asker returns the asker of a call.
func (e *elicitor) asker(req *mcp.CallToolRequest) asker {
	a := asker{elicitor: e}
	c := req.ClientCapabilities()
	if c == nil || c.Elicitation == nil {
		return a
	}
	if c.Elicitation.Form == nil && c.Elicitation.URL != nil { // it can only open pages
		return a
	}
	_, a.round = parseState(req)
	p := req.Session.InitializeParams()
	a.byResult = p == nil || p.ProtocolVersion >= resultProtocol
	if a.byResult && a.round >= maxRounds {
		return a
	}
	a.session = req.Session
	return a
}

// asked says who decides a request.
type asked int

const (
	// callerDecides: the host can't be asked, or was asked; the caller of the tool decides.
	callerDecides asked = iota
	// formShown: the host shows a form, and the person did not answer yet.
	formShown
	// resultAsks: the result of the call must ask the host.
	resultAsks
)

// ask asks the person at the host about a request, once, and does not wait.
func (a asker) ask(ctx context.Context, r reconcile.Request) asked {
	if a.session == nil || r.Secret() { // forms must not ask for secrets
		return callerDecides
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over[key(r)] {
		return callerDecides
	}
	if a.byResult {
		return resultAsks
	}
	host := a.followed[a.session]
	if host == nil || host.left {
		return callerDecides
	}
	if host.forms[key(r)] == nil {
		ctx, end := context.WithCancel(context.WithoutCancel(ctx))
		host.forms[key(r)] = end
		go func() {
			defer end()
			a.showForm(ctx, r)
			a.mu.Lock()
			defer a.mu.Unlock()
			delete(host.forms, key(r))
		}()
	}
	return formShown
}

// showForm shows the host a form about a request, waits for the answer and carries it out.
func (a asker) showForm(ctx context.Context, r reconcile.Request) {
	began := time.Now()
	answer, err := a.session.Elicit(ctx, formOf(r))
	// When the input of a host ends, the SDK ends its forms by io.EOF.
	isGone := errors.Is(err, mcp.ErrConnectionClosed) || errors.Is(err, io.EOF)
	if isGone || ctx.Err() != nil {
		return // nobody answered; another host may be asked
	}
	if err != nil { // it may contain a person's input, and is not logged
		a.log.WarnContext(ctx, "the host answers with an error, or with what does not fit the form",
			"request", r.ID(), "decide it with", howToDecide(r, a.tools))
		a.end(r)
		return
	}
	a.decide(ctx, r, answer, time.Since(began))
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
			e.tooLate(id, "the request can't be found: "+err.Error())
			continue
		}
		if answer, ok := response.(*mcp.ElicitResult); ok {
			e.decide(ctx, r, answer, took)
		}
	}
}

// tooLate keeps for the next result that an answer of the host changed nothing, and why.
func (e *elicitor) tooLate(id, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.late = append(e.late, "the answer to "+id+" came too late: "+why)
}

// takeLate returns the messages that tooLate kept.
func (e *elicitor) takeLate() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	late := e.late
	e.late = nil
	return late
}

// key names a request for ever.
func key(r reconcile.Request) string { return r.Attention().Key }

// middleware asks a host of an older protocol about each request as soon as an agent makes it,
// from the first call of a tool on: a host that does not use agents is not bothered.
func (e *elicitor) middleware(ctx context.Context) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(call context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if r, ok := req.(*mcp.CallToolRequest); ok {
				if a := e.asker(r); a.session != nil && !a.byResult {
					e.followSession(ctx, a)
				}
			}
			return next(call, method, req)
		}
	}
}

// followSession is follow until the session ends, once for each session. It does not wait.
func (e *elicitor) followSession(ctx context.Context, a asker) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.followed[a.session] != nil {
		return
	}
	e.followed[a.session] = &followedHost{forms: map[string]context.CancelFunc{}}
	ctx, cancel := context.WithCancel(ctx)
	go e.follow(ctx, a)
	go func() {
		_ = a.session.Wait()
		cancel()
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.followed, a.session)
	}()
}

// leave ends the forms of the host that ends a session: the end of a session waits for them.
func (e *elicitor) leave(sessionID string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for session, host := range e.followed {
		if session.ID() != sessionID {
			continue
		}
		host.left = true
		for _, end := range host.forms {
			end()
		}
	}
}

// follow asks about new requests, and no longer about ended ones, until ctx ends.
func (e *elicitor) follow(ctx context.Context, a asker) {
	changes := poll{agents: e.agents}
	repeat(ctx, e.log, "requests not read", func() error {
		return changes.look(ctx, func() error {
			open, err := e.agents.Requests(ctx)
			if err != nil {
				return err
			}
			for _, r := range open {
				a.ask(ctx, r)
			}
			e.endOthers(open)
			return nil
		})
	})
}

// endOthers ends the asking about requests that are no longer open.
func (e *elicitor) endOthers(open []reconcile.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, host := range e.followed {
		for k, end := range host.forms {
			if !slices.ContainsFunc(open, func(r reconcile.Request) bool { return key(r) == k }) {
				end()
			}
		}
	}
}

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
		err = e.store(ctx, r, d)
	}
	if err != nil {
		log.WarnContext(ctx, "not decided by the host", "error", err, "decide it with", howToDecide(r, e.tools))
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

// store stores a decision, and tells the host if it came too late.
func (e *elicitor) store(ctx context.Context, r reconcile.Request, d requests.Decision) error {
	decided, err := e.agents.Decide(ctx, r.ID(), d)
	if err != nil {
		known := exit.From(err)
		if known.Code == "request_ended" {
			e.tooLate(r.ID(), known.Message)
		}
		return err
	}
	if decided.Fate == reconcile.RequestRunEnded { // it is stored, but no run will read it
		e.tooLate(r.ID(), "its agent has ended")
	}
	return nil
}
