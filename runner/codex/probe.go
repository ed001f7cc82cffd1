package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// CodeSandboxUnavailable: codex can't start a command under the sandbox that it was given.
const CodeSandboxUnavailable Code = "sandbox_unavailable"

// ErrNoProbe: this codex can't be asked to try its sandbox. It is older than
// command/exec, refused the request, or took too long; only a turn will tell.
var ErrNoProbe = errors.New("codex can't be asked to try its sandbox")

// probeBound is ample: a sandboxed command takes 50 ms, a second on a machine
// that has much else to do.
const probeBound = 10 * time.Second

// exitTimedOut is the exit code of a command that codex ended for its time.
const exitTimedOut = 124

type execRequest struct {
	Command       []string        `json:"command"`
	Cwd           string          `json:"cwd"`
	SandboxPolicy json.RawMessage `json:"sandboxPolicy"`
	TimeoutMs     int64           `json:"timeoutMs"`
}

// ProbeSandbox has codex run a command that does nothing in cwd, under the
// sandboxPolicy of a turn. It needs no thread and costs no token. A policy that
// asks for no sandbox is not tried.
//
// Errors: sandbox_unavailable with what the sandbox said; one that wraps
// ErrNoProbe; port_exit; ctx's.
func (s *Session) ProbeSandbox(ctx context.Context, cwd string, policy json.RawMessage) error {
	const method = "command/exec"
	if !Confines(policy) {
		return nil
	}
	s.mu.Lock()
	id := s.calls.id()
	s.mu.Unlock()
	m, err := s.call(ctx, id, method, execRequest{
		// It has no output and can't fail, so that whatever does is the sandbox.
		Command: []string{"/bin/sh", "-c", ":"}, Cwd: cwd, SandboxPolicy: policy, TimeoutMs: probeBound.Milliseconds(),
	}, max(probeBound, s.o.ReadTimeout), nil)
	var e *Error
	switch {
	case errors.As(err, &e) && e.Code == CodeResponseTimeout:
		return fmt.Errorf("%w: %s", ErrNoProbe, e.Message)
	case err != nil:
		return err
	case m.Error != nil:
		return fmt.Errorf("%w: %s", ErrNoProbe, oneLine(m.Error.Message, errorLength))
	}
	var answer struct {
		ExitCode *int   `json:"exitCode"`
		Stderr   string `json:"stderr"`
	}
	if err := resultOf(method, m, &answer); err != nil || answer.ExitCode == nil {
		return fmt.Errorf("%w: %s", ErrNoProbe, oneLine(string(m.Result), errorLength))
	}
	switch *answer.ExitCode {
	case 0:
		return nil
	case exitTimedOut:
		return fmt.Errorf("%w: the command took longer than %v", ErrNoProbe, probeBound)
	}
	return &Error{Code: CodeSandboxUnavailable, Message: sandboxWords(*answer.ExitCode, answer.Stderr)}
}

// Confines reports whether a sandboxPolicy of a turn has codex sandbox its
// commands by itself.
func Confines(policy json.RawMessage) bool {
	var p struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(policy, &p); err != nil {
		return true // no object: it is codex's to judge
	}
	return p.Type != "dangerFullAccess" && p.Type != "externalSandbox"
}

// SandboxWords reports whether a failed command's output may be codex's sandbox
// and not the command: what a command prints is its own choice, so that this is
// a reason to ask and no proof.
func SandboxWords(output string) bool {
	for _, first := range []string{"bwrap: ", "error building bubblewrap command", "error applying ", "sandbox-exec: "} {
		if strings.HasPrefix(output, first) {
			return true
		}
	}
	return false
}

// sandboxWords is the first line that a sandbox said, or how it ended.
func sandboxWords(code int, stderr string) string {
	for line := range strings.Lines(stderr) {
		if line = oneLine(line, errorLength); line != "" {
			return line
		}
	}
	return fmt.Sprintf("it ended with exit code %d and said nothing", code)
}
