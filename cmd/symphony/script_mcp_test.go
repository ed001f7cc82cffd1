package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/symphony-cron/symphony/internal/test"
)

// mcpCmd is a host of symphony mcp. A script may have several hosts: those after the first are named by @NAME before the verb. Every line
// that the server prints must be a message of JSON-RPC.
//
//	mcp start [--new] [FLAG...]  starts a server, with the protocol of 2025-06-18, or with --new that of 2026-07-28
//	mcp call TOOL [JSON]         calls a tool; stdout is its structured result, indented. ! mcp call: the call must fail
//	mcp until PATTERN TOOL JSON  repeats a call until its result matches, which is then stdout
//	mcp send LINE                sends a line as it is
//	mcp expect PATTERN           waits for a message that no call has awaited, and prints it
//	mcp close                    closes stdin, and waits until the server has ended without an error
//	mcp signal TERM|KILL         signals the server and waits for its end
//
// The log of the server is in $WORK/mcp.log, or mcp-NAME.log. The agent is the scripted one unless $CODEX_BIN is set.
func mcpCmd(ts *testscript.TestScript, neg bool, args []string) {
	s, name := stageOf(ts), ""
	if after, named := strings.CutPrefix(args[0], "@"); named {
		name, args = "-"+after, args[1:]
	}
	if len(args) == 0 {
		ts.Fatalf("mcp: the verb is missing")
	}
	verb, rest := args[0], args[1:]
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
		fmt.Fprintln(ts.Stdout(), h.call(neg, rest[0], strings.Join(rest[1:], "")))
	case verb == "until" && len(rest) == 3:
		pattern, err := regexp.Compile(rest[0])
		ts.Check(err)
		result := ""
		waitFor(ts, "the tool "+rest[1], func() (bool, string) {
			result = h.call(neg, rest[1], rest[2])
			return pattern.MatchString(result), result
		})
		fmt.Fprintln(ts.Stdout(), result)
	case verb == "send" && len(rest) == 1:
		h.send(rest[0])
	case verb == "expect" && len(rest) == 1:
		pattern, err := regexp.Compile(rest[0])
		ts.Check(err)
		fmt.Fprintf(ts.Stdout(), "%s\n", h.await(rest[0], func(line []byte) bool { return pattern.Match(line) }))
	case verb == "close" && len(rest) == 0:
		ts.Check(h.in.Close())
		ts.Check(h.wait())
	case verb == "signal" && len(rest) == 1:
		ts.Check(h.cmd.Process.Signal(map[string]os.Signal{"TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL}[rest[0]]))
		if err := h.wait(); err != nil && rest[0] != "KILL" {
			ts.Fatalf("mcp: %v", err)
		}
	default:
		ts.Fatalf("mcp: unknown %q", args)
	}
}

// mcpHost is a host of one server.
type mcpHost struct {
	ts     *testscript.TestScript
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan []byte // closed at the end of stdout
	late   [][]byte    // messages that no call has awaited
	modern bool
	calls  int
}

func startMCP(ts *testscript.TestScript, name string, args []string) *mcpHost {
	program, err := inPath(ts.Getenv("PATH"), "symphony")
	ts.Check(err)
	h := &mcpHost{ts: ts, lines: make(chan []byte, 10_000)}
	if len(args) > 0 && args[0] == "--new" {
		h.modern, args = true, args[1:]
	}
	h.cmd = exec.Command(program, append([]string{"mcp"}, args...)...)
	h.cmd.Dir, h.cmd.Env = ts.MkAbs("."), append(scriptEnv(ts), "CODEX_BIN="+codexBin(ts))
	log, err := os.OpenFile(filepath.Join(ts.Getenv("WORK"), "mcp"+name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ts.Check(err)
	h.cmd.Stderr = log
	h.in, err = h.cmd.StdinPipe()
	ts.Check(err)
	out, err := h.cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(h.cmd.Start())
	ts.Check(log.Close())
	ts.Defer(func() { _, _ = h.in.Close(), h.wait() })
	go func() {
		defer close(h.lines)
		read := bufio.NewReader(out)
		for {
			line, err := read.ReadBytes('\n')
			if err != nil {
				return
			}
			h.lines <- line
		}
	}()
	if h.modern {
		h.request("server/discover", map[string]any{})
	} else {
		h.request("initialize", map[string]any{
			"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "script", "version": "1"},
		})
		h.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return h
}

// codexBin is the program of codex: that of the script's $CODEX_BIN, otherwise the scripted one.
func codexBin(ts *testscript.TestScript) string {
	if path := ts.Getenv("CODEX_BIN"); path != "" {
		return path
	}
	program, _, _ := strings.Cut(ts.Getenv("AGENT"), " ")
	return program
}

func (h *mcpHost) send(line string) {
	_, err := io.WriteString(h.in, line+"\n")
	h.ts.Check(err)
}

// request sends a request and returns its result, or its error.
func (h *mcpHost) request(method string, params map[string]any) json.RawMessage {
	h.calls++
	if h.modern {
		params["_meta"] = map[string]any{
			"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": map[string]any{},
			"io.modelcontextprotocol/clientInfo": map[string]any{"name": "script", "version": "1"},
		}
	}
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": h.calls, "method": method, "params": params})
	h.ts.Check(err)
	h.send(string(line))
	var answer struct{ Result, Error json.RawMessage }
	answered := h.await("the answer to "+method, func(line []byte) bool {
		var m struct {
			ID     *int
			Method string
		}
		return json.Unmarshal(line, &m) == nil && m.ID != nil && *m.ID == h.calls && m.Method == ""
	})
	h.ts.Check(json.Unmarshal(answered, &answer))
	if answer.Error != nil {
		h.ts.Fatalf("mcp: %s: %s", method, answer.Error)
	}
	return answer.Result
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
			var m struct{ JSONRPC string }
			switch {
			case !open:
				h.ts.Fatalf("mcp: the server has ended before %s", what)
			case json.Unmarshal(line, &m) != nil || m.JSONRPC != "2.0":
				h.ts.Fatalf("mcp: the server has printed what is no message: %s", line)
			case wanted(line):
				return line
			}
			h.late = append(h.late, line)
		case <-end:
			h.ts.Fatalf("mcp: waited %s for %s", test.Patience(), what)
		}
	}
}

// call calls a tool, and returns its structured result, indented.
func (h *mcpHost) call(fails bool, tool, arguments string) string {
	params := map[string]any{"name": tool}
	if arguments != "" {
		params["arguments"] = json.RawMessage(arguments)
	}
	var result struct {
		IsError           bool
		Content           []struct{ Text string }
		StructuredContent any
	}
	h.ts.Check(json.Unmarshal(h.request("tools/call", params), &result))
	text, err := json.MarshalIndent(result.StructuredContent, "", "  ")
	h.ts.Check(err)
	if result.IsError != fails {
		h.ts.Fatalf("mcp: %s: isError is %v: %v", tool, result.IsError, result.Content)
	}
	return string(text)
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
	out, err := takeStdout()
	if err != nil {
		panic(err)
	}
	fmt.Println("printed by fmt")
	child := exec.Command("echo", "printed by a child")
	child.Stdout = os.Stdout
	_, writeErr := syscall.Write(1, []byte("printed to descriptor 1\n"))
	_, printErr := fmt.Fprintln(out, "message")
	if err := errors.Join(child.Run(), writeErr, printErr); err != nil {
		panic(err)
	}
}
