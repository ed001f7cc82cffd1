package acp

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/runner/agent"
)

// placeholder is what an agent gets in place of its key, because it would not start without
// one. The proxy of its sandbox knows the key.
const placeholder = "key-of-symphony"

func claudeService(string) agent.Service {
	return agent.Service{
		// the second renews the login of a subscription
		Hosts:     []string{"api.anthropic.com", "platform.claude.com"},
		URL:       "https://api.anthropic.com",
		BaseVar:   "ANTHROPIC_BASE_URL",
		Header:    "X-Api-Key",
		LoginVars: []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"},
		Through: func(url string) []string {
			return []string{"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=" + placeholder}
		},
	}
}

func geminiService(string) agent.Service {
	return agent.Service{
		Hosts:     []string{"generativelanguage.googleapis.com"},
		URL:       "https://generativelanguage.googleapis.com",
		BaseVar:   "GOOGLE_GEMINI_BASE_URL",
		Header:    "X-Goog-Api-Key",
		LoginVars: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"},
		Through: func(url string) []string {
			return []string{"GOOGLE_GEMINI_BASE_URL=" + url, "GEMINI_API_KEY=" + placeholder}
		},
	}
}

// provider is a provider of models that OpenCode knows.
type provider struct {
	host           string
	path           string // of the API there
	header, prefix string
	key            string // the variable with its key
}

var providers = map[string]provider{
	"anthropic":  {"api.anthropic.com", "/v1", "X-Api-Key", "", "ANTHROPIC_API_KEY"},
	"openai":     {"api.openai.com", "/v1", "Authorization", "Bearer ", "OPENAI_API_KEY"},
	"google":     {"generativelanguage.googleapis.com", "/v1beta", "X-Goog-Api-Key", "", "GOOGLE_GENERATIVE_AI_API_KEY"},
	"openrouter": {"openrouter.ai", "/api/v1", "Authorization", "Bearer ", "OPENROUTER_API_KEY"},
	"mistral":    {"api.mistral.ai", "/v1", "Authorization", "Bearer ", "MISTRAL_API_KEY"},
	"deepseek":   {"api.deepseek.com", "", "Authorization", "Bearer ", "DEEPSEEK_API_KEY"},
	"groq":       {"api.groq.com", "/openai/v1", "Authorization", "Bearer ", "GROQ_API_KEY"},
	"xai":        {"api.x.ai", "/v1", "Authorization", "Bearer ", "XAI_API_KEY"},
}

// opencodeService knows the usual providers. Of another one the workflow names the hosts.
func opencodeService(model string) agent.Service {
	name, _, _ := strings.Cut(model, "/")
	p, known := providers[name]
	if !known {
		return agent.Service{}
	}
	return agent.Service{
		Hosts:     []string{p.host},
		URL:       "https://" + p.host,
		Header:    p.header,
		Prefix:    p.prefix,
		LoginVars: []string{p.key},
		Through: func(url string) []string {
			options := map[string]any{"baseURL": url + p.path, "apiKey": placeholder}
			return []string{opencodeConfig(model, options)}
		},
	}
}

// prepareHome copies the operator's login into the home of agents, if it is newer than theirs, and
// puts the files there with which their home begins. Agents write there, so that nothing there is
// followed.
func (k *kind) prepareHome(operators, agents string) error {
	dir, err := paths.OpenHome(agents)
	if err != nil {
		return fmt.Errorf("the home of agents: %w", err)
	}
	defer dir.Close()
	for _, name := range k.loginFiles {
		if err := agent.CopyLogin(filepath.Join(operators, name), dir, name); err != nil {
			return fmt.Errorf("copy the login for agents: %w", err)
		}
	}
	for name, content := range k.homeFiles {
		_, err := dir.Lstat(name)
		if !errors.Is(err, fs.ErrNotExist) {
			continue // the agent has changed it, or does without
		}
		if err := paths.WriteBeneath(dir, name, []byte(content)); err != nil {
			return fmt.Errorf("the home of agents: %w", err)
		}
	}
	return nil
}
