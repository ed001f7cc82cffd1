package mcpserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// callFailure is the structured content of a call that failed.
type callFailure struct {
	Code    string `json:"code" jsonschema:"a stable code for programs"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty" jsonschema:"what to do next"`
	AgentID string `json:"agentId,omitempty"`
	Method  string `json:"method" jsonschema:"the tool"`
	// Params has no content, which may be secret or large.
	Params map[string]string `json:"params,omitempty" jsonschema:"the type and size of each argument"`
}

// tools are the tools that a server offers.
type tools struct {
	server   *mcp.Server
	timeout  time.Duration // of a call
	log      *slog.Logger
	inParams map[string]bool // the tools whose arguments are in the member params
	// byPerson: tools that decide requests are left out.
	byPerson bool
}

// addTool registers a tool that needs its arguments alone.
func addTool[In, Out any](
	t *tools,
	name string,
	effect *mcp.ToolAnnotations,
	do func(context.Context, In) (Out, error),
	description string,
) {
	addCallTool(
		t,
		name,
		effect,
		func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
			out, err := do(ctx, in)
			return nil, out, err
		},
		description,
	)
}

// addCallTool registers a tool. Its result has the schema of Out; that of a call that failed
// is a callFailure.
func addCallTool[In, Out any](
	t *tools,
	name string,
	effect *mcp.ToolAnnotations,
	do mcp.ToolHandlerFor[In, Out],
	description string,
) {
	_, t.inParams[name] = reflect.TypeFor[In]().FieldByName("Params")
	mcp.AddTool(t.server, &mcp.Tool{
		Name: name, Annotations: effect, Description: description,
		OutputSchema: schemaOf[Out](),
	}, func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		result, out, err := do(ctx, req, in)
		switch {
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
			// otherwise it is a bound of something in the call
			err = reconcile.NewError(
				agents.CodeTimeout,
				name+" has not ended within "+text.Took(t.timeout.Milliseconds()),
				"try again",
			)
		case errors.Is(err, context.Canceled):
			err = reconcile.NewError("canceled", "the host has canceled the call", "")
		case err != nil:
			err = exit.From(err)
		}
		return result, out, err
	})
}

func schemaOf[T any]() *jsonschema.Schema {
	schema, err := jsonschema.For[T](nil)
	if err != nil {
		panic(err) // the types are those of this package
	}
	return schema
}

// reads are the annotations of a tool that changes nothing.
func reads() *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(false)}
}

// works are the annotations of a tool that lets an agent work.
func works() *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{DestructiveHint: new(true), OpenWorldHint: new(true)}
}

// hints are the annotations of other tools, which change nothing beyond this machine.
func hints(destructive, idempotent bool) *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{
		DestructiveHint: &destructive,
		IdempotentHint:  idempotent,
		OpenWorldHint:   new(false),
	}
}

// call is the middleware of calls. It limits their time, refuses arguments that are strings,
// and describes errors.
func (t *tools) call(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		call, ok := req.(*mcp.CallToolRequest)
		if !ok {
			return next(ctx, method, req)
		}
		ctx = context.WithValue(ctx, sessionKey{}, call.Session)
		ctx, cancel := context.WithTimeout(ctx, t.timeout)
		defer cancel()
		given := call.Params.Arguments
		result := &mcp.CallToolResult{}
		var err error
		if call.Params.Arguments, err = arrange(given, t.inParams[call.Params.Name]); err != nil {
			result.SetError(err)
		} else {
			answer, err := next(ctx, method, req)
			if err != nil {
				return answer, err
			}
			result, _ = answer.(*mcp.CallToolResult)
			if err := tooLarge(result); err != nil {
				result = &mcp.CallToolResult{}
				result.SetError(err)
			}
		}
		if result != nil && result.IsError {
			f := describe(call.Params.Name, given, result)
			t.log.WarnContext(
				ctx,
				"call failed",
				slog.String("tool", f.Method),
				slog.String("code", f.Code),
				slog.String("agent", f.AgentID),
				slog.Any("arguments", f.Params),
			)
		}
		return result, nil
	}
}

// maxAnswer is how many bytes a result may have. Hosts cut or refuse one of more than 25,000
// tokens.
const maxAnswer = 100_000

// tooLarge returns the error of a result that no host takes. The tools that return much cut it
// themselves.
func tooLarge(result *mcp.CallToolResult) error {
	size := 0
	if result != nil {
		for _, c := range result.Content {
			if t, ok := c.(*mcp.TextContent); ok {
				size += len(t.Text)
			}
		}
	}
	if size <= maxAnswer {
		return nil
	}
	return reconcile.NewError(
		"answer_too_large",
		fmt.Sprintf("the answer has %d bytes, and hosts take %d", size, maxAnswer),
		"ask for less: name the issues or the agent, or leave out all",
	)
}

// geminiOrder is an argument for Gemini CLI itself, which adds it to every tool and sends it,
// too.
const geminiOrder = "wait_for_previous"

