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

// wording replaces a text of an error on servers that offer the tool.
type wording struct{ text, tool, instead string }

// wordings replace commands by tools, because a host may have no terminal, and tools of the
// group agents by those of the group lean, which send_message stands for.
var wordings = []wording{
	{"symphony ps shows the open requests", "list_requests", "list_requests shows the open requests"},
	{"symphony ps shows the open requests", "wait_agent", "wait_agent shows the open requests"},
	{"list_agents, or symphony agents, shows", "list_agents", "list_agents shows"},
	{"spawn another; its conversations can be resumed there", "send_message", "spawn_agent starts another"},
	{
		"spawn another; its conversations can be resumed there",
		"new_conversation",
		"spawn_agent starts another, where new_conversation can continue its conversations",
	},
	{
		"new_conversation with another id, or without one, tries again",
		"send_message",
		"spawn_agent tries again, also with the same id",
	},
	{"new_conversation opens one", "send_message", "spawn_agent starts an agent with a prompt"},
	{
		"use that agent or another directory, or share the directory explicitly",
		"send_message",
		"send_message gives that agent the work; or set worktree: true, or shared: true, or name another cwd",
	},
	{
		"use that agent or another directory, or share the directory explicitly",
		"spawn_agent",
		"use that agent, or set worktree: true, or shared: true, or name another cwd",
	},
	{
		"symphony status shows when it is tried again",
		"spawn_agent",
		"try again later; symphony status shows your user when it is tried again",
	},
	{
		"agent.answer_timeout_ms sets how long a request stays open",
		"send_message",
		"send_message lets it go on, and ask again",
	},
	{
		"agent.answer_timeout_ms sets how long a request stays open",
		"send_user_turn",
		"send_user_turn lets it go on, and ask again",
	},
	{
		"its agent no longer waits; the next run asks again if necessary",
		"spawn_agent",
		"spawn_agent starts another, which asks again if necessary",
	},
	{"symphony ps", "list_issues", "list_issues"},
	{"symphony show", "show_issue", "show_issue"},
	{"symphony retry", "retry_issue", "retry_issue"},
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

// reword replaces what a model can't do in a text of an error by what it can do with the tools
// of this server.
func (t *Tools) reword(s string) string {
	for _, w := range wordings {
		if t.inputs[w.tool] != nil {
			s = strings.ReplaceAll(s, w.text, w.instead)
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
