package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/runner/codex/modeltest"
)

// modelCmd inspects the requests to the mock model behind the real codex, and its answers:
//
//	model requests N     waits until N requests have been made in all
//	model threads N      they belong to N threads
//	model prompts        prints the prompts of the last request's thread, oldest first, each under a line "# prompt N"
//	model outputs        prints the answers of tools, as the model received them, each under a line "# output"
//	model tools          prints the names of the tools that the last request offered
//	model tokens         prints the tokens of all responses, INPUT OUTPUT TOTAL, as the database shows them
//	model config [TABLE.]KEY VALUE   sets a key in the config.toml of the script's codex home
func modelCmd(ts *testscript.TestScript, neg bool, args []string) {
	m := stageOf(ts).model
	if m == nil {
		ts.Fatalf("there is no model without the real codex")
	}
	requests := m.Requests()
	last := modeltest.Request{}
	if len(requests) > 0 {
		last = requests[len(requests)-1]
	}
	switch verb, rest := args[0], args[1:]; {
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
	case verb == "outputs" && len(rest) == 0:
		for _, r := range requests {
			if n := len(r.Outputs); n > 0 {
				fmt.Fprintf(ts.Stdout(), "# output\n%s\n", r.Outputs[n-1])
			}
		}
	case verb == "tools" && len(rest) == 0:
		fmt.Fprintln(ts.Stdout(), strings.Join(last.Tools, "\n"))
	case verb == "config" && len(rest) == 2:
		ts.Check(configure(filepath.Join(ts.Getenv("CODEX_HOME"), "config.toml"), rest[0], rest[1]))
	case verb == "tokens" && len(rest) == 0:
		input, output := m.Tokens()
		fmt.Fprintf(ts.Stdout(), "%d\t%d\t%d\n", input, output, input+output)
	default:
		ts.Fatalf("model: unknown %q", args)
	}
}

// configure sets a key, TABLE.KEY, of a TOML file in which each key has a line of its own. A value that is neither a number
// nor a bool becomes a string.
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
	rest := slices.DeleteFunc(slices.Clone(lines[begin:end]), func(line string) bool { return strings.HasPrefix(line, key+" =") })
	lines = slices.Concat(lines[:begin], []string{key + " = " + value}, rest, lines[end:])
	return os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// formsMain is an MCP server on stdin and stdout with two tools. ask lets its client fill in a form (a colour) and returns
// the answer; codex passes the form on to its client. change is annotated as destructive, so that codex asks for approval
// first; it writes a file beside the workspace, because MCP servers run outside of the sandbox.
func formsMain() {
	s := &forms{in: bufio.NewReader(os.Stdin), out: json.NewEncoder(os.Stdout)}
	for {
		m, err := s.read()
		if err == io.EOF {
			return
		}
		if err == nil {
			err = s.serve(m)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "forms:", err)
			os.Exit(1)
		}
	}
}

type forms struct {
	in   *bufio.Reader
	out  *json.Encoder
	call json.RawMessage // the id of the call of ask that waits for the form
}

type rpcMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Params struct {
		ProtocolVersion string `json:"protocolVersion"`
		Name            string `json:"name"`
	} `json:"params"`
}

func (s *forms) read() (rpcMessage, error) {
	var m rpcMessage
	line, err := s.in.ReadBytes('\n')
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(line, &m)
}

const formID = "form-1"

func (s *forms) serve(m rpcMessage) error {
	type object = map[string]any
	answer := func(id json.RawMessage, result object) error {
		return s.out.Encode(object{"jsonrpc": "2.0", "id": id, "result": result})
	}
	switch m.Method {
	case "initialize":
		return answer(m.ID, object{
			"protocolVersion": m.Params.ProtocolVersion, "capabilities": object{"tools": object{}},
			"serverInfo": object{"name": "forms", "version": "1"},
		})
	case "tools/list":
		return answer(m.ID, object{"tools": []object{{
			"name": "ask", "description": "asks a person for a colour", "inputSchema": object{"type": "object", "properties": object{}},
			"annotations": object{"readOnlyHint": true},
		}, {
			"name": "change", "description": "changes something", "inputSchema": object{"type": "object"},
			"annotations": object{"readOnlyHint": false, "destructiveHint": true, "openWorldHint": true},
		}}})
	case "tools/call":
		if m.Params.Name == "change" {
			text := "it is changed"
			if err := os.WriteFile(os.Getenv("FORMS_CHANGES"), []byte("x"), 0o600); err != nil {
				text = err.Error()
			}
			return answer(m.ID, object{"content": []object{{"type": "text", "text": text}}})
		}
		s.call = m.ID
		return s.out.Encode(object{"jsonrpc": "2.0", "id": formID, "method": "elicitation/create", "params": object{
			"message": "Which colour shall it have?",
			"requestedSchema": object{
				"type": "object", "required": []string{"colour"},
				"properties": object{"colour": object{"type": "string", "title": "Colour", "enum": []string{"red", "green"}}},
			},
		}})
	case "":
		if string(m.ID) == `"`+formID+`"` {
			return answer(s.call, object{"content": []object{{"type": "text", "text": "the form came back: " + string(m.Result)}}})
		}
	default:
		if len(m.ID) > 0 { // a request; notifications need no answer
			return s.out.Encode(object{"jsonrpc": "2.0", "id": m.ID, "error": object{"code": -32601, "message": "no " + m.Method}})
		}
	}
	return nil
}
