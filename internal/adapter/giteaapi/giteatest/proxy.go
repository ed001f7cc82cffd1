package giteatest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/faulttest"
)

// Proxy stands between an adapter and Gitea: it counts the requests, and fails as Gitea itself
// can't be made to fail.
type Proxy struct {
	*httptest.Server

	mu     sync.Mutex
	log    []string // METHOD PATH?QUERY
	fail   faulttest.Fault
	change func(path string, body []byte) []byte
}

// NewProxy returns a proxy before a Gitea. Close ends it.
func (s *Server) NewProxy() *Proxy {
	to, err := url.Parse(s.URL)
	if err != nil {
		panic(err)
	}
	p := &Proxy{}
	behind := httputil.NewSingleHostReverseProxy(to)
	behind.ModifyResponse = p.changed
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.log = append(p.log, r.Method+" "+r.URL.RequestURI())
		fail := p.fail
		p.mu.Unlock()
		if fail != nil && fail(w, r) {
			return
		}
		r.Header.Del("Accept-Encoding") // so that answers can be changed
		if strings.HasPrefix(r.URL.Path, "/api/") {
			s.one.Lock()
			defer s.one.Unlock()
		}
		behind.ServeHTTP(w, r)
	}))
	return p
}

// changed changes the body of an answer.
func (p *Proxy) changed(resp *http.Response) error {
	p.mu.Lock()
	change := p.change
	p.mu.Unlock()
	if change == nil {
		return nil
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	body = change(resp.Request.URL.Path, body)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.ContentLength = int64(len(body))
	resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}

// API is the address of the API through the proxy.
func (p *Proxy) API() string { return p.URL + "/api/v1" }

// Fail makes requests fail for which the function writes an answer. Nil ends that.
func (p *Proxy) Fail(fail faulttest.Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = fail
}

// Change makes answers those that the function returns. Nil ends that.
func (p *Proxy) Change(change func(path string, body []byte) []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change = change
}

// Log returns the requests since ClearLog.
func (p *Proxy) Log() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.log...)
}

// ClearLog empties the log.
func (p *Proxy) ClearLog() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = nil
}

// Limit refuses requests until a time.
func Limit(until time.Time) faulttest.Fault {
	return faulttest.Answer(
		http.StatusTooManyRequests, "too many requests",
		"Retry-After", until.UTC().Format(http.TimeFormat),
	)
}
