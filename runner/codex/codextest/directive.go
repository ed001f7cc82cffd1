package codextest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/runner/agent/script"

	"github.com/google/uuid"
)

// step runs a directive.
func (u *turn) step(s *script.Step) error {
	switch s.Verb {
	case "sh", "background":
		wait := u.command(s.Text, u.started(commandItem(s.Text, u.t.Cwd), "call"))
		if s.Verb == "sh" {
			wait()
		}
	case "say":
		return u.say(0, strings.SplitAfter(s.Text, " ")...)
	case "think":
		u.completed(u.started(newItem("reasoning", object{"summary": []string{s.Text}}), "rs"))
	case "patch":
		u.patch(u.started(fileItem(filepath.Join(u.t.Cwd, s.Name), s.Text), "call"), s.Name, s.Text)
	case "tokens":
		u.count(int64(s.N), int64(s.M))
	case "ratelimits":
		u.s.notify("account/rateLimits/updated", object{"rateLimits": s.JSON})
	case "sleep":
		return u.sleep(s.Wait)
	case "took":
		u.took = s.Wait
	case "stream":
		return u.say(s.Wait, script.Numbers(s.N)...)
	case "subagent":
		u.subAgent(s.Text)
	case "late-response": // startTurn handles it
	case "fail":
		if s.Name == "contextWindowExceeded" {
			u.fillWindow()
		}
		return &end{status: "failed", info: errorInfo(s.Name), text: cmp.Or(s.Text, s.Name)}
	case "cancel":
		return &end{status: "interrupted"}
	case "crash":
		u.s.crashed <- struct{}{}
		return errCrashed
	case "hang", "silent": // they differ only in package modeltest
		<-u.ctx.Done()
	case "heed":
		select {
		case more := <-u.heard:
			return u.say(0, more)
		case <-u.ctx.Done():
		}
	case "deaf":
		u.s.deaf.Store(true)
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	case "garbage":
		u.s.write([]byte(s.Text + "\n"))
	case "long":
		item := u.started(commandItem("cat large", u.t.Cwd), "call")
		item["status"] = "completed"
		item["exitCode"] = 0
		item["durationMs"] = 0
		item["aggregatedOutput"] = strings.Repeat("x", s.N)
		u.completed(item)
	default:
		return u.askClient(s)
	}
	return u.interrupted()
}

// askClient makes the request of a step to the client, and waits for the answer.
func (u *turn) askClient(s *script.Step) error {
	switch s.Verb {
	case "ask-command":
		return u.askCommand(s.Text)
	case "ask-file":
		return u.askFile(s.Text)
	case "tool":
		return u.tool(s.Name, s.JSON)
	case "ask-user":
		question := shape("question", object{"question": s.Text})
		params := shape("questions", object{"questions": []object{question}})
		return u.ask("item/tool/requestUserInput", "waitingOnUserInput", params)
	case "ask-permissions":
		params := shape("permissions", object{"startedAtMs": now(), "cwd": u.t.Cwd})
		return u.ask("item/permissions/requestApproval", "waitingOnApproval", params)
	case "request":
		params := object{}
		if err := json.Unmarshal(s.JSON, &params); s.JSON != nil && err != nil {
			return fmt.Errorf("line %d: request wants an object: %w", s.Line, err)
		}
		return u.ask(s.Name, "", params)
	}
	return fmt.Errorf("line %d: only a model can do %q", s.Line, s.Verb)
}

// errorInfo returns codexErrorInfo: a word, or for KEY=STATUS an object with an HTTP status,
// which may be empty.
func errorInfo(text string) any {
	key, status, ok := strings.Cut(text, "=")
	if !ok {
		return text
	}
	return object{key: object{"httpStatusCode": json.RawMessage(cmp.Or(status, "null"))}}
}

// patch writes a file of the workspace and completes its item. As with codex, it fails for a
// path outside.
func (u *turn) patch(item object, name, text string) {
	item["status"] = "completed"
	if err := writeFile(u.t.Cwd, name, text); err != nil {
		item["status"] = "failed"
		u.s.log("codex_core::tools::router: error=" + err.Error())
	}
	u.completed(item)
}

