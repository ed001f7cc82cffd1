// Package codex is the client of a `codex app-server` (specification 10), on a connection of
// package wire. It implements agent.Session, and it is the only package that knows codex's
// methods. It starts no process.
//
// A thread runs turns: a prompt, and all messages until turn/completed. requests
// answers the requests of codex. A Session opens the conversation and passes each line to
// these.
//
// # Decisions
//
// The reader sets the turn's id when it sees the answer to turn/start, so that a
// turn/completed on the next line is matched with that turn.
//
// Only its own turn/completed ends a turn. Other threads on the stream are sub-agents: their
// items, tokens and requests count, the ends of their turns do not. Goals, with which codex
// starts turns by itself, are off in each thread's configuration.
//
// After a timeout or the end of ctx, RunTurn returns at once and leaves the turn to the
// caller, which usually ends the process. Timeouts use the monotonic clock: neither a step of
// the wall clock nor a suspend counts against the agent. While an operator is asked they are
// paused; afterwards they start again from zero.
//
// With automatic approval, commands and patches are approved for the session, because the
// policy would approve the same request again; permissions are granted for the turn, exactly
// as requested. A question that is not passed to an operator fails the turn. It gets an empty
// answer first, because codex would wait for it forever. A form of an MCP server is declined, and
// the turn goes on. The question whether a tool of an MCP server may run comes as a form without
// fields, marked by codex_approval_kind, and is treated as an approval.
//
// Every command that codex asks about counts as outside the sandbox: an approved escalation
// runs outside, and the request does not tell for certain whether it asks for that. A patch
// counts as inside only under the policy untrusted, without a reason, and if every path is
// below the turn's directory and none is protected by the sandbox.
package codex

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
	"github.com/symphony-cron/symphony/runner/wire"
)

// oldestVersion is the oldest codex release that passes the tests with the real codex. Earlier
// ones were not tried.
const oldestVersion = "0.159.0"

// clientName is how the client introduces itself. codex begins its user agent with it.
const clientName = "symphony"

// specified are the methods that the specification names (10.2). An agent that names no
// release of codex gets no parameter that the specification does not name, and no other method
// but those of its stage: a peer that was written from the text may end at anything else.
var specified = []string{"initialize", "thread/start", "turn/start"}

// stage is how much of the protocol an agent gets. Only stageOf chooses it.
type stage int32

const (
	stageCodex     stage = iota // all that symphony knows
	stageSecond                 // also what the second version of the protocol has
	stageSpecified              // what the specification names
)

// stageOf returns the stage of an agent by its answer to initialize: the release of codex that
// it names, and its codexHome, which only the second version of the protocol has.
func stageOf(release, home string) stage {
	switch {
	case release != "":
		return stageCodex
	case home != "":
		return stageSecond
	}
	return stageSpecified
}

// has reports whether the stage has a method.
func (s stage) has(method string) bool {
	switch method {
	case "thread/name/set", "turn/interrupt":
		return s != stageSpecified
	}
	return s == stageCodex || slices.Contains(specified, method)
}

// limits says what can't be done with an agent of the stage, "" if everything can.
func (s stage) limits() string {
	const text = "the agent names no release of codex: each run starts a new thread, no message reaches the agent " +
		"during a turn, and its sandbox, login and model are not tried"
	switch s {
	case stageCodex:
		return ""
	case stageSecond:
		return text
	case stageSpecified:
	}
	return text + "; a turn can't be interrupted"
}

// conn is the connection to an app-server.
type conn struct {
	*wire.Conn

	chosen atomic.Int32 // the stage
}

func (c *conn) stage() stage { return stage(c.chosen.Load()) }

func newConn(streams agent.Streams, o *agent.Options) *conn {
	c := &conn{Conn: wire.NewConn(streams, o)}
	c.Refuse = func(method string) error {
		if c.stage().has(method) {
			return nil
		}
		return &wire.Error{
			Code:    wire.MethodNotFound,
			Message: "the specification has no such method",
		}
	}
	return c
}

// Session is a conversation with an app-server. It implements agent.Session.
type Session struct {
	o        agent.Options
	conn     *conn
	requests *requests
	*thread
	*usage
	close func() error
}

var _ agent.Session = (*Session)(nil)

