// Package linear is the adapter to Linear's GraphQL API (specification 11). It reads issues
// for passes and workers and provides the agent's tool linear_graphql (specification 10.5).
//
// Adapter returns the value that the rest of the program uses. docs/errors.md explains the
// codes of its errors.
//
// # Decisions
//
//   - Every request of a pass or worker consists of files in query/; only the variables vary.
//     It asks for the fields that the specification names. Anything else is asked for in
//     separate requests, which a server may refuse. They are made only where they are needed:
//     for the comments on held issues and on issues of a running agent, and for names that may
//     be mistyped. A workflow without a key of symphony's own does without (Options.Specified).
//   - Connections inside an issue are read with a small page size, because Linear prices a
//     query by the product of its page sizes (10,000 points at most). Further pages are
//     fetched separately, so that nothing is cut silently.
//   - Reads are not retried here: the caller tries each once more, and the next pass tries
//     again.
//   - Redirects are not followed: the key goes to the configured endpoint only.
//   - Priority 0 (Linear's "no priority") stays 0. Specification 11.3 makes only non-integers
//     null, a prompt may want to distinguish the two, and the order of specification 8.2
//     treats both alike.
package linear

import (
	"context"
	"embed"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// DefaultEndpoint is the URL of Linear's API (specification 5.3.1).
const DefaultEndpoint = "https://api.linear.app/graphql"

var service = transport.Service{
	Name:          "Linear",
	Prefix:        "linear",
	Address:       DefaultEndpoint,
	Setting:       "tracker.endpoint",
	Header:        map[string]string{"Accept": "application/json"},
	Secret:        "Linear API key",
	Word:          "key",
	BlankKeys:     true,
	SetKey:        "set LINEAR_API_KEY, or tracker.api_key to the $VARIABLE that holds it",
	CheckKey:      "check the Linear API key: it must be valid, not revoked, and its user must see the project or team",
	CheckEndpoint: "leave it out to use " + DefaultEndpoint,
	Redirected:    "the endpoint redirects, and the key is not sent elsewhere",
	Strange:       "see the message: a proxy may have changed the request or the answer, or Linear's API has changed",
	TooLarge:      ": ask for fewer fields, or for fewer entries at a time (first: 20, after: the last endCursor)",
	Endless:       "linear_missing_end_cursor",
	Narrow:        "narrow tracker.active_states or move old issues elsewhere",
	Limited:       "Linear's allowance is used up",
	Separate:      "key",
}

//go:embed query
var queries embed.FS

// document returns a request and the fragments that it uses, from the folder query.
func document(names ...string) string { return transport.Document(queries, names...) }

// Options configure a Client.
type Options struct {
	transport.Options // Key is a personal API key, or an OAuth token that starts with lin_oauth_
	// ProjectSlug is the project's slug id, or its URL, which ends in the slug id.
	ProjectSlug string
	// Team is the key of a team, such as WEB. Without ProjectSlug its issues are read, with a
	// project or without. With ProjectSlug only the team's issues in the project are read.
	Team string
	// Assignee: read the assignees of issues, which a workflow may ask for.
	Assignee bool
	// ProjectDescription: read the descriptions of the issues' projects, for which a prompt
	// may ask.
	ProjectDescription bool
	// ReadOnly makes the agent's tool refuse mutations.
	ReadOnly bool
	// Specified: only the requests that the specification names are made, apart from commands
	// of the operator. Nobody but the agent reads or writes comments then.
	Specified bool
}

// Client sends requests to Linear for a project or team. It is safe for concurrent use.
type Client struct {
	*transport.Client
	fields string // the fragments of the fields of an issue
	team   string // the key of the team whose issues are read; empty for all teams
	bare   bool   // archived issues are not asked for: see Options.Specified

	mu sync.Mutex
	// the possible slug ids of the project, the most likely first; none for issues with and
	// without a project
	slugs  []string
	budget reconcile.Budget
}

// New returns a client for a project or a team. It checks the options, and sends nothing.
func New(o Options) (*Client, error) {
	c, err := connect(o)
	if err != nil {
		return nil, err
	}
	c.team = strings.ToUpper(strings.TrimSpace(o.Team))
	if c.team != "" && o.ProjectSlug == "" {
		return c, nil
	}
	c.slugs, err = projectSlugs(o.ProjectSlug)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Adapter returns Linear as a tracker. It sends nothing.
func Adapter(o Options) (*reconcile.TrackerAdapter, error) {
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	t := &reconcile.TrackerAdapter{
		Tracker: c,
		Name:    "Linear",
		Find:    c.ByIdentifier,
		Move:    c.Move,
		Verify:  c.Verify,
		Budget:  c.Budget,
		Tools:   []reconcile.AgentTool{Tool(c, o.ReadOnly)},
		Secrets: []string{c.Key},
	}
	if o.Specified {
		return t, nil
	}
	t.Comments = c.Comments
	t.LastComments = c.LastComments
	t.Post = c.Post
	t.Edit = c.Edit
	return t, nil
}

// connect returns a client without a project.
func connect(o Options) (*Client, error) {
	c := &Client{
		fields: document("issue_fields", "relation_fields"),
		bare:   o.Specified,
	}
	var err error
	c.Client, err = service.Connect(o.Options, c.readBudget)
	if err != nil {
		return nil, err
	}
	if o.Assignee {
		c.addFields("AssigneeFields", "assignee")
	}
	if o.ProjectDescription {
		c.addFields("ProjectDescriptionFields", "project_description")
	}
	// Linear refuses personal keys with "Bearer", and OAuth tokens without it
	if !strings.HasPrefix(c.Key, "lin_oauth_") {
		c.Authorization = c.Key
	}
	return c, nil
}

// addFields adds a fragment of the file name to the fields of an issue.
func (c *Client) addFields(fragment, name string) {
	c.fields = strings.Replace(c.fields, "{\n", "{\n  ..."+fragment+"\n", 1) + document(name)
}

// send posts a GraphQL request and reads the answer, of at most limit bytes, or 64 MiB if that
// is 0.
func (c *Client) send(
	ctx context.Context,
	query string,
	variables any,
	limit int64,
) (transport.Answer, error) {
	body := struct {
		Query     string `json:"query"`
		Variables any    `json:"variables,omitempty"`
	}{query, variables}
	return c.Send(ctx, transport.Request{Method: http.MethodPost, Limit: limit, Body: body})
}

// ask sends a request of query/ and decodes its data.
func ask[T any](ctx context.Context, c *Client, query string, variables map[string]any) (*T, error) {
	a, err := c.send(ctx, query, variables, 0)
	if err != nil {
		return nil, err
	}
	env, err := check[T](c, a)
	if err != nil {
		return nil, err
	}
	if len(env.Errors) > 0 {
		return nil, c.refusal(a, env.Errors)
	}
	return env.Data, nil
}

// check decodes an answer. It returns an error for a rate limit, an HTTP status other than
// 200, or an answer of another shape. GraphQL errors in an answer with status 200 are not
// checked.
func check[T any](c *Client, a transport.Answer) (transport.Envelope[T], error) {
	env, wrong := transport.GraphQL[T](c.Client, a)
	switch {
	case isRateLimit(a, env.Errors):
		return env, c.RateLimit(limitEnd(a.Header, c.Now()))
	case a.Status != http.StatusOK:
		return env, c.refusal(a, env.Errors)
	case wrong != nil && len(env.Errors) == 0:
		return env, wrong
	}
	return env, nil
}

// slugIDs returns the possible slug ids of the project, the most likely first; none for a
// team.
func (c *Client) slugIDs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slugs
}

// settleSlug records which of the possible slug ids exists.
func (c *Client) settleSlug(slug string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slugs = []string{slug}
}

// list is a connection.
type list[T any] = transport.List[T]

type wireUser struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

// wireName is a label or a state. Labels lack a type and a position.
type wireName struct {
	Name     string  `json:"name"`
	Type     string  `json:"type"`
	Position float64 `json:"position"`
}

// refusal returns the error of an answer with GraphQL errors, or with an HTTP status other
// than 200. It wraps reconcile.ErrGone if an entity does not exist.
func (c *Client) refusal(a transport.Answer, errs []graphqlError) error {
	return c.Refusal(a, errs, c.Short(a.Body), ofKey, func(e *reconcile.Error) bool {
		switch {
		case a.Status == http.StatusNotFound: // Linear's API has a single path
			e.Hint = "check the path in " + c.Setting + ", or " + c.CheckEndpoint
			return true
		case a.Status == http.StatusBadRequest && len(errs) == 0: // of a proxy, not of Linear
			return true
		}
		missing := slices.ContainsFunc(errs, ofMissingEntity)
		if missing {
			e.Err = reconcile.ErrGone
		}
		return missing
	})
}

type graphqlError = transport.GraphQLError

// ofKey reports whether the error is about the key.
func ofKey(e graphqlError) bool {
	switch e.Extensions.Code {
	case "AUTHENTICATION_ERROR", "FORBIDDEN":
		return true
	}
	return e.Extensions.Type == "authentication error" ||
		strings.Contains(e.Message, "API key as a Bearer token")
}

// ofMissingEntity reports whether the error is Linear's "Entity not found". Its code is the
// general INPUT_ERROR, so the message decides.
func ofMissingEntity(e graphqlError) bool { return strings.HasPrefix(e.Message, "Entity not found") }

func ofRateLimit(e graphqlError) bool {
	return e.Extensions.Code == "RATELIMITED" || e.Extensions.Type == "ratelimited"
}

// Budget returns the allowance of the key by the headers of the last answer.
func (c *Client) Budget() reconcile.Budget {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.budget
}

// readBudget reads the rate-limit headers. If they are missing, as in the answers of a
// gateway, the last values stay.
func (c *Client) readBudget(h http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := reconcile.Budget{Left: 1, At: c.Now()}
	b.ServerTime, _ = http.ParseTime(h.Get("Date"))
	if !c.budget.At.IsZero() {
		b.Left = c.budget.Left
		b.Reset = c.budget.Reset
	}
	scarcest := math.Inf(1)
	for _, a := range allowances(h)[:2] { // without the allowances of single endpoints
		if left := a.Left / a.Limit; a.Limit > 0 && left < scarcest {
			scarcest = left
			b.Left = left
			b.Reset = a.Reset
		}
	}
	c.budget = b
}

func exhausted(a transport.Allowance) bool { return a.Left == 0 }

func allowances(h http.Header) []transport.Allowance {
	kinds := []string{"Requests-", "Complexity-", "Endpoint-Requests-"}
	return text.Map(kinds, func(kind string) transport.Allowance { return transport.ReadAllowance(h, kind) })
}

// isRateLimit reports whether Linear refused a request because of a limit.
func isRateLimit(a transport.Answer, errs []graphqlError) bool {
	if a.Status == http.StatusTooManyRequests || slices.ContainsFunc(errs, ofRateLimit) {
		return true
	}
	// A proxy may have removed the body. The headers of a 400 then show the rate limit.
	hasNoErrors := a.Status == http.StatusBadRequest && len(errs) == 0
	return hasNoErrors && slices.ContainsFunc(allowances(a.Header), exhausted)
}

// limitEnd returns the time of Retry-After, or else the latest reset of the allowances that
// are used up, or else the latest of all allowances.
func limitEnd(h http.Header, now time.Time) time.Time {
	var reset time.Time
	list := allowances(h)
	some := slices.ContainsFunc(list, exhausted)
	for _, a := range list {
		if (exhausted(a) || !some) && a.Reset.After(reset) {
			reset = a.Reset
		}
	}
	return transport.LimitEnd(h, now, reset)
}
