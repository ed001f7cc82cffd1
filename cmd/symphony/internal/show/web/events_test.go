package web

import (
	"bufio"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/web/page"
	"github.com/symphony-cron/symphony/internal/test"
)

// received is a server-sent event.
type received struct{ id, name, data string }

// stream asks for a stream and returns a function that reads its next event.
func stream(t *testing.T, ctx context.Context, client *http.Client, url, last string) func() received {
	t.Helper()
	r := test.Must(http.NewRequestWithContext(ctx, http.MethodGet, url, nil))
	r.Header.Set("Accept", "text/event-stream")
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	answer, err := client.Do(r)
	test.OK(t, err)
	t.Cleanup(func() { answer.Body.Close() })
	if kind := answer.Header.Get("Content-Type"); kind != "text/event-stream; charset=utf-8" {
		t.Fatal(answer.Status, kind)
	}
	lines := bufio.NewReader(answer.Body)
	return func() (e received) {
		for {
			line := strings.TrimSuffix(test.Must(lines.ReadString('\n')), "\n")
			field, value, _ := strings.Cut(line, ": ")
			switch field {
			case "id":
				e.id = value
			case "event":
				e.name = value
			case "data":
				e.data = value
			case "":
				return e
			}
		}
	}
}

// subscribe is stream for a new client, which skips beats.
func subscribe(
	t *testing.T,
	ctx context.Context,
	client *http.Client,
	url string,
) func() (name, data string) {
	t.Helper()
	next := stream(t, ctx, client, url, "")
	return func() (name, data string) {
		e := next()
		for e.name == "beat" {
			e = next()
		}
		return e.name, e.data
	}
}

// Two hundred clients of an address cost as many renderings as one. When they have gone,
// nothing is left.
func TestOneRenderingForAll(t *testing.T) {
	s, address := serve(t, Options{})
	answer, err := http.Get(address + "/healthz") // the server has started
	test.OK(t, err)
	test.OK(t, answer.Body.Close())
	http.DefaultClient.CloseIdleConnections()
	path := filepath.Join(t.TempDir(), "state.db")
	write := func(text string) {
		test.OK(t, errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)))
	}
	write("a")
	var renderings atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.follow(w, r, func(context.Context) (event, []string) {
			renderings.Add(1)
			data, _ := os.ReadFile(path)
			return newEvent("page", encoded(string(data))), []string{path}
		}); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	var clients []func() (name, data string)
	for range 200 {
		clients = append(clients, subscribe(t, ctx, server.Client(), server.URL))
	}
	for _, text := range []string{"a", "ab", "abc"} {
		write(text)
		for _, next := range clients {
			if name, data := next(); name != "page" || data != fmt.Sprintf("%q", text) {
				t.Fatal(name, data, "not", text)
			}
		}
	}
	// Each change may cost a second one, if the file was written at the moment of the first.
	if n := renderings.Load(); n > 20 {
		t.Errorf("%d renderings", n)
	}
	cancel()
	test.Until(t, "all clients have left", func() bool {
		server.Client().CloseIdleConnections()
		s.feeds.mu.Lock()
		defer s.feeds.mu.Unlock()
		return s.feeds.clients == 0 && len(s.feeds.open) == 0 && runtime.NumGoroutine() <= before
	})
}

// A client that does not read loses its connection, and no client gets more than its share of
// streams.
func TestStreamLimits(t *testing.T) {
	s, url := serve(t, Options{})
	s.feeds.patience = 50 * time.Millisecond
	server := &http.Server{
		ConnState: newConnections(1).track,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n := 0
			_ = s.follow(w, r, func(context.Context) (event, []string) {
				n++
				return newEvent("page", encoded(strings.Repeat(strconv.Itoa(n%10), 8<<20))), nil
			})
		}),
	}
	l := test.Must(net.Listen("tcp", "127.0.0.1:0"))
	go server.Serve(l)
	defer server.Close()
	c := test.Must(net.Dial("tcp", l.Addr().String()))
	defer c.Close()
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	test.Must(c.Read(make([]byte, 1)))
	test.Until(t, "the client has no stream", func() bool {
		s.feeds.mu.Lock()
		defer s.feeds.mu.Unlock()
		return s.feeds.clients == 0
	})
	s.feeds.clients = maxStreams
	answer, err := http.Get(url + "/api/v1/events")
	if err != nil || answer.StatusCode != http.StatusServiceUnavailable {
		t.Fatal(answer.Status, err)
	}
	answer.Body.Close()
}