// New takes over the streams and starts to read. The caller must Close the session and end the
// process: the session's goroutines run until the process's stdout ends.
func New(streams agent.Streams, o agent.Options) *Session {
	o.ReadTimeout = cmp.Or(max(0, o.ReadTimeout), agent.DefaultReadTimeout)
	o.InitializeTimeout = cmp.Or(max(0, o.InitializeTimeout), o.ReadTimeout)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.OnEvent == nil {
		o.OnEvent = func(agent.Event) {}
	}
	s := &Session{
		o:     o,
		usage: &usage{used: make(map[string]agent.Usage), limits: make(map[string]map[string]any)},
	}
	life, end := context.WithCancel(context.Background())
	s.conn = newConn(streams, &s.o)
	s.thread = &thread{
		o:       &s.o,
		conn:    s.conn,
		usage:   s.usage,
		life:    life,
		patches: make(map[string][]agent.FileChange),
	}
	s.requests = &requests{o: &s.o, conn: s.conn, thread: s.thread, open: make(map[string]*request)}
	s.pending = s.requests.pending
	s.close = sync.OnceValue(func() error {
		end()
		return s.conn.Close()
	})
	go func() {
		s.conn.Read(s.handle)
		end()
		s.conn.Finish()
	}()
	return s
}

func (s *Session) Close() error { return s.close() }

func (s *Session) Done() <-chan struct{} { return s.conn.Drained }

// handle handles a line. The reader calls it.
func (s *Session) handle(m *wire.Message) {
	switch {
	case m.Method != "" && m.HasID():
		s.progressed()
		s.requests.serve(m)
	case m.Method != "":
		if showsProgress(m.Method) {
			s.progressed()
		} else {
			s.heard()
		}
		s.notice(m)
	default:
		s.heard()
		if !s.conn.Answer(m) {
			s.conn.Emit(wire.Unexpected(m))
		}
	}
}

// notice handles a notification: it updates the session's state and emits an event.
func (s *Session) notice(m *wire.Message) {
	p := readNotification(m)
	e := eventOf(m, p)
	switch p := p.(type) {
	case *turnEnded:
		s.turnEnded(m.Method, p, e)
		return
	case *errorReported:
		s.sawError(p.Error)
	case *itemChanged:
		if e.Item.Kind == agent.ItemTool {
			call := wire.Short(s.o.Summary(e.Item.Tool, p.Item.Arguments), summaryLength)
			e.Item.Call = cmp.Or(call, e.Item.Call)
		}
		s.sawItem(p.from(), e.Item)
	case *patchUpdated:
		s.sawPatch(p.from(), p.itemID(), fileChanges(p.Changes))
	case *requestResolved:
		s.requests.finish(p.RequestID)
	case *tokensUsed:
		used, err := s.count(cmp.Or(p.threadID(), s.ThreadID()), p.TokenUsage)
		switch {
		case err != nil:
			e.Message = err.Error()
		case used != nil:
			e.Usage = used
			e.Message = fmt.Sprintf("tokens: %d in (%d cached), %d out, %d total",
				used.Input, used.CachedInput, used.Output, used.Total)
		}
	case *limitsUpdated:
		s.updateLimits(p.RateLimits)
	case *modelRerouted:
		if s.isOurs(p.from()) {
			s.usesModel(p.ToModel)
		}
	case *remark:
		switch m.Method {
		case "turn/started":
			s.turnStarted(p.from())
		case "turn/input_required":
			e.Name = agent.EventTurnInputRequired
			e.Message = cmp.Or(p.Reason, p.Message, "no reason given")
			s.fail(agent.CodeTurnInputRequired, "the agent asks a question: "+e.Message)
		}
	}
	s.conn.Emit(e)
}

