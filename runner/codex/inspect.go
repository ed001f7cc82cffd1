package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/runner/agent"
)

// inspector makes requests that need no thread.
type inspector struct{ conn *conn }

// inspect makes a request that only reads.
func (i inspector) inspect(ctx context.Context, method string, params, into any) error {
	m, err := i.conn.request(ctx, i.conn.otherID(), method, params, i.conn.timeout, nil)
	if err != nil {
		return err
	}
	if m.Error != nil {
		e := responseError(method, *m.Error, true)
		if e.Code == agent.CodeIncompatible {
			e.Err = agent.ErrNotSaid
		}
		return e
	}
	if err := json.Unmarshal(m.Result, into); err != nil {
		e := incompatible(method, err.Error())
		e.Err = agent.ErrNotSaid
		return e
	}
	return nil
}

// Account implements agent.Inspector.
func (i inspector) Account(ctx context.Context) (agent.Account, error) {
	var answer struct {
		Account struct {
			Type  string `json:"type"`
			Email string `json:"email"`
		} `json:"account"`
		RequiresOpenaiAuth bool `json:"requiresOpenaiAuth"`
	}
	err := i.inspect(ctx, "account/read", object{}, &answer)
	return agent.Account{Kind: answer.Account.Type, Email: answer.Account.Email, Needed: answer.RequiresOpenaiAuth}, err
}

// HomeConfig implements agent.Inspector.
func (i inspector) HomeConfig(ctx context.Context, cwd string) (agent.HomeConfig, error) {
	var answer struct {
		Config agent.HomeConfig `json:"config"`
	}
	err := i.inspect(ctx, "config/read", object{"cwd": cwd}, &answer)
	return answer.Config, err
}

const (
	// probeTimeout is ample: a sandboxed command takes 50 ms, or a second on a busy machine.
	probeTimeout = 10 * time.Second
	exitTimedOut = 124 // of a command that codex ended for its time
)

// ProbeSandbox implements agent.Session.
func (i inspector) ProbeSandbox(ctx context.Context, cwd string, policy json.RawMessage) error {
	const method = "command/exec"
	if !agent.Confines(policy) {
		return nil
	}
	m, err := i.conn.request(ctx, i.conn.otherID(), method, object{
		// It can't fail and prints nothing: whatever does is the sandbox.
		"command": []string{"/bin/sh", "-c", ":"}, "cwd": cwd, "sandboxPolicy": policy, "timeoutMs": probeTimeout.Milliseconds(),
	}, max(probeTimeout, i.conn.timeout), nil)
	var e *agent.Error
	switch {
	case errors.As(err, &e) && e.Code == agent.CodeResponseTimeout:
		return fmt.Errorf("%w: %s", agent.ErrNoProbe, e.Message)
	case err != nil:
		return err
	case m.Error != nil:
		return fmt.Errorf("%w: %s", agent.ErrNoProbe, oneLine(m.Error.Message, errorLength))
	}
	var answer struct {
		ExitCode *int   `json:"exitCode"`
		Stderr   string `json:"stderr"`
	}
	unmarshal(m.Result, &answer)
	switch {
	case answer.ExitCode == nil:
		return fmt.Errorf("%w: %s", agent.ErrNoProbe, oneLine(string(m.Result), errorLength))
	case *answer.ExitCode == 0:
		return nil
	case *answer.ExitCode == exitTimedOut:
		return fmt.Errorf("%w: the command took longer than %v", agent.ErrNoProbe, probeTimeout)
	}
	text := oneLine(firstLine(answer.Stderr), errorLength)
	if text == "" {
		text = fmt.Sprintf("it ended with exit code %d and said nothing", *answer.ExitCode)
	}
	return &agent.Error{Code: agent.CodeSandboxUnavailable, Message: text}
}
