package runner

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/proxy"
)

// boxedConfig is the configuration of agents of a kind whose model is in MODEL_BASE_URL.
func boxedConfig(key string) Config {
	return Config{
		Config: confine.Config{PassEnv: []string{"DEPLOY_TOKEN"}},
		Agent: agent.Kind{
			Name:     "mine",
			HomeVars: []string{"MINE_HOME"},
			Service: func(string) agent.Service {
				return agent.Service{
					Hosts:     []string{"api.model.example"},
					URL:       "https://api.model.example",
					BaseVar:   "MODEL_BASE_URL",
					Header:    "X-Api-Key",
					Prefix:    "key ",
					LoginVars: []string{"MODEL_KEY"},
					Through:   func(url string) []string { return []string{"MODEL_BASE_URL=" + url, "MODEL_KEY=none"} },
				}
			},
		},
		Sandbox: &Sandbox{Home: "/state/homes/mine", AccountHome: "/home/me", Key: key, Allow: []string{"npm"}},
	}
}

// TestKeyStaysOutside: the worker adds the key of the model to a request of the agent, which has
// another one in its environment.
func TestKeyStaysOutside(t *testing.T) {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s with %s", r.URL.Path, r.Header.Get("X-Api-Key"))
	}))
	t.Cleanup(model.Close)
	dir := test.Must(filepath.EvalSymlinks(t.TempDir()))
	c := boxedConfig("secret")
	run := reconcile.Run{ID: "run-1"}
	s := &shell{parts: &parts{run: run}, site: &site{Place: Place{Config: c}}}
	env := s.boxEnv([]string{
		"PATH=/bin", "HOME=/home/me", "MODEL_KEY=secret", "A_TOKEN=a", "DEPLOY_TOKEN=d", "MINE_HOME=/home/me/mine",
		"MODEL_BASE_URL=" + model.URL + "/gateway", "XDG_CONFIG_HOME=/home/me/.config",
	})
	s.site.space = &host.Workspace{Path: filepath.Join(dir, "ws"), TmpDir: filepath.Join(dir, "tmp")}
	b := &boxes{dir: filepath.Join(dir, "sandbox"), events: &eventLog{}, log: slog.New(slog.DiscardHandler)}
	request := test.Must(b.enclose(s.site, []string{"bash", "-c", "mine"}, env, "FOO=1 mine --acp"))
	defer b.close()
	test.Equal(t, "environment", slices.Sorted(slices.Values(request.Env)), []string{
		"DEPLOY_TOKEN=d", "HOME=/state/homes/mine", "MODEL_BASE_URL=http://127.0.0.1:3128/model/mine",
		"MODEL_KEY=none", "PATH=/bin", "SYMPHONY_RUN_ID=run-1", "TMPDIR=/tmp",
	})
	test.Equal(t, "programs", request.Box.Programs, []string{"mine"})
	tunnel := ask(t, request.Box.Socket, "CONNECT api.model.example:443 HTTP/1.1\r\nHost: a\r\n\r\n")
	test.Contains(t, "a tunnel to the model", tunnel, "not allowed")
	answer := ask(t, request.Box.Socket, "GET /model/mine/v1 HTTP/1.1\r\nHost: a\r\nX-Api-Key: none\r\n\r\n")
	test.Equal(t, "what arrives", answer, "/gateway/v1 with key secret")
}

