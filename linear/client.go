package linear

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// DefaultEndpoint is where Linear answers (specification 5.3.1).
const DefaultEndpoint = "https://api.linear.app/graphql"

const (
	requestTimeout = 30 * time.Second // specification 11.2
	maxBody        = 64 << 20
)

// Options are what a Client is made of.
type Options struct {
	Endpoint string // DefaultEndpoint if empty
	APIKey   string // a personal API key, or an OAuth token that starts with lin_oauth_
	// ProjectSlug is the project's slugId, or its URL, from which the slug id is taken.
	ProjectSlug string
	// HTTP is used without its redirect policy and cookie jar. Nil: a client of its own with a timeout of 30 s.
	HTTP *http.Client
	Now  func() time.Time // time.Now if nil
	Log  *slog.Logger     // discarded if nil
}

// Client talks to one Linear workspace about one project. It may be used by several goroutines.
type Client struct {
	endpoint string
	key      string
	header   string
	http     *http.Client
	now      func() time.Time
	log      *slog.Logger

	mu     sync.Mutex
	slugs  []string // spellings of the slug id, the most likely one first
	budget Budget
}

var _ reconcile.Tracker = (*Client)(nil)

// New checks the options. It sends nothing.
func New(o Options) (*Client, error) {
	c, err := connect(o)
	if err != nil {
		return nil, err
	}
	if c.slugs, err = projectSlugs(o.ProjectSlug); err != nil {
		return nil, err
	}
	return c, nil
}

