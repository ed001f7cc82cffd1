package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symphony-cron/symphony/internal/allowlist"
	"github.com/symphony-cron/symphony/internal/test"
)

// world is a proxy with the internet of a test. Names have the addresses of its table, and every
// connection ends at a server of the test.
type world struct {
	socket string
	server string // the address of the server, on loopback

	mu       sync.Mutex
	names    map[string][]string
	dialed   []string
	refusals []Refusal
}

var usualNames = map[string][]string{
	"github.com.":         {"93.184.216.34"},
	"a.example.com.":      {"93.184.216.35"},
	"six.example.com.":    {"2606:2800:220:1::1"},
	"inside.example.com.": {"10.0.0.7"},
	"this.example.com.":   {"127.0.0.1", "::1"},
	"mapped.example.com.": {"::ffff:127.0.0.1"},
	"cloud.example.com.":  {"169.254.169.254"},
	"both.example.com.":   {"10.0.0.7", "93.184.216.36"},
	"git.corp.example.":   {"93.184.216.66"}, // as someone else says
	"wiki.corp.example.":  {"10.2.0.1"},
	"moved.corp.example.": {"127.0.0.1"},
}

var usualList = []string{
	"github.com", "*.example.com", "example.org:8443", "git.corp.example=10.1.2.3", "*.corp.example=10.2.0.0/16",
	"10.9.9.9:8081", "[fd00::9]:8081", "local=127.0.0.1", "gateway.example.com=10.1.2.4",
}

func (w *world) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := w.names[host]
	if len(found) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return test.Map(found, netip.MustParseAddr), nil
}

func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	w.dialed = append(w.dialed, address)
	server := w.server
	w.mu.Unlock()
	if server == "" {
		return nil, errors.New("nobody answers")
	}
	return (&net.Dialer{}).DialContext(ctx, network, server)
}

func (w *world) refused(r Refusal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusals = append(w.refusals, r)
}

// seen returns what was dialed and refused.
func (w *world) seen() (dialed []string, refusals []Refusal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.dialed), slices.Clone(w.refusals)
}

// start starts a proxy whose connections end at a server.
func start(t *testing.T, server string, change func(*Config)) *world {
	t.Helper()
	w := &world{
		socket: filepath.Join(t.TempDir(), "proxy.sock"),
		server: server,
		names:  usualNames,
	}
	c := Config{
		List:     test.Must(allowlist.Parse(usualList)),
		Refused:  w.refused,
		Resolver: w,
		Dial:     w.dial,
	}
	change(&c)
	listener := test.Must(net.Listen("unix", w.socket))
	ctx, stop := context.WithCancel(t.Context())
	var served sync.WaitGroup
	served.Go(func() {
		if err := New(c).Serve(ctx, listener); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		served.Wait()
	})
	return w
}

func unchanged(*Config) {}

// connect opens a connection to the proxy.
func (w *world) connect(t *testing.T) *net.UnixConn {
	t.Helper()
	conn, err := net.Dial("unix", w.socket)
	test.OK(t, err)
	t.Cleanup(func() { conn.Close() })
	test.OK(t, conn.SetDeadline(time.Now().Add(test.Patience())))
	return conn.(*net.UnixConn)
}

// ask sends the head of a request and returns the status of the answer.
func ask(t *testing.T, conn net.Conn, head string) (status int, body string) {
	t.Helper()
	_, err := io.WriteString(conn, head)
	test.OK(t, err)
	reader := bufio.NewReader(conn)
	request := &http.Request{Method: strings.Fields(head)[0]}
	answer, err := http.ReadResponse(reader, request)
	test.OK(t, err)
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK && request.Method == http.MethodConnect {
		return answer.StatusCode, ""
	}
	return answer.StatusCode, string(test.Must(io.ReadAll(answer.Body)))
}

// browser returns a client that uses the proxy.
func (w *world) browser(roots *x509.CertPool) *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "127.0.0.1:3128"}),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", w.socket)
		},
		TLSClientConfig:   &tls.Config{RootCAs: roots, InsecureSkipVerify: roots == nil},
		DisableKeepAlives: true,
	}}
}

// silentServer accepts connections and says nothing.
func silentServer(t *testing.T) string {
	t.Helper()
	listener := test.Must(net.Listen("tcp", "127.0.0.1:0"))
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(io.Discard, conn)
			}()
		}
	}()
	return listener.Addr().String()
}

