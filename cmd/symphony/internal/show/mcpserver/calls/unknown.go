package calls

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/symphony-cron/symphony/internal/text"
)

// otherTools are the tools of the group lean for those of the group agents, and back.
var otherTools = map[string]string{
	"new_conversation":  "spawn_agent",
	"send_user_turn":    "send_message",
	"send_user_message": "send_message",
	"list_requests":     "wait_agent",
	"approve":           "decide_request",
	"deny":              "decide_request",
	"answer":            "decide_request",
	"send_message":      "send_user_message",
	"decide_request":    "approve",
}

// A task is what a tool does, in the words that models make up for it. The first of its tools
// that the server has does it.
type task struct {
	words []string
	tools []string
}

// agentTasks are the tasks of tools for agents. A word of an earlier task counts first: in
// stop_agent, stop and not agent says what is meant.
var agentTasks = []task{
	{[]string{"interrupt", "stop", "cancel", "pause", "abort"}, []string{"interrupt", "kill_agent"}},
	{
		[]string{"kill", "close", "end", "terminate", "delete", "remove", "shutdown", "finish", "archive", "destroy"},
		[]string{"kill_agent"},
	},
	{[]string{"approve", "accept", "allow", "confirm", "grant"}, []string{"approve", "decide_request"}},
	{[]string{"deny", "reject", "refuse", "decline"}, []string{"deny", "decide_request"}},
	{[]string{"answer", "respond", "decide", "resolve"}, []string{"answer", "decide_request"}},
	{[]string{"log", "logs", "events", "history", "transcript", "tail"}, []string{"read_events", "wait_agent"}},
	{[]string{"diff", "changes", "patch", "files"}, []string{"read_changes", "wait_agent"}},
	{[]string{"deliver", "push", "commit", "publish", "merge", "pr", "pull"}, []string{"deliver_changes"}},
	{[]string{"exec", "shell", "bash", "command", "terminal"}, []string{"exec_one_off_command", "spawn_agent"}},
	{[]string{"wait", "await", "poll", "join", "result", "results", "output", "collect"}, []string{"wait_agent"}},
	{[]string{"list", "status", "agents", "get", "show", "find"}, []string{"list_agents", "wait_agent"}},
	{
		[]string{"send", "message", "tell", "prompt", "ask", "continue", "reply", "steer", "resume", "chat", "input"},
		[]string{"send_message", "send_user_message"},
	},
	{
		[]string{"spawn", "create", "start", "new", "launch", "run", "delegate", "fork", "agent", "subagent", "task"},
		[]string{"spawn_agent"},
	},
}

// issueTasks are the tasks of tools for issues.
var issueTasks = []task{
	{[]string{"hold", "stop", "pause", "cancel", "abort", "kill", "block"}, []string{"hold_issue"}},
	{[]string{"retry", "restart", "resume", "unhold", "release", "rerun", "continue"}, []string{"retry_issue"}},
	{
		[]string{"comment", "reply", "answer", "reject", "return", "message", "tell", "send", "reopen"},
		[]string{"send_back_issue"},
	},
	{[]string{"run", "start", "execute", "dispatch", "begin", "launch", "work"}, []string{"run_issue"}},
	{[]string{"list", "search", "find", "query", "issues", "tickets", "report"}, []string{"list_issues"}},
	{
		[]string{"get", "read", "show", "view", "describe", "fetch", "merge", "diff", "review", "logs", "log", "status"},
		[]string{"show_issue"},
	},
}

var (
	issueWords = []string{"issue", "issues", "ticket", "tickets", "card", "story"}
	// words of tools that would change an issue in the tracker
	changingWords = []string{
		"add", "assign", "close", "create", "delete", "edit", "label", "move", "new", "open", "set", "transition", "update",
	}
)

// instead returns what to do instead of calling a tool that this server does not have; empty if
// that is not known.
func (t *Tools) instead(tool string) string {
	if meant := otherTools[tool]; t.inputs[meant] != nil {
		return "use " + meant
	}
	words := strings.FieldsFunc(strings.ToLower(tool), func(r rune) bool { return strings.ContainsRune("_-./ ", r) })
	isAny := func(list []string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return slices.Contains(list, word) })
	}
	tasks := agentTasks
	if isAny(issueWords) || t.inputs["spawn_agent"] == nil {
		tasks = issueTasks
		switch {
		case t.inputs["show_issue"] == nil:
			return "the tools for issues come with symphony mcp --tools issues, in a project, and over HTTP with " +
				"symphony serve of one project"
		case isAny(changingWords):
			return "no tool changes issues in their tracker: symphony issues new TITLE adds one to a folder, " +
				"and send_back_issue sends one back with a comment"
		}
	}
	for _, task := range tasks {
		offered := func(name string) bool { return t.inputs[name] != nil }
		at := slices.IndexFunc(task.tools, offered)
		if at >= 0 && isAny(task.words) {
			return "use " + task.tools[at]
		}
	}
	near := text.Nearest(tool, slices.Sorted(maps.Keys(t.inputs)))
	if len(near) > 0 {
		return "use " + near[0]
	}
	return ""
}

// unknown returns the error of a tool that this server does not have, with the tool that does
// the same.
func (t *Tools) unknown(tool string) error {
	message := fmt.Sprintf("unknown tool %q", text.Within(tool, maxID))
	if tool == "" {
		message = "the name of the tool, params.name, is missing"
	}
	if instead := t.instead(tool); instead != "" && tool != "" {
		message += "; " + instead
	}
	return &jsonrpc.Error{
		Code:    jsonrpc.CodeInvalidParams,
		Message: message + "; the tools are " + strings.Join(slices.Sorted(maps.Keys(t.inputs)), ", "),
	}
}
