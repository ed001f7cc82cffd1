package gitea

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/giteaapi"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
)

const (
	maxName    = 255  // bytes of the name of a check, a branch or a file
	maxAddress = 2048 // bytes of the address of a check
)

// hub is the repository on Gitea.
type hub struct {
	*giteaapi.Client
	o transport.ForgeOptions

	version transport.Once[string] // of the server
}

// ask sends a request to a path below the API, for which the token needs a right.
func (h *hub) ask(ctx context.Context, right string, r transport.Request) (transport.Answer, error) {
	a, err := h.Ask(ctx, right, r)
	return a, h.named(err)
}

// named turns the error of a repository that was renamed into an error for an operator.
func (h *hub) named(err error) error {
	moved, is := errors.AsType[*giteaapi.Moved](err)
	if !is {
		return err
	}
	return h.o.Moved(service.Name, moved.Name)
}

// call sends a request to a path of the repository, and decodes the answer.
func call[T any](ctx context.Context, h *hub, right, method, path string, body any) (T, error) {
	v, err := giteaapi.Do[T](ctx, h.Client, right, method, "/repos/"+h.o.Repository+path, body)
	return v, h.named(err)
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
	return h.named(giteaapi.List(ctx, h.Client, right, "/repos/"+h.o.Repository+path, query, nil, visit))
}

type account = giteaapi.Account

// jobsSince is the first release whose checks name jobs by the ids that the API uses.
const jobsSince = 26

// releaseOf finds 26 in 1.26.0 and in 1.26.0+dev-7, and nothing in 16.0.0+gitea-1.22.0, a Forgejo.
var releaseOf = text.Pattern(`^1\.(\d{1,4})\.`)

// namesJobs reports whether the addresses of checks contain the ids of jobs.
func (h *hub) namesJobs(ctx context.Context) (bool, error) {
	version, err := h.version.Ask(func() (string, error) {
		said, err := giteaapi.Get[struct {
			Version string `json:"version"`
		}](ctx, h.Client, giteaapi.ReadRepository, "/version")
		return said.Version, err
	})
	if err != nil {
		return false, err
	}
	m := releaseOf().FindStringSubmatch(version)
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
