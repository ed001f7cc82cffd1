// Package agenttool makes the tools by which agents reach a tracker: their schemas, arguments
// and answers, and the errors for agents.
package agenttool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Marker ends the comments of agents, where a tracker does not tell them from comments of the
// key's user.
const Marker = reconcile.CommentMarker + "agent -->"

// Sign ends an agent's text with the Marker. It is empty for an empty text. A text with a marker
// of symphony's own is refused.
func Sign(written string) (string, error) {
	written = strings.TrimRight(strings.ReplaceAll(written, Marker, ""), " \r\n")
	if written == "" {
		return "", nil
	}
	if strings.Contains(written, reconcile.CommentMarker) {
		return "", Refusal(
			"mutation_refused",
			"the text contains "+reconcile.CommentMarker+", which only symphony writes: leave it out",
		)
	}
	return written + "\n\n" + Marker, nil
}

// Change is a tool that changes the issue of the run. Its only argument is a text that is not
// empty.
type Change struct {
	Name, Description string
	Argument, Meaning string // the argument's name and description
	CommentsOnly      bool   // it leaves the issue itself as it is
	ReadOnly          bool   // it refuses every call
	// Do makes the change. It returns the answer for the agent, and the object that was
	// created; nil for nothing.
	Do func(ctx context.Context, issue reconcile.Issue, value string) (answer string, made *reconcile.Created, err error)
}

// Tool returns the tool.
func (c Change) Tool() reconcile.AgentTool {
	tool := reconcile.AgentTool{
		Name:        c.Name,
		Description: c.Description,
		InputSchema: Object([]string{c.Argument}, map[string]any{
			c.Argument: map[string]string{"type": "string", "description": c.Meaning},
		}),
		Call:         c.call,
		ChangesIssue: func(json.RawMessage) bool { return !c.ReadOnly && !c.CommentsOnly },
	}
	if !c.CommentsOnly { // its argument is a state
		tool.MovesTo = func(_ context.Context, _ reconcile.Issue, args json.RawMessage) ([]string, error) {
			state, err := c.value(args)
			if err != nil {
				return nil, nil //nolint:nilerr // the call itself refuses such arguments
			}
			return []string{strings.TrimSpace(state)}, nil
		}
	}
	return tool
}

func (c Change) call(ctx context.Context, issue reconcile.Issue, args json.RawMessage) reconcile.ToolAnswer {
	value, err := c.value(args)
	switch {
	case err != nil:
		return Refused("", err)
	case c.ReadOnly:
		return Refused("", ReadOnly(c.Name))
	}
	done := &reconcile.Mutation{Fields: []string{c.Name}, Variables: args}
	text, made, err := c.Do(ctx, issue, value)
	if err != nil {
		answer := Refused("command_failed", err)
		if !errors.Is(err, errRefused) {
			answer.Mutation = done
		}
		return answer
	}
	done.Success = true
	if made != nil {
		done.Created = []reconcile.Created{*made}
	}
	return reconcile.ToolAnswer{Text: text, Success: true, Mutation: done}
}

// value reads the only argument. People read it, perhaps in a terminal: nothing in it is hidden.
func (c Change) value(args json.RawMessage) (string, error) {
	var in map[string]any
	if json.Unmarshal(args, &in) != nil {
		return "", Refusal("invalid_input", "the arguments must be an object")
	}
	value, _ := in[c.Argument].(string)
	if strings.TrimSpace(value) == "" {
		return "", Refusal("invalid_input", c.Argument+" must be a string that is not empty")
	}
	for _, other := range slices.Sorted(maps.Keys(in)) {
		if other != c.Argument {
			return "", Refusal(
				"invalid_input",
				fmt.Sprintf("unknown argument %q: the only one is %s", other, c.Argument),
			)
		}
	}
	return text.VisibleLines(value), nil
}

// Object is the schema of arguments that are an object with these properties and no others.
// Its required is a list even if it is empty: Gemini CLI loads no tool of a server with a null
// in a schema, and says nothing.
func Object(required []string, properties map[string]any) json.RawMessage {
	return text.JSON(map[string]any{
		"type":                 "object",
		"additionalProperties": false,
		"required":             append([]string{}, required...),
		"properties":           properties,
	})
}

var errRefused = errors.New("nothing was changed")

// Refusal is the error of a call that changed nothing. It is for the agent.
func Refusal(code, message string) error {
	return &reconcile.Error{Code: code, Message: message, Err: errRefused}
}

// IsRefusal reports whether an error is for the agent, which can do something about it.
func IsRefusal(err error) bool { return errors.Is(err, errRefused) }

// ReadOnly is the error of a change that an agent may not make in a project with
// tracker.tool_scope: read.
func ReadOnly(change string) error {
	return Refusal("mutation_refused", "this project's WORKFLOW.md has tracker.tool_scope: read, so "+change+
		" was not carried out; say in your last message what should be changed")
}

// Refused is the answer to a call that failed: {"error": {"code", "message"}}. Code is used
// for an error without a code of its own.
func Refused(code string, err error) reconcile.ToolAnswer {
	e := &reconcile.Error{Code: code, Message: err.Error()}
	errors.As(err, &e)
	return reconcile.ToolAnswer{Text: string(text.JSON(map[string]any{"error": map[string]string{
		"code":    e.Code,
		"message": e.Message,
	}}))}
}