// Clients that connect and ask nothing, or not all of a request, keep no other from the
// server, unless all others have a request.
func TestConnectionsWithoutARequest(t *testing.T) {
	asked := make(chan struct{})
	answer := make(chan struct{})
	server := &http.Server{
		ConnState: newConnections(2).track,
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			asked <- struct{}{}
			<-answer
		}),
	}
	l := test.Must(net.Listen("tcp", "127.0.0.1:0"))
	go server.Serve(l)
	defer server.Close()
	send := func(text string) net.Conn {
		c := test.Must(net.Dial("tcp", l.Addr().String()))
		fmt.Fprint(c, text)
		return c
	}
	for _, text := range []string{"", "GET / HTTP/1.1\r\n", "", ""} {
		defer send(text).Close()
	}
	const get = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
	one := send(get)
	two := send(get)
	<-asked
	<-asked
	three := send(get)
	answer <- struct{}{}
	answer <- struct{}{}
	<-asked
	answer <- struct{}{}
	for _, c := range []net.Conn{one, two, three} {
		_ = c.Close()
	}
}

// A page and its stream have the same address, and the same content.
func TestPageStream(t *testing.T) {
	_, url := serve(t, Options{})
	for _, c := range []struct{ path, event, part string }{
		{"/?q=x", "page", `"title":"Search: x · symphony"`},
		{"/?q=x", "page", "symphony init"},
		{"/api/v1/events", "state", `"running":[]`},
		{"/api/v1/events?project=none", "unavailable", `"code":"not_found"`},
	} {
		if name, data := subscribe(t, t.Context(), http.DefaultClient, url+c.path)(); name != c.event ||
			!strings.Contains(data, c.part) {
			t.Error(c.path, name, data)
		}
	}
}

// A browser loads an asset again only after it has changed.
func TestAssetTag(t *testing.T) {
	s, _ := serve(t, Options{})
	ask := func(tag string) *httptest.ResponseRecorder {
		return visit(s, "GET", "/assets/page.js", "", "If-None-Match", tag)
	}
	first := ask("")
	test.Equal(t, "the first answer", first.Code, http.StatusOK)
	test.Equal(t, "the second answer", ask(first.Header().Get("ETag")).Code, http.StatusNotModified)
}

// The only script that is not ours is idiomorph.min.js of npm's idiomorph 0.8.0, with its
// licence. Ours have at most 400 lines.
func TestScripts(t *testing.T) {
	sums := map[string]string{
		"idiomorph.min.js":  "4cbd535caf7663a51eda9bce6595371c384fc430d54b8d414e29a61167f19f96",
		"idiomorph.LICENSE": "d3d2456f76414f2456104660ebd65aff1c04cd7966b942bdabd63f3cdb316a38",
	}
	lines := 0
	for _, name := range page.AssetNames() {
		data := test.Must(fs.ReadFile(page.Assets(), name))
		if sum, ok := sums[name]; ok && fmt.Sprintf("%x", sha256.Sum256(data)) != sum {
			t.Errorf("%s is not that of the release", name)
		} else if !ok && strings.HasSuffix(name, ".js") {
			lines += strings.Count(string(data), "\n")
		}
		delete(sums, name)
	}
	if len(sums) > 0 || lines > 400 {
		t.Errorf("missing: %v; %d lines of scripts", sums, lines)
	}
}

// A client that connects again gets the state only if it has changed since the event that it
// names.
func TestConnectAgain(t *testing.T) {
	s, dir, _ := withWorkspace(t)
	address := "http://" + s.listeners[0].Addr().String() + "/api/v1/events?project=web"
	db := test.Must(sql.Open("sqlite", "file:"+filepath.Join(dir, "web", "state", "state.db")))
	defer db.Close()
	retry := func(attempt int) {
		test.Must(
			db.ExecContext(
				t.Context(),
				"UPDATE claims SET attempt = ?, version = version + 1 WHERE identifier = 'ABC-1'",
				attempt,
			),
		)
	}
	// their time changes the state
	test.Must(db.ExecContext(t.Context(), "DELETE FROM claims WHERE status = 'running'"))
	test.Must(db.ExecContext(t.Context(), "DELETE FROM runs WHERE settled = 0"))
	retry(5)
	first := stream(t, t.Context(), http.DefaultClient, address, "")()
	test.Equal(t, "the first event", first.name, "state")
	test.Contains(t, "the first event", first.data, `"attempt":5`)

	other := stream(t, t.Context(), http.DefaultClient, address, "of another time")
	test.Equal(t, "the first event of one that was here", other().name, "beat")
	test.Equal(t, "the event after it", other().id, first.id)

	again := stream(t, t.Context(), http.DefaultClient, address, first.id)
	test.Equal(t, "the first event of one that has missed nothing", again().name, "beat")
	retry(6)
	e := again()
	for e.name == "beat" {
		e = again()
	}
	test.Equal(t, "the next event", e.name, "state")
	test.Contains(t, "the next event", e.data, `"attempt":6`)
}
