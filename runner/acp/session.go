// Package acp is the client of agents that speak the Agent Client Protocol, version 1, such as
// Claude Code by its adapter, OpenCode and Gemini CLI. It implements agent.Session on a
// connection of package wire, and starts no process. What differs between the agents is a row
// in kinds.
//
// # Decisions
//
// The client offers neither files nor terminals, and answers every request that it does not
// know with -32601: all agents go on then. OpenCode asks to write files nevertheless, and
// writes them itself.
//
// A turn is a prompt and ends with its answer, with nothing else. Updates may come at any time,
// also of other sessions, and of kinds that this client does not know. They are signs of life.
//
// The model, the effort and the mode are set in each session and read back. If the agent
// answers with others, also later, the run ends: OpenCode takes a hosted model of a third party
// without a word if it does not know the model.
//
// A permission is answered by the kind of its options, never by their place or name. Symphony
// allows once and remembers itself what is allowed for the session, because the agents would
// write it into their own settings.
//
// A session is resumed, or else loaded; what the agent replays is dropped. A session that it
// can't go on with is agent.ErrNoThread: the caller starts a new one and says so.
//
// Symphony's tools reach the agent through an MCP server, which the agent starts: the program
// relays it to this process, so that no key leaves the process.
package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/wire"
)

// startBound is the least that an agent gets to start and to open a session: OpenCode's first
// start in a new home took 18 seconds, and one with an MCP server that hangs 30 more.
const startBound = 60 * time.Second

// Session is a conversation with an agent. It implements agent.Session.
type Session struct {
	o      agent.Options
	kind   *kind
	conn   *wire.Conn
	life   context.Context // ends with the session
	close  func() error
	prefix string // of the ids of turns, which the protocol does not have

	granted sync.Map // what is allowed for the session, by its request

	mu       sync.Mutex
	tools    *toolServer // nil without tools
	able     initialized
	id       string // "" before a session is open
	cwd      string
	loading  bool // the agent replays an earlier conversation
	settings opened
	wanted   map[string]string // settings that must not change, by category
	turn     *turn             // the running turn, or nil
	turns    int               // in this process
	denied   []string          // what the next turn says first
	open     map[string]*request
	login    agent.Login
	usage    usage
}

var _ agent.Session = (*Session)(nil)

// newSession takes over the streams and starts to read. The caller must Close the session and
// end the process: the session's goroutines run until the process's stdout ends.
func newSession(k *kind, streams agent.Streams, o agent.Options) *Session {
	o.ReadTimeout = cmp.Or(max(0, o.ReadTimeout), agent.DefaultReadTimeout)
	o.InitializeTimeout = max(o.InitializeTimeout, startBound)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.OnEvent == nil {
		o.OnEvent = func(agent.Event) {}
	}
	s := &Session{
		o:      o,
		kind:   k,
		prefix: strconv.FormatInt(o.Now().UnixMilli(), 36),
		wanted: make(map[string]string),
		open:   make(map[string]*request),
	}
	life, end := context.WithCancel(context.Background())
	s.life = life
	s.conn = wire.NewConn(streams, &s.o)
	s.conn.Version = "2.0"
	s.close = sync.OnceValue(func() error {
		end()
		return errors.Join(s.toolServer().close(), s.conn.Close())
	})
	go func() {
		s.conn.Read(s.handle)
		end()
		s.conn.Finish()
	}()
	return s
}

// Close implements agent.Session.
func (s *Session) Close() error { return s.close() }

// Done implements agent.Session.
func (s *Session) Done() <-chan struct{} { return s.conn.Drained }

// ThreadID returns the id of the session, "" before one is open.
func (s *Session) ThreadID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// workplace returns the directory of the session.
func (s *Session) workplace() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cwd
}

// emit emits an event of the session. It must not be called with mu, because the receiver of
// events may ask the session something.
func (s *Session) emit(e agent.Event) {
	e.ThreadID = s.ThreadID()
	if t := s.current(); t != nil && e.TurnID == "" {
		e.TurnID = t.id
	}
	s.conn.Emit(e)
}