// TestHosts shows which hosts an agent reaches by CONNECT, and at which address.
func TestHosts(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, c := range []struct {
		place  string
		reason Reason // empty if the host is reached
		dialed string
	}{
		{"github.com:443", "", "93.184.216.34:443"},
		{"github.com", "", "93.184.216.34:443"},
		{"GitHub.COM:443", "", "93.184.216.34:443"},
		{"github.com.:443", "", "93.184.216.34:443"},
		{"a.example.com:443", "", "93.184.216.35:443"},
		{"six.example.com:443", "", "[2606:2800:220:1::1]:443"},
		{"both.example.com:443", "", "93.184.216.36:443"}, // its private address is left out
		{"git.corp.example:443", "", "10.1.2.3:443"},      // whatever its name server says
		{"wiki.corp.example:443", "", "10.2.0.1:443"},
		{"10.9.9.9:8081", "", "10.9.9.9:8081"},
		{"[fd00::9]:8081", "", "[fd00::9]:8081"},
		{"[FD00:0::9]:8081", "", "[fd00::9]:8081"},
		{"local:443", "", "127.0.0.1:443"},

		{"github.com:22", PortNotNamed, ""},
		{"github.com:80", PortNotNamed, ""},
		{"github.com:0443", NotAHost, ""},
		{"github.com:", NotAHost, ""},
		{"github.com:99999", NotAHost, ""},
		{"github.com:https", NotAHost, ""},
		{"github.com..:443", NotAHost, ""},
		{".github.com:443", NotAHost, ""},
		{"github.com@evil.com:443", NotAHost, ""},
		{"evil.com#github.com:443", NotAHost, ""},
		{"github.com%00.evil.com:443", NotAHost, ""},
		{"github.com%2eevil.com:443", NotAHost, ""},
		{"*.example.com:443", NotAHost, ""},
		{"example.com:443", NotListed, ""},
		{"evil.com:443", NotListed, ""},
		{"notgithub.com:443", NotListed, ""},
		{"github.com.evil.com:443", NotListed, ""},
		{"gist.github.com:443", NotListed, ""},
		{"example.org:443", PortNotNamed, ""},
		{"localhost:443", NotListed, ""},
		{"localhost.:443", NotListed, ""},
		{"127.0.0.1:443", NotListed, ""},
		{"127.1:443", NotAHost, ""},
		{"0x7f.0.0.1:443", NotAHost, ""},
		{"2130706433:443", NotAHost, ""},
		{"0177.0.0.1:443", NotAHost, ""},
		{"[::1]:443", NotListed, ""},
		{"[::ffff:127.0.0.1]:443", NotListed, ""},
		{"[fe80::1%25eth0]:443", NotAHost, ""},
		{"::1:443", NotAHost, ""},
		{"93.184.216.34:443", NotListed, ""}, // the address of a host that is listed
		{"10.9.9.9:443", PortNotNamed, ""},
		{"inside.example.com:443", NotPublic, ""},
		{"this.example.com:443", NotPublic, ""},
		{"mapped.example.com:443", NotPublic, ""},
		{"cloud.example.com:443", NotPublic, ""},
		{"moved.corp.example:443", NotPublic, ""},
		{"gone.example.com:443", NotResolved, ""},
		{long + ".example.com:443", NotResolved, ""},
		{"a" + long + ".example.com:443", NotAHost, ""},
		{strings.Repeat("a.", 5000) + "example.com:443", NotAHost, ""},
	} {
		t.Run(text30(c.place), func(t *testing.T) {
			w := start(t, silentServer(t), unchanged)
			status, _ := ask(t, w.connect(t), fmt.Sprintf("CONNECT %s HTTP/1.1\r\nHost: github.com\r\n\r\n", c.place))
			dialed, refusals := w.seen()
			if c.reason == "" {
				test.Equal(t, "status", status, http.StatusOK)
				test.Equal(t, "dialed", dialed, []string{c.dialed})
				return
			}
			if status < 400 {
				t.Errorf("status %d", status)
			}
			test.Equal(t, "dialed", dialed, nil)
			if c.reason == NotAHost && len(refusals) == 0 {
				return // the server of HTTP has refused it
			}
			reasons := test.Map(refusals, func(r Refusal) Reason { return r.Reason })
			test.Equal(t, "reasons", reasons, []Reason{c.reason})
			if len(refusals[0].Host) > 100 {
				t.Errorf("the report has %d bytes", len(refusals[0].Host))
			}
		})
	}
}

func text30(s string) string { return s[:min(len(s), 30)] }

// TestRefusalNamesLine: what an agent and its operator read tells what to add to the workflow.
func TestRefusalNamesLine(t *testing.T) {
	w := start(t, silentServer(t), unchanged)
	for place, want := range map[string]string{
		"evil.com:443":           "evil.com:443: not allowed; agent.network.allow in WORKFLOW.md lacks evil.com\n",
		"github.com:22":          "github.com:22: port not allowed; agent.network.allow in WORKFLOW.md lacks github.com:22\n",
		"inside.example.com:443": "lacks the address of a private host: inside.example.com=ADDRESS\n",
	} {
		status, body := ask(t, w.connect(t), fmt.Sprintf("CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", place))
		test.Equal(t, "status", status, http.StatusForbidden)
		test.Contains(t, "the answer", body, want)
	}
}

// TestRebinding: the proxy connects to the address that it has checked, although the name has
// another one by then.
func TestRebinding(t *testing.T) {
	w := start(t, silentServer(t), unchanged)
	w.names = map[string][]string{"github.com.": {"93.184.216.34"}}
	status, _ := ask(t, w.connect(t), "CONNECT github.com:443 HTTP/1.1\r\nHost: x\r\n\r\n")
	test.Equal(t, "status", status, http.StatusOK)
	w.mu.Lock()
	w.names = map[string][]string{"github.com.": {"127.0.0.1"}}
	w.mu.Unlock()
	status, _ = ask(t, w.connect(t), "CONNECT github.com:443 HTTP/1.1\r\nHost: x\r\n\r\n")
	test.Equal(t, "status", status, http.StatusForbidden)
	dialed, refusals := w.seen()
	test.Equal(t, "dialed", dialed, []string{"93.184.216.34:443"})
	test.Equal(t, "refusals", refusals, []Refusal{{Host: "github.com", Port: 443, Reason: NotPublic}})
}

// secureServer returns a server of HTTPS for every name.
func secureServer(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients end handshakes
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

func TestTunnel(t *testing.T) {
	server := secureServer(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %d", r.Host, r.URL, len(test.Must(io.ReadAll(r.Body))))
	})
	w := start(t, server.Listener.Addr().String(), unchanged)
	body := strings.NewReader(strings.Repeat("x", 1<<20))
	answer, err := w.browser(nil).Post("https://github.com/a?b=c", "text/plain", body)
	test.OK(t, err)
	defer answer.Body.Close()
	test.Equal(t, "the answer", string(test.Must(io.ReadAll(answer.Body))), "github.com /a?b=c 1048576")
}

