// Package modeltest is the model for tests with the real codex: a Responses API on the
// loopback interface that runs a script from the prompt. The scripts are written as for
// package script, so that one prompt works with either; turns without continuation guidance
// are counted over the whole thread.
//
// The server keeps no state between requests: the number of tool outputs after the last prompt
// tells which step of the script is next. Each sh, background, patch, tool and ask-… is a call
// that ends a response; say, think, stream, sleep and tokens are part of a response.
//
//	sh               exec_command, and write_stdin until the command ends
//	background       exec_command
//	ask-command      such a call that asks to leave the sandbox
//	ask-permissions  request_permissions
//	ask-user         request_user_input
//	patch            apply_patch, or a command that runs it
//	tool             a function call of that name; NAMESPACE.NAME for a tool that codex offers in
//	                 a namespace. tool_search is codex's search for tools; its output are the names
//	                 of what it has found, such as mcp__symphony.spawn_agent
//	fail             INFO is an HTTP status, usage_limit_reached (429 with headers), cut (cuts the
//	                 connection in the middle of the stream), or the code of a response.failed.
//	                 usage_limit_reached=30s resets after 30 s, not an hour; 500/2 fails only the
//	                 first two requests, then the script goes on
//	crash            fail cut
//	long             a message of that many bytes, which codex passes on in one line
//	hang             no answer at all; silent: headers, then nothing
//	steal-turn       create_goal, so that codex goes on by itself
//
// The answer to any other directive is an HTTP 400 that names it.
package modeltest

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent/script"
)

// Server is the model's side of the network.
type Server struct {
	// URL is the base for model_providers.*.base_url.
	URL string
	// Script runs for prompts without a script. It is written like the part of a prompt.
	Script string

	http *httptest.Server
	quit chan struct{}

	mu       sync.Mutex
	requests []script.Request
	tries    map[string]int // by thread and position in the script
	serial   int
	in, out  int // tokens of the responses so far
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
	mux.HandleFunc("POST /oauth/token", s.refresh)
	s.http = httptest.NewServer(mux)
	s.URL = s.http.URL + "/v1"
	return s
}

// Close ends the server and its connections.
func (s *Server) Close() {
	close(s.quit)
	s.http.CloseClientConnections()
	s.http.Close()
}

// Requests returns the calls so far.
func (s *Server) Requests() []script.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Tokens returns the tokens that the responses so far have reported.
func (s *Server) Tokens() (input, output int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.in, s.out
}

// WriteHome makes dir a CODEX_HOME whose only provider is the server at url. It needs no key
// and no login. Apps and plugins are off because codex would fetch a list of them from another
// server.
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

// WriteLogin writes auth.json, a login with an expired token, into a CODEX_HOME. Codex
// refreshes it at the server if CODEX_REFRESH_TOKEN_URL_OVERRIDE names the server's path
// /oauth/token.
func WriteLogin(dir string) error {
	expired := token(time.Unix(1, 0))
	return os.WriteFile(filepath.Join(dir, "auth.json"), []byte(encode(object{
		"auth_mode":    "chatgpt",
		"last_refresh": "2020-01-01T00:00:00Z",
		"tokens": object{
			"id_token":      expired,
			"access_token":  expired,
			"refresh_token": "first",
			"account_id":    "acc",
		},
	})), 0o600)
}

// token returns an unsigned JSON web token.
func token(expires time.Time) string {
	part := func(o object) string { return base64.RawURLEncoding.EncodeToString([]byte(encode(o))) }
	return part(object{"alg": "none"}) + "." + part(object{
		"exp":   expires.Unix(),
		"email": "ann@example.com",
		"https://api.openai.com/auth": object{
			"chatgpt_plan_type":  "pro",
			"chatgpt_account_id": "acc",
			"chatgpt_user_id":    "ann",
		},
	}) + ".c2ln"
}

// refresh answers with new tokens.
func (s *Server) refresh(w http.ResponseWriter, _ *http.Request) {
	fresh := token(time.Now().Add(time.Hour))
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, encode(object{
		"id_token":      fresh,
		"access_token":  fresh,
		"refresh_token": "second",
	}))
}

// content is a text. On the wire it may be split into parts.
type content string

