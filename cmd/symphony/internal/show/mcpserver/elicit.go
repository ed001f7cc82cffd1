package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/requests"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	// resultProtocol is the first version in which a server asks by the result of a call, and no longer by a request of its own.
	resultProtocol = "2026-07-28"
	// askedPerson is how long a person needs at least to decline. Hosts that can't ask decline at once.
	askedPerson = time.Second
	// maxRounds is how often one call asks. Clients give up after more rounds.
	maxRounds    = 5
	maxFormDiffs = 4 << 10 // bytes of diffs in a form
)

// asked are the requests about which this server has asked its host, by their keys: ids of agents may be used again after a week.
type asked struct {
	mu sync.Mutex
	// waiting are those that the host has not answered. The function ends the asking.
	waiting map[string]context.CancelFunc
	// over are those about which it is not asked again.
	over map[string]bool
	// person is askedPerson, except in tests.
	person time.Duration
}

// asker asks the person at the host that sends a call.
type asker struct {
	server  *Server
	session *mcp.ServerSession // nil: this host can't ask, or has asked often enough in this call
	// byResult: the host is asked by the result of the call.
	byResult bool
	round    int
}

// askerOf returns the asker of a call.
func (s *Server) askerOf(req *mcp.CallToolRequest) asker {
	a := asker{server: s}
	c := req.ClientCapabilities()
	if c == nil || c.Elicitation == nil || c.Elicitation.Form == nil && c.Elicitation.URL != nil {
		return a
	}
	_, round, _ := strings.Cut(req.Params.RequestState, ".")
	a.round, _ = strconv.Atoi(round) // it was written by requestState
	if a.byResult = byResult(req.Session); !a.byResult || a.round < maxRounds {
		a.session = req.Session
	}
	return a
}

func byResult(session *mcp.ServerSession) bool {
	p := session.InitializeParams()
	return p == nil || p.ProtocolVersion >= resultProtocol
}

// requestState encodes when the host was asked, and how often in this call.
func requestState(now time.Time, round int) string {
	return fmt.Sprintf("%d.%d", now.UnixMilli(), round)
}

// asking reports what the person at the host has to do with a request: waits if it is asked now, and toAsk if the result of the call
// must ask. Otherwise the caller of the tool decides.
func (a asker) asking(ctx context.Context, r reconcile.Request) (waits, toAsk bool) {
	if a.session == nil || r.Secret() { // forms must not ask for secrets
		return false, false
	}
	if !a.byResult {
		return a.server.ask(ctx, a.session, r), false
	}
	a.server.asked.mu.Lock()
	defer a.server.asked.mu.Unlock()
	return false, !a.server.asked.over[key(r)]
}

// inputRequired returns the result that asks the host about these requests; nil without requests.
func (a asker) inputRequired(toAsk []reconcile.Request) *mcp.CallToolResult {
	if len(toAsk) == 0 {
		return nil
	}
	forms := mcp.InputRequestMap{}
	for _, r := range toAsk {
		forms[r.ID()] = formOf(r)
	}
	return &mcp.CallToolResult{InputRequests: forms, RequestState: requestState(time.Now(), a.round+1)}
}

// takeAnswers carries out what the host has answered to inputRequired.
func (s *Server) takeAnswers(ctx context.Context, req *mcp.CallToolRequest) error {
	if len(req.Params.InputResponses) == 0 {
		return nil
	}
	open, err := s.agents.Requests(ctx)
	if err != nil {
		return err
	}
	began, _, _ := strings.Cut(req.Params.RequestState, ".")
	at, _ := strconv.ParseInt(began, 10, 64) // without it the answer counts as a late one
	took := time.Since(time.UnixMilli(at))
	for id, response := range req.Params.InputResponses {
		answer, ok := response.(*mcp.ElicitResult)
		i := slices.IndexFunc(open, func(r reconcile.Request) bool { return r.ID() == id })
		if !ok || i < 0 {
			s.log.InfoContext(ctx, "answer of the host not used: the request has ended", "request", id)
			continue
		}
		s.hear(ctx, open[i], answer, took)
	}
	return nil
}

// key names a request for ever.
func key(r reconcile.Request) string { return r.Attention().Key }

// sendRequests asks a host of an older protocol about each request as soon as an agent makes it, from the first call of a tool on: a host
// that does not use agents is not bothered.
func (s *Server) sendRequests(ctx context.Context) mcp.Middleware {
	var once sync.Once
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(call context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if r, ok := req.(*mcp.CallToolRequest); ok {
				if a := s.askerOf(r); a.session != nil && !a.byResult {
					once.Do(func() { go s.followRequests(ctx, a) })
				}
			}
			return next(call, method, req)
		}
	}
}

// followRequests asks about new requests, and no longer about those that have ended, until ctx ends.
func (s *Server) followRequests(ctx context.Context, a asker) {
	w := watch{agents: s.agents}
	repeat(ctx, func() {
		err := w.look(ctx, func() error {
			open, err := s.agents.Requests(ctx)
			if err != nil {
				return err
			}
			for _, r := range open {
				a.asking(ctx, r)
			}
			s.asked.endOthers(open)
			return nil
		})
		if err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "requests not read", "error", err)
		}
	})
}

// endOthers ends the asking about requests that are no longer open.
func (a *asked) endOthers(open []reconcile.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for k, end := range a.waiting {
		if !slices.ContainsFunc(open, func(r reconcile.Request) bool { return key(r) == k }) {
			end()
		}
	}
}