// handle handles a line. The reader calls it.
func (s *Session) handle(m *wire.Message) {
	switch {
	case m.Method == "session/request_permission" && m.HasID():
		s.progressed()
		s.servePermission(m)
	case m.Method != "" && m.HasID():
		s.progressed()
		s.refuse(m)
	case m.Method != "":
		s.heard()
		s.notice(m)
	default:
		s.heard()
		if !s.conn.Answer(m) {
			s.emit(wire.Unexpected(m))
		}
	}
}

// request sends a request for which a start may be needed, and waits for its result.
func (s *Session) request(ctx context.Context, method string, params wire.Object) (json.RawMessage, error) {
	return s.conn.Request(ctx, &wire.Call{Method: method, Params: params, Timeout: s.o.InitializeTimeout})
}

// Initialize implements agent.Session.
func (s *Session) Initialize(ctx context.Context) (server agent.Server, err error) {
	const method = "initialize"
	defer func() { s.tellFailedStart(err) }()
	result, err := s.request(ctx, method, wire.Object{
		"protocolVersion": protocolVersion,
		"clientCapabilities": wire.Object{
			"fs":       wire.Object{"readTextFile": false, "writeTextFile": false},
			"terminal": false,
		},
		"clientInfo": wire.Object{
			"name":    "symphony",
			"title":   "Symphony",
			"version": cmp.Or(s.o.ClientVersion, "0"),
		},
	})
	if refusal := new(wire.Error); errors.As(err, &refusal) {
		return server, incompatible(wire.Join(method, refusal.Message))
	}
	if err != nil {
		return server, s.conn.InsteadOfAnswer(ctx, err, agent.CodeAgentIncompatible)
	}
	able := wire.Read[initialized](result)
	if err := s.kind.accept(able); err != nil {
		return server, err
	}
	s.mu.Lock()
	s.able = *able
	s.mu.Unlock()
	info := able.AgentInfo
	server.UserAgent = strings.Trim(info.Name+"/"+info.Version, "/")
	server.Version = info.Version
	return server, nil
}

// accept returns why an agent can't be used.
func (k *kind) accept(able *initialized) error {
	info := able.AgentInfo
	switch {
	case able.ProtocolVersion != protocolVersion:
		return incompatible(fmt.Sprintf(
			"the agent speaks version %d of the Agent Client Protocol, symphony version %d",
			able.ProtocolVersion,
			protocolVersion,
		))
	case k.agentName != "" && info.Name != k.agentName:
		return incompatible(fmt.Sprintf(
			"agent.kind is %s, but the command starts %q; agent.kind: acp takes any agent of the protocol",
			k.name,
			wire.Short(info.Name, 80),
		))
	case older(info.Version, k.oldest):
		return incompatible(fmt.Sprintf(
			"%s %s is older than %s, the oldest that symphony works with",
			k.name,
			wire.Short(info.Version, 40),
			k.oldest,
		))
	}
	return nil
}

// tellFailedStart emits an event if the agent can't be used. ErrNoThread is no failure: the
// caller starts a new session.
func (s *Session) tellFailedStart(err error) {
	if err != nil && !errors.Is(err, agent.ErrNoThread) {
		s.emit(agent.Event{Name: agent.EventStartupFailed, Message: err.Error()})
	}
}

// incompatible is the error of an agent or a setting that symphony can't use.
func incompatible(what string) *agent.Error {
	return &agent.Error{Code: agent.CodeAgentIncompatible, Message: wire.Short(what, wire.ErrorLength)}
}

// openError returns the error of a request that opens the conversation.
func (s *Session) openError(method string, err error) error {
	refusal := new(wire.Error)
	if !errors.As(err, &refusal) {
		return err
	}
	return &agent.Error{
		Code:    cmp.Or(s.kind.classify(refusal), agent.CodeResponseError),
		Message: wire.Short(wire.Join(method, errorText(refusal)), wire.ErrorLength),
	}
}

