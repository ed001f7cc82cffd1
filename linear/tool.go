package linear

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"

	"github.com/symphony-cron/symphony/internal/adapter/agenttool"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// The limits of one call: maxTokens is in tokens, the others in bytes.
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
		Describes:    describes,
		MovesTo:      t.movesTo,
		Summary:      summary,
	}
}

type tool struct {
	client   *Client
	readOnly bool
}

// call runs the tool with the agent's arguments: {"query", "variables"}, or the query alone as
// a JSON string.
func (t *tool) call(ctx context.Context, _ reconcile.Issue, args json.RawMessage) reconcile.ToolAnswer {
	in, err := readInput(args)
	switch {
	case err != nil:
		return t.client.Refused(agenttool.Refusal("invalid_input", err.Error()))
	case !in.mutates():
		return t.answer(t.client.execute(ctx, in.query, in.variables))
	case t.readOnly:
		return t.client.Refused(agenttool.ReadOnly(strings.Join(in.rootFields(), ", ")))
	}
	mutation := &reconcile.Mutation{
		Fields:    in.rootFields(),
		Query:     in.query,
		Variables: in.variables,
	}
	answer := t.answer(t.mutate(ctx, in, mutation))
	answer.Mutation = mutation
	mutation.Success = answer.Success
	return answer
}

// changesIssue reports whether the call changes an issue itself (its state, assignee, labels
// …), beyond commenting or attaching: it is a mutation such as issueUpdate, issueArchive or
// issueAddLabel.
func (t *tool) changesIssue(args json.RawMessage) bool {
	in, err := readInput(args)
	return err == nil && !t.readOnly && in.mutates() &&
		slices.ContainsFunc(
			in.rootFields(),
			func(field string) bool { return strings.HasPrefix(field, "issue") },
		)
}

// summary names the operation of a call and what it reads or changes: "mutation issueUpdate",
// or "query Mine (viewer)" if the agent has named it.
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

// describes reports whether the call may change the description of issue.
func describes(issue reconcile.Issue, args json.RawMessage) bool {
	has := func(word string) bool { return word != "" && bytes.Contains(args, []byte(word)) }
	return has("description") && (has("issueUpdate") || has("issueBatchUpdate")) &&
		(has(issue.ID) || has(issue.Identifier))
}

// mutate sends a mutation and records in done what it created.
func (t *tool) mutate(
	ctx context.Context,
	in input,
	done *reconcile.Mutation,
) (body json.RawMessage, failed bool, err error) {
	query, asked := askForIDs(in)
	body, failed, err = t.client.execute(ctx, query, in.variables)
	if err == nil && failed && len(asked) > 0 {
		switch errs := withoutData(body); {
		case slices.ContainsFunc(errs, ofDocument) && !slices.ContainsFunc(errs, ofExecution):
			// Linear executed nothing. The agent's original text is sent, so that an error is
			// about that.
			body, failed, err = t.client.execute(ctx, in.query, in.variables)
		case len(errs) > 0 && !slices.ContainsFunc(errs, ofAgent):
			err = t.client.Fail(
				"linear_unknown_payload",
				"Linear did not say what was created: "+transport.Messages(errs),
			)
		}
	}
	if err != nil {
		return nil, false, t.client.Unsure(err)
	}
	done.Created, body = takeIDs(body, asked)
	return body, failed, nil
}

func (t *tool) answer(body json.RawMessage, failed bool, err error) reconcile.ToolAnswer {
	if err != nil {
		return t.client.Refused(err)
	}
	return reconcile.ToolAnswer{Text: string(body), Success: !failed}
}

// execute sends one GraphQL document unchanged. The body is Linear's answer; failed reports
// whether it contains top-level errors, whatever its HTTP status. An answer that refuses the
// key is an error. A rate-limited request that was not executed is repeated if the limit ends
// soon; otherwise the error tells the agent when it ends.
func (c *Client) execute(
	ctx context.Context,
	query string,
	variables json.RawMessage,
) (body json.RawMessage, failed bool, err error) {
	var vars any
	if len(variables) > 0 {
		vars = variables
	}
	var refused error
	err = c.Patiently(ctx, func() error {
		a, err := c.send(ctx, query, vars, maxAnswer)
		if err != nil {
			return err
		}
		env, err := check[json.RawMessage](c, a)
		switch {
		case errors.As(err, new(*transport.RateLimited)) && env.Data == nil:
			// with data a part was executed
			return err
		case err != nil && (len(env.Errors) == 0 || a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden):
			refused = err
		default:
			body = json.RawMessage(c.Scrub(string(a.Body)))
			failed = len(env.Errors) > 0
		}
		return nil
	})
	if err != nil {
		return body, failed, err
	}
	return body, failed, refused
}