// TestNameInTLS: a tunnel to a host that is allowed does not reach another host of the same
// server.
func TestNameInTLS(t *testing.T) {
	for name, c := range map[string]struct {
		place  string
		server string // that the client names in TLS
		reason Reason // empty if the tunnel is made
	}{
		"the host":              {"github.com:443", "github.com", ""},
		"in capitals":           {"github.com:443", "GITHUB.com", ""},
		"another host":          {"github.com:443", "evil.com", OtherName},
		"another allowed host":  {"github.com:443", "a.example.com", OtherName},
		"a host below":          {"github.com:443", "gist.github.com", OtherName},
		"no host":               {"github.com:443", "", OtherName},
		"no host at an address": {"10.9.9.9:8081", "", ""},
		"a host at an address":  {"10.9.9.9:8081", "evil.com", OtherName},
	} {
		t.Run(name, func(t *testing.T) {
			server := secureServer(t, func(http.ResponseWriter, *http.Request) {})
			w := start(t, server.Listener.Addr().String(), unchanged)
			conn := w.connect(t)
			status, _ := ask(t, conn, fmt.Sprintf("CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", c.place))
			test.Equal(t, "status", status, http.StatusOK)
			client := tls.Client(conn, &tls.Config{ServerName: c.server, InsecureSkipVerify: true})
			err := client.Handshake()
			_, refusals := w.seen()
			if c.reason == "" {
				test.OK(t, err)
				test.Equal(t, "refusals", refusals, nil)
				return
			}
			if err == nil {
				t.Error("the tunnel was made")
			}
			reasons := test.Map(refusals, func(r Refusal) Reason { return r.Reason })
			test.Equal(t, "reasons", reasons, []Reason{c.reason})
		})
	}
}

// TestSecondName: a server that supports none of the keys in a client's first message asks for a
// second one. Some servers obey the name in that.
func TestSecondName(t *testing.T) {
	otherName := func(message []byte) []byte {
		return bytes.ReplaceAll(message, []byte("github.com"), []byte("gitlab.com"))
	}
	for name, c := range map[string]struct {
		first, second func(message []byte) []byte
		refused       bool
	}{
		"the same name": {bytes.Clone, bytes.Clone, false},
		"another name":  {bytes.Clone, otherName, true},
		"another name before the server asks": {
			func(message []byte) []byte { return slices.Concat(message, otherName(message)) }, bytes.Clone, true,
		},
		"another name in the same record": {
			func(message []byte) []byte {
				both := slices.Concat(message, otherName(message[recordHeader:]))
				binary.BigEndian.PutUint16(both[3:], uint16(len(both)-recordHeader))
				return both
			}, bytes.Clone, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.TLS = &tls.Config{CurvePreferences: []tls.CurveID{tls.CurveP256}}
			server.StartTLS()
			t.Cleanup(server.Close)
			w := start(t, server.Listener.Addr().String(), unchanged)
			conn := w.connect(t)
			status, _ := ask(t, conn, "CONNECT github.com:443 HTTP/1.1\r\nHost: x\r\n\r\n")
			test.Equal(t, "status", status, http.StatusOK)
			client := tls.Client(&changed{Conn: conn, messages: []func([]byte) []byte{c.first, c.second}}, &tls.Config{
				ServerName:         "github.com",
				InsecureSkipVerify: true,
				CurvePreferences:   []tls.CurveID{tls.X25519, tls.CurveP256},
			})
			err := client.Handshake()
			_, refusals := w.seen()
			if !c.refused {
				test.OK(t, err)
				test.Equal(t, "refusals", refusals, nil)
				test.Equal(t, "asked again", client.ConnectionState().HelloRetryRequest, true)
				return
			}
			if err == nil {
				t.Error("the tunnel was made")
			}
			test.Equal(t, "the number of refusals", len(refusals), 1)
		})
	}
}

// changed is a connection that changes the messages of a handshake in the order in which they are
// sent.
type changed struct {
	net.Conn
	messages []func([]byte) []byte
}

func (c *changed) Write(b []byte) (int, error) {
	sent := b
	if b[0] == handshakeRecord && len(c.messages) > 0 {
		sent = c.messages[0](b)
		c.messages = c.messages[1:]
	}
	_, err := c.Conn.Write(sent)
	return len(b), err
}

// TestEncryptedName: a client that encrypts the name of another host gets no tunnel.
func TestEncryptedName(t *testing.T) {
	key := test.Must(ecdh.X25519().GenerateKey(rand.Reader)).PublicKey().Bytes()
	server := secureServer(t, func(http.ResponseWriter, *http.Request) {})
	w := start(t, server.Listener.Addr().String(), unchanged)
	conn := w.connect(t)
	status, _ := ask(t, conn, "CONNECT github.com:443 HTTP/1.1\r\nHost: x\r\n\r\n")
	test.Equal(t, "status", status, http.StatusOK)
	client := tls.Client(conn, &tls.Config{
		ServerName:                     "evil.com",
		InsecureSkipVerify:             true,
		MinVersion:                     tls.VersionTLS13,
		EncryptedClientHelloConfigList: encryptedFor("github.com", key),
	})
	_ = client.Handshake() // it fails in any case: the server has no such key
	_, refusals := w.seen()
	reasons := test.Map(refusals, func(r Refusal) Reason { return r.Reason })
	test.Equal(t, "reasons", reasons, []Reason{OtherName})
}

