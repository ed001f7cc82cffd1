package acptest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/runner/agent/script"
)

// turn is a running turn.
type turn struct {
	agent   *scripted
	session *session
	ctx     context.Context
	said    bool
	// tokens of the turn
	input, output int
}

// play runs the steps. A turn without a message ends with "done".
func (t *turn) play(steps []script.Step) error {
	for i := range steps {
		if err := t.step(&steps[i]); err != nil {
			return err
		}
		if err := t.ctx.Err(); err != nil {
			return err
		}
	}
	if !t.said {
		t.say("done")
	}
	return nil
}

func (t *turn) step(s *script.Step) error {
	a := t.agent
	switch s.Verb {
	case "sh":
		return t.command(t.call("execute", s.Text, object{"command": s.Text}), s.Text)
	case "background":
		c := t.spawn(s.Text)
		return c.Start()
	case "say":
		t.say(s.Text)
	case "think":
		t.update("agent_thought_chunk", object{"content": object{"type": "text", "text": s.Text}})
	case "stream":
		for _, word := range script.Numbers(s.N) {
			t.say(word)
			if err := t.sleep(s.Wait); err != nil {
				return err
			}
		}
	case "patch":
		return t.patch(t.call("edit", s.Name, object{"file": s.Name}), s.Name, s.Text)
	case "tokens":
		t.input = s.N
		t.output = s.M
	case "sleep":
		return t.sleep(s.Wait)
	case "tool":
		return t.tool(s.Name, s.JSON)
	case "ask-command":
		id := t.call("execute", s.Text, object{"command": s.Text})
		return t.ask(id, "execute", s.Text, object{"command": s.Text}, func() error { return t.command(id, s.Text) })
	case "ask-file":
		id := t.call("edit", s.Text, object{"file": s.Text})
		return t.ask(id, "edit", s.Text, object{"file": s.Text}, func() error { return t.patch(id, s.Text, "asked for") })
	case "request":
		answer, err := t.request(s.Name, object{})
		if err != nil {
			return err
		}
		t.say("answered: " + string(answer.Result) + string(answer.Error))
	case "fail":
		return failure(s)
	case "cancel":
		return context.Canceled
	case "crash":
		a.exit(1)
		return errCrashed
	case "hang":
		<-t.ctx.Done()
	case "deaf":
		a.deaf.Store(true)
		signal.Ignore(syscall.SIGTERM)
	case "garbage":
		a.write(s.Text)
	case "long":
		id := t.call("execute", "cat large", object{"command": "cat large"})
		t.end(id, "completed", strings.Repeat("x", s.N), nil)
	default:
		return fmt.Errorf("line %d: the scripted agent can't do %q", s.Line, s.Verb)
	}
	return nil
}

// failure returns the error of a step: fail rate_limit TEXT, or fail -32000 TEXT.
func failure(s *script.Step) error {
	if code, err := strconv.Atoi(s.Name); err == nil {
		return &refusal{code: code, text: s.Text}
	}
	return &refusal{
		code: -32603,
		text: "Internal error: " + cmp.Or(s.Text, s.Name),
		data: object{"errorKind": s.Name},
	}
}

// update sends a session/update.
func (t *turn) update(kind string, members object) {
	members["sessionUpdate"] = kind
	t.agent.send(object{
		"method": "session/update",
		"params": object{"sessionId": t.session.ID, "update": members},
	})
}

func (t *turn) say(text string) {
	t.said = true
	t.update("agent_message_chunk", object{
		"messageId": fmt.Sprintf("m%d", t.agent.items.Add(1)),
		"content":   object{"type": "text", "text": text},
	})
}

// call announces a call of a tool and returns its id.
func (t *turn) call(kind, title string, input object) string {
	id := fmt.Sprintf("call%d", t.agent.items.Add(1))
	t.update("tool_call", object{
		"toolCallId": id,
		"kind":       kind,
		"title":      title,
		"status":     "in_progress",
		"rawInput":   input,
	})
	return id
}

