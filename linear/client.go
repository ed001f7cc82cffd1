package linear

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
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

// Options configure a Client.
type Options struct {
	Endpoint string // DefaultEndpoint if empty
	APIKey   string // a personal API key, or an OAuth token that starts with lin_oauth_
	// ProjectSlug is the project's slug id, or its URL, which ends in the slug id.
	ProjectSlug string
	// CAFile names a PEM file with certificates to trust beside the system's.
	CAFile string
	// IgnoreProxy: do not use the proxy that environment variables of this process name.
	IgnoreProxy bool
	// ReadOnly makes the agent's tool refuse mutations.
	ReadOnly bool
	// Transport replaces the client's own, with CAFile and IgnoreProxy.
	Transport http.RoundTripper
	Now       func() time.Time // time.Now if nil
	// Warn receives each warning once; nil discards them.
	Warn func(string)
}

// Client talks to one Linear workspace about one project. It may be used by several goroutines.
type Client struct {
	endpoint string
	key      string
	header   string
	http     *http.Client
	now      func() time.Time
	report   func(string)

	mu     sync.Mutex
	slugs  []string // what the slug id may be, the most likely first
	budget reconcile.Budget
	warned map[string]bool // warnings that were logged
}

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

// connect makes a client without a project.
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
	sender, err := transport(o)
	if err != nil {
		return nil, err
	}
	c := &Client{
		endpoint: endpoint, key: key, header: authorization(key),
		now: o.Now, report: o.Warn, warned: map[string]bool{},
		http: &http.Client{
			Timeout: requestTimeout, Transport: sender,
			// net/http would send the key along to subdomains, and the operator should name the new address of an endpoint.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.report == nil {
		c.report = func(string) {}
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
			Code: "tracker_endpoint_invalid", Message: "tracker.endpoint is not an http or https URL",
			Hint: "leave it out to use " + DefaultEndpoint,
		}
	}
	return s, nil
}

// transport returns what sends the requests: Go's own, changed as the options say.
func transport(o Options) (http.RoundTripper, error) {
	if o.Transport != nil {
		return o.Transport, nil
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	if o.IgnoreProxy {
		t.Proxy = nil
	}
	if o.CAFile != "" {
		pool, err := certificates(o.CAFile)
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return t, nil
}

// certificates returns the system's certificates and those of the file.
func certificates(file string) (*x509.CertPool, error) {
	invalid := func(message string, err error) error {
		return &reconcile.Error{
			Code: "tracker_ca_file_invalid", Message: "tracker.ca_file: " + message, Err: err, Class: reconcile.ClassWorkflow,
			Hint: "name a readable PEM file with the certificate of your CA, or leave the key out",
		}
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, invalid(err.Error(), err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a system without certificates has only those of the file
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, invalid(file+" contains no PEM certificate", nil)
	}
	return pool, nil
}

// authorization is the header for a key. Linear refuses personal keys with a Bearer prefix, and OAuth tokens without.
func authorization(key string) string {
	if strings.HasPrefix(key, "lin_oauth_") {
		return "Bearer " + key
	}
	return key
}

// answer is an HTTP answer of any status.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// send posts one GraphQL request and reads the answer, of at most limit bytes.
func (c *Client) send(ctx context.Context, query string, variables any, limit int64) (answer, error) {
	sent, err := json.Marshal(struct {
		Query     string `json:"query"`
		Variables any    `json:"variables,omitempty"`
	}{query, variables})
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
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return answer{}, c.requestError(fmt.Errorf("read answer: %w", err))
	}
	c.readBudget(resp.Header)
	switch {
	case int64(len(body)) > limit && limit == maxBody:
		return answer{}, c.fail("linear_unknown_payload", "the answer is larger than 64 MiB", "")
	case int64(len(body)) > limit:
		return answer{}, c.fail("answer_too_large", fmt.Sprintf("Linear's answer has more than %d bytes: ask for fewer fields, "+
			"or for fewer entries at a time (first: 20, after: the last endCursor)", limit), "")
	}
	// The key is removed before the text is cut anywhere, so that no part of it can remain at an end.
	if len(c.key) >= shortestKey {
		body = bytes.ReplaceAll(body, []byte(c.key), []byte("[key]"))
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: body}, nil
}

// ask sends one of the requests in query/ and decodes its data.
func ask[T any](ctx context.Context, c *Client, query string, variables map[string]any) (*T, error) {
	a, err := c.send(ctx, query, variables, maxBody)
	if err != nil {
		return nil, err
	}
	env, err := check[T](c, a)
	switch {
	case err != nil:
		return nil, err
	case len(env.Errors) > 0:
		return nil, c.graphqlErrors(env.Errors)
	case env.Data == nil:
		return nil, c.fail("linear_unknown_payload", "the answer holds neither data nor errors", "")
	}
	return env.Data, nil
}

// envelope is the outer shape of every GraphQL answer.
type envelope[T any] struct {
	Data   *T             `json:"data"`
	Errors []graphqlError `json:"errors"`
}

// check decodes an answer. The error is what the rate limit, the HTTP status or the shape of the answer says.
func check[T any](c *Client, a answer) (env envelope[T], err error) {
	decodeErr := json.Unmarshal(a.body, &env)
	// JSON escapes can hide the key until it is decoded.
	for i := range env.Errors {
		e := &env.Errors[i]
		for _, text := range []*string{&e.Message, &e.Extensions.Present, &e.Extensions.Code} {
			*text = c.scrub(*text)
		}
	}
	wrongType := (*json.UnmarshalTypeError)(nil)
	switch {
	case c.isRateLimit(a, env.Errors):
		err = c.rateLimited(a)
	case a.status != http.StatusOK:
		err = c.statusError(a, env.Errors)
	case errors.As(decodeErr, &wrongType) && len(env.Errors) == 0:
		err = &reconcile.Error{
			Code: "linear_unknown_payload", Message: c.scrub("the answer is not of the shape asked for: " + decodeErr.Error()), Err: decodeErr,
			Class: reconcile.ClassTracker,
		}
	case decodeErr != nil && wrongType == nil:
		err = &reconcile.Error{
			Code: "linear_unknown_payload", Message: "the answer is not GraphQL: " + c.short(a.body),
			Hint: "check tracker.endpoint; a proxy or login page may have answered instead", Err: decodeErr, Class: reconcile.ClassTracker,
		}
	}
	return env, err
}

func (c *Client) requestError(err error) error {
	e := &reconcile.Error{
		Code: "linear_api_request", Class: reconcile.ClassTracker, Message: c.scrub(err.Error()),
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
