package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/symphony-cron/symphony/internal/test"
)

// mcpCmd is a host of symphony mcp. A script may have several hosts: those after the first are
// named by @NAME before the verb. Every line that the server prints must be a message of
// JSON-RPC.
//
//	mcp start [--new] [FLAG...]  starts a server, with the protocol of 2025-06-18, or with --new that of 2026-07-28
//	mcp call TOOL [JSON]         calls a tool; stdout is its structured result, indented. ! mcp call: the call must fail
//	mcp until PATTERN TOOL JSON  repeats a call until its result matches, which is then stdout
//	mcp send LINE                sends a line as it is
//	mcp expect PATTERN           waits for a message that no call has awaited, and prints it
//	mcp close                    closes stdin, and waits until the server has ended without an error
//	mcp signal TERM|KILL         signals the server and waits for its end
//
// The log of the server is in $WORK/mcp.log, or mcp-NAME.log. The agent is the scripted one
// unless $CODEX_BIN is set.
func mcpCmd(ts *testscript.TestScript, neg bool, args []string) {
	s := stageOf(ts)
	name := ""
	if after, named := strings.CutPrefix(args[0], "@"); named {
		name = "-" + after
		args = args[1:]
	}
	if len(args) == 0 {
		ts.Fatalf("mcp: the verb is missing")
	}
	verb := args[0]
	rest := args[1:]
	if verb == "start" {
		if s.hosts == nil {
			s.hosts = map[string]*mcpHost{}
		}
		s.hosts[name] = startMCP(ts, name, rest)
		return
	}
	h := s.hosts[name]
	if h == nil {
		ts.Fatalf("mcp: there is no server; start it")
	}
	switch {
	case verb == "call" && (len(rest) == 1 || len(rest) == 2):
		fmt.Fprintln(ts.Stdout(), h.result(neg, rest[0], strings.Join(rest[1:], "")))
	case verb == "until" && len(rest) == 3:
		pattern, err := regexp.Compile(rest[0])
		ts.Check(err)
		result := ""
		waitFor(ts, "the tool "+rest[1], func() (bool, string) {
			result = h.result(neg, rest[1], rest[2])
			return pattern.MatchString(result), result
		})
		fmt.Fprintln(ts.Stdout(), result)
	case verb == "send" && len(rest) == 1:
		h.send(rest[0])
	case verb == "expect" && len(rest) == 1:
		pattern, err := regexp.Compile(rest[0])
		ts.Check(err)
		fmt.Fprintf(ts.Stdout(), "%s\n", h.await(rest[0], pattern.Match))
	case verb == "close" && len(rest) == 0:
		ts.Check(errors.Join(h.in.Close(), h.wait()))
	case verb == "signal" && len(rest) == 1:
		ts.Check(h.cmd.Process.Signal(map[string]os.Signal{
			"TERM": syscall.SIGTERM,
			"KILL": syscall.SIGKILL,
		}[rest[0]]))
		if err := h.wait(); err != nil && rest[0] != "KILL" {
			ts.Fatalf("mcp: %v", err)
		}
	default:
		ts.Fatalf("mcp: unknown %q", args)
	}
}

// mcpHost is a host of one server.
type mcpHost struct {
	on interface {
		Fatalf(format string, args ...any)
	} // the test
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     io.Reader
	reading sync.Mutex     // held by a test in which the host does not read
	lines   chan []byte    // closed at the end of stdout
	late    [][]byte       // messages that no call has awaited
	meta    map[string]any // of its calls
	calls   int
	dies    bool // the server may end at any time
	ended   bool // the server has ended
}

type hostMessage struct {
	ID                    json.RawMessage
	JSONRPC, Method       string
	Params, Result, Error json.RawMessage
}

// toolResult is the result of a call of a tool.
type toolResult struct {
	IsError           bool
	Content           []struct{ Text string }
	StructuredContent json.RawMessage
}

func startMCP(ts *testscript.TestScript, name string, args []string) *mcpHost {
	program, err := inPath(ts.Getenv("PATH"), "symphony")
	ts.Check(err)
	modern := len(args) > 0 && args[0] == "--new"
	if modern {
		args = args[1:]
	}
	h := &mcpHost{on: ts, cmd: exec.Command(program, append([]string{"mcp"}, args...)...)}
	h.cmd.Dir = ts.MkAbs(".")
	h.cmd.Env = append(scriptEnv(ts), "CODEX_BIN="+codexBin(ts))
	log, err := os.OpenFile(
		filepath.Join(ts.Getenv("WORK"), "mcp"+name+".log"),
		os.O_CREATE|os.O_APPEND|os.O_WRONLY,
		0o600,
	)
	ts.Check(err)
	defer log.Close()
	h.cmd.Stderr = log
	h.start(modern, "{}")
	ts.Defer(func() {
		_ = h.in.Close()
		_ = h.wait()
	})
	return h
}

