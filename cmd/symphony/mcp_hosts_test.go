package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// hostProgram is a published host of MCP, whose model is a hostModel.
type hostProgram struct {
	name, variable string   // the variable has the path of the program
	environ        []string // MODEL stands for the address of the model
	register       string   // the arguments with which it registers symphony
	prompt         string   // those with which it carries out a prompt
	file, text     string   // a file of its home
	shows          bool     // it shows forms. Otherwise its model decides.
}

// hostPrograms are the hosts of TestMCPHosts. They find no newer version, send no telemetry,
// and have nothing in common with the account that runs the tests.
var hostPrograms = []hostProgram{
	{
		name: "claude", variable: "SYMPHONY_TEST_MCP_CLAUDE",
		environ: []string{
			"ANTHROPIC_BASE_URL=MODEL",
			"ANTHROPIC_API_KEY=none",
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
			"DISABLE_AUTOUPDATER=1",
			"ENABLE_TOOL_SEARCH=false", // the model gets all tools at once
		},
		register: "mcp add symphony -- symphony mcp --deliver",
		prompt:   "-p go",
		// A hook stands for the person at the form, who needs more than a second.
		file: ".claude/settings.json",
		text: `{"permissions": {"allow": ["mcp__symphony"], "ask": ["mcp__symphony__decide_request"]},` +
			`"hooks": {"Elicitation": [{"hooks": [{"type": "command", "command": "cat > $HOME/form; sleep 1.1;` +
			` echo '{\"hookSpecificOutput\": {\"hookEventName\": \"Elicitation\", \"action\": \"accept\"}}'"}]}]}}`,
		shows: true,
	},
	{
		name: "gemini", variable: "SYMPHONY_TEST_MCP_GEMINI",
		environ: []string{
			"GOOGLE_GEMINI_BASE_URL=MODEL", "GEMINI_API_KEY=none", "GEMINI_CLI_TRUST_WORKSPACE=true",
		},
		register: "mcp add --trust symphony symphony mcp -- --deliver",
		// of several models it would first ask which one to use
		prompt: "-m gemini-2.5-flash -p go",
		file:   ".gemini/settings.json",
		text: `{"general": {"enableAutoUpdate": false}, "privacy": {"usageStatisticsEnabled": false},` +
			` "security": {"auth": {"selectedType": "gemini-api-key"}}}`,
	},
}

// modelCall is a call of a tool, and what its result has to contain.
type modelCall struct{ tool, arguments, want string }

// Three agents work in worktrees. One asks: where the host can, its user decides. The host is
// killed, and the next one interrupts an agent, reads what the others have done, and delivers
// it.
func TestMCPHosts(t *testing.T) {
	test.Expensive(t)
	for _, p := range hostPrograms {
		t.Run(p.name, func(t *testing.T) {
			if os.Getenv(p.variable) == "" {
				t.Skip("set " + p.variable + " to the program of the host to run this test")
			}
			t.Parallel()
			h := newHostRun(t, p)
			spawn := func(id, script string) modelCall {
				return modelCall{
					"spawn_agent",
					fmt.Sprintf(`{"id":%q,"worktree":true,"prompt":%q}`, id, "```agent\n"+script+"\n```"),
					id + ".first",
				}
			}
			before := []modelCall{
				spawn("one", "sh echo 1 > new && git add . && git commit -qm One\nsay it is done"),
				spawn(
					"two",
					"ask-command echo 2 > "+h.path(
						"outside",
					)+"\nsh echo 2 > new && git add . && git commit -qm Two\nsay it is done",
				),
				spawn("three", "hang"),
			}
			if p.shows { // and its user has not permitted the model to decide
				before = append(
					before,
					modelCall{"decide_request", `{"requestId":"two.1","decision":"approve"}`, "permission"},
				)
			} else {
				before = append(before,
					modelCall{
						"wait_agent",
						`{"agentIds":["two"],"timeoutSeconds":50}`,
						`"command":"echo 2 > ` + h.path("outside"),
					},
					modelCall{
						"decide_request",
						`{"requestId":"two.1","decision":"approve","wait_for_previous":true}`,
						`"taken":true`,
					})
			}
			before = append(
				before,
				modelCall{
					"wait_agent",
					`{"agentIds":["two"],"timeoutSeconds":50}`,
					`"lastMessage":"it is done"`,
				},
			)
			after := []modelCall{
				{"list_agents", `{}`, `"three"`},
				{"interrupt", `{"agentId":"three","params":{"conversationId":"main"}}`, "three.first"},
				{
					"wait_agent",
					`{"agentIds":["one","two","three"],"mode":"all","timeoutSeconds":50}`,
					`"status":"interrupted"`,
				},
				{"read_changes", `{"agentId":"one"}`, `"subject":"One"`},
				{"read_changes", `{"agentId":"two"}`, `"subject":"Two"`},
				{"deliver_changes", `{"agentId":"one"}`, `"commits":1`},
				{"deliver_changes", `{"agentId":"two"}`, `"commits":1`},
			}
			read := h.killed(before) + h.run(after)
			delivered := h.git(
				"origin.git",
				"for-each-ref",
				"--format=%(refname:short) %(subject)",
				"refs/heads/symphony",
			)
			test.Equal(t, "what is delivered", delivered, "symphony/one One\nsymphony/two Two")
			test.Equal(t, "the checkout", h.git("work", "status", "--porcelain", "--untracked-files=no"), "")
			_ = test.Must(os.Stat(h.path("outside")))
			if p.shows {
				test.Contains(
					t,
					"the form",
					string(test.Must(os.ReadFile(h.path("home/form")))),
					"Command: echo 2 > ",
				)
			}
			t.Logf("%d calls, %d bytes read", len(before)+len(after), read)
			if calls := len(before) + len(after); calls > 15 || read > 30_000 {
				t.Errorf("%d calls, and the model has read %d bytes", calls, read)
			}
		})
	}
}

