package trackertest

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// tools are the rules about the agent's tools.
var tools = []testCase{
	{"tools: names and schemas", func(b *backend) bool { return len(b.Tools) > 0 }, checkTools},
	{"tools: move", func(b *backend) bool { return b.ToMove != nil }, checkMove},
	{"tools: comment", func(b *backend) bool { return b.ToComment != nil }, checkComment},
	{"tools: read only", func(b *backend) bool { return b.ReadOnly != nil }, checkReadOnly},
	{"tools: refused calls", func(b *backend) bool { return b.Refused != nil }, checkRefused},
}

// agentCalls are calls that move the issue to the terminal state and comment on it.
func (b *backend) agentCalls(issue reconcile.Issue, text string) map[string]Call {
	calls := map[string]Call{}
	if b.ToMove != nil {
		calls["move"] = b.ToMove(issue, b.Terminal)
	}
	if b.ToComment != nil {
		calls["comment"] = b.ToComment(issue, text)
	}
	return calls
}

// tool returns a tool of the adapter; nil if it is not offered.
func tool(a *reconcile.TrackerAdapter, name string) *reconcile.AgentTool {
	if i := slices.IndexFunc(a.Tools, func(t reconcile.AgentTool) bool { return t.Name == name }); i >= 0 {
		return &a.Tools[i]
	}
	return nil
}

// call carries out an agent's call. A tool that is not offered refuses it.
func (b *backend) call(a *reconcile.TrackerAdapter, issue reconcile.Issue, c Call) reconcile.ToolAnswer {
	b.Helper()
	t := tool(a, c.Tool)
	if t == nil {
		return reconcile.ToolAnswer{
			Text: `{"error": {"code": "unknown_tool", "message": "there is no such tool"}}`,
		}
	}
	answer := t.Call(b.ctx(), issue, c.Args)
	b.noSecret(answer.Text)
	if answer.Text == "" {
		b.Errorf("no answer to %s", c.Args)
	}
	return answer
}

type refusal struct{ Code, Message string }

// refusalOf reads the error that a refused call returns: {"error": {"code", "message"}}.
func refusalOf(a reconcile.ToolAnswer) refusal {
	var out struct{ Error refusal }
	_ = json.Unmarshal([]byte(a.Text), &out) // the caller checks the code
	return out.Error
}

func checkTools(b *backend) {
	seen := map[string]bool{}
	for _, t := range b.Tools {
		var schema struct{ Type string }
		if err := json.Unmarshal(t.InputSchema, &schema); err != nil || schema.Type != "object" {
			b.Errorf("%s has the schema %s: %v", t.Name, t.InputSchema, err)
		}
		if !regexp.MustCompile(`^[a-z][a-z0-9_]*$`).MatchString(t.Name) || t.Description == "" ||
			t.ChangesIssue == nil ||
			seen[t.Name] {
			b.Errorf("tool %q: %q", t.Name, t.Description)
		}
		seen[t.Name] = true
	}
}

func checkMove(b *backend) {
	issue := b.issue(b.add(Issue{}))
	other := b.issue(b.add(Issue{}))
	call := b.ToMove(issue, b.Terminal)
	if !tool(b.TrackerAdapter, call.Tool).ChangesIssue(call.Args) {
		b.Errorf("%s does not change the issue", call.Args)
	}
	a := b.call(b.TrackerAdapter, issue, call)
	if !a.Success || a.Mutation == nil || !a.Mutation.Success || len(a.Mutation.Fields) == 0 {
		b.Fatalf("answer %s, change %+v", a.Text, a.Mutation)
	}
	test.Equal(b.T, "state", b.issue(issue.ID).State, b.Terminal)
	test.Equal(b.T, "another issue", b.issue(other.ID), other)
}

func checkComment(b *backend) {
	issue := b.issue(b.add(Issue{}))
	call := b.ToComment(issue, "The agent's words.")
	if tool(b.TrackerAdapter, call.Tool).ChangesIssue(call.Args) {
		b.Errorf("%s changes the issue beyond commenting", call.Args)
	}
	a := b.call(b.TrackerAdapter, issue, call)
	if !a.Success || a.Mutation == nil || !a.Mutation.Success || len(a.Mutation.Fields) == 0 {
		b.Fatalf("answer %s, change %+v", a.Text, a.Mutation)
	}
	test.Equal(b.T, "state", b.issue(issue.ID).State, issue.State)
	if b.Comments == nil {
		return
	}
	list := b.comments(issue.ID, time.Time{})
	if len(list) != 1 || !slices.Equal(a.Mutation.Created, []reconcile.Created{{
		Kind: "comment",
		ID:   list[0].ID,
	}}) {
		// an agent is not told of its own comments
		b.Errorf("comments %+v; recorded %+v", list, a.Mutation.Created)
	}
}