func (s *Session) Initialize(ctx context.Context) (server agent.Server, err error) {
	const method = "initialize"
	defer func() { s.emitStartupFailed(err) }()
	result, err := s.conn.Request(ctx, &wire.Call{
		Method:  method,
		Timeout: s.o.InitializeTimeout,
		Params: object{
			"clientInfo": object{"name": clientName, "version": cmp.Or(s.o.ClientVersion, "0")},
			// dynamic tools and permission profiles need it
			"capabilities": object{"experimentalApi": true},
		},
	})
	if refusal := new(wire.Error); errors.As(err, &refusal) {
		// whatever the refusal is, there is nothing else to try
		return agent.Server{}, incompatible(method, refusal.Message)
	}
	if err != nil {
		return agent.Server{}, s.conn.InsteadOfAnswer(ctx, err, agent.CodeIncompatible)
	}
	var answer struct{ UserAgent, CodexHome string }
	if err := json.Unmarshal(result, &answer); err != nil {
		return agent.Server{}, incompatible(method, err.Error())
	}
	version := release(answer.UserAgent)
	s.conn.chosen.Store(int32(stageOf(version, answer.CodexHome)))
	if minor(version) < minor(oldestVersion) {
		text := "codex %s is older than %s, the oldest release that symphony works with"
		return agent.Server{}, incompatible(method, fmt.Sprintf(text, version, oldestVersion))
	}
	server = agent.Server{
		UserAgent: answer.UserAgent,
		Home:      answer.CodexHome,
		Version:   version,
		Limits:    s.conn.stage().limits(),
	}
	if server.Limits != "" {
		s.conn.Emit(agent.Event{Name: agent.EventLimited, Message: server.Limits})
	}
	return server, s.conn.Send(object{"method": "initialized", "params": object{}}, nil)
}

// release returns the release of codex that a user agent names: 0.169.0 of "symphony/0.169.0
// (Debian 12)". It returns "" if the user agent names another program, such as "peer/1.0" or
// "peer/0.1.0". The environment can give codex another name; it is then known by its version.
func release(userAgent string) string {
	name, rest, _ := strings.Cut(userAgent, "/")
	version, _, _ := strings.Cut(rest, " ")
	if name == clientName {
		return version
	}
	if n := minor(version); n < minor(oldestVersion) || n == math.MaxInt {
		return ""
	}
	return version
}

// minor returns the minor version of codex, which counts its releases. A version of another
// form counts as newer than all.
func minor(version string) (n int) {
	if _, err := fmt.Sscanf(version, "0.%d.", &n); err != nil {
		return math.MaxInt
	}
	return n
}

// threadRequest are the parameters of thread/start and thread/resume.
type threadRequest struct {
	ThreadID       string          `json:"threadId,omitempty"`
	ExcludeTurns   bool            `json:"excludeTurns,omitempty"`
	Cwd            string          `json:"cwd,omitempty"`
	ApprovalPolicy json.RawMessage `json:"approvalPolicy,omitempty"`
	Sandbox        json.RawMessage `json:"sandbox,omitempty"`
	Config         map[string]any  `json:"config,omitempty"`
	DynamicTools   []object        `json:"dynamicTools,omitempty"`
	Model          string          `json:"model,omitempty"`
	ModelProvider  string          `json:"modelProvider,omitempty"`
	Base           string          `json:"baseInstructions,omitempty"`
	Developer      string          `json:"developerInstructions,omitempty"`
}

// StartThread implements agent.Session. It names the thread for codex's own lists without
// waiting for the answer, because a release that refuses the name works as well.
func (s *Session) StartThread(ctx context.Context, p agent.ThreadParams) (string, error) {
	stage := s.conn.stage()
	tools := text.Map(s.o.Tools, func(t agent.Tool) object {
		tool := object{"name": t.Name, "description": t.Description, "inputSchema": t.InputSchema}
		if stage == stageCodex {
			tool["type"] = "function"
		}
		return tool
	})
	if stage != stageCodex {
		p.Config = nil
		if p.Sandbox == nil {
			p.Sandbox = sandboxMode(p.TurnPolicy)
		}
	}
	id, err := s.openThread(ctx, "thread/start", p, threadRequest{DynamicTools: tools})
	const method = "thread/name/set"
	if err != nil || p.Name == "" || !stage.has(method) {
		return id, err
	}
	return id, s.conn.Start(&wire.Call{
		Method: method,
		Aside:  true,
		Params: object{"threadId": id, "name": p.Name},
	})
}

// sandboxModes are the sandboxes of a thread by the type of a turn's policy.
var sandboxModes = map[string]string{
	"readOnly":         "read-only",
	"workspaceWrite":   "workspace-write",
	"dangerFullAccess": "danger-full-access",
}