// hostRun is a host in the checkout of a repository.
type hostRun struct {
	*hostScene
	hostProgram
}

// newHostRun makes the places, and lets the host register symphony.
func newHostRun(t *testing.T, p hostProgram) *hostRun {
	h := &hostRun{newMCPPlace(t, "work", "origin.git"), p}
	test.OK(t, os.Mkdir(filepath.Dir(h.path("home/"+p.file)), 0o700))
	test.OK(t, os.WriteFile(h.path("home/"+p.file), []byte(p.text), 0o600))
	h.git("origin.git", "init", "-q", "--bare", "-b", "main")
	h.git("work", "init", "-q", "-b", "main")
	h.git("work", "commit", "-q", "--allow-empty", "-m", "Begin")
	h.git("work", "remote", "add", "origin", h.path("origin.git"))
	h.git("work", "push", "-q", "origin", "main")
	t.Cleanup(func() {
		for _, agent := range []string{"one", "two", "three"} {
			cmd := exec.Command("symphony", "stop", agent)
			cmd.Dir = h.path("work")
			cmd.Env = h.env
			// a test that failed may have started none
			if out, err := cmd.CombinedOutput(); err != nil && !t.Failed() {
				t.Errorf("stop %s: %v: %s", agent, err, out)
			}
		}
	})
	test.Run(t, h.command(p.register, ""))
	test.Contains(t, "the servers of the host", test.Run(t, h.command("mcp list", "")), "Connected")
	return h
}

func (h *hostRun) git(dir string, args ...string) string {
	h.t.Helper()
	identity := []string{"-c", "user.name=test", "-c", "user.email=test@example.com", "-C", h.path(dir)}
	return test.Run(h.t, exec.Command("git", append(identity, args...)...))
}

// command is the host with arguments. It reaches nothing but its model: that is also its
// proxy, and refuses what is not for a model.
func (h *hostRun) command(arguments, model string) *exec.Cmd {
	cmd := exec.CommandContext(h.t.Context(), os.Getenv(h.variable), strings.Fields(arguments)...)
	cmd.Dir = h.path("work")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	model = cmp.Or(model, "http://127.0.0.1:1")
	cmd.Env = append(h.env, "HTTPS_PROXY="+model, "HTTP_PROXY="+model, "NO_PROXY=127.0.0.1")
	for _, variable := range h.environ {
		cmd.Env = append(cmd.Env, strings.Replace(variable, "MODEL", model, 1))
	}
	return cmd
}

// run lets the host's model make calls. It returns how many bytes the model has read of what
// symphony offers and answers.
func (h *hostRun) run(script []modelCall) int {
	m := h.model(script)
	test.Contains(h.t, "the output of the host", test.Run(h.t, h.command(h.prompt, m.url)), "all is done")
	return m.check()
}

// killed is run, except that the host is killed with its server after the last result.
func (h *hostRun) killed(script []modelCall) int {
	m := h.model(script)
	m.hangs = make(chan struct{})
	cmd := h.command(h.prompt, m.url)
	out := h.t.Output()
	cmd.Stdout = out
	cmd.Stderr = out
	test.OK(h.t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-m.hangs:
	case err := <-ended:
		m.check()
		h.t.Fatalf("the host has ended: %v", err)
	}
	test.OK(h.t, syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL))
	<-ended
	return m.check()
}

// hostModel is the model of a host, as Anthropic's and Google's APIs offer it. It makes the
// calls of a script, one after the other, and then says that all is done.
type hostModel struct {
	t      *testing.T
	url    string
	script []modelCall
	hangs  chan struct{} // if not nil, closed after the script, and nothing is said

	over   sync.Once
	mu     sync.Mutex
	listed int // bytes of the descriptions of symphony's tools
	got    []string
	wrong  []string // requests that are not for a model
}

func (h *hostRun) model(script []modelCall) *hostModel {
	m := &hostModel{t: h.t, script: script}
	server := httptest.NewServer(m)
	h.t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	m.url = server.URL
	return m
}

