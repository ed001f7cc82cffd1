package web

import (
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
	open  []net.Conn        // the oldest first
	asks  map[net.Conn]bool // those with a request
}

func newConnections(most int) *connections {
	all := &connections{most: most, asks: map[net.Conn]bool{}}
	all.fewer.L = &all.mu
	return all
}

// track is the ConnState of the server. While all others have a request, a new connection waits, and keeps the server from accepting more.
func (a *connections) track(c net.Conn, now http.ConnState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch now {
	case http.StateNew:
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetWriteBuffer(maxUnread) // without it the system keeps megabytes for each client that does not read
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
