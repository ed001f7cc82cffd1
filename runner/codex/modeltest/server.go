package modeltest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/runner/codex/codextest"
)

// Server is the model's side of the network.
type Server struct {
	// URL is the base for model_providers.*.base_url.
	URL string

	http *httptest.Server
	quit chan struct{}

	mu       sync.Mutex
	requests []Request
	tries    map[string]int // by what is asked for
	serial   int
	in, out  int // tokens of the responses so far
}

// Request is one call of the model.
type Request struct {
	Model   string
	Thread  string          // prompt_cache_key
	Prompts []string        // what the client sent as turns, without codex's own context
	Outputs []string        // what the tools answered since the last prompt
	Tools   []string        // names on offer
	Body    json.RawMessage // as it came
}

// New starts a server on the loopback interface.
func New() *Server {
	s := &Server{quit: make(chan struct{}), tries: make(map[string]int)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/responses", s.respond)
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"object":"list","data":[],"models":[]}`)
	})
	s.http = httptest.NewServer(mux)
	s.URL = s.http.URL + "/v1"
	return s
}

// Close ends the server and what it has open.
func (s *Server) Close() {
	close(s.quit)
	s.http.CloseClientConnections()
	s.http.Close()
}

// Requests are the calls so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Tokens are what the responses so far have cost, as they told the client.
func (s *Server) Tokens() (input, output int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.in, s.out
}

// WriteHome makes dir a CODEX_HOME whose only provider is the server at url. It
// needs no key and no login, and codex asks no other server: it would fetch a list
// of plugins.
func WriteHome(dir, url string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	text := fmt.Sprintf(`model = "gpt-5.5"
model_provider = "mock"

[features]
apps = false
plugins = false

[model_providers.mock]
name = "mock"
base_url = %q
wire_api = "responses"
`, url)
	return os.WriteFile(filepath.Join(dir, "config.toml"), []byte(text), 0o600)
}

// input is one item of a request's input.
type input struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Output  json.RawMessage `json:"output"`
	CallID  string          `json:"call_id"`
	Tools   []named         `json:"tools"`
}

type named struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// text joins the texts of a message's parts.
func text(content json.RawMessage) string {
	var whole string
	if json.Unmarshal(content, &whole) == nil {
		return whole
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &parts) != nil {
		return string(content)
	}
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, "\n")
}

// output is what a tool said. An older codex wraps what commands say.
func output(raw json.RawMessage) string {
	said := text(raw)
	var wrapped struct {
		Output   *string         `json:"output"`
		Metadata json.RawMessage `json:"metadata"`
	}
	if json.Unmarshal([]byte(said), &wrapped) == nil && wrapped.Output != nil && wrapped.Metadata != nil {
		return *wrapped.Output
	}
	return said
}

// isContext knows what codex adds in the name of the user.
func isContext(text string) bool {
	return strings.HasPrefix(text, "<") || strings.HasPrefix(text, "# AGENTS.md")
}

// read takes a request apart.
func read(body []byte) (Request, error) {
	var b struct {
		Model          string  `json:"model"`
		PromptCacheKey string  `json:"prompt_cache_key"`
		Input          []input `json:"input"`
		Tools          []named `json:"tools"`
	}
	if err := json.Unmarshal(body, &b); err != nil {
		return Request{}, err
	}
	r := Request{Model: b.Model, Thread: b.PromptCacheKey, Body: body}
	tools := b.Tools
	for _, i := range b.Input {
		tools = append(tools, i.Tools...)
		switch {
		case i.Type == "message" && i.Role == "user" && !isContext(text(i.Content)):
			r.Prompts = append(r.Prompts, text(i.Content))
			r.Outputs = nil
		case strings.HasSuffix(i.Type, "_output") && i.CallID != "":
			// Without a call id it is context of codex's own (a goal).
			r.Outputs = append(r.Outputs, output(i.Output))
		}
	}
	for _, t := range tools {
		name := t.Name
		if name == "" {
			name = t.Type
		}
		r.Tools = append(r.Tools, name)
	}
	return r, nil
}

func (s *Server) respond(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	req, err := read(body)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, req)
	same := fmt.Sprint(req.Thread, len(req.Prompts), len(req.Outputs))
	s.tries[same]++
	try := s.tries[same]
	s.mu.Unlock()
	all, err := codextest.Steps(req.Prompts, len(req.Prompts))
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	a := &answer{s: s, w: w, r: r, model: req.Model, tools: req.Tools, try: try}
	a.play(rest(all, len(req.Outputs)))
}

// rest are the steps that are left after so many calls have been answered.
func rest(all []codextest.Step, outputs int) []codextest.Step {
	for i := range all {
		if outputs == 0 {
			return all[i:]
		}
		if isCall(all[i].Verb) {
			outputs--
		}
	}
	return nil
}

func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A client that is gone can't be told.
	_ = json.NewEncoder(w).Encode(object{"error": object{"message": message, "type": "invalid_request_error", "code": nil}})
}

func (s *Server) id(prefix string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serial++
	return fmt.Sprintf("%s_%04d", prefix, s.serial)
}
