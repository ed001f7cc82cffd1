// Package web serves the read model over HTTP: pages for people and the API of specification
// 13.7. It reads state.db and never writes it, except by the operations of symphony's own
// commands. Nothing depends on it: it may be killed at any time.
package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/logs"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Server serves some projects at a single address.
type Server struct {
	source    source
	access    access
	listeners []net.Listener
	name      string // the secret name of the server, see secretName; empty for none
	handler   http.Handler
	token     Token
	ownToken  bool
	commands  *commands
	feeds     *feeds
	details   details
}

// Options are the projects to serve, the address, and the token.
type Options struct {
	Places []Place // the projects; none for all projects of the account
	// Listen is HOST, HOST:PORT or unix:PATH; empty stands for 127.0.0.1. Port replaces its
	// port unless it is negative; 0 stands for a free port.
	Listen string
	Port   int
	// Hosts are names by which browsers may address the server, beside the names of this
	// machine and of Listen.
	Hosts []string
	Token Token
	// OwnToken is set if the token is the operator's own: it stays over restarts, and is never
	// printed.
	OwnToken bool
}

// New listens at the address. It serves nothing before Serve.
func New(ctx context.Context, w *environ.Env, o Options) (*Server, error) {
	listener, err := listen(ctx, w, o)
	if err != nil {
		return nil, err
	}
	s := &Server{
		source:    source{w, o.Places, new(state.ClaimCache)},
		access:    newAccess(listener.Addr(), o),
		token:     o.Token,
		ownToken:  o.OwnToken,
		commands:  newCommands(),
		feeds:     newFeeds(),
		listeners: []net.Listener{listener},
	}
	s.details = details{s.source, &s.access, make(chan struct{}, maxAtOnce)}
	second, safe := listenIPv6(ctx, listener.Addr())
	if second != nil {
		s.listeners = append(s.listeners, second)
	}
	if safe {
		var kept Token
		if o.OwnToken {
			kept = o.Token
		}
		s.name = secretName(kept)
	}
	s.handler = s.routes()
	return s, nil
}

// Announce prints the address and, with link, how to act there, which no log may contain: the
// link and the token. A token of the operator's own is not printed, and its file serves in
// place of the link.
func (s *Server) Announce(say func(line string), link bool) {
	address := s.listeners[0].Addr()
	base := "http://" + address.String()
	if address.Network() == "unix" {
		say("serving at the socket " + address.String())
		base = "http://HOST" // of a proxy or a tunnel
	} else {
		say("serving at " + base + "/")
	}
	if len(s.access.open) > 0 {
		line := "open to other machines, without encryption; reading needs the token, too:"
		for _, host := range s.access.open {
			line += " http://" + net.JoinHostPort(host, s.access.port) + "/"
		}
		say(line)
	}
	switch {
	case len(s.access.open) > 0:
		base = "http://" + net.JoinHostPort(s.access.open[0], s.access.port)
	case s.name != "":
		base = "http://" + s.name + ":" + s.access.port
	}
	login := base + "/login?token=" + string(s.access.code)
	switch {
	case link && s.ownToken:
		say("to act there, log in at " + base + "/login with the token of the file")
	case link:
		say("to act there, open this link once: " + login)
		say("other browsers and programs use the token " + string(s.token))
	}
}

// The limits of a server and of a request.
const (
	maxConnections = 512
	maxHeader      = 16 << 10
	maxBody        = 64 << 10
	readPatience   = 10 * time.Second // for the whole request
	writePatience  = 30 * time.Second // for the whole answer
	idlePatience   = 2 * time.Minute
	shutdownTime   = 2 * time.Second
)

// Serve answers requests until ctx ends, closes all connections, and waits for the commands
// that still run.
func (s *Server) Serve(ctx context.Context) error {
	server := &http.Server{
		Handler:           s.handler,
		ConnState:         newConnections(maxConnections).track,
		MaxHeaderBytes:    maxHeader,
		ReadHeaderTimeout: readPatience,
		ReadTimeout:       readPatience,
		WriteTimeout:      writePatience,
		IdleTimeout:       idlePatience,
		// Requests end with the server, also requests that wait for events.
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    nil,
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
		defer cancel()
		if server.Shutdown(limited) != nil {
			_ = server.Close()
		}
	})
	defer s.commands.end()
	var others sync.WaitGroup
	defer others.Wait()
	for _, l := range s.listeners[1:] {
		others.Go(func() { _ = server.Serve(l) }) // until the first listener ends
	}
	if err := server.Serve(s.listeners[0]); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return errors.Join(fmt.Errorf("the server: %w", err), server.Close())
	}
	<-stopped
	return nil
}

