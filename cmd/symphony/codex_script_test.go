package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/runner/agent/script"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/acp/apitest"
	"github.com/symphony-cron/symphony/runner/codex/modeltest"
)

// scriptModel is the mock model behind a real agent.
type scriptModel interface{ Requests() []script.Request }

// modelCmd inspects the requests to the mock model behind a real agent, and its answers:
//
//	model requests N     waits until the model has received N requests in total
//	model threads N      fails unless the requests belong to N threads
//	model prompts        prints the prompts of the last request's thread, oldest first, each under a line "# prompt N"
//	model context        prints what codex itself has added to the last request, such as AGENTS.md
//	model outputs        prints the outputs of tools, as the model received them, each under a line "# output"
//	model tools          prints the names of the tools that the last request offered
//	model script FILE    what prompts without a script do from now on
//	model others         prints what else the agents have asked for, if they are not codex
//
// That of codex also has:
//
//	model tokens         prints the tokens of all responses, INPUT OUTPUT TOTAL, as the database shows them
//	model config [TABLE.]KEY VALUE   sets a key in the config.toml of the script's codex home
//	model login          logs the script's codex home in, with a token that has expired
func modelCmd(ts *testscript.TestScript, neg bool, args []string) {
	m := stageOf(ts).model
	if m == nil {
		ts.Fatalf("there is no model without a real agent")
	}
	requests := m.Requests()
	last := script.Request{}
	if len(requests) > 0 {
		last = requests[len(requests)-1]
	}
	verb := args[0]
	rest := args[1:]
	switch {
	case verb == "requests" && len(rest) == 1:
		waitFor(ts, rest[0]+" requests to the model", func() (bool, string) {
			n := len(m.Requests())
			return strconv.Itoa(n) == rest[0], strconv.Itoa(n)
		})
	case verb == "threads" && len(rest) == 1:
		threads := map[string]bool{}
		for _, r := range requests {
			threads[r.Thread] = true
		}
		if strconv.Itoa(len(threads)) != rest[0] {
			ts.Fatalf("%d threads, not %s: %v", len(threads), rest[0], threads)
		}
	case verb == "prompts" && len(rest) == 0:
		for i, p := range last.Prompts {
			fmt.Fprintf(ts.Stdout(), "# prompt %d\n%s\n", i+1, p)
		}
	case verb == "context" && len(rest) == 0:
		fmt.Fprintln(ts.Stdout(), strings.Join(last.Context, "\n"))
	case verb == "outputs" && len(rest) == 0:
		for _, r := range requests {
			if n := len(r.Outputs); n > 0 {
				fmt.Fprintf(ts.Stdout(), "# output\n%s\n", r.Outputs[n-1])
			}
		}
	case verb == "tools" && len(rest) == 0:
		fmt.Fprintln(ts.Stdout(), strings.Join(last.Tools, "\n"))
	case verb == "script" && len(rest) == 1:
		script := "```agent\n" + ts.ReadFile(rest[0]) + "\n```"
		switch m := m.(type) {
		case *apitest.Server:
			m.Script = script
		case *modeltest.Server:
			m.Script = script
		}
	case verb == "others" && len(rest) == 0:
		fmt.Fprintln(ts.Stdout(), strings.Join(m.(*apitest.Server).Others(), "\n"))
	default:
		codexModelCmd(ts, m.(*modeltest.Server), args)
	}
}

// codexModelCmd is modelCmd for what only the model of codex has.
func codexModelCmd(ts *testscript.TestScript, m *modeltest.Server, args []string) {
	verb := args[0]
	rest := args[1:]
	switch {
	case verb == "config" && len(rest) == 2:
		ts.Check(configure(filepath.Join(ts.Getenv("CODEX_HOME"), "config.toml"), rest[0], rest[1]))
	case verb == "login" && len(rest) == 0:
		ts.Check(modeltest.WriteLogin(ts.Getenv("CODEX_HOME")))
		setVar(ts, "CODEX_REFRESH_TOKEN_URL_OVERRIDE", strings.TrimSuffix(m.URL, "/v1")+"/oauth/token")
	case verb == "tokens" && len(rest) == 0:
		input, output := m.Tokens()
		fmt.Fprintf(ts.Stdout(), "%d\t%d\t%d\n", input, output, input+output)
	default:
		ts.Fatalf("model: unknown %q", args)
	}
}

