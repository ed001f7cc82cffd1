// Package giteaapi sends requests to the API of Gitea and Forgejo, for the adapters to its issues
// and to its pull requests.
package giteaapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
)

// The rights that a token needs, by the names of its scopes.
const (
	ReadRepository   = "read:repository"
	WriteRepository  = "write:repository"
	ReadIssue        = "read:issue"
	WriteIssue       = "write:issue"
	ReadUser         = "read:user"
	ReadOrganization = "read:organization"
)

const (
	// Page is how many records a request for a list wants, the most that Gitea returns unless
	// it is configured.
	Page     = 50
	maxPages = 200 // of a list
)

// Header are the headers of each request.
var Header = map[string]string{"Accept": "application/json"}

// Client sends requests to Gitea. It is safe for concurrent use.
type Client struct {
	*transport.Client
	Words transport.Words

	me transport.Once[Account]
}

// Moved is the error of a request for a repository that was renamed, or that has another owner.
// Nothing was changed.
type Moved struct{ Name string }

func (m *Moved) Error() string { return "the repository is now called " + m.Name }

// Connect checks the options and returns a client. It sends nothing.
func Connect(s transport.Service, o transport.Options, w transport.Words) (*Client, error) {
	c, err := s.Connect(o, func(http.Header) {})
	if err != nil {
		return nil, err
	}
	return &Client{Client: c, Words: w}, nil
}

// Ask sends a request to a path below the API, for which the token needs a right. Another status
// than 2xx is an error. The error of a 404 or 410 wraps reconcile.ErrGone, the error of a change
// that Gitea did not make reconcile.ErrRejected.
func (c *Client) Ask(ctx context.Context, right string, r transport.Request) (transport.Answer, error) {
	a, err := c.Send(ctx, r)
	if err != nil {
		return a, c.explain(err, right)
	}
	isRepository := strings.HasPrefix(r.Path, "/repos/")
	switch {
	case a.Status/100 == 2:
		return a, nil
	case a.Status == http.StatusTooManyRequests:
		return a, c.explain(c.RateLimit(transport.LimitEnd(a.Header, c.Now(), time.Time{})), right)
	case isRepository && (a.Status == http.StatusMovedPermanently || a.Status == http.StatusPermanentRedirect):
		if name := c.movedTo(a.Header.Get("Location")); name != "" {
			return a, &Moved{Name: name}
		}
	}
	return a, c.explain(c.RefusalByStatus(a, message(a.Body)), right)
}

// message returns the message of an answer to a failed request, with its reasons; empty if the
// answer looks otherwise.
func message(body []byte) string {
	var said struct {
		Message string   `json:"message"`
		Errors  []string `json:"errors"`
	}
	_ = json.Unmarshal(body, &said)
	return strings.Join(append([]string{said.Message}, said.Errors...), "; ")
}

// movedTo returns the name of the repository in the address of a redirect: acme/shop for
// /api/v1/repos/acme/shop/pulls. It is empty for an address elsewhere: on another host the name
// would belong to another repository.
func (c *Client) movedTo(location string) string {
	to, err := url.Parse(location)
	base, baseErr := url.Parse(c.Endpoint)
	if err != nil || baseErr != nil || to.Host != "" && to.Host != base.Host {
		return ""
	}
	_, rest, found := strings.Cut(to.Path, "/repos/")
	parts := strings.SplitN(rest, "/", 3)
	if !found || len(parts) < 2 || parts[0] == "" || parts[1] == "" {
		return ""
	}
	return text.Visible(parts[0] + "/" + parts[1])
}

// explain completes an error with the words and the next step for an operator. right is the
// right that the request needs.
func (c *Client) explain(err error, right string) error {
	return c.Explain(err, c.Words, c.Lacks(right))
}

// Lacks says which right the token lacks.
func (c *Client) Lacks(right string) string {
	return fmt.Sprintf("%s needs the scope %s%s", c.Words.Token, right, c.Words.At(" and access to "))
}

// Do sends a request to a path and decodes the answer.
func Do[T any](ctx context.Context, c *Client, right, method, path string, body any) (v T, err error) {
	a, err := c.Ask(ctx, right, transport.Request{Method: method, Path: path, Body: body})
	if err != nil {
		return v, err
	}
	return transport.Decode[T](c.Client, a.Body)
}

// Get reads a path.
func Get[T any](ctx context.Context, c *Client, right, path string) (T, error) {
	return Do[T](ctx, c, right, http.MethodGet, path, nil)
}

// List reads the pages of a list, until visit wants no more or there is none. heard gets the
// headers of each page before visit gets its records; nil if nobody needs them.
func List[T any](
	ctx context.Context,
	c *Client,
	right, path string,
	query url.Values,
	heard func(http.Header),
	visit func([]T) (more bool),
) error {
	for n := 1; n <= maxPages; n++ {
		query.Set("limit", strconv.Itoa(Page))
		query.Set("page", strconv.Itoa(n))
		a, err := c.Ask(ctx, right, transport.Request{Method: http.MethodGet, Path: path, Query: query})
		if err != nil {
			return err
		}
		if heard != nil {
			heard(a.Header)
		}
		records, err := transport.DecodeList[T](c.Client, a.Body)
		if err != nil {
			return err
		}
		next := strings.Contains(a.Header.Get("Link"), `rel="next"`)
		if !visit(records) || !next || len(records) == 0 {
			return nil
		}
	}
	return c.Fail(
		c.Prefix+"_unknown_payload",
		fmt.Sprintf("the list %s has more than %d pages of %d", path, maxPages, Page),
	)
}

// Account is an account, in Gitea's words.
type Account struct {
	ID    int64  `json:"id"` // negative for Gitea's own, GhostID for an account that was deleted
	Login string `json:"login"`
}

// GhostID is the id of an account that was deleted.
const GhostID = -1

// Me returns the account of the token, for which it asks once.
func (c *Client) Me(ctx context.Context) (Account, error) {
	return c.me.Ask(func() (Account, error) {
		who, err := Get[Account](ctx, c, ReadUser, "/user")
		if err == nil && who.Login == "" {
			err = c.Fail(c.Prefix+"_unknown_payload", "the answer does not say whose the token is")
		}
		return who, err
	})
}
