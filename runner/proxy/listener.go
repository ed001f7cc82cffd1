package proxy

import (
	"errors"
	"net"
	"sync"
)

// limitedListener accepts a number of connections at once. It answers and closes any other, so
// that a program sees why it has to wait.
type limitedListener struct {
	net.Listener
	full func() // is called when a connection is closed at once

	mu    sync.Mutex
	open  map[*limitedConn]struct{}
	ended bool
}

const tooManyAnswer = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		limited := &limitedConn{Conn: conn, listener: l}
		if l.add(limited) {
			return limited, nil
		}
		l.full()
		_, _ = conn.Write([]byte(tooManyAnswer)) // fits the buffer of a new socket
		_ = conn.Close()
	}
}

func (l *limitedListener) add(c *limitedConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || len(l.open) >= maxConnections {
		return false
	}
	l.open[c] = struct{}{}
	return true
}

func (l *limitedListener) remove(c *limitedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, c)
}

// closeAll closes all connections, also those that became tunnels.
func (l *limitedListener) closeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for c := range l.open {
		_ = c.Conn.Close()
	}
}

// limitedConn makes room for another connection once it is closed.
type limitedConn struct {
	net.Conn
	listener *limitedListener
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	c.listener.remove(c)
	return c.Conn.Close()
}

// CloseWrite ends the stream in one direction.
func (c *limitedConn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}
