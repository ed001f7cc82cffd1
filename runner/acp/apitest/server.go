// Package apitest is the model for tests with the real agents of package acp. It has the services
// that they use: Anthropic's Messages for Claude Code, DeepSeek's chat completions, which are those
// of OpenAI, for OpenCode, and Gemini's generateContent for Gemini CLI. It runs a script from the
// prompt, which is written as for package script.
//
// The server keeps no state between requests: the number of results of tools after the last
// prompt tells which step of the script is next. Each sh, patch and tool is a call that ends a
// response. say, think and tokens are part of one.
//
//	sh      a command in the agent's shell
//	patch   the agent's tool that writes a file, with the text and the end of a line
//	tool    a tool whose name ends in NAME, such as mcp__symphony__hand_over
//	fail    INFO is an HTTP status. 429=1h sets Retry-After to 3600 seconds; 500/2 fails only the
//	        first two requests, then the script goes on
//	hang    no answer at all
//
// The answer to any other directive is an HTTP 400 that names it.
//
// The server is a proxy, as a company has one: behind it are the hosts of these services, with a
// certificate of the test. It refuses every other host, and tells in Others what agents have asked
// for besides their model.
package apitest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent/script"
)

type object map[string]any

// Server is the model's side of the network.
type Server struct {
	URL string // of the proxy, such as http://127.0.0.1:4000
	// Certificate is what a client has to trust, in PEM.
	Certificate []byte
	// Key is what requests need to have in one of the headers with keys.
	Key string
	// Script runs for prompts without a script. It is written like the part of a prompt.
	Script string

	proxy *httptest.Server
	hosts *httptest.Server // that are behind the proxy
	quit  chan struct{}

	mu       sync.Mutex
	requests []script.Request
	others   []string
	tries    map[string]int // by place in the script
	serial   int
}

// New starts a server on the loopback interface.
func New(key string) *Server {
	s := &Server{Key: key, quit: make(chan struct{}), tries: make(map[string]int)}
	certificate := certify(hosts)
	s.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
	s.hosts = httptest.NewUnstartedServer(http.HandlerFunc(s.serveModel))
	s.hosts.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	s.hosts.StartTLS()
	s.proxy = httptest.NewServer(http.HandlerFunc(s.serveProxy))
	s.URL = s.proxy.URL
	return s
}

// Close ends the server and its connections.
func (s *Server) Close() {
	close(s.quit)
	for _, server := range []*httptest.Server{s.proxy, s.hosts} {
		server.CloseClientConnections()
		server.Close()
	}
}

// Requests returns the calls of agents at work so far. Others, such as those for the title of a
// conversation, offer no tools and are not recorded.
func (s *Server) Requests() []script.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Others returns what agents have asked for besides their model, such as "CONNECT
// registry.npmjs.org:443", each once.
func (s *Server) Others() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(s.others)))
}

// api is one of the services.
type api struct {
	path  *regexp.Regexp
	read  func(body []byte) (*script.Request, error)
	write func(a *answer, r *reply)
	// refusal is the body of an error
	refusal func(status int, message string) object
}

// apis are the services.
var apis = []*api{
	{
		path:    regexp.MustCompile(`^/v1/messages$`),
		read:    readAnthropic,
		write:   writeAnthropic,
		refusal: refuseAnthropic,
	},
	{
		path:    regexp.MustCompile(`^/chat/completions$`),
		read:    readOpenAI,
		write:   writeOpenAI,
		refusal: refuseOpenAI,
	},
	{
		path:    regexp.MustCompile(`^/v1beta/models/[-.\w]+:(streamGenerateContent|generateContent)$`),
		read:    readGemini,
		write:   writeGemini,
		refusal: refuseGemini,
	},
}

// hosts are those of the services.
var hosts = []string{"api.anthropic.com", "api.deepseek.com", "generativelanguage.googleapis.com"}

// headers may have the key of a request.
var headers = []string{"X-Api-Key", "Authorization", "X-Goog-Api-Key"}

// serveProxy leads to the hosts of the services.
func (s *Server) serveProxy(w http.ResponseWriter, r *http.Request) {
	host, port, _ := net.SplitHostPort(r.Host)
	if r.Method != http.MethodConnect || port != "443" || !slices.Contains(hosts, host) {
		s.refuse(w, r)
		return
	}
	var dialer net.Dialer
	server, err := dialer.DialContext(r.Context(), "tcp", s.hosts.Listener.Addr().String())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	// A client that is gone gets nothing, and the end of one side is the end of the other.
	_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server)
	_ = client.Close()
}

