package transport

import (
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Document returns files of the folder query of an adapter, one after the other: a request,
// and the fragments that it uses.
func Document(queries embed.FS, names ...string) (document string) {
	for _, name := range names {
		data, err := queries.ReadFile("query/" + name + ".graphql")
		if err != nil {
			panic(err) // a name in the code is wrong
		}
		document += string(data)
	}
	return document
}

// GraphQLError is an error in an answer.
type GraphQLError struct {
	Type       string `json:"type"`
	Message    string `json:"message"`
	Path       []any  `json:"path"`
	Extensions struct {
		Code    string `json:"code"`
		Type    string `json:"type"`
		Present string `json:"userPresentableMessage"`
	} `json:"extensions"`
}

// Envelope is the outer shape of every GraphQL answer.
type Envelope[T any] struct {
	Data   *T             `json:"data"`
	Errors []GraphQLError `json:"errors"`
}

// GraphQL decodes an answer of any status. If the answer has an unexpected shape, GraphQL
// returns the decoded part with the error.
func GraphQL[T any](c *Client, a Answer) (env Envelope[T], err error) {
	err = json.Unmarshal(a.Body, &env)
	// JSON escapes can hide the key until it is decoded.
	for i := range env.Errors {
		e := &env.Errors[i]
		for _, received := range []*string{&e.Type, &e.Message, &e.Extensions.Present, &e.Extensions.Code} {
			*received = c.Scrub(*received)
		}
	}
	wrong, isType := errors.AsType[*json.UnmarshalTypeError](err)
	if isType && strings.HasPrefix(wrong.Field, "data.") { // the text of the error has Go's types
		message := fmt.Sprintf("the answer has an unexpected shape: %s is of the type %s", wrong.Field, wrong.Value)
		return env, c.Fail(c.Prefix+"_unknown_payload", message)
	}
	if err != nil || env.Data == nil && len(env.Errors) == 0 {
		return env, c.Unreadable("not GraphQL", a.Body, err)
	}
	return env, nil
}

// Messages joins the messages of the first three errors.
func Messages(errs []GraphQLError) string {
	var list []string
	for _, e := range errs[:min(3, len(errs))] {
		message := "an error without a message"
		for _, text := range []string{e.Extensions.Code, e.Type, e.Message} {
			message = cmp.Or(strings.TrimSpace(text), message)
		}
		if p := e.Extensions.Present; p != "" && p != message {
			message += " (" + p + ")"
		}
		list = append(list, Brief(message))
	}
	if more := len(errs) - len(list); more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, "; ")
}

// maxPages bounds the pages of a list.
const maxPages = 200

// List is a connection: a page of a list. Nodes is nil if the answer contains no list.
type List[T any] struct {
	Nodes    []T `json:"nodes"`
	PageInfo struct {
		HasNextPage bool   `json:"hasNextPage"`
		EndCursor   string `json:"endCursor"`
		// These two lead backwards, in lists that are read from their end.
		HasPreviousPage bool   `json:"hasPreviousPage"`
		StartCursor     string `json:"startCursor"`
	} `json:"pageInfo"`
}

// Pages calls fetch for each page of a list, with the cursor as the variable after, null for
// the first, until fetch returns no further page.
func Pages[T any](c *Client, what string, vars map[string]any, fetch func() (List[T], error)) error {
	vars["after"] = nil
	seen := map[string]bool{}
	for {
		page, err := fetch()
		info := page.PageInfo
		switch {
		case err != nil:
			return err
		case page.Nodes == nil:
			return c.Fail(c.Prefix+"_unknown_payload", "the answer contains no list of "+what)
		case !info.HasNextPage:
			return nil
		case info.EndCursor == "":
			return c.Fail(c.Endless, "there are more "+what+", but the answer has no cursor for them")
		case seen[info.EndCursor]:
			return c.Fail(c.Endless, "the cursor of "+what+" repeats")
		case len(seen) == maxPages-1:
			return c.Fail(c.Endless, fmt.Sprintf("%s have more than %d pages: %s", what, maxPages, c.Narrow))
		}
		vars["after"] = info.EndCursor
		seen[info.EndCursor] = true
	}
}