// encryptedFor returns a list with one configuration of encrypted hellos, as RFC 9849 has it.
func encryptedFor(public string, key []byte) []byte {
	prefixed := func(b []byte) []byte { return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...) }
	contents := slices.Concat(
		[]byte{1},                    // the number of the key
		[]byte{0, 0x20},              // DHKEM(X25519)
		prefixed(key),                //
		prefixed([]byte{0, 1, 0, 1}), // HKDF-SHA256, AES-128-GCM
		[]byte{32, byte(len(public))},
		[]byte(public),
		[]byte{0, 0}, // no extensions
	)
	return prefixed(append([]byte{0xfe, 0x0d}, prefixed(contents)...))
}

// TestNoTLS: nothing but TLS goes through a tunnel.
func TestNoTLS(t *testing.T) {
	w := start(t, silentServer(t), unchanged)
	for _, first := range []string{
		"GET / HTTP/1.1\r\nHost: evil.com\r\n\r\n",
		"SSH-2.0-OpenSSH_9.9\r\n",
		"CONNECT evil.com:443 HTTP/1.1\r\nHost: evil.com\r\n\r\n",
		"\x16\x03\x01\x00\x05hello",
	} {
		conn := w.connect(t)
		// The first bytes come together with the request, as those of an impatient client.
		_, err := io.WriteString(conn, "CONNECT github.com:443 HTTP/1.1\r\nHost: github.com\r\n\r\n"+first)
		test.OK(t, err)
		answer := test.Must(io.ReadAll(conn)) // to the end of the connection
		test.Equal(t, "the answer", string(answer), "HTTP/1.1 200 Connection established\r\n\r\n")
	}
	_, refusals := w.seen()
	test.Equal(t, "refusals", refusals, []Refusal{{Host: "github.com", Port: 443, Reason: NotTLS}})
}

// TestUnusedTunnel: clients open connections that they do not need, which is nothing to report.
func TestUnusedTunnel(t *testing.T) {
	w := start(t, silentServer(t), unchanged)
	conn := w.connect(t)
	status, _ := ask(t, conn, "CONNECT github.com:443 HTTP/1.1\r\nHost: x\r\n\r\n")
	test.Equal(t, "status", status, http.StatusOK)
	test.OK(t, conn.CloseWrite())
	test.Equal(t, "the rest", string(test.Must(io.ReadAll(conn))), "")
	_, refusals := w.seen()
	test.Equal(t, "refusals", refusals, nil)
}

// TestClientGivesUp: a host that does not answer is reported, although clients give up before
// the proxy does.
func TestClientGivesUp(t *testing.T) {
	dialing := make(chan struct{}, 10)
	answer := make(chan struct{})
	w := start(t, "", func(c *Config) {
		c.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			dialing <- struct{}{}
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-answer:
				return nil, errors.New("refused")
			}
		}
	})
	for _, request := range []string{
		"CONNECT github.com:443 HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET http://github.com/ HTTP/1.1\r\nHost: github.com\r\n\r\n",
	} {
		conn := w.connect(t)
		_, err := io.WriteString(conn, request)
		test.OK(t, err)
		<-dialing
		test.OK(t, conn.Close())
	}
	close(answer)
	test.Until(t, "the reports", func() bool {
		_, refusals := w.seen()
		return len(refusals) == 2
	})
	_, refusals := w.seen()
	slices.SortFunc(refusals, func(a, b Refusal) int { return int(a.Port) - int(b.Port) })
	test.Equal(t, "refusals", refusals, []Refusal{
		{Host: "github.com", Port: 80, Reason: Unreachable},
		{Host: "github.com", Port: 443, Reason: Unreachable},
	})
}

// plainServer returns a server of HTTP and a function for the requests that it got.
func plainServer(t *testing.T) (address string, requests func() []string) {
	t.Helper()
	var mu sync.Mutex
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprintf("%s %s%s %s%s", r.Method, r.Host, r.URL, body, r.Header.Get("Upgrade")))
		w.Header().Set("Connection", "keep-alive")
		fmt.Fprint(w, "welcome")
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got)
	}
}

