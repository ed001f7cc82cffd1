package mcpserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/internal/test"
)

// closedHost sends some messages, and then closes stdin.
type closedHost struct {
	mcp.Connection
	messages []jsonrpc.Message
}

func (h *closedHost) Read(context.Context) (jsonrpc.Message, error) {
	if len(h.messages) == 0 {
		return nil, io.EOF
	}
	next := h.messages[0]
	h.messages = h.messages[1:]
	return next, nil
}

func (h *closedHost) Write(context.Context, jsonrpc.Message) error { return nil }

// The end of stdin waits for the answers to calls, but not for ever.
func TestAnswersBeforeEnd(t *testing.T) {
	id := test.Must(jsonrpc.MakeID("one"))
	call := &jsonrpc.Request{ID: id, Method: "tools/call"}
	note := &jsonrpc.Request{Method: "notifications/initialized"}
	var said bytes.Buffer
	host := &closedHost{messages: []jsonrpc.Message{call, note}}
	a := newAnswering(host, slog.New(slog.NewTextHandler(&said, nil)))
	for range 2 {
		test.Must(a.Read(t.Context()))
	}
	ended := make(chan error, 1)
	go func() {
		_, err := a.Read(t.Context())
		ended <- err
	}()
	test.OK(t, a.Write(t.Context(), &jsonrpc.Response{ID: id}))
	test.Equal(t, "it ended", errors.Is(<-ended, io.EOF), true)
	test.Equal(t, "what is said", said.String(), "")

	host.messages = []jsonrpc.Message{call}
	a.patience = time.Millisecond
	test.Must(a.Read(t.Context()))
	_, err := a.Read(t.Context())
	test.Equal(t, "it ended without an answer", errors.Is(err, io.EOF), true)
	test.Contains(t, "what is said of it", said.String(), "stdin ended before", "calls=1")
}