func writeFile(dir, name, text string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it is only read
	if err := root.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	return root.WriteFile(name, []byte(text+"\n"), 0o666)
}

// subAgent sends the messages of a sub-agent that a client sees: a call, and a turn of another
// thread.
func (u *turn) subAgent(text string) {
	child := &turn{
		s:     u.s,
		t:     &thread{ID: uuid.NewString(), Cwd: u.t.Cwd},
		id:    uuid.NewString(),
		began: time.Now(),
		ctx:   u.ctx,
	}
	call := u.started(newItem("collabAgentToolCall", object{
		"senderThreadId": u.t.ID,
		"prompt":         text,
	}), "call")
	call["status"] = "completed"
	call["model"] = "scripted"
	call["receiverThreadIds"] = []string{child.t.ID}
	call["agentsStates"] = object{child.t.ID: object{"status": "pendingInit", "message": nil}}
	u.completed(call)
	child.start()
	err := child.say(0, text)
	child.count(1000, 50)
	child.finish(err)
}

// ask sends a request and repeats the answer as a message.
func (u *turn) ask(method, flag string, params object) error {
	var answer json.RawMessage
	refusal, err := u.request(method, flag, params, &answer)
	if err != nil {
		return err
	}
	if refusal != nil {
		return u.say(0, "refused: "+string(refusal))
	}
	return u.say(0, "answered: "+string(answer))
}

// approval asks for approval of an item and returns the decision. It sets the item's status
// for the case that it does not run.
func (u *turn) approval(method string, item, params object) (string, error) {
	var answer struct{ Decision string }
	params["itemId"] = item["id"]
	params["startedAtMs"] = item["startedAtMs"]
	_, err := u.request(method, "waitingOnApproval", params, &answer)
	item["status"] = "failed"
	if answer.Decision == "decline" || answer.Decision == "cancel" {
		item["status"] = "declined"
	}
	return answer.Decision, err
}

func (u *turn) askCommand(line string) error {
	_, granted := u.s.granted.Load(line)
	item := u.started(commandItem(line, u.t.Cwd), "call")
	decision := "accept"
	err := error(nil)
	if !granted {
		decision, err = u.approval("item/commandExecution/requestApproval", item, object{
			"kind":                        "command",
			"environmentId":               "local",
			"reason":                      "needs to run outside the sandbox",
			"command":                     item["command"],
			"cwd":                         u.t.Cwd,
			"commandActions":              item["commandActions"],
			"proposedExecpolicyAmendment": []string{line},
			"availableDecisions": []any{
				"accept",
				object{"acceptWithExecpolicyAmendment": object{"execpolicy_amendment": []string{line}}},
				"cancel",
			},
		})
	}
	if err != nil {
		return err
	}
	switch decision {
	case "acceptForSession":
		u.s.granted.Store(line, true)
		u.command(line, item)()
	case "accept":
		u.command(line, item)()
	case "cancel":
		u.completed(item)
		return &end{status: "interrupted"}
	default:
		u.completed(item)
	}
	return u.interrupted()
}

func (u *turn) askFile(name string) error {
	item := u.started(fileItem(filepath.Join(u.t.Cwd, name), "asked for"), "call")
	decision, err := u.approval("item/fileChange/requestApproval", item, object{
		"reason":    nil,
		"grantRoot": nil,
	})
	if err != nil {
		return err
	}
	switch decision {
	case "accept", "acceptForSession":
		u.patch(item, name, "asked for")
	case "cancel":
		return &end{status: "interrupted"} // the item never completes
	default:
		u.completed(item)
	}
	return u.interrupted()
}

