package mcpserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
)

const (
	maxHTTPBody    = 16 << 20 // bytes of a message; images are part of messages
	sessionTimeout = 24 * time.Hour
)

// HTTP answers hosts by streamable HTTP. All hosts with the same tools share a server. The
// caller checks who may ask.
type HTTP struct {
	env     *environ.Env
	log     io.Writer
	options Options

	mu      sync.Mutex
	servers map[string]*httpServer // by their groups of tools, such as issues,lean
	closed  bool
}

// httpServer is a server for all hosts with the same tools.
type httpServer struct {
	server  *Server
	handler http.Handler
	end     context.CancelFunc
}

// NewHTTP returns a handler with the tools of a server, or with those that the address names:
// ?tools=lean. It opens the state of the agents with the first request.
func NewHTTP(env *environ.Env, log io.Writer, o Options) *HTTP {
	o.overHTTP = true
	return &HTTP{env: env, log: log, options: o, servers: map[string]*httpServer{}}
}

// ServeHTTP implements http.Handler.
func (h *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o, err := h.optionsFor(r)
	if err != nil {
		http.Error(w, exit.From(err).Message, http.StatusBadRequest)
		return
	}
	s, err := h.open(context.WithoutCancel(r.Context()), o)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	if r.Method == http.MethodDelete {
		s.server.elicitor.leave(r.Header.Get("Mcp-Session-Id"))
	}
	s.handler.ServeHTTP(w, r)
}

// optionsFor returns the options of the server for a request, whose address may choose groups
// of tools.
func (h *HTTP) optionsFor(r *http.Request) (Options, error) {
	o := h.options
	for name := range r.URL.Query() {
		if name != "tools" {
			return o, exit.Usage("mcp: unknown parameter %q: the address chooses only the tools, with ?tools=lean", name)
		}
	}
	chosen := strings.Join(r.URL.Query()["tools"], ",")
	if chosen != "" {
		groups, err := ParseGroups(strings.Split(chosen, ","))
		if err != nil {
			return o, err
		}
		o.Groups = slices.Compact(slices.Sorted(slices.Values(groups)))
	}
	_, err := o.groups()
	return o, err
}

func (h *HTTP) open(ctx context.Context, o Options) (*httpServer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errors.New("the server is ending")
	}
	groups := strings.Join(o.Groups, ",")
	known := h.servers[groups]
	if known != nil {
		return known, nil
	}
	s, err := New(ctx, h.env, h.log, o)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(ctx)
	s.mcp.AddReceivingMiddleware(s.elicitor.middleware(ctx), endWith(ctx))
	handler := mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return s.mcp },
		&mcp.StreamableHTTPOptions{
			SessionTimeout:      sessionTimeout,
			MaxRequestBodyBytes: maxHTTPBody,

			DisableLocalhostProtection: true, // the caller knows all names of its server
		},
	)
	opened := &httpServer{server: s, handler: handler, end: end}
	h.servers[groups] = opened
	return opened, nil
}

// endWith ends the calls of tools with ctx.
func endWith(ctx context.Context) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(call context.Context, method string, req mcp.Request) (mcp.Result, error) {
			call, cancel := context.WithCancel(call)
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			return next(call, method, req)
		}
	}
}

// Close ends the sessions of all hosts. Their agents continue.
func (h *HTTP) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	var errs []error
	for _, s := range h.servers {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

func (s *httpServer) close() error {
	s.end()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for session := range s.server.mcp.Sessions() {
			_ = session.Close()
		}
	}()
	select {
	case <-ended:
	case <-time.After(closePatience):
	}
	return s.server.starter.agents.Close()
}
