package codex

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/agent"
)

// TestLogin checks which requests are sent, and the login that follows from codex's answers.
func TestLogin(t *testing.T) {
	for _, c := range []struct {
		account, config string // answers; config/read is sent only where it has one
		want            agent.Login
		err             string
	}{
		{
			account: `"result":{"account":null,"requiresOpenaiAuth":true,"userId":null}`,
			want:    agent.Login{Needed: true},
		},
		{
			account: `"result":{"account":{"type":"chatgpt","email":"a@example.com","planType":"pro"},` +
				`"requiresOpenaiAuth":true}`,
			want: agent.Login{Account: "chatgpt a@example.com", Needed: true},
		},
		{
			account: `"result":{"account":{"type":"apiKey"},"requiresOpenaiAuth":false}`,
			want:    agent.Login{Account: "apiKey"},
		},
		{
			account: `"result":{"account":null,"requiresOpenaiAuth":false}`,
			config: `"result":{"config":{"model_provider":"mock","notify":["/n","x"],` +
				`"model_providers":{"mock":{"env_key":"K"}}},"origins":{}}`,
			want: agent.Login{Provider: "mock", EnvKey: "K"},
		},
		{
			account: `"result":{"account":null,"requiresOpenaiAuth":false}`,
			config:  `"result":{"config":{"model_providers":null,"model_provider":null}}`,
		},
		{
			account: `"result":{"account":null,"requiresOpenaiAuth":false}`,
			config:  `"error":{"code":-32603,"message":"config.toml:1:12: unclosed array"}`,
			err:     "response_error: config/read: config.toml:1:12: unclosed array",
		},
		{
			account: "\"error\":{\"code\":-32600,\"message\":\"Invalid request: unknown variant `account/read`\"}",
			err:     "codex_incompatible: account/read",
		},
		{account: `"result":7`, err: "codex_incompatible: account/read"},
	} {
		s, p := connect(t, agent.Options{})
		var sent []string
		go func() {
			for i, answer := range []string{c.account, c.config} {
				if answer != "" {
					sent = append(sent, p.hear())
					p.say(fmt.Sprintf(`{"id":%d,%s}`, 1001+i, answer))
				}
			}
		}()
		got, err := s.Login(t.Context(), "/w")
		if got != c.want || c.err == "" && err != nil ||
			c.err != "" && (err == nil || !strings.HasPrefix(err.Error(), c.err)) {
			t.Errorf("%s %s: %+v, %v", c.account, c.config, got, err)
		}
		if sent[0] != `{"id":1001,"method":"account/read","params":{}}` ||
			c.config != "" && sent[1] != `{"id":1002,"method":"config/read","params":{"cwd":"/w"}}` {
			t.Errorf("sent %q", sent)
		}
	}
}

const confined = `{"type":"workspaceWrite","writableRoots":["/w/.git"],"networkAccess":false}`

// TestProbeSandbox checks what an answer to command/exec means for the sandbox.
func TestProbeSandbox(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		code         agent.Code // of the error
		noProbe      bool       // the error is agent.ErrNoProbe
		text         string     // in the error
	}{
		{name: "works", answer: `"result":{"exitCode":0,"stdout":"","stderr":""}`},
		{
			name:   "no namespaces",
			answer: `"result":{"exitCode":1,"stdout":"","stderr":"\nbwrap: Creating new namespace failed\nmore\n"}`,
			code:   agent.CodeSandboxUnavailable,
			text:   "sandbox_unavailable: bwrap: Creating new namespace failed",
		},
		{
			name:   "silent",
			answer: `"result":{"exitCode":71,"stdout":"","stderr":""}`,
			code:   agent.CodeSandboxUnavailable,
			text:   "exit code 71",
		},
		{
			name:    "too slow",
			answer:  `"result":{"exitCode":124,"stdout":"","stderr":""}`,
			noProbe: true,
			text:    "124",
		},
		{
			name:    "an older codex",
			answer:  "\"error\":{\"code\":-32600,\"message\":\"Invalid request: unknown variant `command/exec`\"}",
			noProbe: true,
			text:    "unknown variant",
		},
		{
			name:    "another policy",
			answer:  "\"error\":{\"code\":-32600,\"message\":\"Invalid request: unknown variant `bogus`\"}",
			noProbe: true,
			text:    "bogus",
		},
		{name: "another shape", answer: `"result":{}`, noProbe: true, text: "{}"},
		{name: "never answered", noProbe: true, text: "no answer to command/exec"},
	} {
		bubble(t, c.name, func(t *testing.T) {
			s, p := connect(t, agent.Options{})
			go func() {
				p.hears(
					`{"id":1001,"method":"command/exec","params":{"command":["/bin/sh","-c",":"],` +
						`"cwd":"/w","sandboxPolicy":` + confined + `,"timeoutMs":10000}}`,
				)
				if c.answer != "" {
					p.say(`{"id":1001,` + c.answer + `}`)
				}
				p.rest()
			}()
			err := s.ProbeSandbox(t.Context(), "/w", json.RawMessage(confined))
			var e *agent.Error
			switch {
			case c.code == "" && !c.noProbe:
				test.OK(t, err)
			case c.noProbe != errors.Is(err, agent.ErrNoProbe),
				errors.As(err, &e) != (c.code != ""),
				e != nil && e.Code != c.code,
				!strings.Contains(err.Error(), c.text):
				t.Errorf("%v", err)
			}
		})
	}
}

// TestNothingToProbe checks that nothing is sent for a policy under which codex does not
// sandbox.
func TestNothingToProbe(t *testing.T) {
	s, _ := connect(t, agent.Options{})
	for _, policy := range []string{`{"type":"dangerFullAccess"}`, `{"type":"externalSandbox",` +
		`"networkAccess":"enabled"}`} {
		if err := s.ProbeSandbox(t.Context(), "/w", json.RawMessage(policy)); err != nil {
			t.Error(policy, err)
		}
	}
}