// TestModelOfThisMachine: a model that the environment names is reached, although the loopback
// of the sandbox is another one. A host that is not listed is refused, and the reason of a
// failure names it.
func TestModelOfThisMachine(t *testing.T) {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "own key "+r.Header.Get("X-Api-Key"))
	}))
	t.Cleanup(model.Close)
	dir := test.Must(filepath.EvalSymlinks(t.TempDir()))
	c := boxedConfig("")
	b := &boxes{dir: dir, events: &eventLog{}, log: slog.New(slog.DiscardHandler)}
	way := test.Must(c.Sandbox.way(c, []string{
		"OTHER_BASE_URL=" + model.URL, "MODEL_BASE_URL=https://gateway.corp.example:8443/llm", "A_BASE_URL=no url",
	}))
	test.Equal(t, "variables", way.variables, []string{"OTHER_BASE_URL=http://127.0.0.1:3128/model/other-here"})
	test.Equal(t, "rules", fmt.Sprint(way.rules), "[{api.model.example false 0 [] false} "+
		"{gateway.corp.example false 8443 [] true}]")
	socket := filepath.Join(dir, proxySocket)
	test.OK(t, b.serve(c.Sandbox, way, socket))
	defer b.close()
	answer := ask(t, socket, "GET /model/other-here/v1 HTTP/1.1\r\nHost: a\r\nX-Api-Key: mine\r\n\r\n")
	test.Equal(t, "what arrives", answer, "own key mine")
	test.Equal(t, "a failure", b.explain("stalled", 0), "stalled")
	ask(t, socket, "GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n")
	test.Equal(t, "a failure", b.explain("stalled", 0), "stalled; the sandbox refused evil.example:80: not allowed "+
		"(to allow it: agent.network: {allow: [npm, evil.example]})")
	test.Equal(t, "a later failure", b.explain("stalled", b.count()), "stalled")
}

// TestUnknownProvider: without knowing how an agent sends its key, symphony can't keep it.
func TestUnknownProvider(t *testing.T) {
	c := boxedConfig("secret")
	c.Agent.Service = func(string) agent.Service { return agent.Service{} }
	_, err := c.Sandbox.way(c, nil)
	code, message := codeOf(err)
	test.Equal(t, "code", code, "invalid_config")
	test.Contains(t, "message", message, "agent.key: the provider of agent.model")
}

func TestLineFor(t *testing.T) {
	refused := []proxy.Refusal{
		{Host: "a.example", Port: 443, Reason: proxy.NotListed},
		{Host: "b.example", Port: 443, Reason: proxy.Unreachable},
		{Host: "c.example", Port: 22, Reason: proxy.NotListed},
		{Host: "a.example", Port: 80, Reason: proxy.NotListed},
	}
	test.Equal(t, "line", lineFor(nil, refused), `agent.network: {allow: [a.example, "c.example:22"]}`)
	test.Equal(t, "no line", lineFor([]string{"npm"}, refused[1:2]), "")
}

// ask sends a request to a proxy and returns the body of the answer.
func ask(t *testing.T, socket, request string) string {
	t.Helper()
	conn := test.Must(net.Dial("unix", socket))
	defer conn.Close()
	_, err := io.WriteString(conn, request)
	test.OK(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	test.OK(t, err)
	defer answer.Body.Close()
	return string(test.Must(io.ReadAll(answer.Body)))
}

func TestProgramWord(t *testing.T) {
	for command, want := range map[string]string{
		"codex app-server":                   "codex",
		"  /opt/codex app-server -c model=x": "/opt/codex",
		"exec codex app-server":              "codex",
		"RUST_LOG=debug A=b ~/bin/codex":     "~/bin/codex",
		"env CODEX_HOME=/x codex app-server": "codex",
		"$HOME/codex app-server":             "",
		`"/opt/my codex" app-server`:         "",
		// a builtin, which is found; the start reports the rest
		"cd /x && codex app-server":              "cd",
		"(codex app-server)":                     "",
		"":                                       "",
		"npx codex@latest app-server | tee /tmp": "npx",
		"claude-agent-acp":                       "claude-agent-acp",
		"exec env A=b ~/bin/opencode acp":        "~/bin/opencode",
		"cd x; claude":                           "cd",
		`"$HOME/my agent" --acp`:                 "",
		strings.Repeat(" ", 3) + "/opt/a/b c":    "/opt/a/b",
	} {
		test.Equal(t, command, ProgramWord(command), want)
	}
}
