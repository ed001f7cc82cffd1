package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// tracker is the Linear, with what measurements want of it.
type tracker struct{ *stage.Tracker }

// traffic is what was asked of the Linear, and how many bytes that took to and fro, headers included.
type traffic struct{ Requests, In, Out int64 }

func (t traffic) since(before traffic) traffic {
	return traffic{t.Requests - before.Requests, t.In - before.In, t.Out - before.Out}
}

// slow makes every answer take so long.
func (t tracker) slow(ctx context.Context, delay time.Duration) error {
	return t.Fail(ctx, lineartest.Failure{Kind: lineartest.FailSlow, Times: -1, DelayMS: delay.Milliseconds()})
}

// requests returns what was asked since the last call.
func (t tracker) requests(ctx context.Context) ([]lineartest.Entry, error) {
	var log []lineartest.Entry
	err := t.Control(ctx, "log", nil, &log)
	if err != nil {
		return nil, err
	}
	return log, t.Control(ctx, "log/clear", struct{}{}, nil)
}

func (t tracker) traffic(ctx context.Context) (all traffic, err error) {
	return all, t.Control(ctx, "traffic", nil, &all)
}

// load makes the Linear seed itself with the issues of loadIssueList, which would be too much for one request.
func (t tracker) load(ctx context.Context, l load) error { return t.Control(ctx, "load", l, nil) }

func (t tracker) move(ctx context.Context, identifier, state string) error {
	return t.Control(ctx, "move", map[string]string{"identifier": identifier, "state": state}, nil)
}

// serveLinear is a Linear in a process of its own, so that what it does is no part of what is measured. It ends with
// stdin.
func serveLinear(in io.Reader, out, errw io.Writer) int {
	s := lineartest.New(lineartest.Config{RequestsPerHour: 1e9, ComplexityPerHour: 1e12})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(errw, "bench linear:", err)
		return 1
	}
	m := &meter{linear: s}
	server := &http.Server{Handler: m.mux(), ReadHeaderTimeout: 10 * time.Second, ConnContext: m.connected}
	served := make(chan error, 1)
	go func() { served <- server.Serve(countingListener{l}) }()
	fmt.Fprintln(out, "http://"+l.Addr().String())
	_, err = io.Copy(io.Discard, in)
	err = errors.Join(err, s.Close(), server.Close())
	if served := <-served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if err != nil {
		fmt.Fprintln(errw, "bench linear:", err)
		return 1
	}
	return 0
}

// meter counts what clients of /graphql send and get. The connections of those that steer are not counted.
type meter struct {
	linear   *lineartest.Server
	requests atomic.Int64
	prepared atomic.Pointer[prepared]
	mu       sync.Mutex
	clients  map[*countingConn]bool
}

func (m *meter) mux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/", m.linear)
	mux.HandleFunc("/graphql", func(w http.ResponseWriter, r *http.Request) {
		m.requests.Add(1)
		if c, ok := r.Context().Value(connKey{}).(*countingConn); ok {
			m.mu.Lock()
			if m.clients == nil {
				m.clients = map[*countingConn]bool{}
			}
			m.clients[c] = true
			m.mu.Unlock()
		}
		m.serveGraphQL(w, r)
	})
	mux.HandleFunc("GET /control/traffic", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(m.sum()) // a client that is gone says so itself
	})
	mux.HandleFunc("POST /control/load", m.serveLoad)
	mux.HandleFunc("POST /control/seed", m.serveSeed)
	return mux
}

func (m *meter) sum() traffic {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := traffic{Requests: m.requests.Load()}
	for c := range m.clients {
		all.In, all.Out = all.In+c.in.Load(), all.Out+c.out.Load()
	}
	return all
}

type connKey struct{}

func (m *meter) connected(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

type countingListener struct{ net.Listener }

func (l countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &countingConn{Conn: c}, nil
}

type countingConn struct {
	net.Conn
	in, out atomic.Int64
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.in.Add(int64(n))
	return n, err
}

func (c *countingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.out.Add(int64(n))
	return n, err
}
