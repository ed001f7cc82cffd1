// Package transport connects adapters to trackers by HTTP. It contains the code that all
// trackers share; Service holds the differences.
package transport

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Timeout bounds a request with its answer (specification 11.2).
const Timeout = 30 * time.Second

const tailTimeout = 2 * time.Minute

const maxBody = 64 << 20 // bytes of an answer, if a request does not allow less

// Service describes the API of a tracker: its names, and the texts of its errors.
type Service struct {
	Name    string // in sentences
	Prefix  string // begins the codes of errors
	Address string // the endpoint unless Options name another
	Setting string // the key of the workflow that sets the endpoint, for messages
	// requests go to paths below the endpoint, so that it contains neither a query nor a slash
	// at its end
	Paths     bool
	Header    map[string]string
	Secret    string // how people call the key, such as Linear API key
	Word      string // the last word of that
	BlankKeys bool   // a key may contain blanks

	// The hints of errors: there is no key; the key was refused; the endpoint is not a URL;
	// the answer is a redirect; any other.
	SetKey, CheckKey, CheckEndpoint, Redirected, Strange string
	TooLarge                                             string // ends the message about an answer that is too large
	// Of a list that cannot be followed to its end: the code, and how to shorten a long list.
	Endless, Narrow string
	// Of a rate limit: the state until its end, such as "Linear's allowance is used up", and
	// the thing that symphony should get for itself, such as "key".
	Limited, Separate string
}

// Options configure the connection of a workflow to its tracker.
type Options struct {
	Endpoint string // the tracker's own if empty
	Key      string
	// User sends the key as the password of that user, by the scheme Basic. Empty: the key is
	// sent by the scheme Bearer.
	User string
	// KeySource names the source of the key, for the error of a refused key; empty if that is
	// obvious.
	KeySource string
	// CAFile is a PEM file with certificates to trust in addition to the system's.
	CAFile string
	// IgnoreProxy: do not use the proxy in this process's environment variables.
	IgnoreProxy bool
	// Transport replaces the default transport. CAFile and IgnoreProxy have no effect on it.
	Transport http.RoundTripper
	Now       func() time.Time // time.Now if nil
	// Warn receives each warning once; nil discards them.
	Warn func(string)
}

// Client sends requests with the same key. It is safe for concurrent use.
type Client struct {
	Service
	Options                // with all defaults
	Authorization string   // the header
	secrets       []string // what Scrub removes
	heard         func(http.Header)
	http          *http.Client
	mu            sync.Mutex
	warned        map[string]bool // the warnings that were reported
}

