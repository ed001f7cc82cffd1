package lineartest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

const maxRequest = 4 << 20

type request struct {
	Query         string         `json:"query"`
	OperationName string         `json:"operationName"`
	Variables     map[string]any `json:"variables"`
}

// apiError is one entry of errors, shaped as Linear's are.
type apiError struct {
	Message    string     `json:"message"`
	Path       []any      `json:"path,omitempty"`
	Extensions extensions `json:"extensions"`
}

type extensions struct {
	Type      string `json:"type"`
	Code      string `json:"code"`
	Status    int    `json:"statusCode"`
	UserError bool   `json:"userError"`
	Present   string `json:"userPresentableMessage,omitempty"`
}

func (e apiError) Error() string { return e.Message }

func inputError(message string) apiError {
	return apiError{Message: message, Extensions: extensions{"invalid input", "INPUT_ERROR", 400, true, message}}
}

func notFound(typ string) apiError {
	return apiError{Message: "Entity not found: " + typ, Extensions: extensions{
		"invalid input", "INPUT_ERROR", 400, true, "Could not find referenced " + typ + ".",
	}}
}

func authError(message string) apiError {
	return apiError{Message: message, Extensions: extensions{
		"authentication error", "AUTHENTICATION_ERROR", 401, true, "A valid key is needed.",
	}}
}

func rateError() apiError {
	return apiError{Message: "Rate limit exceeded", Extensions: extensions{
		"ratelimited", "RATELIMITED", 400, true, "The allowance of this key is used up.",
	}}
}

func asAPIError(err error) apiError {
	if e := (apiError{}); errors.As(err, &e) {
		return e
	}
	return apiError{Message: err.Error(), Extensions: extensions{"internal error", "INTERNAL_SERVER_ERROR", 500, false, ""}}
}

// ServeHTTP implements http.Handler. GraphQL is served at /graphql.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/graphql" {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "POST only", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		http.Error(w, "request is too large or cut off", http.StatusBadRequest)
		return
	}
	var req request
	decodeErr := json.Unmarshal(body, &req)
	q, parseErr := parse(req)
	operation, fields := "", []string{}
	if parseErr == nil {
		operation = q.op.Name
		for _, f := range q.fields(q.op.Selections) {
			fields = append(fields, f.Name)
		}
	}
	s.mu.Lock()
	s.log = append(s.log[max(0, len(s.log)-maxLog+1):], Entry{operation, req.Query, req.Variables})
	f := s.nextFailure(operation, fields)
	s.mu.Unlock()
	if f != nil && s.before(w, r, f) {
		return
	}
	if decodeErr != nil {
		replyErrors(w, http.StatusBadRequest, inputError("the request is no JSON object with a query"))
		return
	}
	if status, fault := s.authenticate(r.Header.Get("Authorization")); status != 0 {
		replyErrors(w, status, fault)
		return
	}
	s.mu.Lock()
	status, data, errs := s.execute(w.Header(), req, q, parseErr)
	if f != nil {
		f.after(data)
	}
	s.mu.Unlock()
	if status != http.StatusOK {
		replyErrors(w, status, errs...)
		return
	}
	replyJSON(w, status, struct {
		Data   map[string]any `json:"data"`
		Errors []apiError     `json:"errors,omitempty"`
	}{data, errs})
}

// execute answers a request under the lock: each sees all effects of those before.
func (s *Server) execute(h http.Header, req request, q *query, parseErr error) (status int, data map[string]any, errs []apiError) {
	refuse := func(errs ...apiError) (int, map[string]any, []apiError) { return http.StatusBadRequest, nil, errs }
	enough := s.requests.take(s.config.Now(), 1) && s.points.take(s.config.Now(), 1)
	s.limitHeaders(h)
	switch {
	case !enough:
		return refuse(rateError())
	case parseErr != nil:
		return refuse(graphqlError("GRAPHQL_PARSE_FAILED", parseErr.Error()))
	case q.op.Type == "subscription":
		return refuse(graphqlError("GRAPHQL_VALIDATION_FAILED", "subscriptions are not served here"))
	}
	if s.config.Validate != nil {
		for _, message := range s.config.Validate(req.Query, req.OperationName, req.Variables) {
			errs = append(errs, graphqlError("GRAPHQL_VALIDATION_FAILED", message))
		}
		if len(errs) > 0 {
			return refuse(errs...)
		}
	}
	points := q.complexity()
	h.Set("X-Complexity", fmt.Sprint(points))
	if points > largestComplexity {
		return refuse(inputError(fmt.Sprintf("the query is too complex: %g points, %d are allowed", points, largestComplexity)))
	}
	enough = s.points.take(s.config.Now(), points-1)
	s.limitHeaders(h)
	if !enough {
		return refuse(rateError())
	}
	q.w = s.w
	data, errs = q.answer()
	return http.StatusOK, data, errs
}

func graphqlError(code, message string) apiError {
	return apiError{Message: message, Extensions: extensions{"graphql error", code, 400, true, ""}}
}

// authenticate returns the status and the error for a header that is not the key's, 0 for one that is.
func (s *Server) authenticate(header string) (int, apiError) {
	token, bearer := strings.CutPrefix(header, "Bearer ")
	oauth := strings.HasPrefix(s.config.Key, "lin_oauth_")
	switch {
	case token == s.config.Key && bearer == oauth:
		return 0, apiError{}
	case bearer && strings.HasPrefix(token, "lin_api_"):
		return http.StatusBadRequest, authError("You are trying to use an API key as a Bearer token: send it bare")
	}
	return http.StatusUnauthorized, authError("Authentication required, not authenticated")
}

func replyErrors(w http.ResponseWriter, status int, errs ...apiError) {
	replyJSON(w, status, map[string]any{"errors": errs})
}

func replyJSON(w http.ResponseWriter, status int, out any) {
	body, err := json.Marshal(out)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"errors":[{"message":"encode answer"}]}`)
	}
	reply(w, status, body)
}

func reply(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone is no fault of the server
}
