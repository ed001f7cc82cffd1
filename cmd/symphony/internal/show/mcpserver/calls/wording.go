package calls

import (
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
)

// CodeNotDecided is the code of a call that starts an agent in a directory about which no
// person decided yet.
const CodeNotDecided = "directory_not_decided"

// toolHint is a hint for models that have a tool.
type toolHint struct{ tool, hint string }

// toolHints are the hints for the next steps after an error. The first whose tool the server
// offers counts. The group lean is known by send_message, which the group agents lacks.
var toolHints = map[reconcile.Step][]toolHint{
	reconcile.StepListRequests: {
		{"list_requests", "list_requests shows the open requests"},
		{"wait_agent", "wait_agent shows the open requests"},
	},
	reconcile.StepListAgents: {
		{"list_agents", "list_agents shows the agents"},
	},
	reconcile.StepSpawnAgain: {
		{"send_message", "spawn_agent starts another"},
		{
			"new_conversation",
			"spawn_agent starts another, where new_conversation can continue its conversations",
		},
	},
	reconcile.StepOpenConversation: {
		{"send_message", "spawn_agent starts an agent with a prompt"},
	},
	reconcile.StepTryConversation: {
		{"send_message", "spawn_agent tries again, also with the same id"},
	},
	reconcile.StepShareDirectory: {
		{
			"send_message",
			"send_message gives that agent the work; or set worktree: true, or shared: true, or name another cwd",
		},
		{"spawn_agent", "use that agent, or set worktree: true, or shared: true, or name another cwd"},
	},
	reconcile.StepWaitForAccount: {
		{"spawn_agent", "try again later; symphony status shows your user when it is tried again"},
	},
	reconcile.StepLetGoOn: {
		{"send_message", "the agent was refused; send_message lets it go on, and ask again"},
		{"send_user_turn", "the agent was refused; send_user_turn lets it go on, and ask again"},
	},
	reconcile.StepAskAgain: {
		{"spawn_agent", "spawn_agent starts another, which asks again if necessary"},
	},
	reconcile.StepApprove: {
		{"decide_request", "decide_request with the decision approve or deny"},
		{"approve", "approve or deny"},
	},
	reconcile.StepAnswer: {
		{"decide_request", "decide_request with the decision answer, and one of answers for each question"},
		{"approve", "answer, with one of answers for each question"},
	},
	reconcile.StepDeny: {
		{"decide_request", "the decision deny refuses to answer"},
		{"approve", "deny refuses to answer"},
	},
}

// toolOf are the tools that do what commands about issues do.
var toolOf = map[string]string{
	"stop --after-run": "hold_issue",
	"ps":               "list_issues",
	"retry":            "retry_issue",
	"run":              "run_issue",
	"send-back":        "send_back_issue",
	"show":             "show_issue",
}

// hintFor returns the hint of an error for a model with the tools of this server. Commands for
// which the server has no tool stay, and the hint says that a person types them.
func (t *Tools) hintFor(tool string, err *reconcile.Error) string {
	if err.Next == reconcile.StepReadHelp {
		return "correct the arguments, and call " + tool + " again"
	}
	for _, one := range toolHints[err.Next] {
		if t.inputs[one.tool] != nil {
			return one.hint
		}
	}
	isForUser := false
	hint := err.HintWith(func(c reconcile.CommandLine) string {
		tool := toolOf[c.Verb]
		if t.inputs[tool] == nil {
			isForUser = true
			return c.String()
		}
		return strings.TrimSpace(tool + " " + c.Name)
	})
	if isForUser {
		hint += " (a command is for your user)"
	}
	return hint
}

// forModel returns an error of a tool with a hint for a model.
func (t *Tools) forModel(tool string, err *reconcile.Error) *reconcile.Error {
	known := *err
	known.Hint = t.hintFor(tool, err)
	return &known
}
