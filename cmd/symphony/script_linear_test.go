package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/linear/lineartest"
)

// linearCmd controls the script's Linear:
//
//	linear add ABC-1 [state=Todo] [priority=2] [title=...] [blocked=ABC-2] [labels=a,b] [assignee=EMAIL]
//	           [project=SLUG] [age=2h] [FILE]
//	linear move ABC-1 STATE | linear comment ABC-1 TEXT | linear remove ABC-1 | linear edit ABC-1 FILE
//	linear label ABC-1 [a,b] | linear assign ABC-1 [EMAIL] | linear project-of ABC-1 SLUG
//	linear is ABC-1 STATE          waits until the issue is in the state
//	linear comments ABC-1 N        waits until the issue has N comments
//	linear fail JSON | linear ok   adds a failure, removes all failures
//	linear remaining REQUESTS COMPLEXITY   sets the rest of the allowance
//	linear requests N              fails unless exactly N requests were made since the last clear
//	linear clear                   clears the log of requests
//
// FILE contains the issue's description. If its name ends in .agent it is a script for the agent, in which {move STATE} is a tool
// call that moves the issue, {comment TEXT} one that comments on it, and {gate FILE} a command that ends once the file exists.
func linearCmd(ts *testscript.TestScript, neg bool, args []string) {
	s := stageOf(ts).linear
	verb, rest := args[0], args[1:]
	text := strings.Join(rest[min(1, len(rest)):], " ")
	switch verb {
	case "add":
		ts.Check(linearAdd(ts, s, rest))
	case "move":
		ts.Check(s.Move(rest[0], text))
	case "comment":
		_, err := s.Comment(rest[0], "kim@example.com", text)
		ts.Check(err)
	case "remove":
		ts.Check(s.Remove(rest[0]))
	case "edit":
		text := describe(ts, s, rest[0], rest[1])
		ts.Check(s.Edit(rest[0], func(i *lineartest.Issue) { i.Description = &text }))
	case "label":
		ts.Check(s.Edit(rest[0], func(i *lineartest.Issue) { i.Labels = words(text) }))
	case "assign":
		ts.Check(s.Edit(rest[0], func(i *lineartest.Issue) { i.Assignee = text }))
	case "project-of":
		ts.Check(s.Edit(rest[0], func(i *lineartest.Issue) { i.Project = text }))
	case "is":
		want := strings.Join(rest[1:], " ")
		waitFor(ts, fmt.Sprintf("%s in %s", rest[0], want), func() (bool, string) {
			i, err := s.Issue(rest[0])
			ts.Check(err)
			return i.State == want, i.State
		})
	case "comments":
		waitFor(ts, fmt.Sprintf("%s comments on %s", rest[1], rest[0]), func() (bool, string) {
			i, err := s.Issue(rest[0])
			ts.Check(err)
			return strconv.Itoa(len(i.Comments)) == rest[1], fmt.Sprint(i.Comments)
		})
	case "fail":
		var f lineartest.Failure
		ts.Check(json.Unmarshal([]byte(strings.Join(rest, " ")), &f))
		ts.Check(s.Fail(f))
	case "ok":
		s.ClearFailures()
	case "remaining":
		requests, err := strconv.Atoi(rest[0])
		ts.Check(err)
		points, err := strconv.Atoi(rest[1])
		ts.Check(err)
		s.SetRemaining(requests, points)
	case "clear":
		s.ClearLog()
	case "requests":
		if got := len(s.Log()); strconv.Itoa(got) != rest[0] {
			ts.Fatalf("%d requests were made, not %s: %+v", got, rest[0], s.Log())
		}
	default:
		ts.Fatalf("linear: unknown verb %q", verb)
	}
}

func words(list string) []string {
	if list == "" {
		return []string{}
	}
	return strings.Split(list, ",")
}

func linearAdd(ts *testscript.TestScript, s *lineartest.Server, args []string) error {
	i := lineartest.Issue{Identifier: args[0], Title: "Issue " + args[0], State: "Todo"}
	for _, arg := range args[1:] {
		key, value, named := strings.Cut(arg, "=")
		switch {
		case !named:
			text := describe(ts, s, args[0], arg)
			i.Description = &text
		case key == "state":
			i.State = value
		case key == "title":
			i.Title = value
		case key == "priority":
			n, err := strconv.Atoi(value)
			if err != nil {
				return err
			}
			i.Priority = n
		case key == "blocked":
			i.BlockedBy = words(value)
		case key == "labels":
			i.Labels = words(value)
		case key == "assignee":
			i.Assignee = value
		case key == "project":
			i.Project = value
		case key == "age":
			age, err := time.ParseDuration(value)
			if err != nil {
				return err
			}
			i.CreatedAt = time.Now().Add(-age)
		default:
			return fmt.Errorf("linear add: unknown %q", arg)
		}
	}
	_, err := s.AddIssue(i)
	return err
}

var agentMacro = regexp.MustCompile(`\{(move|comment|gate) ([^}]*)\}`)

// agentScript returns an issue's description that contains a script for the agent.
func agentScript(s *lineartest.Server, identifier, dir, text string) (string, error) {
	text, err := expandMacros(s, identifier, dir, text)
	return "```agent\n" + strings.TrimSpace(text) + "\n```\n", err
}

// expandMacros replaces macros by commands of the agent. The files of gates are below dir.
func expandMacros(s *lineartest.Server, identifier, dir, text string) (_ string, err error) {
	text = agentMacro.ReplaceAllStringFunc(text, func(m string) string {
		parts := agentMacro.FindStringSubmatch(m)
		variables := map[string]string{"issue": identifier, "body": parts[2]}
		mutation := "mutation($issue: String!, $body: String!) { commentCreate(input: {issueId: $issue, body: $body}) { success } }"
		switch parts[1] {
		case "gate":
			return fmt.Sprintf("sh until [ -e '%s' ]; do sleep 0.02; done", filepath.Join(dir, parts[2]))
		case "move":
			id, stateErr := s.StateID("ABC", parts[2])
			err = cmp.Or(err, stateErr)
			variables = map[string]string{"issue": identifier, "state": id}
			mutation = "mutation($issue: String!, $state: String!) { issueUpdate(id: $issue, input: {stateId: $state}) { success } }"
		}
		call, callErr := json.Marshal(map[string]any{"query": mutation, "variables": variables})
		err = cmp.Or(err, callErr)
		return "tool linear_graphql " + string(call)
	})
	return text, err
}

// describe reads a description; one that ends in .agent is a script for the agent.
func describe(ts *testscript.TestScript, s *lineartest.Server, identifier, file string) string {
	expand := expandMacros
	if filepath.Ext(file) == ".agent" {
		expand = agentScript
	}
	text, err := expand(s, identifier, ts.MkAbs("."), ts.ReadFile(file))
	ts.Check(err)
	return text
}
