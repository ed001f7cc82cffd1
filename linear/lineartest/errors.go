package lineartest

import (
	"errors"
	"strings"

	"github.com/vektah/gqlparser/v2/gqlerror"
)

// apiError is one entry of errors, shaped as Linear's are.
type apiError struct {
	Message    string     `json:"message"`
	Path       []any      `json:"path,omitempty"`
	Locations  []location `json:"locations,omitempty"`
	Extensions extensions `json:"extensions"`
}

type location struct {
	Line   int `json:"line"`
	Column int `json:"column"`
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

// graphqlFault turns the parser's and the validator's findings into errors of the API.
func graphqlFault(list gqlerror.List) []apiError {
	var errs []apiError
	for _, g := range list {
		code := "GRAPHQL_VALIDATION_FAILED"
		if g.Rule == "" && strings.Contains(g.Message, "Expected") {
			code = "GRAPHQL_PARSE_FAILED"
		}
		e := apiError{Message: g.Message, Extensions: extensions{"graphql error", code, 400, true, ""}}
		for _, l := range g.Locations {
			e.Locations = append(e.Locations, location{l.Line, l.Column})
		}
		errs = append(errs, e)
	}
	return errs
}
