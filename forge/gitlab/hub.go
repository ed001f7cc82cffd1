package gitlab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/internal/adapter/gitlabapi"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	maxName    = 255  // bytes of the name of a check, a branch or a file
	maxAddress = 2048 // bytes of the address of a check
)

// hub is the project on GitLab.
type hub struct {
	*gitlabapi.Client
	o transport.ForgeOptions

	mu     sync.Mutex
	levels map[int64]int // of roles, by the ids of accounts
}

// path is a path of the project.
func (h *hub) path(format string, args ...any) string {
	return gitlabapi.ProjectPath(h.o.Repository) + fmt.Sprintf(format, args...)
}

// named turns the error of a project that was renamed into an error for an operator.
func (h *hub) named(ctx context.Context, err error) error {
	if _, is := errors.AsType[*gitlabapi.Moved](err); !is {
		return err
	}
	found, _ := h.Find(ctx, h.o.Repository) // without it the name is not known
	return h.o.Moved(service.Name, found.Name)
}

// ask sends a request to a path of the API.
func (h *hub) ask(ctx context.Context, method, path string, body any) (transport.Answer, error) {
	a, err := h.Ask(ctx, transport.Request{Method: method, Path: path, Body: body})
	return a, h.named(ctx, err)
}

// get reads a path of the project.
func get[T any](ctx context.Context, h *hub, path string, query url.Values) (T, error) {
	v, err := gitlabapi.Get[T](ctx, h.Client, h.path("%s", path), query)
	return v, h.named(ctx, err)
}

// list reads pages of a list of the project, until visit wants no more or there is none.
func list[T any](ctx context.Context, h *hub, path string, query url.Values, visit func([]T) (more bool)) error {
	return h.named(ctx, gitlabapi.List(ctx, h.Client, h.path("%s", path), query, nil, visit))
}

// project reads the project. The error of one that the token does not see wraps reconcile.ErrGone.
func (h *hub) project(ctx context.Context) (gitlabapi.Project, error) {
	return get[gitlabapi.Project](ctx, h, "", nil)
}

// isWriter reports whether an account may push to branches that are not protected, directly or
// as a member of a group.
func (h *hub) isWriter(ctx context.Context, id int64) (bool, error) {
	level, err := h.levelOf(ctx, id)
	return level >= gitlabapi.Developer, err
}

// levelOf returns the level of the role of an account in the project: 0 for none.
func (h *hub) levelOf(ctx context.Context, id int64) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	level, known := h.levels[id]
	if known {
		return level, nil
	}
	member, err := get[gitlabapi.Access](ctx, h, fmt.Sprintf("/members/all/%d", id), nil)
	if err != nil && !errors.Is(err, reconcile.ErrGone) {
		return 0, err
	}
	h.levels[id] = member.Level
	return member.Level, nil
}

// number implements reconcile.Forge: 12 for https://gitlab.com/acme/web/shop/-/merge_requests/12.
func (h *hub) number(address string) (number int, here bool) {
	before, digits, found := strings.Cut(address, "/-/merge_requests/")
	n, err := strconv.Atoi(digits)
	if !found || err != nil || n < 1 {
		return 0, false
	}
	u, err := url.Parse(before)
	if err != nil {
		return n, false
	}
	at, isAPI := strings.CutSuffix(h.Endpoint, "/api/v4")
	site, err := url.Parse(at)
	if err != nil || !isAPI { // the address of a proxy, which does not tell that of the pages
		return n, strings.HasSuffix(strings.ToLower(u.Path), "/"+strings.ToLower(h.o.Repository))
	}
	isHere := strings.EqualFold(u.Host, site.Host) && strings.EqualFold(u.Path, site.Path+"/"+h.o.Repository)
	return n, isHere
}

// rerun implements reconcile.Forge: it starts the failed jobs of a pipeline again.
func (h *hub) rerun(ctx context.Context, run int64) error {
	_, err := h.ask(ctx, http.MethodPost, h.path("/pipelines/%d/retry", run), nil)
	return err
}
