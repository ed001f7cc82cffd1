// Package calls registers the tools of a server and carries out their calls: it limits the
// time of a call, arranges its arguments, and tells host and model why a call failed.
package calls

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Options of the calls of a server.
type Options struct {
	// Timeout limits each call.
	Timeout time.Duration
	Log     *slog.Logger
	// OutputSchemas: the list of tools includes the schemas of results, for the documentation.
	// They take more room than everything else, and models do not see them.
	OutputSchemas bool
}

// Tools are the tools that a server offers.
type Tools struct {
	server  *mcp.Server
	options Options
	nested  map[string]bool // of each tool, whether its arguments are in the member params
}

// New returns the tools of a server, to which none is added yet.
func New(server *mcp.Server, o Options) *Tools {
	t := &Tools{
		server:  server,
		options: o,
		nested:  map[string]bool{},
	}
	server.AddReceivingMiddleware(t.carryOut, t.completeList)
	return t
}

// Tool describes a tool to hosts and models.
type Tool struct {
	Name        string
	Effect      Effect
	Description string
}

// Effect says how much a call of a tool may change.
type Effect struct {
	reads       bool // and changes nothing
	beyond      bool // this machine, because an agent works
	destructive bool
	idempotent  bool // a second call with the same arguments changes nothing more
}

// The effects of tools.
var (
	// Reads: it changes nothing.
	Reads = Effect{reads: true}
	// Works: an agent works, which may change anything.
	Works = Effect{destructive: true, beyond: true}
	// Adds: it changes something each time, such as a new conversation.
	Adds = Effect{}
	// Sets: a second call changes nothing more, such as a hold of an issue.
	Sets = Effect{idempotent: true}
	// Permits: it lets something happen that can't be undone, such as an approved command.
	Permits = Effect{destructive: true}
	// Ends: it ends something, such as an agent, and finds nothing to end the second time.
	Ends = Effect{destructive: true, idempotent: true}
)

func (e Effect) annotations() *mcp.ToolAnnotations {
	if e.reads {
		return &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(false)}
	}
	return &mcp.ToolAnnotations{
		DestructiveHint: &e.destructive,
		IdempotentHint:  e.idempotent,
		OpenWorldHint:   &e.beyond,
	}
}

// Nested are the arguments of a tool that takes its own arguments in params.
type Nested[P any] struct {
	AgentID string `json:"agentId"`
	Params  P      `json:"params"`
}

// NestedOptional are the arguments of a tool for which params may be left out.
type NestedOptional[P any] struct {
	AgentID string `json:"agentId"`
	Params  P      `json:"params,omitempty"`
}

// Add registers a tool that needs its arguments alone.
func Add[In, Out any](t *Tools, tool Tool, do func(context.Context, In) (Out, error)) {
	AddForHost(t, tool, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		out, err := do(ctx, in)
		return nil, out, err
	})
}

// anyJSON is the schema of JSON that others made, such as the limits of an account. Its Go type
// is a slice of bytes, but it may be an object.
var anyJSON = map[reflect.Type]*jsonschema.Schema{reflect.TypeFor[json.RawMessage](): {}}

// AddForHost registers a tool that also uses the request of the host. Its result follows the
// schema of Out; the result of a call that failed is a Failure.
func AddForHost[In, Out any](t *Tools, tool Tool, do mcp.ToolHandlerFor[In, Out]) {
	_, t.nested[tool.Name] = reflect.TypeFor[In]().FieldByName("Params")
	output, err := jsonschema.For[Out](&jsonschema.ForOptions{TypeSchemas: anyJSON})
	if err != nil {
		panic(fmt.Sprintf("the result of the tool %s has no schema: %v", tool.Name, err))
	}
	described := &mcp.Tool{
		Name:         tool.Name,
		Annotations:  tool.Effect.annotations(),
		Description:  tool.Description,
		OutputSchema: output,
	}
	handle := func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		result, out, err := do(ctx, req, in)
		return result, out, t.failure(ctx, tool.Name, err)
	}
	mcp.AddTool(t.server, described, handle)
}

