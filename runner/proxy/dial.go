package proxy

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
)

// dial connects to a target, within dialBound, and reports a target that can't be reached
// before ctx ends.
func (p *Proxy) dial(ctx context.Context, t target) (net.Conn, error) {
	bounded, cancel := context.WithTimeout(ctx, dialBound)
	defer cancel()
	conn, err := p.reach(bounded, t)
	if r, is := errors.AsType[*refused](err); is && ctx.Err() == nil {
		p.refused.add(r.Refusal)
	}
	return conn, err
}

func (p *Proxy) reach(ctx context.Context, t target) (net.Conn, error) {
	if p.usesUpstream(t) {
		conn, err := p.throughUpstream(ctx, t)
		if err != nil {
			return nil, p.failedUpstream(t, err)
		}
		return conn, nil
	}
	addresses, err := p.addresses(ctx, t)
	if err != nil {
		return nil, err
	}
	for _, address := range addresses {
		conn, err := p.try(ctx, netip.AddrPortFrom(address, t.port))
		if err == nil {
			return conn, nil
		}
	}
	return nil, t.refusal(Unreachable)
}

// failedUpstream is the refusal of a target that the proxy of the company did not reach, or
// that was not reached because of that proxy.
func (p *Proxy) failedUpstream(t target, err error) *refused {
	// the error of a connection contains this machine's port, which is another each time
	if ofConn, is := errors.AsType[*net.OpError](err); is {
		err = ofConn.Err
	}
	r := t.refusal(Unreachable)
	r.Detail = text.Short(text.Visible("the proxy "+withPort(p.config.Upstream)+": "+err.Error()), maxDetail)
	return r
}

// try connects to one address of several, within tryBound.
func (p *Proxy) try(ctx context.Context, address netip.AddrPort) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, tryBound)
	defer cancel()
	return p.config.Dial(ctx, "tcp", address.String())
}

// usesUpstream reports whether a target is reached through the proxy of the company.
func (p *Proxy) usesUpstream(t target) bool {
	if p.config.Upstream == nil || len(t.rule.Within) > 0 {
		return false
	}
	return p.config.Direct == nil || !p.config.Direct(t.host)
}

// addresses returns the addresses of a target that its rule admits.
func (p *Proxy) addresses(ctx context.Context, t target) ([]netip.Addr, error) {
	fixed := t.rule.Fixed()
	if len(fixed) > 0 {
		return fixed, nil
	}
	address, err := netip.ParseAddr(t.host)
	if err == nil && t.rule.Admits(address) {
		return []netip.Addr{address}, nil
	}
	name := t.host
	if strings.Contains(name, ".") {
		name += "." // a name in full, which no search domain of this machine makes longer
	}
	found, err := p.config.Resolver.LookupNetIP(ctx, "ip", name)
	if err != nil || len(found) == 0 {
		return nil, t.refusal(NotResolved)
	}
	var admitted []netip.Addr
	for _, address := range found {
		if t.rule.Admits(address) {
			admitted = append(admitted, address.Unmap())
		}
	}
	if len(admitted) == 0 {
		return nil, t.refusal(NotPublic)
	}
	return admitted, nil
}

// throughUpstream asks the proxy of the company for a tunnel.
func (p *Proxy) throughUpstream(ctx context.Context, t target) (net.Conn, error) {
	upstream := p.config.Upstream
	conn, err := p.config.Dial(ctx, "tcp", withPort(upstream))
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	request := &http.Request{
		Method: http.MethodConnect,
		URL:    &url.URL{Opaque: t.String()},
		Host:   t.String(),
		Header: http.Header{},
	}
	if upstream.User != nil {
		password, _ := upstream.User.Password()
		login := base64.StdEncoding.EncodeToString([]byte(upstream.User.Username() + ":" + password))
		request.Header.Set("Proxy-Authorization", "Basic "+login)
	}
	if err := request.Write(conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	// The server behind the tunnel says nothing before the client does, so that the reader
	// takes nothing but the answer.
	answer, err := http.ReadResponse(bufio.NewReader(conn), request) //nolint:bodyclose // the tunnel is its body
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		_ = conn.Close()
		return nil, fmt.Errorf("%d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	}
	return conn, nil
}

// withPort returns the address of a proxy.
func withPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}
