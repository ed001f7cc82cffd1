// Package jira is the adapter to the issues of a project on Jira Cloud.
//
// Adapter returns the value that the rest of the program uses. docs/errors.md explains the
// codes of its errors.
//
// # Decisions
//
//   - Jira answers a request with an expired token like one of a stranger: the search succeeds and
//     finds nothing. So every answer is checked for the header that tells it, a list begins with
//     the question whose token it is, and an issue is gone only if Jira says so of this issue
//     alone, and after that still knows the token and the project.
//   - The search reads an index that lags behind, by hours at worst. Only the ids come from it;
//     the records are read by id.
//   - A single unknown status in a query makes the whole query fail. A query names statuses by
//     the ids that the project has at that moment.
//   - Reads are not retried. The next pass is the retry.
//   - Comments have no invisible text. The marker of a comment is a property of it.
package jira

import (
	"cmp"
	"context"
	"encoding/base64"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Options configure the adapter.
type Options struct {
	transport.Options // Endpoint is the site, https://NAME.atlassian.net; User the account's email
	// CloudID is the id of the site, for a token with scopes, which the site itself does not
	// accept; empty for other tokens.
	CloudID string
	Project string // the key of the project, such as SHOP
	JQL     string // a condition for the issues that agents begin; empty for none
	// Priorities are the names of the priorities, the most urgent first.
	Priorities []string
	// ReadOnly makes the agent's tools refuse every call.
	ReadOnly bool

	gateway string // of tests; Atlassian's if empty
}

const (
	unknownPayload = "tracker_unknown_payload"
	apiStatus      = "tracker_api_status"
)

// gateway is where tokens with scopes are accepted.
const gateway = "https://api.atlassian.com/ex/jira/"

var service = transport.Service{
	Name:    "Jira",
	Prefix:  "tracker",
	Paths:   true,
	Setting: "tracker.endpoint",
	Header:  map[string]string{"Accept": "application/json"},
	Secret:  "Jira API token",
	Word:    "token",
	SetKey:  "set JIRA_API_TOKEN, or set tracker.api_key to the $VARIABLE that holds it",
	CheckKey: "check the API token, which may have expired, and tracker.provider.email; " +
		"a token with scopes needs tracker.provider.cloud_id",
	CheckEndpoint: "it is https://NAME.atlassian.net",
	Redirected:    "the token is not sent to another host or protocol",
	Strange: "the next pass asks again; if that does not help, " +
		"a proxy has changed Jira's answer, or its API has changed",
	Limited:  "Jira accepts no more requests",
	Separate: "account",
}

// Adapter returns Jira as a tracker. It sends nothing.
func Adapter(o Options) (*reconcile.TrackerAdapter, error) {
	c, err := connect(o)
	if err != nil {
		return nil, err
	}
	if !isProjectKey(o.Project) {
		return nil, reconcile.NewError(
			"missing_tracker_project_slug",
			"the key of the Jira project is missing or malformed",
			"write what stands before the number of its issues, such as SHOP for SHOP-12",
		)
	}
	return &reconcile.TrackerAdapter{
		Tracker:      c,
		Name:         "Jira",
		Find:         c.find,
		Expect:       c.expect,
		Comments:     c.comments,
		LastComments: c.lastComments,
		Post:         c.post,
		Edit:         c.edit,
		Whoami:       c.names,
		Move:         c.move,
		Create:       c.create,
		Verify:       c.verify,
		Tools:        c.tools(),
		Secrets:      []string{c.api.Key, encoded(c.o.Options)},
	}, nil
}

var projectKey = text.Pattern(`^[A-Za-z][A-Za-z0-9_]*$`)

var cloudID = text.Pattern(`^[A-Za-z0-9-]+$`)

func isCloudID(id string) bool { return cloudID().MatchString(id) }

func isProjectKey(key string) bool { return projectKey().MatchString(key) }

// encoded is the token as it is sent.
func encoded(o transport.Options) string {
	return base64.StdEncoding.EncodeToString([]byte(o.User + ":" + strings.TrimSpace(o.Key)))
}

// client reads and changes the issues of a project. It is safe for concurrent use.
type client struct {
	api  *transport.Client
	o    Options
	site string // without a slash at its end

	mu   sync.Mutex
	me   *account // of the token; nil before it is known
	home project  // without an id before it is known
	// expected are the issues whose present state a search has to know
	expected []int64
}

// connect returns a client that did not check its project.
func connect(o Options) (*client, error) {
	o.Project = strings.ToUpper(strings.TrimSpace(o.Project))
	if o.User == "" {
		return nil, reconcile.NewError(
			"tracker_setting_invalid",
			"the email of the account to which the Jira API token belongs is missing",
			"set JIRA_EMAIL, or write it as tracker.provider.email",
		)
	}
	site := strings.TrimRight(strings.TrimSpace(o.Endpoint), "/")
	if o.CloudID != "" {
		o.Endpoint = cmp.Or(o.gateway, gateway) + o.CloudID
	}
	api, err := service.Connect(o.Options, ignoreHeaders)
	if err != nil {
		return nil, err
	}
	return &client{api: api, o: o, site: site}, nil
}

// account is a user, in Jira's words.
type account struct {
	ID    string `json:"accountId"`
	Name  string `json:"displayName"`
	Email string `json:"emailAddress"` // often hidden
}

// whoami asks whose token it is. It fails for a token that Jira does not accept.
func (c *client) whoami(ctx context.Context) (account, error) {
	who, err := get[account](ctx, c, "/myself", nil)
	if err == nil && who.ID == "" {
		err = c.api.Fail(unknownPayload, "the answer does not say whose the token is")
	}
	if err != nil {
		return account{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.me = &who
	return who, nil
}

// knownMe is whoami, which is asked once.
func (c *client) knownMe(ctx context.Context) (account, error) {
	c.mu.Lock()
	me := c.me
	c.mu.Unlock()
	if me != nil {
		return *me, nil
	}
	return c.whoami(ctx)
}
