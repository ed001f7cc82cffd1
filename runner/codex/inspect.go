package codex

import (
	"context"
	"errors"
	"slices"
)

// ErrNotSaid: this codex does not answer the question; it is of another age.
var ErrNotSaid = errors.New("this codex does not say")

// Account is who codex is logged in as.
type Account struct {
	// Kind is codex's word for the account ("apiKey", "chatgpt"), "" where nobody is logged in.
	Kind  string
	Email string
	// Needed: without an account the model can't be asked.
	Needed bool
}

// Account asks who is logged in. It needs no thread.
//
// Errors: one that wraps ErrNotSaid, and those of every request.
func (s *Session) Account(ctx context.Context) (Account, error) {
	var answer struct {
		Account *struct {
			Type  string `json:"type"`
			Email string `json:"email"`
		} `json:"account"`
		RequiresOpenaiAuth bool `json:"requiresOpenaiAuth"`
	}
	if err := s.inspect(ctx, "account/read", struct{}{}, &answer); err != nil {
		return Account{}, err
	}
	a := Account{Needed: answer.RequiresOpenaiAuth}
	if answer.Account != nil {
		a.Kind, a.Email = answer.Account.Type, answer.Account.Email
	}
	return a, nil
}

// HomeConfig is what of codex's configuration agents would work with, whatever the thread says.
type HomeConfig struct {
	Provider   string                `json:"model_provider"`
	Providers  map[string]Provider   `json:"model_providers"`
	Notify     []string              `json:"notify"`
	MCPServers map[string]MCPServer  `json:"mcp_servers"`
	Projects   map[string]TrustLevel `json:"projects"`
}

// Provider is a service that codex asks for a model.
type Provider struct {
	EnvKey string `json:"env_key"` // the variable that holds its key, "" where it needs none
}

// MCPServer is one that codex starts, or connects to, for every thread.
type MCPServer struct {
	Command string `json:"command"`
	URL     string `json:"url"`
	Enabled *bool  `json:"enabled"`
}

// TrustLevel is what codex's configuration says of a folder.
type TrustLevel struct {
	Level string `json:"trust_level"`
}

// HomeConfig asks for the configuration as it is in cwd.
//
// Errors: response_error where codex can't read it; one that wraps ErrNotSaid; those of every request.
func (s *Session) HomeConfig(ctx context.Context, cwd string) (HomeConfig, error) {
	var answer struct {
		Config HomeConfig `json:"config"`
	}
	err := s.inspect(ctx, "config/read", map[string]string{"cwd": cwd}, &answer)
	return answer.Config, err
}

// Features names those that are on although codex's default is off, sorted. Errors are HomeConfig's.
func (s *Session) Features(ctx context.Context) ([]string, error) {
	var on []string
	cursor := ""
	for {
		var answer struct {
			Data []struct {
				Name           string `json:"name"`
				Enabled        bool   `json:"enabled"`
				DefaultEnabled bool   `json:"defaultEnabled"`
			} `json:"data"`
			NextCursor string `json:"nextCursor"`
		}
		params := map[string]string{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		if err := s.inspect(ctx, "experimentalFeature/list", params, &answer); err != nil {
			return nil, err
		}
		for _, f := range answer.Data {
			if f.Enabled && !f.DefaultEnabled {
				on = append(on, f.Name)
			}
		}
		// A cursor that does not move would be asked for ever.
		if answer.NextCursor == "" || answer.NextCursor == cursor || len(answer.Data) == 0 {
			slices.Sort(on)
			return on, nil
		}
		cursor = answer.NextCursor
	}
}

// Hook is a program that codex runs at an event.
type Hook struct {
	Event   string `json:"eventName"`
	Command string `json:"command"`
	Trust   string `json:"trustStatus"`
	Enabled bool   `json:"enabled"`
}

// Hooks lists the hooks that codex would run in cwd. Errors are HomeConfig's.
func (s *Session) Hooks(ctx context.Context, cwd string) ([]Hook, error) {
	var answer struct {
		Data []struct {
			Hooks []Hook `json:"hooks"`
		} `json:"data"`
	}
	if err := s.inspect(ctx, "hooks/list", map[string][]string{"cwds": {cwd}}, &answer); err != nil {
		return nil, err
	}
	var all []Hook
	for _, entry := range answer.Data {
		for _, h := range entry.Hooks {
			if h.Enabled {
				all = append(all, h)
			}
		}
	}
	return all, nil
}

// inspect makes a request that only looks.
func (s *Session) inspect(ctx context.Context, method string, params, into any) error {
	s.mu.Lock()
	id := s.calls.id()
	s.mu.Unlock()
	m, err := s.call(ctx, id, method, params, s.o.ReadTimeout, nil)
	if err != nil {
		return err
	}
	if m.Error != nil {
		e := responseError(method, *m.Error, true)
		if e.Code == CodeIncompatible {
			e.err = ErrNotSaid
		}
		return e
	}
	if err := resultOf(method, m, into); err != nil {
		return &Error{Code: CodeIncompatible, Message: oneLine(err.Error(), errorLength), err: ErrNotSaid}
	}
	return nil
}
