package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/linear/lineartest"
)

// linearCmd controls the script's Linear. It has the verbs of the command tracker, and:
//
//	linear edit ABC-1[,ABC-2] FILE | linear label ABC-1 [a,b] | linear assign ABC-1 [EMAIL]
//	linear project-of ABC-1 SLUG
//	linear comment-by EMAIL ABC-1 TEXT   another user than kim@example.com comments
//	linear commented ABC-1 TEXT    kim@example.com commented an hour ago
//	linear read ABC-1              prints the comments
//	linear specified               queries for more than the specification names are refused
//	linear queries                 prints the names of the requests so far, each once
//	linear fail JSON | linear ok   adds a failure, removes all failures
//	linear remaining REQUESTS COMPLEXITY   sets the rest of the allowance
func linearCmd(ts *testscript.TestScript, neg bool, args []string) {
	s := stageOf(ts).linear
	verb := args[0]
	rest := args[1:]
	text := strings.Join(rest[min(1, len(rest)):], " ")
	edit := func(change func(*lineartest.Issue)) { ts.Check(s.Edit(rest[0], change)) }
	switch verb {
	case "comment-by":
		_, err := s.Comment(rest[1], rest[0], strings.Join(rest[2:], " "))
		ts.Check(err)
	case "commented":
		_, err := s.CommentOf(rest[0], lineartest.Comment{
			Author:    "kim@example.com",
			Body:      text,
			CreatedAt: time.Now().Add(-time.Hour),
		})
		ts.Check(err)
	case "read":
		i, err := s.Issue(rest[0])
		ts.Check(err)
		for _, c := range i.Comments {
			fmt.Fprintf(ts.Stdout(), "== %s\n%s\n", c.Author, c.Body)
		}
	case "edit":
		for _, identifier := range listed(rest[0]) {
			text := describe(ts, linearTracker{s}, identifier, rest[1])
			ts.Check(s.Edit(identifier, func(i *lineartest.Issue) { i.Description = &text }))
		}
	case "label":
		edit(func(i *lineartest.Issue) { i.Labels = listed(text) })
	case "assign":
		edit(func(i *lineartest.Issue) { i.Assignee = text })
	case "project-of":
		edit(func(i *lineartest.Issue) { i.Project = text })
	case "fail":
		var f lineartest.Failure
		ts.Check(json.Unmarshal([]byte(strings.Join(rest, " ")), &f))
		ts.Check(s.Fail(f))
	case "specified":
		s.Specified()
	case "queries":
		var names []string
		for _, e := range s.Log() {
			names = append(names, e.Operation)
		}
		slices.Sort(names)
		fmt.Fprintln(ts.Stdout(), strings.Join(slices.Compact(names), " "))
	case "ok":
		s.ClearFailures()
	case "remaining":
		requests, err := strconv.Atoi(rest[0])
		ts.Check(err)
		points, err := strconv.Atoi(rest[1])
		ts.Check(err)
		s.SetRemaining(requests, points)
	default:
		if !onTracker(ts, linearTracker{s}, args) {
			ts.Fatalf("linear: unknown verb %q", verb)
		}
	}
}

// linearTracker is Linear as the tracker of a script.
type linearTracker struct{ *lineartest.Server }

func (l linearTracker) Add(i scriptIssue) error {
	made := lineartest.Issue{
		Identifier: i.Identifier,
		Title:      i.Title,
		State:      i.State,
		Priority:   i.Priority,
		Labels:     i.Labels,
		BlockedBy:  i.BlockedBy,
		Assignee:   i.Assignee,
		Project:    i.Project,
	}
	if i.Description != "" {
		made.Description = &i.Description
	}
	if i.Age != 0 {
		made.CreatedAt = time.Now().Add(-i.Age)
	}
	_, err := l.AddIssue(made)
	return err
}

func (l linearTracker) Comment(issue, text string) error {
	_, err := l.Server.Comment(issue, "kim@example.com", text)
	return err
}

func (l linearTracker) State(issue string) (string, error) {
	i, err := l.Issue(issue)
	return i.State, err
}

func (l linearTracker) Comments(issue string) (int, error) {
	i, err := l.Issue(issue)
	return len(i.Comments), err
}

func (l linearTracker) Call(issue, macro, text string) (tool string, args any, err error) {
	variables := map[string]string{"issue": issue, "body": text}
	mutation := "mutation($issue: String!, $body: String!) { commentCreate(input: {issueId: $issue, " +
		"body: $body}) { success } }"
	if macro == "move" {
		var state string
		state, err = l.StateID("ABC", text)
		variables = map[string]string{"issue": issue, "state": state}
		mutation = "mutation($issue: String!, $state: String!) { issueUpdate(id: $issue, input: " +
			"{stateId: $state}) { success } }"
	}
	return "linear_graphql", map[string]any{"query": mutation, "variables": variables}, err
}

func (l linearTracker) Down() {
	l.fail(lineartest.Failure{
		Kind:   lineartest.FailStatus,
		Status: 503,
	})
}

func (l linearTracker) Garbage() { l.fail(lineartest.Failure{Kind: lineartest.FailGarbage}) }

func (l linearTracker) Limit(d time.Duration) {
	l.fail(lineartest.Failure{Kind: lineartest.FailRateLimit, ResetMS: d.Milliseconds(), Times: 1})
}

func (l linearTracker) fail(f lineartest.Failure) {
	f.Times = cmp.Or(f.Times, -1)
	if err := l.Fail(f); err != nil {
		panic(err) // the kinds are constants
	}
}

func (l linearTracker) Up()            { l.ClearFailures() }
func (l linearTracker) Requests() int  { return len(l.Log()) }
func (l linearTracker) ClearRequests() { l.ClearLog() }
