package lineartest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"
)

const maxRequest = 4 << 20

type request struct {
	Query         string         `json:"query"`
	OperationName string         `json:"operationName"`
	Variables     map[string]any `json:"variables"`
}

func (s *Server) serveGraphQL(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "POST only", http.StatusMethodNotAllowed)
		return
	}
	e := &Entry{Fields: []string{}, Variables: map[string]any{}, Errors: []string{}}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		http.Error(w, "request is too large or cut off", http.StatusBadRequest)
		return
	}
	var req request
	d := json.NewDecoder(bytes.NewReader(body))
	decodeErr := d.Decode(&req)
	e.describe(req)

	s.mu.Lock()
	e.At = s.now()
	s.record(e)
	f := s.nextFailure(e.Operation, e.Fields)
	if f != nil {
		e.Failure = f.Kind
	}
	s.mu.Unlock()
	if f != nil && s.before(w, r, f, e) {
		return
	}
	if decodeErr != nil {
		s.replyErrors(w, http.StatusBadRequest, []apiError{inputError("the request is no JSON object with a query")}, e)
		return
	}
	if status, fault := s.authenticate(r.Header.Get("Authorization")); status != 0 {
		s.replyErrors(w, status, []apiError{fault}, e)
		return
	}
	s.answer(w, req, f, e)
}

// describe fills in what can be told without the schema.
func (e *Entry) describe(req request) {
	e.Query = req.Query
	if req.Variables != nil {
		e.Variables = req.Variables
	}
	doc, err := parser.ParseQuery(&ast.Source{Input: req.Query})
	if err != nil {
		return // answered with the error later
	}
	e.Operation, e.Fields = rootFields(doc)
	if req.OperationName != "" {
		e.Operation = req.OperationName
	}
	for _, op := range doc.Operations {
		if e.Type == "" || op.Name == e.Operation {
			e.Type = string(op.Operation)
		}
	}
}

// authenticate returns the status and the error for a header that is not the key's, 0 for one that is.
func (s *Server) authenticate(header string) (int, apiError) {
	token, bearer := strings.CutPrefix(header, "Bearer ")
	oauth := strings.HasPrefix(s.key, "lin_oauth_")
	switch {
	case token == s.key && bearer == oauth:
		return 0, apiError{}
	case bearer && strings.HasPrefix(token, "lin_api_"):
		return http.StatusBadRequest, authError("You are trying to use an API key as a Bearer token: send it bare")
	}
	return http.StatusUnauthorized, authError("Authentication required, not authenticated")
}

// answer executes a request of somebody who may.
func (s *Server) answer(w http.ResponseWriter, req request, f *Failure, e *Entry) {
	s.mu.Lock()
	status, data, errs := s.execute(w.Header(), req, e)
	if f != nil {
		f.after(data)
	}
	s.mu.Unlock()
	if status != http.StatusOK {
		s.replyErrors(w, status, errs, e)
		return
	}
	s.replyData(w, data, errs, e)
}

// execute runs the request under the lock: one after the other, each sees the whole effect of those before.
func (s *Server) execute(h http.Header, req request, e *Entry) (int, any, []apiError) {
	if !s.allow(h) {
		return http.StatusBadRequest, nil, []apiError{rateError()}
	}
	schema, err := loadSchema()
	if err != nil {
		return http.StatusInternalServerError, nil, []apiError{asAPIError(err)}
	}
	op, vars, list := prepare(schema, req.Query, req.OperationName, req.Variables)
	if len(list) > 0 {
		return http.StatusBadRequest, nil, graphqlFault(list)
	}
	points := price(schema, op, vars)
	e.Complexity = int(points)
	if points > LargestComplexity {
		h.Set("X-Complexity", fmt.Sprint(int(points)))
		return http.StatusBadRequest, nil, []apiError{inputError(
			fmt.Sprintf("the query is too complex: %d points, %d are allowed", int(points), LargestComplexity))}
	}
	if !s.charge(h, points) {
		return http.StatusBadRequest, nil, []apiError{rateError()}
	}
	x := &execution{w: s.w, schema: schema, vars: vars}
	data := x.run(op)
	return http.StatusOK, data, x.errs
}

// prepare parses and validates a document, picks its operation and coerces its variables.
func prepare(schema *ast.Schema, query, name string, variables map[string]any) (*ast.OperationDefinition, map[string]any, gqlerror.List) {
	doc, list := gqlparser.LoadQueryWithRules(schema, query, nil)
	if len(list) > 0 {
		return nil, nil, list
	}
	op := doc.Operations.ForName(name)
	if op == nil || (name == "" && len(doc.Operations) > 1) {
		return nil, nil, gqlerror.List{gqlerror.Errorf("operationName must name one of the operations")}
	}
	if op.Operation == ast.Subscription {
		return nil, nil, gqlerror.List{gqlerror.Errorf("subscriptions are not served here")}
	}
	given, err := plainJSON(variables)
	if err != nil {
		return nil, nil, gqlerror.List{gqlerror.Wrap(err)}
	}
	vars, err := validator.VariableValues(schema, op, given)
	if err != nil {
		g := &gqlerror.Error{}
		if !errors.As(err, &g) {
			g = gqlerror.Wrap(err)
		}
		return nil, nil, gqlerror.List{g}
	}
	plain, err := plainJSON(vars)
	if err != nil {
		return nil, nil, gqlerror.List{gqlerror.Wrap(err)}
	}
	return op, plain, nil
}

// plainJSON makes variables consist of what JSON decodes to: a list that GraphQL made of one value has another type.
func plainJSON(vars map[string]any) (map[string]any, error) {
	b, err := json.Marshal(vars)
	if err != nil {
		return nil, fmt.Errorf("variables: %w", err)
	}
	plain := map[string]any{}
	if err := json.Unmarshal(b, &plain); err != nil {
		return nil, fmt.Errorf("variables: %w", err)
	}
	return plain, nil
}

func (s *Server) replyData(w http.ResponseWriter, data any, errs []apiError, e *Entry) {
	out := struct {
		Data   any        `json:"data"`
		Errors []apiError `json:"errors,omitempty"`
	}{data, errs}
	s.replyJSON(w, http.StatusOK, out, errs, e)
}

func (s *Server) replyErrors(w http.ResponseWriter, status int, errs []apiError, e *Entry) {
	out := struct {
		Errors []apiError `json:"errors"`
	}{errs}
	s.replyJSON(w, status, out, errs, e)
}

func (s *Server) replyJSON(w http.ResponseWriter, status int, out any, errs []apiError, e *Entry) {
	body, err := json.Marshal(out)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"errors":[{"message":"encode answer"}]}`)
	}
	s.mu.Lock()
	for _, x := range errs {
		e.Errors = append(e.Errors, x.Message)
	}
	s.mu.Unlock()
	s.reply(w, status, body, e)
}

// reply notes the status before it is sent, so that whoever has the answer finds it in the log.
func (s *Server) reply(w http.ResponseWriter, status int, body []byte, e *Entry) {
	s.mu.Lock()
	e.Status = status
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	// A client that is gone is no fault of the server.
	_, _ = w.Write(body)
}