// TestPlain: the server gets one request per connection, for the host that was decided about.
func TestPlain(t *testing.T) {
	for name, c := range map[string]struct {
		sent string
		got  []string // by the server
		says string
	}{
		"the host": {
			"GET http://github.com/a?b HTTP/1.1\r\nHost: github.com\r\n\r\n",
			[]string{"GET github.com/a?b "},
			"200 OK",
		},
		"another Host": {
			"GET http://github.com/ HTTP/1.1\r\nHost: evil.com\r\n\r\n",
			[]string{"GET github.com/ "},
			"200 OK",
		},
		"two Hosts": {
			"GET http://github.com/ HTTP/1.1\r\nHost: github.com\r\nHost: evil.com\r\n\r\n",
			nil, "400 Bad Request",
		},
		"capitals and a dot": {
			"GET http://GITHUB.com./ HTTP/1.1\r\nHost: GITHUB.com.\r\n\r\n",
			[]string{"GET github.com/ "},
			"200 OK",
		},
		"a second request": {
			"GET http://github.com/ HTTP/1.1\r\nHost: github.com\r\nConnection: keep-alive\r\n\r\n" +
				"GET http://github.com/second HTTP/1.1\r\nHost: evil.com\r\n\r\n",
			[]string{"GET github.com/ "},
			"200 OK",
		},
		"a request in a body": {
			"POST http://github.com/ HTTP/1.1\r\nHost: github.com\r\nContent-Length: 5\r\n\r\n" +
				"helloGET http://github.com/second HTTP/1.1\r\nHost: evil.com\r\n\r\n",
			[]string{"POST github.com/ hello"},
			"200 OK",
		},
		"two lengths": {
			"POST http://github.com/ HTTP/1.1\r\nHost: github.com\r\nContent-Length: 5\r\nContent-Length: 40\r\n\r\n" +
				"helloGET http://github.com/second HTTP/1.1\r\nHost: evil.com\r\n\r\n",
			nil, "400 Bad Request",
		},
		"a length and chunks": {
			"POST http://github.com/ HTTP/1.1\r\nHost: github.com\r\nContent-Length: 40\r\nTransfer-Encoding: chunked\r\n\r\n" +
				"5\r\nhello\r\n0\r\n\r\nGET http://github.com/second HTTP/1.1\r\nHost: evil.com\r\n\r\n",
			[]string{"POST github.com/ hello"},
			"200 OK",
		},
		"strange chunks": {
			"POST http://github.com/ HTTP/1.1\r\nHost: github.com\r\nTransfer-Encoding: xchunked\r\n\r\n" +
				"5\r\nhello\r\n0\r\n\r\n",
			nil, "501 Not Implemented",
		},
		"an upgrade": {
			"GET http://github.com/ HTTP/1.1\r\nHost: github.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
			[]string{"GET github.com/ "},
			"200 OK",
		},
		"another host": {
			"GET http://evil.com/ HTTP/1.1\r\nHost: github.com\r\n\r\n",
			nil, "403 Forbidden",
		},
		"a port": {
			"GET http://github.com:443/ HTTP/1.1\r\nHost: github.com\r\n\r\n",
			nil, "403 Forbidden",
		},
		"a login": {
			"GET http://github.com@evil.com/ HTTP/1.1\r\nHost: github.com\r\n\r\n",
			nil, "400 Bad Request",
		},
		"https": {
			"GET https://github.com/ HTTP/1.1\r\nHost: github.com\r\n\r\n",
			nil, "400 Bad Request",
		},
		"ftp": {
			"GET ftp://github.com/ HTTP/1.1\r\nHost: github.com\r\n\r\n",
			nil, "400 Bad Request",
		},
		"no host": {
			"GET / HTTP/1.1\r\nHost: github.com\r\n\r\n",
			nil, "404 Not Found",
		},
		"a long header": {
			"GET http://github.com/ HTTP/1.1\r\nHost: github.com\r\nX: " + strings.Repeat("x", 32<<10) + "\r\n\r\n",
			nil, "431 Request Header Fields Too Large",
		},
	} {
		t.Run(name, func(t *testing.T) {
			address, requests := plainServer(t)
			w := start(t, address, unchanged)
			conn := w.connect(t)
			go func() { _, _ = io.WriteString(conn, c.sent) }()
			// Up to the end of the connection, which may be reset while there is more to read.
			answer, _ := io.ReadAll(conn)
			test.Contains(t, "the answer", string(answer), "HTTP/1.1 "+c.says)
			test.Equal(t, "the number of answers", strings.Count(string(answer), "HTTP/1.1 "), 1)
			test.Equal(t, "the requests", requests(), c.got)
		})
	}
}

// TestAtOnce: one more than the largest number of connections is told to wait, and a closed one
// makes room.
func TestAtOnce(t *testing.T) {
	w := start(t, silentServer(t), unchanged)
	var open []net.Conn
	for range maxConnections {
		conn := w.connect(t)
		status, _ := ask(t, conn, "CONNECT github.com:443 HTTP/1.1\r\nHost: x\r\n\r\n")
		test.Equal(t, "status", status, http.StatusOK)
		open = append(open, conn)
	}
	conn := w.connect(t)
	answer := test.Must(io.ReadAll(conn))
	test.Contains(t, "the answer", string(answer), "503 Service Unavailable")
	_, refusals := w.seen()
	test.Equal(t, "refusals", refusals, []Refusal{{Reason: TooMany}})
	test.OK(t, open[0].Close())
	test.Until(t, "room for another connection", func() bool {
		conn := w.connect(t)
		defer conn.Close()
		_, err := io.WriteString(conn, "CONNECT github.com:443 HTTP/1.1\r\nHost: x\r\n\r\n")
		line, readErr := bufio.NewReader(conn).ReadString('\n')
		return err == nil && readErr == nil && strings.Contains(line, "200")
	})
}

// TestEnd: tunnels end with the proxy.
func TestEnd(t *testing.T) {
	w := &world{names: usualNames, server: silentServer(t)}
	listener := test.Must(net.Listen("unix", filepath.Join(t.TempDir(), "proxy.sock")))
	w.socket = listener.Addr().String()
	p := New(Config{List: test.Must(allowlist.Parse(usualList)), Resolver: w, Dial: w.dial})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- p.Serve(ctx, listener) }()
	tunnel := w.connect(t)
	status, _ := ask(t, tunnel, "CONNECT github.com:443 HTTP/1.1\r\nHost: x\r\n\r\n")
	test.Equal(t, "status", status, http.StatusOK)
	silent := w.connect(t)
	stop()
	test.OK(t, <-served)
	for _, conn := range []net.Conn{tunnel, silent} {
		_, err := conn.Read(make([]byte, 1))
		if err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the connection is open: %v", err)
		}
	}
}

// TestReports: an agent can't fill the log of its run.
func TestReports(t *testing.T) {
	var reported int
	r := refusals{report: func(Refusal) { reported++ }, known: map[Refusal]struct{}{}}
	for n := range 10 * maxRefusals {
		r.add(Refusal{Host: fmt.Sprintf("h%d.evil.com", n/2), Port: 443, Reason: NotListed})
	}
	test.Equal(t, "reports", reported, maxRefusals)
}

