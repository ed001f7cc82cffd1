package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/internal/test"
)

// serveMCP starts symphony serve in the directory work of a place, and returns its address.
// The end of the test ends it by SIGTERM, which it must obey without an error.
func serveMCP(t *testing.T, s *hostScene, token string) (url string) {
	t.Helper()
	file := s.path("home/.config/symphony/web-token")
	test.OK(t, os.MkdirAll(filepath.Dir(file), 0o700))
	test.OK(t, os.WriteFile(file, []byte(token), 0o600))
	cmd := exec.CommandContext(
		context.Background(),
		"symphony",
		"serve",
		"--port",
		"0",
		"--project",
		"all",
		"--token-file",
		file,
	)
	cmd.Dir = s.path("work")
	cmd.Env = s.env
	cmd.Stderr = t.Output()
	out := bufio.NewReader(test.Must(cmd.StdoutPipe()))
	test.OK(t, cmd.Start())
	t.Cleanup(func() {
		test.OK(t, cmd.Process.Signal(syscall.SIGTERM))
		_, _ = io.Copy(io.Discard, out)
		test.OK(t, cmd.Wait())
	})
	line := test.Must(out.ReadString('\n'))
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "serving at "), "/") + "/mcp"
}

// withHeaders adds headers to requests, names and values in turn.
type withHeaders []string

func (h withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for n := 0; n < len(h); n += 2 {
		r.Header.Set(h[n], h[n+1])
		if h[n] == "Host" {
			r.Host = h[n+1]
		}
	}
	return http.DefaultTransport.RoundTrip(r)
}

// Two hosts use the agents of a server with its token. Each can be asked by a form; the server
// ends although calls wait.
func TestMCPOverHTTP(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef0123"
	s := newMCPPlace(t, "work")
	url := serveMCP(t, s, token)
	connectTo := func(url string, o *mcp.ClientOptions) *mcp.ClientSession {
		client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o)
		return test.Must(client.Connect(t.Context(), &mcp.StreamableClientTransport{
			Endpoint:   url,
			HTTPClient: &http.Client{Transport: withHeaders{"Authorization", "Bearer " + token}},
		}, nil))
	}
	connect := func(o *mcp.ClientOptions) *mcp.ClientSession { return connectTo(url, o) }
	asked := make(chan string, 1)
	first := connect(
		&mcp.ClientOptions{
			ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				asked <- r.Params.Message
				time.Sleep(1100 * time.Millisecond) // a person needs more than a second
				return &mcp.ElicitResult{
					Action:  "accept",
					Content: map[string]any{"decision": "approve"},
				}, nil
			},
		},
	)
	second := connect(nil)
	callTool(t, first, "spawn_agent", map[string]any{"id": "one"}, &struct{}{})
	t.Cleanup(func() {
		cmd := exec.Command("symphony", "stop", "one")
		cmd.Dir = s.path("work")
		cmd.Env = s.env
		_ = test.Must(cmd.Output())
	})
	callTool(t, second, "new_conversation", map[string]any{
		"agentId": "one",
		"params":  map[string]any{"id": "main"},
	}, &struct{}{})
	turn := func(id, prompt string) map[string]any {
		return map[string]any{"agentId": "one", "params": map[string]any{
			"id":             id,
			"conversationId": "main",
			"items":          []any{map[string]any{"type": "text", "text": prompt}},
		}}
	}
	callTool(
		t,
		second,
		"send_user_turn",
		turn("a", "```agent\nask-command touch made\nhang\n```"+strings.Repeat(" ", 100<<10)),
		&struct{}{},
	)
	test.Contains(t, "the form", <-asked, "touch made")
	test.Until(t, "the command is approved", func() bool {
		_, err := os.Stat(s.path("work/made"))
		return err == nil
	})
	go func() { // until the server ends
		_, _ = first.CallTool(context.Background(), &mcp.CallToolParams{
			Name:      "wait_agent",
			Arguments: map[string]any{"agentIds": []string{"one"}},
		})
	}()
	var list struct{ Agents []struct{ State string } }
	callTool(t, second, "list_agents", nil, &list)
	test.Equal(t, "the state", list.Agents[0].State, "active")

	// A host whose model calls the tools chooses the few.
	lean := connectTo(url+"?tools=lean", nil)
	var names []string
	for _, tool := range test.Must(lean.ListTools(t.Context(), nil)).Tools {
		names = append(names, tool.Name)
	}
	test.Contains(t, "the tools", strings.Join(names, " "), "decide_request", "send_message")
	test.Lacks(t, "the tools", strings.Join(names, " "), "new_conversation")
	callTool(t, lean, "list_agents", nil, &list)
	test.Equal(t, "the state for that host", list.Agents[0].State, "active")
}