// sandboxMode returns the sandbox of a thread for the policy of its turns, nil for an external
// sandbox.
func sandboxMode(turn json.RawMessage) json.RawMessage {
	var policy struct{ Type string }
	wire.Unmarshal(turn, &policy)
	mode := sandboxModes[policy.Type]
	if mode == "" {
		return nil
	}
	return text.JSON(mode)
}

// defaultProvider is codex's own name of the provider of models that it uses without the
// setting model_provider.
const defaultProvider = "openai"

// ResumeThread implements agent.Session. The thread's tools are stored with it, and so are its
// model and provider, even if the configuration names others now. codex changes the model if
// it is named, and refuses to change the provider.
func (s *Session) ResumeThread(ctx context.Context, thread string, p agent.ThreadParams) error {
	if s.conn.stage() != stageCodex {
		return fmt.Errorf("%w: it names no codex release", agent.ErrNoThread)
	}
	req := threadRequest{ThreadID: thread, ExcludeTurns: true}
	now, err := s.models(ctx, p.Cwd)
	if err == nil { // without config/read an agent knows no other provider to resume with
		p.Model = cmp.Or(p.Model, now.Model)
		req.ModelProvider = cmp.Or(now.Provider, defaultProvider)
	}
	got, err := s.openThread(ctx, "thread/resume", p, req)
	if err != nil {
		return err
	}
	if got != thread {
		return incompatible("thread/resume", "answered with another thread: "+got)
	}
	return nil
}

// threadAnswer is the answer to thread/start and thread/resume.
type threadAnswer struct {
	Thread struct{ ID string }
	Model  string
}

func (s *Session) openThread(
	ctx context.Context,
	method string,
	p agent.ThreadParams,
	req threadRequest,
) (id string, err error) {
	defer func() { s.emitStartupFailed(err) }()
	req.Cwd = p.Cwd
	req.ApprovalPolicy = p.ApprovalPolicy
	req.Sandbox = p.Sandbox
	req.Config = p.Config
	req.Model = p.Model
	req.Base = p.BaseInstructions
	req.Developer = p.DeveloperInstructions
	title := p.Name
	result, err := s.conn.Request(ctx, &wire.Call{
		Method: method,
		Params: req,
		Answered: func(m *wire.Message) {
			// In the reader, because the id decides how the next lines are handled.
			opened := wire.Read[threadAnswer](m.Result)
			if opened.Thread.ID != "" {
				s.opened(opened.Thread.ID, title)
				s.usesModel(opened.Model)
			}
		},
	})
	if err != nil {
		return "", handshakeError(method, err)
	}
	id = wire.Read[threadAnswer](result).Thread.ID
	if id == "" {
		return "", incompatible(method, "the answer has no thread id: "+wire.Short(string(result), 120))
	}
	return id, nil
}

// emitStartupFailed emits an event if the handshake failed. ErrNoThread is no failure: the
// caller starts a new thread.
func (s *Session) emitStartupFailed(err error) {
	if err != nil && !errors.Is(err, agent.ErrNoThread) {
		s.conn.Emit(agent.Event{Name: agent.EventStartupFailed, Message: err.Error()})
	}
}

func (s *Session) Login(ctx context.Context, cwd string) (agent.Login, error) {
	var answer struct {
		Account            struct{ Type, Email string }
		RequiresOpenaiAuth bool
	}
	if err := s.read(ctx, "account/read", object{}, &answer); err != nil {
		return agent.Login{}, err
	}
	login := agent.Login{
		Account: strings.TrimSpace(answer.Account.Type + " " + answer.Account.Email),
		Needed:  answer.RequiresOpenaiAuth,
	}
	if login.Account != "" || login.Needed {
		return login, nil
	}
	now, err := s.models(ctx, cwd)
	login.Provider = now.Provider
	login.EnvKey = now.Providers[now.Provider].EnvKey
	return login, err
}

// Models implements agent.Session.
func (s *Session) Models(ctx context.Context, cwd string) (configured string, known []string, err error) {
	now, err := s.models(ctx, cwd)
	if err != nil || cmp.Or(now.Provider, defaultProvider) != defaultProvider {
		return now.Model, nil, err
	}
	var answer struct{ Data []struct{ Model string } }
	err = s.read(ctx, "model/list", object{"includeHidden": true, "limit": mostModels}, &answer)
	for _, m := range answer.Data {
		known = append(known, m.Model)
	}
	return now.Model, known, err
}

