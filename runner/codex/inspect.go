package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/runner/agent"
)

// Login implements agent.Session.
func (s *Session) Login(ctx context.Context, cwd string) (agent.Login, error) {
	var answer struct {
		Account            struct{ Type, Email string }
		RequiresOpenaiAuth bool
	}
	if err := s.read(ctx, "account/read", object{}, &answer); err != nil {
		return agent.Login{}, err
	}
	login := agent.Login{Account: strings.TrimSpace(answer.Account.Type + " " + answer.Account.Email), Needed: answer.RequiresOpenaiAuth}
	if login.Account != "" || login.Needed {
		return login, nil
	}
	var home struct {
		Config struct {
			Provider  string `json:"model_provider"`
			Providers map[string]struct {
				EnvKey string `json:"env_key"`
			} `json:"model_providers"`
		}
	}
	err := s.read(ctx, "config/read", object{"cwd": cwd}, &home)
	login.Provider, login.EnvKey = home.Config.Provider, home.Config.Providers[home.Config.Provider].EnvKey
	return login, err
}

// read makes a request that only reads.
func (s *Session) read(ctx context.Context, method string, params object, into any) error {
	result, err := s.conn.request(ctx, &call{method: method, params: params})
	if err != nil {
		return responseError(method, err, true)
	}
	if err := json.Unmarshal(result, into); err != nil {
		return incompatible(method, err.Error())
	}
	return nil
}

const (
	// probeTimeout is ample: a sandboxed command takes 50 ms, or a second on a busy machine.
	probeTimeout = 10 * time.Second
	exitTimedOut = 124 // of a command that codex ended for its time
)

// ProbeSandbox implements agent.Session.
func (s *Session) ProbeSandbox(ctx context.Context, cwd string, policy json.RawMessage) error {
	if !agent.Confines(policy) {
		return nil
	}
	result, err := s.conn.request(ctx, &call{method: "command/exec", timeout: max(probeTimeout, s.o.ReadTimeout), params: object{
		// It can't fail and prints nothing: whatever does is the sandbox.
		"command": []string{"/bin/sh", "-c", ":"}, "cwd": cwd, "sandboxPolicy": policy, "timeoutMs": probeTimeout.Milliseconds(),
	}})
	var late *agent.Error
	var refusal *wireError
	if errors.As(err, &late) && late.Code == agent.CodeResponseTimeout || errors.As(err, &refusal) {
		return fmt.Errorf("%w: %s", agent.ErrNoProbe, oneLine(err.Error(), errorLength))
	} else if err != nil {
		return err
	}
	var answer struct {
		ExitCode *int
		Stderr   string
	}
	unmarshal(result, &answer)
	switch {
	case answer.ExitCode == nil:
		return fmt.Errorf("%w: %s", agent.ErrNoProbe, oneLine(string(result), errorLength))
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
