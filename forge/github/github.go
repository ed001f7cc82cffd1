// Package github is the adapter to the pull requests of a repository on GitHub. Adapter
// returns the value that the rest of the program uses.
//
// The codes of its errors are those of package transport with the prefix forge;
// forge_rate_limited, which wraps transport.RateLimited; and reconcile.CodeForgeMoved:
// redirects are not followed, except to the log of a job, whose host does not get the token.
package github

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/githubapi"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Options describe the repository and how to reach it.
type Options struct {
	transport.Options        // Key is the token
	Repository        string // OWNER/NAME
	By                string // what has the token: gh, or $ and the name of a variable
	Renew             string // what to do if GitHub does not accept the token
	// Memory keeps the end of a limit between processes. Nil: only this process remembers it.
	Memory reconcile.TrackerMemory
}

// LimitKey is where Memory has the end of a limit, in milliseconds since 1970.
const LimitKey = "forge" + githubapi.LimitSuffix

// lacksRight is the shared client's hint of an error about what the token may do. explain
// replaces it.
const lacksRight = "check the token"

var service = transport.Service{
	Name:          "GitHub",
	Prefix:        "forge",
	Paths:         true,
	Header:        githubapi.Header,
	Setting:       "repository.api",
	Secret:        "GitHub token",
	Word:          "token",
	CheckKey:      lacksRight,
	CheckEndpoint: "correct it",
	Strange:       "passes try again",
	Limited:       "GitHub accepts no more requests of this account",
	Separate:      "account",
}

// What the token must be allowed.
const (
	readPulls, writePulls   = "read pull requests and checks", "write pull requests"
	readActions, runActions = "read the Actions", "run the Actions"
)

// hub is the repository on GitHub.
type hub struct {
	*githubapi.Client
	o Options
}

// Adapter returns the pull requests of a repository. It sends nothing.
func Adapter(o Options) (*reconcile.Forge, error) {
	api, err := githubapi.Connect(service, o.Options, o.Memory)
	h := hub{api, o}
	return &reconcile.Forge{
		Open:         h.open,
		Number:       h.number,
		Read:         h.read,
		ReadChecks:   h.readChecks,
		ReadRequired: h.readRequired,
		BuildsOn:     h.buildsOn,
		ReadLog:      h.readLog,
		Rerun:        h.rerun,
		Comment:      h.comment,
	}, err
}

// do sends a request to a path of the repository, for which the token needs a right. The
// answer has a status of success, or 302.
func (h hub) do(ctx context.Context, right, method, path string, body any) (transport.Answer, error) {
	a, err := h.Ask(ctx, transport.Request{
		Method: method,
		Path:   "/repos/" + h.o.Repository + path,
		Body:   body,
	}, false)
	switch {
	case err != nil || a.Status/100 == 2 || a.Status == http.StatusFound:
	case slices.Contains([]int{http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusPermanentRedirect}, a.Status):
		err = h.moved("another name")
	default:
		err = h.Refusal(a, nil)
	}
	return a, h.explain(err, right)
}

func (h hub) moved(name string) error {
	return reconcile.NewError(
		reconcile.CodeForgeMoved,
		fmt.Sprintf("GitHub has renamed or moved %s to %s", h.o.Repository, name),
		"set repository.url to the present address of the repository, if that is the one that you mean",
	)
}

// explain completes an error by what an operator can do.
func (h hub) explain(err error, right string) error {
	e, known := errors.AsType[*reconcile.Error](err)
	limited := (*transport.RateLimited)(nil)
	switch {
	case !known:
		return err
	case errors.As(err, &limited):
		e.Code = "forge_rate_limited"
	case e.Status == http.StatusUnauthorized:
		e.Hint = h.o.Renew
	case e.Hint == lacksRight:
		e.Hint = h.lacks(right)
	case errors.Is(err, reconcile.ErrGone):
		e.Hint = fmt.Sprintf("it does not exist at %s, or %s", h.Endpoint, h.lacks(right))
	}
	if status, failed := strings.CutPrefix(e.Message, "HTTP "); failed {
		e.Message = "GitHub answers " + status
	} else if e.Code == "forge_graphql_errors" {
		e.Message = "GitHub answers: " + e.Message
	}
	return err
}

func (h hub) lacks(right string) string {
	return fmt.Sprintf("%s needs the right to %s of %s", h.o.By, right, h.o.Repository)
}

// gone returns the error of something that a query did not find.
func (h hub) gone(right, message string) error {
	return h.explain(&reconcile.Error{
		Code:    "forge_graphql_errors",
		Message: h.Scrub(message),
		Err:     reconcile.ErrGone,
	}, right)
}

func (h hub) number(address string) (number int, here bool) {
	path, digits, _ := strings.Cut(address, "/pull/")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 {
		return 0, false
	}
	return n, strings.HasSuffix(strings.ToLower(path), "/"+strings.ToLower(h.o.Repository))
}