// TestModel: the proxy adds the key of a model, and takes away what an agent sends in its place.
func TestModel(t *testing.T) {
	server := secureServer(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(
			w, "%s %s %s key=%s auth=%s cookie=%s other=%s\n", r.Host, r.Method, r.URL,
			r.Header.Get("X-Api-Key"), r.Header.Get("Authorization"), r.Header.Get("Cookie"),
			r.Header.Get("X_api_key")+r.Header.Get("X-Http-Method-Override")+r.Header.Get("X-Original-Url"),
		)
	})
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	w := start(t, server.Listener.Addr().String(), func(c *Config) {
		c.Models = []Model{
			{"claude", test.Must(url.Parse("https://api.example.com")), "X-Api-Key", "secret", roots, false},
			{"gateway", test.Must(url.Parse("https://gateway.example.com:8443/llm?v=1")), "Authorization", "Bearer s", roots, false},
			{"inside", test.Must(url.Parse("https://inside.example.com")), "X-Api-Key", "secret", roots, false},
			{"other", test.Must(url.Parse("https://other.invalid")), "X-Api-Key", "secret", roots, false},
		}
	})
	w.names = map[string][]string{
		"api.example.com.":    {"93.184.216.40"},
		"inside.example.com.": {"10.0.0.7"},
		"other.invalid.":      {"93.184.216.41"},
	}
	for _, c := range []struct{ sent, status, body string }{
		{
			"POST /model/claude/v1/messages?beta=true&key=mine HTTP/1.1\r\n" +
				"X-Api-Key: mine\r\nAuthorization: mine\r\nCookie: a=b\r\n",
			"200", "api.example.com POST /v1/messages?beta=true key=secret auth= cookie=",
		},
		{
			"GET /model/claude/a%2Fb//c HTTP/1.1\r\n",
			"200", "api.example.com GET /a%2Fb//c key=secret",
		},
		{
			"GET /model/claude/v1?api_key=mine&access_token=mine&b=2&a=1 HTTP/1.1\r\nCookie: a=b\r\n",
			"200", "GET /v1?a=1&b=2 key=secret",
		},
		{
			"GET /model/claude/v1?b=2&a=1 HTTP/1.1\r\nConnection: X-Api-Key\r\n",
			"200", "GET /v1?b=2&a=1 key=secret",
		},
		// Servers take other names for the same, and other methods and paths from headers.
		{
			"GET /model/claude/v1?$key=mine&oauth_token=mine&$httpHeaders=X-Api-Key:mine&_method=DELETE&b=2 HTTP/1.1\r\n" +
				"X_Api_Key: mine\r\nX-HTTP-Method-Override: DELETE\r\nX-Original-URL: /admin\r\n",
			"200", "GET /v1?b=2 key=secret auth= cookie= other=\n",
		},
		{"GET /model/gateway/v1 HTTP/1.1\r\n", "200", "gateway.example.com:8443 GET /llm/v1?v=1 key= auth=Bearer s"},
		// Only what is below the URL of the model gets the key.
		{"GET /model/gateway/../admin HTTP/1.1\r\n", "404", "no page"},
		{"GET /model/gateway/%2e%2e/admin HTTP/1.1\r\n", "404", "no page"},
		{"GET /model/gateway/a%2f..%2f..%2fadmin HTTP/1.1\r\n", "404", "no page"},
		{"GET /model/gateway/%252e%252e/admin HTTP/1.1\r\n", "404", "no page"},
		{"GET /model/gateway/%252e%252e/%25zz HTTP/1.1\r\n", "404", "no page"},
		{"GET /model/gateway/a%252f..%252fadmin HTTP/1.1\r\n", "404", "no page"},
		{"GET /model/gateway/%25252e%25252e/admin HTTP/1.1\r\n", "404", "no page"},
		{"GET /model/gateway/.%09./admin HTTP/1.1\r\n", "404", "no page"},
		{"GET /model/gateway/..%00/admin HTTP/1.1\r\n", "404", "no page"},
		{"GET /model/gateway/..;/admin HTTP/1.1\r\n", "404", "no page"},
		{"GET /model/gateway/..%3ba=b/admin HTTP/1.1\r\n", "404", "no page"},
		// The answer would contain the key.
		{"trace /model/claude/v1 HTTP/1.1\r\n", "404", "no page"},
		{"PUT /model/claude/v1 HTTP/1.1\r\n", "404", "no page"},
		{"TRACE /model/claude/v1 HTTP/1.1\r\n", "404", "no page"},
		{"GET /model/nothing/v1 HTTP/1.1\r\n", "404", "no page /model/nothing/v1"},
		{"GET /model/other/v1 HTTP/1.1\r\n", "502", "other.invalid:443: tls: failed to verify certificate"},
		{"GET /model/claudex/v1 HTTP/1.1\r\n", "404", "no page"},
		{"GET /model/inside/v1 HTTP/1.1\r\n", "403", "inside.example.com=ADDRESS"},
	} {
		status, body := ask(t, w.connect(t), c.sent+"Host: 127.0.0.1:3128\r\n\r\n")
		test.Equal(t, "status of "+c.sent, fmt.Sprint(status), c.status)
		test.Contains(t, "the answer", body, c.body)
	}
	dialed, refusals := w.seen()
	test.Equal(t, "refusals", refusals, []Refusal{
		{Host: "other.invalid", Port: 443, Reason: Unreachable},
		{Host: "inside.example.com", Port: 443, Reason: NotPublic},
	})
	test.Contains(t, "dialed", strings.Join(dialed, " "), "93.184.216.40:443", "10.1.2.4:8443")
}