// ask asks a host of an older protocol about a request, once, and reports whether its answer is awaited.
func (s *Server) ask(ctx context.Context, session *mcp.ServerSession, r reconcile.Request) bool {
	a := &s.asked
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over[key(r)] {
		return false
	}
	if a.waiting[key(r)] == nil {
		asking, end := context.WithCancel(context.WithoutCancel(ctx))
		a.waiting[key(r)] = end
		go func() {
			defer end()
			began := time.Now()
			answer, err := session.Elicit(asking, formOf(r))
			if err != nil { // which may hold what a person has typed
				answer = &mcp.ElicitResult{Action: "with an error, or with what does not fit the form"}
			}
			if asking.Err() == nil {
				s.hear(asking, r, answer, time.Since(began))
			}
			a.end(r)
		}()
	}
	return true
}

// end records that the host is not asked about the request any more.
func (a *asked) end(r reconcile.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, key(r))
	a.over[key(r)] = true
}

// hear carries out the answer of the host. The request stays open after an answer that decides nothing: the person has closed the form, or
// the host can't ask.
func (s *Server) hear(ctx context.Context, r reconcile.Request, answer *mcp.ElicitResult, took time.Duration) {
	defer s.asked.end(r)
	ctx = context.WithoutCancel(ctx) // what a person has decided is not lost with the call
	log := s.log.With("request", r.ID())
	var d requests.Decision
	var err error
	switch {
	case answer.Action == "accept":
		d, err = decisionOf(r, answer.Content)
	case answer.Action == "decline" && took >= s.asked.person:
		d = requests.Decision{How: reconcile.DecideDeny, Reason: "declined at the host"}
	case answer.Action == "decline":
		err = errors.New("the host declined immediately, without asking a person")
	default:
		err = fmt.Errorf("the host answers %s", answer.Action)
	}
	if err == nil {
		_, err = s.agents.Decide(ctx, r.ID(), d)
	}
	if err != nil {
		log.WarnContext(ctx, "not decided by the host", "error", err, "decide it with", howToDecide(r))
		return
	}
	log.InfoContext(ctx, "decided by the host", slog.String("decision", string(d.How)))
}

// formOf returns the form that asks a person about a request. Its message has all that the person approves.
func formOf(r reconcile.Request) *mcp.ElicitParams {
	form := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
	add := func(name string, optional bool, s *jsonschema.Schema) {
		form.Properties[name] = s
		form.PropertyOrder = append(form.PropertyOrder, name)
		if !optional {
			form.Required = append(form.Required, name)
		}
	}
	if r.Kind != reconcile.QuestionRequest {
		add("decision", false, &jsonschema.Schema{Type: "string", Title: "Decision", Enum: decisions()})
		add("reason", true, &jsonschema.Schema{Type: "string", Title: "Reason of a denial"})
	}
	for i, q := range r.Detail.Questions {
		add(answerName(i), q.Optional, questionSchema(q))
	}
	return &mcp.ElicitParams{Mode: "form", Message: message(r), RequestedSchema: form, Meta: mcp.Meta{"symphony/request": newRequestState(r)}}
}

func questionSchema(q reconcile.RequestQuestion) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string", Title: text.Visible(q.Header), Description: text.Visible(q.Text)}
	if len(q.Options) == 0 {
		if q.Type != "" {
			s.Type = q.Type
		}
		return s
	}
	var labels []string
	for _, o := range q.Options {
		labels = append(labels, o.Label)
	}
	if !q.Other && !q.Several {
		for _, label := range labels {
			s.Enum = append(s.Enum, label)
		}
		return s
	}
	s.Description += "\nOptions: " + text.Visible(strings.Join(labels, ", "))
	if q.Several {
		s.Description += ". Separate several by commas."
	}
	return s
}

// message is the text of a form.
func message(r reconcile.Request) string {
	d := r.Detail
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, text.Visible(value))
		}
	}
	fmt.Fprintf(&b, "%s: agent %s asks", methods[r.Kind], r.Identifier)
	if r.Outside {
		b.WriteString(", outside the sandbox")
	}
	b.WriteString("\n")
	if r.Kind != reconcile.CommandRequest || view.AsksMore(r) {
		line("Summary", r.Summary)
	}
	line("Command", d.Command)
	line("Directory", d.Cwd)
	line("Reason", d.Reason)
	line("Wants to write below", d.GrantRoot)
	line("MCP server", d.Server)
	line("Permissions", string(d.Permissions))
	for _, q := range d.Questions {
		line("Question", q.Text)
	}
	var diffs strings.Builder
	for _, c := range d.Changes {
		line("File", fmt.Sprintf("%s (%s)", c.Path, c.Kind))
		diffs.WriteString(c.Diff)
		if !strings.HasSuffix(c.Diff, "\n") {
			diffs.WriteString("\n")
		}
	}
	shown := text.Within(diffs.String(), maxFormDiffs)
	for l := range strings.Lines(shown) {
		b.WriteString(text.Visible(strings.TrimSuffix(l, "\n")) + "\n")
	}
	if cut := diffs.Len() - len(shown) + d.Cut; cut > 0 {
		fmt.Fprintf(&b, "… %d more bytes of the change\n", cut)
	}
	line("Conversation", r.ThreadID)
	line("Call", d.CallID)
	fmt.Fprintf(&b, "Without a decision it is denied at %s.", r.ExpiresAt.UTC().Format(time.TimeOnly+" MST"))
	return b.String()
}