// refuse refuses what is not for a model, and records it.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.others = append(s.others, r.Method+" "+r.RequestURI)
	s.mu.Unlock()
	http.Error(w, "this is a model", http.StatusForbidden)
}

// serveModel answers a request to a service.
func (s *Server) serveModel(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead {
		return // Claude Code looks whether its service is there
	}
	switch r.URL.Path { // of the company of Claude's account, which has no rules
	case "/api/claude_code/policy_limits":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"restrictions": {}}`)
		return
	case "/api/claude_code/settings":
		http.NotFound(w, r)
		return
	}
	at := slices.IndexFunc(apis, func(a *api) bool {
		return r.Method == http.MethodPost && a.path.MatchString(r.URL.Path)
	})
	if at < 0 {
		s.refuse(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the agent is gone
	}
	a := &answer{api: apis[at], w: w, r: r, id: s.id()}
	hasKey := func(header string) bool { return strings.TrimPrefix(r.Header.Get(header), "Bearer ") == s.Key }
	if !slices.ContainsFunc(headers, hasKey) {
		a.refuse(http.StatusUnauthorized, "invalid x-api-key")
		return
	}
	request, err := a.read(body)
	if err != nil {
		a.refuse(http.StatusBadRequest, err.Error())
		return
	}
	a.model = request.Model
	answered, err := s.decide(request)
	if err != nil {
		a.refuse(http.StatusBadRequest, err.Error())
		return
	}
	s.answer(a, answered)
}

// id returns the number of an answer.
func (s *Server) id() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serial++
	return s.serial
}

// answer sends a reply.
func (s *Server) answer(a *answer, r *reply) {
	switch {
	case r.hangs:
		select {
		case <-a.r.Context().Done():
		case <-s.quit:
		}
	case r.status != 0:
		if r.retryAfter > 0 {
			a.w.Header().Set("Retry-After", fmt.Sprint(int(r.retryAfter.Seconds())))
		}
		a.refuse(r.status, r.message)
	default:
		a.write(a, r)
	}
}

// answer is a response that is being written.
type answer struct {
	*api
	w     http.ResponseWriter
	r     *http.Request
	id    int
	model string
}

// refuse answers with an error.
func (a *answer) refuse(status int, message string) {
	a.w.Header().Set("Content-Type", "application/json")
	a.w.WriteHeader(status)
	a.send("%s", a.refusal(status, message))
}

// send writes a value as JSON. The agent may be gone.
func (a *answer) send(format string, v object) {
	_, _ = fmt.Fprintf(a.w, format, text.JSON(v))
}

// event sends a server-sent event with data alone.
func (a *answer) event(v object) { a.send("data: %s\n\n", v) }

// parts are the content of a message: a text, or several, of which each may be a prompt of its
// own, because an agent puts its context into the same message.
type parts []part

type part struct {
	Type, Text string
	Content    parts // of a tool's result
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *parts) UnmarshalJSON(raw []byte) error {
	var whole string
	if json.Unmarshal(raw, &whole) == nil {
		*p = parts{{Text: whole}}
		return nil
	}
	return json.Unmarshal(raw, (*[]part)(p))
}

// text returns all texts of a content.
func (p parts) text() string {
	return strings.Join(text.Map(p, func(one part) string { return one.Text }), "")
}

// addPrompt adds a text that the agent sends in the role of the user, unless it is its own.
func addPrompt(r *script.Request, said string) {
	if said == "" || strings.HasPrefix(said, "<") || strings.HasPrefix(said, "[Request interrupted") {
		return
	}
	r.Prompts = append(r.Prompts, said)
	r.Outputs = nil
}

// errNoStream is the error of a request for an answer in one piece, which no agent needs.
var errNoStream = errors.New("this model only streams")

// certify returns a certificate for hosts, with its key.
func certify(hosts []string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // the system has no random numbers
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		DNSNames:              hosts,
		NotBefore:             time.Unix(0, 0),
		NotAfter:              time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err) // the template is always the same
	}
	return tls.Certificate{Certificate: [][]byte{certificate}, PrivateKey: key}
}