// StartThread implements agent.Session.
func (s *Session) StartThread(ctx context.Context, p agent.ThreadParams) (id string, err error) {
	const method = "session/new"
	defer func() { s.tellFailedStart(err) }()
	params, err := s.sessionParams(p)
	if err != nil {
		return "", err
	}
	result, err := s.conn.Request(ctx, &wire.Call{
		Method:  method,
		Params:  params,
		Timeout: s.o.InitializeTimeout,
		// In the reader, because the id decides how the next lines are handled.
		Answered: func(m *wire.Message) {
			s.opened(m, wire.Read[opened](m.Result).SessionID, p)
			s.costsNothing()
		},
	})
	if err != nil {
		return "", s.openError(method, err)
	}
	// not ThreadID, which may be that of an earlier session
	id = wire.Read[opened](result).SessionID
	if !isSessionID(id) {
		return "", incompatible(method + ": the answer has no session id: " + wire.Short(string(result), 120))
	}
	return id, s.settle(ctx, p)
}

// isSessionID reports whether a session can have an id. It becomes a word of the command of the
// agent's terminal, which would take one that begins with a hyphen for an option.
func isSessionID(id string) bool {
	return id != "" && len(id) <= wire.MessageLength && id[0] != '-' && text.Visible(id) == id
}

// ResumeThread implements agent.Session.
func (s *Session) ResumeThread(ctx context.Context, id string, p agent.ThreadParams) (err error) {
	defer func() { s.tellFailedStart(err) }()
	params, err := s.sessionParams(p)
	if err != nil {
		return err
	}
	params["sessionId"] = id
	s.mu.Lock()
	able := s.able
	s.mu.Unlock()
	method := "session/resume"
	switch {
	case able.resumes():
	case able.AgentCapabilities.LoadSession:
		method = "session/load"
	default:
		return fmt.Errorf("%w: it can't resume sessions", agent.ErrNoThread)
	}
	if able.lists() {
		if err := s.find(ctx, id, p.Cwd); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.loading = true
	s.mu.Unlock()
	result, err := s.conn.Request(ctx, &wire.Call{
		Method:  method,
		Params:  params,
		Timeout: s.o.InitializeTimeout,
		// An answer without an id is about the session that was asked for.
		Answered: func(m *wire.Message) {
			s.opened(m, cmp.Or(wire.Read[opened](m.Result).SessionID, id), p)
		},
	})
	refusal := new(wire.Error)
	if errors.As(err, &refusal) && s.kind.classify(refusal) == "" {
		return fmt.Errorf("%w: %s", agent.ErrNoThread, wire.Join(method, errorText(refusal)))
	}
	if err != nil {
		return s.openError(method, err)
	}
	if got := s.ThreadID(); got != id {
		return incompatible(method + ": answered with another session: " + wire.Short(string(result), 120))
	}
	return s.settle(ctx, p)
}

// find returns ErrNoThread if the agent does not list a session: some report that they resumed
// what they do not have.
func (s *Session) find(ctx context.Context, id, cwd string) error {
	result, err := s.request(ctx, "session/list", wire.Object{"cwd": cwd})
	if errors.As(err, new(*wire.Error)) {
		return nil // the answer to session/resume tells
	}
	if err != nil {
		return err
	}
	all := wire.Read[listed](result)
	isIt := func(one struct{ SessionID string }) bool { return one.SessionID == id }
	if all.NextCursor != "" || slices.ContainsFunc(all.Sessions, isIt) {
		return nil
	}
	return fmt.Errorf("%w: the agent does not list it", agent.ErrNoThread)
}

// sessionParams returns the parameters of session/new, session/resume and session/load. OpenCode
// would accept a directory that does not exist.
func (s *Session) sessionParams(p agent.ThreadParams) (wire.Object, error) {
	if !filepath.IsAbs(p.Cwd) {
		return nil, fmt.Errorf("session: %q is not absolute", p.Cwd)
	}
	if s.kind.needsModel && p.Model == "" {
		return nil, incompatible("agent.model is not set, and " + s.kind.name + " would choose one itself")
	}
	servers := []wire.Object{}
	if len(s.o.Tools) > 0 {
		tools, err := s.offerTools()
		if err != nil {
			return nil, fmt.Errorf("tools for the agent: %w", err)
		}
		servers = append(servers, tools.server())
	}
	params := wire.Object{"cwd": p.Cwd, "mcpServers": servers}
	if s.kind.untrusting != nil && !s.o.TrustRepository {
		params["_meta"] = s.kind.untrusting
	}
	return params, nil
}

// offerTools returns the server of symphony's tools, which a session starts once.
func (s *Session) offerTools() (*toolServer, error) {
	if tools := s.toolServer(); tools != nil {
		return tools, nil
	}
	tools, err := serveTools(s)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools = tools
	return tools, nil
}

// toolServer returns the server of symphony's tools, nil if there is none.
func (s *Session) toolServer() *toolServer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tools
}

