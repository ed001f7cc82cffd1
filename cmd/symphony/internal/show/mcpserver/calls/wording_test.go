package calls

import (
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// A hint names the tools of the server, and what a person decides stays a command.
func TestForModel(t *testing.T) {
	with := func(names ...string) *Tools {
		tools := &Tools{inputs: map[string]*jsonschema.Schema{}}
		for _, name := range names {
			tools.inputs[name] = &jsonschema.Schema{}
		}
		return tools
	}
	lean := with("send_message", "wait_agent", "decide_request")
	all := with("new_conversation", "list_requests", "approve")
	byPerson := with("send_message", "wait_agent")
	issues := with("retry_issue")
	const decide = "one.1 asks for approval: symphony approve one.1 | symphony deny one.1"
	for _, c := range []struct {
		tools            *Tools
		code, hint, want string
	}{
		{lean, "x", decide, "one.1 asks for approval: decide_request with the decision approve or deny"},
		{all, "x", decide, "one.1 asks for approval: approve or deny"},
		{byPerson, "x", decide, decide},
		{lean, CodeNotDecided, decide, decide},
		{lean, "usage", "see symphony help answer", "correct the arguments, and call some_tool again"},
		{
			lean, "usage", `symphony answer one.2 --choice N "TEXT"`,
			"decide_request with the decision answer, and one of answers for each question",
		},
		{lean, "x", "symphony retry ABC-1 ends the hold", "symphony retry ABC-1 ends the hold"},
		{issues, "x", "symphony retry ABC-1 ends the hold", "retry_issue ABC-1 ends the hold"},
	} {
		got := c.tools.forModel("some_tool", reconcile.NewError(c.code, "", c.hint))
		test.Equal(t, c.hint, got.Hint, c.want)
	}
	for _, c := range []struct {
		tools *Tools
		want  string
	}{
		{lean, "wait_agent shows the open requests"},
		{all, "list_requests shows the open requests"},
		{issues, "the hint for an operator"},
	} {
		err := reconcile.NewError("x", "", "the hint for an operator").WithNext(reconcile.StepListRequests)
		test.Equal(t, "the hint for a step", c.tools.forModel("some_tool", err).Hint, c.want)
	}
}
