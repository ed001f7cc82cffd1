package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// formsMain is an MCP server on stdin and stdout with two tools. ask has its client fill in a form (a colour), and
// answers with what came back; codex shows such a form to whoever drives it. change says of itself that it destroys:
// codex asks for approval first. It writes a file beside the workspace, for nothing holds an MCP server in the sandbox.
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
