package calls

import (
	"regexp"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
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
}

// issueTools are the tools that do what commands do, by the commands.
var issueTools = []struct{ command, tool string }{
	{"symphony ps", "list_issues"},
	{"symphony show", "show_issue"},
	{"symphony retry", "retry_issue"},
}

// decidesBy are the commands by which a person decides a request, as view.HowToAnswer writes
// them.
var decidesBy = sync.OnceValue(func() [3]*regexp.Regexp {
	return [3]*regexp.Regexp{
		regexp.MustCompile(`symphony approve \S+ \| symphony deny \S+`),
		regexp.MustCompile(`symphony answer \S+?(?: --choice N| "TEXT")+`),
		regexp.MustCompile(`use symphony deny \S+`),
	}
})

// hintFor returns the hint of an error for a model with the tools of this server.
func (t *Tools) hintFor(err *reconcile.Error) string {
	for _, one := range toolHints[err.Next] {
		if t.inputs[one.tool] != nil {
			return one.hint
		}
	}
	return err.Hint
}

// reword replaces commands in a text of an error by the tools of this server: a host may have
// no terminal.
func (t *Tools) reword(s string) string {
	for _, known := range issueTools {
		if t.inputs[known.tool] != nil {
			s = strings.ReplaceAll(s, known.command, known.tool)
		}
	}
	return s
}

// rewordDecision replaces the commands that decide a request by the tools that do.
func (t *Tools) rewordDecision(s string) string {
	var by [3]string
	switch {
	case t.inputs["decide_request"] != nil:
		by = [3]string{
			"decide_request with the decision approve or deny",
			"decide_request with the decision answer, and one of answers for each question",
			"use the decision deny",
		}
	case t.inputs["approve"] != nil:
		by = [3]string{"approve or deny", "answer, with one of answers for each question", "use deny"}
	default: // a person decides
		return s
	}
	for i, commands := range decidesBy() {
		s = commands.ReplaceAllString(s, by[i])
	}
	return s
}

// forModel returns an error of a tool in the words of a model's tools.
func (t *Tools) forModel(tool string, err *reconcile.Error) *reconcile.Error {
	known := *err
	known.Hint = t.hintFor(err)
	if strings.HasPrefix(known.Hint, exit.SeeHelp) {
		known.Hint = "correct the arguments, and call " + tool + " again"
	}
	known.Message = t.reword(known.Message)
	known.Hint = t.reword(known.Hint)
	if known.Code != agents.CodeNeedsPerson && known.Code != CodeNotDecided {
		known.Message = t.rewordDecision(known.Message)
		known.Hint = t.rewordDecision(known.Hint)
	}
	return &known
}