// TestHTTP2: the proxy does not speak HTTP/2 with an agent, in which one connection has requests
// for many hosts. In a tunnel it does not see them: the server that was allowed answers them all.
func TestHTTP2(t *testing.T) {
	var mu sync.Mutex
	var got []string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprintf("%s %s key=%s", r.Proto, r.Host, r.Header.Get("X-Api-Key")))
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	w := start(t, server.Listener.Addr().String(), func(c *Config) {
		model := test.Must(url.Parse("https://a.example.com"))
		c.Models = []Model{{"claude", model, "X-Api-Key", "secret", roots, false}}
	})

	// What begins as HTTP/2, or would become it, is one request of HTTP/1 or none.
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	const settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	const upgrade = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAAAAAAA\r\n\r\n"
	for _, c := range []struct{ sent, says string }{
		{preface + settings, "404 Not Found"},
		{"GET http://github.com/ HTTP/2.0\r\nHost: github.com\r\n\r\n", "505 HTTP Version Not Supported"},
		{"CONNECT github.com:443 HTTP/2.0\r\nHost: github.com\r\n\r\n", "505 HTTP Version Not Supported"},
		{"GET /model/claude/v1 HTTP/2.0\r\nHost: x\r\n\r\n", "505 HTTP Version Not Supported"},
		{"GET /model/claude/v1 HTTP/1.1\r\nHost: evil.com\r\n" + upgrade + preface + settings, "200 OK"},
	} {
		conn := w.connect(t)
		_, err := io.WriteString(conn, c.sent)
		test.OK(t, err)
		answer, _ := io.ReadAll(conn) // up to the end, which may be a reset
		test.Contains(t, "the answer to "+c.sent, string(answer), "HTTP/1.1 "+c.says)
		test.Equal(t, "the number of answers", strings.Count(string(answer), "HTTP/1.1 "), 1)
	}

	// The tunnel goes to the host of CONNECT, whatever the agent asks there.
	browser := w.browser(nil)
	browser.Transport.(*http.Transport).ForceAttemptHTTP2 = true
	request := test.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://github.com/", nil))
	request.Host = "evil.com"
	answer, err := browser.Do(request)
	test.OK(t, err)
	answer.Body.Close()
	mu.Lock()
	defer mu.Unlock()
	test.Equal(t, "requests", got, []string{
		"HTTP/1.1 a.example.com key=secret",
		"HTTP/2.0 evil.com key=",
	})
	dialed, refusals := w.seen()
	test.Equal(t, "dialed", dialed, []string{"93.184.216.35:443", "93.184.216.34:443"})
	test.Equal(t, "refusals", refusals, nil)
}

// TestModelHere: a model that the operator names may be on this machine, and gets the requests of
// the agent as they are where symphony has no key for it.
func TestModelHere(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s key=%s", r.Host, r.URL, r.Header.Get("X-Api-Key"))
	}))
	t.Cleanup(server.Close)
	w := start(t, server.Listener.Addr().String(), func(c *Config) {
		c.Models = []Model{{Kind: "here", URL: test.Must(url.Parse("http://127.0.0.1:8080")), Anywhere: true}}
		c.List = c.List.With(allowlist.Rule{Host: "inside.example.com", Port: 8443, Anywhere: true})
	})
	sent := "POST /model/here/v1/messages?key=own HTTP/1.1\r\nHost: 127.0.0.1:3128\r\nX-Api-Key: own\r\n\r\n"
	status, body := ask(t, w.connect(t), sent)
	test.Equal(t, "status", status, http.StatusOK)
	test.Equal(t, "what arrives", body, "127.0.0.1:8080 /v1/messages?key=own key=own")
	status, _ = ask(t, w.connect(t), "CONNECT inside.example.com:8443 HTTP/1.1\r\nHost: a\r\n\r\n")
	test.Equal(t, "a named host on a private net", status, http.StatusOK)
	dialed, _ := w.seen()
	test.Equal(t, "dialed", dialed, []string{"127.0.0.1:8080", "10.0.0.7:8443"})
}

// TestRefusalSays: people read which host was refused, and what the list lacks.
func TestRefusalSays(t *testing.T) {
	for _, c := range []struct {
		refusal     Refusal
		text, entry string
	}{
		{Refusal{Host: "a.example", Port: 443, Reason: NotListed}, "a.example:443: not allowed", "a.example"},
		{Refusal{Host: "a.example", Port: 80, Reason: NotListed}, "a.example:80: not allowed", "a.example"},
		{Refusal{Host: "a.example", Port: 22, Reason: NotListed}, "a.example:22: not allowed", "a.example:22"},
		{Refusal{Host: "::1", Port: 22, Reason: NotListed}, "[::1]:22: not allowed", "[::1]:22"},
		{Refusal{Host: "a.example", Port: 8443, Reason: PortNotNamed}, "a.example:8443: port not allowed", "a.example:8443"},
		{Refusal{Host: "a.example", Port: 443, Reason: NotPublic}, "a.example:443: on a private net", "a.example=ADDRESS"},
		{Refusal{Host: "a.example", Port: 443, Reason: Unreachable}, "a.example:443: can't be reached", ""},
		{Refusal{Host: "a b", Reason: NotAHost}, "a b: not a host", ""},
		{Refusal{Reason: TooMany}, "a connection: too many at once", ""},
	} {
		test.Equal(t, "text", c.refusal.String(), c.text)
		test.Equal(t, "entry for "+c.text, c.refusal.Entry(), c.entry)
	}
}