// failure returns the error of a tool as hosts get it, with a code.
func (t *Tools) failure(ctx context.Context, tool string, err error) error {
	if err == nil {
		return nil
	}
	// If the call still had time, something inside it ran into a shorter deadline of its own.
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		return reconcile.NewError(
			agents.CodeTimeout,
			tool+" has not ended within "+text.Took(t.options.Timeout.Milliseconds()),
			"try again",
		)
	}
	if errors.Is(err, context.Canceled) {
		return reconcile.NewError("canceled", "the host has canceled the call", "")
	}
	return exit.From(err)
}

// sessionKey is the key of the context's value with the host's session.
type sessionKey struct{}

// WithSession returns a context of calls in a session.
func WithSession(ctx context.Context, session *mcp.ServerSession) context.Context {
	return context.WithValue(ctx, sessionKey{}, session)
}

// Session returns the session in which the host sent a call, nil outside of calls.
func Session(ctx context.Context) *mcp.ServerSession {
	session, _ := ctx.Value(sessionKey{}).(*mcp.ServerSession)
	return session
}

// carryOut is the middleware of calls. It limits their time, refuses arguments that are strings,
// and describes failures.
func (t *Tools) carryOut(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		call, ok := req.(*mcp.CallToolRequest)
		if !ok {
			return next(ctx, method, req)
		}
		ctx, cancel := context.WithTimeout(WithSession(ctx, call.Session), t.options.Timeout)
		defer cancel()
		tool := call.Params.Name
		given := call.Params.Arguments
		nested, known := t.nested[tool]
		if !known {
			return nil, t.unknown(tool)
		}
		call.Params.Arguments = arrange(given, nested)
		answer, err := next(ctx, method, req)
		if err != nil {
			return answer, err
		}
		result, ok := answer.(*mcp.CallToolResult)
		if !ok || result == nil {
			return answer, nil
		}
		writePlainly(result)
		if err := tooLarge(result); err != nil {
			return t.refused(ctx, tool, given, err), nil
		}
		if result.IsError {
			t.describe(ctx, tool, given, result)
		}
		return result, nil
	}
}

// unknown returns the error of a tool that this server does not have.
func (t *Tools) unknown(tool string) error {
	names := strings.Join(slices.Sorted(maps.Keys(t.nested)), ", ")
	return &jsonrpc.Error{
		Code:    jsonrpc.CodeInvalidParams,
		Message: fmt.Sprintf("unknown tool %q: the tools are %s", text.Within(tool, maxID), names),
	}
}

// refused returns the result of a call that failed with an error.
func (t *Tools) refused(
	ctx context.Context,
	tool string,
	arguments []byte,
	err error,
) *mcp.CallToolResult {
	result := &mcp.CallToolResult{}
	result.SetError(err)
	t.describe(ctx, tool, arguments, result)
	return result
}

// describe gives the result of a failed call its text and its structured content, and logs the
// failure.
func (t *Tools) describe(ctx context.Context, tool string, arguments []byte, result *mcp.CallToolResult) {
	f := newFailure(tool, arguments, result.GetError())
	result.Content = []mcp.Content{&mcp.TextContent{Text: f.line()}}
	result.StructuredContent = f
	t.options.Log.WarnContext(
		ctx,
		"call failed",
		slog.String("tool", f.Method),
		slog.String("code", f.Code),
		slog.String("agent", f.AgentID),
		slog.Any("arguments", f.Params),
	)
}

// tooLarge returns the error of a result that no host takes. The tools that return much cut it
// themselves.
func tooLarge(result *mcp.CallToolResult) error {
	size := 0
	for _, c := range result.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			size += len(t.Text)
		}
	}
	if size <= MaxBytes {
		return nil
	}
	return reconcile.NewError(
		"answer_too_large",
		fmt.Sprintf("the answer has %d bytes, and hosts take %d", size, MaxBytes),
		"ask for less: name fewer agents or issues, or leave out all",
	)
}

// writePlainly lets a model read the characters <, > and & in the text of a result.
func writePlainly(result *mcp.CallToolResult) {
	for _, c := range result.Content {
		t, ok := c.(*mcp.TextContent)
		if ok {
			t.Text = plainJSON.Replace(t.Text)
		}
	}
}