// Connect checks the options and returns a client, which calls heard with the headers of each
// answer. It sends nothing.
func (s Service) Connect(o Options, heard func(http.Header)) (*Client, error) {
	o.Key = strings.TrimSpace(o.Key)
	if o.Key == "" {
		return nil, reconcile.NewError("missing_tracker_api_key", "no "+s.Secret, s.SetKey)
	}
	isOdd := func(r rune) bool { return r < ' ' || r > '~' || r == ' ' && !s.BlankKeys }
	if strings.ContainsFunc(o.Key, isOdd) {
		return nil, reconcile.NewError(
			"missing_tracker_api_key",
			"the "+s.Secret+" contains characters that no "+s.Word+" has",
			"check for a line break or quotes around the "+s.Word,
		)
	}
	o.Endpoint = strings.TrimSpace(o.Endpoint)
	if s.Paths {
		o.Endpoint = strings.TrimRight(o.Endpoint, "/")
	}
	o.Endpoint = cmp.Or(o.Endpoint, s.Address)
	if !s.isEndpoint(o.Endpoint) {
		// The value is not quoted: it may be a key that was pasted into the wrong place.
		return nil, reconcile.NewError(
			"tracker_setting_invalid",
			s.Setting+" is not an http or https URL",
			s.CheckEndpoint,
		)
	}
	if o.Transport == nil {
		t, err := newTransport(o.CAFile, o.IgnoreProxy)
		if err != nil {
			return nil, err
		}
		o.Transport = t
	}
	if o.KeySource != "" {
		s.CheckKey += "; it comes from " + o.KeySource
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	authorization := "Bearer " + o.Key
	secrets := []string{o.Key}
	if o.User != "" {
		basic := base64.StdEncoding.EncodeToString([]byte(o.User + ":" + o.Key))
		authorization = "Basic " + basic
		secrets = []string{basic, o.Key}
	}
	return &Client{
		Service:       s,
		Options:       o,
		Authorization: authorization,
		secrets:       secrets,
		heard:         heard,
		warned:        map[string]bool{},
		http: &http.Client{
			Transport: o.Transport,
			// net/http would also send the key to subdomains, and the operator should
			// configure an endpoint's new address.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// isEndpoint reports whether a text is an address to which requests can go.
func (s Service) isEndpoint(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	if s.Paths && (u.RawQuery != "" || u.Fragment != "") {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http"
}

// Request is an HTTP request.
type Request struct {
	Method, Path string     // Path is escaped, and follows the endpoint
	Query        url.Values // nil for none
	To           string     // the URL, if it differs from the URL of Path and Query
	Body         any        // sent as JSON unless nil
	ETag         string     // of If-None-Match; empty for none
	Range        string     // the part of the answer that is wanted, such as bytes=-16384
	Limit        int64      // bytes of the answer; 64 MiB if 0
	// Tail: of an answer that succeeds, only so many bytes are kept, the last ones in whole lines. It
	// may be of any size, such as a log of 200 MB, and takes two minutes at most. 0: all is kept.
	Tail int
}

// Answer is an HTTP answer of any status.
type Answer struct {
	URL    string // of the request
	Status int
	Header http.Header
	Body   []byte // without the key
}

// Send sends a request and reads the answer, which may be a redirect.
func (c *Client) Send(ctx context.Context, r Request) (Answer, error) {
	timeout := Timeout
	if r.Tail > 0 {
		timeout = tailTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if r.To == "" {
		r.To = c.Endpoint + r.Path
		if len(r.Query) > 0 {
			r.To += "?" + r.Query.Encode()
		}
	}
	var sent io.Reader
	if r.Body != nil {
		sent = bytes.NewReader(text.JSON(r.Body))
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, r.To, sent)
	if err != nil {
		return Answer{}, c.requestError(r, err)
	}
	for name, value := range c.Header {
		req.Header.Set(name, value)
	}
	req.Header.Set("Authorization", c.Authorization)
	req.Header.Set("User-Agent", "symphony")
	if r.Body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.Range != "" {
		req.Header.Set("Range", r.Range)
	}
	if r.ETag != "" {
		req.Header.Set("If-None-Match", r.ETag)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return Answer{}, c.requestError(r, err)
	}
	defer resp.Body.Close()
	limit := cmp.Or(r.Limit, maxBody)
	var body []byte
	if r.Tail > 0 && resp.StatusCode/100 == 2 {
		end := &text.Tail{Limit: r.Tail}
		_, err = io.Copy(end, resp.Body)
		body, _ = end.Text()
	} else {
		body, err = io.ReadAll(io.LimitReader(resp.Body, limit+1))
	}
	if err != nil {
		return Answer{}, c.requestError(r, fmt.Errorf("read answer: %w", err))
	}
	c.heard(resp.Header)
	if int64(len(body)) > limit {
		return Answer{}, reconcile.NewError(
			"answer_too_large",
			fmt.Sprintf("%s's answer has more than %d bytes%s", c.Name, limit, c.TooLarge),
			c.Strange,
		)
	}
	// The key is removed before the text is cut anywhere, so that no part of the key can
	// remain at an end.
	return Answer{
		URL:    r.To,
		Status: resp.StatusCode,
		Header: resp.Header,
		Body:   []byte(c.Scrub(string(body))),
	}, nil
}

// Post sends a text to a URL that the user set, and reads the first 64 KiB of the answer. Its errors
// lack the URL, which may contain a secret.
func Post(
	ctx context.Context,
	client *http.Client,
	to string,
	header http.Header,
	sent []byte,
) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(sent))
	if err != nil {
		return Answer{}, errNoURL
	}
	maps.Copy(req.Header, header)
	return exchange(client, req)
}

var errNoURL = errors.New("not a URL")

// exchange sends the request of Get or Post and reads its answer.
func exchange(client *http.Client, req *http.Request) (Answer, error) {
	req.Header.Set("User-Agent", "symphony")
	resp, err := client.Do(req)
	if err != nil {
		if ofURL, ok := errors.AsType[*url.Error](err); ok {
			err = ofURL.Err
		}
		return Answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return Answer{}, fmt.Errorf("read answer: %w", err)
	}
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: body}, nil
}

// WarnOnce reports a warning unless it was reported before.
func (c *Client) WarnOnce(text string) {
	text = c.Scrub(text)
	c.mu.Lock()
	seen := c.warned[text]
	c.warned[text] = true
	c.mu.Unlock()
	if !seen {
		c.Warn(text)
	}
}

// shared keeps the transports of this process by the certificates that they trust, so that the
// passes of a loop reuse their connections.
var shared struct {
	sync.Mutex
	made map[key]*http.Transport
}

// key identifies a transport by the text of its certificates.
type key struct {
	pem         string
	ignoreProxy bool
}

// newTransport returns a transport that trusts the certificates of caFile, a PEM file, beside
// the system's; none if it is empty. With ignoreProxy it does not use the proxy in this
// process's environment variables. Its error carries the code tracker_setting_invalid.
func newTransport(caFile string, ignoreProxy bool) (http.RoundTripper, error) {
	k := key{ignoreProxy: ignoreProxy}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, invalid(err.Error(), err)
		}
		k.pem = string(pem)
	}
	shared.Lock()
	defer shared.Unlock()
	if t := shared.made[k]; t != nil {
		return t, nil
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	if ignoreProxy {
		t.Proxy = nil
	}
	if caFile != "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool() // the system provides no certificates
		}
		if !pool.AppendCertsFromPEM([]byte(k.pem)) {
			return nil, invalid(caFile+" contains no PEM certificate", nil)
		}
		t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	if shared.made == nil {
		shared.made = map[key]*http.Transport{}
	}
	shared.made[k] = t
	return t, nil
}

func invalid(message string, err error) error {
	return reconcile.NewError("tracker_setting_invalid", "tracker.ca_file: "+message,
		"name a readable PEM file with the certificate of your CA, or leave the key out").WithCause(err)
}