// TestUpstream: a machine that reaches the internet only by the proxy of its company uses that,
// and reaches what the list names with an address itself.
func TestUpstream(t *testing.T) {
	server := secureServer(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Host) })
	var mu sync.Mutex
	var asked []string
	company := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Method+" "+r.RequestURI+" "+r.Header.Get("Proxy-Authorization"))
		mu.Unlock()
		if r.Method != http.MethodConnect {
			fmt.Fprint(w, "from the company")
			return
		}
		outside := test.Must(net.Dial("tcp", server.Listener.Addr().String()))
		inside, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprint(inside, "HTTP/1.1 200 OK\r\n\r\n")
		join(inside, outside, inside)
	}))
	t.Cleanup(company.Close)
	w := start(t, "", func(c *Config) {
		c.Upstream = test.Must(url.Parse("http://me:secret@" + company.Listener.Addr().String()))
		c.Dial = (&net.Dialer{}).DialContext
	})
	for _, address := range []string{"https://github.com/", "http://github.com/"} {
		answer, err := w.browser(nil).Get(address)
		test.OK(t, err)
		answer.Body.Close()
		test.Equal(t, "status", answer.StatusCode, http.StatusOK)
	}
	answer, err := w.browser(nil).Get("https://evil.com/")
	if err == nil {
		answer.Body.Close()
		t.Error("evil.com was reached")
	}
	mu.Lock()
	defer mu.Unlock()
	test.Equal(t, "asked", asked, []string{
		"CONNECT github.com:443 Basic bWU6c2VjcmV0",
		"GET http://github.com/ Basic bWU6c2VjcmV0",
	})
}

// TestUpstreamRefuses: what the proxy of the company answers is the reason that people read.
func TestUpstreamRefuses(t *testing.T) {
	company := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusProxyAuthRequired)
	}))
	t.Cleanup(company.Close)
	address := company.Listener.Addr().String()
	w := start(t, "", func(c *Config) {
		c.Upstream = test.Must(url.Parse("http://me:secret@" + address))
		c.Dial = (&net.Dialer{}).DialContext
	})
	answer, err := w.browser(nil).Get("https://github.com/")
	if err == nil {
		answer.Body.Close()
		t.Error("github.com was reached")
	}
	company.Close()
	answer, err = w.browser(nil).Get("https://github.com/")
	if err == nil {
		answer.Body.Close()
		t.Error("github.com was reached without the proxy")
	}
	_, refusals := w.seen()
	test.Equal(t, "refusals", test.Map(refusals, Refusal.String), []string{
		"github.com:443: can't be reached (the proxy " + address + ": 407 Proxy Authentication Required)",
		"github.com:443: can't be reached (the proxy " + address + ": connect: connection refused)",
	})
}

// pipes is a listener in a bubble of synctest, where only pipes know whether they wait.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours
}

// TestSlow: who is slow loses the connection. The clock is that of a bubble.
func TestSlow(t *testing.T) {
	const request = "CONNECT github.com:443 HTTP/1.1\r\nHost: github.com\r\n\r\n"
	for name, c := range map[string]struct {
		sent  string
		dials func(ctx context.Context) (net.Conn, error)
		says  string
		after time.Duration
	}{
		"a client that says nothing":  {"", nil, "", headerBound},
		"a header that does not end":  {"CONNECT github.com:443 HTTP/1.1\r\nHost: g", nil, "", headerBound},
		"a tunnel without a word":     {request, nil, "200", headerBound},
		"a tunnel with half a record": {request + "\x16\x03\x01\x02", nil, "200", headerBound},
		"a host that does not answer": {request, func(ctx context.Context) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, "502", tryBound},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener := newPipes()
				w := &world{names: usualNames}
				p := New(Config{
					List:     test.Must(allowlist.Parse(usualList)),
					Resolver: w,
					Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
						if c.dials != nil {
							return c.dials(ctx)
						}
						ours, theirs := net.Pipe()
						go func() { _, _ = io.Copy(io.Discard, theirs) }()
						return ours, nil
					},
				})
				ctx, stop := context.WithCancel(t.Context())
				served := make(chan error, 1)
				go func() { served <- p.Serve(ctx, listener) }()
				conn := listener.dial()
				began := time.Now()
				go func() { _, _ = io.WriteString(conn, c.sent) }()
				answer, _ := io.ReadAll(conn)
				test.Equal(t, "the time", time.Since(began).Round(time.Second), c.after)
				if c.says != "" {
					test.Contains(t, "the answer", string(answer), "HTTP/1.1 "+c.says)
				}
				stop()
				test.OK(t, <-served)
			})
		})
	}
}

// TestSilentAddress: a host is reached although its first address does not answer, as those of
// IPv6 in networks that lose them.
func TestSilentAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{names: map[string][]string{"github.com.": {"2606:50c0::1", "93.184.216.34"}}}
		ours, theirs := net.Pipe()
		defer theirs.Close()
		p := New(Config{
			List:     test.Must(allowlist.Parse(usualList)),
			Resolver: w,
			Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
				if address == "93.184.216.34:443" && ctx.Err() == nil {
					return ours, nil
				}
				<-ctx.Done()
				return nil, ctx.Err()
			},
		})
		found, err := p.find("github.com:443", usualTLS)
		test.OK(t, err)
		conn, err := p.dial(t.Context(), found)
		test.OK(t, err)
		test.OK(t, conn.Close())
	})
}

// TestIdle: a tunnel in which nothing moves ends, and one in which something does stays.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside, agent := net.Pipe()
		outside, server := net.Pipe()
		joined := make(chan struct{})
		go func() {
			join(inside, outside, inside)
			close(joined)
		}()
		began := time.Now()
		for range 3 {
			time.Sleep(idleBound - time.Minute)
			go func() { _, _ = server.Write([]byte("x")) }()
			test.Equal(t, "read", test.Must(agent.Read(make([]byte, 1))), 1)
		}
		<-joined
		test.Equal(t, "the time", time.Since(began), 3*(idleBound-time.Minute)+idleBound)
	})
}
