package runner

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// cache is the cache of a build tool that does not follow XDG_CACHE_HOME, and that the default sandbox makes read-only. The
// caches of pip, go build, yarn 1 and uv follow XDG_CACHE_HOME.
type cache struct {
	variable string
	below    string   // its place in the workspace's cache directory
	usual    []string // its usual place: below the directory that the first of these variables names
	// fetched: all of its content comes from the network. Without network the tool can use the account's own cache, which
	// is readable.
	fetched bool
}

// caches returns the caches that are moved. They move for hooks and agent alike, so that the agent finds what after_create
// has fetched.
func caches() []cache {
	return []cache{
		// npm writes the packages that it installs, its locks and its logs.
		{variable: "npm_config_cache", below: "npm", usual: []string{"HOME/.npm"}},
		// go writes modules that it has downloaded.
		{variable: "GOMODCACHE", below: "go-mod", usual: []string{"GOPATH/pkg/mod", "HOME/go/pkg/mod"}, fetched: true},
	}
}

// buildEnv returns the variables that build tools need in the sandbox. It moves each cache that the environment does not
// place and that the agent could not write at its usual place.
func (c Config) buildEnv(env []string, w *host.Workspace) []string {
	if c.TurnSandboxPolicy != nil && !agent.Confines(c.TurnSandboxPolicy) {
		return nil // the agent can write what the account can write
	}
	var moved []string
	for _, k := range caches() {
		if valueOf(env, k.variable) == "" && !c.canWrite(k.place(env)) && (!k.fetched || c.hasNetwork()) {
			moved = append(moved, k.variable+"="+filepath.Join(w.CacheDir, k.below))
		}
	}
	// While a command runs, codex keeps an empty .git in a workspace that is no repository. go build takes it for a broken
	// repository.
	if _, err := os.Lstat(filepath.Join(w.Path, ".git")); errors.Is(err, os.ErrNotExist) && valueOf(env, "GOFLAGS") == "" {
		moved = append(moved, "GOFLAGS=-buildvcs=false")
	}
	return moved
}

// canWrite reports whether agent.writable_roots, or the workflow's own policy, opens a directory to the agent.
func (c Config) canWrite(dir string) bool {
	var policy struct {
		WritableRoots []string `json:"writableRoots"`
	}
	if c.TurnSandboxPolicy != nil {
		if err := json.Unmarshal(c.TurnSandboxPolicy, &policy); err != nil {
			return false // codex will refuse it
		}
	}
	dir = resolved(dir)
	return slices.ContainsFunc(slices.Concat(c.WritableRoots, policy.WritableRoots), func(root string) bool {
		return text.PathInside(resolved(root), dir)
	})
}

// resolved resolves the symlinks of a path, as far as it exists.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(resolved(parent), filepath.Base(path))
	}
	return path
}

// hasNetwork reports whether sandboxed commands reach the network.
func (c Config) hasNetwork() bool {
	if c.TurnSandboxPolicy == nil {
		return c.Network
	}
	return agent.Confines(c.TurnSandboxPolicy) && networkOf(c.TurnSandboxPolicy)
}

// place returns where the cache is if its variable is not set.
func (k cache) place(env []string) string {
	for _, usual := range k.usual {
		variable, rest, _ := strings.Cut(usual, "/")
		first, _, _ := strings.Cut(valueOf(env, variable), string(filepath.ListSeparator))
		if first != "" {
			return filepath.Join(first, rest)
		}
	}
	return ""
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