// The server refuses requests without the token, from a page of another site, or to a foreign
// name, even with the id of a session.
func TestMCPOverHTTPRefuses(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef0123"
	s := newMCPPlace(t, "work")
	url := serveMCP(t, s, token)
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},` +
		`"clientInfo":{"name":"x","version":"1"}}}`
	address := url
	ask := func(method, body string, headers ...string) (status int, answer, session string) {
		t.Helper()
		// events that were not refused would go on
		ctx, cancel := context.WithTimeout(t.Context(), test.Patience())
		defer cancel()
		r := test.Must(http.NewRequestWithContext(ctx, method, address, strings.NewReader(body)))
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Content-Type", "application/json")
		resp, err := (&http.Client{Transport: withHeaders(headers)}).Do(r)
		test.OK(t, err)
		defer resp.Body.Close()
		return resp.StatusCode, string(test.Must(io.ReadAll(resp.Body))), resp.Header.Get("Mcp-Session-Id")
	}
	at := func(other string, headers ...string) (status int, answer string) {
		t.Helper()
		address = other
		status, answer, _ = ask("POST", hello, headers...)
		return status, answer
	}
	bearer := []string{"Authorization", "Bearer " + token}
	status, answer, session := ask("POST", hello, bearer...)
	if status != http.StatusOK || session == "" || !json.Valid([]byte(answer[strings.Index(answer, "{"):])) {
		t.Fatalf("with the token: %d %s", status, answer)
	}
	known := []string{"Mcp-Session-Id", session}
	for _, c := range []struct {
		name, method string
		status       int
		headers      []string
	}{
		{"without token", "POST", 401, nil},
		{"a session without token", "POST", 401, known},
		{"events of a session without token", "GET", 401, known},
		{"the end of a session without token", "DELETE", 401, known},
		{"wrong token", "POST", 401, []string{"Authorization", "Bearer " + token + "4"}},
		{"token in another header", "POST", 401, []string{"X-Token", token}},
		{"token as a password", "POST", 401, []string{"Authorization", "Basic " + token}},
		{"the cookie of another server", "POST", 401, []string{"Cookie", "symphony_1=" + token}},
		{"an invented session", "POST", 404, append([]string{"Mcp-Session-Id", session + "1"}, bearer...)},
		{"events of an invented session", "GET", 404, append([]string{"Mcp-Session-Id", session + "1"}, bearer...)},
		{"the end of an invented session", "DELETE", 404, append([]string{"Mcp-Session-Id", session + "1"}, bearer...)},
		{"events without a session", "GET", 400, bearer},
		{"the end of no session", "DELETE", 400, bearer},
		{"another method", "PUT", 405, append(known, bearer...)},
		{"other site", "POST", 403, append([]string{"Sec-Fetch-Site", "cross-site"}, bearer...)},
		{
			"other port",
			"POST",
			403,
			append([]string{"Sec-Fetch-Site", "same-site", "Origin", "http://localhost:1"}, bearer...),
		},
		{
			"events for another site",
			"GET",
			403,
			append([]string{"Sec-Fetch-Site", "cross-site"}, append(known, bearer...)...),
		},
		{
			"events for another origin",
			"GET",
			403,
			append([]string{"Origin", "https://evil.example"}, append(known, bearer...)...),
		},
		{"a question whether another site may ask", "OPTIONS", 403, []string{
			"Origin",
			"https://evil.example",
			"Access-Control-Request-Method",
			"POST",
			"Access-Control-Request-Headers",
			"authorization",
		}},
		{"other origin", "POST", 403, append([]string{"Origin", "https://evil.example"}, bearer...)},
		{"no origin of a page", "DELETE", 403, append([]string{"Origin", "null"}, append(known, bearer...)...)},
		{"after DNS rebinding", "POST", 421, append([]string{"Host", "evil.example"}, bearer...)},
		{
			"events after DNS rebinding",
			"GET",
			421,
			append([]string{"Host", "evil.example"}, append(known, bearer...)...),
		},
		{"a form", "POST", 415, append([]string{"Content-Type", "text/plain"}, bearer...)},
		{"too large", "POST", 413, append(known, bearer...)},
	} {
		body := hello
		if c.status == http.StatusRequestEntityTooLarge {
			body = strings.Repeat(" ", 17<<20)
		}
		if status, answer, _ := ask(c.method, body, c.headers...); status != c.status {
			t.Errorf("%s: %d %s", c.name, status, answer)
		}
	}
	for _, address = range []string{
		url + "?token=" + token,
		url + "?Authorization=Bearer+" + token,
		url + "/",
		strings.Replace(url, "/mcp", "//mcp", 1),
	} {
		if status, answer, _ := ask("POST", hello); status != 401 && status != 404 && status != 405 {
			t.Errorf("%s: %d %s", address, status, answer)
		}
	}
	for address, want := range map[string]string{
		url + "?tools=few":         `agents, issues and lean, not \"few\"`,
		url + "?tools=lean,issues": "need a workflow",
		url + "?tool=lean":         `unknown parameter \"tool\"`,
	} {
		status, answer := at(address, bearer...)
		test.Equal(t, address, status, http.StatusBadRequest)
		test.Contains(t, address, answer, want)
	}
	// Who tries the address by hand learns how it is used.
	address = url
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for _, c := range []struct {
		method, body, says string
		headers            []string
	}{
		{"GET", "", "claude mcp add symphony ADDRESS", bearer},
		{"POST", list, "session initialization: send initialize first", bearer},
		{"POST", list, "send initialize again", append([]string{"Mcp-Session-Id", "ended"}, bearer...)},
		{"POST", list, "with curl -H", append([]string{"Content-Type", "text/plain"}, bearer...)},
		{"POST", `{"method":"tools/list"}`, "sends initialize first, as JSON-RPC 2.0", bearer},
	} {
		_, answer, _ := ask(c.method, c.body, c.headers...)
		test.Contains(t, c.method+" "+c.body, answer, c.says)
	}
	status, answer, _ = ask("POST", `{"jsonrpc":"2.0","id":2,"method":"ping"}`, append(known, bearer...)...)
	test.Equal(t, "the session afterwards", status, http.StatusOK)
	test.Contains(t, "its answer", answer, `"result"`)
}