// opened takes a session over that was opened. The reader calls it.
func (s *Session) opened(m *wire.Message, id string, p agent.ThreadParams) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loading = false
	if m.Error != nil || id == "" {
		return
	}
	s.id = id
	s.cwd = p.Cwd
	s.settings = *wire.Read[opened](m.Result)
	s.usage.used = p.Used
	if p.Used.Paid > 0 {
		s.usage.costPaid = &cost{Amount: float64(p.Used.Paid) / 1e6, Currency: reconcile.PaidCurrency}
	}
}

// ProbeSandbox implements agent.Session. The agents have no sandbox that symphony relies on.
func (s *Session) ProbeSandbox(context.Context, string, json.RawMessage) error {
	return agent.ErrNoProbe
}

// Exec implements agent.Session.
func (s *Session) Exec(context.Context, agent.ExecParams) (agent.ExecResult, error) {
	return agent.ExecResult{}, s.unsupported("commands without a turn")
}

// RateLimits implements agent.Session: none is on the wire.
func (s *Session) RateLimits() json.RawMessage { return nil }

// Login implements agent.Session: what the agent has said of itself.
func (s *Session) Login(context.Context, string) (agent.Login, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.login, nil
}

// Models implements agent.Session. The agents know their models once a session is open.
func (s *Session) Models(context.Context, string) (configured string, known []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.setting(categoryModel), s.choices(categoryModel), nil
}

// The categories of settings.
const (
	categoryModel  = "model"
	categoryEffort = "thought_level"
	categoryMode   = "mode"
)

// watched are the settings that an agent may not change by itself. The effort may follow from
// what it finds out about its model.
var watched = []string{categoryModel, categoryMode}

// option returns the option of a category, nil if the session has none. The caller holds mu.
func (s *Session) option(category string) *configOption {
	for i := range s.settings.ConfigOptions {
		if o := &s.settings.ConfigOptions[i]; o.is(category) {
			return o
		}
	}
	return nil
}

// setting returns the value of a setting, "" if the agent does not name it. The caller holds
// mu.
func (s *Session) setting(category string) string {
	if o := s.option(category); o != nil {
		return o.CurrentValue
	}
	switch {
	case category == categoryModel && s.settings.Models != nil:
		return s.settings.Models.CurrentModelID
	case category == categoryMode && s.settings.Modes != nil:
		return s.settings.Modes.CurrentModeID
	}
	return ""
}

// choices returns the values of a setting. The caller holds mu.
func (s *Session) choices(category string) []string {
	if o := s.option(category); o != nil {
		return text.Map(o.Options, func(o struct{ Value string }) string { return o.Value })
	}
	switch {
	case category == categoryModel && s.settings.Models != nil:
		id := func(m struct{ ModelID string }) string { return m.ModelID }
		return text.Map(s.settings.Models.AvailableModels, id)
	case category == categoryMode && s.settings.Modes != nil:
		return text.Map(s.settings.Modes.AvailableModes, func(m struct{ ID string }) string { return m.ID })
	}
	return nil
}

