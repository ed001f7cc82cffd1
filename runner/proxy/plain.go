package proxy

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/allowlist"
)

const usualHTTP = 80

// plain serves a request for http://HOST/. Its Host header becomes the host of the URL.
func (p *Proxy) plain(w http.ResponseWriter, r *http.Request) {
	if r.URL.Scheme != "http" || r.URL.User != nil {
		http.Error(w, "symphony: this proxy takes CONNECT, and http:// without a login", http.StatusBadRequest)
		return
	}
	t, err := p.find(r.URL.Host, usualHTTP)
	if err != nil {
		p.refuse(w, err)
		return
	}
	transport := p.transport(t)
	if p.usesUpstream(t) {
		transport.Proxy = http.ProxyURL(p.config.Upstream)
		transport.DialContext = p.config.Dial
	}
	p.forward(w, r, transport, func(out *httputil.ProxyRequest) {
		out.Out.URL.Host = hostHeader(t)
		out.Out.Host = hostHeader(t)
	})
}

// modelPrefix is the path below which agents find their models.
const modelPrefix = "/model/"

// credentials are what an agent could send with a key of its own: an attacker's, so that what
// it sends arrives in another account.
var credentials = []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key", "Cookie"}

// model serves a request to a model whose key the proxy has.
func (p *Proxy) model(w http.ResponseWriter, r *http.Request) {
	for _, m := range p.config.Models {
		base := modelPrefix + m.Kind
		if !strings.HasPrefix(r.URL.Path, base+"/") {
			continue
		}
		t, err := p.modelTarget(m)
		if err != nil {
			p.refuse(w, err)
			return
		}
		transport := p.transport(t)
		transport.TLSClientConfig = &tls.Config{RootCAs: m.Roots, MinVersion: tls.VersionTLS12}
		p.forward(w, r, transport, func(out *httputil.ProxyRequest) {
			out.Out.URL.Path = strings.TrimPrefix(r.URL.Path, base)
			out.Out.URL.RawPath = strings.TrimPrefix(r.URL.RawPath, base)
			out.SetURL(m.URL)
			query := out.Out.URL.Query()
			query.Del("key") // of Google's services
			out.Out.URL.RawQuery = query.Encode()
			for _, name := range credentials {
				out.Out.Header.Del(name)
			}
			out.Out.Header.Set(m.Header, m.Value)
		})
		return
	}
	http.Error(w, "symphony: this is a proxy, and has no page "+r.URL.Path, http.StatusNotFound)
}

// modelTarget returns where a model is: at the address that the list names for its host, or
// elsewhere on the internet.
func (p *Proxy) modelTarget(m Model) (target, error) {
	place := m.URL.Host
	if m.URL.Port() == "" {
		place = net.JoinHostPort(m.URL.Hostname(), strconv.Itoa(usualTLS))
	}
	t, err := p.find(place, usualTLS)
	if err == nil {
		return t, nil
	}
	name, nameErr := allowlist.Name(m.URL.Hostname())
	if nameErr != nil {
		return t, err
	}
	return target{host: name, port: t.port, rule: allowlist.Rule{Host: name}}, nil
}

// transport returns a transport for a single request to a target.
func (p *Proxy) transport(t target) *http.Transport {
	return &http.Transport{
		DialContext:           func(ctx context.Context, _, _ string) (net.Conn, error) { return p.dial(ctx, t) },
		TLSHandshakeTimeout:   dialBound,
		ResponseHeaderTimeout: idleBound,
		DisableKeepAlives:     true,
		DisableCompression:    true, // the answer is passed on as it is
	}
}

// forward sends a request to a target and copies the answer. change sets what differs from the
// request of the agent.
func (p *Proxy) forward(
	w http.ResponseWriter,
	r *http.Request,
	transport *http.Transport,
	change func(*httputil.ProxyRequest),
) {
	forwarder := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(out *httputil.ProxyRequest) {
			change(out)
			// A connection that becomes another protocol would no longer be one request.
			out.Out.Header.Del("Connection")
			out.Out.Header.Del("Upgrade")
		},
		FlushInterval: -1, // models answer piece by piece
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, err error) { p.refuse(w, err) },
	}
	forwarder.ServeHTTP(w, r)
}

// hostHeader returns the Host header of a plain request to a target.
func hostHeader(t target) string {
	if t.port == usualHTTP && !strings.Contains(t.host, ":") {
		return t.host
	}
	return t.String()
}
