package calls

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
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
	// Params leaves out the content, which may be secret or large.
	Params map[string]string `json:"params,omitempty" jsonschema:"the size of each argument"`
}

const maxID = 64 // bytes of an agent's id

// newFailure describes the error of a call of a tool with these arguments.
func newFailure(tool string, arguments json.RawMessage, err error) Failure {
	known, ok := errors.AsType[*reconcile.Error](err)
	if !ok {
		message := "the arguments do not fit the input schema of " + tool + ": " + mismatch(err)
		known = reconcile.NewError(agents.CodeInvalid, message, "correct them, and call "+tool+" again")
	}
	hint := known.Hint
	if known.Next == reconcile.StepReadHelp { // of a command, which the model does not type
		hint = "correct the arguments, and call " + tool + " again"
	}
	f := Failure{
		Code:    known.Code,
		Message: known.Message,
		Hint:    hint,
		Method:  tool,
		Params:  map[string]string{},
	}
	members := membersOf(arguments)
	if members == nil {
		f.Params["arguments"] = summary(arguments)
		return f
	}
	f.AgentID = text.Within(agentOf(members), maxID)
	summarize(f.Params, members)
	return f
}

// line returns the failure as text: its code, its message and its hint.
func (f Failure) line() string {
	if f.Hint == "" {
		return f.Code + ": " + f.Message
	}
	return f.Code + ": " + f.Message + " (" + f.Hint + ")"
}

// mismatch returns the SDK's error about arguments that do not match the schema of a tool,
// with the name of the argument, but without its value: "params.items[].type: …".
func mismatch(err error) string {
	message := strings.TrimPrefix(fmt.Sprint(err), `validating "arguments": `)
	if strings.HasPrefix(message, "unmarshaling ") {
		return "arguments must be an object"
	}
	place := "root"
	for {
		rest, inner := strings.CutPrefix(message, "validating ")
		if !inner {
			break
		}
		place, message, _ = strings.Cut(rest, ": ")
	}
	at := strings.LastIndex(message, ` has type "`)
	if at >= 0 && strings.HasPrefix(message, "type: ") {
		message = message[at+1:]
	}
	name := strings.NewReplacer("root", "arguments", "/properties/", ".", "/items", "[]").Replace(place)
	return strings.TrimPrefix(name, ".") + ": " + message
}
