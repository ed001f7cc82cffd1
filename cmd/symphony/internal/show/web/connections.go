package web

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
)

// connections are the open connections of a server, of which it has a limited number. If there are too many, the oldest one without a
// request is closed: clients that connect and ask nothing keep no other from the server.
type connections struct {
	most int

	mu    sync.Mutex
	fewer sync.Cond
	open  []*connection // the oldest first
}

func newConnections(most int) *connections {
	all := &connections{most: most}
	all.fewer.L = &all.mu
	return all
}

type connection struct {
	net.Conn
	all      *connections
	requests int // under way
}

// add adds a connection, and closes another one if there are too many. While all have a request it waits.
func (a *connections) add(c net.Conn) *connection {
	made := &connection{Conn: c, all: a}
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.open) >= a.most {
		at := slices.IndexFunc(a.open, func(c *connection) bool { return c.requests == 0 })
		if at < 0 {
			a.fewer.Wait()
			continue
		}
		_ = a.open[at].Conn.Close() // its server removes it once more
		a.open = slices.Delete(a.open, at, at+1)
	}
	a.open = append(a.open, made)
	return made
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	c.all.open = slices.DeleteFunc(c.all.open, func(other *connection) bool { return other == c })
	c.all.fewer.Signal()
	return c.Conn.Close()
}

// limitedListener adds what it accepts to the connections of a server.
type limitedListener struct {
	net.Listener
	all *connections
}

// Accept implements net.Listener.
func (l limitedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(maxUnread) // without it the system keeps megabytes for each client that does not read
	}
	return l.all.add(c), nil
}

type connectionKey struct{}

// withConnection is the ConnContext of a server whose handler is that of counted.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// counted counts the requests that are under way on a connection.
func counted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connectionKey{}).(*connection); ok {
			c.count(1)
			defer c.count(-1)
		}
		h.ServeHTTP(w, r)
	})
}

func (c *connection) count(n int) {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if c.requests += n; c.requests == 0 {
		c.all.fewer.Signal()
	}
}
