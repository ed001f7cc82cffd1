package linear

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"

	"github.com/symphony-cron/symphony/reconcile"
)

// maxDocument bounds what an agent may send as a query, in bytes and in tokens.
const (
	maxDocument = 256 << 10
	maxTokens   = 20000
)

// Execute sends one GraphQL document as it is, for the agent's tool (specification 10.5). The body is Linear's
// answer; graphqlErrors says that it holds top-level errors, also where Linear sent it with HTTP 400. An error is
// a *reconcile.Error as elsewhere.
func (c *Client) Execute(ctx context.Context, query string, variables json.RawMessage) (body json.RawMessage, graphqlErrors bool, err error) {
	var vars any
	if len(variables) > 0 {
		vars = variables
	}
	a, err := c.send(ctx, query, vars)
	if err != nil {
		return nil, false, err
	}
	env, err := c.check(a)
	clientFault := a.status >= 400 && a.status < 500 && a.status != http.StatusUnauthorized && a.status != http.StatusForbidden
	if limited := (*RateLimited)(nil); err != nil && (errors.As(err, &limited) || !clientFault || len(env.Errors) == 0) {
		return nil, false, err
	}
	return json.RawMessage(c.scrub(string(a.body))), len(env.Errors) > 0, nil
}

// GraphQLTool is the dynamic tool linear_graphql (specification 10.5). The key stays on this side.
type GraphQLTool struct {
	Name        string
	Description string
	InputSchema json.RawMessage

	client *Client
}

// Tool makes the tool. Without a client every call is answered with missing_tracker_api_key.
func Tool(c *Client) *GraphQLTool {
	return &GraphQLTool{
		Name: "linear_graphql",
		Description: "Run one GraphQL query or mutation against Linear with the workflow's own credentials. " +
			"Use it to read issues, comment, and move issues between states. One operation per call; " +
			"ids come from queries. Example: {\"query\": \"query($id: String!) { issue(id: $id) { id title } }\", " +
			"\"variables\": {\"id\": \"ABC-1\"}}",
		InputSchema: json.RawMessage(`{
  "type": "object",
  "additionalProperties": false,
  "required": ["query"],
  "properties": {
    "query": {"type": "string", "description": "A GraphQL document with exactly one query or mutation."},
    "variables": {"type": ["object", "null"], "additionalProperties": true, "description": "Values of the document's variables."}
  }
}`),
		client: c,
	}
}

// Call runs the tool with the agent's arguments: {"query", "variables"}, or the query alone as a JSON string.
// The text is Linear's answer, or {"error": {"code", "message"}}; success as specification 10.5 has it.
func (t *GraphQLTool) Call(ctx context.Context, args json.RawMessage) (text string, success bool) {
	query, variables, err := toolInput(args)
	if err != nil {
		return toolError("invalid_input", err.Error()), false
	}
	if t.client == nil {
		return toolError("missing_tracker_api_key", "no Linear API key is configured"), false
	}
	body, failed, err := t.client.Execute(ctx, query, variables)
	if err != nil {
		code, message := "linear_api_request", err.Error()
		if e := (*reconcile.Error)(nil); errors.As(err, &e) {
			code, message = e.Code, e.Message
		}
		return toolError(code, t.client.scrub(message)), false
	}
	return string(body), !failed
}

// ChangesIssue reports whether the call changes an issue itself (its state, assignee, labels …), as against
// reading, commenting or attaching. Arguments that can't be read change nothing.
func (t *GraphQLTool) ChangesIssue(args json.RawMessage) bool {
	query, _, err := toolInput(args)
	if err != nil {
		return false
	}
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Name: "query", Input: query}, maxTokens)
	if err != nil || doc.Operations[0].Operation != ast.Mutation {
		return false
	}
	return changesIssue(doc.Operations[0].SelectionSet)
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

func toolInput(args json.RawMessage) (query string, variables json.RawMessage, err error) {
	args = bytes.TrimSpace(args)
	switch {
	case len(args) == 0:
		return "", nil, errors.New("no arguments: give an object with a query")
	case args[0] == '"':
		if err := json.Unmarshal(args, &query); err != nil {
			return "", nil, fmt.Errorf("arguments are no valid JSON: %w", err)
		}
	case args[0] == '{':
		if query, variables, err = toolObject(args); err != nil {
			return "", nil, err
		}
	default:
		return "", nil, errors.New("arguments must be an object with a query, or a query as a string")
	}
	if err := oneOperation(query); err != nil {
		return "", nil, err
	}
	return query, variables, nil
}

func toolObject(args json.RawMessage) (query string, variables json.RawMessage, err error) {
	var in map[string]json.RawMessage
	if err := json.Unmarshal(args, &in); err != nil {
		return "", nil, fmt.Errorf("arguments are no valid JSON: %w", err)
	}
	// Other keys are left alone: agents add an operationName, which one operation does not need.
	if json.Unmarshal(in["query"], &query) != nil || in["query"] == nil || string(in["query"]) == "null" {
		return "", nil, errors.New("query must be a string")
	}
	v := in["variables"]
	if len(v) == 0 || string(v) == "null" {
		return query, nil, nil
	}
	if v[0] != '{' {
		return "", nil, errors.New("variables must be an object")
	}
	return query, v, nil
}

// oneOperation refuses what is no document with exactly one query or mutation.
func oneOperation(query string) error {
	if strings.TrimSpace(query) == "" {
		return errors.New("query must not be empty")
	}
	if len(query) > maxDocument {
		return fmt.Errorf("query is longer than %d bytes", maxDocument)
	}
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Name: "query", Input: query}, maxTokens)
	if err != nil {
		return fmt.Errorf("query is no valid GraphQL: %w", err)
	}
	switch n := len(doc.Operations); {
	case n == 0:
		return errors.New("query holds no operation, only fragments")
	case n > 1:
		return fmt.Errorf("query holds %d operations: send one per call", n)
	}
	if op := doc.Operations[0].Operation; op != ast.Query && op != ast.Mutation {
		return fmt.Errorf("%s operations are not supported: use a query or a mutation", op)
	}
	return nil
}
