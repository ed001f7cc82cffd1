// Package gitlabapi sends requests to GitLab's REST API, for the adapters to its issues and to
// its merge requests. It keeps the texts that it sends free of quick actions.
package gitlabapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
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

// Page is how many records a request for a list wants, the most that GitLab returns.
const Page = 100

const maxPages = 200 // of a list

// Header are the headers of each request.
var Header = map[string]string{"Accept": "application/json"}

// Client sends requests to GitLab. It is safe for concurrent use.
type Client struct {
	*transport.Client
	Words transport.Words

	me     transport.Once[Account]
	mu     sync.Mutex
	budget reconcile.Budget
}

// Moved is the error of a request for a project that was renamed, or moved to another group.
// Nothing was changed.
type Moved struct {
	ID int64 // of the project; 0 if the answer does not tell it
}

func (m *Moved) Error() string { return "the project has another name now" }

// Connect checks the options and returns a client. It sends nothing.
func Connect(s transport.Service, o transport.Options, w transport.Words) (*Client, error) {
	c := &Client{Words: w}
	var err error
	c.Client, err = s.Connect(o, c.hear)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// hear reads the allowance in the headers of an answer.
func (c *Client) hear(h http.Header) {
	a := transport.ReadAllowance(h, "")
	b := reconcile.Budget{Left: 1, At: c.Now().UTC()}
	if a.Limit > 0 && !math.IsNaN(a.Left) {
		b.Left = min(a.Left/a.Limit, 1)
		b.Reset = a.Reset
	}
	there, err := http.ParseTime(h.Get("Date"))
	if err == nil {
		b.ServerTime = there
	}
	c.mu.Lock()
	c.budget = b
	c.mu.Unlock()
}

// Budget returns the allowance of requests after the last answer. Many servers have none.
func (c *Client) Budget() reconcile.Budget {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.budget
}

// Ask sends a request to a path below the API. Another status than 2xx is an error. The error of
// a 404 or 410 wraps reconcile.ErrGone, the error of a change that GitLab did not make
// reconcile.ErrRejected. Lines of texts that would be quick actions are changed before.
func (c *Client) Ask(ctx context.Context, r transport.Request) (transport.Answer, error) {
	if r.Body != nil {
		r.Body = Harmless(r.Body)
	}
	a, err := c.Send(ctx, r)
	if err != nil {
		return a, c.explain(err)
	}
	if a.Status/100 == 2 {
		return a, nil
	}
	said := message(a.Body)
	switch {
	case a.Status == http.StatusTooManyRequests:
		reset := transport.ReadAllowance(a.Header, "").Reset
		return a, c.explain(c.RateLimit(transport.LimitEnd(a.Header, c.Now(), reset)))
	case a.Status/100 == 3:
		if id := c.movedTo(a.Header.Get("Location")); id != 0 {
			return a, &Moved{ID: id}
		}
	case a.Status == http.StatusMethodNotAllowed && strings.Contains(said, "moved project"):
		return a, &Moved{}
	}
	return a, c.explain(c.RefusalByStatus(a, said))
}

// message returns the message of an answer to a failed request: a text, a list of texts, or an
// object with the faults of each field. It is empty if the answer looks otherwise.
func message(body []byte) string {
	var said struct {
		Message     any    `json:"message"`
		Error       any    `json:"error"`
		Description string `json:"error_description"`
	}
	if json.Unmarshal(body, &said) != nil {
		return ""
	}
	var parts []string
	for _, part := range []any{said.Message, said.Error, said.Description} {
		switch part := part.(type) {
		case nil:
		case string:
			if part != "" {
				parts = append(parts, part)
			}
		default:
			parts = append(parts, string(text.JSON(part)))
		}
	}
	return strings.Join(parts, "; ")
}

var projectID = text.Pattern(`/api/v4/projects/(\d{1,18})(?:/|$)`)

// movedTo returns the id of the project in the address of a redirect. It is 0 for an address
// elsewhere: on another host the id would belong to another project.
func (c *Client) movedTo(location string) int64 {
	to, err := url.Parse(location)
	base, baseErr := url.Parse(c.Endpoint)
	if err != nil || baseErr != nil || to.Host != "" && to.Host != base.Host {
		return 0
	}
	m := projectID().FindStringSubmatch(to.Path)
	if m == nil {
		return 0
	}
	id, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return 0
	}
	return id
}

// explain completes an error with the words and the next step for an operator.
func (c *Client) explain(err error) error { return c.Explain(err, c.Words, c.Lacks()) }

// Lacks says what the token may lack.
func (c *Client) Lacks() string {
	return c.Words.Token + " needs the scope api" + c.Words.At(" and the role Developer in ")
}

// ProjectPath returns the path of a project, given its name such as group/sub/project, or its
// number.
func ProjectPath(name string) string { return "/projects/" + url.PathEscape(name) }

// Project is a project, in GitLab's words.
type Project struct {
	ID            int64  `json:"id"`
	Name          string `json:"path_with_namespace"`
	URL           string `json:"web_url"`
	DefaultBranch string `json:"default_branch"`
	Archived      bool   `json:"archived"`
	Visibility    string `json:"visibility"`
	Issues        string `json:"issues_access_level"` // disabled, private or enabled
	Permissions   struct {
		Project *Access `json:"project_access"`
		Group   *Access `json:"group_access"`
	} `json:"permissions"`
	MergeMethod  string `json:"merge_method"`  // merge, rebase_merge or ff
	SquashOption string `json:"squash_option"` // never, always, default_on or default_off
	NeedsGreen   bool   `json:"only_allow_merge_if_pipeline_succeeds"`
	MergeTrains  bool   `json:"merge_trains_enabled"`
}