func (t *turn) end(id, status, output string, exit *int) {
	raw := object{"output": output}
	if exit != nil {
		raw["metadata"] = object{"exit": *exit}
	}
	t.update("tool_call_update", object{"toolCallId": id, "status": status, "rawOutput": raw})
}

func (t *turn) spawn(line string) *exec.Cmd {
	c := exec.CommandContext(t.ctx, "/bin/bash", "-c", line)
	c.Dir = t.session.Cwd
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.WaitDelay = 200 * time.Millisecond // a process that it started may keep the pipe open
	return c
}

// command runs a command and ends its call.
func (t *turn) command(id, line string) error {
	c := t.spawn(line)
	output, err := c.CombinedOutput()
	if c.ProcessState == nil {
		t.end(id, "failed", err.Error(), nil)
		return nil
	}
	code := c.ProcessState.ExitCode()
	status := "completed"
	if code != 0 {
		status = "failed"
	}
	t.end(id, status, strings.ToValidUTF8(string(output), "�"), &code)
	return nil
}

// patch writes a file and ends its call.
func (t *turn) patch(id, name, text string) error {
	path := filepath.Join(t.session.Cwd, name)
	before, _ := os.ReadFile(path) // a new file
	status := "completed"
	if err := os.WriteFile(path, []byte(text+"\n"), 0o666); err != nil {
		status = "failed"
	}
	t.update("tool_call_update", object{
		"toolCallId": id,
		"status":     status,
		"content": []object{{
			"type":    "diff",
			"path":    path,
			"oldText": string(before),
			"newText": text + "\n",
		}},
	})
	return nil
}

// request sends a request to the client and waits for the answer.
func (t *turn) request(method string, params object) (message, error) {
	id := t.agent.requests.Add(1) - 1
	answered := make(chan message, 1)
	t.agent.pending.Store(strconv.FormatInt(id, 10), answered)
	params["sessionId"] = t.session.ID
	t.agent.send(object{"id": id, "method": method, "params": params})
	select {
	case m := <-answered:
		return m, nil
	case <-t.ctx.Done():
		return message{}, t.ctx.Err()
	}
}

// ask asks for permission and does the work if it is allowed.
func (t *turn) ask(id, kind, title string, input object, do func() error) error {
	answer, err := t.request("session/request_permission", object{
		"toolCall": object{
			"toolCallId": id,
			"kind":       kind,
			"title":      title,
			"status":     "pending",
			"rawInput":   input,
		},
		"options": []object{
			{"optionId": "always", "name": "Always", "kind": "allow_always"},
			{"optionId": "no", "name": "No", "kind": "reject_once"},
			{"optionId": "yes", "name": "Yes", "kind": "allow_once"},
		},
	})
	if err != nil {
		return err
	}
	var outcome struct {
		Outcome struct{ OptionID string }
	}
	_ = json.Unmarshal(answer.Result, &outcome) // an error counts as a refusal
	if outcome.Outcome.OptionID != "yes" {
		t.end(id, "failed", "not permitted", nil)
		return nil
	}
	return do()
}

// tool calls a tool of the client's MCP server.
func (t *turn) tool(name string, args json.RawMessage) error {
	if t.session.tools == nil {
		t.say("no tool " + name)
		return nil
	}
	if args == nil {
		args = json.RawMessage("{}")
	}
	id := fmt.Sprintf("call%d", t.agent.items.Add(1))
	t.update("tool_call", object{
		"toolCallId": id,
		"name":       "mcp__symphony__" + name,
		"kind":       "other",
		"title":      name,
		"status":     "in_progress",
		"rawInput":   args,
	})
	result, err := t.session.tools.CallTool(t.ctx, &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.end(id, "failed", err.Error(), nil)
		return nil
	}
	said := ""
	for _, content := range result.Content {
		if one, is := content.(*mcp.TextContent); is {
			said += one.Text
		}
	}
	status := "completed"
	if result.IsError {
		status = "failed"
	}
	t.end(id, status, said, nil)
	return nil
}
