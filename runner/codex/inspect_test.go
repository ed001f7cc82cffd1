package codex

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/runner/agent"
)

// asked answers one request with the rest of an answer and gives what was sent.
func asked(t *testing.T, answers []string, ask func(ctx context.Context, s *Session) error) (sent []string, err error) {
	t.Helper()
	s, p := connect(t, agent.Options{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i, answer := range answers {
			sent = append(sent, p.hear())
			p.say(fmt.Sprintf(`{"id":%d,%s}`, idFirstOther+i, answer))
		}
	}()
	err = ask(t.Context(), s)
	<-done
	go p.rest()
	return sent, err
}

func TestAccount(t *testing.T) {
	for _, c := range []struct {
		answer string
		want   agent.Account
		silent bool
	}{
		{`"result":{"account":null,"requiresOpenaiAuth":true,"userId":null}`, agent.Account{Needed: true}, false},
		{`"result":{"account":{"type":"chatgpt","email":"a@example.com","planType":"pro"},"requiresOpenaiAuth":true}`, agent.Account{Kind: "chatgpt", Email: "a@example.com", Needed: true}, false},
		{`"result":{"account":{"type":"apiKey"},"requiresOpenaiAuth":false}`, agent.Account{Kind: "apiKey"}, false},
		{"\"error\":{\"code\":-32600,\"message\":\"Invalid request: unknown variant `account/read`\"}", agent.Account{}, true},
		{`"result":7`, agent.Account{}, true},
	} {
		var got agent.Account
		sent, err := asked(t, []string{c.answer}, func(ctx context.Context, s *Session) (err error) {
			got, err = s.Account(ctx)
			return err
		})
		if got != c.want || errors.Is(err, agent.ErrNotSaid) != c.silent || !c.silent && err != nil {
			t.Errorf("%s: %+v, %v", c.answer, got, err)
		}
		if want := `{"id":4,"method":"account/read","params":{}}`; sent[0] != want {
			t.Errorf("sent %s", sent[0])
		}
	}
}

func TestHomeConfig(t *testing.T) {
	var got agent.HomeConfig
	sent, err := asked(t, []string{`"result":{"config":{"model_provider":"mock","notify":["/n","x"],"model_providers":{"mock":{"env_key":"K"}}},"origins":{}}`}, func(ctx context.Context, s *Session) (err error) {
		got, err = s.HomeConfig(ctx, "/w")
		return err
	})
	if err != nil || got.Provider != "mock" || got.Providers["mock"].EnvKey != "K" {
		t.Errorf("%+v, %v", got, err)
	}
	if want := `{"id":4,"method":"config/read","params":{"cwd":"/w"}}`; sent[0] != want {
		t.Errorf("sent %s", sent[0])
	}
	// Nulls are what codex has for what is not set.
	if _, err = asked(t, []string{`"result":{"config":{"model_providers":null,"model_provider":null}}`}, func(ctx context.Context, s *Session) (err error) {
		_, err = s.HomeConfig(ctx, "/w")
		return err
	}); err != nil {
		t.Error(err)
	}
	// What is wrong in config.toml is codex's own answer, not one of another age.
	_, err = asked(t, []string{`"error":{"code":-32603,"message":"config.toml:1:12: unclosed array"}`}, func(ctx context.Context, s *Session) (err error) {
		_, err = s.HomeConfig(ctx, "/w")
		return err
	})
	var e *agent.Error
	if !errors.As(err, &e) || e.Code != agent.CodeResponseError || errors.Is(err, agent.ErrNotSaid) || !strings.Contains(e.Message, "unclosed array") {
		t.Error(err)
	}
}