// configure sets a key, TABLE.KEY, of a TOML file with one key per line. A value that is
// neither a number nor a bool becomes a string.
func configure(path, key, value string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	begin := 0
	if dot := strings.LastIndex(key, "."); dot >= 0 {
		table := "[" + key[:dot] + "]"
		key = key[dot+1:]
		if !slices.Contains(lines, table) {
			lines = append(lines, "", table)
		}
		begin = slices.Index(lines, table) + 1
	}
	if _, err := strconv.Atoi(value); err != nil && value != "true" && value != "false" {
		value = strconv.Quote(value)
	}
	end := begin
	for end < len(lines) && !strings.HasPrefix(lines[end], "[") {
		end++
	}
	rest := slices.DeleteFunc(
		slices.Clone(lines[begin:end]),
		func(line string) bool { return strings.HasPrefix(line, key+" =") },
	)
	lines = slices.Concat(lines[:begin], []string{key + " = " + value}, rest, lines[end:])
	return os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// formsMain is an MCP server on stdin and stdout with two tools. ask lets its client fill in a
// form (a colour) and returns the answer; codex passes the form on to its client. change is
// annotated as destructive, so that codex asks for approval first; it writes a file beside the
// workspace, because MCP servers run outside the sandbox.
func formsMain() {
	type object = map[string]any
	text := func(text string) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "forms", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{
		Name:        "ask",
		Description: "asks a person for a colour",
		InputSchema: object{"type": "object", "properties": object{}},
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		colour := object{"type": "string", "title": "Colour", "enum": []string{"red", "green"}}
		answer, err := r.Session.Elicit(ctx, &mcp.ElicitParams{
			Message: "Which colour shall it have?",
			RequestedSchema: object{
				"type":       "object",
				"required":   []string{"colour"},
				"properties": object{"colour": colour},
			},
		})
		if err != nil {
			return text("there is no form: " + err.Error())
		}
		return text("the form came back: " + string(test.Must(json.Marshal(answer))))
	})
	yes := true
	s.AddTool(&mcp.Tool{
		Name: "change", Description: "changes something", InputSchema: object{"type": "object"},
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &yes},
	}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if err := os.WriteFile(os.Getenv("FORMS_CHANGES"), []byte("x"), 0o600); err != nil {
			return text(err.Error())
		}
		return text("it is changed")
	})
	_ = s.Run(context.Background(), &mcp.StdioTransport{}) // until stdin is closed
}

// gitServeCmd serves the repositories in the script's directory for reading and pushing until
// the end of the script, with git's daemon at $GIT_REMOTE on the loopback interface: git-serve
//
// The test accepts the connections and starts one daemon for each, like inetd, so that the
// kernel chooses the port and the test can wait for every daemon. The client reports a failure
// of the daemon.
func gitServeCmd(ts *testscript.TestScript, neg bool, args []string) {
	listener := test.Must(net.Listen("tcp", "127.0.0.1:0"))
	ctx, cancel := context.WithCancel(context.Background())
	dir := ts.MkAbs(".")
	env := scriptEnv(ts)
	var daemons sync.WaitGroup
	daemons.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the listener is closed at the end of the script
			}
			file := test.Must(conn.(*net.TCPConn).File())
			conn.Close()
			daemons.Go(func() {
				defer file.Close()
				cmd := exec.CommandContext(
					ctx,
					"git",
					"daemon",
					"--inetd",
					"--export-all",
					"--enable=receive-pack",
					"--base-path="+dir,
					dir,
				)
				cmd.Dir = dir
				cmd.Env = env
				cmd.Stdin = file
				cmd.Stdout = file
				_ = cmd.Run()
			})
		}
	})
	setVar(ts, "GIT_REMOTE", "git://"+listener.Addr().String())
	ts.Defer(func() {
		listener.Close()
		cancel() // ends the daemons that still have a connection
		daemons.Wait()
	})
}

// triesCmd writes try.sh, which an agent runs with a list of commands and expected results.
// The script compares the output with the list: tries
func triesCmd(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs("try.sh"), []byte(made("try.sh")), 0o600))
}

// warmGoCmd sets $WARM to a build cache of go that contains the standard packages that a test
// needs: warm-go
func warmGoCmd(ts *testscript.TestScript, neg bool, args []string) {
	dir, err := warmGo()
	ts.Check(err)
	setVar(ts, "WARM", dir)
}

// warmGo fills the cache, which is kept between test runs.
var warmGo = sync.OnceValues(func() (string, error) {
	module := test.Must(os.MkdirTemp("", "symphony-warm-"))
	defer os.RemoveAll(module)
	for name, text := range map[string]string{
		"go.mod":       "module example.org/warm\n\ngo 1.21\n",
		"main.go":      "package main\n\nfunc main() { println() }\n",
		"main_test.go": "package main\n\nimport \"testing\"\n\nfunc Test(*testing.T) { main() }\n",
	} {
		test.OK(mainT{}, os.WriteFile(filepath.Join(module, name), []byte(text), 0o600))
	}
	dir := filepath.Join(test.Must(os.UserCacheDir()), "symphony-tests", "go-build")
	cmd := exec.Command("go", "test", ".")
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "GOCACHE="+dir, "GOFLAGS=", "GOTOOLCHAIN=local", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", cmd, err, out)
	}
	return dir, nil
})