func checkReadOnly(b *backend) {
	issue := b.issue(b.add(Issue{}))
	for name, call := range b.agentCalls(issue, "The agent's words.") {
		a := b.call(b.ReadOnly, issue, call)
		if a.Success || a.Mutation != nil || refusalOf(a).Message == "" {
			b.Errorf("%s: %+v", name, a)
		}
		if t := tool(b.ReadOnly, call.Tool); t != nil && t.ChangesIssue(call.Args) {
			b.Errorf("the read-only tool refuses %s, which cannot change the issue", call.Args)
		}
	}
	test.Equal(b.T, "the issue", b.issue(issue.ID), issue)
}

func checkRefused(b *backend) {
	issue := b.issue(b.add(Issue{}))
	other := b.issue(b.add(Issue{}))
	before := b.requests()
	calls := b.Refused(issue, other)
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		for _, adapter := range []*reconcile.TrackerAdapter{b.TrackerAdapter, b.ReadOnly} {
			if adapter == nil {
				continue
			}
			a := b.call(adapter, issue, calls[name])
			if r := refusalOf(a); a.Success || a.Mutation != nil || r.Code == "" || r.Message == "" {
				b.Errorf("%s: %+v", name, a)
			}
		}
	}
	test.Equal(b.T, "requests for calls that are refused", b.requests(), before)
	test.Equal(b.T, "issues", b.byIDs(issue.ID, other.ID), map[string]reconcile.Issue{
		issue.ID: issue,
		other.ID: other,
	})
}

// moves are the rules about moving issues by symphony itself, which tracker.tool_scope does
// not concern.
var moves = []testCase{
	{"move: to another state", canMove, checkMoves},
	{"move: to the same state", canMove, checkMoveToSame},
	{"move: other spellings", canMove, checkMoveSpelled},
	{"move: read only", func(b *backend) bool { return canMove(b) && b.ReadOnly != nil }, checkMoveReadOnly},
	{"move: to an unknown state", canMove, checkMoveToUnknown},
	{
		"move: an issue that is gone",
		func(b *backend) bool { return canMove(b) && b.Remove != nil },
		checkMoveOfGone,
	},
}

func canMove(b *backend) bool { return b.TrackerAdapter.Move != nil }

// noState is the name of a state that exists in no tracker.
const noState = "No such state"

// move moves an issue by the adapter. Backend.Move is a person's move.
func (b *backend) move(id, state string) {
	b.Helper()
	test.OK(b.T, b.TrackerAdapter.Move(b.ctx(), id, state))
}

func checkMoves(b *backend) {
	other := b.issue(b.add(Issue{}))
	id := b.add(Issue{Title: "To move", Description: "Text.", Labels: []string{"Bug"}, Priority: 1})
	before := b.issue(id)
	for _, state := range append(slices.Clone(b.Active[1:]), b.Terminal, b.Active[0]) {
		b.move(id, state)
		after := b.issue(id)
		test.Equal(b.T, "state", after.State, state)
		if !reflect.DeepEqual(after.Description, before.Description) ||
			!reflect.DeepEqual(after.Priority, before.Priority) ||
			!slices.Contains(after.Labels, "bug") {
			b.Errorf("a move has changed more than the state: %+v", after)
		}
		test.Equal(b.T, "is a candidate", slices.Contains(idsOf(b.candidates()), id), state != b.Terminal)
	}
	test.Equal(b.T, "another issue", b.issue(other.ID), other)
}

func checkMoveToSame(b *backend) {
	for _, state := range []string{b.Active[0], b.Terminal} {
		id := b.add(Issue{State: state})
		before := b.issue(id)
		b.move(id, state)
		test.Equal(b.T, "the issue", b.issue(id), before)
	}
}

func checkMoveSpelled(b *backend) {
	id := b.add(Issue{})
	for _, state := range []string{b.Terminal, b.Active[0]} {
		b.move(id, " "+strings.ToUpper(state)+" ")
		test.Equal(b.T, "state", b.issue(id).State, state)
	}
}

func checkMoveReadOnly(b *backend) {
	id := b.add(Issue{})
	test.OK(b.T, b.ReadOnly.Move(b.ctx(), id, b.Terminal))
	test.Equal(b.T, "state", b.issue(id).State, b.Terminal)
}

func checkMoveToUnknown(b *backend) {
	issue := b.issue(b.add(Issue{}))
	err := b.TrackerAdapter.Move(b.ctx(), issue.ID, noState)
	e, is := errors.AsType[*reconcile.Error](err)
	if !is || errors.Is(err, reconcile.ErrGone) {
		b.Fatalf("move to an unknown state: %v", err)
	}
	class := reconcile.ClassOf(err)
	b.wantError(err, e.Code, class)
	if class != reconcile.ClassWorkflow && class != reconcile.ClassTracker ||
		!strings.Contains(e.Message, noState) {
		b.Errorf(
			"error %v of class %q: want one of the workflow or the tracker that names the state",
			err,
			class,
		)
	}
	test.Equal(b.T, "the issue", b.issue(issue.ID), issue)
}

func checkMoveOfGone(b *backend) {
	id := b.add(Issue{})
	b.Remove(b.T, id)
	err := b.TrackerAdapter.Move(b.ctx(), id, b.Terminal)
	b.wantError(err, issueNotFound, "")
	if !errors.Is(err, reconcile.ErrGone) {
		b.Errorf("move an issue that is gone: %v", err)
	}
}