// input is a valid call: one query or mutation.
type input struct {
	query     string
	variables json.RawMessage // an object, or nil
	doc       *ast.QueryDocument
}

func (in input) mutates() bool { return in.doc.Operations[0].Operation == ast.Mutation }

func (in input) rootFields() []string {
	return text.Map(in.fields(in.doc.Operations[0].SelectionSet), func(f *ast.Field) string { return f.Name })
}

// fields lists the fields of a selection set, those of fragments included. Each fragment is
// included once, even if it contains itself.
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
func readInput(args json.RawMessage) (in input, err error) {
	args = bytes.TrimSpace(args)
	switch {
	case len(args) == 0:
		return in, errors.New("no arguments: pass an object with a query")
	case args[0] == '"':
		if err := json.Unmarshal(args, &in.query); err != nil {
			return in, fmt.Errorf("arguments are not valid JSON: %w", err)
		}
	case args[0] == '{':
		if in.query, in.variables, err = readObject(args); err != nil {
			return in, err
		}
	default:
		return in, errors.New("arguments must be an object with a query, or a query as a string")
	}
	in.doc, err = parseOperation(in.query)
	return in, err
}

func readObject(args json.RawMessage) (query string, variables json.RawMessage, err error) {
	// Other keys are ignored: agents add an operationName, which one operation does not need.
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

// parseOperation accepts a document with exactly one query or mutation.
func parseOperation(query string) (doc *ast.QueryDocument, err error) {
	if strings.TrimSpace(query) == "" {
		return doc, errors.New("query must not be empty")
	}
	if len(query) > maxQuery {
		return doc, fmt.Errorf("query is longer than %d bytes", maxQuery)
	}
	if doc, err = parser.ParseQueryWithTokenLimit(&ast.Source{Input: query}, maxTokens); err != nil {
		return doc, fmt.Errorf("query is not valid GraphQL: %w", err)
	}
	switch n := len(doc.Operations); {
	case n == 0:
		return doc, errors.New("query contains no operation, only fragments")
	case n > 1:
		return doc, fmt.Errorf("query contains %d operations: send one per call", n)
	}
	if doc.Operations[0].Operation == ast.Subscription {
		return doc, errors.New("subscription operations are not supported: use a query or a mutation")
	}
	return doc, nil
}

// creators names, for each mutation that creates an entity, the field of its payload that
// contains the entity. Agents rarely select the new id. So the tool adds a selection of it
// under idsAlias, and removes that from the answer.
var creators = map[string]string{
	"commentCreate":             "comment",
	"issueCreate":               "issue",
	"issueBatchCreate":          "issues",
	"issueRelationCreate":       "issueRelation",
	"issueLabelCreate":          "issueLabel",
	"documentCreate":            "document",
	"projectCreate":             "project",
	"projectMilestoneCreate":    "projectMilestone",
	"projectUpdateCreate":       "projectUpdate",
	"reactionCreate":            "reaction",
	"attachmentCreate":          "attachment",
	"attachmentLinkURL":         "attachment",
	"attachmentLinkGitHubPR":    "attachment",
	"attachmentLinkGitHubIssue": "attachment",
	"attachmentLinkGitLabMR":    "attachment",
	"attachmentLinkSlack":       "attachment",
	"attachmentLinkDiscord":     "attachment",
	"attachmentLinkFront":       "attachment",
	"attachmentLinkIntercom":    "attachment",
	"attachmentLinkZendesk":     "attachment",
	"attachmentLinkJiraIssue":   "attachment",
	"attachmentLinkSalesforce":  "attachment",
}

const idsAlias = "symphonyCreated"

// askForIDs adds to a mutation the selection of the ids that it creates. asked maps the keys
// of the answer that will contain them to the kind of entity. Nothing is added to a field in
// which the agent uses the alias itself.
func askForIDs(in input) (query string, asked map[string]string) {
	used := func(s *ast.Field) bool { return s.Alias == idsAlias || s.Name == idsAlias }
	query = in.query
	asked = map[string]string{}
	insertions := map[int]string{}
	for _, f := range in.fields(in.doc.Operations[0].SelectionSet) {
		at := placeIn(query, f.SelectionSet)
		if at > 0 && creators[f.Name] != "" && !slices.ContainsFunc(in.fields(f.SelectionSet), used) {
			insertions[at] = " " + idsAlias + ": " + creators[f.Name] + " { id } "
			asked[f.Alias] = strings.TrimSuffix(creators[f.Name], "s")
		}
	}
	// insertions shift what follows
	for _, at := range slices.Backward(slices.Sorted(maps.Keys(insertions))) {
		query = query[:at] + insertions[at] + query[at:]
	}
	return query, asked
}

// placeIn returns the offset in query at which a selection set can have one field more; 0 if
// there is none.
func placeIn(query string, set ast.SelectionSet) int {
	for _, s := range set {
		switch s := s.(type) {
		case *ast.Field:
			return offset(query, s.Position, s.Alias)
		case *ast.InlineFragment:
			return placeIn(query, s.SelectionSet)
		case *ast.FragmentSpread: // its position is that of the name, which its directives follow
			if at := offset(query, s.Position, s.Name); at > 0 && len(s.Directives) == 0 {
				return at + len(s.Name)
			}
		}
	}
	return 0
}

// offset converts a position, which counts runes, to bytes. It returns 0 if the word is not
// there, because the parser counted differently.
func offset(query string, p *ast.Position, word string) (at int) {
	for range p.Start {
		_, size := utf8.DecodeRuneInString(query[at:])
		at += size
	}
	if !strings.HasPrefix(query[at:], word) {
		return 0
	}
	return at
}

// withoutData returns the errors of an answer that has no data.
func withoutData(body json.RawMessage) []graphqlError {
	var env transport.Envelope[json.RawMessage]
	if json.Unmarshal(body, &env) != nil || env.Data != nil {
		return nil
	}
	return env.Errors
}

// ofDocument reports whether an error means that the document does not fit Linear's schema.
func ofDocument(e graphqlError) bool {
	return e.Extensions.Code == "GRAPHQL_VALIDATION_FAILED" || strings.Contains(e.Message, idsAlias)
}

// ofExecution reports whether an error occurred while the document was executed.
func ofExecution(e graphqlError) bool { return len(e.Path) > 0 }

// ofAgent reports whether an error is about the agent's selections, not about those that
// askForIDs added.
func ofAgent(e graphqlError) bool { return !slices.Contains(e.Path, any(idsAlias)) }

// takeIDs removes from an answer the ids that askForIDs has added, and returns them. An answer
// without them stays unchanged, byte for byte.
func takeIDs(
	body json.RawMessage,
	asked map[string]string,
) (created []reconcile.Created, rest json.RawMessage) {
	var answer, data map[string]json.RawMessage
	if json.Unmarshal(body, &answer) != nil || json.Unmarshal(answer["data"], &data) != nil {
		return nil, body
	}
	changed := false
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		var payload map[string]json.RawMessage
		if json.Unmarshal(data[key], &payload) != nil || payload[idsAlias] == nil {
			continue
		}
		ids := idsIn(payload[idsAlias])
		created = append(created, text.Map(ids, func(id string) reconcile.Created {
			return reconcile.Created{
				Kind: asked[key],
				ID:   id,
			}
		})...)
		delete(payload, idsAlias)
		data[key] = text.JSON(payload)
		changed = true
	}
	if !changed {
		return nil, body
	}
	answer["data"] = text.JSON(data)
	return created, text.JSON(answer)
}

// idsIn reads {"id": …} or a list of such objects; null contains none.
func idsIn(value json.RawMessage) []string {
	type entity struct {
		ID string `json:"id"`
	}
	var list []entity
	if json.Unmarshal(value, &list) != nil {
		list = make([]entity, 1)
		if json.Unmarshal(value, &list[0]) != nil {
			return nil
		}
	}
	return text.Filter(
		text.Map(list, func(e entity) string { return e.ID }),
		func(id string) bool { return id != "" },
	)
}