// registryCmd serves one package, dep 1.0.0, on the loopback interface until the script's end,
// as a registry for go ($REGISTRY/go), npm ($REGISTRY/npm/) and pip ($REGISTRY/pip/). It sets
// $TOOLS to a PATH with the tools of this machine, since agents have the PATH of their login
// shell. registry down stops serving: registry [down]
func registryCmd(ts *testscript.TestScript, neg bool, args []string) {
	set := stageOf(ts)
	if len(args) > 0 {
		set.registry.Close()
		return
	}
	mux := http.NewServeMux()
	set.registry = httptest.NewServer(mux)
	ts.Defer(set.registry.Close)
	serve := func(path, kind string, data []byte) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Cache-Control", "max-age=600") // otherwise pip caches nothing
			_, _ = w.Write(data)                           // the client may have gone
		})
	}
	serveGo(ts, serve)
	serveNpm(ts, serve, set.registry.URL)
	servePip(ts, serve)
	setVar(ts, "REGISTRY", set.registry.URL)
	setVar(ts, "TOOLS", strings.Join(toolDirs(), string(filepath.ListSeparator)))
}

// toolDirs returns the folders of the tools themselves, not of shims that need a home.
func toolDirs() (dirs []string) {
	for _, argv := range [][]string{
		{"go", "env", "GOROOT"},
		{"rustc", "--print", "sysroot"},
		{"python3", "-c", "import sys, os; print(os.path.dirname(os.path.dirname(os.path.realpath(sys.executable))))"},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).Output(); err == nil { // ends by itself
			dirs = append(dirs, filepath.Join(strings.TrimSpace(string(out)), "bin"))
		}
	}
	for _, tool := range []string{"node", "npm"} {
		if path, err := exec.LookPath(tool); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	return dirs
}

// serveFunc registers data that the server returns at a path.
type serveFunc func(path, kind string, data []byte)

func serveGo(ts *testscript.TestScript, serve serveFunc) {
	const at, module = "/go/example.org/dep/@v/", "module example.org/dep\n\ngo 1.21\n"
	serve(at+"list", "text/plain", []byte("v1.0.0\n"))
	serve(at+"v1.0.0.info", "application/json", []byte(`{"Version":"v1.0.0"}`))
	serve(at+"v1.0.0.mod", "text/plain", []byte(module))
	serve(
		at+"v1.0.0.zip",
		"application/zip",
		zipped(
			ts,
			"example.org/dep@v1.0.0/go.mod",
			module,
			"example.org/dep@v1.0.0/dep.go",
			"package dep\n\n// Word is dep.\nconst Word = \"dep\"\n",
		),
	)
}

func serveNpm(ts *testscript.TestScript, serve serveFunc, url string) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	archive := tar.NewWriter(z)
	for name, text := range map[string]string{
		"package/package.json": `{"name":"dep","version":"1.0.0","main":"dep.js"}`,
		"package/dep.js":       `module.exports = "dep"`,
	} {
		ts.Check(archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}))
		_, err := archive.Write([]byte(text))
		ts.Check(err)
	}
	ts.Check(archive.Close())
	ts.Check(z.Close())
	sum := sha512.Sum512(packed.Bytes())
	document := test.Must(json.Marshal(map[string]any{
		"name": "dep", "dist-tags": map[string]string{"latest": "1.0.0"},
		"versions": map[string]any{"1.0.0": map[string]any{
			"name": "dep", "version": "1.0.0",
			"dist": map[string]string{
				"tarball":   url + "/npm/-/dep-1.0.0.tgz",
				"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
			},
		}},
	}))
	serve("/npm/dep", "application/json", document)
	serve("/npm/-/dep-1.0.0.tgz", "application/octet-stream", packed.Bytes())
}

func servePip(ts *testscript.TestScript, serve serveFunc) {
	const wheel, info = "dep-1.0.0-py3-none-any.whl", "dep-1.0.0.dist-info/"
	serve("/pip/dep/", "text/html", []byte(`<a href="`+wheel+`">`+wheel+`</a>`))
	serve("/pip/dep/"+wheel, "application/zip", zipped(ts,
		"dep.py", "word = 'dep'\n",
		info+"METADATA", "Metadata-Version: 2.1\nName: dep\nVersion: 1.0.0\n",
		info+"WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info+"RECORD", "dep.py,,\n"+info+"METADATA,,\n"+info+"WHEEL,,\n"+info+"RECORD,,\n",
	))
}

// zipped packs files: name, text, name, text…
func zipped(ts *testscript.TestScript, files ...string) []byte {
	var packed bytes.Buffer
	archive := zip.NewWriter(&packed)
	for pair := range slices.Chunk(files, 2) {
		w, err := archive.Create(pair[0])
		ts.Check(err)
		_, err = w.Write([]byte(pair[1]))
		ts.Check(err)
	}
	ts.Check(archive.Close())
	return packed.Bytes()
}
