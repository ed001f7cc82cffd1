package githubtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"
)

// The environment variables that name files with GitHub's published descriptions. What one describes is not checked without it.
const (
	OpenAPIVariable = "SYMPHONY_GITHUB_OPENAPI" // api.github.com.json of npm's @octokit/openapi
	SchemaVariable  = "SYMPHONY_GITHUB_SCHEMA"  // schema.graphql of npm's @octokit/graphql-schema
)

// mistake is the status of an answer to a request that GitHub does not know, or to which this server has no answer of GitHub's.
const mistake = 599

// readFile reads the file that a variable names; nil if the variable is not set.
func readFile(variable string) []byte {
	path := os.Getenv(variable)
	if path == "" {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	return data
}

// dependencies are GitHub's changes of the schema of 2025-07-30, which version 15.26.1 of the package lacks.
const dependencies = `
enum IssueDependencyOrderField { CREATED_AT DEPENDENCY_ADDED_AT }
input IssueDependencyOrder { direction: OrderDirection! field: IssueDependencyOrderField! }
type IssueDependenciesSummary { blockedBy: Int! blocking: Int! totalBlockedBy: Int! totalBlocking: Int! }
extend type Issue {
  blockedBy(after: String, before: String, first: Int, last: Int, orderBy: IssueDependencyOrder): IssueConnection!
  blocking(after: String, before: String, first: Int, last: Int, orderBy: IssueDependencyOrder): IssueConnection!
  issueDependenciesSummary: IssueDependenciesSummary!
}
`

// schema is GitHub's GraphQL schema; nil without the variable.
var schema = sync.OnceValue(func() *ast.Schema {
	data := readFile(SchemaVariable)
	if data == nil {
		return nil
	}
	if !bytes.Contains(data, []byte("IssueDependencyOrder")) {
		data = append(data, dependencies...)
	}
	doc, err := parser.ParseSchemas(validator.Prelude, &ast.Source{Name: SchemaVariable, Input: string(data)})
	if err != nil {
		panic(err)
	}
	for _, def := range doc.Definitions { // GitHub publishes a few fields twice
		seen := map[string]bool{}
		def.Fields = slices.DeleteFunc(def.Fields, func(f *ast.FieldDefinition) bool {
			twice := seen[f.Name]
			seen[f.Name] = true
			return twice
		})
	}
	s, err := validator.ValidateSchemaDocument(doc)
	if err != nil {
		panic(err)
	}
	return s
})

var reference = regexp.MustCompile(`"\$ref":\s*"#/components/(\w+)/([^"]+)"`)

// description is the part of GitHub's OpenAPI description that is about the routes, with all that it refers to: the whole would
// take seconds to load. It is nil without the variable.
var description = sync.OnceValue(func() *openapi3.T {
	data := readFile(OpenAPIVariable)
	if data == nil {
		return nil
	}
	type parts = map[string]json.RawMessage
	var all struct {
		OpenAPI    string           `json:"openapi"`
		Info       json.RawMessage  `json:"info"`
		Paths      parts            `json:"paths"`
		Components map[string]parts `json:"components"`
	}
	if err := json.Unmarshal(data, &all); err != nil {
		panic(err)
	}
	paths, used := parts{}, map[string]parts{}
	var follow func(text json.RawMessage)
	follow = func(text json.RawMessage) {
		for _, m := range reference.FindAllSubmatch(text, -1) {
			kind, name := string(m[1]), string(m[2])
			if used[kind] == nil {
				used[kind] = parts{}
			}
			if used[kind][name] == nil {
				used[kind][name] = all.Components[kind][name]
				follow(used[kind][name])
			}
		}
	}
	for _, r := range routes {
		if text, there := all.Paths[r.full()]; there {
			paths[r.full()] = text
			follow(text)
		}
	}
	all.Paths, all.Components = paths, used
	data, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(data)
	if err != nil {
		panic(err)
	}
	return doc
})

// checked answers a request by its route, and checks both by GitHub's description. What is wrong is reported and answered 599.
func (c *call) checked(to route) answer {
	doc, path := description(), to.full()
	if doc == nil || doc.Paths.Value(path) == nil || c.isGraphQL() {
		return to.answer(c)
	}
	item := doc.Paths.Value(path)
	operation := item.GetOperation(to.method)
	if operation == nil {
		return c.mistake(to.method + " is not described")
	}
	params := map[string]string{}
	for _, name := range names.FindAllStringSubmatch(path, -1) {
		params[name[1]] = c.r.PathValue(name[1])
	}
	if c.repo != nil {
		params["owner"], params["repo"], _ = strings.Cut(c.repo.name, "/")
	}
	for name := range c.r.URL.Query() {
		is := func(p *openapi3.ParameterRef) bool { return p.Value.Name == name && p.Value.In == "query" }
		if !slices.ContainsFunc(operation.Parameters, is) {
			return c.mistake("there is no parameter " + name)
		}
	}
	input := &openapi3filter.RequestValidationInput{
		Request: c.r, PathParams: params,
		Route:   &routers.Route{Spec: doc, Path: path, PathItem: item, Method: to.method, Operation: operation},
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, SkipSettingDefaults: true},
	}
	input.Options.WithCustomSchemaErrorFunc(func(e *openapi3.SchemaError) string { // without the schema and the value
		return strings.Join(append(e.JSONPointer(), e.Reason), ": ")
	})
	c.r.Body = io.NopCloser(bytes.NewReader(c.body))
	if err := openapi3filter.ValidateRequest(c.r.Context(), input); err != nil {
		return c.mistake("request: " + err.Error())
	}
	out := c.try(func() answer { return to.answer(c) })
	if operation.Responses.Status(out.status) == nil {
		if out.status < 300 {
			return c.mistake(fmt.Sprint("the answer has status ", out.status))
		}
		return out
	}
	response := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: out.status, Header: c.header, Options: input.Options,
	}
	response.SetBodyBytes(encode(out.body))
	if err := openapi3filter.ValidateResponse(c.r.Context(), response); err != nil {
		return c.mistake("answer: " + err.Error())
	}
	return out
}