// start starts the server for a host with these capabilities: with the protocol of 2025-06-18,
// or with modern that of 2026-07-28, whose calls say what the host can do.
func (h *mcpHost) start(modern bool, capabilities string) {
	h.lines = make(chan []byte, 10_000)
	h.in = test.Must(h.cmd.StdinPipe())
	h.out = test.Must(h.cmd.StdoutPipe())
	h.check(h.cmd.Start())
	go func() {
		defer close(h.lines)
		for out := bufio.NewReader(h.out); ; {
			h.reading.Lock()
			h.reading.Unlock() //nolint:staticcheck // it waits
			line, err := out.ReadBytes('\n')
			if err != nil {
				return
			}
			h.lines <- line
		}
	}()
	can := json.RawMessage(capabilities)
	client := map[string]string{"name": "test", "version": "1"}
	if modern {
		const prefix = "io.modelcontextprotocol/"
		all := map[string]any{
			prefix + "protocolVersion":    "2026-07-28",
			prefix + "clientCapabilities": can,
			prefix + "clientInfo":         client,
		}
		maps.Copy(all, h.meta)
		h.meta = all
		h.request("server/discover", map[string]any{})
		return
	}
	h.request("initialize", map[string]any{
		"protocolVersion": "2025-06-18",
		"capabilities":    can,
		"clientInfo":      client,
	})
	h.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func (h *mcpHost) check(err error) {
	if err != nil {
		h.on.Fatalf("mcp: %v", err)
	}
}

// codexBin is the program of codex: that of the script's $CODEX_BIN, otherwise the scripted
// one.
func codexBin(ts *testscript.TestScript) string {
	if path := ts.Getenv("CODEX_BIN"); path != "" {
		return path
	}
	program, _, _ := strings.Cut(ts.Getenv("AGENT"), " ")
	return program
}

func (h *mcpHost) send(line string) {
	// the next answer shows whether it has died
	if _, err := io.WriteString(h.in, line+"\n"); !h.dies {
		h.check(err)
	}
}

// ask sends a request, whose answer comes later.
func (h *mcpHost) ask(method string, params map[string]any) {
	h.calls++
	if h.meta != nil {
		params["_meta"] = h.meta
	}
	h.send(string(test.Must(json.Marshal(map[string]any{
		"jsonrpc": "2.0",
		"id":      h.calls,
		"method":  method,
		"params":  params,
	}))))
}

// answer waits for the answer to the last request.
func (h *mcpHost) answer() (m hostMessage) {
	h.await("an answer", func(line []byte) bool {
		m = hostMessage{}
		return json.Unmarshal(line, &m) == nil && string(m.ID) == strconv.Itoa(h.calls) && m.Method == ""
	})
	return m
}

// request sends a request, which must not fail.
func (h *mcpHost) request(method string, params map[string]any) hostMessage {
	h.ask(method, params)
	m := h.answer()
	if m.Error != nil {
		h.on.Fatalf("mcp: %s: %s", method, m.Error)
	}
	return m
}

// tool calls a tool with arguments, which may be empty.
func (h *mcpHost) tool(name, arguments string) (r toolResult) {
	params := map[string]any{"name": name}
	if arguments != "" {
		params["arguments"] = json.RawMessage(arguments)
	}
	if m := h.request("tools/call", params); !h.ended {
		h.check(json.Unmarshal(m.Result, &r))
	}
	return r
}

// await returns the first message that is wanted, and keeps the others.
func (h *mcpHost) await(what string, wanted func(line []byte) bool) []byte {
	for i, line := range h.late {
		if wanted(line) {
			h.late = append(h.late[:i:i], h.late[i+1:]...)
			return line
		}
	}
	for end := time.After(test.Patience()); ; {
		select {
		case line, open := <-h.lines:
			var m hostMessage
			switch {
			case !open && h.dies:
				h.ended = true
				return nil
			case !open:
				h.on.Fatalf("mcp: the server has ended before %s", what)
			case json.Unmarshal(line, &m) != nil || m.JSONRPC != "2.0":
				h.on.Fatalf("mcp: the server has printed what is no message: %s", line)
			case wanted(line):
				return line
			}
			h.late = append(h.late, line)
		case <-end:
			h.on.Fatalf("mcp: waited %s for %s", test.Patience(), what)
		}
	}
}

// result calls a tool, and returns its structured result, indented.
func (h *mcpHost) result(fails bool, tool, arguments string) string {
	r := h.tool(tool, arguments)
	if r.IsError != fails {
		h.on.Fatalf("mcp: %s: isError is %v: %v", tool, r.IsError, r.Content)
	}
	var content any
	h.check(json.Unmarshal(r.StructuredContent, &content))
	return string(test.Must(json.MarshalIndent(content, "", "  ")))
}

// wait waits for the end of the server.
func (h *mcpHost) wait() error {
	for line := range h.lines {
		h.late = append(h.late, line)
	}
	if h.cmd.ProcessState != nil {
		return nil
	}
	return h.cmd.Wait()
}

// mcpPrintsMain prints as code of symphony mcp might do, and then a message.
func mcpPrintsMain() {
	out := test.Must(takeStdout())
	fmt.Println("printed by fmt")
	child := exec.Command("echo", "printed by a child")
	child.Stdout = os.Stdout
	_, writeErr := syscall.Write(1, []byte("printed to descriptor 1\n"))
	_, printErr := fmt.Fprintln(out, "message")
	if err := errors.Join(child.Run(), writeErr, printErr); err != nil {
		panic(err)
	}
}
