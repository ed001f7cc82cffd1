package codextest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// command is a shell command of the agent. It runs in its own process session, as with codex.
type command struct {
	cmd    *exec.Cmd
	output *capped
	done   chan struct{} // closed when the command has ended
}

// outputKept is how many bytes of a command's output codex keeps.
const outputKept = 1 << 20

// capped keeps the beginning of what is written to it.
type capped struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (c *capped) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if room := outputKept - c.b.Len(); room > 0 {
		c.b.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func (c *capped) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.ToValidUTF8(c.b.String(), "�")
}

// outputWait bounds the wait for output after a command has ended: a process that it started may keep the pipe open.
const outputWait = 200 * time.Millisecond

// spawn starts a command with the environment that codex gives to commands.
func (u *turn) spawn(line, callID string) (*command, error) {
	own := context.WithoutCancel(u.ctx) // commands survive an interrupt
	c := &command{cmd: exec.CommandContext(own, "/bin/bash", u.t.env.shellFlag(), line), output: &capped{}, done: make(chan struct{})}
	c.cmd.Dir = u.t.Cwd
	c.cmd.Env = append(u.t.env.of(os.Environ()), "CODEX_THREAD_ID="+u.t.ID, "CODEX_SESSION_ID="+u.t.ID, "CODEX_TOOL_CALL_ID="+callID, "CODEX_CI=1")
	c.cmd.Stdout, c.cmd.Stderr = c.output, c.output
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.cmd.WaitDelay = outputWait
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	select {
	case <-u.s.quit:
		return nil, errors.New("the server is ending")
	default:
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start command: %w", err)
	}
	u.s.commands = append(u.s.commands, c)
	go func() {
		defer close(c.done)
		var exit *exec.ExitError
		if err := c.cmd.Wait(); err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
			u.s.log("codex_core::unified_exec: " + err.Error())
		}
	}()
	return c, nil
}

// kill kills the command and its process group.
func (c *command) kill() {
	select {
	case <-c.done:
		// The leader is reaped, so another process may have its id by now. What it left in its group stays, as with codex.
	default:
		if err := syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL); err == nil {
			<-c.done
		}
	}
}

// status is the exit code as a shell reports it.
func (c *command) status() int {
	state := c.cmd.ProcessState
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}

// start starts a command and its item. The returned function waits for both to end.
func (u *turn) start(line string) func() error {
	id := u.itemID("call")
	return u.startItem(line, id, commandItem(id, line, u.t.Cwd), 0)
}

// startItem starts the command of an item. began is the time at which item/started was sent, 0 if it was not. The returned
// function waits for the command and completes the item.
func (u *turn) startItem(line, id string, item object, began int64) func() error {
	c, err := u.spawn(line, id)
	if err == nil {
		item["processId"], item["source"] = fmt.Sprint(c.cmd.Process.Pid), "unifiedExecStartup"
	}
	if began == 0 {
		began = u.itemStarted(item, id)
	}
	if err != nil {
		// The model sees the error and the turn continues.
		item["status"], item["aggregatedOutput"] = "failed", "Failed to create unified exec process: "+err.Error()
		u.itemCompleted(item, id, began)
		return u.interrupted
	}
	at := time.Now()
	return func() error {
		select {
		case <-c.done:
		case <-u.ctx.Done(): // the command continues in the background
			return u.interrupted()
		}
		text := c.output.String()
		if text != "" {
			u.notify("item/commandExecution/outputDelta", object{"turnId": u.id, "itemId": id, "delta": text[:min(len(text), 8<<10)]})
		}
		item["aggregatedOutput"], item["exitCode"], item["durationMs"] = text, c.status(), time.Since(at).Milliseconds()
		item["status"] = "completed"
		if c.status() != 0 {
			item["status"] = "failed"
		}
		u.itemCompleted(item, id, began)
		return nil
	}
}

// shell runs a command to its end.
func (u *turn) shell(line string) error {
	return u.start(line)()
}

// execBound is the default timeout of command/exec.
const execBound = 10 * time.Second

// exec serves command/exec: a command of the client outside of any thread. It never sandboxes the command; Faults.Sandbox
// stands for a machine that cannot sandbox.
func (s *server) exec(m *message) {
	var p struct {
		Command       []string `json:"command"`
		Cwd           string   `json:"cwd"`
		SandboxPolicy *struct {
			Type string `json:"type"`
		} `json:"sandboxPolicy"`
		TimeoutMs int64 `json:"timeoutMs"`
	}
	err := json.Unmarshal(m.Params, &p)
	known := []string{"dangerFullAccess", "readOnly", "externalSandbox", "workspaceWrite"}
	switch {
	case s.o.Faults.NoExec:
		s.refuse(m.ID, invalidRequest, unknownVariant(m.Method, methods...))
		return
	case err != nil:
		s.refuse(m.ID, invalidRequest, "Invalid request: "+err.Error())
		return
	case len(p.Command) == 0:
		s.refuse(m.ID, invalidRequest, "command must not be empty")
		return
	case p.SandboxPolicy != nil && !slices.Contains(known, p.SandboxPolicy.Type):
		s.refuse(m.ID, invalidRequest, unknownVariant(p.SandboxPolicy.Type, known...))
		return
	}
	confined := p.SandboxPolicy == nil || slices.Contains([]string{"readOnly", "workspaceWrite"}, p.SandboxPolicy.Type)
	if words := s.o.Faults.Sandbox; words != "" && confined {
		s.result(m.ID, object{"exitCode": 1, "stdout": "", "stderr": words + "\n"})
		return
	}
	bound := execBound
	if p.TimeoutMs > 0 {
		bound = time.Duration(p.TimeoutMs) * time.Millisecond
	}
	s.running.Go(func() { s.execute(m.ID, p.Command, p.Cwd, bound) })
}

// execute runs the command and answers the request.
func (s *server) execute(id json.RawMessage, argv []string, cwd string, bound time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	go func() {
		select {
		case <-s.quit:
			cancel()
		case <-ctx.Done():
		}
	}()
	var stdout, stderr capped
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = cwd, &stdout, &stderr, outputWait
	err := cmd.Run()
	var exit *exec.ExitError
	code := 0
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		code = 124
	case errors.As(err, &exit):
		code = exit.ExitCode()
	case err != nil:
		s.refuse(id, internalError, "failed to spawn command: "+err.Error())
		return
	}
	s.result(id, object{"exitCode": code, "stdout": stdout.String(), "stderr": stderr.String()})
}
