package gitea

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// The rights that the token needs, by the names of its scopes.
const (
	readRepository  = "read:repository"
	writeRepository = "write:repository"
	writeIssue      = "write:issue"
	readUser        = "read:user"
)

const (
	page       = 50   // records in a list, the most that Gitea returns unless it is configured
	maxName    = 255  // bytes of the name of a check, a branch or a file
	maxAddress = 2048 // bytes of the address of a check
)

// hub is the repository on Gitea.
type hub struct {
	*transport.Client
	o Options

	mu      sync.Mutex
	login   string // of the account of the token; empty before it is known
	version string // of the server; empty before it is known
}

// ask sends a request to a path below the API, for which the token needs a right.
func (h *hub) ask(ctx context.Context, right string, r transport.Request) (transport.Answer, error) {
	a, err := h.Send(ctx, r)
	if err != nil {
		return a, h.explain(err, right)
	}
	switch {
	case a.Status/100 == 2:
		return a, nil
	case a.Status == http.StatusTooManyRequests:
		return a, h.explain(h.RateLimit(transport.LimitEnd(a.Header, h.Now(), time.Time{})), right)
	case a.Status == http.StatusMovedPermanently || a.Status == http.StatusPermanentRedirect:
		if name := movedTo(a.Header.Get("Location")); name != "" {
			return a, h.moved(name)
		}
	}
	said := transport.Brief(message(a.Body))
	if said == "" {
		said = h.Short(a.Body)
	}
	return a, h.explain(h.Refusal(
		a,
		nil,
		said,
		func(transport.GraphQLError) bool { return false },
		func(e *reconcile.Error) bool {
			switch a.Status {
			case http.StatusNotFound, http.StatusGone:
				e.Err = reconcile.ErrGone
			case http.StatusConflict, http.StatusUnprocessableEntity, http.StatusLocked,
				http.StatusMethodNotAllowed, http.StatusPreconditionFailed:
				e.Err = reconcile.ErrRejected
			}
			return e.Err != nil
		},
	), right)
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

// movedTo returns the name of the repository in the address of a redirect:
// acme/shop for /api/v1/repos/acme/shop/pulls.
func movedTo(location string) string {
	_, rest, found := strings.Cut(location, "/repos/")
	parts := strings.SplitN(rest, "/", 3)
	if !found || len(parts) < 2 {
		return ""
	}
	return text.Visible(parts[0] + "/" + parts[1])
}

// moved returns the error of a repository that was renamed to name.
func (h *hub) moved(name string) error {
	return reconcile.NewError(
		reconcile.CodeForgeMoved,
		fmt.Sprintf("Gitea has renamed or moved %s to %s", h.o.Repository, name),
		"set repository.url to the present address of the repository, if you mean that repository",
	)
}

// explain completes an error with the words and the next step for an operator. right is the
// right that the request needs.
func (h *hub) explain(err error, right string) error {
	e, known := errors.AsType[*reconcile.Error](err)
	if !known {
		return err
	}
	_, isLimit := errors.AsType[*transport.RateLimited](err)
	switch {
	case isLimit:
		e.Code = "forge_rate_limited"
	case e.Status == http.StatusUnauthorized:
		e.Hint = h.o.Renew
	case errors.Is(err, transport.ErrKey):
		e.Hint = h.lacks(right)
	case errors.Is(err, reconcile.ErrGone):
		e.Hint = fmt.Sprintf("it does not exist at %s, or %s", h.Endpoint, h.lacks(right))
	}
	if status, isStatus := strings.CutPrefix(e.Message, "HTTP "); isStatus {
		e.Message = "Gitea answers " + status
	}
	return err
}

// lacks says which right the token lacks.
func (h *hub) lacks(right string) string {
	return fmt.Sprintf("%s needs the scope %s and access to %s", h.o.By, right, h.o.Repository)
}

// call sends a request to a path of the repository, and decodes the answer.
func call[T any](ctx context.Context, h *hub, right, method, path string, body any) (v T, err error) {
	a, err := h.ask(ctx, right, transport.Request{
		Method: method,
		Path:   "/repos/" + h.o.Repository + path,
		Body:   body,
	})
	if err != nil {
		return v, err
	}
	return decode[T](h, a.Body)
}

// get reads a path of the repository.
func get[T any](ctx context.Context, h *hub, right, path string) (T, error) {
	return call[T](ctx, h, right, http.MethodGet, path, nil)
}

// list reads pages of a list of the repository, until visit wants no more or there is none.
func list[T any](
	ctx context.Context,
	h *hub,
	right, path string,
	query url.Values,
	visit func([]T) (more bool),
) error {
	for n := 1; ; n++ {
		query.Set("limit", strconv.Itoa(page))
		query.Set("page", strconv.Itoa(n))
		a, err := h.ask(ctx, right, transport.Request{
			Method: http.MethodGet,
			Path:   "/repos/" + h.o.Repository + path,
			Query:  query,
		})
		if err != nil {
			return err
		}
		records, err := decode[[]T](h, a.Body)
		if err != nil {
			return err
		}
		next := strings.Contains(a.Header.Get("Link"), `rel="next"`)
		if !visit(records) || !next || len(records) == 0 {
			return nil
		}
	}
}

// decode reads the JSON of an answer; an empty answer is the zero value.
func decode[T any](h *hub, raw []byte) (v T, err error) {
	if len(raw) == 0 {
		return v, nil
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, h.Unreadable("no JSON of Gitea", raw, err)
	}
	return v, nil
}

// me returns the login of the token's account.
func (h *hub) me(ctx context.Context) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.login != "" {
		return h.login, nil
	}
	a, err := h.ask(ctx, readUser, transport.Request{Method: http.MethodGet, Path: "/user"})
	if err != nil {
		return "", err
	}
	who, err := decode[account](h, a.Body)
	if err != nil {
		return "", err
	}
	h.login = who.Login
	return h.login, nil
}

