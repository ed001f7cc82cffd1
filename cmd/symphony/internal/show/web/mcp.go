package web

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// mcpPath is where hosts of MCP use agents.
const mcpPath = "/mcp"

// mcpRoutes are the methods of streamable HTTP.
func (s *Server) mcpRoutes() []route {
	if s.mcp == nil {
		return nil
	}
	var list []route
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		list = append(list, route{method, mcpPath, needActing, s.serveMCP})
	}
	return list
}

func (s *Server) serveMCP(w http.ResponseWriter, r *http.Request) error {
	out := http.NewResponseController(w)
	// calls wait for agents, and streams for requests
	_ = errors.Join(out.SetReadDeadline(time.Time{}), out.SetWriteDeadline(time.Time{}))
	answer := &mcpAnswer{ResponseWriter: w}
	answer.hasSession = r.Header.Get("Mcp-Session-Id") != ""
	s.mcp.ServeHTTP(answer, r)
	if answer.refused == 0 {
		return nil
	}
	message := strings.TrimSpace(answer.text.String())
	s.answerError(w, r, answer.refused, reconcile.NewError("usage", message, answer.hint(r)))
	return nil
}

// mcpAnswer passes on what the SDK answers, except for its refusals: they are a few words of text,
// and are answered like other errors of the server.
type mcpAnswer struct {
	http.ResponseWriter

	hasSession bool
	refused    int // the status of a refusal, else 0
	text       bytes.Buffer
}

// Unwrap lets the SDK send a stream at once.
func (a *mcpAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a *mcpAnswer) WriteHeader(status int) {
	if status >= http.StatusBadRequest && strings.HasPrefix(a.Header().Get("Content-Type"), "text/plain") {
		a.refused = status
		return
	}
	a.ResponseWriter.WriteHeader(status)
}

// Who tries tools/list by hand gets this from the SDK, and what to do from us.
const (
	notInitialized = "is invalid during session initialization"
	initializeIt   = ": send initialize first, and the header Mcp-Session-Id of its answer with each other request"
)

// Write implements http.ResponseWriter.
func (a *mcpAnswer) Write(p []byte) (int, error) {
	if a.refused > 0 {
		return a.text.Write(p)
	}
	if a.hasSession {
		return a.ResponseWriter.Write(p)
	}
	said := bytes.Replace(p, []byte(notInitialized), []byte(notInitialized+initializeIt), 1)
	_, err := a.ResponseWriter.Write(said)
	return len(p), err
}

// hint says what a person who sends requests by hand can do about a refusal.
func (a *mcpAnswer) hint(r *http.Request) string {
	switch {
	case a.refused == http.StatusUnsupportedMediaType:
		return "send the header Content-Type: application/json (with curl -H)"
	case a.refused == http.StatusNotFound:
		return "the session has ended, or the server was restarted: send initialize again"
	case a.refused == http.StatusRequestEntityTooLarge:
		return "send less"
	case r.Method != http.MethodPost && !a.hasSession:
		return "this address is for MCP hosts: claude mcp add symphony ADDRESS --transport http " +
			`--header "Authorization: Bearer TOKEN"; docs/mcp.md has other hosts`
	}
	return "docs/mcp.md shows how hosts connect; who writes requests by hand sends initialize first, as JSON-RPC 2.0"
}
