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
	fault := func(hint string, next reconcile.Step) *reconcile.Error {
		return reconcile.NewError("x", "", hint).WithNext(next)
	}
	retry := reconcile.NewError("x", "", "").
		WithHint("%s ends the hold; symphony init makes one", reconcile.CommandFor("retry", "ABC-1"))
	back := reconcile.NewError("x", "", "").
		WithHint("%s lets an agent go on", reconcile.CommandLine{Verb: "send-back", Name: "ABC-1", Rest: "TEXT"})
	const byHand = "the hint for an operator"
	for _, c := range []struct {
		tools *Tools
		err   *reconcile.Error
		want  string
	}{
		{lean, fault(byHand, reconcile.StepApprove), "decide_request with the decision approve or deny"},
		{all, fault(byHand, reconcile.StepApprove), "approve or deny"},
		{byPerson, fault(byHand, reconcile.StepApprove), byHand},
		{
			lean, fault(byHand, reconcile.StepAnswer),
			"decide_request with the decision answer, and one of answers for each question",
		},
		{lean, fault(byHand, ""), byHand},
		{lean, fault(byHand, reconcile.StepReadHelp), "correct the arguments, and call some_tool again"},
		{lean, retry, "symphony retry ABC-1 ends the hold; symphony init makes one (a command is for your user)"},
		{issues, retry, "retry_issue ABC-1 ends the hold; symphony init makes one"},
		{lean, back, "symphony send-back ABC-1 TEXT lets an agent go on (a command is for your user)"},
		{with("send_back_issue"), back, "send_back_issue ABC-1 lets an agent go on"},
		{lean, fault(byHand, reconcile.StepListRequests), "wait_agent shows the open requests"},
		{all, fault(byHand, reconcile.StepListRequests), "list_requests shows the open requests"},
		{issues, fault(byHand, reconcile.StepListRequests), byHand},
	} {
		test.Equal(t, "the hint", c.tools.forModel("some_tool", c.err).Hint, c.want)
	}
}