// arrange returns the arguments of a call as its tool expects them. A string that holds JSON
// is refused. If the tool has nested arguments, params may be left out around them.
func arrange(arguments json.RawMessage, nested bool) (json.RawMessage, error) {
	const hint = "send the object itself, without quotes around it"
	members := membersOf(arguments)
	if _, ok := members[geminiOrder]; ok {
		delete(members, geminiOrder)
		arguments = text.JSON(members)
	}
	switch params, ok := members["params"]; {
	case isString(arguments):
		return nil, reconcile.NewError(agents.CodeInvalid, "arguments is a string that holds JSON", hint)
	case isString(params):
		return nil, reconcile.NewError(
			agents.CodeInvalid,
			"params is a string that holds JSON",
			hint+`: "params": {…}`,
		)
	case ok || members == nil || !nested:
		return arguments, nil
	}
	outer := map[string]any{"params": members}
	if id, ok := members["agentId"]; ok {
		outer["agentId"] = id
		delete(members, "agentId")
	}
	return json.Marshal(outer)
}

// membersOf returns the members of an object, nil for other values.
func membersOf(value json.RawMessage) (members map[string]json.RawMessage) {
	if json.Unmarshal(value, &members) != nil {
		return nil
	}
	return members
}

func isString(value json.RawMessage) bool {
	return bytes.HasPrefix(bytes.TrimSpace(value), []byte(`"`))
}

// asTools replaces commands in hints by the tools that do the same, because a host may have no
// terminal.
var asTools = strings.NewReplacer(
	"symphony ps shows the open requests",
	"list_requests shows the open requests",
	"list_agents, or symphony agents, shows",
	"list_agents shows",
	"symphony ps",
	"list_issues",
	"symphony show",
	"show_issue",
	"symphony retry",
	"retry_issue",
	"symphony hold",
	"hold_issue",
)

const maxID = 64 // bytes of an agent's id

// describe gives the result of a failed call its structured content.
func describe(tool string, arguments json.RawMessage, result *mcp.CallToolResult) callFailure {
	err := result.GetError()
	known, ok := errors.AsType[*reconcile.Error](err)
	if !ok {
		known = reconcile.NewError(agents.CodeInvalid, mismatch(err), "see the input schema of "+tool)
	}
	f := callFailure{
		Code:    known.Code,
		Message: known.Message,
		Hint:    asTools.Replace(known.Hint),
		Method:  tool,
		Params:  map[string]string{},
	}
	if members := membersOf(arguments); members != nil {
		f.AgentID = text.Within(agentOf(members), maxID)
		summarize(f.Params, "", members)
	} else {
		f.Params["arguments"] = summary(arguments)
	}
	line := f.Code + ": " + f.Message
	if f.Hint != "" {
		line += " (" + f.Hint + ")"
	}
	result.Content = []mcp.Content{&mcp.TextContent{Text: line}}
	result.StructuredContent = f
	return f
}

// agentOf returns the id of the agent that the arguments of a call are about, "" if they name
// none.
func agentOf(members map[string]json.RawMessage) (id string) {
	_ = json.Unmarshal(members["agentId"], &id)
	if id == "" && json.Unmarshal(members["requestId"], &id) == nil {
		id, _ = reconcile.RequestRef(id)
	}
	return id
}

// mismatch returns the SDK's error about arguments that do not match the schema of a tool,
// with the name of the argument, but without its value.
func mismatch(err error) string {
	place := "root"
	message := strings.TrimPrefix(fmt.Sprint(err), `validating "arguments": `)
	if strings.HasPrefix(message, "unmarshaling ") {
		return "arguments must be an object"
	}
	for {
		rest, inner := strings.CutPrefix(message, "validating ")
		if !inner {
			break
		}
		place, message, _ = strings.Cut(rest, ": ")
	}
	if at := strings.LastIndex(message, ` has type "`); at >= 0 && strings.HasPrefix(message, "type: ") {
		message = message[at+1:]
	}
	name := strings.NewReplacer("root", "arguments", "/properties/", ".", "/items", "[]").Replace(place)
	return strings.TrimPrefix(name, ".") + ": " + message
}

// summarize adds the type and size of each member, and of the members of params.
func summarize(sizes map[string]string, prefix string, members map[string]json.RawMessage) {
	for name, value := range members {
		if inner := membersOf(value); name == "params" && prefix == "" && inner != nil {
			summarize(sizes, "params.", inner)
			continue
		}
		sizes[prefix+name] = summary(value)
	}
}

// summary is the type and size of a value.
func summary(value json.RawMessage) string {
	kind := "nothing"
	kinds := map[byte]string{
		'"': "string",
		'{': "object",
		'[': "array",
		't': "boolean",
		'f': "boolean",
		'n': "null",
	}
	if value = bytes.TrimSpace(value); len(value) > 0 {
		kind = cmp.Or(kinds[value[0]], "number")
	}
	return fmt.Sprintf("%s, %d bytes", kind, len(value))
}