// connect makes a client that knows of no project yet.
func connect(o Options) (*Client, error) {
	key := strings.TrimSpace(o.APIKey)
	if key == "" {
		return nil, &reconcile.Error{
			Code: "missing_tracker_api_key", Message: "no Linear API key",
			Hint: "set LINEAR_API_KEY, or tracker.api_key to the $VARIABLE that holds it",
		}
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
		return nil, &reconcile.Error{
			Code: "missing_tracker_api_key", Message: "the Linear API key holds characters that no key has",
			Hint: "check for a line break or quotes around the key",
		}
	}
	endpoint, err := checkEndpoint(o.Endpoint)
	if err != nil {
		return nil, err
	}
	c := &Client{
		endpoint: endpoint, key: key, header: authorization(key),
		http: httpClient(o.HTTP), now: o.Now, log: o.Log,
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

func checkEndpoint(s string) (string, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return DefaultEndpoint, nil
	}
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil {
		// The text itself is left out: a key pasted into the wrong place would be shown.
		return "", &reconcile.Error{
			Code: "tracker_endpoint_invalid", Message: "tracker.endpoint is no http or https URL",
			Hint: "leave it out to use " + DefaultEndpoint,
		}
	}
	return s, nil
}

// httpClient never follows a redirect: net/http would take the key along to subdomains, and a GraphQL endpoint
// that moved is the operator's to name.
func httpClient(given *http.Client) *http.Client {
	h := http.Client{Transport: transport(), Timeout: requestTimeout}
	if given != nil {
		h = *given
	}
	h.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	h.Jar = nil
	return &h
}

// authorization is the header for a key: Linear wants personal keys bare and refuses them with a Bearer prefix,
// while OAuth tokens need it.
func authorization(key string) string {
	if strings.HasPrefix(key, "lin_oauth_") {
		return "Bearer " + key
	}
	return key
}

// answer is what came back for one request, whatever its status.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// send posts one GraphQL request and reads the whole answer.
func (c *Client) send(ctx context.Context, query string, variables any) (answer, error) {
	return c.sendUpTo(ctx, query, variables, maxBody)
}

// sendUpTo refuses an answer of more than most bytes; of one that is larger no more than that is kept.
func (c *Client) sendUpTo(ctx context.Context, query string, variables any, most int64) (answer, error) {
	sent, err := payload(query, variables)
	if err != nil {
		return answer{}, fmt.Errorf("encode request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(sent))
	if err != nil {
		return answer{}, c.requestError(err)
	}
	req.Header.Set("Authorization", c.header)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "symphony")
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, c.requestError(err)
	}
	defer resp.Body.Close()
	body, more, err := readUpTo(resp.Body, most)
	if err != nil {
		return answer{}, c.requestError(fmt.Errorf("read answer: %w", err))
	}
	c.note(resp.Header)
	if more > 0 {
		return answer{}, c.tooLarge(most, more)
	}
	// Before anything is cut off the body, so that no part of the key is left at the end.
	if len(c.key) >= shortestKey {
		body = bytes.ReplaceAll(body, []byte(c.key), []byte("[key]"))
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: body}, nil
}

// readUpTo reads most bytes, and counts how many more there are, up to maxBody.
func readUpTo(r io.Reader, most int64) (body []byte, more int64, err error) {
	if body, err = io.ReadAll(io.LimitReader(r, most)); err != nil || int64(len(body)) < most {
		return body, 0, err
	}
	more, err = io.Copy(io.Discard, io.LimitReader(r, maxBody+1-most))
	return body, more, err
}

func (c *Client) tooLarge(most, more int64) error {
	if most+more > maxBody {
		return c.fail("linear_unknown_payload", "the answer is larger than 64 MiB", "")
	}
	return c.fail("answer_too_large", fmt.Sprintf("Linear's answer has %d bytes, and %d are the most: ask for fewer fields, "+
		"or for fewer entries at a time (first: 20, after: the last endCursor)", most+more, most), "")
}

// envelope is the outer shape of every GraphQL answer.
type envelope struct {
	Data   json.RawMessage `json:"data"`
	Errors []graphqlError  `json:"errors"`
}

// query sends one of our own requests and decodes its data into out.
func (c *Client) query(ctx context.Context, query string, variables map[string]any, out any) error {
	a, err := c.send(ctx, query, variables)
	if err != nil {
		return err
	}
	env, err := c.check(a)
	if err != nil {
		return err
	}
	if len(env.Errors) > 0 {
		return c.graphqlErrors(env.Errors)
	}
	if len(env.Data) == 0 || bytes.Equal(env.Data, []byte("null")) {
		return c.fail("linear_unknown_payload", "the answer holds neither data nor errors", "")
	}
	if err := json.Unmarshal(env.Data, out); err != nil {
		return &reconcile.Error{
			Code: "linear_unknown_payload", Message: c.scrub("the answer is not of the shape asked for: " + err.Error()), Err: err,
		}
	}
	return nil
}

// check turns an answer into its envelope, or into the error that its status and its rate-limit marks say.
func (c *Client) check(a answer) (envelope, error) {
	var env envelope
	decodeErr := json.Unmarshal(a.body, &env)
	// JSON can spell the key in ways that only its decoding shows.
	for i := range env.Errors {
		e := &env.Errors[i]
		for _, text := range []*string{&e.Message, &e.Extensions.Present, &e.Extensions.Code} {
			*text = c.scrub(*text)
		}
	}
	if c.isRateLimit(a, env.Errors) {
		return env, c.rateLimited(a)
	}
	if a.status != http.StatusOK {
		return env, c.statusError(a, env.Errors)
	}
	if decodeErr != nil {
		return env, &reconcile.Error{
			Code: "linear_unknown_payload", Message: "the answer is no GraphQL answer: " + c.short(a.body),
			Hint: "check tracker.endpoint; a proxy or login page may have answered instead", Err: decodeErr,
		}
	}
	return env, nil
}

func (c *Client) requestError(err error) error {
	e := &reconcile.Error{
		Code: "linear_api_request", Message: c.scrub(err.Error()),
		Hint: "check the network and tracker.endpoint", Err: scrubbed{c.scrub(err.Error()), err},
	}
	var u *url.Error
	if errors.As(err, &u) {
		e.Message = c.scrub("POST " + c.endpoint + ": " + u.Err.Error())
		if u.Timeout() {
			e.Message = "POST " + c.endpoint + ": no answer in time: " + c.scrub(u.Err.Error())
		}
	}
	return e
}
