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
		Describes:    describes,
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

// describes reports whether the call may change the description of issue.
func describes(issue reconcile.Issue, args json.RawMessage) bool {
	has := func(word string) bool { return word != "" && bytes.Contains(args, []byte(word)) }
	updates := has("issueUpdate") || has("issueBatchUpdate")
	isNamed := has(issue.ID) || has(issue.Identifier)
	return has("description") && updates && isNamed
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

// mutate sends a mutation, and finds the ids of the objects that it created.
func (t *tool) mutate(ctx context.Context, in input) (executed, error) {
	query, asked := askForIDs(in)
	done, err := t.client.execute(ctx, query, in.variables)
	if err != nil {
		return executed{}, t.client.Unsure(err)
	}
	if done.failed && len(asked) > 0 {
		errs := withoutData(done.body)
		switch {
		case slices.ContainsFunc(errs, ofDocument) && !slices.ContainsFunc(errs, ofExecution):
			// Linear executed nothing. The agent's original text is sent, so that an error is
			// about that.
			done, err = t.client.execute(ctx, in.query, in.variables)
			if err != nil {
				return executed{}, t.client.Unsure(err)
			}
		case len(errs) > 0 && !slices.ContainsFunc(errs, ofAgent):
			return executed{}, t.client.Unsure(t.client.Fail(
				"linear_unknown_payload",
				"Linear did not say what was created: "+transport.Messages(errs),
			))
		}
	}
	done.created, done.body = takeIDs(done.body, asked)
	return done, nil
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

func (in input) mutates() bool { return in.doc.Operations[0].Operation == ast.Mutation }

func (in input) rootFields() []string {
	return text.Map(in.fields(in.doc.Operations[0].SelectionSet), func(f *ast.Field) string { return f.Name })
}

// fields lists the fields of a selection set and of its fragments. Each fragment is
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
		creates := creators[f.Name]
		at := placeIn(query, f.SelectionSet)
		if creates == "" || at == 0 || slices.ContainsFunc(in.fields(f.SelectionSet), used) {
			continue
		}
		insertions[at] = " " + idsAlias + ": " + creates + " { id } "
		asked[f.Alias] = strings.TrimSuffix(creates, "s")
	}
	// an insertion shifts the text after it
	for _, at := range slices.Backward(slices.Sorted(maps.Keys(insertions))) {
		query = query[:at] + insertions[at] + query[at:]
	}
	return query, asked
}

// placeIn returns the offset in query at which a field can be added to a selection set; 0 if
// there is none. It is not in or behind a fragment with directives: with @include(if: false),
// the field would be left out, too.
func placeIn(query string, set ast.SelectionSet) int {
	for _, s := range set {
		at := 0
		switch s := s.(type) {
		case *ast.Field:
			return offset(query, s.Position, s.Alias)
		case *ast.InlineFragment:
			if len(s.Directives) == 0 {
				at = placeIn(query, s.SelectionSet)
			}
		case *ast.FragmentSpread:
			if len(s.Directives) == 0 {
				at = afterName(query, s)
			}
		}
		if at > 0 {
			return at
		}
	}
	return 0
}

// afterName returns the offset behind a fragment spread without directives; 0 if it is not
// known. Its position is where its name begins.
func afterName(query string, s *ast.FragmentSpread) int {
	at := offset(query, s.Position, s.Name)
	if at == 0 {
		return 0
	}
	return at + len(s.Name)
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

// withoutData returns the errors of an answer without data.
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

// ofAgent reports whether an error is about the agent's selections, not about the selections
// that askForIDs added.
func ofAgent(e graphqlError) bool { return !slices.Contains(e.Path, any(idsAlias)) }

// takeIDs removes from an answer the ids that askForIDs added, and returns them. An answer
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
			return reconcile.Created{Kind: asked[key], ID: id}
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
	ids := text.Map(list, func(e entity) string { return e.ID })
	return text.Filter(ids, func(id string) bool { return id != "" })
}
