package runner

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// buildEnv returns the variables that build tools need in the sandbox: for the caches that do not follow XDG_CACHE_HOME, as
// those of pip, go build, yarn 1 and uv do, a place in the workspace's cache directory. A variable that the operator has set
// stays. Hooks and agent get the same, so that the agent finds what after_create has fetched.
func (c Config) buildEnv(env []string, w *host.Workspace) (vars []string) {
	network := c.Network
	if c.TurnSandboxPolicy != nil {
		if !agent.Confines(c.TurnSandboxPolicy) {
			return nil // the agent can write what the account can write
		}
		network = networkOf(c.TurnSandboxPolicy)
	}
	set := func(name, value string) {
		if valueOf(env, name) == "" {
			vars = append(vars, name+"="+value)
		}
	}
	set("npm_config_cache", filepath.Join(w.CacheDir, "npm")) // npm writes the packages that it installs, its locks and its logs
	if network {
		set("GOMODCACHE", filepath.Join(w.CacheDir, "go-mod")) // without network go reads what the account has
	}
	// While a command runs, codex keeps an empty .git in a workspace that is no repository. go build takes it for a broken
	// repository.
	if _, err := os.Lstat(filepath.Join(w.Path, ".git")); errors.Is(err, os.ErrNotExist) {
		set("GOFLAGS", "-buildvcs=false")
	}
	return vars
}

// valueOf returns the value of a variable, empty if it is not set. Like npm it ignores the case of the name.
func valueOf(env []string, name string) string {
	for _, entry := range env {
		if n, value, _ := strings.Cut(entry, "="); strings.EqualFold(n, name) {
			return value
		}
	}
	return ""
}
