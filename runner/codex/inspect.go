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
	m, err := s.conn.request(ctx, s.conn.otherID(), method, params, s.o.ReadTimeout, nil)
	switch {
	case err != nil:
		return err
	case m.Error != nil:
		return responseError(method, *m.Error, true)
	}
	if err := json.Unmarshal(m.Result, into); err != nil {
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
	const method = "command/exec"
	if !agent.Confines(policy) {
		return nil
	}
	m, err := s.conn.request(ctx, s.conn.otherID(), method, object{
		// It can't fail and prints nothing: whatever does is the sandbox.
		"command": []string{"/bin/sh", "-c", ":"}, "cwd": cwd, "sandboxPolicy": policy, "timeoutMs": probeTimeout.Milliseconds(),
	}, max(probeTimeout, s.o.ReadTimeout), nil)
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
		ExitCode *int
		Stderr   string
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