// tool calls a dynamic tool of the client. A script may name a tool that the thread does not
// have, to test the refusal.
func (u *turn) tool(name string, args json.RawMessage) error {
	if args == nil {
		args = json.RawMessage("{}")
	}
	item := u.started(newItem("dynamicToolCall", object{"tool": name, "arguments": args}), "call")
	var answer struct {
		ContentItems []json.RawMessage
		Success      bool
	}
	refusal, err := u.request("item/tool/call", "", object{
		"callId":    item["id"],
		"namespace": nil,
		"tool":      name,
		"arguments": args,
	}, &answer)
	if err != nil {
		return err
	}
	item["contentItems"] = answer.ContentItems
	item["success"] = answer.Success
	item["status"] = "completed"
	if refusal != nil || answer.ContentItems == nil {
		item["contentItems"] = []object{{
			"type": "inputText",
			"text": "dynamic tool request failed",
		}}
	}
	if !answer.Success {
		item["status"] = "failed"
	}
	item["durationMs"] = cmp.Or(u.took.Milliseconds(), now()-item["startedAtMs"].(int64))
	u.completed(item)
	return u.interrupted()
}

// command is a shell command of the agent. As with codex, it runs in its own process session.
type command struct {
	*exec.Cmd
	output bytes.Buffer  // not to be read before done is closed
	done   chan struct{} // closed when the command ends
}

const (
	// outputWait bounds the wait for output after a command ends: a process that it started
	// may keep the pipe open.
	outputWait = 200 * time.Millisecond
	outputKept = 1 << 20 // bytes that codex keeps of a command's output
)

// spawn starts a command with the environment that codex gives to commands. Commands survive
// an interrupt.
func (u *turn) spawn(line, callID string) (*command, error) {
	c := &command{
		Cmd:  exec.CommandContext(context.WithoutCancel(u.ctx), "/bin/bash", u.t.config.shellFlag(), line),
		done: make(chan struct{}),
	}
	c.Dir = u.t.Cwd
	c.Env = append(u.t.config.environ(os.Environ()),
		"CODEX_THREAD_ID="+u.t.ID, "CODEX_SESSION_ID="+u.t.ID, "CODEX_TOOL_CALL_ID="+callID, "CODEX_CI=1")
	c.Stdout = &c.output
	c.Stderr = &c.output
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.WaitDelay = outputWait
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	select {
	case <-u.s.quit:
		return nil, errors.New("the server is ending")
	default:
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	u.s.commands = append(u.s.commands, c)
	go func() {
		defer close(c.done)
		_ = c.Wait() // the result is in ProcessState
	}()
	return c, nil
}

// kill kills the command and its process group.
func (c *command) kill() {
	select {
	case <-c.done:
		// The leader is reaped, so another process may have its id by now. As with codex, the
		// rest of its group goes on.
	default:
		if syscall.Kill(-c.Process.Pid, syscall.SIGKILL) == nil {
			<-c.done
		}
	}
}

// status returns the exit code as a shell reports it.
func (c *command) status() int {
	if ws, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return c.ProcessState.ExitCode()
}

// command starts the command of an item. The returned function waits for the end of the
// command and completes the item. If the turn is interrupted the command goes on in the
// background.
func (u *turn) command(line string, item object) (wait func()) {
	began := time.Now()
	c, err := u.spawn(line, fmt.Sprint(item["id"]))
	if err != nil { // the model sees the error, and the turn continues
		return func() {
			item["status"] = "failed"
			item["aggregatedOutput"] = "Failed to create unified exec process: " + err.Error()
			u.completed(item)
		}
	}
	item["processId"] = fmt.Sprint(c.Process.Pid)
	return func() {
		select {
		case <-c.done:
		case <-u.ctx.Done():
			return
		}
		text := strings.ToValidUTF8(string(c.output.Bytes()[:min(c.output.Len(), outputKept)]), "�")
		if text != "" {
			u.notify("item/commandExecution/outputDelta", object{
				"turnId": u.id,
				"itemId": item["id"],
				"delta":  text[:min(len(text), 8<<10)],
			})
		}
		item["aggregatedOutput"] = text
		item["exitCode"] = c.status()
		item["durationMs"] = cmp.Or(u.took, time.Since(began)).Milliseconds()
		item["status"] = "completed"
		if c.status() != 0 {
			item["status"] = "failed"
		}
		u.completed(item)
	}
}
