package linear

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/symphony-cron/symphony/reconcile"
)

// GraphQLTool is the dynamic tool linear_graphql (specification 10.5). The key stays on this side.
type GraphQLTool struct {
	Name        string
	Description string
	InputSchema json.RawMessage

	client   *Client
	readOnly bool
}

// Tool makes the tool. Without a client every call is answered with missing_tracker_api_key; with readOnly
// (tracker.tool_scope: read) mutations are refused.
func Tool(c *Client, readOnly bool) *GraphQLTool {
	what, use := "query or mutation", "read issues, comment, and move issues between states"
	if readOnly {
		what, use = "query", "read issues (mutations are refused in this project)"
	}
	return &GraphQLTool{
		Name: "linear_graphql",
		Description: "Run one GraphQL " + what + " against Linear with the workflow's own credentials. " +
			"Use it to " + use + ". One operation per call; " +
			"ids come from queries. Example: {\"query\": \"query($id: String!) { issue(id: $id) { id title } }\", " +
			"\"variables\": {\"id\": \"ABC-1\"}}",
		InputSchema: json.RawMessage(`{
  "type": "object",
  "additionalProperties": false,
  "required": ["query"],
  "properties": {
    "query": {"type": "string", "description": "A GraphQL document with exactly one ` + what + `."},
    "variables": {"type": ["object", "null"], "additionalProperties": true, "description": "Values of the document's variables."}
  }
}`),
		client: c, readOnly: readOnly,
	}
}

// ToolAnswer is what the agent gets to read, and what the run keeps of a mutation.
type ToolAnswer struct {
	// Text is Linear's answer, or {"error": {"code", "message"}}.
	Text string
	// Success as specification 10.5 has it.
	Success bool
	// Mutation is nil for a query, and where nothing was sent.
	Mutation *reconcile.Mutation
}

// Call runs the tool with the agent's arguments: {"query", "variables"}, or the query alone as a JSON string.
func (t *GraphQLTool) Call(ctx context.Context, args json.RawMessage) ToolAnswer {
	in, err := readInput(args)
	if err != nil {
		return refused("invalid_input", err.Error())
	}
	if t.readOnly && in.mutates() {
		return refused("mutation_refused", "this project's WORKFLOW.md has tracker.tool_scope: read, so that "+
			strings.Join(in.rootFields(), ", ")+" was not sent; say in your last message what should be changed")
	}
	if t.client == nil {
		return refused("missing_tracker_api_key", "no Linear API key is configured")
	}
	if !in.mutates() {
		body, failed, err := t.client.patiently(ctx, in.query, in.variables)
		return t.answer(body, failed, err)
	}
	done := &reconcile.Mutation{Fields: in.rootFields(), Query: in.query, Variables: in.variables}
	body, failed, err := t.mutate(ctx, in, done)
	answer := t.answer(body, failed, maybeDone(err))
	done.Success, answer.Mutation = answer.Success, done
	return answer
}

// maybeDone adds to the error of a mutation that nobody knows what became of it: an agent would send it again.
func maybeDone(err error) error {
	var e *reconcile.Error
	if !errors.As(err, &e) {
		return err
	}
	switch {
	case e.Code == "linear_api_request", e.Code == "linear_unknown_payload", e.Code == "answer_too_large":
	case e.Code == "linear_api_status" && strings.HasPrefix(e.Message, "HTTP 5"):
	default:
		return err // turned away
	}
	told := *e
	told.Message += "; the mutation may have been carried out all the same: look before you send it again"
	return &told
}

// mutate sends a mutation, and notes what it has created.
func (t *GraphQLTool) mutate(ctx context.Context, in input, done *reconcile.Mutation) (body json.RawMessage, failed bool, err error) {
	query, asked := askForIDs(in)
	body, failed, err = t.client.patiently(ctx, query, in.variables)
	if err != nil || len(asked) == 0 {
		return body, failed, err
	}
	if failed && refusedAsInvalid(body) {
		// Nothing was carried out. Whether it is for what was added or not, the agent is to read of its own text.
		return t.client.patiently(ctx, in.query, in.variables)
	}
	if errs := faultsOfIDs(body); len(errs) > 0 {
		return nil, false, t.client.fail("linear_unknown_payload", "Linear did not say what was created: "+messages(errs), "")
	}
	done.Created, body = takeIDs(body, asked)
	return body, failed, nil
}

func (t *GraphQLTool) answer(body json.RawMessage, failed bool, err error) ToolAnswer {
	if err == nil {
		return ToolAnswer{Text: string(body), Success: !failed}
	}
	code, message := "linear_api_request", err.Error()
	if e := (*reconcile.Error)(nil); errors.As(err, &e) {
		code, message = e.Code, e.Message
	}
	return refused(code, t.client.scrub(message))
}

func refused(code, message string) ToolAnswer { return ToolAnswer{Text: toolError(code, message)} }

func toolError(code, message string) string {
	type fault struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	b, err := json.Marshal(map[string]fault{"error": {code, message}})
	if err != nil { // two strings always encode
		return `{"error":{"code":"internal","message":"encode error"}}`
	}
	return string(b)
}

// ChangesIssue reports whether the call changes an issue itself (its state, assignee, labels …), as against
// reading, commenting or attaching. Arguments that can't be read change nothing, nor does what is refused.
func (t *GraphQLTool) ChangesIssue(args json.RawMessage) bool {
	in, err := readInput(args)
	return err == nil && !t.readOnly && in.mutates() && changesIssue(in.operation().SelectionSet)
}

// changesIssue looks for issueUpdate, issueArchive, issueAddLabel and their like. A fragment spread counts
// as one of them, because what stands in it is not worth the search.
func changesIssue(set ast.SelectionSet) bool {
	for _, s := range set {
		switch s := s.(type) {
		case *ast.Field:
			if strings.HasPrefix(s.Name, "issue") {
				return true
			}
		case *ast.InlineFragment:
			if changesIssue(s.SelectionSet) {
				return true
			}
		case *ast.FragmentSpread:
			return true
		}
	}
	return false
}
