package linear

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"

	"github.com/symphony-cron/symphony/internal/adapter/agenttool"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// The limits of a call: maxTokens is in tokens, the others in bytes.
const (
	maxQuery     = 256 << 10
	maxTokens    = 20000
	maxVariables = 1 << 20
	maxAnswer    = 1 << 20
)

// Tool returns the agent's tool linear_graphql (specification 10.5). The API key stays in this
// process. With readOnly (tracker.tool_scope: read) the tool refuses mutations.
func Tool(c *Client, readOnly bool) reconcile.AgentTool {
	t := &tool{client: c, readOnly: readOnly}
	what := "query or mutation"
	use := "read issues, comment, and change issues"
	if readOnly {
		what = "query"
		use = "read issues (mutations are refused in this project)"
	}
	return reconcile.AgentTool{
		Name: "linear_graphql",
		Description: "Run one GraphQL " + what + " against Linear with the workflow's own credentials. " +
			"Use it to " + use + ". One operation per call; " +
			"ids come from queries. Example: {\"query\": \"query($id: String!) { issue(id: $id) { id title } }\", " +
			"\"variables\": {\"id\": \"ABC-1\"}}",
		InputSchema: agenttool.Object([]string{"query"}, map[string]any{
			"query": map[string]any{
				"type":        "string",
				"description": "A GraphQL document with exactly one " + what + ".",
			},
			"variables": map[string]any{
				"type":        []string{"object", "null"},
				"description": "Values of the document's variables.",
			},
		}),
		Call:         t.call,
		ChangesIssue: t.changesIssue,
		MovesTo:      t.movesTo,
		Summary:      summary,
	}
}

// tool is the agent's tool.
type tool struct {
	client   *Client
	readOnly bool
}

// call runs the tool with the agent's arguments: {"query", "variables"}, or the query alone as
// a JSON string.
func (t *tool) call(ctx context.Context, _ reconcile.Issue, args json.RawMessage) reconcile.ToolAnswer {
	in, err := readInput(args)
	if err != nil {
		return t.client.Refused(agenttool.Refusal("invalid_input", err.Error()))
	}
	if !in.mutates() {
		done, err := t.client.execute(ctx, in.query, in.variables)
		if err != nil {
			return t.client.Refused(err)
		}
		return done.forAgent()
	}
	if t.readOnly {
		return t.client.Refused(agenttool.ReadOnly(strings.Join(in.rootFields(), ", ")))
	}
	mutation := &reconcile.Mutation{
		Fields:    in.rootFields(),
		Query:     in.query,
		Variables: in.variables,
	}
	done, err := t.mutate(ctx, in)
	if err != nil {
		answer := t.client.Refused(err)
		answer.Mutation = mutation
		return answer
	}
	mutation.Success = !done.failed
	mutation.Created = done.created
	answer := done.forAgent()
	answer.Mutation = mutation
	return answer
}

// changesIssue reports whether the call changes an issue itself (its state, assignee, labels
// …), beyond commenting or attaching: it is a mutation such as issueUpdate, issueArchive or
// issueAddLabel.
func (t *tool) changesIssue(args json.RawMessage) bool {
	in, err := readInput(args)
	if err != nil || t.readOnly || !in.mutates() {
		return false
	}
	return slices.ContainsFunc(in.rootFields(), func(field string) bool {
		return strings.HasPrefix(field, "issue")
	})
}

// summary names the operation of a call and the objects that it reads or changes: "mutation
// issueUpdate", or "query Mine (viewer)" if the agent named it.
func summary(args json.RawMessage) string {
	in, err := readInput(args)
	if err != nil {
		return ""
	}
	op := in.doc.Operations[0]
	fields := strings.Join(in.rootFields(), ", ")
	if op.Name == "" {
		return string(op.Operation) + " " + fields
	}
	return string(op.Operation) + " " + op.Name + " (" + fields + ")"
}

// executed is Linear's answer to a document.
type executed struct {
	body    json.RawMessage
	failed  bool                // it contains top-level errors, whatever its HTTP status
	created []reconcile.Created // by a mutation
}

// forAgent returns the answer as the agent gets it.
func (e executed) forAgent() reconcile.ToolAnswer {
	return reconcile.ToolAnswer{Text: string(e.body), Success: !e.failed}
}

// execute sends a GraphQL document unchanged. An answer that refuses the key is an error. A
// rate-limited request that was not executed is repeated if the limit ends soon; otherwise the
// error tells the agent when it ends.
func (c *Client) execute(ctx context.Context, query string, variables json.RawMessage) (executed, error) {
	var vars any
	if len(variables) > 0 {
		vars = variables
	}
	var done executed
	var refused error // which is not repeated
	err := c.Patiently(ctx, func() error {
		a, err := c.send(ctx, query, vars, maxAnswer)
		if err != nil {
			return err
		}
		env, err := check[json.RawMessage](c, a)
		_, isLimit := errors.AsType[*transport.RateLimited](err)
		if isLimit && env.Data == nil { // with data a part was executed
			return err
		}
		refusesKey := a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden
		if err != nil && (len(env.Errors) == 0 || refusesKey) {
			refused = err
			return nil
		}
		done = executed{
			body:   json.RawMessage(c.Scrub(string(a.Body))),
			failed: len(env.Errors) > 0,
		}
		return nil
	})
	if err != nil {
		return executed{}, err
	}
	return done, refused
}

