// Package proxy is the way of an agent's sandbox to the network: an HTTP proxy outside, on a
// unix socket, which reaches only the hosts that a workflow allows.
//
// Each request is decided by its own target. The proxy resolves names itself and connects to
// the addresses that it has checked. A host that an agent does not reach is reported, because
// agents try again for minutes without a word.
package proxy

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/allowlist"
	"github.com/symphony-cron/symphony/internal/text"
)

// Reason is why a host was not reached.
type Reason string

const (
	NotAHost     Reason = "not a host"          // what the agent asked for is no name and no address
	NotListed    Reason = "not allowed"         // the list does not contain the host
	PortNotNamed Reason = "port not allowed"    // the list contains the host, on other ports
	NotResolved  Reason = "not found"           // the name has no address
	NotPublic    Reason = "on a private net"    // the addresses of the name are not on the internet
	Unreachable  Reason = "can't be reached"    // no address of the host answers
	NotTLS       Reason = "no TLS"              // a tunnel begins with something else
	OtherName    Reason = "another name in TLS" // a tunnel is meant for another host
	TooMany      Reason = "too many at once"    // connections
)

// Refusal tells that an agent did not reach a host.
type Refusal struct {
	// Host is in lower case; up to 80 bytes of what is no host, with a port; empty for
	// TooMany.
	Host   string
	Port   uint16 // 0 for what is no host
	Reason Reason
	// Detail is what the proxy of the company did, such as "the proxy proxy.example:3128: 407
	// Proxy Authentication Required"; empty if it had no part in the refusal.
	Detail string
}

// String tells which host was not reached, and why: "example.com:443: not allowed".
func (r Refusal) String() string {
	said := fmt.Sprintf("%s: %s", r.place(), r.Reason)
	if r.Detail != "" {
		said += " (" + r.Detail + ")"
	}
	return said
}

func (r Refusal) place() string {
	if r.Host == "" {
		return "a connection"
	}
	if r.Port == 0 {
		return r.Host
	}
	return net.JoinHostPort(r.Host, strconv.Itoa(int(r.Port)))
}

// Entry is what the list of the workflow lacks: example.com, or example.com:8443 for another
// port. It is empty if no entry would help.
func (r Refusal) Entry() string {
	switch r.Reason {
	case NotListed:
		if r.Port == usualTLS || r.Port == usualHTTP {
			return r.Host
		}
		return r.place()
	case PortNotNamed:
		return r.place()
	case NotPublic:
		return r.Host + "=ADDRESS"
	case NotAHost, NotResolved, Unreachable, NotTLS, OtherName, TooMany:
	}
	return ""
}

// Resolver finds the addresses of a name. A *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Model is the service of a model that the sandbox does not reach itself: one whose key no
// agent sees, or one on this machine. The proxy adds the key, if there is one, to requests
// below /model/KIND and sends them to URL.
type Model struct {
	Kind   string   // such as claude
	URL    *url.URL // https://api.anthropic.com
	Header string   // the name of the header with the key: X-Api-Key; empty without a key
	Value  string   // of the header, such as "Bearer " and the key
	// Roots are the certificates to trust instead of the system's; nil for these.
	Roots *x509.CertPool
	// Anywhere: the host of URL may have any address, because the operator has named it.
	Anywhere bool
}

