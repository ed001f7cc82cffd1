package codextest

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"time"
)

// execBound is the longest that a command of command/exec may take.
const execBound = 10 * time.Second

// exec runs a command of the client's own, outside of any thread. Nothing is sandboxed here; a machine that can't
// sandbox is a fault.
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

// execute answers when the command has ended.
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
