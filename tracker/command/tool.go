package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// agentMarker ends every comment of an agent. Each comment that symphony makes itself has another marker.
const agentMarker = reconcile.CommentMarker + "agent -->"

type commentRequest struct {
	Action    string     `json:"action"`
	IssueID   string     `json:"issue_id"`
	Since     *time.Time `json:"since,omitempty"`
	CommentID string     `json:"comment_id,omitempty"`
	Body      string     `json:"body,omitempty"`
}

// maxComments bounds the comments of one read: the newest are kept.
const maxComments = 200

// comments returns the comments that were made after since, the newest first. The program may return others, in any order.
func (c *client) comments(ctx context.Context, issueID string, since time.Time) ([]reconcile.Comment, error) {
	request := commentRequest{Action: "list", IssueID: issueID}
	if !since.IsZero() {
		since = since.UTC()
		request.Since = &since
	}
	answer, err := c.ask(ctx, verbComment, request)
	if err != nil {
		return nil, err
	}
	list, err := answer.list("comments")
	if err != nil {
		return nil, c.invalid(verbComment, err)
	}
	found := []reconcile.Comment{}
	for n, raw := range list {
		one, err := comment(fmt.Sprintf("comments[%d]", n), raw)
		if err != nil {
			return nil, c.invalid(verbComment, err)
		}
		if one.CreatedAt.After(since) {
			found = append(found, one)
		}
	}
	byTime := func(a, b reconcile.Comment) int { return a.CreatedAt.Compare(b.CreatedAt) }
	if slices.IsSortedFunc(found, byTime) {
		slices.Reverse(found) // also those of one minute, to which the program may round
	}
	slices.SortStableFunc(found, func(a, b reconcile.Comment) int { return byTime(b, a) })
	return found[:min(len(found), maxComments)], nil
}

func comment(path string, raw json.RawMessage) (reconcile.Comment, error) {
	fields, err := object(path, raw)
	if err != nil {
		return reconcile.Comment{}, err
	}
	r := &reader{record: fields}
	made := reconcile.Comment{ID: r.need("id"), Author: r.or("author", "")}
	if body := r.text("body"); body != nil {
		made.Body = *body
	}
	if at := r.time("created_at"); at != nil {
		made.CreatedAt = *at
	} else {
		r.fail(fmt.Errorf("%s is missing", r.at("created_at")))
	}
	if made.Author != "" {
		made.AuthorIDs = []string{made.Author}
	}
	made.Edited = r.boolean("edited")
	made.Own = r.boolean("own") || reconcile.Marked(made.Body)
	return made, r.err
}

func (c *client) post(ctx context.Context, issueID, body string) (reconcile.Comment, error) {
	answer, err := c.ask(ctx, verbComment, commentRequest{Action: "post", IssueID: issueID, Body: body})
	if err != nil {
		return reconcile.Comment{}, err
	}
	made, err := comment("comment", answer.fields["comment"])
	if err != nil {
		return made, c.invalid(verbComment, err)
	}
	made.Own, made.Body = true, body
	return made, nil
}

func (c *client) edit(ctx context.Context, issueID, commentID, body string) (string, error) {
	_, err := c.ask(ctx, verbComment, commentRequest{Action: "edit", IssueID: issueID, CommentID: commentID, Body: body})
	return body, err
}

type toolRequest struct {
	Issue     toolIssue  `json:"issue"`
	Tool      string     `json:"tool"`
	Arguments toolUpdate `json:"arguments"`
}

// toolIssue is the issue of the run that calls the tool.
type toolIssue struct {
	ID         string `json:"id"`
	Identifier string `json:"identifier"`
	Title      string `json:"title"`
	State      string `json:"state"`
}

type toolUpdate struct {
	State string `json:"state"`
}

const updateName = "issue_update"

