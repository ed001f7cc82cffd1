package apitest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent/script"
)

// reply is what the model does with a request.
type reply struct {
	said    []said
	call    *toolCall // ends the response; nil at the end of a turn
	in, out int       // tokens

	hangs      bool
	status     int // of HTTP; 0 for no error
	message    string
	retryAfter time.Duration
}

// said is a text of the model, or a thought.
type said struct {
	text      string
	isThought bool
}

// toolCall is a call of one of the agent's tools.
type toolCall struct {
	name string
	args object
}

// decide returns the reply to a request.
func (s *Server) decide(r *script.Request) (*reply, error) {
	if len(r.Tools) == 0 {
		return &reply{said: []said{{text: "A title"}}, in: 10, out: 5}, nil
	}
	s.mu.Lock()
	s.requests = append(s.requests, *r)
	place := fmt.Sprint(r.Prompts, len(r.Outputs))
	s.tries[place]++
	try := s.tries[place]
	s.mu.Unlock()
	steps, err := script.Steps(append([]string{s.Script}, r.Prompts...), len(r.Prompts))
	if err != nil {
		return nil, err
	}
	return replyTo(next(steps, len(r.Outputs)), r, try)
}

// next returns the steps after a number of calls.
func next(steps []script.Step, answered int) []script.Step {
	for answered > 0 && len(steps) > 0 {
		if calls[steps[0].Verb] != nil {
			answered--
		}
		steps = steps[1:]
	}
	return steps
}

// replyTo returns the reply of steps: up to the first call, or to the end.
func replyTo(steps []script.Step, r *script.Request, try int) (*reply, error) {
	out := &reply{in: 1000, out: 50}
	for i := range steps {
		step := &steps[i]
		if call := calls[step.Verb]; call != nil {
			out.call = call(step, r.Tools)
			return out, nil
		}
		switch step.Verb {
		case "say":
			out.said = append(out.said, said{text: step.Text})
		case "think":
			out.said = append(out.said, said{text: step.Text, isThought: true})
		case "tokens":
			out.in = step.N
			out.out = step.M
		case "hang":
			out.hangs = true
			return out, nil
		case "fail":
			if err := out.fail(step.Name, step.Text, try); err != nil {
				return nil, fmt.Errorf("line %d: %w", step.Line, err)
			}
			if out.status != 0 {
				return out, nil
			}
		default:
			return nil, fmt.Errorf("a model can't do %q (line %d)", step.Verb, step.Line)
		}
	}
	if len(out.said) == 0 {
		out.said = []said{{text: "done"}}
	}
	return out, nil
}

// fail makes the reply an error: an HTTP status, with =DURATION for Retry-After, and with a
// slash and the number of requests that fail.
func (r *reply) fail(word, message string, try int) error {
	word, tries, limited := strings.Cut(word, "/")
	word, after, waits := strings.Cut(word, "=")
	if limited {
		n, err := strconv.Atoi(tries)
		if err != nil {
			return err
		}
		if try > n {
			return nil
		}
	}
	if waits {
		wait, err := time.ParseDuration(after)
		if err != nil {
			return err
		}
		r.retryAfter = wait
	}
	status, err := strconv.Atoi(word)
	if err != nil || http.StatusText(status) == "" && status != 529 {
		return fmt.Errorf("fail: %q is not an HTTP status", word)
	}
	r.status = status
	r.message = message
	return nil
}

// calls maps the directives that end a response to the calls of an agent's tools, whose names
// tell which agent it is: Bash is Claude's, bash is OpenCode's.
var calls = map[string]func(s *script.Step, tools []string) *toolCall{
	"sh": func(s *script.Step, tools []string) *toolCall {
		return &toolCall{
			name: firstOf(tools, "Bash", "bash", "run_shell_command"),
			args: object{"command": s.Text, "description": "a step of the script"},
		}
	},
	"patch": func(s *script.Step, tools []string) *toolCall {
		call := &toolCall{
			name: firstOf(tools, "Write", "write", "write_file"),
			args: object{"content": s.Text + "\n"},
		}
		path := "file_path"
		if call.name == "write" {
			path = "filePath"
		}
		call.args[path] = s.Name
		return call
	},
	"tool": func(s *script.Step, tools []string) *toolCall {
		call := &toolCall{name: s.Name, args: object{}}
		if s.JSON != nil {
			_ = json.Unmarshal(s.JSON, &call.args) // it is valid, and a tool refuses what is no object
		}
		for _, tool := range tools { // agents put the server of a tool in front of its name
			if strings.HasSuffix(tool, "_"+s.Name) {
				call.name = tool
			}
		}
		return call
	},
}

// firstOf returns the first of the names that the agent has, "" for none.
func firstOf(tools []string, names ...string) string {
	return text.First(names, func(name string) bool { return slices.Contains(tools, name) })
}