// check fails the test if the host has sent other results than the script wants.
func (m *hostModel) check() (read int) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.wrong {
		m.t.Errorf("the host asks for %s", w)
	}
	for n, c := range m.script {
		if n >= len(m.got) {
			m.t.Fatalf("the host has not called %s %s", c.tool, c.arguments)
		}
		test.Contains(m.t, "the result of "+c.tool, strings.ReplaceAll(m.got[n], "\\u003e", ">"), c.want)
		read += len(m.got[n])
	}
	return read + m.listed
}

// hostRequest is a request of a host, in either API.
type hostRequest struct {
	Tools    []json.RawMessage
	Messages []struct{ Content json.RawMessage }
	Contents []struct {
		Parts []struct {
			FunctionResponse *struct{ Response struct{ Output string } }
		}
	}
}

// results are those of the tools that were called.
func (r hostRequest) results() (list []string) {
	for _, m := range r.Messages {
		var blocks []struct {
			Type    string
			Content json.RawMessage
		}
		_ = json.Unmarshal(m.Content, &blocks) // a text has none
		for _, b := range blocks {
			var text string
			if b.Type == "tool_result" {
				_ = json.Unmarshal(b.Content, &text) // of another kind is not wanted
				list = append(list, text)
			}
		}
	}
	for _, c := range r.Contents {
		for _, p := range c.Parts {
			if p.FunctionResponse != nil {
				list = append(list, p.FunctionResponse.Response.Output)
			}
		}
	}
	return list
}

// tools are the descriptions of symphony's tools, by their names.
func (r hostRequest) tools() map[string]json.RawMessage {
	found := map[string]json.RawMessage{}
	for _, raw := range r.Tools {
		var google struct{ FunctionDeclarations []json.RawMessage }
		_ = json.Unmarshal(raw, &google)
		for _, declaration := range append(google.FunctionDeclarations, raw) {
			var tool struct{ Name string }
			if _ = json.Unmarshal(declaration, &tool); strings.Contains(tool.Name, "symphony_") {
				found[tool.Name] = declaration
			}
		}
	}
	return found
}

// take keeps what a request has, unless it is about something else than the prompt.
func (m *hostModel) take(got []string, tools map[string]json.RawMessage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(tools) == 0 || len(got) < len(m.got) {
		return
	}
	m.got = got
	m.listed = 0
	for _, description := range tools {
		m.listed += len(description)
	}
}

// ServeHTTP implements http.Handler.
func (m *hostModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request hostRequest
	write, ok := map[string]func(io.Writer, int, string, modelCall){
		"/v1/messages": writeAnthropic,
		"/v1beta/models/gemini-2.5-flash:streamGenerateContent": writeGoogle,
	}[r.URL.Path]
	if err != nil || !ok || json.Unmarshal(body, &request) != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.wrong = append(m.wrong, r.Method+" "+r.RequestURI)
		http.Error(w, "this is a model", http.StatusNotFound)
		return
	}
	got := request.results()
	tools := request.tools()
	m.take(got, tools)
	name := ""
	call := modelCall{}
	if len(got) < len(m.script) {
		call = m.script[len(got)]
		for tool := range tools {
			if strings.HasSuffix(tool, "symphony_"+call.tool) ||
				strings.HasSuffix(tool, "symphony__"+call.tool) {
				name = tool
			}
		}
	} else if m.hangs != nil {
		m.over.Do(func() { close(m.hangs) })
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	write(w, len(got), name, call)
}

// writeAnthropic streams a call of a tool, or without its name the last words.
func writeAnthropic(w io.Writer, n int, name string, call modelCall) {
	block := `{"type":"text","text":""}`
	delta := `{"type":"text_delta","text":"all is done"}`
	reason := "end_turn"
	if name != "" {
		block = fmt.Sprintf(`{"type":"tool_use","id":"call-%d","name":%q,"input":{}}`, n, name)
		delta = fmt.Sprintf(
			`{"type":"input_json_delta","partial_json":%s}`,
			test.Must(json.Marshal(call.arguments)),
		)
		reason = "tool_use"
	}
	const usage = `"usage":{"input_tokens":1,"output_tokens":1}`
	for _, event := range []struct{ kind, members string }{
		{
			"message_start",
			`"message":{"id":"m","type":"message","role":"assistant","model":"mock","content":[],"stop_reason":null,` + usage + `}`,
		},
		{"content_block_start", `"index":0,"content_block":` + block},
		{"content_block_delta", `"index":0,"delta":` + delta},
		{"content_block_stop", `"index":0`},
		{"message_delta", `"delta":{"stop_reason":"` + reason + `","stop_sequence":null},` + usage},
		{"message_stop", `"index":0`},
	} {
		fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q,%s}\n\n", event.kind, event.kind, event.members)
	}
}

// writeGoogle does the same for Google's API.
func writeGoogle(w io.Writer, _ int, name string, call modelCall) {
	part := `{"text":"all is done"}`
	if name != "" {
		part = fmt.Sprintf(`{"functionCall":{"name":%q,"args":%s}}`, name, call.arguments)
	}
	fmt.Fprintf(
		w,
		"data: {\"candidates\":[{\"index\":0,"+
			"\"content\":{\"role\":\"model\",\"parts\":[%s]},\"finishReason\":\"STOP\"}]}\n\n",
		part,
	)
}
