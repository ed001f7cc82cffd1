package codextest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// command is a shell command of the agent. It runs in a process session of its own, as with codex.
type command struct {
	cmd    *exec.Cmd
	output bytes.Buffer  // to be read when done
	done   chan struct{} // closed when the command has ended
}

const (
	// outputWait bounds the wait for output after a command has ended: a process that it started may keep the pipe open.
	outputWait = 200 * time.Millisecond
	outputKept = 1 << 20 // what codex keeps of a command's output
)

// spawn starts a command with the environment that codex gives to commands. Commands survive an interrupt.
func (u *turn) spawn(line, callID string) (*command, error) {
	c := &command{cmd: exec.CommandContext(context.WithoutCancel(u.ctx), "/bin/bash", u.t.config.shellFlag(), line), done: make(chan struct{})}
	c.cmd.Dir = u.t.Cwd
	c.cmd.Env = append(u.t.config.environ(os.Environ()),
		"CODEX_THREAD_ID="+u.t.ID, "CODEX_SESSION_ID="+u.t.ID, "CODEX_TOOL_CALL_ID="+callID, "CODEX_CI=1")
	c.cmd.Stdout, c.cmd.Stderr = &c.output, &c.output
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
		return nil, err
	}
	u.s.commands = append(u.s.commands, c)
	go func() {
		defer close(c.done)
		_ = c.cmd.Wait() // its state is looked at
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
	if ws, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return c.cmd.ProcessState.ExitCode()
}

// command runs the command of an item that was started. The returned function waits for the end of the command and
// completes the item. After an interrupt of the turn the command goes on in the background.
func (u *turn) command(line string, item object) (wait func()) {
	began := time.Now()
	c, err := u.spawn(line, fmt.Sprint(item["id"]))
	if err != nil { // the model sees the error and the turn continues
		return func() {
			item["status"], item["aggregatedOutput"] = "failed", "Failed to create unified exec process: "+err.Error()
			u.completed(item)
		}
	}
	item["processId"] = fmt.Sprint(c.cmd.Process.Pid)
	return func() {
		select {
		case <-c.done:
		case <-u.ctx.Done():
			return
		}
		text := strings.ToValidUTF8(string(c.output.Bytes()[:min(c.output.Len(), outputKept)]), "�")
		if text != "" {
			u.notify("item/commandExecution/outputDelta", object{"turnId": u.id, "itemId": item["id"], "delta": text[:min(len(text), 8<<10)]})
		}
		item["aggregatedOutput"], item["exitCode"], item["durationMs"] = text, c.status(), time.Since(began).Milliseconds()
		item["status"] = "completed"
		if c.status() != 0 {
			item["status"] = "failed"
		}
		u.completed(item)
	}
}
