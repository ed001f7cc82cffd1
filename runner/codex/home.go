package codex

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/runner/agent"
)

// Files of a codex home.
const (
	configFile = "config.toml"
	loginFile  = "auth.json"
)

// loginStore is the setting for where codex stores its login.
const loginStore = "cli_auth_credentials_store"

// sharedKeys are the settings of the operator's config.toml that apply to agents, too: login,
// model and privacy. Settings of other names do not reach agents, because releases
// of codex add keys that run programs or widen rights.
var sharedKeys = []string{
	loginStore, "forced_login_method", "forced_chatgpt_workspace_id", "chatgpt_base_url", "openai_base_url",
	"model", "model_provider", "model_providers", "model_reasoning_effort", "plan_mode_reasoning_effort",
	"model_reasoning_summary", "model_supports_reasoning_summaries", "model_verbosity", "model_context_window",
	"model_auto_compact_token_limit", "model_catalog_json", "oss_provider", "review_model", "service_tier",
	"tool_output_token_limit", "analytics", "feedback", "history", "notice",
}

// widening are the entries of a codex home, besides config.toml, that name programs, allow
// commands or set variables of codex.
var widening = []string{
	"rules", "hooks.json", "hooks", "plugins", "agents", "environments.toml", ".credentials.json", ".env",
	"*.config.toml",
}

// PrepareHome makes dir a codex home for agents that shares the login of the operator's home,
// and the settings in sharedKeys. The login is a link, so that both see a new login and
// refreshed tokens. Nothing else of the operator's home applies to agents. Files that codex's
// own terminal added to dir during a takeover are removed.
func PrepareHome(operators, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	text, err := configOfAgents(operators)
	if err != nil {
		return err
	}
	added, err := wideningIn(dir)
	for _, name := range added {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, name)))
	}
	if err != nil {
		return err
	}
	path := filepath.Join(dir, configFile)
	have, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(have, text) {
		if err := durable.WriteFile(path, text, 0o600); err != nil {
			return err
		}
	}
	return shareLogin(filepath.Join(operators, loginFile), filepath.Join(dir, loginFile))
}

// PrepareBox is PrepareHome for a sandbox of symphony, where no link leads to the operator's
// login: agents get a copy. The codex home is HomeInBox in home. Agents write there, and can
// change the settings of later ones.
func PrepareBox(operators, home string) error {
	text, err := configOfAgents(operators)
	if err != nil {
		return err
	}
	dir, err := paths.OpenHome(home)
	if err != nil {
		return fmt.Errorf("the home of agents: %w", err)
	}
	defer dir.Close()
	if err := paths.WriteBeneath(dir, filepath.Join(HomeInBox, configFile), text); err != nil {
		return fmt.Errorf("the home of agents: %w", err)
	}
	err = agent.CopyLogin(filepath.Join(operators, loginFile), dir, filepath.Join(HomeInBox, loginFile))
	if err != nil {
		return fmt.Errorf("copy the login for agents: %w", err)
	}
	return nil
}

// HomeInBox is the codex home of agents in their home in a sandbox of symphony.
const HomeInBox = ".codex"

// configOfAgents returns the config.toml of agents, given the operator's home.
func configOfAgents(operators string) ([]byte, error) {
	config, err := readConfig(operators)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "# Written by symphony before each run: the login and the model of %q.\n", operators)
	if err := toml.NewEncoder(&text).Encode(agentConfig(config, operators)); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(operators, configFile), err)
	}
	return text.Bytes(), nil
}

// Service returns where codex's model is. Of another provider the workflow names the hosts.
func Service(string) agent.Service {
	return agent.Service{
		// the last renews the login of a subscription
		Hosts:     []string{"api.openai.com", "chatgpt.com", "auth.openai.com"},
		BaseVar:   "OPENAI_BASE_URL",
		LoginVars: []string{"OPENAI_API_KEY", "CODEX_API_KEY"},
	}
}