// updateTool lets the agent move its issue.
func (c *client) updateTool() reconcile.AgentTool {
	return reconcile.AgentTool{
		Name:        updateName,
		Description: `Move the issue that you work on to another state. Example: {"state": "In Progress"}`,
		InputSchema: inputSchema("state", "The name of the new state."),
		Call: func(ctx context.Context, i reconcile.Issue, args json.RawMessage) reconcile.ToolAnswer {
			state, err := argument(args, "state")
			if err != nil {
				return refused("invalid_input", err.Error())
			}
			return c.change(updateName, args, func() (string, *reconcile.Created, error) {
				request := toolRequest{toolIssue{i.ID, i.Identifier, i.Title, i.State}, updateName, toolUpdate{state}}
				answer, err := c.ask(ctx, verbTool, request)
				if err != nil {
					return "", nil, err
				}
				r := &reader{record: answer}
				said := r.or("text", i.Identifier+" is now in the state "+state)
				if r.err != nil {
					return "", nil, c.invalid(verbTool, r.err)
				}
				return said, nil, nil
			})
		},
		ChangesIssue: func(json.RawMessage) bool { return !c.ReadOnly },
	}
}

// commentTool lets the agent comment on its issue.
func (c *client) commentTool() reconcile.AgentTool {
	const name = "issue_comment"
	return reconcile.AgentTool{
		Name:        name,
		Description: `Comment on the issue that you work on. Example: {"text": "Done; the tests pass."}`,
		InputSchema: inputSchema("text", "The comment, as Markdown."),
		Call: func(ctx context.Context, i reconcile.Issue, args json.RawMessage) reconcile.ToolAnswer {
			body, err := argument(args, "text")
			if err != nil {
				return refused("invalid_input", err.Error())
			}
			return c.change(name, args, func() (string, *reconcile.Created, error) {
				made, err := c.post(ctx, i.ID, body+"\n\n"+agentMarker)
				return "commented on " + i.Identifier, &reconcile.Created{Kind: "comment", ID: made.ID}, err
			})
		},
		ChangesIssue: func(json.RawMessage) bool { return false },
	}
}

func inputSchema(name, description string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(
		`{"type": "object", "additionalProperties": false, "required": [%q], "properties": {%[1]q: {"type": "string", "description": %q}}}`,
		name, description))
}

// argument reads the only argument of a tool.
func argument(args json.RawMessage, name string) (string, error) {
	var in map[string]any
	if json.Unmarshal(args, &in) != nil {
		return "", errors.New("the arguments must be an object")
	}
	value, _ := in[name].(string)
	if strings.TrimSpace(value) == "" {
		return "", errors.New(name + " must be a string that is not empty")
	}
	for other := range in {
		if other != name {
			return "", fmt.Errorf("unknown argument %q: the only one is %s", other, name)
		}
	}
	return value, nil
}

// change carries out a change that an agent asks for, and records it. call returns what the agent reads and what was created.
func (c *client) change(name string, args json.RawMessage, call func() (string, *reconcile.Created, error)) reconcile.ToolAnswer {
	if c.ReadOnly {
		return refused("mutation_refused", "this project's WORKFLOW.md has tracker.tool_scope: read, so "+name+
			" was not carried out; say in your last message what should be changed")
	}
	answer := reconcile.ToolAnswer{Mutation: &reconcile.Mutation{Fields: []string{name}, Query: name, Variables: args}}
	text, made, err := call()
	if err != nil {
		known := &reconcile.Error{Code: "command_failed", Message: err.Error()}
		errors.As(err, &known)
		answer.Text = refused(known.Code, known.Message).Text
		return answer
	}
	if made != nil {
		answer.Mutation.Created = []reconcile.Created{*made}
	}
	answer.Text, answer.Success, answer.Mutation.Success = text, true, true
	return answer
}

func refused(code, message string) reconcile.ToolAnswer {
	text, err := json.Marshal(map[string]any{"error": map[string]string{"code": code, "message": message}})
	if err != nil {
		panic(err) // strings always encode
	}
	return reconcile.ToolAnswer{Text: string(text)}
}
