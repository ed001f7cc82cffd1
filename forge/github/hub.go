package github

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/githubapi"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

//go:embed query
var queries embed.FS

// document is a request with the fragments that it uses, from the folder query.
func document(names ...string) string { return transport.Document(queries, names...) }

var service = transport.Service{
	Name:          "GitHub",
	Prefix:        "forge",
	Paths:         true,
	Header:        githubapi.Header,
	Setting:       "repository.api",
	Secret:        "GitHub token",
	Word:          "token",
	CheckKey:      "check the token", // explain says which right it lacks
	CheckEndpoint: "correct it",
	Strange:       "passes try again",
	Limited:       "GitHub accepts no more requests of this account",
	Separate:      "account",
}

// The rights that the token needs.
const (
	readPulls   = "read pull requests and checks"
	writePulls  = "write pull requests"
	readActions = "read the Actions"
	runActions  = "run the Actions"
	// Merging and reading what the base requires for it.
	writeContents = "write contents and pull requests"
)

// hub is the repository on GitHub.
type hub struct {
	*githubapi.Client
	o transport.ForgeOptions
}

// do sends a request to a path of the repository, for which the token needs a right. The
// status of the answer is a success, or 302.
func (h hub) do(ctx context.Context, right, method, path string, body any) (transport.Answer, error) {
	a, err := h.Ask(ctx, transport.Request{
		Method: method,
		Path:   "/repos/" + h.o.Repository + path,
		Body:   body,
	})
	if err != nil {
		return a, h.explain(err, right)
	}
	switch a.Status {
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return a, h.o.Moved(service.Name, "")
	case http.StatusFound:
		return a, nil
	}
	if a.Status/100 != 2 {
		return a, h.explain(h.Refusal(a, nil), right)
	}
	return a, nil
}

// send sends a request for which the token may write pull requests, and decodes the answer.
func send[T any](ctx context.Context, h hub, method, path string, body any) (T, error) {
	a, err := h.do(ctx, writePulls, method, path, body)
	if err != nil {
		var none T
		return none, err
	}
	return githubapi.Decode[T](h.Client.Client, "JSON of GitHub", a.Body)
}

// explain completes an error with the words and the next step for an operator. right is the
// right that the request needs.
func (h hub) explain(err error, right string) error {
	words := transport.Words{Renew: h.o.Renew, LimitCode: "forge_rate_limited"}
	err = h.Explain(err, words, h.lacks(right))
	e, known := errors.AsType[*reconcile.Error](err)
	if known && e.Code == codeGraphQL {
		e.Message = "GitHub answers: " + e.Message
	}
	return err
}

const codeGraphQL = "forge_graphql_errors"

// lacks says which right the token lacks.
func (h hub) lacks(right string) string {
	return fmt.Sprintf("%s needs the right to %s of %s", h.o.By, right, h.o.Repository)
}

// gone returns the error of something that a query did not find.
func (h hub) gone(right, message string) error {
	return h.explain(&reconcile.Error{
		Code:    codeGraphQL,
		Message: h.Scrub(message),
		Err:     reconcile.ErrGone,
	}, right)
}

// noPull returns the error of a pull request that does not exist.
func (h hub) noPull(right string, number int) error {
	return h.gone(right, fmt.Sprint("there is no pull request ", number))
}

// number implements reconcile.Forge: 12 for https://github.com/acme/shop/pull/12.
func (h hub) number(address string) (number int, here bool) {
	const before = "/pull/" // also the end of a repository that is called pull
	at := strings.LastIndex(address, before)
	if at < 0 {
		return 0, false
	}
	n, err := strconv.Atoi(address[at+len(before):])
	if err != nil || n < 1 {
		return 0, false
	}
	u, err := url.Parse(address[:at])
	if err != nil || !strings.EqualFold(u.Path, "/"+h.o.Repository) {
		return n, false
	}
	host := webHost(h.Endpoint)
	return n, host == "" || strings.EqualFold(u.Host, host)
}

// webHost returns the host of the pages of the GitHub with an API: github.com for
// https://api.github.com, ghe.example.com for https://ghe.example.com/api/v3. It is empty for
// another address, such as the address of a proxy.
func webHost(api string) string {
	u, err := url.Parse(api)
	if err != nil || u.Scheme != "https" {
		return ""
	}
	host, isAPI := strings.CutPrefix(u.Host, "api.")
	switch {
	case isAPI && strings.Trim(u.Path, "/") == "":
		return host
	case u.Path == "/api/v3":
		return u.Host
	}
	return ""
}

// query sends a GraphQL query about the repository, for which the token needs a right, and
// returns the repository's fields. A field is null if its object does not exist.
func (h hub) query(
	ctx context.Context,
	right, query string,
	vars map[string]any,
) (map[string]json.RawMessage, error) {
	data, err := h.ask(ctx, right, query, vars)
	return data.Repository, err
}

// reply is the answer to a query about the repository.
type reply struct {
	Repository map[string]json.RawMessage `json:"repository"`
	Viewer     struct {
		Login string `json:"login"`
	} `json:"viewer"` // the token's account, if the query asks for it
}

// ask is query, for queries about more than the repository.
func (h hub) ask(ctx context.Context, right, query string, vars map[string]any) (reply, error) {
	vars["owner"], vars["name"], _ = strings.Cut(h.o.Repository, "/")
	data, missing, err := githubapi.GraphQL[reply](ctx, h.Client, query, vars, ofCheck)
	if err != nil {
		return reply{}, h.explain(err, right)
	}
	if data.Repository == nil && len(missing) > 0 {
		return reply{}, h.gone(right, transport.Messages(missing))
	}
	name, err := decode[string](h, "name", data.Repository["nameWithOwner"])
	if err != nil {
		return reply{}, err
	}
	if !strings.EqualFold(name, h.o.Repository) {
		return reply{}, h.o.Moved(service.Name, text.Visible(name))
	}
	return *data, nil
}

// ofCheck reports whether an error is about a check that the token may not see, which is null
// then.
func ofCheck(e transport.GraphQLError) bool { return slices.Contains(e.Path, any("contexts")) }

// decode reads a field of an answer.
func decode[T any](h hub, what string, raw json.RawMessage) (T, error) {
	return githubapi.Decode[T](h.Client.Client, what, raw)
}