// shareLogin makes link a symbolic link to the login, which need not exist yet. Other
// processes may do the same.
func shareLogin(login, link string) error {
	for {
		err := os.Symlink(login, link)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		to, err := os.Readlink(link)
		if err == nil && to == login {
			return nil
		}
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
}

// readConfig reads the config.toml of a codex home, which may be missing.
func readConfig(home string) (config map[string]any, err error) {
	path := filepath.Join(home, configFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := toml.Unmarshal(data, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return config, nil
}

// agentConfig returns the configuration of agents, given the operator's. Apps and plugins are
// off, because they would belong to the operator's account.
func agentConfig(operators map[string]any, home string) map[string]any {
	config := map[string]any{"features": map[string]any{"apps": false, "plugins": false}}
	for _, key := range sharedKeys {
		if value, set := operators[key]; set {
			config[key] = value
		}
	}
	if hasLoginFile(home) {
		config[loginStore] = "file" // "auto" would move refreshed tokens out of the shared file
	}
	catalog, hasCatalog := config["model_catalog_json"].(string)
	if hasCatalog && isRelative(catalog) {
		// codex resolves it from the directory of config.toml
		config["model_catalog_json"] = filepath.Join(home, catalog)
	}
	providers, _ := config["model_providers"].(map[string]any)
	for _, p := range providers {
		provider, _ := p.(map[string]any)
		// codex would start its command in the workspace
		if auth, ok := provider["auth"].(map[string]any); ok {
			if dir, _ := auth["cwd"].(string); isRelative(dir) {
				auth["cwd"] = filepath.Join(home, dir)
			}
		}
	}
	shareRestrictions(operators, config)
	return config
}

// hasLoginFile reports whether the login of a codex home is in a file.
func hasLoginFile(home string) bool {
	_, err := os.Stat(filepath.Join(home, loginFile))
	return err == nil
}

// isRelative reports whether a path depends on a directory: it is neither absolute nor below
// the account's home.
func isRelative(path string) bool { return !filepath.IsAbs(path) && !strings.HasPrefix(path, "~") }

// shareRestrictions adds the settings that restrict agents. Other values of the same keys are
// left out.
func shareRestrictions(operators, config map[string]any) {
	if operators["web_search"] == "disabled" {
		config["web_search"] = "disabled"
	}
	policy, _ := operators["shell_environment_policy"].(map[string]any)
	restrictions := maps.Clone(policy)
	maps.DeleteFunc(restrictions, func(key string, value any) bool {
		return key != "exclude" && key != "include_only" &&
			(key != "inherit" || value != "none" && value != "core")
	})
	if len(restrictions) > 0 {
		config["shell_environment_policy"] = restrictions
	}
}

// LoginInFile reports whether codex stores the login of a home in a file. Codex homes cannot
// share a login elsewhere.
func LoginInFile(home string) bool {
	if hasLoginFile(home) {
		return true
	}
	config, err := readConfig(home)
	return err != nil || config[loginStore] == nil || config[loginStore] == "file"
}

// OperatorOnly lists the parts of a codex home that agents do not get by default: settings,
// rules, programs. The names of tables follow in parentheses.
func OperatorOnly(home string) (list []string, err error) {
	config, err := readConfig(home)
	if err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		if slices.Contains(sharedKeys, key) {
			continue
		}
		if table, ok := config[key].(map[string]any); ok {
			key += " (" + strings.Join(slices.Sorted(maps.Keys(table)), ", ") + ")"
		}
		list = append(list, key)
	}
	files, err := wideningIn(home)
	return append(list, files...), err
}

// wideningIn returns the names of the entries of a codex home that match widening. Empty
// directories are left out.
func wideningIn(home string) (names []string, err error) {
	entries, err := os.ReadDir(home)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		matches := func(pattern string) bool {
			ok, _ := filepath.Match(pattern, e.Name()) // the patterns are valid
			return ok
		}
		inside, listErr := os.ReadDir(filepath.Join(home, e.Name()))
		isEmptyDir := listErr == nil && len(inside) == 0
		if !isEmptyDir && slices.ContainsFunc(widening, matches) {
			names = append(names, e.Name())
		}
	}
	return names, err
}