// routes returns the handler of all requests.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	methods := map[string]map[string]route{}
	for _, r := range s.table() {
		if methods[r.path] == nil {
			methods[r.path] = map[string]route{}
		}
		methods[r.path][r.method] = r
	}
	for path, known := range methods {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			method := r.Method
			if method == http.MethodHead {
				method = http.MethodGet
			}
			found, ok := known[method]
			if !ok {
				w.Header().Set("Allow", allowed(known))
				s.fail(w, r, reconcile.NewError(
					"method_not_allowed",
					r.Method+" is not a method of "+r.URL.Path,
					"use "+allowed(known),
				))
				return
			}
			if err := s.access.permit(r, found.need); err != nil {
				s.fail(w, r, err)
				return
			}
			if err := found.checkQuery(r); err != nil {
				s.fail(w, r, err)
				return
			}
			s.fail(w, r, found.handle(w, r))
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, reconcile.NewError("not_found", "there is no "+r.URL.Path, seeAddresses))
	})
	return s.access.guard(http.MaxBytesHandler(mux, maxBody), s)
}

// route is a method and a path (the pattern of http.ServeMux).
type route struct {
	method, path string
	need         need
	handle       func(http.ResponseWriter, *http.Request) error
}

// need is the access that a request needs.
type need int

const (
	needNothing need = iota
	needReading      // the token, unless only this machine can reach the server
	needDetails      // the token, unless only this account can reach the server
	needActing       // the token
)

func (s *Server) table() []route {
	return slices.Concat(s.actions().routes(), []route{
		{"GET", "/{$}", needReading, s.page(s.overviewPage)},
		{"GET", "/results", needReading, s.page(s.resultsPage)},
		{"GET", "/issues/{project}/{identifier}", needReading, s.page(s.details.issuePage)},
		{
			"GET",
			"/issues/{project}/{identifier}/log",
			needDetails,
			s.details.issueLog(logs.Options{Whole: true}, "text/plain; charset=utf-8"),
		},
		{"GET", "/issues/{project}/{identifier}/run", needDetails, s.page(s.details.runPage)},
		{"GET", "/issues/{project}/{identifier}/diff", needDetails, s.page(s.details.diffPage)},
		{"GET", "/assets/{name}", needNothing, serveAsset},
		{"GET", "/favicon.ico", needNothing, serveFavicon},
		{"GET", loginPath, needNothing, s.loginPage},
		{"POST", loginPath, needNothing, s.login},
		{"POST", "/theme", needNothing, setTheme},
		{"GET", "/healthz", needNothing, healthz},
		{"GET", "/metrics", needReading, s.metrics},
		{"GET", "/api/v1/state", needReading, s.state},
		{"GET", "/api/v1/results", needReading, s.results},
		{"GET", "/api/v1/events", needReading, s.events},
		{"GET", "/api/v1/openapi.json", needNothing, serveOpenAPI},
		{"GET", "/api/v1/{identifier}", needReading, s.issue},
		{
			"GET",
			"/api/v1/{identifier}/log",
			needDetails,
			s.details.issueLog(logs.Options{Raw: true}, "application/jsonl"),
		},
		{"GET", "/api/v1/{identifier}/diff", needDetails, s.details.issueDiff},
	})
}

func (s *Server) actions() actions { return actions{s.source, &s.access, s.commands} }

// allowed returns the methods of an address as the header Allow lists them, such as "GET, HEAD,
// POST".
func allowed(known map[string]route) string {
	var names []string
	for method := range known {
		names = append(names, method)
		if method == http.MethodGet {
			names = append(names, http.MethodHead)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// connections are the open connections of a server. Their number is limited. If there are too
// many, the oldest connection without a request is closed: clients that connect and ask
// nothing keep no other from the server.
type connections struct {
	most int

	mu    sync.Mutex
	fewer sync.Cond
	open  []net.Conn        // the oldest first
	asks  map[net.Conn]bool // the connections with a request
}

func newConnections(most int) *connections {
	all := &connections{most: most, asks: map[net.Conn]bool{}}
	all.fewer.L = &all.mu
	return all
}

// track is the ConnState of the server. While all others have a request, a new connection
// waits, and keeps the server from accepting more.
func (a *connections) track(c net.Conn, now http.ConnState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch now {
	case http.StateNew:
		if tcp, ok := c.(*net.TCPConn); ok {
			// without it the system keeps megabytes for each client that does not read
			_ = tcp.SetWriteBuffer(maxUnread)
		}
		for len(a.open) >= a.most {
			at := slices.IndexFunc(a.open, func(c net.Conn) bool { return !a.asks[c] })
			if at < 0 {
				a.fewer.Wait()
				continue
			}
			_ = a.open[at].Close() // the server reports it as closed once more
			a.open = slices.Delete(a.open, at, at+1)
		}
		a.open = append(a.open, c)
	case http.StateActive:
		a.asks[c] = true
	default:
		delete(a.asks, c)
		if now != http.StateIdle {
			a.open = slices.DeleteFunc(a.open, func(other net.Conn) bool { return other == c })
		}
		a.fewer.Signal()
	}
}
