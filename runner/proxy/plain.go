package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/symphony-cron/symphony/internal/allowlist"
)

const usualHTTP = 80

// plain serves a request for http://HOST/. Its Host header becomes the host of the URL.
func (h handler) plain(w http.ResponseWriter, r *http.Request) {
	if r.URL.Scheme != "http" || r.URL.User != nil {
		http.Error(w, "symphony: this proxy takes CONNECT, and http:// without a login", http.StatusBadRequest)
		return
	}
	t, err := h.find(r.URL.Host, usualHTTP)
	if err != nil {
		h.refuse(w, err)
		return
	}
	transport := h.transport(t)
	if h.usesUpstream(t) {
		transport.Proxy = http.ProxyURL(h.config.Upstream)
		transport.DialContext = h.config.Dial
	}
	h.forward(w, r, t, transport, func(out *httputil.ProxyRequest) {
		out.Out.URL.Host = hostHeader(t)
		out.Out.Host = hostHeader(t)
	})
}

// modelPrefix is the path below which agents find their models.
const modelPrefix = "/model/"

// refusedNames are headers and parameters that an agent can't send, without all but letters and
// digits: servers take X_Api_Key for X-Api-Key, and $key for key.
var refusedNames = []string{
	// A key of its own would be an attacker's: what the agent sends would arrive in another account.
	"authorization", "xapikey", "xgoogapikey", "apikey", "cookie", "key", "accesstoken", "oauthtoken",
	// Services of Google take headers from a parameter.
	"httpheaders",
	// Some servers take another method or path from these than the proxy has seen.
	"method", "httpmethod", "xhttpmethod", "xhttpmethodoverride", "xmethodoverride", "xoriginalurl", "xrewriteurl",
}

// isRefused reports whether an agent can't send a header or a parameter.
func isRefused(name string) bool {
	plain := strings.Map(func(c rune) rune {
		if unicode.IsLetter(c) || unicode.IsDigit(c) {
			return unicode.ToLower(c)
		}
		return -1
	}, name)
	return slices.Contains(refusedNames, plain)
}

// model serves a request to a model whose key the proxy has.
func (h handler) model(w http.ResponseWriter, r *http.Request) {
	at := slices.IndexFunc(h.config.Models, func(m Model) bool { return m.serves(r) })
	if at < 0 {
		http.Error(w, "symphony: this is a proxy, and has no page "+r.URL.Path, http.StatusNotFound)
		return
	}
	m := h.config.Models[at]
	t, err := h.modelTarget(m)
	if err != nil {
		h.refuse(w, err)
		return
	}
	transport := h.transport(t)
	transport.TLSClientConfig = &tls.Config{RootCAs: m.Roots, MinVersion: tls.VersionTLS12}
	h.forward(w, r, t, transport, func(out *httputil.ProxyRequest) { m.rewrite(out) })
}

func (m Model) base() string { return modelPrefix + m.Kind }

// serves reports whether a request is for the model. The answer to a TRACE would contain the
// key, and no model needs more than GET and POST.
func (m Model) serves(r *http.Request) bool {
	path, is := strings.CutPrefix(r.URL.Path, m.base()+"/")
	return is && !climbs(path) && (r.Method == http.MethodGet || r.Method == http.MethodPost)
}

// climbs reports whether a path could lead out of the URL of a model on its server. Some servers
// decode a path twice (%252e), and some take ..; for .. with an empty parameter. No path of a model
// needs two dots, a percent sign of its own (%25) or a control character.
func climbs(path string) bool {
	again, err := url.PathUnescape(path)
	return err != nil || strings.Contains(again, "..") || strings.Contains(again, "%") ||
		strings.ContainsFunc(again, unicode.IsControl)
}

// rewrite turns the request of an agent into a request to the model.
func (m Model) rewrite(out *httputil.ProxyRequest) {
	out.Out.URL.Path = strings.TrimPrefix(out.In.URL.Path, m.base())
	out.Out.URL.RawPath = strings.TrimPrefix(out.In.URL.RawPath, m.base())
	if m.Header != "" {
		removeRefused(out)
	}
	out.SetURL(m.URL)
	if m.Header == "" {
		return
	}
	maps.DeleteFunc(out.Out.Header, func(name string, _ []string) bool { return isRefused(name) })
	out.Out.Header.Set(m.Header, m.Value)
}

// removeRefused removes the parameters that an agent can't send.
func removeRefused(out *httputil.ProxyRequest) {
	query := out.Out.URL.Query()
	before := len(query)
	maps.DeleteFunc(query, func(name string, _ []string) bool { return isRefused(name) })
	if len(query) < before {
		out.Out.URL.RawQuery = query.Encode()
	}
}

// modelTarget returns where a model is: at the address that the list names for its host, or
// elsewhere on the internet.
func (p *Proxy) modelTarget(m Model) (target, error) {
	t := target{port: usualTLS}
	if m.URL.Scheme == "http" {
		t.port = usualHTTP
	}
	name, err := allowlist.Name(m.URL.Hostname())
	if err != nil {
		return t, notAHost(m.URL.Host)
	}
	t.host = name
	if m.URL.Port() != "" {
		t.port, err = allowlist.Port(m.URL.Port())
		if err != nil {
			return t, notAHost(m.URL.Host)
		}
	}
	t.rule, _ = p.config.List.Find(t.host, t.port, t.port) // none if it is not listed
	if m.Anywhere && len(t.rule.Within) == 0 {
		t.rule.Anywhere = true
	}
	return t, nil
}

// transport returns a transport for a single request to a target.
func (h handler) transport(t target) *http.Transport {
	return &http.Transport{
		DialContext:           func(context.Context, string, string) (net.Conn, error) { return h.dial(h.ctx, t) },
		TLSHandshakeTimeout:   dialBound,
		ResponseHeaderTimeout: idleBound,
		DisableKeepAlives:     true,
		DisableCompression:    true, // the answer is passed on as it is
	}
}

// forward sends a request to a target and copies the answer. change sets what differs from the
// request of the agent.
func (h handler) forward(
	w http.ResponseWriter,
	r *http.Request,
	t target,
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
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			_, known := errors.AsType[*refused](err)
			if !known && r.Context().Err() == nil { // the agent still waits
				h.refused.add(t.refusal(Unreachable).Refusal)
				err = fmt.Errorf("symphony: %s: %w", t, err)
			}
			h.refuse(w, err)
		},
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
