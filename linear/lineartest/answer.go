package lineartest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/graphqltest"
	"github.com/symphony-cron/symphony/internal/text"

	"github.com/vektah/gqlparser/v2/ast"
)

type request struct {
	Query         string         `json:"query"`
	OperationName string         `json:"operationName"`
	Variables     map[string]any `json:"variables"`
}

// apiError is an entry of errors, in Linear's shape.
type apiError struct {
	Message    string     `json:"message"`
	Path       []any      `json:"path,omitempty"`
	Extensions extensions `json:"extensions"`
}

type extensions struct {
	Type    string `json:"type"`
	Code    string `json:"code"`
	Present string `json:"userPresentableMessage,omitempty"`
}

func inputError(message string) apiError {
	return apiError{
		Message:    message,
		Extensions: extensions{"invalid input", "INPUT_ERROR", message},
	}
}

func notFound(typ string) apiError {
	e := inputError("Entity not found: " + typ)
	e.Extensions.Present = "Could not find " + typ + "."
	return e
}

func authError(message string) apiError {
	return apiError{
		Message:    message,
		Extensions: extensions{"authentication error", "AUTHENTICATION_ERROR", "A valid key is needed."},
	}
}

func rateError() apiError {
	return apiError{
		Message:    "Rate limit exceeded",
		Extensions: extensions{"ratelimited", "RATELIMITED", "This key's allowance is used up."},
	}
}

func graphqlError(code, message string) apiError {
	return apiError{Message: message, Extensions: extensions{Type: "graphql error", Code: code}}
}

// result is an answer: GraphQL's data and errors, or a text.
type result struct {
	status int
	text   *string
	// a map, nil for null; absent if the request was refused before its execution
	Data   any        `json:"data,omitzero"`
	Errors []apiError `json:"errors,omitempty"`
}

func refuse(status int, errs ...apiError) result { return result{status: status, Errors: errs} }

func plain(status int, body string) result { return result{status: status, text: &body} }

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Date", s.now().UTC().Format(http.TimeFormat))
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	out := s.answer(w.Header(), r)
	body := text.JSON(out)
	if out.text != nil {
		body = []byte(*out.text)
	}
	w.WriteHeader(out.status)
	_, _ = w.Write(body) // the client may be gone
}

func (s *Server) answer(h http.Header, r *http.Request) (out result) {
	if r.URL.Path != "/graphql" || r.Method != http.MethodPost {
		return plain(http.StatusNotFound, "GraphQL is served by POST /graphql")
	}
	var req request
	decodeErr := json.NewDecoder(r.Body).Decode(&req)
	asked, parseErr := graphqltest.Parse(req.Query, req.OperationName, req.Variables)
	q := &query{Request: asked}
	s.mu.Lock()
	s.log = append(s.log[max(0, len(s.log)-maxLog+1):], Entry{q.Name})
	f := s.failureOf(q)
	s.mu.Unlock()
	if out, ordered := s.instead(f, h); ordered {
		return out
	}
	fault, known := s.authenticate(r.Header.Get("Authorization"))
	switch {
	case decodeErr != nil:
		return refuse(http.StatusBadRequest, inputError("the request is no JSON object with a query"))
	case !known:
		return fault
	}
	s.mu.Lock() // each request sees all effects of earlier ones
	defer s.mu.Unlock()
	out = s.execute(h, q, parseErr)
	data, _ := out.Data.(map[string]any)
	alter(f, data)
	return out
}

// execute answers a request under the lock.
func (s *Server) execute(h http.Header, q *query, parseErr error) result {
	const bad = http.StatusBadRequest
	enough := s.requests.take(1) && s.points.take(1)
	defer s.limitHeaders(h)
	switch {
	case !enough:
		return refuse(bad, rateError())
	case parseErr != nil:
		return refuse(bad, graphqlError("GRAPHQL_PARSE_FAILED", parseErr.Error()))
	}
	if s.config.Validate != nil {
		if faults := s.config.Validate(q.Request); len(faults) > 0 {
			return refuse(
				bad,
				text.Map(
					faults,
					func(e error) apiError { return graphqlError("GRAPHQL_VALIDATION_FAILED", e.Error()) },
				)...)
		}
	}
	if beyond := q.beyond(); s.strict && beyond != "" {
		return refuse(
			bad,
			graphqlError("GRAPHQL_VALIDATION_FAILED", beyond+" is not part of the specification"),
		)
	}
	points := q.complexity()
	h.Set("X-Complexity", fmt.Sprint(points))
	if points > largestComplexity {
		return refuse(
			bad,
			inputError(
				fmt.Sprintf("the query is too complex: %g points, %d are allowed", points, largestComplexity),
			),
		)
	}
	if !s.points.take(points - 1) {
		return refuse(bad, rateError())
	}
	q.w = s.w
	data, errs := q.answer()
	return result{status: http.StatusOK, Data: data, Errors: errs}
}