func (c *content) UnmarshalJSON(raw []byte) error {
	var parts []struct{ Type, Text string }
	if json.Unmarshal(raw, (*string)(c)) == nil {
		return nil
	}
	_ = json.Unmarshal(raw, &parts) // other shapes contain no texts
	for _, p := range parts {
		*c += content(p.Text)
		if p.Type == "input_image" {
			*c += "\n[image]"
		}
	}
	return nil
}

// tool is a tool, or a namespace with tools.
type tool struct {
	Name, Type string
	Tools      []tool
}

// namesOf returns the names of tools as a script calls them.
func namesOf(found []tool) (names []string) {
	for _, space := range found {
		if len(space.Tools) == 0 {
			names = append(names, space.Name)
		}
		for _, t := range space.Tools {
			names = append(names, space.Name+"."+t.Name)
		}
	}
	return names
}

// read parses the body of a request.
func read(body []byte) (script.Request, error) {
	var b struct {
		Model          string
		PromptCacheKey string `json:"prompt_cache_key"`
		Tools          []tool
		Input          []struct {
			Type, Role, Name string
			Content, Output  content
			CallID           string `json:"call_id"`
			Tools            []tool
		}
	}
	if err := json.Unmarshal(body, &b); err != nil {
		return script.Request{}, err
	}
	r := script.Request{Model: b.Model, Thread: b.PromptCacheKey}
	tools := b.Tools
	waits := map[string]bool{}
	for _, i := range b.Input {
		tools = append(tools, i.Tools...)
		said := string(i.Content)
		// Context that codex adds in the role of the user begins like this.
		isContext := strings.HasPrefix(said, "<") || strings.HasPrefix(said, "# AGENTS.md")
		switch {
		case i.Type == "message" && i.Role == "user" && !isContext:
			r.Prompts = append(r.Prompts, said)
			r.Outputs = nil
		case i.Type == "message" && i.Role == "user":
			r.Context = append(r.Context, said)
		case i.Type == "message" && i.Role == "developer":
			r.Orders = append(r.Orders, said)
		case i.Name == writeStdin:
			waits[i.CallID] = true
		case waits[i.CallID]:
			r.Outputs[len(r.Outputs)-1] = string(i.Output)
		case i.Type == "tool_search_output":
			r.Outputs = append(r.Outputs, strings.Join(namesOf(i.Tools), " "))
		case strings.HasSuffix(i.Type, "_output") && i.CallID != "":
			// without a call id it is the context of a goal
			r.Outputs = append(r.Outputs, string(i.Output))
		}
	}
	r.Tools = text.Map(tools, func(t tool) string { return cmp.Or(t.Name, t.Type) })
	return r, nil
}

func (s *Server) respond(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	a := &answer{s: s, w: w, r: r}
	var steps []script.Step
	a.Request, err = read(body)
	if err == nil {
		steps, err = script.Steps(append([]string{s.Script}, a.Prompts...), len(a.Prompts))
	}
	s.mu.Lock()
	s.requests = append(s.requests, a.Request)
	same := fmt.Sprint(a.Thread, len(a.Prompts), len(a.Outputs), session(&a.Request))
	s.tries[same]++
	a.try = s.tries[same]
	s.mu.Unlock()
	if err != nil {
		a.refuse(http.StatusBadRequest, err.Error())
		return
	}
	var last string // directive of the last call
	for answered := len(a.Outputs); answered > 0 && len(steps) > 0; steps = steps[1:] {
		if calls[steps[0].Verb] != nil {
			answered--
			last = steps[0].Verb
		}
	}
	if id := session(&a.Request); last == "sh" && id != "" {
		wait := json.RawMessage(`{"chars": "", "yield_time_ms": 30000, "session_id": ` + id + `}`)
		steps = []script.Step{{Verb: "tool", Name: writeStdin, JSON: wait}}
	}
	a.play(steps)
}

// runs matches codex's answer to exec_command and write_stdin while the command runs.
var runs = regexp.MustCompile(`Process running with session ID (\d+)`)

// session returns the id of the command that the last tool left running.
func session(r *script.Request) string {
	if len(r.Outputs) == 0 {
		return ""
	}
	if match := runs.FindStringSubmatch(r.Outputs[len(r.Outputs)-1]); match != nil {
		return match[1]
	}
	return ""
}

func (s *Server) id(prefix string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serial++
	return fmt.Sprintf("%s_%04d", prefix, s.serial)
}