// query sends a GraphQL query about the repository, for which the token needs a right, and
// returns the repository's fields. A field is null if what it is about does not exist.
func (h hub) query(
	ctx context.Context,
	right, query string,
	vars map[string]any,
) (fields map[string]json.RawMessage, err error) {
	vars["owner"], vars["name"], _ = strings.Cut(h.o.Repository, "/")
	data, missing, err := githubapi.GraphQL[struct {
		Repository map[string]json.RawMessage `json:"repository"`
	}](ctx, h.Client, query, vars, ofCheck)
	if err != nil {
		return nil, h.explain(err, right)
	}
	name, err := decode[string](h, "name", data.Repository["nameWithOwner"])
	switch {
	case data.Repository == nil && len(missing) > 0:
		err = h.gone(right, transport.Messages(missing))
	case err == nil && !strings.EqualFold(name, h.o.Repository):
		err = h.moved(text.Visible(name))
	}
	return data.Repository, err
}

// ofCheck reports whether an error is about a check that the token may not see, which is null
// then.
func ofCheck(e transport.GraphQLError) bool { return slices.Contains(e.Path, any("contexts")) }

// decode reads a field of an answer.
func decode[T any](h hub, what string, raw json.RawMessage) (v T, err error) {
	return githubapi.Decode[T](h.Client.Client, what, raw)
}

// open implements reconcile.Forge. It asks for the pull requests of the branch first.
func (h hub) open(ctx context.Context, n reconcile.NewPull) (opened reconcile.OpenedPull, err error) {
	opened.By = h.o.By
	var refusal error
	for range 2 {
		found, err := h.find(ctx, n)
		if err != nil {
			return opened, err
		}
		if found.URL != "" {
			opened.URL = found.URL
			opened.ID = found.ID
			return opened, nil
		}
		if n.Base == "" { // its name may be another one by now than when the work began
			repository, err := send[struct {
				Base string `json:"default_branch"`
			}](ctx, h, http.MethodGet, "", nil)
			if n.Base = repository.Base; err != nil {
				return opened, err
			}
		}
		made, wrong := send[struct {
			URL string `json:"html_url"`
			ID  string `json:"node_id"`
		}](ctx, h, http.MethodPost, "/pulls", map[string]string{
			"title": n.Title,
			"body":  n.Body,
			"head":  n.Branch,
			"base":  n.Base,
		})
		refused := func(reason string) bool {
			return errors.Is(wrong, reconcile.ErrRejected) && strings.Contains(wrong.Error(), reason)
		}
		switch {
		case refused("No commits between"):
			return opened, nil
		case refused("head invalid"):
			return opened, errors.Join(wrong, reconcile.ErrNoBranch)
		case !refused("pull request already exists"):
			// or else another has just opened it, so the list contains it now
			opened.URL = made.URL
			opened.ID = made.ID
			opened.Opened = wrong == nil
			return opened, wrong
		}
		refusal = wrong
	}
	return opened, refusal
}

// send sends a request for which the token may write pull requests, and decodes the answer.
func send[T any](ctx context.Context, h hub, method, path string, body any) (v T, err error) {
	a, err := h.do(ctx, writePulls, method, path, body)
	if err != nil {
		return v, err
	}
	return githubapi.Decode[T](h.Client.Client, "JSON of GitHub", a.Body)
}

// found is a pull request of a branch.
type found struct {
	ID      string `json:"id"`
	URL     string `json:"url"`
	State   string `json:"state"`
	Branch  string `json:"headRefName"`
	Base    string `json:"baseRefName"`
	Commit  string `json:"headRefOid"`        // the last one while it was open
	Foreign bool   `json:"isCrossRepository"` // the branch is in a fork
}

// find returns the open pull request of a branch: of several the known one, or else the newest
// with the wanted base, or else the newest. If none is open, it returns the newest that was
// merged or closed when the branch was at the commit.
func (h hub) find(ctx context.Context, n reconcile.NewPull) (best found, err error) {
	fields, err := h.query(ctx, writePulls, document("branch"), map[string]any{"branch": n.Branch})
	if err != nil {
		return best, err
	}
	all, err := decode[transport.List[found]](h, "list of pull requests", fields["pullRequests"])
	if err != nil {
		return best, err
	}
	rank := func(p found) int {
		switch {
		case p.Foreign || p.Branch != n.Branch:
			return 0
		case p.State != "OPEN" && p.Commit == n.Commit:
			return 1
		case p.State != "OPEN":
			return 0
		case n.Known != "" && p.ID == n.Known:
			return 4
		case n.Base != "" && p.Base == n.Base:
			return 3
		}
		return 2
	}
	for _, p := range all.Nodes {
		if rank(p) > rank(best) {
			best = p
		}
	}
	return best, nil
}

func (h hub) comment(ctx context.Context, number int, marker, body string) error {
	fields, err := h.query(ctx, writePulls, document("comments"), map[string]any{"number": number})
	if err != nil {
		return err
	}
	pull, err := decode[*struct {
		Comments transport.List[struct {
			Own  bool   `json:"viewerDidAuthor"`
			Body string `json:"body"`
		}] `json:"comments"`
	}](h, "pull request", fields["pullRequest"])
	switch {
	case err != nil:
		return err
	case pull == nil:
		return h.gone(writePulls, fmt.Sprint("there is no pull request ", number))
	}
	for _, c := range pull.Comments.Nodes {
		if c.Own && strings.Contains(c.Body, marker) {
			return nil
		}
	}
	_, err = h.do(
		ctx,
		writePulls,
		http.MethodPost,
		fmt.Sprintf("/issues/%d/comments", number),
		map[string]string{"body": body},
	)
	return err
}