// Access is a role in a project.
type Access struct {
	Level int `json:"access_level"`
}

// The levels of roles.
const (
	Planner    = 15 // may change issues, and sees the confidential ones
	Developer  = 30 // may push to branches that are not protected
	Maintainer = 40 // may push to protected branches, too, unless they say otherwise
)

// Level returns the level of the role that the token's account has in the project: 0 for none.
func (p Project) Level() int {
	level := 0
	for _, a := range []*Access{p.Permissions.Project, p.Permissions.Group} {
		if a != nil {
			level = max(level, a.Level)
		}
	}
	return level
}

// Find reads a project, also by a former name.
func (c *Client) Find(ctx context.Context, name string) (Project, error) {
	p, err := Get[Project](ctx, c, ProjectPath(name), nil)
	moved, is := errors.AsType[*Moved](err)
	if is && moved.ID != 0 {
		p, err = Get[Project](ctx, c, ProjectPath(strconv.FormatInt(moved.ID, 10)), nil)
	}
	if err == nil && p.Name == "" {
		err = c.Fail(c.Prefix+"_unknown_payload", "the answer contains no project "+name)
	}
	p.Name = text.Visible(p.Name)
	return p, err
}

// Do sends a request to a path and decodes the answer.
func Do[T any](ctx context.Context, c *Client, method, path string, body any) (v T, err error) {
	a, err := c.Ask(ctx, transport.Request{Method: method, Path: path, Body: body})
	if err != nil {
		return v, err
	}
	return transport.Decode[T](c.Client, a.Body)
}

// Get reads a path.
func Get[T any](ctx context.Context, c *Client, path string, query url.Values) (v T, err error) {
	a, err := c.Ask(ctx, transport.Request{Method: http.MethodGet, Path: path, Query: query})
	if err != nil {
		return v, err
	}
	return transport.Decode[T](c.Client, a.Body)
}

// List reads the pages of a list, until visit wants no more or there is none. heard gets the
// headers of each page before visit gets its records; nil if nobody needs them.
func List[T any](
	ctx context.Context,
	c *Client,
	path string,
	query url.Values,
	heard func(http.Header),
	visit func([]T) (more bool),
) error {
	if query == nil {
		query = url.Values{}
	}
	query.Set("per_page", strconv.Itoa(Page))
	seen := map[string]bool{}
	for len(seen) < maxPages {
		seen[query.Encode()] = true
		a, err := c.Ask(ctx, transport.Request{Method: http.MethodGet, Path: path, Query: query})
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
		next := nextPage(a.Header)
		if !visit(records) || next == nil {
			return nil
		}
		if seen[next.Encode()] {
			return c.Fail(c.Prefix+"_unknown_payload", "the pages of the list "+path+" repeat")
		}
		query = next
	}
	name, err := url.PathUnescape(path)
	if err != nil {
		name = path
	}
	const message = "GitLab has more than %d records of %s, which is more than symphony reads"
	return c.Fail(c.Prefix+"_unknown_payload", fmt.Sprintf(message, maxPages*Page, name)).
		WithHint("let there be fewer: close old ones, or move them to another project")
}

var nextLink = text.Pattern(`<([^>]*)>; *rel="next"`)

// nextPage returns the query of the next page of a list; nil if there is none. Pages may be
// numbered or have cursors. The address in the link is not used: behind a proxy it may be one
// that only the server itself can reach.
func nextPage(h http.Header) url.Values {
	m := nextLink().FindStringSubmatch(strings.Join(h.Values("Link"), ","))
	if m == nil {
		return nil
	}
	u, err := url.Parse(m[1])
	if err != nil {
		return nil
	}
	return u.Query()
}

// Account is an account, in GitLab's words.
type Account struct {
	ID      int64  `json:"id"`
	Login   string `json:"username"`
	IsAdmin bool   `json:"is_admin"` // of the server, who sees everything; only GET /user says it
}

// Names returns the names by which operators are called.
func (a Account) Names() []string { return reconcile.UserNames(a.Login, a.ID) }

// IsBot reports whether the account belongs to an access token of a project or a group.
func (a Account) IsBot() bool { return botLogin().MatchString(a.Login) }

var botLogin = text.Pattern(`^(?:project|group)_\d+_bot(?:_|$)`)

// Me returns the account of the token, for which it asks once.
func (c *Client) Me(ctx context.Context) (Account, error) {
	return c.me.Ask(func() (Account, error) {
		who, err := Get[Account](ctx, c, "/user", nil)
		if err == nil && who.Login == "" {
			err = c.Fail(c.Prefix+"_unknown_payload", "the answer does not say whose the token is")
		}
		return who, err
	})
}

// Note is a comment on an issue or a merge request.
type Note struct {
	ID        int64     `json:"id"`
	Body      string    `json:"body"`
	Author    *Account  `json:"author"`
	System    bool      `json:"system"` // GitLab's own, about a change
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	// Changes are the changes that a quick action in the text has made.
	Changes map[string]any `json:"commands_changes"`
}

// PostNote comments on an issue or a merge request, whose path is given.
func (c *Client) PostNote(ctx context.Context, path, body string) (Note, error) {
	n, err := Do[Note](ctx, c, http.MethodPost, path+"/notes", map[string]string{"body": body})
	if err == nil && n.ID == 0 {
		err = c.Fail(c.Prefix+"_unknown_payload", "the new comment has no id")
	}
	if err == nil && len(n.Changes) > 0 {
		err = c.Fail(c.Prefix+"_unknown_payload", "GitLab has carried out a part of the comment as a quick action")
	}
	return n, err
}
