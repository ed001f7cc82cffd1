package mcpserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
)

const (
	maxHTTPBody    = 16 << 20 // bytes of a message; images are part of messages
	sessionTimeout = 24 * time.Hour
)

// HTTP answers hosts by streamable HTTP. All of them share a server. The caller checks who may
// ask.
type HTTP struct {
	env     *environ.Env
	log     io.Writer
	options Options

	mu      sync.Mutex
	server  *Server // nil before the first request
	handler http.Handler
	end     context.CancelFunc
	closed  bool
}

// NewHTTP returns a handler with the tools of a server. It opens the state of the agents with
// the first request.
func NewHTTP(env *environ.Env, log io.Writer, o Options) *HTTP {
	o.overHTTP = true
	return &HTTP{env: env, log: log, options: o}
}

// ServeHTTP implements http.Handler.
func (h *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	handler, err := h.open(context.WithoutCancel(r.Context()))
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	handler.ServeHTTP(w, r)
}

func (h *HTTP) open(ctx context.Context) (http.Handler, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errors.New("the server is ending")
	}
	if h.handler != nil {
		return h.handler, nil
	}
	s, err := New(ctx, h.env, h.log, h.options)
	if err != nil {
		return nil, err
	}
	ctx, h.end = context.WithCancel(ctx)
	s.mcp.AddReceivingMiddleware(s.elicitor.middleware(ctx), endWith(ctx))
	h.server = s
	h.handler = mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return s.mcp },
		&mcp.StreamableHTTPOptions{
			SessionTimeout:      sessionTimeout,
			MaxRequestBodyBytes: maxHTTPBody,

			DisableLocalhostProtection: true, // the caller knows all names of its server
		},
	)
	return h.handler, nil
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
	if h.server == nil {
		return nil
	}
	h.end()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for session := range h.server.mcp.Sessions() {
			_ = session.Close()
		}
	}()
	select {
	case <-ended:
	case <-time.After(closePatience):
	}
	return h.server.starter.agents.Close()
}