// Config describes the proxy of a run.
type Config struct {
	List   allowlist.List
	Models []Model
	// Upstream is the HTTP proxy of a company, through which hosts are reached that the list
	// names without an address; nil if the machine reaches them itself. It resolves their
	// names.
	Upstream *url.URL
	// Direct reports whether a host is reached without Upstream; nil for none.
	Direct func(host string) bool
	// Refused is called the first time that a host is refused for a reason, by several
	// goroutines.
	Refused func(Refusal)

	Resolver Resolver // net.DefaultResolver if nil
	// Dial connects to an address and port; a net.Dialer does if nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Limits of a proxy.
const (
	maxConnections = 200 // at once
	maxHeader      = 16 << 10
	maxPlace       = 80  // bytes of what is no host, in a report
	maxDetail      = 200 // bytes of a Detail
	maxRefusals    = 500 // that are reported: an agent could invent any number of hosts

	headerBound = 10 * time.Second // for the header of a request, and the first bytes of a tunnel
	dialBound   = 15 * time.Second // to resolve a name and to connect
	tryBound    = 5 * time.Second  // to connect to one of the addresses
	answerBound = 30 * time.Second // for the first bytes of a server in a tunnel
	idleBound   = 30 * time.Minute // without a byte in a tunnel; models are silent for long
)

// Proxy serves one run.
type Proxy struct {
	config  Config
	refused refusals
}

// New returns a proxy, which serves nothing yet.
func New(c Config) *Proxy {
	if c.Resolver == nil {
		c.Resolver = net.DefaultResolver
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
	return &Proxy{config: c, refused: refusals{report: c.Refused, known: map[Refusal]struct{}{}}}
}

// Serve accepts connections until ctx ends, and closes all of them then.
func (p *Proxy) Serve(ctx context.Context, listener net.Listener) error {
	limited := &limitedListener{
		Listener: listener,
		full:     func() { p.refused.add(Refusal{Reason: TooMany}) },
		open:     map[*limitedConn]struct{}{},
	}
	server := &http.Server{
		Handler:           handler{p, ctx},
		ReadHeaderTimeout: headerBound,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(io.Discard, "", 0),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		// OPTIONS * would be answered without us.
		DisableGeneralOptionsHandler: true,
	}
	server.SetKeepAlivesEnabled(false) // one request per connection: nothing hides behind another
	stop := context.AfterFunc(ctx, func() {
		_ = server.Close()
		limited.closeAll()
	})
	defer stop()
	err := server.Serve(limited)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve the network of a sandbox: %w", err)
}

// handler answers requests until ctx ends. The context of a request ends earlier, when the
// agent no longer waits: whether its host can be reached is found out and reported even so.
type handler struct {
	*Proxy
	ctx context.Context
}

// ServeHTTP implements http.Handler.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		h.connect(w, r)
	case r.URL.IsAbs():
		h.plain(w, r)
	default:
		h.model(w, r)
	}
}

// target is the host of a request, as the list knows it.
type target struct {
	host string
	port uint16
	rule allowlist.Rule
}

func (t target) String() string { return net.JoinHostPort(t.host, strconv.Itoa(int(t.port))) }

// refusal returns a refusal of the target.
func (t target) refusal(reason Reason) *refused {
	return &refused{Refusal{Host: t.host, Port: t.port, Reason: reason}}
}

// refused is a refusal as an error.
type refused struct{ Refusal }

// Error returns the line that the agent reads.
func (r *refused) Error() string {
	line := "symphony: " + r.String()
	entry := r.Entry()
	switch {
	case entry == "":
		return line
	case r.Reason == NotPublic:
		return line + "; agent.network.allow in WORKFLOW.md lacks the address of a private host: " + entry
	}
	return line + "; agent.network.allow in WORKFLOW.md lacks " + entry
}

// find decides about the host of a request: HOST:PORT, or HOST for the usual port.
func (p *Proxy) find(place string, usual uint16) (target, error) {
	host, port, err := split(place, usual)
	if err != nil {
		return target{}, notAHost(place)
	}
	name, err := allowlist.Name(host)
	if err != nil {
		return target{}, notAHost(place)
	}
	t := target{host: name, port: port}
	rule, answer := p.config.List.Find(name, port, usual)
	switch answer {
	case allowlist.NotListed:
		return t, t.refusal(NotListed)
	case allowlist.OtherPort:
		return t, t.refusal(PortNotNamed)
	case allowlist.Listed:
	}
	t.rule = rule
	return t, nil
}

// split takes the port off a host.
func split(place string, usual uint16) (host string, port uint16, err error) {
	host, text, err := net.SplitHostPort(place)
	if incomplete, is := errors.AsType[*net.AddrError](err); is && incomplete.Err == "missing port in address" {
		return strings.TrimSuffix(strings.TrimPrefix(place, "["), "]"), usual, nil
	}
	if err != nil {
		return "", 0, err
	}
	port, err = allowlist.Port(text)
	return host, port, err
}

func notAHost(place string) *refused {
	return &refused{Refusal{Host: text.Short(text.Visible(place), maxPlace), Reason: NotAHost}}
}

// refuse answers a request that is refused, and reports it.
func (p *Proxy) refuse(w http.ResponseWriter, err error) {
	status := http.StatusBadGateway
	if r, is := errors.AsType[*refused](err); is {
		p.refused.add(r.Refusal)
		if r.Reason != NotResolved && r.Reason != Unreachable {
			status = http.StatusForbidden
		}
		if r.Reason == NotAHost {
			status = http.StatusBadRequest
		}
	}
	http.Error(w, err.Error(), status)
}

// refusals reports each refusal once.
type refusals struct {
	report func(Refusal)
	mu     sync.Mutex
	known  map[Refusal]struct{}
}

func (r *refusals) add(one Refusal) {
	if r.isNew(one) && r.report != nil {
		r.report(one)
	}
}

func (r *refusals) isNew(one Refusal) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.known[one]
	if known || len(r.known) >= maxRefusals {
		return false
	}
	r.known[one] = struct{}{}
	return true
}
