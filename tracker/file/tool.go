package file

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
)

// maxComment bounds a comment of an agent, in bytes.
const maxComment = 64 << 10

// The agent's tools.
const (
	toolUpdate  = "issue_update"
	toolComment = "issue_comment"
)

// tools returns the agent's tools, which change only the issue that the agent works on.
func (t *tracker) tools() []reconcile.AgentTool {
	states := t.states()
	schema := func(name, description string) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{
  "type": "object",
  "additionalProperties": false,
  "required": [%q],
  "properties": {%[1]q: {"type": "string", "description": %s}}
}`, name, encode(description)))
	}
	update := reconcile.AgentTool{
		Name: toolUpdate, Description: "Move the issue that you work on to another state. States: " + strings.Join(states, ", ") + ".",
		InputSchema: schema("state", "One of: "+strings.Join(states, ", ")),
		Call: func(ctx context.Context, issue reconcile.Issue, args json.RawMessage) reconcile.ToolAnswer {
			return t.call(toolUpdate, args, "state", func(state string, _ *reconcile.Mutation) (map[string]string, error) {
				return t.move(ctx, issue.ID, state)
			})
		},
		ChangesIssue: func(json.RawMessage) bool { return !t.ReadOnly },
	}
	comment := reconcile.AgentTool{
		Name: toolComment, Description: "Comment on the issue that you work on, in Markdown.",
		InputSchema: schema("text", "The text of the comment"),
		Call: func(ctx context.Context, issue reconcile.Issue, args json.RawMessage) reconcile.ToolAnswer {
			return t.call(toolComment, args, "text", func(text string, done *reconcile.Mutation) (map[string]string, error) {
				if len(text) > maxComment {
					return nil, errors.New("the comment is longer than 64 KiB")
				}
				c, err := t.post(ctx, issue.ID, authorAgent, text)
				if err != nil {
					return nil, err
				}
				done.Created = []reconcile.Created{{Kind: "comment", ID: c.ID}}
				return map[string]string{"issue": issue.ID, "comment": c.ID}, nil
			})
		},
		ChangesIssue: func(json.RawMessage) bool { return false },
	}
	return []reconcile.AgentTool{update, comment}
}

// states are the states to which an agent may move its issue.
func (t *tracker) states() (list []string) {
	for _, state := range slices.Concat(t.Active, t.Others, t.settings.Statuses, t.Terminal) {
		if !slices.ContainsFunc(list, func(s string) bool { return same(s, state) }) {
			list = append(list, state)
		}
	}
	return list
}

// call reads the only argument of a tool, and calls do with it. done is what the run records.
func (t *tracker) call(
	tool string, args json.RawMessage, name string, do func(value string, done *reconcile.Mutation) (map[string]string, error),
) reconcile.ToolAnswer {
	var in map[string]*string
	decoder := json.NewDecoder(bytes.NewReader(args))
	if err := decoder.Decode(&in); err != nil || len(in) != 1 || in[name] == nil || strings.TrimSpace(*in[name]) == "" {
		return refused("invalid_input", fmt.Sprintf("the arguments must be {%q: \"…\"}, with a text that is not empty", name))
	}
	if t.ReadOnly {
		return refused("mutation_refused", "this project's WORKFLOW.md has tracker.tool_scope: read, so that nothing was changed; "+
			"say in your last message what should be changed")
	}
	done := &reconcile.Mutation{Fields: []string{tool}, Variables: args}
	result, err := do(strings.TrimSpace(*in[name]), done)
	var known *reconcile.Error
	switch {
	case errors.As(err, &known):
		answer := refused(known.Code, known.Message)
		answer.Mutation = done
		return answer
	case err != nil:
		return refused("invalid_input", err.Error())
	}
	done.Success = true
	return reconcile.ToolAnswer{Text: encode(result), Success: true, Mutation: done}
}

// move changes the state of an issue.
func (t *tracker) move(ctx context.Context, id, state string) (map[string]string, error) {
	states := t.states()
	i := slices.IndexFunc(states, func(s string) bool { return same(s, state) })
	if i < 0 {
		return nil, fmt.Errorf("there is no state %q; states: %s", state, strings.Join(states, ", "))
	}
	err := t.change(ctx, id, func(r *record, content []byte) ([]byte, error) {
		if same(r.issue.State, states[i]) {
			return content, nil
		}
		return t.setState(r, content, states[i])
	})
	return map[string]string{"issue": id, "state": states[i]}, err
}

func refused(code, message string) reconcile.ToolAnswer {
	return reconcile.ToolAnswer{Text: encode(map[string]any{"error": map[string]string{"code": code, "message": message}})}
}

func encode(value any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		panic(err) // strings always encode
	}
	return strings.TrimSpace(b.String())
}