// input is a valid call: a single query or mutation.
type input struct {
	query     string
	variables json.RawMessage // an object, or nil
	doc       *ast.QueryDocument
}

// names reports whether the query or the variables contain a word, such as ABC-1, in letters
// of any case.
func (in input) names(word string) bool {
	return word != "" && strings.Contains(strings.ToLower(in.unescaped()), strings.ToLower(word))
}

// unescaped returns the query and the variables without escapes of letters: ABC-1 is written
// "\u0041BC-1", too.
func (in input) unescaped() string {
	var variables any
	_ = json.Unmarshal(in.variables, &variables) // an object, or nothing
	query := escape().ReplaceAllStringFunc(in.query, func(escaped string) string {
		code, _ := strconv.ParseUint(escaped[2:], 16, 16) // four digits, by the pattern
		return string(rune(code))
	})
	return query + string(text.JSON(variables))
}

var escape = text.Pattern(`\\u[0-9A-Fa-f]{4}`)

func (in input) mutates() bool { return in.doc.Operations[0].Operation == ast.Mutation }

func (in input) rootFields() []string {
	return text.Map(in.fields(in.doc.Operations[0].SelectionSet), func(f *ast.Field) string { return f.Name })
}

// fields lists the fields of a selection set and of its fragments. Each fragment is included
// once, even if it contains itself.
func (in input) fields(set ast.SelectionSet) (fields []*ast.Field) {
	entered := map[string]bool{}
	var collect func(ast.SelectionSet)
	collect = func(set ast.SelectionSet) {
		for _, s := range set {
			switch s := s.(type) {
			case *ast.Field:
				fields = append(fields, s)
			case *ast.InlineFragment:
				collect(s.SelectionSet)
			case *ast.FragmentSpread:
				if f := in.doc.Fragments.ForName(s.Name); f != nil && !entered[s.Name] {
					entered[s.Name] = true
					collect(f.SelectionSet)
				}
			}
		}
	}
	collect(set)
	return fields
}

// readInput parses and checks the agent's arguments. The error is for the agent.
func readInput(args json.RawMessage) (input, error) {
	args = bytes.TrimSpace(args)
	if len(args) == 0 {
		return input{}, errors.New("no arguments: pass an object with a query")
	}
	var in input
	switch args[0] {
	case '"':
		if err := json.Unmarshal(args, &in.query); err != nil {
			return input{}, fmt.Errorf("arguments are not valid JSON: %w", err)
		}
	case '{':
		query, variables, err := readObject(args)
		if err != nil {
			return input{}, err
		}
		in.query = query
		in.variables = variables
	default:
		return input{}, errors.New("arguments must be an object with a query, or a query as a string")
	}
	doc, err := parseOperation(in.query)
	if err != nil {
		return input{}, err
	}
	in.doc = doc
	return in, nil
}

// readObject reads {"query": "...", "variables": {...}}.
func readObject(args json.RawMessage) (query string, variables json.RawMessage, err error) {
	// Other keys are ignored: agents add an operationName, which a single operation does not
	// need.
	var in map[string]json.RawMessage
	if err := json.Unmarshal(args, &in); err != nil {
		return "", nil, fmt.Errorf("arguments are not valid JSON: %w", err)
	}
	if json.Unmarshal(in["query"], &query) != nil || in["query"] == nil || string(in["query"]) == "null" {
		return "", nil, errors.New("query must be a string")
	}
	v := in["variables"]
	switch {
	case len(v) == 0 || string(v) == "null":
		return query, nil, nil
	case v[0] != '{':
		return "", nil, errors.New("variables must be an object")
	case len(v) > maxVariables:
		return "", nil, fmt.Errorf("variables are longer than %d bytes", maxVariables)
	}
	return query, v, nil
}

// parseOperation accepts a document with a single query or mutation.
func parseOperation(query string) (*ast.QueryDocument, error) {
	if strings.TrimSpace(query) == "" {
		return nil, errors.New("query must not be empty")
	}
	if len(query) > maxQuery {
		return nil, fmt.Errorf("query is longer than %d bytes", maxQuery)
	}
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: query}, maxTokens)
	if err != nil {
		return nil, fmt.Errorf("query is not valid GraphQL: %w", err)
	}
	if len(doc.Operations) == 0 {
		return nil, errors.New("query contains no operation, only fragments")
	}
	if len(doc.Operations) > 1 {
		return nil, fmt.Errorf("query contains %d operations: send one per call", len(doc.Operations))
	}
	if doc.Operations[0].Operation == ast.Subscription {
		return nil, errors.New("subscription operations are not supported: use a query or a mutation")
	}
	return doc, nil
}
