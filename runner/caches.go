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

// cache is a tool's cache outside of XDG_CACHE_HOME, which the default sandbox does not let the agent write. Those of pip, Go's
// builds, yarn 1 and uv follow XDG_CACHE_HOME by themselves.
type cache struct {
	variable string
	below    string   // its place in the workspace's cache directory
	usual    []string // its usual place: below the directory of the first of these variables that is set
	// fetched: everything in it comes from the network. As long as nothing can be added, the account's own cache is used,
	// which can be read.
	fetched bool
}

// caches are moved for hooks and agent alike, so that the agent has what after_create fetched. Each tool listed here fails
// without its variable.
func caches() []cache {
	return []cache{
		// npm writes each package that it installs, its locks and its logs there.
		{variable: "npm_config_cache", below: "npm", usual: []string{"HOME/.npm"}},
		// go writes a module that it needs and does not find there.
		{variable: "GOMODCACHE", below: "go-mod", usual: []string{"GOPATH/pkg/mod", "HOME/go/pkg/mod"}, fetched: true},
	}
}

// buildEnv is what builds need in the sandbox. It moves the caches that the environment does not place, where the agent could not
// write the usual place.
func (c Config) buildEnv(env []string, w *host.Workspace) []string {
	if c.TurnSandboxPolicy != nil && !agent.Confines(c.TurnSandboxPolicy) {
		return nil // the agent can write whatever the account can
	}
	var moved []string
	for _, k := range caches() {
		if valueOf(env, k.variable) == "" && !c.opens(k.place(env)) && (!k.fetched || c.fetches()) {
			moved = append(moved, k.variable+"="+filepath.Join(w.CacheDir, k.below))
		}
	}
	return append(moved, stampEnv(env, w)...)
}

// stampEnv keeps go from asking git about a workspace that is not a repository: while a command runs codex keeps an empty .git
// there, which go build takes for a broken repository.
func stampEnv(env []string, w *host.Workspace) []string {
	_, err := os.Lstat(filepath.Join(w.Path, ".git"))
	if !errors.Is(err, os.ErrNotExist) || valueOf(env, "GOFLAGS") != "" {
		return nil
	}
	return []string{"GOFLAGS=-buildvcs=false"}
}

// opens reports whether agent.writable_roots, or the workflow's own policy, lets the agent write a directory.
func (c Config) opens(dir string) bool {
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

// resolved is a path without symlinks, as far as it exists.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(resolved(parent), filepath.Base(path))
	}
	return path
}

// fetches reports whether sandboxed commands reach the network.
func (c Config) fetches() bool {
	if c.TurnSandboxPolicy == nil {
		return c.Network
	}
	return agent.Confines(c.TurnSandboxPolicy) && networkOf(c.TurnSandboxPolicy)
}

// place is where the cache is without its variable.
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

// valueOf is a variable's value, in letters of either case as npm takes them; empty where it is not set.
func valueOf(env []string, name string) string {
	for _, entry := range env {
		if n, value, _ := strings.Cut(entry, "="); strings.EqualFold(n, name) {
			return value
		}
	}
	return ""
}
