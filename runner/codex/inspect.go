package codex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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

// Features implements agent.Inspector.
func (i inspector) Features(ctx context.Context) ([]string, error) {
	var on []string
	for params := (object{}); ; {
		var answer struct {
			Data []struct {
				Name           string `json:"name"`
				Enabled        bool   `json:"enabled"`
				DefaultEnabled bool   `json:"defaultEnabled"`
			} `json:"data"`
			NextCursor string `json:"nextCursor"`
		}
		if err := i.inspect(ctx, "experimentalFeature/list", params, &answer); err != nil {
			return nil, err
		}
		for _, f := range answer.Data {
			if f.Enabled && !f.DefaultEnabled {
				on = append(on, f.Name)
			}
		}
		// A cursor that does not move would be asked for ever.
		if answer.NextCursor == "" || answer.NextCursor == params["cursor"] || len(answer.Data) == 0 {
			slices.Sort(on)
			return on, nil
		}
		params = object{"cursor": answer.NextCursor}
	}
}

// Hooks implements agent.Inspector.
func (i inspector) Hooks(ctx context.Context, cwd string) ([]agent.Hook, error) {
	var answer struct {
		Data []struct {
			Hooks []agent.Hook `json:"hooks"`
		} `json:"data"`
	}
	if err := i.inspect(ctx, "hooks/list", object{"cwds": []string{cwd}}, &answer); err != nil {
		return nil, err
	}
	var all []agent.Hook
	for _, entry := range answer.Data {
		all = append(all, entry.Hooks...)
	}
	return slices.DeleteFunc(all, func(h agent.Hook) bool { return !h.Enabled }), nil
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