// settle sets the model, the effort and the mode, and reads them back. The efforts depend on
// the model.
func (s *Session) settle(ctx context.Context, p agent.ThreadParams) error {
	for _, want := range []struct{ key, category, value string }{
		{"agent.model", categoryModel, p.Model},
		{"agent.effort", categoryEffort, p.Effort},
		{"its mode", categoryMode, s.kind.mode},
	} {
		if want.value == "" {
			continue
		}
		if err := s.set(ctx, want.key, want.category, want.value); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usage.uses(s.setting(categoryModel))
	return nil
}

// set gives a setting a value, unless it has it.
func (s *Session) set(ctx context.Context, key, category, value string) error {
	s.mu.Lock()
	now := s.setting(category)
	known := s.choices(category)
	option := s.option(category)
	s.mu.Unlock()
	var err error
	switch {
	case now == value:
	case option != nil:
		err = s.setOption(ctx, option.ID, value)
	case !slices.Contains(known, value): // Gemini accepts any model and fails later
		if len(known) == 0 {
			return incompatible(fmt.Sprintf("%s: %s offers no choice of it (wanted %q)", key, s.kind.name, value))
		}
		all := strings.Join(known, ", ")
		return incompatible(fmt.Sprintf("%s: %s does not know %q, only %s", key, s.kind.name, value, all))
	case category == categoryModel:
		err = s.setModel(ctx, value)
	default:
		_, err = s.request(ctx, "session/set_mode", wire.Object{"sessionId": s.ThreadID(), "modeId": value})
	}
	refusal := new(wire.Error)
	refused := errors.As(err, &refusal)
	if refused && category == categoryModel && s.kind.needsModel && len(known) == 0 {
		provider, _, _ := strings.Cut(value, "/")
		return &agent.Error{
			Code:    agent.CodeAgentAuth,
			Message: fmt.Sprintf("%s: %s has no model of %s, as without a login there", key, s.kind.name, provider),
		}
	}
	if refused {
		return incompatible(fmt.Sprintf("%s: %s refuses %q: %s", key, s.kind.name, value, errorText(refusal)))
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.setting(category)
	if now != value {
		return incompatible(fmt.Sprintf("%s: %s uses %q instead of %q", key, s.kind.name, now, value))
	}
	s.wanted[category] = value
	return nil
}

// setOption sets an option. The answer has all options, because they depend on each other.
func (s *Session) setOption(ctx context.Context, id, value string) error {
	result, err := s.request(ctx, "session/set_config_option", wire.Object{
		"sessionId": s.ThreadID(),
		"configId":  id,
		"value":     value,
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings.ConfigOptions = wire.Read[opened](result).ConfigOptions
	return nil
}

// setModel sets a model of the list in an older form of the protocol, whose answer says
// nothing.
func (s *Session) setModel(ctx context.Context, model string) error {
	_, err := s.request(ctx, "session/set_model", wire.Object{"sessionId": s.ThreadID(), "modelId": model})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings.Models.CurrentModelID = model
	return nil
}

// sawOptions takes over the options of an update.
func (s *Session) sawOptions(t *turn, options []configOption) {
	s.mu.Lock()
	s.settings.ConfigOptions = options
	s.mu.Unlock()
	for _, o := range options {
		for _, category := range watched {
			if o.is(category) {
				s.checkSetting(t, category, o.CurrentValue)
			}
		}
	}
}

// sawSetting takes over a setting of an update.
func (s *Session) sawSetting(t *turn, category, value string) {
	s.mu.Lock()
	if o := s.option(category); o != nil {
		o.CurrentValue = value
	}
	if category == categoryMode && s.settings.Modes != nil {
		s.settings.Modes.CurrentModeID = value
	}
	s.mu.Unlock()
	s.checkSetting(t, category, value)
}

// checkSetting ends a turn in which the agent changes what was set.
func (s *Session) checkSetting(t *turn, category, value string) {
	s.mu.Lock()
	want := s.wanted[category]
	s.mu.Unlock()
	if t != nil && want != "" && value != want {
		s.fail(t, agent.CodeAgentIncompatible, s.changed(category, want, value))
	}
}

func (s *Session) changed(category, from, to string) string {
	return fmt.Sprintf("%s changes its %s from %q to %q", s.kind.name, category, from, to)
}

// changedSetting returns the error of a setting that the agent has changed between two turns;
// nil if it changed none. The caller holds mu.
func (s *Session) changedSetting() error {
	for _, category := range watched {
		want := s.wanted[category]
		now := s.setting(category)
		if want != "" && now != "" && now != want {
			return incompatible(s.changed(category, want, now))
		}
	}
	return nil
}