// mostModels is more than codex knows.
const mostModels = 1000

// models is codex's configuration of models. Model and Provider are "" without a setting.
type models struct {
	Model     string
	Provider  string `json:"model_provider"`
	Providers map[string]struct {
		EnvKey string `json:"env_key"`
	} `json:"model_providers"`
}

// models asks for the configuration in cwd.
func (s *Session) models(ctx context.Context, cwd string) (models, error) {
	var answer struct{ Config models }
	err := s.read(ctx, "config/read", object{"cwd": cwd}, &answer)
	return answer.Config, err
}

// read sends a request that changes nothing and decodes its result.
func (s *Session) read(ctx context.Context, method string, params object, into any) error {
	result, err := s.conn.Request(ctx, &wire.Call{Method: method, Aside: true, Params: params})
	if err != nil {
		return handshakeError(method, err)
	}
	if err := json.Unmarshal(result, into); err != nil {
		return incompatible(method, err.Error())
	}
	return nil
}

const (
	// A sandboxed command takes 50 ms, or a second on a busy machine.
	probeTimeout = 10 * time.Second
	exitTimedOut = 124 // exit code of a command that codex ended at its timeout
)

func (s *Session) ProbeSandbox(ctx context.Context, cwd string, policy json.RawMessage) error {
	if !confine.Confines(policy) {
		return nil
	}
	result, err := s.conn.Request(ctx, &wire.Call{
		Method:  "command/exec",
		Aside:   true,
		Timeout: max(probeTimeout, s.o.ReadTimeout),
		Params: object{
			// The command can't fail and prints nothing, so any failure or output is the
			// sandbox's.
			"command":       []string{"/bin/sh", "-c", ":"},
			"cwd":           cwd,
			"sandboxPolicy": policy,
			"timeoutMs":     probeTimeout.Milliseconds(),
		},
	})
	late, isKnown := errors.AsType[*agent.Error](err)
	isLate := isKnown && late.Code == agent.CodeResponseTimeout
	if isLate || errors.As(err, new(*wire.Error)) {
		return fmt.Errorf("%w: %s", agent.ErrNoProbe, wire.Short(err.Error(), wire.ErrorLength))
	}
	if err != nil {
		return err
	}
	var answer struct {
		ExitCode *int
		Stderr   string
	}
	wire.Unmarshal(result, &answer)
	if answer.ExitCode == nil || *answer.ExitCode == exitTimedOut {
		return fmt.Errorf("%w: %s", agent.ErrNoProbe, wire.Short(string(result), wire.ErrorLength))
	}
	if *answer.ExitCode == 0 {
		return nil
	}
	silent := fmt.Sprintf("the probe ended with exit code %d and printed nothing", *answer.ExitCode)
	return &agent.Error{
		Code:    agent.CodeSandboxUnavailable,
		Message: cmp.Or(wire.Short(text.FirstLine(answer.Stderr), wire.ErrorLength), silent),
	}
}

func (s *Session) Exec(ctx context.Context, p agent.ExecParams) (out agent.ExecResult, err error) {
	const method = "command/exec"
	params := object{
		"command":   p.Command,
		"cwd":       p.Cwd,
		"env":       p.Env,
		"timeoutMs": p.Timeout.Milliseconds(),
		// codex has a limit of its own, but does not say whether it has reached it
		"outputBytesCap": agent.MostOutput,
	}
	if p.Permissions != "" { // codex accepts either, not both
		params["permissionProfile"] = p.Permissions
	} else {
		params["sandboxPolicy"] = p.SandboxPolicy
	}
	result, err := s.conn.Request(ctx, &wire.Call{
		Method:  method,
		Aside:   true,
		Timeout: p.Timeout + s.o.ReadTimeout,
		Params:  params,
	})
	if err != nil {
		return out, responseError(method, err)
	}
	if err := json.Unmarshal(result, &out); err != nil {
		return out, incompatible(method, err.Error())
	}
	return out, nil
}
