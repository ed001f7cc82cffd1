package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Failure is the structured content of a call that failed.
type Failure struct {
	Code    string `json:"code" jsonschema:"a stable code for programs"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty" jsonschema:"what to do next"`
	AgentID string `json:"agentId,omitempty"`
	Method  string `json:"method" jsonschema:"the tool"`
	// Params has no content, which may be secret or large.
	Params map[string]string `json:"params,omitempty" jsonschema:"the type and size of each argument"`
}

// addTool registers a tool. Its result has the schema of Out, or of a Failure. Hosts validate both.
func addTool[In, Out any](s *Server, t *mcp.Tool, do mcp.ToolHandlerFor[In, Out]) {
	t.OutputSchema = &jsonschema.Schema{Type: "object", AnyOf: []*jsonschema.Schema{schemaOf[Out](), schemaOf[Failure]()}}
	mcp.AddTool(s.mcp, t, func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		result, out, err := do(ctx, req, in)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			err = exit.Fault(agents.CodeTimeout, t.Name+" has not ended within "+text.Took(s.CallTimeout.Milliseconds()), "try again")
		case errors.Is(err, context.Canceled):
			err = exit.Fault("canceled", "the host has canceled the call", "")
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
func reads() *mcp.ToolAnnotations { return hints(true, false, true) }

// works are the annotations of a tool that lets an agent work.
func works() *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{DestructiveHint: new(true), OpenWorldHint: new(true)}
}

// hints are the annotations of other tools, which change nothing beyond this machine.
func hints(readOnly, destructive, idempotent bool) *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{ReadOnlyHint: readOnly, DestructiveHint: &destructive, IdempotentHint: idempotent, OpenWorldHint: new(false)}
}

// checkCalls limits the time of each call of a tool, refuses arguments that are strings, and describes errors.
func (s *Server) checkCalls(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		call, ok := req.(*mcp.CallToolRequest)
		if !ok {
			return next(ctx, method, req)
		}
		ctx, cancel := context.WithTimeout(ctx, s.CallTimeout)
		defer cancel()
		given := call.Params.Arguments
		result := &mcp.CallToolResult{}
		var err error
		if call.Params.Arguments, err = arranged(call.Params.Name, given); err != nil {
			result.SetError(err)
		} else {
			var answer mcp.Result
			if answer, err = next(ctx, method, req); err != nil {
				return answer, err
			}
			result, _ = answer.(*mcp.CallToolResult)
		}
		if result != nil && result.IsError {
			s.describe(ctx, call.Params.Name, given, result)
		}
		return result, nil
	}
}

// arranged returns the arguments of a call as the tools expect them. A string that holds JSON is refused; members of params beside
// agentId are accepted.
func arranged(tool string, arguments json.RawMessage) (json.RawMessage, error) {
	if isString(arguments) {
		return nil, exit.Fault(agents.CodeInvalid, "arguments is a string that holds JSON", "send the object itself, without quotes around it")
	}
	members := membersOf(arguments)
	if isString(members["params"]) {
		return nil, exit.Fault(agents.CodeInvalid, "params is a string that holds JSON",
			`send the object itself, without quotes around it: "params": {…}`)
	}
	if _, ok := members["params"]; ok || members == nil || !slices.Contains(paramsTools, tool) {
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

const maxID = 64 // bytes of an agent's id

// describe gives the result of a failed call its structured content, and logs it.
func (s *Server) describe(ctx context.Context, tool string, arguments json.RawMessage, result *mcp.CallToolResult) {
	var known *reconcile.Error
	if err := result.GetError(); !errors.As(err, &known) {
		known = exit.Fault(agents.CodeInvalid, mismatch(err), "see the input schema of "+tool)
	}
	f := Failure{Code: known.Code, Message: known.Message, Hint: known.Hint, Method: tool, Params: map[string]string{}}
	if members := membersOf(arguments); members != nil {
		f.AgentID = agentOf(members)
		f.AgentID = text.Within(f.AgentID, maxID)
		summarize(f.Params, "", members)
	} else {
		f.Params["arguments"] = summary(arguments)
	}
	line := f.Code + ": " + f.Message
	if f.Hint != "" {
		line += " (" + f.Hint + ")"
	}
	result.Content, result.StructuredContent = []mcp.Content{&mcp.TextContent{Text: line}}, f
	s.log.WarnContext(ctx, "call failed", slog.String("tool", tool), slog.String("code", f.Code), slog.String("agent", f.AgentID),
		slog.Any("arguments", f.Params))
}

// agentOf returns the id of the agent that the arguments of a call are about, "" if they name none.
func agentOf(members map[string]json.RawMessage) (id string) {
	_ = json.Unmarshal(members["agentId"], &id)
	if id == "" && json.Unmarshal(members["requestId"], &id) == nil {
		id, _ = reconcile.RequestRef(id)
	}
	return id
}

// mismatch returns the SDK's error about arguments that do not match the schema of a tool, with the name of the argument, but without its
// value.
func mismatch(err error) string {
	place, message := "root", strings.TrimPrefix(fmt.Sprint(err), `validating "arguments": `)
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
	if value = bytes.TrimSpace(value); len(value) > 0 {
		switch value[0] {
		case '"':
			kind = "string"
		case '{':
			kind = "object"
		case '[':
			kind = "array"
		case 't', 'f':
			kind = "boolean"
		case 'n':
			kind = "null"
		default:
			kind = "number"
		}
	}
	return fmt.Sprintf("%s, %d bytes", kind, len(value))
}