// mistake reports what is wrong with a request or with this server's answer.
func (c *call) mistake(what string) answer {
	what = c.r.Method + " " + c.r.URL.RequestURI() + ": " + what
	if c.Errorf != nil {
		c.Errorf("GitHub's description: %s", what)
	}
	c.mistakes = append(c.mistakes, what)
	return problem(mistake, what)
}

// Mistakes returns what was wrong with requests and answers by GitHub's descriptions.
func (s *Server) Mistakes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mistakes)
}

// parseQuery parses a GraphQL request and checks it by the schema, if there is one.
func (c *call) parseQuery(text, operation string, variables map[string]any) (*ast.QueryDocument, error) {
	if schema() == nil {
		return parser.ParseQuery(&ast.Source{Input: text})
	}
	doc, errs := gqlparser.LoadQueryWithRules(schema(), text, nil)
	if len(errs) > 0 {
		return nil, errs
	}
	op := doc.Operations.ForName(operation)
	if op == nil {
		return nil, fmt.Errorf("operationName must name one of the operations")
	}
	given := map[string]any{} // the validator changes it
	data, err := json.Marshal(variables)
	if err == nil {
		err = json.Unmarshal(data, &given)
	}
	if err == nil {
		_, err = validator.VariableValues(schema(), op, given)
	}
	return doc, err
}

// conforms reports whether the value of a field has its type.
func conforms(v any, t *ast.Type) bool {
	switch {
	case v == nil:
		return !t.NonNull
	case t.Elem != nil:
		list, is := v.([]any)
		return is && !slices.ContainsFunc(list, func(one any) bool { return !conforms(one, t.Elem) })
	}
	def := schema().Types[t.Name()]
	text, isText := v.(string)
	switch {
	case def.Kind == ast.Enum:
		return isText && def.EnumValues.ForName(text) != nil
	case def.Kind != ast.Scalar:
		_, is := v.(object)
		return is
	case t.Name() == "Boolean":
		_, is := v.(bool)
		return is
	case t.Name() == "Int" || t.Name() == "Float":
		_, err := fmt.Sscan(fmt.Sprint(v), new(float64))
		return err == nil && !isText
	}
	return isText
}

var names = regexp.MustCompile(`\{(\w+)\}`)

// full is the path as GitHub's description writes it.
func (r route) full() string {
	return strings.NewReplacer(
		"ISSUE", "/repos/{owner}/{repo}/issues/{issue_number}", "REPO", "/repos/{owner}/{repo}",
		"/orgs/BOARD", "/orgs/{org}/projectsV2/{project_number}",
	).Replace(r.path)
}

// undeclared is a route for what nothing else answers.
var undeclared = route{http.MethodGet, "", func(*call) answer { return missing }}
