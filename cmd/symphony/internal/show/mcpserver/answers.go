package mcpserver

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// answerPatience is how long the server still answers after the end of stdin. Hosts that close
// stdin to end a server wait about 5 s, and then send it a signal.
const answerPatience = 3 * time.Second

// answering is the connection to a host. At the end of stdin it first waits for the answers to
// the calls that came before, which the SDK would cancel: a shell sends all its calls at once,
// as in printf '%s\n' "$INITIALIZE" "$LIST" | symphony mcp.
type answering struct {
	mcp.Connection
	log      *slog.Logger
	patience time.Duration

	mu   sync.Mutex
	open map[jsonrpc.ID]struct{} // the calls without an answer
	// answered gets a value after an answer, unless it has one.
	answered chan struct{}
}

func newAnswering(conn mcp.Connection, log *slog.Logger) *answering {
	return &answering{
		Connection: conn,
		log:        log,
		patience:   answerPatience,
		open:       map[jsonrpc.ID]struct{}{},
		answered:   make(chan struct{}, 1),
	}
}

// Read implements mcp.Connection.
func (a *answering) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := a.Connection.Read(ctx)
	if err != nil {
		a.awaitAnswers()
		return nil, err
	}
	call, isRequest := msg.(*jsonrpc.Request)
	// a subscription has no answer until the host cancels it
	if isRequest && call.IsCall() && call.Method != "subscriptions/listen" {
		a.mu.Lock()
		a.open[call.ID] = struct{}{}
		a.mu.Unlock()
	}
	return msg, nil
}

// Write implements mcp.Connection.
func (a *answering) Write(ctx context.Context, msg jsonrpc.Message) error {
	response, isResponse := msg.(*jsonrpc.Response)
	if !isResponse {
		return a.Connection.Write(ctx, msg)
	}
	err := a.Connection.Write(ctx, withStep(response))
	a.mu.Lock()
	delete(a.open, response.ID)
	a.mu.Unlock()
	select {
	case a.answered <- struct{}{}:
	default:
	}
	return err
}

// awaitAnswers waits until no call is open. It says how many it has given up.
func (a *answering) awaitAnswers() {
	end := time.After(a.patience)
	for a.openCalls() > 0 {
		select {
		case <-a.answered:
		case <-end:
			a.log.Warn("stdin ended before calls of the host were answered; keep it open until then",
				slog.Int("calls", a.openCalls()))
			return
		}
	}
}

func (a *answering) openCalls() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.open)
}

// withStep adds to the SDK's error for a call before initialize what to send first.
func withStep(r *jsonrpc.Response) *jsonrpc.Response {
	if r.Error == nil || !strings.HasSuffix(r.Error.Error(), "is invalid during session initialization") {
		return r
	}
	return &jsonrpc.Response{ID: r.ID, Error: &jsonrpc.Error{
		Code:    jsonrpc.CodeInvalidRequest,
		Message: r.Error.Error() + ": send initialize first",
	}}
}