// account is an account, in Gitea's words.
type account struct {
	ID    int64  `json:"id"` // negative for Gitea's own, -1 for an account that was deleted
	Login string `json:"login"`
}

const ghostID = -1

// jobsSince is the first release whose checks name jobs by the ids that the API uses.
const jobsSince = 26

var releaseOf = text.Pattern(`^1\.(\d{1,4})\.[^+]*$`) // not 16.0.0+gitea-1.22.0, a Forgejo

// namesJobs reports whether the addresses of checks contain the ids of jobs.
func (h *hub) namesJobs(ctx context.Context) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.version == "" {
		a, err := h.ask(ctx, readRepository, transport.Request{Method: http.MethodGet, Path: "/version"})
		if err != nil {
			return false, err
		}
		said, err := decode[struct {
			Version string `json:"version"`
		}](h, a.Body)
		if err != nil {
			return false, err
		}
		h.version = said.Version
	}
	m := releaseOf().FindStringSubmatch(h.version)
	if m == nil {
		return false, nil
	}
	release, err := strconv.Atoi(m[1])
	return err == nil && release >= jobsSince, nil
}

// number implements reconcile.Forge: 12 for https://git.example.com/acme/shop/pulls/12.
func (h *hub) number(address string) (number int, here bool) {
	const before = "/pulls/"
	at := strings.LastIndex(address, before)
	if at < 0 {
		return 0, false
	}
	n, err := strconv.Atoi(address[at+len(before):])
	if err != nil || n < 1 {
		return 0, false
	}
	u, err := url.Parse(address[:at])
	if err != nil || !strings.HasSuffix(strings.ToLower(u.Path), "/"+strings.ToLower(h.o.Repository)) {
		return n, false
	}
	site, isAPI := h.site()
	return n, !isAPI || strings.EqualFold(u.Host, site.Host)
}

// site returns the address of the server's pages; false if the endpoint does not tell it, such
// as the address of a proxy.
func (h *hub) site() (*url.URL, bool) {
	at, isAPI := strings.CutSuffix(h.Endpoint, "/api/v1")
	u, err := url.Parse(at)
	return u, isAPI && err == nil
}
