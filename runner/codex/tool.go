package codex

import (
	"encoding/json"
	"fmt"
)

// Tool is a dynamic tool offered to the model (10.5).
type Tool struct {
	Name        string // letters, digits, _ and -
	Description string
	InputSchema json.RawMessage // JSON Schema of the arguments
}

// ToolResult is what the model gets to read of a call.
type ToolResult struct {
	Text    string
	Success bool
}

type toolSpec struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

func toolSpecs(tools []Tool) []toolSpec {
	specs := make([]toolSpec, 0, len(tools))
	for _, t := range tools {
		schema := t.InputSchema
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		specs = append(specs, toolSpec{Type: "function", Name: t.Name, Description: t.Description, InputSchema: schema})
	}
	return specs
}

// toolAnswer is the only shape that codex takes; anything else is answered to
// the model as invalid. The first releases with dynamic tools had another.
func (s *Session) toolAnswer(r ToolResult) object {
	if s.olderThan(97) {
		return object{"output": r.Text, "success": r.Success}
	}
	return object{"contentItems": []object{{"type": "inputText", "text": r.Text}}, "success": r.Success}
}

// serveTool answers item/tool/call. The call itself runs beside the reader.
func (s *Session) serveTool(m *message, p *params, e Event) {
	if s.o.CallTool == nil || !s.offers(p.Tool) {
		e.Name = EventUnsupportedToolCall
		text := fmt.Sprintf(`{"success":false,"error":"unsupported_tool_call","tool":%q}`, p.Tool)
		s.reply(m, e, s.toolAnswer(ToolResult{Text: text}))
		return
	}
	r := s.openRequest(m, false)
	go func() {
		defer r.cancel()
		result := s.o.CallTool(r.ctx, p.Tool, p.Arguments)
		// Taken out before the answer: the clock must see either the open
		// request or the item that codex sends upon the answer.
		s.touch(true)
		anew := s.closeRequest(r) == closedAnew
		e.Name = EventToolCallCompleted
		if !result.Success {
			e.Name = EventToolCallFailed
		}
		if anew {
			// The answer would be that one's.
			e.Message = oneLine(e.Message+" (not answered: codex has asked anew)", messageLength)
			s.emit(e)
			return
		}
		s.reply(m, e, s.toolAnswer(result))
	}()
}

// offers says whether the tool is one of ours. A resumed thread may still have
// tools that this session does not offer.
func (s *Session) offers(name string) bool {
	for _, t := range s.o.Tools {
		if t.Name == name {
			return true
		}
	}
	return false
}