// authenticate reports whether a header contains the key, and returns the answer if not.
func (s *Server) authenticate(header string) (result, bool) {
	token, bearer := strings.CutPrefix(header, "Bearer ")
	switch {
	case token == s.config.Key && !bearer:
		return result{}, true
	case bearer && strings.HasPrefix(token, "lin_api_"):
		return refuse(
			http.StatusBadRequest,
			authError("You are trying to use an API key as a Bearer token: send it bare"),
		), false
	}
	return refuse(http.StatusUnauthorized, authError("Authentication required, not authenticated")), false
}

// allowance is an hourly allowance. Linear renews its allowances at a constant rate, which the
// headers show; here they are never renewed.
type allowance struct{ limit, left float64 }

func newAllowance(limit int) allowance { return allowance{float64(limit), float64(limit)} }

// take uses n of the allowance. It returns false if less is left.
func (a *allowance) take(n float64) bool {
	if a.left < n {
		return false
	}
	a.left -= n
	return true
}

func (s *Server) limitHeaders(h http.Header) {
	for kind, a := range map[string]allowance{"Requests": s.requests, "Complexity": s.points} {
		full := s.config.Now().Add(time.Duration((a.limit - a.left) / a.limit * float64(time.Hour)))
		h.Set("X-RateLimit-"+kind+"-Limit", strconv.FormatFloat(a.limit, 'f', 0, 64))
		h.Set("X-RateLimit-"+kind+"-Remaining", strconv.FormatFloat(math.Floor(a.left), 'f', 0, 64))
		h.Set("X-RateLimit-"+kind+"-Reset", strconv.FormatInt(full.UnixMilli(), 10))
	}
}

// The kinds of Failure.
const (
	FailStatus  = "status"  // answer with Status and Body
	FailGraphQL = "graphql" // HTTP 200 with a single error of Message
	// HTTP 400 RATELIMITED, or Status; allowance gone until ResetMS from now
	FailRateLimit = "rate_limit"
	FailHang      = "hang"           // accept and never answer
	FailClose     = "close"          // close the connection without an answer
	FailGarbage   = "garbage"        // HTTP 200 with a body that is not JSON
	FailSlow      = "slow"           // answer correctly, but DelayMS later
	FailCursor    = "missing_cursor" // say that there are more pages, without a cursor
	// replace the Field of an issue in the answer: of Issue, or of the first
	FailMalformed = "malformed"
)

var failKinds = []string{
	FailStatus,
	FailGraphQL,
	FailRateLimit,
	FailHang,
	FailClose,
	FailGarbage,
	FailSlow,
	FailCursor,
	FailMalformed,
}

// Failure makes requests fail.
type Failure = graphqltest.Failure

// failureOf returns the failure that applies to a request, and counts it; nil for none.
func (s *Server) failureOf(q *query) *Failure {
	return s.Next(func(f *Failure) bool {
		isRoot := func(field *ast.Field) bool { return field.Name == f.Operation }
		return f.Operation == "" || f.Operation == q.Name ||
			slices.ContainsFunc(q.fields(q.SelectionSet), isRoot)
	})
}

// instead returns the answer of a failure; false if the server is to answer.
func (s *Server) instead(f *Failure, h http.Header) (result, bool) {
	if f == nil {
		return result{}, false
	}
	switch f.Kind {
	case FailStatus:
		return plain(cmp.Or(f.Status, http.StatusInternalServerError), f.Body), true
	case FailGarbage:
		return plain(http.StatusOK, "<html>this is no JSON"), true
	case FailGraphQL:
		return refuse(http.StatusOK, graphqlError("", cmp.Or(f.Message, "made to fail"))), true
	case FailRateLimit:
		s.mu.Lock()
		s.limitHeaders(h)
		s.mu.Unlock()
		h.Set("X-RateLimit-Requests-Remaining", "0")
		h.Set(
			"X-RateLimit-Requests-Reset",
			strconv.FormatInt(s.config.Now().Add(time.Duration(f.ResetMS)*time.Millisecond).UnixMilli(), 10),
		)
		if f.RetryAfter > 0 {
			h.Set("Retry-After", strconv.Itoa(f.RetryAfter))
		}
		return refuse(cmp.Or(f.Status, http.StatusBadRequest), rateError()), true
	case FailSlow:
		select {
		case <-time.After(time.Duration(f.DelayMS) * time.Millisecond):
		case <-s.ctx.Done():
		}
	case FailHang:
		<-s.ctx.Done()
		fallthrough
	case FailClose:
		panic(http.ErrAbortHandler)
	}
	return result{}, false
}

// alter changes the data of an answer.
func alter(f *Failure, data map[string]any) {
	switch {
	case f == nil:
	case f.Kind == FailCursor:
		for _, value := range data {
			list, _ := value.(map[string]any)
			if info, ok := list["pageInfo"].(map[string]any); ok {
				info["hasNextPage"] = true
				info["endCursor"] = nil
			}
		}
	case f.Kind == FailMalformed:
		f.Spoil(data, func(o map[string]any) bool { return o["id"] == f.Issue || o["identifier"] == f.Issue })
	}
}
